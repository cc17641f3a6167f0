"""Figures 1, 4 and 5 of the neural-ranking study: loss and metric by epoch, for the measured parts."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec, neural_title
from rankbound_study.results.neural_names import (
    PAIR_ACCURACY,
    TABLES,
    Printed,
    data_set_title,
    table_of,
    what_is_missing,
)
from rankbound_study.results.neural_runs import read_epochs, read_runs
from rankbound_study.results.specs import StudyFiles

_CAPTION = (
    "Loss (above) and {metric} (below) by epoch of {methods} on {data}, for the parts that were recorded: thin lines "
    "are folds, thick ones their mean; vertical lines are the epochs picked by validation. A single line of loss is "
    "that of training."
)


def _spec(number: int, table: int, data: str, metric: str, *methods: str) -> FigureSpec:
    return FigureSpec(
        _CAPTION.format(metric=metric, methods=" and ".join(methods), data=data),
        {"table": table, "methods": methods},
        title=neural_title(number),
        needs=("runs", "epochs"),
        data=(table,),
    )


SPECS = {
    "figure_neural_1": _spec(
        1, 1, "web queries", "NDCG@10", "RankNet", "DirectRanker", "Class-NN", "RankNet-as-printed"
    ),
    "figure_neural_4": _spec(4, 2, "pixels of faces", "pair accuracy", "RankCNN"),
    "figure_neural_5": _spec(5, 3, "VGG16 features of faces", "pair accuracy", "RankNet"),
}

PARTS = ("train", "validation", "test")
_METRIC_TITLES = {PAIR_ACCURACY: "pair accuracy"}


def draw(files: StudyFiles, *, table: int, methods: tuple[str, ...]) -> Any:
    """Draw methods in columns, with the loss above the table's metric; a thin line per fold, a thick mean."""
    about = TABLES[table - 1]
    assert files.epochs is not None
    frame = read_epochs(files.epochs, methods)
    frame = frame.filter(
        pl.col("dataset").is_in([name for name in frame["dataset"].unique() if table_of(name) == about])
    )
    found = [method for method in methods if method in set(frame["method"])]
    if not found or about.metric not in frame.columns:
        return remark(f"{', '.join(methods)}: nothing to draw.\n{what_is_missing(about)}")
    picked = _picked(files, about)
    figure, axes = style.panels(2, len(found), height=3.6 if len(found) > 1 else 3.9, sharex="col", sharey="row")
    for column, method in enumerate(found):
        own = frame.filter(pl.col("method") == method)
        _panel(axes[0, column], own, "mean_loss")
        _panel(axes[1, column], own, about.metric)
        for epoch in picked.get(method, ()):
            for panel in axes[:, column]:
                panel.axvline(
                    epoch,
                    color=style.MUTED,
                    linewidth=0.8,
                    linestyle=(0, (1, 2)),
                    zorder=0,
                    label=f"_picked epoch {epoch}",
                )
        axes[0, column].set_title(method)
        axes[1, column].set_xlabel("epoch")
        axes[1, column].locator_params(axis="x", nbins=6, integer=True)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel(_METRIC_TITLES.get(about.metric, "NDCG@10"))
    style.shared_legend(figure, axes, columns=3)
    titles = " and ".join(data_set_title(name) for name in frame["dataset"].unique().sort())
    figure.suptitle(titles)
    return figure


def _panel(panel: Any, frame: pl.DataFrame, column: str) -> None:
    parts = [part for part in PARTS if part in set(frame["part"])]
    losses = frame.group_by("fold", "seed", "epoch").agg(pl.col(column).n_unique())
    if column == "mean_loss" and losses[column].max() == 1:
        # The recorded loss is that of the training part, repeated for every measured part.
        frame, parts = frame.with_columns(pl.lit(PARTS[0]).alias("part")), [PARTS[0]]
    for part, look in zip(PARTS, style.SERIES, strict=False):
        own = frame.filter(pl.col("part") == part, pl.col(column).is_not_null()) if part in parts else None
        if own is None or own.is_empty():
            continue
        for (_, fold, seed), path in own.group_by("dataset", "fold", "seed", maintain_order=True):
            panel.plot(
                path["epoch"], path[column], color=look.color, linewidth=0.5, alpha=0.35,
                label=f"_{part}, fold {fold}, seed {seed}",
            )  # fmt: skip
        mean = own.group_by("epoch").agg(pl.col(column).mean()).sort("epoch")
        style.line(panel, mean["epoch"], mean[column], look, label=part, marks=6)
    panel.locator_params(axis="y", nbins=5)
    # Grid lines would be mistaken for the picked epochs.
    panel.grid(visible=False, axis="x")


def _picked(files: StudyFiles, about: Printed) -> dict[str, list[int]]:
    """Return the epochs picked by validation, by method."""
    if files.runs is None:
        return {}
    runs = read_runs(files.runs, about, [])
    return dict(runs.group_by("method").agg(pl.col("epoch").unique().sort()).rows())
