"""The law of list weights: the effect of every cell against the change of each predictor."""

from typing import Any

import numpy as np
import polars as pl

from rankbound_study.claims.law import ALL, BOUNDS, CHANGES, MISMATCH, WEIGHTS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures._law import COLORS, NOTHING, read_cells, read_lines
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_law": FigureSpec(
        "The effect of list weights on the mean score with its 95 % interval, against the change of the mismatch of "
        "the training lists (left, the law's predictor) and against the variation of the weights (right). Filled: "
        "bounds; hollow: weights of the experiment. The line is that of least squares through all cells.",
        title="The law of list weights",
        needs=("law",),
        order=10,
    )
}

_AXES = {MISMATCH: "change of mismatch (CV)", WEIGHTS: "variation of weights (CV)"}
_MARKERS = "osDv^P"


def draw(files: StudyFiles) -> Any:
    """Draw a panel per predictor."""
    cells = read_cells(files).filter(pl.col("same_as").fill_null("") == "")
    if cells.is_empty():
        return remark(NOTHING)
    lines = read_lines(files).filter(pl.col("cells") == ALL)
    figure, axes = style.panels(1, len(_AXES), height=3.6, sharey=True)
    sets = list(dict.fromkeys(cells.select("dataset", "nsr").rows()))
    for panel, (predictor, label) in zip(axes[0], _AXES.items(), strict=True):
        panel.axhline(0, color=style.MUTED, linewidth=0.6, label="_zero")
        _line(panel, cells[CHANGES[predictor]], lines.filter(pl.col("predictor") == predictor))
        for row in cells.iter_rows(named=True):
            _point(panel, row, CHANGES[predictor], _MARKERS[sets.index((row["dataset"], row["nsr"])) % len(_MARKERS)])
        panel.set_xlabel(label)
    _legend(axes[0, 0], cells, sets)
    axes[0, 0].set_ylabel("score with weights − without")
    style.shared_legend(figure, axes, columns=4)
    figure.suptitle("The law of list weights")
    return figure


def _line(panel: Any, changes: pl.Series, lines: pl.DataFrame) -> None:
    if lines.is_empty():
        return
    line = lines.row(0, named=True)
    ends = np.array([min(0.0, float(changes.min())), float(changes.max())])  # type: ignore[arg-type]
    panel.plot(ends, line["intercept"] + line["slope"] * ends, color=style.INK, linewidth=1, label="least squares")
    text = "slope {slope:+.4f}\n({slope_low:+.4f} to {slope_high:+.4f}), R² {r_squared:.2f}".format_map(line)
    style.note(panel, text.replace("-", "−"), (0.02, 0.02), ha="left", va="bottom")


def _point(panel: Any, row: dict[str, Any], column: str, marker: str) -> None:
    color, x = COLORS[row["loss"]], row[column]
    name = f"_{row['loss']}, {row['weights']}, {DataSet(row['dataset'], row['nsr']).label}"
    panel.plot([x, x], [row["low"], row["high"]], color=color, linewidth=0.7, alpha=0.55, label=name)
    face = color if row["origin"] == BOUNDS else "none"
    panel.plot(
        [x],
        [row["effect"]],
        color=color,
        marker=marker,
        markersize=4,
        markerfacecolor=face,
        linestyle="none",
        label=name,
    )


def _legend(panel: Any, cells: pl.DataFrame, sets: list[Any]) -> None:
    """Add an entry for each loss and data set."""
    for loss in cells["loss"].unique(maintain_order=True):
        panel.plot([], [], color=COLORS[loss], marker="o", markersize=4, linestyle="none", label=loss)
    for place, key in enumerate(sets):
        marker = _MARKERS[place % len(_MARKERS)]
        panel.plot([], [], color=style.MUTED, marker=marker, markersize=4, linestyle="none", label=DataSet(*key).label)
