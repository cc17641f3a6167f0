"""Tables of the protocol's choices: the epoch, learning rates, and sensitivity to what the thesis does not state.

The last has one row per variant and data set, against the study's own setting: the changes in the mean scores of the
losses (each by the metric that judges it), the number of significant changes, and the agreement between the orders of
the losses.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

import polars as pl

from rankbound.compare import Settings, compare
from rankbound_study.claims.comparisons import distribution_variants
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.rules import Family
from rankbound_study.claims.varied import least_tau, least_tau_of_seeds, paired, trainings, usual_beside
from rankbound_study.claims.verdicts import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import RATES
from rankbound_study.figures import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Across, Cell, Layout, Row, TableBlock, TableFiles, with_margin
from rankbound_study.report.numbers import DASH, with_minus
from rankbound_study.report.tables import TableSpec
from rankbound_study.results.neural import data_set_title
from rankbound_study.results.scores import place, scores_of_runs
from rankbound_study.results.study_files import StudyFiles, read_frame, scan_runs, schema
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES, STUDY

FILE = "table_protocols.md"
TABLES = Catalogue(TableSpec, FILE)

FLATTERY_COLUMNS = schema(
    "text: dataset; int8: nsr; text: loss bounding metric; float: test_picked validation_picked "
    "flattery low high; int: n_topics n_trainings"
)
_KEY = ("dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed", "drawing", "topic", "selection", "n", "p")
_PICKED = ("test", "validation")
_BOUNDINGS = {bounding: bounding_title(bounding) for bounding in BOUNDINGS}


@TABLES.add(
    "table_flattery",
    needs=("runs",),
    part=HONEST,
    options=("study",),
    columns=FLATTERY_COLUMNS,
    layout=Layout.of(
        FILE,
        "flattery",
        across=Across(
            ("dataset", "nsr", "loss"),
            ("bounding",),
            _BOUNDINGS,
            lambda row: with_margin(row["flattery"], row["low"], row["high"], strong=row["low"] > 0 or row["high"] < 0),
        ),
    ),
    in_files=Layout.of(FILE, "flattery-in-files"),
)
def make_flattery(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return a row per cell, with the 95 % interval of the mean difference over topics (whole users or queries)."""
    trained = (
        scan_runs(files.needed("runs"))
        .filter(pl.col("protocol") == HONEST, pl.col("study") == study, pl.col("selection").is_in(_PICKED))
        .filter(pl.col("loss").is_in(LOSSES))
        .select(*_KEY, *JUDGED_BY.values())
        .collect()
    )
    cells = trained.partition_by("dataset", "nsr_test", "loss", "bounding", maintain_order=True)
    rows = []
    for cell in cells:
        first = cell.row(0, named=True)
        metric = JUDGED_BY[first["loss"]]
        scores = scores_of_runs(cell, metric, by=("selection",))
        if set(scores.systems) == set(_PICKED):
            found = compare(scores.pair(*_PICKED), Settings())
            key = first["dataset"], first["nsr_test"], first["loss"], first["bounding"], metric
            numbers = found.mean_a, found.mean_b, found.difference, found.low, found.high, found.n_units
            trainings = cell.select("fold", "seed").n_unique()
            rows.append(dict(zip(FLATTERY_COLUMNS, (*key, *numbers, trainings), strict=True)))
    return pl.DataFrame(sorted(rows, key=_cell_place), schema=FLATTERY_COLUMNS)


def _cell_place(row: Row) -> tuple[Any, ...]:
    data_set = DataSet(row["dataset"], row["nsr"])
    return data_set.place, row.get("model"), place(row["loss"], LOSSES), place(row["bounding"], BOUNDINGS)


RATE_COLUMNS = schema(
    "text: study dataset; int8: nsr; text: model loss bounding; float: learning_rate mean_score "
    "mean_test_score; int: n_selected n_folds; flag: at_edge"
)
_RATE_CELL = ["study", "dataset", "nsr", "model", "loss", "bounding"]


