"""Figures of the neural-ranking study: loss and metric by epoch, accuracy by age difference, scores by features."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec, neural_title
from rankbound_study.results.neural import (
    FAMILIES,
    GAPS,
    NOT_RUN,
    PAIR_ACCURACY,
    TABLES,
    by_gap,
    data_set_title,
    feature_results,
    read_epochs,
    read_pairs,
    read_runs,
    table_of,
    what_is_missing,
)
from rankbound_study.results.scores import best_of, scores_of_methods
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.templates import text
from rankbound_study.vocabulary import COMPARED

FILE = "figures_neural.md"
FIGURES = Catalogue(FigureSpec, FILE)


PARTS = ("train", "validation", "test")
_METRIC_TITLES = {PAIR_ACCURACY: "pair accuracy"}


_PATHS = (
    (1, 1, "web queries", "NDCG@10", ("RankNet", "DirectRanker", "Class-NN", "RankNet-as-printed")),
    (4, 2, "pixels of faces", "pair accuracy", ("RankCNN",)),
    (5, 3, "VGG16 features of faces", "pair accuracy", ("RankNet",)),
)
"""The paper's figures of paths: number, table, data, metric and methods."""


def training_paths(files: StudyFiles, *, table: int, methods: tuple[str, ...]) -> Any:
    """Draw methods in columns, with the loss above the table's metric; a thin line per fold, a thick mean."""
    about = TABLES[table - 1]
    frame = read_epochs(files.needed("epochs"), methods)
    frame = frame.filter(
        pl.col("dataset").is_in([name for name in frame["dataset"].unique() if table_of(name) == about])
    )
    found = [method for method in methods if method in set(frame["method"])]
    if not found or about.metric not in frame.columns:
        return style.remark(f"{', '.join(methods)}: nothing to draw.\n{what_is_missing(about)}")
    runs = None if files.runs is None else read_runs(files.runs, about, []).group_by("method")
    picked = {} if runs is None else dict(runs.agg(pl.col("epoch").unique().sort()).rows())
    figure, axes = style.panels(2, len(found), height=3.6 if len(found) > 1 else 3.9, sharex="col", sharey="row")
    for column, method in enumerate(found):
        own = frame.filter(pl.col("method") == method)
        _panel(axes[0, column], own, "mean_loss")
        _panel(axes[1, column], own, about.metric)
        for epoch in picked.get(method, ()):
            for panel in axes[:, column]:
                look = {"color": style.MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2)), "zorder": 0}
                panel.axvline(epoch, label=f"_picked epoch {epoch}", **look)
        axes[0, column].set_title(method)
        axes[1, column].set_xlabel("epoch")
        axes[1, column].locator_params(axis="x", nbins=6, integer=True)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel(_METRIC_TITLES.get(about.metric, "NDCG@10"))
    titles = " and ".join(data_set_title(name) for name in frame["dataset"].unique().sort())
    return style.finish(figure, axes, titles, legend=3)


for _number, _table, _data, _metric, _methods in _PATHS:
    FIGURES.add(
        f"figure_neural_{_number}",
        text(FILE, "paths", metric=_metric, methods=_methods, data=_data),
        arguments={"table": _table, "methods": _methods},
        title=neural_title(_number),
        needs=("runs", "epochs"),
        part=COMPARED,
        data=(_table,),
    )(training_paths)


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
            look_of_fold = {"color": look.color, "linewidth": 0.5, "alpha": 0.35}
            panel.plot(path["epoch"], path[column], label=f"_{part}, fold {fold}, seed {seed}", **look_of_fold)
        mean = own.group_by("epoch").agg(pl.col(column).mean()).sort("epoch")
        style.line(panel, mean["epoch"], mean[column], look, label=part, marks=6)
    panel.locator_params(axis="y", nbins=5)
    # Grid lines would be mistaken for the picked epochs.
    panel.grid(visible=False, axis="x")


ALWAYS = "Rank-LR"


@FIGURES.add(
    "figure_neural_gaps",
    title="Accuracy by age difference",
    needs=("runs", "epochs", "predictions", "images"),
    part=COMPARED,
    data=(2, 3),
    order=2,
)
def age_gaps(files: StudyFiles) -> Any:
    """Draw a panel per data set of faces, with a line per method and 95 % intervals; 0.5 is a random order."""
    if not files.predictions or files.images is None or files.runs is None or files.epochs is None:
        return style.remark(f"No pairs to draw.\n{what_is_missing(TABLES[1])}")
    pairs = read_pairs(files.predictions, files.images)
    sets = sorted(pairs["dataset"].unique().to_list(), key=lambda name: (table_of(name).number, name))
    figure, axes = style.panels(1, len(sets), height=2.9, sharey=True)
    for panel, dataset in zip(axes[0], sets, strict=True):
        own = pairs.filter(pl.col("dataset") == dataset)
        chosen = _best_of_families(files, dataset, own)
        gaps = by_gap(own.filter(pl.col("method").is_in(chosen)))
        for shift, (method, look) in enumerate(zip(chosen, style.SERIES, strict=False)):
            line = gaps.filter(pl.col("method") == method)
            groups = [(int(low), int(high)) for low, high in line.select("from_years", "to_years").rows()]
            places = [GAPS.index(group) + 0.07 * (shift - (len(chosen) - 1) / 2) for group in groups]
            numbers = (line[name] for name in ("accuracy", "low", "high"))
            style.with_intervals(panel, look, places, numbers, linewidth=1.1, elinewidth=0.7, label=method)
        panel.axhline(0.5, color=style.MUTED, linewidth=0.6, label="_random order: 0.5")
        panel.set_xticks(range(len(GAPS)), [f"{low}–{high}" if high < 99 else f"over {low - 1}" for low, high in GAPS])
        panel.set_xlabel("years between the two faces")
        panel.set_title("VGG16 features" if table_of(dataset) == TABLES[-1] else "pixels")
        panel.legend(loc="best", fontsize=7.5)
    axes[0, 0].set_ylabel("pair accuracy")
    return style.finish(figure, axes, data_set_title(sets[0]))


