"""Tables of effects: of bounding, of list weights and regimes, as predicted, and away from where models trained."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import comparisons, effects, law
from rankbound_study.claims.evidence import Evidence, significance
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.reader import read_instances
from rankbound_study.figures import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import (
    Across,
    Cell,
    Format,
    Layout,
    Row,
    TableBlock,
    TableFiles,
    texts,
    with_margin,
)
from rankbound_study.report.numbers import DASH, between, signed, with_minus
from rankbound_study.report.tables import OF_EXPERIMENTS, OF_STUDY, TableSpec, of_evidence
from rankbound_study.report.tables.table_5_1 import DIGITS, DOWN, UP
from rankbound_study.results.scores import MARK
from rankbound_study.results.study_files import StudyFiles, read_table, schema
from rankbound_study.templates import text, titled
from rankbound_study.vocabulary import AFFINE, LOSSES, POPULARITY, UNBOUNDED, ListWeights

FILE = "table_effects.md"
TABLES = Catalogue(TableSpec, FILE)


def replicas_block(table: pl.DataFrame) -> TableBlock:
    """Lay the A/A test out: a row per data set and kind of replicas."""
    covers = {
        name: ((pl.col(f"{name}low") <= 0) & (pl.col(f"{name}high") >= 0)).sum().alias(f"{name}covers")
        for name in ("", "topics_")
    }
    keys, largest = ("replicas", "dataset", "nsr"), pl.col("difference").abs().max().alias("largest")
    rows = table.group_by(keys, maintain_order=True).agg(pl.len().alias("n"), *covers.values(), largest)
    return Layout.of(FILE, "replicas")(rows)


MEANS = Layout.of(
    FILE,
    "means",
    formats={
        "loss": lambda loss: "all losses" if loss == effects.EVERY else loss,
        "mean": lambda mean, low, high: Cell(signed(mean), strong=low > 0 or high < 0),
    },
)


@TABLES.add(
    "table_effects",
    beside=(".md", ".tex", "_means.csv", "_replicas.csv"),
    section="effects",
    columns=effects.CELL_COLUMNS,
    layout=Layout.of(
        FILE,
        "effects",
        formats={"effect": lambda effect, p_holm, alike: Cell(signed(effect), strong=p_holm <= LEVEL, emphasis=alike)},
    ),
    first=(("_means", effects.MEAN_COLUMNS, MEANS), ("_replicas", effects.REPLICA_COLUMNS, replicas_block)),
    **OF_STUDY,
)
@of_evidence
def make_effects(evidence: Evidence) -> TableFiles:
    """Return the effects of all cells and their means."""
    cells, means = effects.cells_and_means(evidence)
    return TableFiles(cells, beside={"_means.csv": means, "_replicas.csv": effects.replicas_table(evidence)})


_LAW = Layout.of(
    FILE,
    "law",
    formats={
        "change": lambda value: with_minus(f"{value + 0.0:+.2f}"),
        "effect": lambda effect, low, high, p: with_margin(effect, low, high, strong=p is not None and p <= LEVEL),
    },
)


def _law_block(table: pl.DataFrame) -> TableBlock:
    """Lay the law out, with cells that repeat the weights of an earlier one in italics."""
    block = _LAW(table)
    rows = zip(block.rows, table["same_as"], strict=True)
    return replace(block, rows=tuple(tuple(replace(cell, emphasis=bool(same)) for cell in row) for row, same in rows))


@TABLES.add(
    "table_law",
    beside=(".md", ".tex", "_lines.csv", "_predictions.csv"),
    section="law",
    columns=law.COLUMNS,
    layout=_law_block,
    first=(
        ("_predictions", law.PREDICTION_COLUMNS, Layout.of(FILE, "predictions")),
        ("_lines", law.LINE_COLUMNS, Layout.of(FILE, "lines")),
    ),
    **{**OF_EXPERIMENTS, "needs": (*OF_EXPERIMENTS["needs"], "instances")},
)
def make_law(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    instances = {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)}
    found = law.law(Evidence.of(study, files), instances)
    lines = pl.DataFrame(found.lines, schema=law.LINE_COLUMNS)
    beside = {"_lines.csv": lines, "_predictions.csv": law.predictions_table(found)}
    return TableFiles(law.cells_table(found), beside=beside)


_NUMBERS = (
    *("n_lists", "cv_weights", "cv_influence_without", "cv_influence_with"),
    *("cv_mismatch_without", "cv_mismatch_with", "effective_without", "effective_with"),
)
WEIGHT_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: loss bounding"),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


def _of_folds(digits: int) -> Format:
    """Return a format of means over folds, with the smallest and the largest fold in small type."""

    def cell(*values: float) -> Cell:
        mean, least, largest = (f"{value:.{digits}f}" for value in values)
        return Cell(mean, "" if least == largest else f"{least}–{largest}")

    return cell


@TABLES.add(
    "table_list_weights",
    needs=("instances",),
    section="law",
    columns=WEIGHT_COLUMNS,
    layout=Layout.of(
        FILE,
        "weights",
        across=Across(
            ("dataset", "nsr", "loss"),
            ("bounding",),
            {bounding: f"weights of {bounding}" for bounding in AFFINE},
            lambda row: Cell(f"{row['cv_weights']:.3f}"),
        ),
        formats={"lists": lambda some, every: f"{some:.0f} of {every:.0f}"},
    ),
    in_files=Layout.of(FILE, "weights-in-files", formats={"count": _of_folds(0), "cv": _of_folds(3)}),
)
def make_list_weights(name: str, files: StudyFiles) -> pl.DataFrame:
    """Return the table of the data sets whose instances are given: a row per loss and bound, means over folds."""
    from rankbound_study.jobs.weighting import Influence

    every = sorted(map(read_instances, files.instances), key=lambda one: DataSet(one.dataset, one.nsr).place)
    rows = []
    for instances, loss, bounding in product(every, LOSSES, AFFINE):
        folds = []
        for fold in instances.folds:
            view = Influence(instances, fold, loss)
            usual, weighted = view.under(None), view.under(ListWeights.of(bounding))
            pairs = [(one.of_influence, one.of_mismatch, one.effective) for one in (usual, weighted)]
            folds.append([weighted.n, weighted.of_weights, *np.transpose(pairs).ravel()])
        numbers = [value for of in np.transpose(folds) for value in (of.mean(), of.min(), of.max())]
        rows.append((instances.dataset, instances.nsr, loss, bounding, *numbers))
    return pl.DataFrame(rows, schema=WEIGHT_COLUMNS, orient="row")


@TABLES.add(
    "table_regimes",
    section="regimes",
    columns=effects.REGIME_COLUMNS,
    layout=Layout.of(
        FILE,
        "regimes",
        formats={
            "factors": lambda factors, rank: DASH if factors is None else f"{factors} / {rank or DASH}",
            "effect": lambda effect, untrained: signed(effect) + MARK * bool(untrained),
        },
    ),
    **{**OF_EXPERIMENTS, "options": ("study", "planted")},
)
def make_regimes(
    name: str, files: StudyFiles, *, study: str = "thesis", planted: Mapping[str, Mapping[str, float]] | None = None
) -> pl.DataFrame:
    """Return the table of a study; `planted` are the parameters of its generated data sets, by name."""
    return effects.regimes(files, study, planted or {})


def _predicted(above: float | None, below: float | None) -> str:
    """Return the predicted differences: `> 0`, or an interval."""
    if above is not None and below is not None:
        return between(above, below)
    return with_minus(f"> {above:g}" if above is not None else f"< {below:g}")


REGISTERED_FORMATS: dict[str, Format] = {
    "predicted": _predicted,
    "effect": lambda effect, low, high, as_sized: (
        DASH if effect is None else with_margin(effect, low, high, strong=bool(as_sized))
    ),
    # The deciding difference, with what is compared with.
    "deciding": lambda name, value, low, high: Cell(f"{signed(value)} ({between(low, high)})", f"minus {name}"),
}
REGISTERED = Layout.of(FILE, "registered", formats=REGISTERED_FORMATS)
TABLES.add("table_predictions", section="law", columns=law.REGISTERED_COLUMNS, layout=REGISTERED, **OF_EXPERIMENTS)(
    of_evidence(law.registered_table)
)


_MARKS: dict[str, Any] = {"marks": text(FILE, "marks", up=UP, down=DOWN, level=LEVEL)}


def _difference(row: Row, prefix: str = "") -> Cell:
    """Return a difference with its margin, from the columns with this prefix; a dash without one."""
    difference, low, high, p_holm = (row[f"{prefix}{name}"] for name in ("difference", "low", "high", "p_holm"))
    if difference is None:
        return Cell(DASH)
    return with_margin(difference, low, high, ("", UP, DOWN)[significance(difference, p_holm)])


def _crossed(row: Row, *, own: bool) -> Cell:
    """Return a difference with its margin, or, without one, the mean score: in bold if it is `own`."""
    if row["score"] is None or row["difference"] is not None:
        return _difference(row)
    return Cell(f"{row['score']:.{DIGITS}f}", strong=own)


METRICS_CROSSED = "table_metrics_crossed"
TABLES.add(
    "table_metrics_crossed",
    section="crossed",
    columns=comparisons.METRIC_COLUMNS,
    layout=Layout.of(
        FILE,
        "metrics",
        across=Across(
            ("dataset", "nsr", "bounded", "loss", "bounding"),
            ("metric",),
            {metric: metric for metric in comparisons.JUDGED},
            lambda row: _crossed(row, own=row["metric"] in comparisons.TRAINED_FOR),
        ),
        common=comparisons.COMMON,
        **_MARKS,
    ),
    **OF_STUDY,
)(of_evidence(comparisons.metrics_crossed))


def ratio_blocks(table: pl.DataFrame) -> Iterator[TableBlock]:
    """Yield the scores and the effects of bounding; nothing without any."""
    if table.is_empty():
        return

    def score(row: Row) -> Cell:
        return Cell(MARK) if row["score"] is None else _crossed(row, own=row["nsr_train"] == row["nsr_test"])

    def effect(row: Row) -> Cell:
        return Cell(MARK) if row["score"] is None else _difference(row, comparisons.EFFECT)

    titles = {ratio: f"trained at NSR {ratio}" for ratio in table["nsr_train"].unique().sort()}
    untrained = f" {MARK} did not train." if table["score"].has_nulls() else ""
    bounded = table.filter(pl.col("bounding") != UNBOUNDED)
    for piece, rows, write in (("ratios", table, score), ("ratio-effects", bounded, effect)):
        across = Across(("dataset", "nsr_test", "loss", "bounding"), ("nsr_train",), titles, write)
        layout = Layout.of(FILE, piece, across=across, **_MARKS)
        yield layout(rows, caption=f"{layout.caption}{untrained}")


@TABLES.add(
    "table_ratios",
    section="crossed",
    blocks=lambda name, folder: ratio_blocks(read_table(folder / f"{name}.csv", comparisons.RATIO_COLUMNS)),
    **OF_EXPERIMENTS,
)
@of_evidence
def _ratios(evidence: Evidence) -> TableFiles:
    table = comparisons.ratios_crossed(evidence)
    blocks = list(ratio_blocks(table))
    name, caption = titled(FILE, "ratios", **_MARKS)
    return TableFiles(table, texts(f"{name} {caption}", blocks, name.removesuffix("."), titled=True))


def samplings_block(table: pl.DataFrame) -> TableBlock:
    """Return the table, with a column for each sampling that it has."""
    titles = {row: DataSet(*row).label for row in table.select("dataset", "nsr").unique(maintain_order=True).rows()}

    def score(row: Row) -> Cell:
        cell = _crossed(row, own=row["model"] == POPULARITY)
        return replace(cell, text=f"{cell.text}*") if row["picked"] else cell

    return Layout.of(
        FILE,
        "samplings",
        across=Across(("metric", "model", "loss", "bounding"), ("dataset", "nsr"), titles, score),
        formats={
            "trained": lambda model, loss: Cell(model, emphasis=True) if loss == "none" else loss,
            "bound": lambda loss, bounding: DASH if loss == "none" else bounding_title(bounding),
        },
        **_MARKS,
    )(table)


TABLES.add(
    "table_samplings", section="evaluation", columns=comparisons.POPULARITY_COLUMNS, layout=samplings_block, **OF_STUDY
)(of_evidence(comparisons.against_popularity))
