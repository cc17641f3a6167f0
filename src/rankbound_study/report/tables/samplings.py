"""Tabulate losses against the sampling of test negatives, with popularity as the reference."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.comparisons import POPULARITY_COLUMNS, against_popularity
from rankbound_study.claims.evidence import Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables._crossed import MARKS, crossed_cell
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import POPULARITY

SPECS = {
    "table_samplings": TableSpec(
        "Losses and boundings against the sampling of test negatives: mean scores minus that of popularity, the count "
        "of training ratings, on the same lists.",
        title="losses and samplings",
        needs=("runs", "epochs"),
        options=("study",),
        section="evaluation",
    )
}
TITLE = "Losses and samplings of negatives"
CAPTION = (
    "Columns are samplings of negatives, those of the test lists last; rows are losses and boundings, in the metric "
    "that judges the loss. Bold: the mean score of popularity, the count of training ratings. Other cells: the "
    f"difference from it on the same lists. {MARKS} An asterisk marks the best bounding of a loss by validation."
)
LABELS = 3


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    table = against_popularity(Evidence(study, files.runs, files.epochs))
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", POPULARITY_COLUMNS)):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    sets = [DataSet(*row) for row in table.select("dataset", "nsr").unique(maintain_order=True).rows()]
    parts = table.partition_by("metric", "model", "loss", "bounding", maintain_order=True)
    rows = tuple(_row(part, sets) for part in parts)
    header = ("judged by", "model or loss", "bounding", *(data_set.label for data_set in sets))
    rules = changes([part["metric"][0] for part in parts])
    return TableBlock(TITLE, CAPTION, header, rows, LABELS, rules, sortable=True)


def _row(part: pl.DataFrame, sets: list[DataSet]) -> tuple[Cell, ...]:
    first = part.row(0, named=True)
    control = first["loss"] == "none"
    labels = (
        Cell(first["metric"]),
        Cell(first["model"] if control else first["loss"], emphasis=control),
        Cell(DASH if control else bounding_title(first["bounding"])),
    )
    rows = {DataSet(row["dataset"], row["nsr"]): row for row in part.iter_rows(named=True)}
    return (*labels, *(_cell(rows.get(data_set)) for data_set in sets))


def _cell(row: dict[str, Any] | None) -> Cell:
    cell = crossed_cell(row, own=row is not None and row["model"] == POPULARITY)
    return replace(cell, text=f"{cell.text}*") if row is not None and row["picked"] else cell
