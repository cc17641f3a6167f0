"""Tabulate the learning rates that folds select from their grids, and the scores of all rates.

The table is in long form: a row per cell (data set, model, loss, bounding) and rate.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import read_table as read_contract
from rankbound_study.figures.style import bounding_title
from rankbound_study.jobs.files import RATES
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH
from rankbound_study.results.neural_names import data_set_title
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import BOUNDINGS, LOSSES

SPECS = {
    "table_rates": TableSpec(
        "The learning rates that the folds select from their grids, each by its own validation part, and the mean "
        "scores of all rates of the grids.",
        title="selected learning rates",
        needs=("rates",),
        options=("study",),
    )
}

COLUMNS: dict[str, pl.DataType] = {
    "study": pl.String(),
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("model", "loss", "bounding"), pl.String()),
    **dict.fromkeys(("learning_rate", "mean_score", "mean_test_score"), pl.Float64()),
    **dict.fromkeys(("n_selected", "n_folds"), pl.Int64()),
    "at_edge": pl.Boolean(),
}

TITLE = "Selected learning rates"
CAPTION = (
    "Learning rates that the folds select, each by its own validation part, with the number of folds; bold where a "
    "fold selects an end of its grid, so that a better rate may lie outside. `tables/table_rates.csv` has the mean "
    "scores of all rates of the grids."
)

_CELL = ["study", "dataset", "nsr", "model", "loss", "bounding"]


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study and of the comparisons beside it."""
    assert files.rates is not None
    table = table_rates(files.rates, study)
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield block(table)


def table_rates(rates: Path, study: str) -> pl.DataFrame:
    """Return a row per cell and rate: mean scores over folds, and the number of folds that select the rate."""
    frame = pl.from_arrow(read_contract(rates, RATES))
    assert isinstance(frame, pl.DataFrame)
    own = frame.rename({"nsr_test": "nsr"}).filter(pl.col("study").is_in([study, STUDY]))
    table = (
        own.group_by(*_CELL, "learning_rate")
        .agg(
            pl.col("score").mean().alias("mean_score"),
            pl.col("test_score").mean().alias("mean_test_score"),
            pl.col("chosen").sum().cast(pl.Int64).alias("n_selected"),
            pl.len().cast(pl.Int64).alias("n_folds"),
        )
        .with_columns((_is_end("min") | _is_end("max")).alias("at_edge"))
        .select(*COLUMNS)
    )
    rows = sorted(table.iter_rows(named=True), key=_place)
    return pl.DataFrame(rows, schema=COLUMNS)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: a row per data set and loss or method, a column per bounding."""
    rows, labels = [], []
    for (study, dataset, nsr, model, loss), cells in table.group_by(*_CELL[:5], maintain_order=True):
        selected = {str(bounding): _selected(own) for (bounding,), own in cells.group_by("bounding")}
        labels.append(_data_set(str(study), str(dataset), None if nsr is None else int(str(nsr))))
        name = str(model if study == STUDY else loss)
        rows.append((Cell(labels[-1]), Cell(name), *(selected.get(one, Cell(DASH)) for one in BOUNDINGS)))
    header = ("data set", "loss or method", *map(bounding_title, BOUNDINGS))
    return TableBlock(TITLE, CAPTION, header, tuple(rows), 2, changes(labels))


def _is_end(which: str) -> pl.Expr:
    rate = pl.col("learning_rate")
    end = rate.min() if which == "min" else rate.max()
    return rate == end.over(_CELL)


def _place(row: Mapping[str, object]) -> tuple[object, ...]:
    losses, boundings = list(LOSSES), list(BOUNDINGS)
    return (
        row["study"] == STUDY,
        DataSet(str(row["dataset"]), row["nsr"]).place,  # type: ignore[arg-type]
        row["model"],
        losses.index(row["loss"]) if row["loss"] in losses else len(losses),
        row["loss"],
        boundings.index(row["bounding"]) if row["bounding"] in boundings else len(boundings),
        row["bounding"],
        row["learning_rate"],
    )


def _selected(cell: pl.DataFrame) -> Cell:
    chosen = cell.filter(pl.col("n_selected") > 0)
    texts = [f"{rate:g} ({count})" for rate, count in chosen.select("learning_rate", "n_selected").iter_rows()]
    return Cell(", ".join(texts), strong=bool(chosen["at_edge"].any()))


def _data_set(study: str, dataset: str, nsr: int | None) -> str:
    return data_set_title(dataset) if study == STUDY else DataSet(dataset, nsr).label
