"""Scores by the length of the lists, of the best system and those that it is compared with."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures._leaderboard import NOTHING, ROLES, data_sets, read_part, system_text
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_leaderboard_lengths": FigureSpec(
        "Mean score by the number of items of the list, in groups of about equally many test lists, with 95 % "
        "intervals over topics: the best system by validation, the same model and loss with another bounding, the "
        "baseline and a random ordering.",
        title="Scores by list length",
        needs=("leaderboard",),
        order=2,
    )
}
_SHIFT = 0.08
"""Distance between the points of two systems, in groups, which keeps their intervals apart."""


def draw(files: StudyFiles) -> Any:
    """Draw a column per data set, with a line per system."""
    table = read_part(files, "lengths")
    if table.is_empty():
        return remark(NOTHING)
    sets = data_sets(table)
    figure, axes = style.panels(1, len(sets), height=3.1, sharey=True)
    looks = dict(zip(ROLES, style.SERIES, strict=False))
    for panel, (data_set, own) in zip(axes[0], sets, strict=True):
        groups = own.select("from_items", "to_items").unique(maintain_order=True).sort("from_items").rows()
        several = len(sets) > 1
        for number, ((role,), line) in enumerate(own.group_by("role", maintain_order=True)):
            text = system_text(line.row(0, named=True))
            name = ROLES[str(role)] if several or text == role else f"{ROLES[str(role)]}: {text}"
            _line(panel, line, groups, looks[str(role)], name, (number - 1.5) * _SHIFT)
        panel.set_title(data_set.title)
        panel.set_xlabel("items in the list")
        panel.set_xticks(range(len(groups)), [_range(*group) for group in groups])
        panel.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel(table["metric"][0])
    style.shared_legend(figure, axes, columns=4 if len(sets) > 1 else 2)
    figure.suptitle("Scores by list length")
    return figure


def _line(panel: Any, line: pl.DataFrame, groups: list[Any], look: style.LineStyle, name: str, shift: float) -> None:
    places = [groups.index(group) + shift for group in line.select("from_items", "to_items").rows()]
    reach = [(line["mean"] - line["low"]).fill_null(0), (line["high"] - line["mean"]).fill_null(0)]
    panel.errorbar(
        places, line["mean"], reach, color=look.color, linestyle=look.dashes, linewidth=look.width, elinewidth=0.8,
        marker=look.marker, markersize=3.6, label=name,
    )  # fmt: skip


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"