def rates_block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: the rates that the folds of a cell select, with their numbers."""
    chosen = pl.col("n_selected") > 0
    rate = pl.format("{} ({})", pl.col("learning_rate").map_elements("{:g}".format, pl.String), "n_selected")
    cells = table.group_by(_RATE_CELL, maintain_order=True).agg(
        rate.filter(chosen).str.join(", ").alias("selected"), pl.col("at_edge").filter(chosen).any()
    )
    return Layout.of(
        FILE,
        "rates",
        across=Across(
            ("study", "dataset", "nsr", "model", "loss"),
            ("bounding",),
            _BOUNDINGS,
            lambda row: Cell(row["selected"], strong=row["at_edge"]),
        ),
        formats={
            "data": lambda study, *data_set: (
                data_set_title(data_set[0]) if study == STUDY else DataSet(*data_set).label
            ),
            "trained": lambda study, model, loss: model if study == STUDY else loss,
        },
    )(cells)


@TABLES.add("table_rates", needs=("rates",), part=HONEST, options=("study",), columns=RATE_COLUMNS, layout=rates_block)
def make_rates(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return a row per cell and rate, of the study and of the comparisons beside it.

    A row has mean scores over folds, and the number of folds that select the rate.
    """
    rate = pl.col("learning_rate")
    at_end = (rate == rate.min().over(_RATE_CELL)) | (rate == rate.max().over(_RATE_CELL))
    table = (
        read_frame(files.needed("rates"), RATES)
        .rename({"nsr_test": "nsr"})
        .filter(pl.col("study").is_in([study, STUDY]))
        .group_by(*_RATE_CELL, "learning_rate")
        .agg(
            pl.col("score").mean().alias("mean_score"),
            pl.col("test_score").mean().alias("mean_test_score"),
            pl.col("chosen").sum().cast(pl.Int64).alias("n_selected"),
            pl.len().cast(pl.Int64).alias("n_folds"),
        )
        .with_columns(at_end.alias("at_edge"))
        .select(*RATE_COLUMNS)
    )
    rows = sorted(table.to_dicts(), key=lambda row: (row["study"] == STUDY, _cell_place(row), row["learning_rate"]))
    return pl.DataFrame(rows, schema=RATE_COLUMNS)


T = TypeVar("T")

COLUMNS = schema(
    "text: choice variant setting dataset; int8: nsr; int: n_trainings n_untrained; float: "
    "mean_change least_change largest_change; int: n_higher n_lower; float: order_agreement "
    "agreement_of_seeds"
)
LAST_EPOCH = "last epoch"
"""A variant that needs no training: the last epoch instead of the one picked by validation."""

READINGS = ("-label1", "-label2")
"""Suffixes of the names of judged lists whose labels from 1, or from 2, count as relevant."""

_OTHER_DISTRIBUTION = "distribution("
"""Prefix of the name of a distribution bounding with parameters."""

AS_USUAL = "as in the study"
"""Setting of a variant with the options of the study."""


def option_text(name: str, value: object) -> str:
    """Return an option's name, as in the configuration, and its value: `learning rate 0.001`, `hidden 100-30`."""
    values = value if isinstance(value, list) else [value]
    return f"{name.replace('_', ' ')} {'-'.join(str(one).removesuffix('.0') for one in values)}"


def differing(options: Mapping[str, object], usual: Mapping[str, object]) -> list[str]:
    """Return, in alphabetical order, the options that differ from the usual ones or that only `options` has."""
    return [
        option_text(name, value) for name, value in sorted(options.items()) if name not in usual or usual[name] != value
    ]


def table_sensitivity(evidence: Evidence, experiments: Mapping[str, Sequence[DataSet]]) -> pl.DataFrame:
    """Return a row per variant and column; experiments that did not run are left out."""
    rows = [one for name, columns in experiments.items() for on in columns for one in _experiment(evidence, name, on)]
    every = dict.fromkeys(column for columns in experiments.values() for column in columns)
    usual = {column: own for column in every if len(own := _trained(evidence, column))}
    for column, own in usual.items():
        if len(last := _trained(evidence, column, "last")):
            rows.append(_row(("epoch", LAST_EPOCH, LAST_EPOCH), column, last, own))
    # The readings are compared on the queries that have relevant documents by both.
    for column, own in usual.items():
        other = DataSet(column.dataset.removesuffix(READINGS[0]) + READINGS[1], column.nsr)
        if column.dataset.endswith(READINGS[0]) and len(found := _trained(evidence, other)):
            label = DataSet(other.dataset, None).label.split(" ", 1)[1]
            rows.append(_row(("relevant", label, option_text("relevant", label)), column, found, own))
    return pl.DataFrame(rows, schema=COLUMNS)


