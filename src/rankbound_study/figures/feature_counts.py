"""Scores by the number of features of a method, and the gap between networks and other models."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.neural_features import NOT_RUN, FeatureResults, feature_results
from rankbound_study.results.neural_names import PAIR_ACCURACY, data_set_title
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "figure_neural_features": FigureSpec(
        "Networks (solid lines, filled marks) and other models (dashed, hollow) by the number of features that they "
        "use: columns drawn at random in every fold, the same for all methods, with smaller sets nested in larger "
        "ones. Top: the mean score; bottom: the best network minus the best other model of its family, both by "
        "validation, on the same lists. The 95 % intervals allow for faces that several pairs share, but not for the "
        "random choice of the columns; points of one number are drawn beside each other.",
        title="Scores by the number of features",
        needs=("runs", "epochs", "predictions", "images"),
        data=(1, 2, 3),
        by_features=True,
        order=1,
    )
}

_SPREAD = 0.012
"""Distance between the points of two methods as a share of the axis, which keeps their intervals apart."""


def draw(files: StudyFiles) -> Any:
    """Draw a column per data set: a line per method with 95 % intervals, and below it the gap of every family."""
    assert files.runs is not None
    assert files.epochs is not None
    results = feature_results(files.runs, files.epochs, files.predictions, files.images)
    if not results.datasets:
        return remark(NOT_RUN)
    figure, axes = style.panels(
        2, len(results.datasets), height=4.6, sharex="col", gridspec_kw={"height_ratios": [1.7, 1]}
    )
    styles = _styles(results)
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
    style.shared_legend(figure, axes, columns=4)
    return figure


def _styles(results: FeatureResults) -> dict[str, style.LineStyle]:
    """Return the styles: solid lines with filled marks for networks, dashed with hollow ones for others."""
    methods = results.scores.select("method", "network").unique(maintain_order=True).sort(~pl.col("network"))
    looks = zip(methods.rows(), style.SERIES[1:], strict=False)
    return {
        name: style.LineStyle(look.color, "-" if network else (0, (4, 1.6)), look.marker, 1.5 if network else 1.1)
        for (name, network), look in looks
    }


def _scores(panel: Any, scores: pl.DataFrame, styles: dict[str, style.LineStyle]) -> None:
    counts = scores["features"].to_list()
    reach = max(counts) / min(counts)
    for rank, name in enumerate(styles):
        own = scores.filter(pl.col("method") == name).sort("features")
        if own.is_empty():
            continue
        look, network = styles[name], bool(own["network"][0])
        shift = reach ** (_SPREAD * (rank - (len(styles) - 1) / 2))
        limits = (own["ours"] - own["low"], own["high"] - own["ours"])
        panel.errorbar(
            own["features"] * shift, own["ours"], limits, color=look.color, linestyle=look.dashes,
            linewidth=look.width, elinewidth=0.8, marker=look.marker, markersize=4,
            markerfacecolor=look.color if network else "none", label=f"{name}{'' if network else ' (no network)'}",
        )  # fmt: skip
    metric = str(scores["metric"][0])
    panel.set_ylabel("pair accuracy" if metric == PAIR_ACCURACY else metric.replace("nDCG", "NDCG"))


def _gaps(panel: Any, gaps: pl.DataFrame) -> None:
    panel.axhline(0, color=style.MUTED, linewidth=0.8, label="_no gap")
    if gaps.is_empty():
        style.empty_panel(panel, "no network beside another model")
    several = gaps["family"].n_unique() > 1
    for ((family,), own), look in zip(gaps.group_by("family", maintain_order=True), style.SERIES, strict=False):
        limits = (own["difference"] - own["low"], own["high"] - own["difference"])
        panel.errorbar(
            own["features"], own["difference"], limits, color=look.color, linestyle=look.dashes, linewidth=1.2,
            elinewidth=0.8, marker=look.marker, markersize=4, label=f"gap, {family}" if several else "gap",
        )  # fmt: skip
