"""Figures of nDCG@k against the cut-off k: by bounding, and by the size of the list."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import described
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import LOSSES, UNBOUNDED

SPECS: dict[str, FigureSpec] = {}

CUTOFFS = range(1, 21)


@described(
    SPECS,
    figure_5_1=FigureSpec(
        "Mean nDCG@k against the cut-off k, a line per bounding; rows are training losses, columns data sets. Every "
        "panel has its own vertical scale. Hollow: did not train.",
        needs_runs=True,
    ),
)
def ndcg_at_k(runs: Path, choice: RunsChoice, *, epochs: Path | None = None) -> Any:
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
            _lines(axes[row, column], of_set.filter(pl.col("loss") == loss), metrics, names, hollow)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "cut-off k", "mean nDCG@k")
    style.row_titles(axes, [f"{loss} loss" for loss in LOSSES])
    style.shared_legend(figure, axes, columns=5)
    figure.suptitle(scores.heading("nDCG@k by bounding, loss (rows) and data set (columns)", choice, sets))
    return figure


def _lines(axes: Any, means: pl.DataFrame, metrics: list[str], names: list[str], hollow: list[str]) -> None:
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


LOSS = "nDCG"
GROUPS = {"p": (1, 3, 6, 11, 21), "n": (1, 11, 21, 41, 81)}
"""Smallest number of relevant items (p) and of items (n) in each group of lists."""

_NAMES = {"p": "relevant", "n": "items"}
FEWEST = 5
"""Groups with fewer lists are not drawn."""


@described(
    SPECS,
    figure_cut_offs=FigureSpec(
        "Mean nDCG@k against the cut-off k for lists with few and with many relevant items (above) and items (below), "
        f"after training on the unbounded {LOSS} loss; columns are data sets. Thin dotted lines: a random ordering of "
        "the same lists. Beyond the number of relevant items the ideal ranking gains nothing more, so that nDCG@k "
        "cannot fall: the mean over lists rises where most of them have fewer relevant items than k.",
        title="nDCG@k by list size",
        needs_runs=True,
    ),
)
def ndcg_by_size(runs: Path, choice: RunsChoice, *, epochs: Path | None = None) -> Any:
    """Draw relevant items above, items below, and data sets in columns; a value is a mean over lists."""
    metrics = [f"nDCG@{k}" for k in CUTOFFS]
    trained, controls = (scores.read_scores(runs, metrics, choice, controls=controls) for controls in (False, True))
    trained = trained.filter(pl.col("loss") == LOSS, pl.col("bounding") == UNBOUNDED)
    random = controls.filter(pl.col("model") == "random")
    sets = scores.data_sets(trained)
    figure, axes = style.panels(len(GROUPS), len(sets), height=4.0, sharex=True, sharey="col")
    for column, data_set in enumerate(sets):
        own, by_chance = (scores.of_data_set(frame, data_set) for frame in (trained, random))
        for row, size in enumerate(GROUPS):
            _groups(axes[row, column], own, by_chance, metrics, size)
        axes[0, column].set_title(data_set.title)
    style.outer_labels(figure, axes, "cut-off k", "mean nDCG@k")
    style.row_titles(axes, ["by relevant items", "by items"])
    _legend(figure, axes)
    figure.suptitle(scores.heading("nDCG@k by list size", choice, sets))
    return figure


def means_by_size(lists: pl.DataFrame, metrics: Sequence[str], size: str) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield the groups that have enough lists, with the mean of each metric over their lists."""
    known = lists.filter(pl.col(metrics[0]).is_not_null())
    group = pl.sum_horizontal((pl.col(size) >= least).cast(pl.Int32) for least in GROUPS[size]) - 1
    # The same list under several seeds is one list.
    per_list = known.group_by("fold", "topic", group.alias("group"), maintain_order=True).agg(pl.col(metrics).mean())
    found = per_list.group_by("group").agg(pl.len(), pl.col(metrics).mean()).sort("group")
    for number, count, *means in found.rows():
        if count >= FEWEST:
            yield number, tuple(means)


def _groups(panel: Any, own: pl.DataFrame, by_chance: pl.DataFrame, metrics: list[str], size: str) -> None:
    if own.is_empty():
        style.empty_panel(panel)
        return
    for number, means in means_by_size(own, metrics, size):
        style.line(panel, list(CUTOFFS), means, style.SERIES[number], label=_label(size, number), marks=4)
    for number, means in means_by_size(by_chance, metrics, size):
        panel.plot(
            list(CUTOFFS), means, color=style.SERIES[number].color, linestyle=(0, (1, 1.5)), linewidth=0.8,
            label=f"_random ordering, {_label(size, number)}",
        )  # fmt: skip
    panel.set_xticks([1, 5, 10, 15, 20])
    panel.set_xlim(0.5, 20.5)
    panel.locator_params(axis="y", nbins=5)


def _label(size: str, number: int) -> str:
    least = GROUPS[size]
    if number + 1 == len(least):
        return f"≥ {least[number]} {_NAMES[size]}"
    return f"{least[number]}–{least[number + 1] - 1} {_NAMES[size]}"


def _legend(figure: Any, axes: Any) -> None:
    """Draw a legend with a row for each way of grouping."""
    found: dict[str, Any] = {}
    for panel in axes.flat:
        found |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    labels = [_label(size, number) for number in range(len(GROUPS["p"])) for size in GROUPS]
    drawn = [label for label in labels if label in found]
    if drawn:
        handles = [found[label] for label in drawn]
        figure.legend(handles, drawn, loc="outside lower center", ncols=len(GROUPS["p"]), columnspacing=1.0)
