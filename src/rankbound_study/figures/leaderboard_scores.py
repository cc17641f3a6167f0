"""The leaderboard as points with intervals: a row per system, ordered by validation scores."""

from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import BASELINE, BEST, ORACLE, WORSE
from rankbound_study.figures import style
from rankbound_study.figures._leaderboard import NOTHING, data_sets, read_part, system_text
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results import scores
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_leaderboard_scores": FigureSpec(
        "Mean score of every system over the test topics with its 95 % interval, ordered by validation scores (small "
        "bars; over several data sets by mean rank). Hollow: significantly worse than the best system; cross: did not "
        "train. The dashed line is the baseline. The oracle is left out.",
        title="Leaderboard",
        needs=("leaderboard",),
        order=0,
    )
}

LARGEST = 60
"""Rows that fit on a page."""

_SYSTEM = ("variant", "model", "loss", "bounding")
_ROW_HEIGHT = 0.145
_LEAST_HEIGHT = 2.0
"""Inches, of which title, labels and legend take one and a half."""
_CONTROL = style.LineStyle(style.MUTED, "-", "D")
_UNTRAINED = style.LineStyle(style.MUTED, "-", "x")


def draw(files: StudyFiles) -> Any:
    """Draw a column per data set; systems share their rows."""
    table = read_part(files, "scores").filter(pl.col("model") != ORACLE, pl.col("low").is_not_null())
    if table.is_empty():
        return remark(NOTHING)
    every = table.select(_SYSTEM).unique().height
    order = _order(table)
    sets = data_sets(table)
    figure, axes = style.panels(1, len(sets), height=max(_LEAST_HEIGHT, 0.9 + _ROW_HEIGHT * len(order)), sharey=True)
    for panel, (data_set, own) in zip(axes[0], sets, strict=True):
        _panel(panel, own, order)
        panel.set_title(data_set.title)
        panel.set_xlabel(f"{own['metric'][0]} on the test part")
        panel.locator_params(axis="x", nbins=6 if len(sets) < 3 else 4)
    names = [system_text(dict(zip(_SYSTEM, key, strict=True))) for key in order]
    axes[0, 0].set_yticks(range(len(order)), names, fontsize=7)
    axes[0, 0].set_ylim(len(order) - 0.4, -0.6)
    style.shared_legend(figure, axes, columns=4)
    left_out = f" (the best {len(order)} of {every} systems)" if len(order) < every else ""
    figure.suptitle(f"Leaderboard{left_out}")
    return figure


def _order(table: pl.DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of the figure: systems by mean rank, the last ones left out of many, then controls."""
    ranks = table.group_by(_SYSTEM, maintain_order=True).agg(pl.col("rank").mean())
    trained = ranks.filter(pl.col("loss") != "none").sort("rank", nulls_last=True, maintain_order=True)
    controls = ranks.filter(pl.col("loss") == "none")
    return [*trained.head(LARGEST - len(controls)).select(_SYSTEM).rows(), *controls.select(_SYSTEM).rows()]


def _panel(panel: Any, own: pl.DataFrame, order: list[tuple[str, ...]]) -> None:
    rows = {tuple(row[name] for name in _SYSTEM): row for row in own.iter_rows(named=True)}
    boundings = scores.boundings(own)
    for bounding in boundings:
        # Lines without points give the legend the order of all figures.
        look = style.bounding_style(bounding, boundings)
        _point(panel, [], [], look, style.bounding_title(bounding))
    for place, key in enumerate(order):
        if key not in rows:
            continue
        row = rows[key]
        look, label = _look(row, boundings)
        text = system_text(row)
        worse = (row["best_verdict"] or "").startswith(WORSE)
        panel.plot([row["low"], row["high"]], [place, place], color=look.color, linewidth=1.1, label=f"_{text}")
        _point(panel, [row["score"]], [place], look, label, hollow=worse)
        if row["validation"] is not None:
            panel.plot(
                [row["validation"]],
                [place],
                color=style.MUTED,
                marker="|",
                markersize=5,
                linestyle="none",
                label="validation",
            )
        if row["role"] == BASELINE:
            panel.axvline(row["score"], color=style.MUTED, linewidth=0.8, linestyle=(0, (4, 2)), label="_baseline")
        if row["role"] == BEST:
            panel.axvline(row["score"], color=style.GRID, linewidth=0.8, zorder=0, label="_best")
    panel.grid(visible=False, axis="x")


def _look(row: dict[str, Any], boundings: list[str]) -> tuple[style.LineStyle, str]:
    """Return the style and the legend's label of a system."""
    if row["loss"] == "none":
        return _CONTROL, "control"
    if row["n_untrained"]:
        return _UNTRAINED, style.DID_NOT_TRAIN
    return style.bounding_style(row["bounding"], boundings), style.bounding_title(row["bounding"])


def _point(panel: Any, x: Any, y: Any, look: style.LineStyle, label: str, *, hollow: bool = False) -> None:
    panel.plot(
        x, y, color=look.color, marker=look.marker, linestyle="none", markersize=4,
        markerfacecolor="none" if hollow else look.color, label=label,
    )  # fmt: skip
