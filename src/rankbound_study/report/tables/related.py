"""What related work predicts for this study: orders of systems by bounded metrics, gradients, and a loss of ranks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.related import COLUMNS, NAME
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, with_minus
from rankbound_study.results.specs import StudyFiles

SECTION = "related"

SPECS = {
    NAME: TableSpec(
        "What related work predicts here: the order of the trained systems by metrics and by their bounded forms, the "
        "coherence of gradients, and a loss of ranks beside the losses of the metrics.",
        title="what related work predicts here",
        needs=("runs", "epochs"),
        options=("study",),
        beside=(".md", ".tex", "_gradients.csv", "_ranks.csv"),
        section=SECTION,
    )
}

CAPTION = (
    "The trained losses and boundings of a data set by a metric and by its bounded form, on the same test lists: "
    "Kendall's tau between both orders of means, pairs of systems in the other order, those that are significantly so "
    "by both (Holm), and pairs that differ significantly by the metric, by its bounded form, and by one of them alone "
    "(at 5 %, without correction). Lists whose items are all relevant are left out."
)
_COUNTS = ("pairs", "inverted", "exchanged", "significant", "significant_bounded", "gained", "lost")
_COUNTED = ("pairs", "inverted", "significantly", "by metric", "by bounded", "gained", "lost")
HEADER = ("data set", "metric", "bounded by", "tau", *_COUNTED)


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without runs of the honest protocol, only that of gradients has rows."""
    from rankbound_study.claims.related import gradients_table, orders_table, ranks_table

    evidence = Evidence(study, files.runs, files.epochs)
    table = orders_table(evidence)
    beside = {"_gradients.csv": gradients_table(), "_ranks.csv": ranks_table(evidence)}
    return TableFiles(table, plain_texts(block(table)), beside)


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table of orders, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table of orders."""
    rows = tuple(map(_cells, table.iter_rows(named=True)))
    rules = changes(table.select("dataset", "nsr").rows())
    return TableBlock("Systems by bounded metrics", CAPTION, HEADER, rows, 3, rules, sortable=True)


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    tau = DASH if row["tau"] is None else with_minus(f"{row['tau']:.2f}")
    labels = (DataSet(row["dataset"], row["nsr"]).label, row["metric"], row["bound"], tau)
    return (*map(Cell, labels), *(Cell(str(row[name])) for name in _COUNTS))
