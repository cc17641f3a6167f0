"""Tables of the neural-ranking study: 1 to 3, a row per method, and the scores by the number of features."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.texts import quantity
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.neural_tables import R_SQUARED, neural_table, read_results
from rankbound_study.report.table_files import TableFiles, TableTexts
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, with_minus
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
    """Return one table per data set, without columns that have no numbers."""
    return [
        _block(own, table, str(dataset or "")) for (dataset,), own in scores.group_by("dataset", maintain_order=True)
    ]


def method_block(
    name: str, header: Sequence[str], rows: Sequence[tuple[str, str, Sequence[str]]], marked: Collection[str]
) -> TableBlock:
    """Return a table of methods by family, from family, method and a text per column; `marked` methods are bold."""
    return TableBlock(
        name,
        "",
        ("family", "method", *header),
        tuple(
            (Cell(family), Cell(method, strong=method in marked), *map(Cell, cells)) for family, method, cells in rows
        ),
        labels=2,
        rules=changes([family for family, _, _ in rows]),
        sortable=True,
    )


def caption(scores: pl.DataFrame, table: Printed) -> str:
    """Return the caption: the data, the intervals, the tests, and what can be compared with the printed scores."""
    if not scores["ours"].count():
        return f"Printed scores only. {what_is_missing(table)}"
    return " ".join((_of_faces if table.of_faces else _of_queries)(scores, table))


def texts(scores: pl.DataFrame, table: Printed) -> TableTexts:
    """Return the table's files; the best method by validation is bold."""
    title = f"Table {table.number} of the neural-ranking study: {table.title}"
    return texts_of_methods(title, caption(scores, table), score_blocks(scores, table))


def texts_of_methods(title: str, caption: str, tables: Sequence[TableBlock]) -> TableTexts:
    """Return the files of tables of methods, one per data set."""
    capitalised = [replace(table, header=("Family", "Method", *table.header[2:])) for table in tables]
    return TableTexts(
        render_markdown.tables(f"{title}. {caption}", tables, titled=True), render_latex.tables(title, capitalised)
    )


def _block(scores: pl.DataFrame, table: Printed, dataset: str) -> TableBlock:
    by_method = {(row["method"], row["metric"]): row for row in scores.iter_rows(named=True)}
    methods = list(dict.fromkeys(scores["method"].to_list()))
    main = [by_method[method, table.metric] for method in methods if (method, table.metric) in by_method]
    present = set(scores.filter(pl.col("ours").is_not_null())["metric"].to_list())
    others = [name for name in (*table.metrics[1:], R_SQUARED, *_READING_TITLES) if name in present]
    tested = any(row["p_holm"] is not None for row in main)
    printed_on = "printed" if table.of_faces or table.is_on(dataset) else f"printed, {table.dataset}"
    header = [_METRIC_TITLES.get(table.metric, "NDCG@10"), "95 % interval"]
    header += [printed_on] * bool(scores["printed"].count()) + ["p to best"] * tested
    for name in others:
        header += [_METRIC_TITLES[name]] + ["95 % interval"] * (name in (*table.metrics, R_SQUARED))
    rows, best = [], set()
    for row in main:
        cells = [_number(row["ours"]), _interval(row)]
        cells += [_number(row["printed"])] * bool(scores["printed"].count()) + [_p_value(row["p_holm"])] * tested
        for name in others:
            other = by_method.get((row["method"], name), {})
            cells += [_number(other.get("ours"))] + [_interval(other)] * (name in (*table.metrics, R_SQUARED))
        if row["ours"] is not None and row["family"] != CONTROL and row["difference_to_best"] is None:
            best.add(row["method"])
        rows.append((row["family"], row["method"], cells))
    return method_block(data_set_title(dataset) if dataset else "not run", header, rows, best)


def _of_queries(scores: pl.DataFrame, table: Printed) -> list[str]:
    ran = scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == table.metric)
    counts = ran.group_by("dataset", maintain_order=True).first()
    lists = "; ".join(
        f"{data_set_title(row['dataset'])}: {quantity(row['n'], 'query', 'queries')} of "
        f"{quantity(row['n_folds'], 'fold')}, {row['n_skipped']:,} without a relevant document left out"
        for row in counts.iter_rows(named=True)
    )
    notes = [
        f"Mean over test queries ({lists}), with the epoch picked on validation queries.",
        _TESTS.format(unit="queries"),
    ]
    if ran["method"].str.ends_with(AS_PRINTED).any():
        notes.append(_AS_PRINTED)
    datasets = counts["dataset"].to_list()
    others = [data_set_title(name) for name in datasets if not table.is_on(name)]
    if scores["printed"].count() and (others or not datasets):
        ours = "ours is not" if len(others) == len(datasets) else f"{' and '.join(others)} is not"
        notes.append(
            f"The printed column is on {table.dataset}, {ours}: other queries, documents and features. Only the order "
            "of the methods, and the difference of each score from a random ordering, can be compared."
        )
    if "mq2008-label1" in datasets:
        notes.append(_ELSEWHERE)
    return notes


