"""The dose and the response: the effect of weights that are powers of a list's number of pairs."""

from typing import Any

import polars as pl

from rankbound_study.claims.law import EXPERIMENT, SECOND
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.figures import style
from rankbound_study.figures._law import COLORS, read_cells
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_weight_powers": FigureSpec(
        "The effect on the mean score of training with list weights that are a power of P(N − P), the number of "
        "pairs, in the metric that judges the loss, with 95 % intervals; at the power 0 all lists count alike. Hollow, "
        "at the right: the weights of the power −1 permuted at random between lists. Up to the power 1: data of the "
        "second hypothesis, that a list's best influence is proportional to its relevant items (0.5 for nDCG and AP, "
        "−0.5 for nRBP).",
        title="Powers of the number of pairs",
        needs=("law",),
        order=11,
    )
}

_PERMUTED = "permuted(pairs^-1)"
_AT = 1.0
"""The place of the permuted weights on the axis."""


def draw(files: StudyFiles) -> Any:
    """Draw a panel per data set, with a line per loss."""
    cells = read_cells(files).filter(pl.col("origin").is_in([EXPERIMENT, SECOND]))
    if cells.is_empty():
        return remark("There is nothing to draw: add the experiment `weights` and table_law to the configuration.")
    sets = list(dict.fromkeys(cells.select("dataset", "nsr", "origin").rows()))
    figure, axes = style.panels(1, len(sets), height=3.1, sharey="row")
    for panel, (*key, origin) in zip(axes[0], sets, strict=True):
        on_set = pl.col("dataset") == key[0], pl.col("nsr").eq_missing(pl.lit(key[1], pl.Int8))
        own = cells.filter(pl.col("origin") == origin, *on_set)
        panel.axhline(0, color=style.MUTED, linewidth=0.6, label="_zero")
        for place, loss in enumerate(loss for loss in COLORS if loss in own["loss"]):
            _curve(panel, own.filter(pl.col("loss") == loss), loss, (place - 1) * 0.035)
        panel.set_title(DataSet(*key).label)
        ticks = {-1.0: "−1", -0.5: "−0.5", 0.0: "0", 0.5: "0.5"}
        ticks = {-1.5: "−1.5", **ticks, _AT: "−1,\npermuted"} if origin == EXPERIMENT else {**ticks, 1.0: "1\n"}
        panel.set_xticks(list(ticks), list(ticks.values()))
        panel.set_xlabel("power of P(N − P)")
    axes[0, 0].set_ylabel("score with weights − without")
    style.shared_legend(figure, axes, columns=3)
    figure.suptitle("Powers of the number of pairs")
    return figure


def _curve(panel: Any, own: pl.DataFrame, loss: str, shift: float) -> None:
    """Draw the points of a loss, shifted sideways so that intervals do not cover each other."""
    rows = {row["weights"]: row for row in own.iter_rows(named=True)}
    weights = {text: ListWeights.of(text) for text in rows}
    powers = {one.power: rows[text] for text, one in weights.items() if one.quantity == "pairs" and not one.permuted}
    zero = {"effect": 0.0, "low": 0.0, "high": 0.0}
    points = sorted({0.0: zero, **powers}.items())
    x = [power + shift for power, _ in points]
    color = COLORS[loss]
    panel.plot(x, [row["effect"] for _, row in points], color=color, marker="o", markersize=3.5, label=loss)
    for place, (_, row) in zip(x, points, strict=True):
        panel.plot([place] * 2, [row["low"], row["high"]], color=color, linewidth=0.8, label=f"_{loss}")
    if _PERMUTED in rows:
        moved = rows[_PERMUTED]
        panel.plot([_AT + shift] * 2, [moved["low"], moved["high"]], color=color, linewidth=0.8, label=f"_{loss}")
        look = {"color": color, "marker": "o", "markersize": 4, "markerfacecolor": "none", "linestyle": "none"}
        panel.plot([_AT + shift], [moved["effect"]], label=f"_{loss}, permuted", **look)