def _best_of_families(files: StudyFiles, dataset: str, pairs: pl.DataFrame) -> list[str]:
    """Return the best method of each family by validation, among those with predictions."""
    runs = read_runs(files.needed("runs"), table_of(dataset), [PAIR_ACCURACY])
    names = pairs["method"].unique().sort().to_list()
    of_family = {family: runs.filter(pl.col("family") == family)["method"].unique().to_list() for family in FAMILIES}
    scores = scores_of_methods(files.needed("epochs"), dataset, PAIR_ACCURACY)
    best = [best_of([name for name in of_family[family] if name in names], scores) for family in FAMILIES]
    return list(dict.fromkeys(name for name in [*best, ALWAYS] if name is not None and name in names))


_SPREAD = 0.012
"""Distance between the points of two methods as a share of the axis, which keeps their intervals apart."""


@FIGURES.add(
    "figure_neural_features",
    title="Scores by the number of features",
    needs=("runs", "epochs", "predictions", "images"),
    part=COMPARED,
    data=(1, 2, 3),
    by_features=True,
    order=1,
)
def feature_counts(files: StudyFiles) -> Any:
    """Draw a column per data set: a line per method with 95 % intervals, and below it the gap of every family."""
    results = feature_results(files.needed("runs"), files.needed("epochs"), files.predictions, files.images)
    if not results.datasets:
        return style.remark(NOT_RUN)
    figure, axes = style.panels(
        2, len(results.datasets), height=4.6, sharex="col", gridspec_kw={"height_ratios": [1.7, 1]}
    )
    # Solid lines with filled marks for networks, dashed with hollow ones for others.
    methods = results.scores.select("method", "network").unique(maintain_order=True).sort(~pl.col("network"))
    styles = {
        name: style.LineStyle(look.color, "-" if network else (0, (4, 1.6)), look.marker, 1.5 if network else 1.1)
        for (name, network), look in zip(methods.rows(), style.SERIES[1:], strict=False)
    }
    for column, dataset in enumerate(results.datasets):
        own = pl.col("dataset") == dataset
        _scores(axes[0, column], results.scores.filter(own), styles)
        _gaps(axes[1, column], results.gaps.filter(own, pl.col("features").is_not_null()))
        axes[0, column].set_title(data_set_title(dataset))
        axes[1, column].set_xlabel("number of features")
        counts = results.scores.filter(own)["features"].unique().sort().to_list()
        axes[1, column].set_xscale("log")
        axes[1, column].set_xticks(counts, [f"{count:,}" for count in counts])
        axes[1, column].minorticks_off()
        axes[1, column].margins(x=0.08)
    figure.get_layout_engine().set(wspace=0.06)
    axes[1, 0].set_ylabel("best network −\nbest other model")
    return style.finish(figure, axes, legend=4)


def _scores(panel: Any, scores: pl.DataFrame, styles: dict[str, style.LineStyle]) -> None:
    counts = scores["features"].to_list()
    reach = max(counts) / min(counts)
    for rank, name in enumerate(styles):
        own = scores.filter(pl.col("method") == name).sort("features")
        if own.is_empty():
            continue
        look, network = styles[name], bool(own["network"][0])
        shift = reach ** (_SPREAD * (rank - (len(styles) - 1) / 2))
        numbers = (own[column] for column in ("ours", "low", "high"))
        face, label = look.color if network else "none", f"{name}{'' if network else ' (no network)'}"
        options: dict[str, Any] = {"markersize": 4, "markerfacecolor": face, "label": label}
        style.with_intervals(panel, look, own["features"] * shift, numbers, **options)
    metric = str(scores["metric"][0])
    panel.set_ylabel("pair accuracy" if metric == PAIR_ACCURACY else metric.replace("nDCG", "NDCG"))


def _gaps(panel: Any, gaps: pl.DataFrame) -> None:
    style.zero(panel, "no gap", width=0.8)
    if gaps.is_empty():
        style.empty_panel(panel, "no network beside another model")
    several = gaps["family"].n_unique() > 1
    for ((family,), own), look in zip(gaps.group_by("family", maintain_order=True), style.SERIES, strict=False):
        numbers = (own[column] for column in ("difference", "low", "high"))
        label = f"gap, {family}" if several else "gap"
        style.with_intervals(panel, look, own["features"], numbers, markersize=4, label=label)