def _of_faces(scores: pl.DataFrame, table: Printed) -> list[str]:
    ran = scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == table.metric)
    counts = ran.group_by("dataset", maintain_order=True).first()
    pairs = "; ".join(
        f"{quantity(row['n'], 'pair')} of {quantity(row['n_folds'], 'split')}" for row in counts.iter_rows(named=True)
    )
    notes = [
        f"Share of test pairs in the right order ({pairs}; ties count half, a random ordering scores 0.5), with the "
        "epoch picked on validation pairs. Intervals and tests account for pairs that share a face. “p to best” is the "
        "p-value of the comparison with the best method by validation (bold), adjusted by Holm."
    ]
    if R_SQUARED in set(scores["metric"]):
        notes.append("R² is that of the predicted ages of distinct test faces.")
    if READINGS[0] in set(scores["metric"]):
        notes.append(
            "Classifiers learn from each pair that one face is older and the other younger, and label a face “older” "
            "if its score exceeds 0.5. Pair accuracy orders the two faces by score, as for every other method. “Both "
            "right” requires the right label for both faces. A face of medium age is older in some pairs and younger "
            "in others, so both faces of a pair often get the same label, which counts as a failure. Only that reading "
            "gives numbers like the printed ones, which lie below the 0.5 of guessing (N18 in docs/errata.md)."
        )
    if ran["method"].str.ends_with(AS_PRINTED).any():
        notes.append(_AS_PRINTED)
    if scores["dataset"].str.starts_with(SYNTHETIC).all():
        notes.append("Synthetic faces: the table has no printed scores.")
    return notes


_AS_PRINTED = f"Methods marked “{AS_PRINTED.strip('-')}” use the optimiser, learning rate and batches of the paper."
_ELSEWHERE = (
    "For orientation, published NDCG@10 on MQ2008 with binary labels and without queries that lack a relevant document "
    "is about 0.70 to 0.72 (Köppel et al. 2019, Pairwise Learning to Rank by Neural Networks Revisited, "
    "arXiv:1909.02768, Table 2)."
)
_TESTS = (
    "Intervals are bootstrap intervals over {unit}; “p to best” is the p-value of a paired sign-flip test against the "
    "best trained method by validation (bold), adjusted by Holm. Controls are not trained."
)


def _number(value: float | None) -> str:
    return DASH if value is None else with_minus(score(value))


def _interval(row: Mapping[str, Any]) -> str:
    if row.get("low") is None:
        return DASH
    return with_minus(f"{row['low']:.3f}…{row['high']:.3f}")


def _p_value(value: float | None) -> str:
    return DASH if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


@described(
    SPECS,
    **{
        table.name: TableSpec(
            "A table of Application of Neural Networks in Ranking: methods that rank, classify and regress on the same "
            "lists, with the epoch picked by a validation part, 95 % intervals, paired tests and the printed scores. "
            "The table's caption says what can be compared.",
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
FEATURES_CAPTION = (
    "Mean score (NDCG@10 of web queries, pair accuracy of faces) of methods trained on a subset of the features. The "
    "subsets are drawn at random in every fold, are the same for all methods, and are nested. The 95 % intervals do "
    "not cover the variation between draws of the features. The gap is the best network minus the best linear model or "
    "trees of its family, both picked by validation, on the same lists."
)
_GAP = "gap"


def features_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    results = FeatureResults.read(folder)
    for dataset in results.datasets:
        block = _features_block(results, dataset, lambda count: quantity(count, "feature"))
        yield replace(block, name=FEATURES_TITLE, caption=f"{block.name}. {FEATURES_CAPTION}")


def _features_blocks(results: FeatureResults) -> list[TableBlock]:
    """Return one table per data set: the methods, then the gaps of the families."""
    return [_features_block(results, dataset) for dataset in results.datasets]


def features_texts(results: FeatureResults) -> TableTexts:
    """Return the table's files."""
    return texts_of_methods(
        FEATURES_TITLE, FEATURES_CAPTION if results.datasets else NOT_RUN, _features_blocks(results)
    )


def _features_block(results: FeatureResults, dataset: str, title: Callable[[int], str] = "{:,}".format) -> TableBlock:
    """Return the table of a data set; `title` is that of the column of a number of features."""
    scores = results.scores.filter(pl.col("dataset") == dataset)
    gaps = results.gaps.filter(pl.col("dataset") == dataset, pl.col("features").is_not_null())
    counts = scores["features"].unique().sort().to_list()
    rows = []
    for (family, method), own in scores.group_by("family", "method", maintain_order=True):
        by_count = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_features_cell(by_count.get(count), "ours", "{:.4f}", "{:.3f}") for count in counts]
        rows.append((str(family), str(method), cells))
    for (family,), own in gaps.group_by("family", maintain_order=True):
        by_count = {row["features"]: row for row in own.iter_rows(named=True)}
        cells = [_features_cell(by_count.get(count), "difference", "{:+.4f}", "{:+.3f}") for count in counts]
        rows.append((str(family), _GAP, cells))
    return method_block(data_set_title(dataset), list(map(title, counts)), rows, {_GAP})


def _features_cell(row: dict[str, float] | None, value: str, digits: str, limits: str) -> str:
    if row is None:
        return DASH
    return with_minus(f"{digits.format(row[value])} ({limits.format(row['low'])}…{limits.format(row['high'])})")


@described(
    SPECS,
    table_neural_features=TableSpec(
        "Methods of Application of Neural Networks in Ranking, trained on some of the features, and the gap between "
        "networks and other models by the number of features.",
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
