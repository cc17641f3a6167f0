"""Tables of the neural-ranking study: 1 to 3, a row per method, and the scores by the number of features."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.texts import quantity
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.columns import DASH, Across, Column, Layout, Row, with_minus
from rankbound_study.report.neural_tables import R_SQUARED, neural_table, read_results
from rankbound_study.report.prose import text
from rankbound_study.report.table_files import TableFiles, TableTexts, texts_of
from rankbound_study.report.tables import TableSpec
from rankbound_study.results.neural_names import (
    AS_PRINTED,
    CONTROL,
    TABLES,
    Printed,
    data_set_title,
    table_named,
    what_is_missing,
)
from rankbound_study.results.neural_pairs import READINGS
from rankbound_study.results.neural_runs import NOT_RUN, FeatureResults, feature_results
from rankbound_study.results.specs import StudyFiles, described, score

SPECS: dict[str, TableSpec] = {}
FILE = "table_neural.md"

# Only the CSV file has the fourth reading, both wrong: it is what remains of the other two.
_READING_TITLES = {"BothRight": "both right", "SameLabel": "same label", "Ties": "ties"}
_METRIC_TITLES = {"AP": "MAP", "PairAccuracy": "pair accuracy", R_SQUARED: "R²", **_READING_TITLES}


def neural_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    about = table_named(name)
    for results in read_results(folder, [about]):
        (block,) = score_blocks(results.scores, about)
        text = f"{block.name}. {caption(results.scores, about)}"
        yield replace(block, name=f"Table {about.number}, {about.title}", caption=text)


def score_blocks(scores: pl.DataFrame, table: Printed) -> list[TableBlock]:
    """Return one table per data set, without columns that have no numbers; the best method by validation is bold."""
    return [
        _block(own, table, str(dataset or "")) for (dataset,), own in scores.group_by("dataset", maintain_order=True)
    ]


def caption(scores: pl.DataFrame, table: Printed) -> str:
    """Return the caption: the data, the intervals, the tests, and what can be compared with the printed scores."""
    if not scores["ours"].count():
        return text(FILE, "not-run", missing=what_is_missing(table))
    ran = scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == table.metric)
    first = ran.group_by("dataset", maintain_order=True).first()
    counts = [row | {"title": data_set_title(row["dataset"])} for row in first.iter_rows(named=True)]
    settings = ["with-printed-settings"] * ran["method"].str.ends_with(AS_PRINTED).any()
    if table.of_faces:
        metrics, synthetic = set(scores["metric"]), scores["dataset"].str.starts_with(SYNTHETIC).all()
        notes = ["r-squared"] * (R_SQUARED in metrics) + ["both-right"] * (READINGS[0] in metrics)
        notes += settings + ["synthetic-faces"] * synthetic
        return " ".join((text(FILE, "of-faces", counts=counts), *(text(FILE, note) for note in notes)))
    parts = [text(FILE, "of-queries", counts=counts), *(text(FILE, note) for note in settings)]
    others = [row["title"] for row in counts if not table.is_on(row["dataset"])]
    if scores["printed"].count() and (others or not counts):
        every = len(others) == len(counts)
        parts.append(text(FILE, "beside-print", dataset=table.dataset, others=others, every=every))
    if "mq2008-label1" in first["dataset"]:
        parts.append(text(FILE, "elsewhere"))
    return " ".join(parts)


def texts(scores: pl.DataFrame, table: Printed) -> TableTexts:
    """Return the table's files."""
    title = f"Table {table.number} of the neural-ranking study: {table.title}"
    return _texts(title, caption(scores, table), score_blocks(scores, table))


def _texts(title: str, caption: str, blocks: Sequence[TableBlock]) -> TableTexts:
    capitalised = [replace(block, header=("Family", "Method", *block.header[2:])) for block in blocks]
    return texts_of(f"{title}. {caption}", blocks)._replace(latex=texts_of("", capitalised, title).latex)


def _methods(name: str, columns: Sequence[Column] = (), across: Across | None = None, *, bold: str) -> Layout:
    """Return the layout of a row per method, by family; methods with `bold` are bold."""
    method = Column("method", ("method", bold), lambda method, best: Cell(method, strong=best))
    layout = (Column("family"), method, *columns)
    return Layout(name, "", layout, labels=2, rules=("family",), sortable=True, across=across)