def _found(read: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
    """Return what a function reads; None if it misses its evidence."""
    try:
        return read(*arguments, **options)
    except MissingEvidence:
        return None


def _experiment(evidence: Evidence, name: str, column: DataSet) -> Iterator[dict[str, object]]:
    whole = evidence.of_all_trainings()
    every, trained = (_found(Evidence.varied, one, name, column) or {} for one in (whole, evidence))
    for variant, rows in every.items():
        kept = _by_bounding(trained[variant]) if variant in trained else {}
        for bounding, own in _by_bounding(rows).items():
            # If the study's own did not train, there is nothing to compare with but the settings.
            settings, usual = (_found(usual_beside, one, column, own) for one in (whole, evidence))
            if settings is None:
                continue
            label = bounding.removeprefix(_OTHER_DISTRIBUTION).removesuffix(")") or variant
            compared = kept.get(bounding, own.clear())
            untrained = len(trainings(own)) - len(trainings(compared))
            # The options that differ from the study's own runs, and the bounding if it differs.
            beside = settings if usual is None else usual
            of_bounding = [option_text("bounding", bounding)] if bounding else []
            texts = {
                ", ".join([*differing(json.loads(ours), json.loads(other)), *of_bounding]) or AS_USUAL
                for ours, other in product(own["options"].unique(), beside["options"].unique())
            }
            words = (name, label, " or ".join(sorted(texts)))
            if row := _found(_row, words, column, compared, settings.clear() if usual is None else usual, untrained):
                yield row


def _by_bounding(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Split rows by distribution bounding with parameters, renamed to the usual one; all other rows have the key ''."""
    others = [name for name in rows["bounding"].unique().sort() if name.startswith(_OTHER_DISTRIBUTION)]
    plain = rows.filter(~pl.col("bounding").is_in(others))
    usual = pl.lit("distribution").alias("bounding")
    with_parameters = {name: rows.filter(pl.col("bounding") == name).with_columns(usual) for name in others}
    return with_parameters | ({"": plain} if len(plain) else {})


def _trained(evidence: Evidence, column: DataSet, picked: str = "validation") -> pl.DataFrame:
    """Return the rows of all losses; none without runs."""
    if (rows := _found(evidence.cell, column, selection=picked)) is None:
        return pl.DataFrame()
    return rows.filter(pl.col("loss").is_in(list(JUDGED_BY))).select(*KEY, *JUDGED_BY.values()).collect()


def _row(
    words: tuple[str, str, str], column: DataSet, rows: pl.DataFrame, usual: pl.DataFrame, untrained: int = 0
) -> dict[str, object]:
    """Return a row of the table; without a training that trained, it has no numbers.

    `words` are the experiment, its variant, and the variant's setting in words.
    """
    both = [training for training in trainings(rows) if training in trainings(usual)]
    counts = {"n_trainings": len(both), "n_untrained": untrained}
    row = dict.fromkeys(COLUMNS) | dict(zip(COLUMNS, (*words, *column), strict=False)) | counts
    if not both:
        return row
    family = Family({training: paired(rows, usual, training) for training in both})
    some = pl.DataFrame(both, schema=["loss", "bounding"], orient="row")
    compared = [runs.join(some, on=["loss", "bounding"], how="semi") for runs in (rows, usual)]
    return row | {
        "mean_change": sum(family.means) / len(both),
        "least_change": min(family.means),
        "largest_change": max(family.means),
        "n_higher": len(family.higher),
        "n_lower": len(family.lower),
        "order_agreement": least_tau(compared, "nDCG") if len(both) > 1 else None,
        "agreement_of_seeds": least_tau_of_seeds(compared, "nDCG") if len(both) > 1 else None,
    }


@TABLES.add(
    "table_sensitivity",
    needs=("runs", "experiments"),
    part=HONEST,
    uses=("epochs", "experiment_epochs"),
    options=("study", "experiments"),
    beside=(".md", ".tex", "_distribution.csv"),
    columns=COLUMNS,
    layout=Layout.of(
        FILE, "sensitivity", formats={"tau": lambda tau: DASH if math.isnan(tau) else with_minus(f"{tau:.2f}")}
    ),
)
def make_sensitivity(
    name: str,
    files: StudyFiles,
    *,
    study: str = "thesis",
    experiments: Mapping[str, Sequence[tuple[str, int]]] | None = None,
) -> TableFiles:
    """Return the table of a study; `experiments` are their data sets (name, NSR) by the experiment's name."""
    evidence = Evidence.of(study, files)
    columns = {name: [DataSet(*column) for column in listed] for name, listed in (experiments or {}).items()}
    beside = {"_distribution.csv": distribution_variants(evidence)}
    return TableFiles(table_sensitivity(evidence, columns), beside=beside)
