"""Tables of the effects of bounding and of list weights: all cells, the law, the weights, regimes of generated data."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS as EFFECT_COLUMNS
from rankbound_study.claims.effects import (
    EVERY,
    MEAN_COLUMNS,
    REGIME_COLUMNS,
    REPLICA_COLUMNS,
    cells_table,
    effects,
    means_table,
    regimes,
    replicas_table,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.law import CHANGES, LINE_COLUMNS, PREDICTION_COLUMNS, law, lines_table, predictions_table
from rankbound_study.claims.law import COLUMNS as LAW_COLUMNS
from rankbound_study.claims.law import cells_table as law_cells_table
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.reader import read_instances
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.report.columns import (
    DASH,
    DATA_SET,
    Across,
    Cell,
    Column,
    Layout,
    TableBlock,
    between,
    fixed,
    signed,
    with_margin,
    with_minus,
    with_minus_signs,
)
from rankbound_study.report.table_files import TableFiles
from rankbound_study.report.tables import OF_STUDY, TableSpec, evidence_of, of_evidence
from rankbound_study.results.study_files import StudyFiles, schema
from rankbound_study.results.trained import MARK
from rankbound_study.templates import text
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES

FILE = "table_effects.md"
TABLES = Catalogue(TableSpec, FILE)

EFFECTS = Layout(
    "Effects of bounding",
    text(FILE, "effects"),
    (
        DATA_SET,
        Column("loss"),
        Column("bounding"),
        Column(
            "effect",
            ("effect", "p_holm", "alike"),
            lambda effect, p_holm, alike: Cell(signed(effect), strong=p_holm <= LEVEL, emphasis=alike),
            null=True,
        ),
        Column("95 % interval", ("low", "high"), between),
        Column("margin", write=fixed(4)),
        Column("p (Holm)", "p_holm", fixed(4)),
    ),
    labels=3,
    rules=("loss",),
    sortable=True,
)
MEANS = Layout(
    "Mean effects",
    text(FILE, "means"),
    (
        Column("bounds"),
        Column("loss", write=lambda loss: "all losses" if loss == EVERY else loss),
        Column("cells", "n"),
        Column(
            "mean effect",
            ("mean", "low", "high"),
            lambda mean, low, high: Cell(signed(mean), strong=low > 0 or high < 0),
        ),
        Column("95 % interval", ("low", "high"), between),
        Column("SD between cells", "between", fixed(4)),
        Column("effect in a new cell", ("new_low", "new_high"), between),
    ),
    labels=2,
    rules=("bounds",),
)


_REPLICAS = ("replicas", "dataset", "nsr")


def replicas_block(table: pl.DataFrame) -> TableBlock:
    """Lay the A/A test out: a row per data set and kind of replicas."""
    covers = {
        name: ((pl.col(f"{name}low") <= 0) & (pl.col(f"{name}high") >= 0)).sum().alias(f"{name}covers")
        for name in ("", "topics_")
    }
    largest = pl.col("difference").abs().max().alias("largest")
    return REPLICAS(table.group_by(_REPLICAS, maintain_order=True).agg(pl.len().alias("n"), *covers.values(), largest))


REPLICAS = Layout(
    "Replicas",
    text(FILE, "replicas"),
    (
        *(Column("replicas"), DATA_SET, Column("pairs", "n"), Column("contain 0", "covers")),
        *(Column("over topics alone", "topics_covers"), Column("largest difference", "largest", fixed(4))),
    ),
    labels=2,
    rules=("replicas",),
)


@TABLES.add(
    "table_effects",
    title="the effects of bounding",
    beside=(".md", ".tex", "_means.csv", "_replicas.csv"),
    section="effects",
    columns=EFFECT_COLUMNS,
    layout=EFFECTS,
    first=(("_means", MEAN_COLUMNS, MEANS), ("_replicas", REPLICA_COLUMNS, replicas_block)),
    **OF_STUDY,
)
@of_evidence
def make_effects(evidence: Evidence) -> TableFiles:
    """Return the effects of all cells and their means."""
    found = effects(evidence)
    return TableFiles(
        cells_table(found), beside={"_means.csv": means_table(found), "_replicas.csv": replicas_table(evidence)}
    )


def _unless_repeated(column: Column) -> Column:
    """Return a column of the law, in italics where the cell repeats the weights of an earlier one."""
    return Column(column.title, None, lambda row: replace(column.cell(row), emphasis=bool(row["same_as"])))


_LAW_COLUMNS = (
    *(DATA_SET, Column("loss"), Column("weights")),
    *(
        Column(title, name, lambda value: with_minus(f"{value + 0.0:+.2f}"))
        for title, name in zip(("mismatch", "influence", "CV of weights"), CHANGES.values(), strict=True)
    ),
    Column(
        "effect",
        ("effect", "low", "high", "p_residual"),
        lambda effect, low, high, p: with_margin(effect, low, high, strong=p is not None and p <= LEVEL),
        null=True,
    ),
    Column("predicted", write=signed),
)
LAW = Layout(
    "The law of list weights",
    text(FILE, "law"),
    tuple(map(_unless_repeated, _LAW_COLUMNS)),
    labels=3,
    rules=("dataset", "nsr", "origin"),
    sortable=True,
)


def _fit(name: str) -> tuple[Column, Column]:
    return Column(name, write=signed), Column("95 % interval", (f"{name}_low", f"{name}_high"), between)


LINES = Layout(
    "Lines through the cells",
    text(FILE, "lines"),
    (
        *(Column("predictor"), Column("cells"), Column("n"), *_fit("slope"), *_fit("intercept")),
        Column("R²", "r_squared", fixed(2)),
        Column("predicts", "n_held_out", str),
        Column("R² held out", "r_squared_held_out", fixed(2)),
    ),
    labels=2,
    rules=("predictor",),
)
PREDICTIONS = Layout(
    "Predictions",
    "The law and the predictions of docs/law.md, written before the experiment ran, and the outcome.",
    tuple(
        Column(title, name, with_minus_signs)
        for title, name in zip(("prediction", "outcome", "found"), PREDICTION_COLUMNS, strict=True)
    ),
    labels=3,
    prose=frozenset({0, 2}),
)


@TABLES.add(
    "table_law",
    title="the law of list weights",
    needs=("runs", "epochs", "experiments", "experiment_epochs", "instances"),
    part=HONEST,
    options=("study",),
    beside=(".md", ".tex", "_lines.csv", "_predictions.csv"),
    section="law",
    columns=LAW_COLUMNS,
    layout=LAW,
    first=(("_predictions", PREDICTION_COLUMNS, PREDICTIONS), ("_lines", LINE_COLUMNS, LINES)),
)
def make_law(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    instances = {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)}
    found = law(evidence_of(files, study), instances)
    beside = {"_lines.csv": lines_table(found), "_predictions.csv": predictions_table(found)}
    return TableFiles(law_cells_table(found), beside=beside)


_NUMBERS = {
    "n_lists": ("lists", 0),
    "cv_weights": ("weights", 3),
    "cv_influence_without": ("influence without", 3),
    "cv_influence_with": ("with", 3),
    "cv_mismatch_without": ("mismatch without", 3),
    "cv_mismatch_with": ("with", 3),
    "effective_without": ("effective lists without", 0),
    "effective_with": ("with", 0),
}
"""Number -> its title and decimals."""

WEIGHT_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: loss bounding"),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


def _of_folds(name: str, title: str, digits: int) -> Column:
    """Return a column of means over folds, with the smallest and the largest fold in small type."""

    def cell(*values: float) -> Cell:
        mean, least, largest = (f"{value:.{digits}f}" for value in values)
        return Cell(mean, "" if least == largest else f"{least}–{largest}")

    return Column(title, (name, f"{name}_least", f"{name}_largest"), cell)


WEIGHTS_IN_FILES = Layout(
    "List weights of bounds",
    text(FILE, "weights-in-files"),
    (
        *(DATA_SET, Column("loss"), Column("bounding")),
        *(_of_folds(name, title, digits) for name, (title, digits) in _NUMBERS.items()),
    ),
    labels=3,
    rules=("dataset", "nsr", "loss"),
    sortable=True,
)
WEIGHTS = Layout(
    "List weights of bounds",
    text(FILE, "weights"),
    (
        *(DATA_SET, Column("loss")),
        Column("effective lists", ("effective_without", "n_lists"), lambda some, every: f"{some:.0f} of {every:.0f}"),
        Column("influence", "cv_influence_without", fixed(3)),
    ),
    labels=2,
    rules=("dataset", "nsr"),
    sortable=True,
    across=Across(
        ("dataset", "nsr", "loss"),
        ("bounding",),
        {bounding: f"weights of {bounding}" for bounding in AFFINE},
        lambda row: Cell(f"{row['cv_weights']:.3f}"),
    ),
)


@TABLES.add(
    "table_list_weights",
    title="list weights of bounds",
    needs=("instances",),
    section="law",
    columns=WEIGHT_COLUMNS,
    layout=WEIGHTS,
    in_files=WEIGHTS_IN_FILES,
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


REGIMES = Layout(
    "Effect of bounding by regime",
    text(FILE, "regimes"),
    (
        DATA_SET,
        Column("spread", write="{:g}".format),
        Column("correlation", write="{:g}".format),
        Column(
            "factors / rank",
            ("factors", "rank"),
            lambda factors, rank: DASH if factors is None else f"{factors} / {rank or DASH}",
            null=True,
        ),
        *(Column("loss"), Column("bounding")),
        Column("CV", "influence_cv", fixed(2)),
        Column("mean P(N − P)", "pairs", fixed(0)),
        Column("unbounded", write=fixed(4)),
        Column(
            "effect",
            ("effect", "n_untrained"),
            lambda effect, untrained: signed(effect) + MARK * bool(untrained),
            null=True,
        ),
        Column("95 % interval", ("low", "high"), between, null=True),
        *(Column("short lists", "effect_short", signed), Column("long lists", "effect_long", signed)),
    ),
    labels=6,
    rules=("dataset", "nsr", "factors"),
    sortable=True,
)


@TABLES.add(
    "table_regimes",
    title="effect of bounding by regime",
    needs=("runs", "epochs", "experiments", "experiment_epochs"),
    part=HONEST,
    options=("study", "planted"),
    section="regimes",
    columns=REGIME_COLUMNS,
    layout=REGIMES,
)
def make_regimes(
    name: str,
    files: StudyFiles,
    *,
    study: str = "thesis",
    planted: Mapping[str, Mapping[str, float]] | None = None,
) -> pl.DataFrame:
    """Return the table of a study; `planted` are the parameters of its generated data sets, by name."""
    return regimes(files, study, planted or {})
