"""Topics that gain and lose: the sorted differences of the best system from those that it is compared with."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures._leaderboard import NOTHING, ROLES, data_sets, read_part, system_text
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_leaderboard_topics": FigureSpec(
        "Score of the best system by validation minus that of another one, for every test topic, in ascending order. "
        "The table of the leaderboard's section names the topics at both ends.",
        title="Topics that gain and lose",
        needs=("leaderboard",),
        order=3,
    )
}


def draw(files: StudyFiles) -> Any:
    """Draw a row per comparison and a column per data set."""
    table = read_part(files, "topics")
    if table.is_empty():
        return remark(NOTHING)
    sets = data_sets(table)
    roles = [role for role in ROLES if role in set(table["role"])]
    figure, axes = style.panels(len(roles), len(sets), height=0.6 + 1.7 * len(roles), sharex=True, sharey=True)
    for column, (data_set, own) in enumerate(sets):
        for row, role in enumerate(roles):
            _panel(axes[row, column], own.filter(pl.col("role") == role), narrow=len(sets) > 2)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "topics, % of all", f"difference in {table['metric'][0]}")
    style.row_titles(axes, [ROLES[role] for role in roles])
    figure.suptitle("Topics that gain and lose: the best system minus another one")
    return figure


def _panel(panel: Any, own: pl.DataFrame, *, narrow: bool) -> None:
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
