"""Figures 5.5 to 5.7: each topic's score, trained on a bounded loss, against its score under the unbounded loss."""

from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.score_distributions import score_limits
from rankbound_study.figures.spec import one_per_loss
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import BOUNDED, JUDGED_BY, UNBOUNDED

SPECS = one_per_loss(
    5, 5, "{metric} of each topic, trained on the bounded {loss} loss (y) against the unbounded one (x)."
)


def draw(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw boundings in rows, data sets in columns; points above the diagonal are topics that the bounding improves."""
    metric = JUDGED_BY[loss]
    frame = scores.per_topic(scores.read_scores(runs, [metric], choice), [metric])
    frame = frame.filter(pl.col("loss") == loss)
    untrained = untrained_cells(scores.chosen_trainings(runs, epochs, choice))
    sets = scores.data_sets(frame)
    figure, axes = style.panels(len(BOUNDED), len(sets), height=4.3, sharex="col", sharey="col")
    for column, data_set in enumerate(sets):
        of_set = scores.of_data_set(frame, data_set)
        limits = score_limits(frame, data_set.dataset, metric)
        for row, bounding in enumerate(BOUNDED):
            if {(*data_set, loss, UNBOUNDED), (*data_set, loss, bounding)} & untrained:
                style.mark_untrained(axes[row, column])
            _panel(axes[row, column], scores.paired(of_set, loss, bounding, metric), limits)
        axes[0, column].set(xlim=limits, ylim=limits)
        axes[0, column].locator_params(nbins=3)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "unbounded", f"{metric}, bounded loss")
    style.row_titles(axes, BOUNDED)
    style.shared_legend(figure, axes, columns=1)
    figure.suptitle(
        scores.heading(f"{metric} per topic, trained on {loss}: bounded (y) against unbounded (x)", choice, sets)
    )
    return figure


def _panel(axes: Any, pairs: pl.DataFrame, limits: tuple[float, float]) -> None:
    if pairs.is_empty():
        style.empty_panel(axes)
        return
    axes.plot(limits, limits, color=style.MUTED, linewidth=0.7, linestyle=(0, (4, 2)), label="_equal scores")
    style.points(axes, pairs["unbounded"].to_numpy(), pairs["bounded"].to_numpy(), label="topic", in_legend=False)
    above = int((pairs["bounded"] > pairs["unbounded"]).sum())
    below = int((pairs["bounded"] < pairs["unbounded"]).sum())
    style.note(axes, f"{above} above", (0.04, 0.96), ha="left", va="top")
    style.note(axes, f"{below} below", (0.98, 0.04), ha="right", va="bottom")
