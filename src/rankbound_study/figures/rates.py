"""Test scores by learning rate: what remains of the differences between boundings when each has its own rate."""

from typing import Any

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import read_table
from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.jobs.files import RATES
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import BOUNDINGS, JUDGED_BY, LOSSES

SPECS = {
    "figure_bounding_rates": FigureSpec(
        "Test score by learning rate, the mean over folds and drawings, at the epoch that the fold's validation part "
        "selects. Columns are data sets; rows are losses, each scored by the metric that judges it. Marks are the "
        "rates that folds select by their validation parts: the more folds, the larger.",
        title="Learning rates and boundings",
        needs=("rates",),
    )
}

_LINE = ["dataset", "nsr_test", "loss", "bounding"]
MARK = 80.0
"""Area of the mark of a rate that all folds select, in square points."""
NAMES = 3
"""Number of rates whose names have room below a panel."""


def draw(files: StudyFiles) -> Any:
    """Draw a column per data set, a row per loss, a line per bounding."""
    assert files.rates is not None
    frame = pl.from_arrow(read_table(files.rates, RATES))
    assert isinstance(frame, pl.DataFrame)
    frame = frame.filter(pl.col("study") != STUDY, pl.col("loss").is_in(LOSSES), pl.col("bounding").is_in(BOUNDINGS))
    if frame.is_empty():
        return remark("There are no grids of learning rates: every training has one rate.")
    points = frame.group_by(*_LINE, "learning_rate").agg(pl.col("test_score").mean(), pl.col("chosen").sum())
    sets = sorted((DataSet(*row) for row in points.select(_LINE[:2]).unique().rows()), key=lambda one: one.place)
    losses = [loss for loss in LOSSES if loss in set(points["loss"])]
    figure, axes = style.panels(len(losses), len(sets), height=0.9 + 1.5 * len(losses), sharex="col")
    for row, loss in enumerate(losses):
        for column, data_set in enumerate(sets):
            here = pl.col("dataset") == data_set.dataset, pl.col("nsr_test").eq_missing(data_set.nsr)
            _panel(axes[row, column], points.filter(*here, pl.col("loss") == loss))
    for panel, data_set in zip(axes[0], sets, strict=True):
        panel.set_title(data_set.title)
    for panel in axes[-1]:
        panel.set_xlabel("learning rate")
    style.row_titles(axes, [f"{loss} loss by {JUDGED_BY[loss]}" for loss in losses])
    style.shared_legend(figure, axes, columns=5)
    return figure


def _panel(panel: Any, own: pl.DataFrame) -> None:
    if own.is_empty():
        style.empty_panel(panel)
        return
    for bounding in [one for one in BOUNDINGS if one in set(own["bounding"])]:
        line = own.filter(pl.col("bounding") == bounding).sort("learning_rate")
        look, title = style.bounding_style(bounding, BOUNDINGS), style.bounding_title(bounding)
        x, y = (line[name].to_numpy() for name in ("learning_rate", "test_score"))
        panel.plot(x, y, color=look.color, linestyle=look.dashes, linewidth=1.0, label=title)
        marked = line.filter(pl.col("chosen") > 0)
        share = marked["chosen"].to_numpy() / line["chosen"].sum()
        panel.scatter(
            marked["learning_rate"], marked["test_score"], s=MARK * share, color=look.color, marker=look.marker,
            alpha=0.7, linewidths=0, label=f"_{title}, selected",
        )  # fmt: skip
    rates = own["learning_rate"].unique().sort().to_list()
    panel.set_xscale("log")
    # The lowest, the middle and the highest.
    named = rates if len(rates) <= NAMES else (rates[0], rates[(len(rates) - 1) // 2], rates[-1])
    panel.set_xticks(rates, [f"{rate:g}" if rate in named else "" for rate in rates])
    panel.minorticks_off()
    panel.locator_params(axis="y", nbins=4)
