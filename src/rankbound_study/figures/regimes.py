"""The map of regimes: the effect of bounding by the spread of list sizes, as small multiples."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rankbound_study.claims.effects import REGIME_COLUMNS
from rankbound_study.config.samplings import SampledName
from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.made_files import reading
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import AFFINE, LOSSES

SPECS = {
    "figure_regimes": FigureSpec(
        "Effect of bounding on generated data, in the mean of the metric that judges the loss, by the planted standard "
        "deviation of log P. Rows: losses, trained with as many factors as the true rank or with fewer. Columns: the "
        "correlation of list size and kind of taste. Bars are 95 % intervals over users and seeds; hollow marks: each "
        "user has one of several ratios of negatives; crosses: some training did not train. The vertical axis is "
        "linear within ±0.05 and logarithmic beyond.",
        title="Effect of bounding by regime",
        needs=("regimes",),
    )
}
NOTHING = "There is no map of regimes to draw: add table_regimes to the tables of the configuration."

LINEAR_WITHIN = 0.05
"""Largest effect on the linear part of the axis."""

_TICKS = (-0.5, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.5)
_SHIFT = 0.035
"""Distance between the marks of two boundings, which keeps their intervals apart."""


def draw(files: StudyFiles) -> Any:
    """Draw a row of panels per loss and capacity, with a line per bounding."""
    table = _read(files)
    if table.is_empty():
        return remark(NOTHING)
    rows = list(_rows(table))
    correlations = table["correlation"].unique().sort().to_list()
    boundings = table["bounding"].unique(maintain_order=True).to_list()
    figure, axes = style.panels(len(rows), len(correlations), height=0.6 + 1.25 * len(rows), sharex=True, sharey=True)
    axes[0, 0].set_yscale("symlog", linthresh=LINEAR_WITHIN)
    axes[0, 0].set_yticks(_TICKS, [f"{tick:g}".replace("-", "−") for tick in _TICKS])
    reach = max(1.2 * LINEAR_WITHIN, 1.2 * float(table.select(pl.max_horizontal(-pl.col("low"), "high").max()).item()))
    axes[0, 0].set_ylim(-reach, reach)
    axes[0, 0].set_xticks(table["spread"].unique().sort().to_list())
    for panels, (_, own) in zip(axes, rows, strict=True):
        for panel, correlation in zip(panels, correlations, strict=True):
            _panel(panel, own.filter(pl.col("correlation") == correlation), boundings)
    for panel, correlation in zip(axes[0], correlations, strict=True):
        panel.set_title(f"correlation {correlation:g}")
    style.row_titles(axes, [name for name, _ in rows])
    style.outer_labels(figure, axes, "spread of list sizes", "bounded minus unbounded")
    style.shared_legend(figure, axes, columns=3)
    figure.suptitle("Where does bounding help? Synthetic data")
    return figure


def _read(files: StudyFiles) -> pl.DataFrame:
    """Read the rows of planted data sets; affine boundings of nRBP are the same up to a factor, so one is kept."""
    if files.regimes is None:
        return pl.DataFrame(schema=REGIME_COLUMNS)
    with reading(files.regimes):
        table = pl.read_csv(files.regimes, schema=REGIME_COLUMNS)
    same = (pl.col("loss") == "nRBP") & pl.col("bounding").is_in(AFFINE[1:])
    return table.filter(pl.col("spread").is_not_null(), ~same)


def _rows(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    below = pl.col("factors") < pl.col("rank")
    for capacity, chosen in (("true rank", ~below), ("fewer factors", below)):
        for loss in LOSSES:
            own = table.filter(chosen, pl.col("loss") == loss)
            if len(own):
                yield f"{loss}, {capacity}", own


def _panel(panel: Any, rows: pl.DataFrame, boundings: list[str]) -> None:
    if rows.is_empty():
        style.empty_panel(panel)
        return
    panel.axhline(0, color=style.MUTED, linewidth=0.7, label="_no effect")
    mixed = pl.Series([bool(SampledName.of(name).ratios) for name in rows["dataset"]], dtype=pl.Boolean)
    for place, bounding in enumerate(boundings):
        look = style.bounding_style(bounding, boundings)
        shift = (place - (len(boundings) - 1) / 2) * _SHIFT
        for own, is_mixed in ((rows.filter(~mixed), False), (rows.filter(mixed), True)):
            line = own.filter(pl.col("bounding") == bounding).sort("spread")
            trained, untrained = line.filter(n_untrained=0), line.filter(pl.col("n_untrained") > 0)
            if len(trained):
                _effects(panel, trained, shift + is_mixed * _SHIFT / 2, look, bounding, is_mixed=is_mixed)
            panel.plot(
                untrained["spread"] + shift, untrained["effect"], linestyle="none", marker="x", markersize=5,
                color=look.color, label=f"_{bounding}, some did not train",
            )  # fmt: skip


def _effects(
    panel: Any, line: pl.DataFrame, shift: float, look: style.LineStyle, bounding: str, *, is_mixed: bool
) -> None:
    reach = [line["effect"] - line["low"], line["high"] - line["effect"]]
    panel.errorbar(
        line["spread"] + shift, line["effect"], reach, color=look.color, linestyle="none" if is_mixed else look.dashes,
        linewidth=look.width, elinewidth=0.8, marker=look.marker, markersize=3.6,
        markerfacecolor="white" if is_mixed else look.color,
        label=f"_{bounding}, mixed ratios" if is_mixed else bounding,
    )  # fmt: skip
