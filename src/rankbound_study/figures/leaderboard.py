"""Figures of a leaderboard: scores, scores by list length, and differences by topic."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import BASELINE, BEST, COLUMNS, LENGTHS, ORACLE, PARTNER, TOPICS, WORSE
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec, read_made
from rankbound_study.results import scores
from rankbound_study.results.specs import StudyFiles, described

SPECS: dict[str, FigureSpec] = {}

NOTHING = "There is no leaderboard to draw: add table_leaderboard to the tables of the configuration."


def data_sets(frame: pl.DataFrame) -> list[tuple[DataSet, pl.DataFrame]]:
    """Return the data sets of a table in its order, each with its rows."""
    parts = frame.partition_by("dataset", "nsr", maintain_order=True)
    return [(DataSet(*part.select("dataset", "nsr").row(0)), part) for part in parts]


def system_text(row: Mapping[str, Any]) -> str:
    """Return a system's name in figures: `mlp, AP, min-max`."""
    if row["loss"] == "none":
        return str(row["model"])
    return f"{row['model']}, {row['loss']}, {style.bounding_title(row['bounding'])}"


ROLES = {BEST: "best", PARTNER: "same model and loss", BASELINE: "baseline", "random": "random"}
"""Roles of systems in words."""


LARGEST = 60
"""Rows that fit on a page."""

_SYSTEM = ("variant", "model", "loss", "bounding")
_ROW_HEIGHT = 0.145
_LEAST_HEIGHT = 2.0
"""Inches, of which title, labels and legend take one and a half."""

_CONTROL = style.LineStyle(style.MUTED, "-", "D")
_UNTRAINED = style.LineStyle(style.MUTED, "-", "x")


@described(
    SPECS,
    figure_leaderboard_scores=FigureSpec(
        "Mean score of every system over the test topics with its 95 % interval, ordered by validation scores (small "
        "bars; over several data sets by mean rank). Hollow: significantly worse than the best system; cross: did not "
        "train. The dashed line is the baseline. The oracle is left out.",
        title="Leaderboard",
        needs=("leaderboard",),
        order=0,
    ),
)
def leaderboard_scores(files: StudyFiles) -> Any:
    """Draw a column per data set; systems share their rows."""
    table = read_made(files.leaderboard, "table_leaderboard", COLUMNS).filter(
        pl.col("model") != ORACLE, pl.col("low").is_not_null()
    )
    if table.is_empty():
        return style.remark(NOTHING)
    every = table.select(_SYSTEM).unique().height
    order = _order(table)
    sets = data_sets(table)
    figure, axes = style.panels(1, len(sets), height=max(_LEAST_HEIGHT, 0.9 + _ROW_HEIGHT * len(order)), sharey=True)
    for panel, (data_set, own) in zip(axes[0], sets, strict=True):
        _scores_panel(panel, own, order)
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


def _scores_panel(panel: Any, own: pl.DataFrame, order: list[tuple[str, ...]]) -> None:
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


_SHIFT = 0.08
"""Distance between the points of two systems, in groups, which keeps their intervals apart."""


@described(
    SPECS,
    figure_leaderboard_lengths=FigureSpec(
        "Mean score by the number of items of the list, in groups of about equally many test lists, with 95 % "
        "intervals over topics: the best system by validation, the same model and loss with another bounding, the "
        "baseline and a random ordering.",
        title="Scores by list length",
        needs=("leaderboard",),
        order=2,
    ),
)
def leaderboard_lengths(files: StudyFiles) -> Any:
    """Draw a column per data set, with a line per system."""
    table = read_made(files.leaderboard, "table_leaderboard_lengths", LENGTHS)
    if table.is_empty():
        return style.remark(NOTHING)
    sets = data_sets(table)
    figure, axes = style.panels(1, len(sets), height=3.1, sharey=True)
    looks = dict(zip(ROLES, style.SERIES, strict=False))
    for panel, (data_set, own) in zip(axes[0], sets, strict=True):
        groups = own.select("from_items", "to_items").unique(maintain_order=True).sort("from_items").rows()
        several = len(sets) > 1
        for number, ((role,), line) in enumerate(own.group_by("role", maintain_order=True)):
            text = system_text(line.row(0, named=True))
            name = ROLES[str(role)] if several or text == role else f"{ROLES[str(role)]}: {text}"
            _length_line(panel, line, groups, looks[str(role)], name, (number - 1.5) * _SHIFT)
        panel.set_title(data_set.title)
        panel.set_xlabel("items in the list")
        panel.set_xticks(range(len(groups)), [_range(*group) for group in groups])
        panel.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel(table["metric"][0])
    style.shared_legend(figure, axes, columns=4 if len(sets) > 1 else 2)
    figure.suptitle("Scores by list length")
    return figure


