"""Figures 5.2 to 5.4: the share of topics that score at most x, trained on a bounded and on the unbounded loss."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.spec import one_per_loss
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import BOUNDED, JUDGED_BY, UNBOUNDED

SPECS = one_per_loss(
    5,
    2,
    "Share of topics whose {metric} is at most x, trained on the bounded and on the unbounded {loss} loss; grey where "
    "the bounded share is lower (fewer topics score that low).",
)


def draw(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw boundings in rows, data sets in columns; grey where the bounded loss has the smaller share (better)."""
    metric = JUDGED_BY[loss]
    frame = scores.per_topic(scores.read_scores(runs, [metric], choice), [metric])
    frame = frame.filter(pl.col("loss") == loss)
    untrained = untrained_cells(scores.chosen_trainings(runs, epochs, choice))
    sets = scores.data_sets(frame)
    figure, axes = style.panels(len(BOUNDED), len(sets), height=4.3, sharey=True, sharex="col")
    for column, data_set in enumerate(sets):
        of_set = scores.of_data_set(frame, data_set)
        for row, bounding in enumerate(BOUNDED):
            if {(*data_set, loss, UNBOUNDED), (*data_set, loss, bounding)} & untrained:
                style.mark_untrained(axes[row, column])
            _panel(axes[row, column], scores.paired(of_set, loss, bounding, metric))
        axes[0, column].set_xlim(*score_limits(frame, data_set.dataset, metric))
        axes[0, column].locator_params(axis="x", nbins=3)
        axes[0, column].set_title(data_set.title)
    axes[0, 0].set_yticks([0, 0.5, 1])
    style.outer_labels(figure, axes, metric, "share of topics with a score ≤ x")
    style.row_titles(axes, BOUNDED)
    style.shared_legend(figure, axes, columns=4)
    figure.suptitle(scores.heading(f"{metric} per topic, trained on {loss}: bounded against unbounded", choice, sets))
    return figure


def score_limits(frame: pl.DataFrame, dataset: str, metric: str) -> tuple[float, float]:
    """Return the score axis of a data set, from its smallest score, rounded down to a multiple of 0.05, to 1."""
    smallest = frame.filter(pl.col("dataset") == dataset)[metric].min()
    low = 0.0 if smallest is None else float(np.floor(float(smallest) * 20) / 20)  # type: ignore[arg-type]
    return max(min(low, 0.9), 0.0) - 0.005, 1.005


def _panel(axes: Any, pairs: pl.DataFrame) -> None:
    if pairs.is_empty():
        style.empty_panel(axes)
        return
    grid = np.unique(np.concatenate([pairs["unbounded"].to_numpy(), pairs["bounded"].to_numpy(), [0.0, 1.0]]))
    unbounded = _shares(pairs["unbounded"], grid)
    bounded = _shares(pairs["bounded"], grid)
    axes.broken_barh(
        _runs_of(bounded < unbounded, grid), (0, 1), color=style.SHADE, linewidth=0, label="bounded share is lower"
    )
    plain, dashed = style.SERIES[0], style.SERIES[2]
    axes.plot(grid, unbounded, drawstyle="steps-post", color=plain.color, linewidth=1.0, label="unbounded")
    axes.plot(
        grid, bounded, drawstyle="steps-post", color=dashed.color, linestyle=(0, (3, 1)), linewidth=1.1, label="bounded"
    )


def _runs_of(where: Any, grid: Any) -> list[tuple[float, float]]:
    """Return (start, width) of the longest stretches of the grid where the condition holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(np.int8)))
    starts, ends = edges[::2], np.minimum(edges[1::2], len(grid) - 1)
    return [(float(grid[start]), float(grid[end] - grid[start])) for start, end in zip(starts, ends, strict=True)]


def _shares(values: pl.Series, grid: Any) -> Any:
    return np.searchsorted(np.sort(values.to_numpy()), grid, side="right") / len(values)