def _block(scores: pl.DataFrame, table: Printed, dataset: str) -> TableBlock:
    by_method = {(row["method"], row["metric"]): row for row in scores.iter_rows(named=True)}

    def of_metric(name: str, title: str) -> Iterator[Column]:
        yield Column(title, None, lambda row: _number(by_method.get((row["method"], name), {}).get("ours")))
        if name in (*table.metrics, R_SQUARED):
            yield Column("95 % interval", None, lambda row: _interval(by_method.get((row["method"], name), {})))

    methods = dict.fromkeys(scores["method"])
    main = [by_method[method, table.metric] for method in methods if (method, table.metric) in by_method]
    present = set(scores.filter(pl.col("ours").is_not_null())["metric"])
    columns = list(of_metric(table.metric, _METRIC_TITLES.get(table.metric, "NDCG@10")))
    if scores["printed"].count():
        on = "printed" if table.of_faces or table.is_on(dataset) else f"printed, {table.dataset}"
        columns.append(Column(on, "printed", _number))
    if any(row["p_holm"] is not None for row in main):
        columns.append(Column("p to best", "p_holm", lambda p: "<0.001" if p < 0.001 else f"{p:.3f}"))
    for name in (*table.metrics[1:], R_SQUARED, *_READING_TITLES):
        columns += of_metric(name, _METRIC_TITLES[name]) if name in present else ()
    rows = [
        row | {"best": row["ours"] is not None and row["family"] != CONTROL and row["difference_to_best"] is None}
        for row in main
    ]
    return _methods(data_set_title(dataset) if dataset else "not run", columns, bold="best").of_rows(rows)


def _number(value: float | None) -> str:
    return DASH if value is None else with_minus(score(value))


def _interval(row: Mapping[str, Any]) -> str:
    if row.get("low") is None:
        return DASH
    return with_minus(f"{row['low']:.3f}…{row['high']:.3f}")


@described(
    SPECS,
    **{
        table.name: TableSpec(
            text(FILE, "table"),
            title=f"{table.number}, {table.title}",
            needs=("runs", "epochs", *(("predictions", "images") if table.of_faces else ())),
            data=(table.number,),
            beside=(".md", ".tex", "_comparisons.csv", *(("_by_age_gap.csv",) if table.of_faces else ())),
            section="neural",
            blocks=neural_blocks,
        )
        for table in TABLES
    },
)
def make_neural(name: str, files: StudyFiles) -> TableFiles:
    """Return the scores, the comparisons of all pairs of methods and, for faces, the accuracy by age difference."""
    about = table_named(name)
    assert files.runs is not None
    assert files.epochs is not None
    table = neural_table(about, files.runs, files.epochs, files.predictions, files.images)
    beside = {"_comparisons.csv": table.comparisons} | ({"_by_age_gap.csv": table.gaps} if about.of_faces else {})
    return TableFiles(table.scores, texts(table.scores, about), beside)


FEATURES_TITLE = "Scores by the number of features"
FEATURES_CAPTION = text(FILE, "features")
_GAP = "gap"


def features_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    results = FeatureResults.read(folder)
    for dataset in results.datasets:
        block = _features_block(results, dataset, lambda count: quantity(count, "feature"))
        yield replace(block, name=FEATURES_TITLE, caption=f"{block.name}. {FEATURES_CAPTION}")


def features_texts(results: FeatureResults) -> TableTexts:
    """Return the table's files: one table per data set."""
    blocks = [_features_block(results, dataset) for dataset in results.datasets]
    return _texts(FEATURES_TITLE, FEATURES_CAPTION if blocks else NOT_RUN, blocks)


def _features_block(results: FeatureResults, dataset: str, title: Callable[[int], str] = "{:,}".format) -> TableBlock:
    """Return the methods of a data set, then the gaps of its families; `title` is that of a number of features."""
    scores = results.scores.filter(pl.col("dataset") == dataset)
    gaps = results.gaps.filter(pl.col("dataset") == dataset, pl.col("features").is_not_null())
    across = Across(
        ("family", "method"),
        ("features",),
        {count: title(count) for count in scores["features"].unique().sort()},
        lambda row: Cell(with_minus(_features_cell(row))),
    )
    rows = [row | {"gap": False} for row in scores.to_dicts()]
    rows += [row | {"gap": True, "method": _GAP} for row in gaps.to_dicts()]
    return _methods(data_set_title(dataset), across=across, bold="gap").of_rows(rows)


def _features_cell(row: Row) -> str:
    if row["gap"]:
        return f"{row['difference']:+.4f} ({row['low']:+.3f}…{row['high']:+.3f})"
    return f"{row['ours']:.4f} ({row['low']:.3f}…{row['high']:.3f})"


@described(
    SPECS,
    table_neural_features=TableSpec(
        text(FILE, "features-table"),
        title="scores by the number of features",
        needs=("runs", "epochs", "predictions", "images"),
        data=(1, 2, 3),
        by_features=True,
        beside=(".md", ".tex", "_gaps.csv"),
        section="neural",
        blocks=features_blocks,
    ),
)
def make_neural_features(name: str, files: StudyFiles) -> TableFiles:
    """Return the scores and the gaps."""
    assert files.runs is not None
    assert files.epochs is not None
    results = feature_results(files.runs, files.epochs, files.predictions, files.images)
    return TableFiles(results.scores, features_texts(results), {"_gaps.csv": results.gaps})