def _length_line(
    panel: Any, line: pl.DataFrame, groups: list[Any], look: style.LineStyle, name: str, shift: float
) -> None:
    places = [groups.index(group) + shift for group in line.select("from_items", "to_items").rows()]
    reach = [(line["mean"] - line["low"]).fill_null(0), (line["high"] - line["mean"]).fill_null(0)]
    panel.errorbar(
        places, line["mean"], reach, color=look.color, linestyle=look.dashes, linewidth=look.width, elinewidth=0.8,
        marker=look.marker, markersize=3.6, label=name,
    )  # fmt: skip


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


@described(
    SPECS,
    figure_leaderboard_topics=FigureSpec(
        "Score of the best system by validation minus that of another one, for every test topic, in ascending order. "
        "The table of the leaderboard's section names the topics at both ends.",
        title="Topics that gain and lose",
        needs=("leaderboard",),
        order=3,
    ),
)
def leaderboard_topics(files: StudyFiles) -> Any:
    """Draw a row per comparison and a column per data set."""
    table = read_made(files.leaderboard, "table_leaderboard_topics", TOPICS)
    if table.is_empty():
        return style.remark(NOTHING)
    sets = data_sets(table)
    roles = [role for role in ROLES if role in set(table["role"])]
    figure, axes = style.panels(len(roles), len(sets), height=0.6 + 1.7 * len(roles), sharex=True, sharey=True)
    for column, (data_set, own) in enumerate(sets):
        for row, role in enumerate(roles):
            _topics_panel(axes[row, column], own.filter(pl.col("role") == role), narrow=len(sets) > 2)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "topics, % of all", f"difference in {table['metric'][0]}")
    style.row_titles(axes, [ROLES[role] for role in roles])
    figure.suptitle("Topics that gain and lose: the best system minus another one")
    return figure


def _topics_panel(panel: Any, own: pl.DataFrame, *, narrow: bool) -> None:
    if own.is_empty():
        style.empty_panel(panel, "nothing to compare with")
        return
    place, count, difference = own["place"].to_numpy(), own["n_topics"][0], own["difference"].to_numpy()
    share = 100 * (place - 0.5) / count
    panel.fill_between(
        share, difference, where=difference > 0, color=style.BLUE, linewidth=0, alpha=0.75, step="mid", label="_gain"
    )
    panel.fill_between(
        share,
        difference,
        where=difference < 0,
        color=style.VERMILION,
        linewidth=0,
        alpha=0.75,
        step="mid",
        label="_loss",
    )
    panel.axhline(0, color=style.MUTED, linewidth=0.7, label="_no difference")
    panel.set_xlim(0, 100)
    # Of many topics, some are left out: places tell how many gain and lose.
    lose = 100 * place[difference < 0].max(initial=0) / count
    gain = 100 * (count + 1 - place[difference > 0].min(initial=count + 1)) / count
    counts = f"{gain:.0f} % gain\n{lose:.0f} % lose"
    other = system_text(own.row(0, named=True))
    style.note(panel, counts if narrow else f"minus {other}\n{counts}", (0.02, 0.97), ha="left", va="top")
