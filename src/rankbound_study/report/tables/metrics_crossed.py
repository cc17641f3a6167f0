"""Tabulate the metric trained against the metric judged, for unbounded losses and their best boundings."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound_study.claims.comparisons import COMMON, JUDGED, METRIC_COLUMNS, TRAINED_FOR, metrics_crossed
from rankbound_study.claims.evidence import Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables._crossed import MARKS, crossed_cell
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles

NAME, SECTION = "table_metrics_crossed", "crossed"

SPECS = {
    NAME: TableSpec(
        "The metric trained against the metric judged: mean scores of the losses, unbounded and with their best "
        "bounding by validation, on seven metrics, minus those of the loss that is trained for the metric.",
        title="metric trained and metric judged",
        needs=("runs", "epochs"),
        options=("study",),
        section=SECTION,
    )
}
TITLE = "Metric trained and metric judged"
CAPTION = (
    "Rows are losses as trained, unbounded and each with the bounding that scores highest on the validation part; "
    "columns are the metrics that judge them on the same test lists. Bold: the mean score of the loss trained for the "
    "metric (nDCG's for nDCG@10). Other cells: the difference from it, bounded minus bounded. For RR and P@k, which "
    f"no loss is trained for, differences are from the {COMMON} loss. {MARKS} Losses that did not train are left out."
)
HEADER = ("data set", "trained on", "bounding", *JUDGED)
LABELS = 3


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    table = metrics_crossed(Evidence(study, files.runs, files.epochs))
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", METRIC_COLUMNS)):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    parts = table.partition_by("dataset", "nsr", "bounded", "loss", "bounding", maintain_order=True)
    rules = changes([part.select("dataset", "nsr", "bounded").row(0) for part in parts])
    return TableBlock(TITLE, CAPTION, HEADER, tuple(map(_cells, parts)), LABELS, rules, sortable=True)


def _cells(part: pl.DataFrame) -> tuple[Cell, ...]:
    rows = {row["metric"]: row for row in part.iter_rows(named=True)}
    first = next(iter(rows.values()))
    label = DataSet(first["dataset"], first["nsr"]).label
    return (
        *map(Cell, (label, first["loss"], bounding_title(first["bounding"]))),
        *(crossed_cell(rows.get(metric), own=metric in TRAINED_FOR) for metric in JUDGED),
    )
