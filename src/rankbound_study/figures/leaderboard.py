"""Figures of a leaderboard: scores, scores by list length, and differences by topic."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import BASELINE, BEST, COLUMNS, LENGTHS, ORACLE, PARTNER, TOPICS, WORSE
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec, made
from rankbound_study.results import scores
from rankbound_study.results.study_files import StudyFiles

FIGURES = Catalogue(FigureSpec, "figures_leaderboard.md")

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

_ROW_HEIGHT = 0.145
_LEAST_HEIGHT = 2.0
"""Inches, of which title, labels and legend take one and a half."""

_CONTROL = style.LineStyle(style.MUTED, "-", "D")
_UNTRAINED = style.LineStyle(style.MUTED, "-", "x")


@FIGURES.add("figure_leaderboard_scores", title="Leaderboard", needs=("leaderboard",), order=0)
def leaderboard_scores(files: StudyFiles) -> Any:
    """Draw a column per data set; systems share their rows."""
    table = made(files.leaderboard, "table_leaderboard", COLUMNS).filter(
        pl.col("model") != ORACLE, pl.col("low").is_not_null()
    )
    if table.is_empty():
        return style.remark(NOTHING)
    every = table.select(scores.SYSTEM).unique().height
    # Systems by mean rank, the last ones left out of many, then controls.
    ranks = table.group_by(scores.SYSTEM, maintain_order=True).agg(pl.col("rank").mean())
    trained = ranks.filter(pl.col("loss") != "none").sort("rank", nulls_last=True, maintain_order=True)
    controls = ranks.filter(pl.col("loss") == "none").select(scores.SYSTEM).rows()
    order = [*trained.head(LARGEST - len(controls)).select(scores.SYSTEM).rows(), *controls]
    sets = data_sets(table)
    figure, axes = style.panels(1, len(sets), height=max(_LEAST_HEIGHT, 0.9 + _ROW_HEIGHT * len(order)), sharey=True)
    for panel, (data_set, own) in zip(axes[0], sets, strict=True):
        _scores_panel(panel, own, order)
        panel.set_title(data_set.title)
        panel.set_xlabel(f"{own['metric'][0]} on the test part")
        panel.locator_params(axis="x", nbins=6 if len(sets) < 3 else 4)
    names = [system_text(dict(zip(scores.SYSTEM, key, strict=True))) for key in order]
    axes[0, 0].set_yticks(range(len(order)), names, fontsize=7)
    axes[0, 0].set_ylim(len(order) - 0.4, -0.6)
    left_out = f" (the best {len(order)} of {every} systems)" if len(order) < every else ""
    return style.finish(figure, axes, f"Leaderboard{left_out}", legend=4)


def _scores_panel(panel: Any, own: pl.DataFrame, order: list[tuple[str, ...]]) -> None:
    rows = {tuple(row[name] for name in scores.SYSTEM): row for row in own.iter_rows(named=True)}
    boundings = scores.boundings(own)
    # Entries without points give the legend the order of all figures.
    looks = ((bounding, style.bounding_style(bounding, boundings)) for bounding in boundings)
    style.entries(panel, ((style.bounding_title(bounding), look.color, look.marker) for bounding, look in looks))
    for place, key in enumerate(order):
        if key not in rows:
            continue
        row = rows[key]
        look, label = style.bounding_style(row["bounding"], boundings), style.bounding_title(row["bounding"])
        if row["loss"] == "none":
            look, label = _CONTROL, "control"
        elif row["n_untrained"]:
            look, label = _UNTRAINED, style.DID_NOT_TRAIN
        worse = (row["best_verdict"] or "").startswith(WORSE)
        ends = [row["low"], row["high"]]
        panel.plot(ends, [place, place], color=look.color, linewidth=1.1, label=f"_{system_text(row)}")
        style.marks(panel, [row["score"]], [place], look.color, look.marker, hollow=worse, label=label)
        if row["validation"] is not None:
            style.marks(panel, [row["validation"]], [place], style.MUTED, "|", markersize=5, label="validation")
        if row["role"] == BASELINE:
            panel.axvline(row["score"], color=style.MUTED, linewidth=0.8, linestyle=(0, (4, 2)), label="_baseline")
        if row["role"] == BEST:
            panel.axvline(row["score"], color=style.GRID, linewidth=0.8, zorder=0, label="_best")
    panel.grid(visible=False, axis="x")


_SHIFT = 0.08
"""Distance between the points of two systems, in groups, which keeps their intervals apart."""


@FIGURES.add("figure_leaderboard_lengths", title="Scores by list length", needs=("leaderboard",), order=2)
def leaderboard_lengths(files: StudyFiles) -> Any:
    """Draw a column per data set, with a line per system."""
    table = made(files.leaderboard, "table_leaderboard_lengths", LENGTHS)
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
            label = ROLES[str(role)] if several or text == role else f"{ROLES[str(role)]}: {text}"
            places = [groups.index(group) for group in line.select("from_items", "to_items").rows()]
            # A group without an interval has a mark alone.
            numbers = (line[name].fill_null(line["mean"]) for name in ("mean", "low", "high"))
            x = [place + (number - 1.5) * _SHIFT for place in places]
            style.with_intervals(panel, looks[str(role)], x, numbers, label=label)
        panel.set_title(data_set.title)
        panel.set_xlabel("items in the list")
        titles = [str(low) if low == high else f"{low}–{high}" for low, high in groups]
        panel.set_xticks(range(len(groups)), titles)
        panel.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel(table["metric"][0])
    return style.finish(figure, axes, "Scores by list length", legend=4 if len(sets) > 1 else 2)


@FIGURES.add("figure_leaderboard_topics", title="Topics that gain and lose", needs=("leaderboard",), order=3)
def leaderboard_topics(files: StudyFiles) -> Any:
    """Draw a row per comparison and a column per data set."""
    table = made(files.leaderboard, "table_leaderboard_topics", TOPICS)
    if table.is_empty():
        return style.remark(NOTHING)
    sets = data_sets(table)
    roles = [role for role in ROLES if role in set(table["role"])]
    figure, axes = style.panels(len(roles), len(sets), height=0.6 + 1.7 * len(roles), sharex=True, sharey=True)
    for column, (data_set, own) in enumerate(sets):
        for row, role in enumerate(roles):
            _topics_panel(axes[row, column], own.filter(pl.col("role") == role), narrow=len(sets) > 2)
        axes[0, column].set_title(data_set.title)
    title, y = "Topics that gain and lose: the best system minus another one", f"difference in {table['metric'][0]}"
    return style.finish(figure, axes, title, x="topics, % of all", y=y, rows=[ROLES[role] for role in roles])


def _topics_panel(panel: Any, own: pl.DataFrame, *, narrow: bool) -> None:
    if own.is_empty():
        style.empty_panel(panel, "nothing to compare with")
        return
    place, count, difference = own["place"].to_numpy(), own["n_topics"][0], own["difference"].to_numpy()
    share = 100 * (place - 0.5) / count
    signs = (("gain", difference > 0, style.BLUE), ("loss", difference < 0, style.VERMILION))
    for name, where, color in signs:
        look = {"color": color, "linewidth": 0, "alpha": 0.75, "step": "mid", "label": f"_{name}"}
        panel.fill_between(share, difference, where=where, **look)
    style.zero(panel, "no difference", width=0.7)
    panel.set_xlim(0, 100)
    # Of many topics, some are left out: places tell how many gain and lose.
    lose = 100 * place[difference < 0].max(initial=0) / count
    gain = 100 * (count + 1 - place[difference > 0].min(initial=count + 1)) / count
    counts = f"{gain:.0f} % gain\n{lose:.0f} % lose"
    other = system_text(own.row(0, named=True))
    style.note(panel, counts if narrow else f"minus {other}\n{counts}", (0.02, 0.97), ha="left", va="top")
