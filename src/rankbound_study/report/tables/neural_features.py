"""Scores by the number of features: a row per method, a column per number of features."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from rankbound.texts import quantity
from rankbound_study.report.blocks import TableBlock
from rankbound_study.report.table_files import TableFiles, TableTexts
from rankbound_study.report.tables.neural import method_block, texts_of_methods
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, with_minus
from rankbound_study.results.neural_features import NOT_RUN, FeatureResults, feature_results
from rankbound_study.results.neural_names import FEATURES_TABLE, data_set_title
from rankbound_study.results.specs import StudyFiles

SPECS = {
    FEATURES_TABLE: TableSpec(
        "Methods of Application of Neural Networks in Ranking, trained on some of the features, and the gap between "
        "networks and other models by the number of features.",
        title="scores by the number of features",
        needs=("runs", "epochs", "predictions", "images"),
        data=(1, 2, 3),
        by_features=True,
        beside=(".md", ".tex", "_gaps.csv"),
        section="neural",
    )
}

TITLE = "Scores by the number of features"
CAPTION = (
    "Mean score (NDCG@10 of web queries, pair accuracy of faces) of methods trained on a subset of the features. The "
    "subsets are drawn at random in every fold, are the same for all methods, and are nested. The 95 % intervals do "
    "not cover the variation between draws of the features. The gap is the best network minus the best linear model or "
    "trees of its family, both picked by validation, on the same lists."
)
_GAP = "gap"


def make(name: str, files: StudyFiles) -> TableFiles:
    """Return the scores and the gaps."""
    assert files.runs is not None
    assert files.epochs is not None
    results = feature_results(files.runs, files.epochs, files.predictions, files.images)
    return TableFiles(results.scores, texts(results), {"_gaps.csv": results.gaps})


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    results = FeatureResults.read(folder)
    for dataset in results.datasets:
        block = _block(results, dataset, lambda count: quantity(count, "feature"))
        yield replace(block, name=TITLE, caption=f"{block.name}. {CAPTION}")


def result_blocks(results: FeatureResults) -> list[TableBlock]:
    """Return one table per data set: the methods, then the gaps of the families."""
    return [_block(results, dataset) for dataset in results.datasets]


def texts(results: FeatureResults) -> TableTexts:
    """Return the table's files."""
    return texts_of_methods(TITLE, CAPTION if results.datasets else NOT_RUN, result_blocks(results))


def _block(results: FeatureResults, dataset: str, title: Callable[[int], str] = "{:,}".format) -> TableBlock:
    """Return the table of a data set; `title` is that of the column of a number of features."""
    scores = results.scores.filter(pl.col("dataset") == dataset)
    gaps = results.gaps.filter(pl.col("dataset") == dataset, pl.col("features").is_not_null())
    counts = scores["features"].unique().sort().to_list()
    rows = []
    for (family, method), own in scores.group_by("family", "method", maintain_order=True):
        by_count = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_cell(by_count.get(count), "ours", "{:.4f}", "{:.3f}") for count in counts]
        rows.append((str(family), str(method), cells))
    for (family,), own in gaps.group_by("family", maintain_order=True):
        by_count = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_cell(by_count.get(count), "difference", "{:+.4f}", "{:+.3f}") for count in counts]
        rows.append((str(family), _GAP, cells))
    return method_block(data_set_title(dataset), list(map(title, counts)), rows, {_GAP})


def _cell(row: dict[str, float] | None, value: str, digits: str, limits: str) -> str:
    if row is None:
        return DASH
    return with_minus(f"{digits.format(row[value])} ({limits.format(row['low'])}…{limits.format(row['high'])})")
