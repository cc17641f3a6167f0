"""Lay out the scores by the number of features: a row per method, a column per number of features."""

import polars as pl

from rankbound_study.report.blocks import TableBlock
from rankbound_study.report.neural_layout import method_block, texts_of_methods
from rankbound_study.report.table_files import TableTexts
from rankbound_study.report.typeset_numbers import DASH, with_minus
from rankbound_study.results.neural_features import NOT_RUN, FeatureResults
from rankbound_study.results.neural_names import data_set_title

TITLE = "Scores by the number of features"
CAPTION = (
    "Mean score (NDCG@10 of web queries, pair accuracy of faces) of methods trained on a subset of the features. The "
    "subsets are drawn at random in every fold, are the same for all methods, and are nested. The 95 % intervals do "
    "not cover the variation between draws of the features. The gap is the best network minus the best linear model or "
    "trees of its family, both picked by validation, on the same lists."
)
_GAP = "gap"


def blocks(results: FeatureResults) -> list[TableBlock]:
    """Return one table per data set: the methods, then the gaps of the families."""
    return [_block(results, dataset) for dataset in results.datasets]


def texts(results: FeatureResults) -> TableTexts:
    """Return the table's files."""
    return texts_of_methods(TITLE, CAPTION if results.datasets else NOT_RUN, blocks(results))


def _block(results: FeatureResults, dataset: str) -> TableBlock:
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
    return method_block(data_set_title(dataset), [f"{count:,}" for count in counts], rows, {_GAP})


def _cell(row: dict[str, float] | None, value: str, digits: str, limits: str) -> str:
    if row is None:
        return DASH
    return with_minus(f"{digits.format(row[value])} ({limits.format(row['low'])}…{limits.format(row['high'])})")
