"""Tabulate the published scores of RBP, nDCG and AP losses on CiteULike-a beside ours, unbounded and bounded."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.citeulike import COLUMNS, METRICS, citeulike
from rankbound_study.claims.evidence import Evidence
from rankbound_study.report.blocks import TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.number_texts import score
from rankbound_study.results.specs import StudyFiles

SPECS = {
    "table_citeulike": TableSpec(
        "RBP, nDCG and AP losses on CiteULike-a: published scores beside ours, every loss and bounding at its own "
        "learning rate at each temperature of smooth ranks, and their distance to the unbounded nRBP loss.",
        title="losses on CiteULike-a",
        needs=("experiments", "experiment_epochs"),
        options=("study",),
        section="citeulike",
    )
}
TITLE = "Losses on CiteULike-a"
CAPTION = (
    "Published: Li, Urbano and Hanjalic (SIGIR 2021), at the best rate and epoch on the test part, means over folds. "
    "Ours, test-picked: rate and epoch by the test part, too; then both by the validation part, with the picked rate "
    "(an asterisk marks an end of the grid). Behind nRBP: the unbounded nRBP loss minus the row's at "
    "the same temperature, with its 95 % "
    "interval over users and trainings."
)
HEADER = (
    *("NSR", "temperature", "loss", "bounding", "rate", "trainings"),
    *(
        f"{metric} {what}"
        for metric in METRICS
        for what in ("published", "test-picked", "by validation", "behind nRBP")
    ),
)
LABELS = 4


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    evidence = Evidence(study, experiments=files.experiments, experiment_epochs=files.experiment_epochs)
    table = citeulike(evidence)
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    rows = plain_rows(tuple(_cells(row)) for row in table.iter_rows(named=True))
    return TableBlock(TITLE, CAPTION, HEADER, rows, LABELS, changes(table.select("nsr", "temperature").rows()))


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(row["nsr"]), f"{row['temperature']:g}", row["loss"], row["bounding"])
    yield f"{row['rate']:g}{'*' if row['at_edge'] else ''}"
    yield str(row["n_trainings"])
    for metric in METRICS:
        for value in (row[f"published_{metric}"], row[f"test_picked_{metric}"], row[metric]):
            yield DASH if value is None else score(value)
        behind, low, high = (row[f"{metric}_{name}"] for name in ("behind", "low", "high"))
        yield DASH if behind is None else f"{signed(behind)} ({signed(low)} to {signed(high)})"
