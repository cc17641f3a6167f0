"""Tables of the protocols: the bias of a test-picked epoch, selected learning rates, signs of effects under both."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rankbound.compare import Settings, compare
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import RATES
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.columns import Across, Cell, Column, Layout, Row, TableBlock, with_margin
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
    title="bias of a test-picked epoch",
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
    rows = [row for cell in cells for row in _flattery_row(cell)]
    return pl.DataFrame(sorted(rows, key=_cell_place), schema=FLATTERY_COLUMNS)


def _flattery_row(cell: pl.DataFrame) -> Iterator[dict[str, Any]]:
    first = cell.row(0, named=True)
    metric = JUDGED_BY[first["loss"]]
    scores = scores_of_runs(cell, metric, by=("selection",))
    if set(scores.systems) == set(_PICKED):
        comparison = compare(scores.pair(*_PICKED), Settings())
        means = comparison.mean_a, comparison.mean_b, comparison.difference, comparison.low, comparison.high
        counts = comparison.n_units, cell.select("fold", "seed").n_unique()
        key = first["dataset"], first["nsr_test"], first["loss"], first["bounding"], metric
        yield dict(zip(FLATTERY_COLUMNS, (*key, *means, *counts), strict=True))


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
            "data": Column(
                "",
                ("study", "dataset", "nsr"),
                lambda study, *data_set: data_set_title(data_set[0]) if study == STUDY else DataSet(*data_set).label,
                null=True,
            ),
            "trained": lambda study, model, loss: model if study == STUDY else loss,
        },
    )(cells)


@TABLES.add(
    "table_rates",
    title="selected learning rates",
    needs=("rates",),
    part=HONEST,
    options=("study",),
    columns=RATE_COLUMNS,
    layout=rates_block,
)
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
