"""The table of scores by the number of features as people read it: a row per method, a column per number."""

import polars as pl

from rankbound_study.report.neural_layout import Row, Wide, latex_of, markdown_of
from rankbound_study.results.neural_features import NOT_RUN, FeatureResults
from rankbound_study.results.neural_names import data_set_title

TITLE = "Scores by the number of features"
CAPTION = (
    "Mean score (of web queries NDCG@10, of faces pair accuracy) of methods that see so many of the features: drawn at "
    "random anew in every fold, the same ones for all methods, and the fewer among the more. With 95 % intervals, "
    "which do not tell what another draw of the columns would change. The gap is the best network minus the best "
    "linear model or trees of its family, both by validation, on the same lists."
)


def layout(results: FeatureResults) -> list[Wide]:
    """One wide table per data set: the methods, then the gap of every family that has one."""
    return [_wide(results, dataset) for dataset in results.datasets]


def markdown(results: FeatureResults) -> str:
    """A pipe table per data set."""
    return markdown_of(f"{TITLE}. {CAPTION if results.datasets else NOT_RUN}", layout(results))


def latex(results: FeatureResults) -> str:
    """A `tabular` for `booktabs` per data set."""
    return latex_of(TITLE, layout(results))


def _wide(results: FeatureResults, dataset: str) -> Wide:
    scores = results.scores.filter(pl.col("dataset") == dataset)
    gaps = results.gaps.filter(pl.col("dataset") == dataset, pl.col("features").is_not_null())
    counts = scores["features"].unique().sort().to_list()
    rows = []
    for (family, method), own in scores.group_by("family", "method", maintain_order=True):
        found = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_cell(found.get(count), "ours", "{:.4f}", "{:.3f}") for count in counts]
        rows.append(Row(str(family), str(method), tuple(cells)))
    for (family,), own in gaps.group_by("family", maintain_order=True):
        found = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_cell(found.get(count), "difference", "{:+.4f}", "{:+.3f}") for count in counts]
        rows.append(Row(str(family), "gap", tuple(cells), best=True))
    return Wide(data_set_title(dataset), tuple(f"{count:,}" for count in counts), tuple(rows))


def _cell(row: dict[str, float] | None, value: str, digits: str, limits: str) -> str:
    if row is None:
        return "–"
    text = f"{digits.format(row[value])} ({limits.format(row['low'])}…{limits.format(row['high'])})"
    return text.replace("-", "−")
