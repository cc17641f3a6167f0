"""Tables of the effects of bounding and of list weights: all cells, the law, the weights, regimes, predictions."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl

from rankbound.compare.comparison import LEVEL
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
from rankbound_study.claims.law import COLUMNS as LAW_COLUMNS
from rankbound_study.claims.law import (
    LINE_COLUMNS,
    PREDICTION_COLUMNS,
    REGISTERED_COLUMNS,
    law,
    lines_table,
    registered_table,
)
from rankbound_study.claims.law import cells_table as law_cells_table
from rankbound_study.claims.law import predictions_table as outcomes_table
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.reader import read_instances
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.report.columns import (
    DASH,
    Across,
    Cell,
    Column,
    Layout,
    TableBlock,
    between,
    signed,
    with_margin,
    with_minus,
)
from rankbound_study.report.table_files import TableFiles
from rankbound_study.report.tables import OF_EXPERIMENTS, OF_STUDY, TableSpec, evidence_of, of_evidence
from rankbound_study.results.scores import MARK
from rankbound_study.results.study_files import StudyFiles, schema
from rankbound_study.vocabulary import AFFINE, LOSSES, ListWeights

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
        "loss": lambda loss: "all losses" if loss == EVERY else loss,
        "mean": lambda mean, low, high: Cell(signed(mean), strong=low > 0 or high < 0),
    },
)


@TABLES.add(
    "table_effects",
    title="the effects of bounding",
    beside=(".md", ".tex", "_means.csv", "_replicas.csv"),
    section="effects",
    columns=EFFECT_COLUMNS,
    layout=Layout.of(
        FILE,
        "effects",
        formats={
            "effect": Column(
                "",
                ("effect", "p_holm", "alike"),
                lambda effect, p_holm, alike: Cell(signed(effect), strong=p_holm <= LEVEL, emphasis=alike),
                null=True,
            )
        },
    ),
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


_LAW = Layout.of(
    FILE,
    "law",
    formats={
        "change": lambda value: with_minus(f"{value + 0.0:+.2f}"),
        "effect": Column(
            "",
            ("effect", "low", "high", "p_residual"),
            lambda effect, low, high, p: with_margin(effect, low, high, strong=p is not None and p <= LEVEL),
            null=True,
        ),
    },
)


def _law_block(table: pl.DataFrame) -> TableBlock:
    """Lay the law out, with cells that repeat the weights of an earlier one in italics."""
    block = _LAW(table)
    rows = zip(block.rows, table["same_as"], strict=True)
    return replace(block, rows=tuple(tuple(replace(cell, emphasis=bool(same)) for cell in row) for row, same in rows))


@TABLES.add(
    "table_law",
    title="the law of list weights",
    beside=(".md", ".tex", "_lines.csv", "_predictions.csv"),
    section="law",
    columns=LAW_COLUMNS,
    layout=_law_block,
    first=(
        ("_predictions", PREDICTION_COLUMNS, Layout.of(FILE, "predictions")),
        ("_lines", LINE_COLUMNS, Layout.of(FILE, "lines")),
    ),
    **{**OF_EXPERIMENTS, "needs": (*OF_EXPERIMENTS["needs"], "instances")},
)
def make_law(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    instances = {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)}
    found = law(evidence_of(files, study), instances)
    beside = {"_lines.csv": lines_table(found), "_predictions.csv": outcomes_table(found)}
    return TableFiles(law_cells_table(found), beside=beside)


_NUMBERS = {
    "n_lists": "lists",
    "cv_weights": "weights",
    "cv_influence_without": "influence without",
    "cv_influence_with": "with",
    "cv_mismatch_without": "mismatch without",
    "cv_mismatch_with": "with",
    "effective_without": "effective lists without",
    "effective_with": "with",
}
"""Number -> its title; coefficients of variation have decimals."""

WEIGHT_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: loss bounding"),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


_IN_FILES = Layout.of(FILE, "weights-in-files")


def _of_folds(name: str) -> Column:
    """Return a column of means over folds, with the smallest and the largest fold in small type."""

    def cell(*values: float) -> Cell:
        mean, least, largest = (f"{value:.{3 if name.startswith('cv') else 0}f}" for value in values)
        return Cell(mean, "" if least == largest else f"{least}–{largest}")

    return Column(_NUMBERS[name], (name, f"{name}_least", f"{name}_largest"), cell)


@TABLES.add(
    "table_list_weights",
    title="list weights of bounds",
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
    in_files=replace(_IN_FILES, columns=(*_IN_FILES.columns, *map(_of_folds, _NUMBERS))),
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
    title="effect of bounding by regime",
    section="regimes",
    columns=REGIME_COLUMNS,
    layout=Layout.of(
        FILE,
        "regimes",
        formats={
            "factors": Column(
                "",
                ("factors", "rank"),
                lambda factors, rank: DASH if factors is None else f"{factors} / {rank or DASH}",
                null=True,
            ),
            "effect": Column(
                "",
                ("effect", "n_untrained"),
                lambda effect, untrained: signed(effect) + MARK * bool(untrained),
                null=True,
            ),
            "interval": Column("", ("low", "high"), between, null=True),
        },
    ),
    **{**OF_EXPERIMENTS, "options": ("study", "planted")},
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


def _predicted(above: float | None, below: float | None) -> str:
    """Return the predicted differences: `> 0`, or an interval."""
    if above is not None and below is not None:
        return between(above, below)
    return with_minus(f"> {above:g}" if above is not None else f"< {below:g}")


REGISTERED = Layout.of(
    FILE,
    "registered",
    formats={
        "predicted": Column("", ("above", "below"), _predicted, null=True),
        "effect": Column(
            "",
            ("effect", "low", "high", "as_sized"),
            lambda effect, low, high, as_sized: (
                DASH if effect is None else with_margin(effect, low, high, strong=bool(as_sized))
            ),
            null=True,
        ),
        # The deciding difference, with what is compared with.
        "deciding": lambda name, value, low, high: Cell(f"{signed(value)} ({between(low, high)})", f"minus {name}"),
    },
)
TABLES.add(
    "table_predictions",
    title="registered predictions",
    section="law",
    columns=REGISTERED_COLUMNS,
    layout=REGISTERED,
    **OF_EXPERIMENTS,
)(of_evidence(registered_table))
