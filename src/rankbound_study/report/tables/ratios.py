"""Tabulate the ratio of negatives trained against the ratio tested."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.comparisons import EFFECT, RATIO_COLUMNS, ratios_crossed
from rankbound_study.claims.evidence import Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, TableTexts, read_table
from rankbound_study.report.tables._crossed import MARKS, crossed_cell, difference_cell
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles
from rankbound_study.results.trained import MARK
from rankbound_study.vocabulary import UNBOUNDED

SPECS = {
    "table_ratios": TableSpec(
        "The ratio of negatives trained against the ratio tested: mean scores of all losses and boundings minus those "
        "of training at the ratio of the test, and the effect of bounding for each pair of ratios.",
        title="ratio trained and ratio tested",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study",),
        section="crossed",
    )
}
TITLE = "Ratio trained and ratio tested"
CAPTION = (
    "Rows are test lists, at one negative sampling ratio, with losses and boundings; columns are the ratios of the "
    "training, and scores are in the metric that judges the loss. Bold: the mean score of training at the ratio of the "
    "test. Other cells: the difference from it, over the test lists that lost no negative because training had seen "
    f"it. {MARKS}"
)
EFFECTS_TITLE = "Effect of bounding by ratio trained and ratio tested"
EFFECTS_CAPTION = (
    f"Bounded minus unbounded, both trained at the ratio of the column and tested at that of the row. {MARKS}"
)
LABELS = 3


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the table of a study."""
    evidence = Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs)
    table = ratios_crossed(evidence)
    found = list(blocks_of(table))
    heading = f"{TITLE}. {CAPTION}"
    texts = TableTexts(render_markdown.tables(heading, found, titled=True), render_latex.tables(TITLE, found))
    return TableFiles(table, texts)


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the scores and the effects of bounding, unless there are none."""
    if len(table := read_table(folder / f"{name}.csv", RATIO_COLUMNS)):
        yield from blocks_of(table)


def blocks_of(table: pl.DataFrame) -> Iterator[TableBlock]:
    """Yield both tables for the report."""
    ratios = table["nsr_train"].unique().sort().to_list()
    header = ("test lists", "loss", "bounding", *(f"trained at NSR {ratio}" for ratio in ratios))
    bounded = table.filter(pl.col("bounding") != UNBOUNDED)
    for title, caption, rows, cell in (
        (TITLE, CAPTION, table, _score),
        (EFFECTS_TITLE, EFFECTS_CAPTION, bounded, _effect),
    ):
        parts = rows.partition_by("dataset", "nsr_test", "loss", "bounding", maintain_order=True)
        rules = changes([part.select("dataset", "nsr_test", "loss").row(0) for part in parts])
        cells = tuple(_row(part, ratios, cell) for part in parts)
        if table["score"].has_nulls():
            caption = f"{caption} {MARK} did not train."
        yield TableBlock(title, caption, header, cells, LABELS, rules, sortable=True)


def _row(part: pl.DataFrame, ratios: list[int], cell: Any) -> tuple[Cell, ...]:
    first = part.row(0, named=True)
    of_ratio = {row["nsr_train"]: row for row in part.iter_rows(named=True)}
    labels = (DataSet(first["dataset"], first["nsr_test"]).label, first["loss"], bounding_title(first["bounding"]))
    return (*map(Cell, labels), *(cell(of_ratio.get(ratio)) for ratio in ratios))


def _score(row: Mapping[str, Any] | None) -> Cell:
    if row is not None and row["score"] is None:
        return Cell(MARK)
    return crossed_cell(row, own=row is not None and row["nsr_train"] == row["nsr_test"])


def _effect(row: Mapping[str, Any] | None) -> Cell:
    if row is not None and row["score"] is None:
        return Cell(MARK)
    return difference_cell(row, EFFECT)
