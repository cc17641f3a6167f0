"""Figure 5.1: mean nDCG@k against the cut-off k, a line per bounding."""

from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import LOSSES

SPECS = {
    "figure_5_1": FigureSpec(
        "Mean nDCG@k against the cut-off k, a line per bounding; rows are training losses, columns data sets. Every "
        "panel has its own vertical scale. Hollow: did not train.",
        needs_runs=True,
    )
}

CUTOFFS = range(1, 21)


def draw(runs: Path, choice: RunsChoice, *, epochs: Path | None = None) -> Any:
    """Draw losses in rows, data sets in columns; a value is the mean over topics, averaged over folds and seeds."""
    untrained = untrained_cells(scores.chosen_trainings(runs, epochs, choice))
    metrics = [f"nDCG@{k}" for k in CUTOFFS]
    frame = scores.per_topic(scores.read_scores(runs, metrics, choice), metrics)
    sets = scores.data_sets(frame)
    names = scores.boundings(frame)
    key = ["dataset", "nsr_test", "loss", "bounding"]
    means = frame.group_by(key, maintain_order=True).agg(pl.col(metrics).mean())
    figure, axes = style.panels(len(LOSSES), len(sets), height=4.4, sharex=True)
    for column, data_set in enumerate(sets):
        of_set = scores.of_data_set(means, data_set)
        for row, loss in enumerate(LOSSES):
            hollow = [name for name in names if (*data_set, loss, name) in untrained]
            _panel(axes[row, column], of_set.filter(pl.col("loss") == loss), metrics, names, hollow)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "cut-off k", "mean nDCG@k")
    style.row_titles(axes, [f"{loss} loss" for loss in LOSSES])
    style.shared_legend(figure, axes, columns=5)
    figure.suptitle(scores.heading("nDCG@k by bounding, loss (rows) and data set (columns)", choice, sets))
    return figure


def _panel(axes: Any, means: pl.DataFrame, metrics: list[str], names: list[str], hollow: list[str]) -> None:
    """Draw a line per bounding, with hollow markers if it did not train."""
    if means.is_empty():
        style.empty_panel(axes)
        return
    for position, bounding in enumerate(names):
        line = means.filter(pl.col("bounding") == bounding).select(metrics).rows()
        if line:
            look = style.bounding_style(bounding, names)
            axes.plot(
                list(CUTOFFS),
                line[0],
                color=look.color,
                linestyle=look.dashes,
                linewidth=1.0,
                marker=look.marker,
                markersize=2.6,
                markerfacecolor="none" if bounding in hollow else look.color,
                markevery=(position % 5, 5),
                label=style.bounding_title(bounding),
            )
    if hollow:
        axes.plot(
            [], [], color=style.MUTED, marker="o", markersize=2.6, markerfacecolor="none", linestyle="none",
            label=style.DID_NOT_TRAIN,
        )  # fmt: skip
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlim(0.5, 20.5)
    axes.locator_params(axis="y", nbins=5)
