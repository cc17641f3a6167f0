"""Accuracy by the age difference of two faces, for the best method of every family and for Rank-LR."""

from typing import Any

import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.neural_names import (
    FAMILIES,
    PAIR_ACCURACY,
    TABLES,
    data_set_title,
    table_of,
    what_is_missing,
)
from rankbound_study.results.neural_pairs import GAPS, by_gap, read_pairs
from rankbound_study.results.neural_runs import read_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.results.validation import best_of, scores_of_methods

SPECS = {
    "figure_neural_gaps": FigureSpec(
        "Pair accuracy by the age difference of the two faces, with 95 % intervals that allow for shared faces: the "
        "best method of each family by validation, and Rank-LR. A random order gives 0.5.",
        title="Accuracy by age difference",
        needs=("runs", "epochs", "predictions", "images"),
        data=(2, 3),
        order=2,
    )
}

ALWAYS = "Rank-LR"


def draw(files: StudyFiles) -> Any:
    """Draw a panel per data set of faces, with a line per method and 95 % intervals; 0.5 is a random order."""
    if not files.predictions or files.images is None or files.runs is None or files.epochs is None:
        return remark(f"No pairs to draw.\n{what_is_missing(TABLES[1])}")
    pairs = read_pairs(files.predictions, files.images)
    sets = sorted(pairs["dataset"].unique().to_list(), key=lambda name: (table_of(name).number, name))
    figure, axes = style.panels(1, len(sets), height=2.9, sharey=True)
    for panel, dataset in zip(axes[0], sets, strict=True):
        own = pairs.filter(pl.col("dataset") == dataset)
        chosen = _best_of_families(files, dataset, own)
        gaps = by_gap(own.filter(pl.col("method").is_in(chosen)))
        for shift, (method, look) in enumerate(zip(chosen, style.SERIES, strict=False)):
            line = gaps.filter(pl.col("method") == method)
            places = [GAPS.index(gap) + 0.07 * (shift - (len(chosen) - 1) / 2) for gap in _gaps_of(line)]
            reach = (line["accuracy"] - line["low"], line["high"] - line["accuracy"])
            panel.errorbar(
                places, line["accuracy"], reach, color=look.color, linestyle=look.dashes, marker=look.marker,
                markersize=3.6, linewidth=1.1, elinewidth=0.7, label=method,
            )  # fmt: skip
        panel.axhline(0.5, color=style.MUTED, linewidth=0.6, label="_random order: 0.5")
        panel.set_xticks(range(len(GAPS)), [f"{low}–{high}" if high < 99 else f"over {low - 1}" for low, high in GAPS])
        panel.set_xlabel("years between the two faces")
        panel.set_title("VGG16 features" if table_of(dataset) == TABLES[-1] else "pixels")
        panel.legend(loc="best", fontsize=7.5)
    axes[0, 0].set_ylabel("pair accuracy")
    figure.suptitle(data_set_title(sets[0]))
    return figure


def _gaps_of(line: pl.DataFrame) -> list[tuple[int, int]]:
    return [(int(low), int(high)) for low, high in line.select("from_years", "to_years").rows()]


def _best_of_families(files: StudyFiles, dataset: str, pairs: pl.DataFrame) -> list[str]:
    """Return the best method of each family by validation, among those with predictions."""
    assert files.runs is not None
    assert files.epochs is not None
    runs = read_runs(files.runs, table_of(dataset), [PAIR_ACCURACY])
    names = pairs["method"].unique().sort().to_list()
    of_family = {family: runs.filter(pl.col("family") == family)["method"].unique().to_list() for family in FAMILIES}
    scores = scores_of_methods(files.epochs, dataset, PAIR_ACCURACY)
    best = [best_of([name for name in of_family[family] if name in names], scores) for family in FAMILIES]
    return list(dict.fromkeys(name for name in [*best, ALWAYS] if name is not None and name in names))
