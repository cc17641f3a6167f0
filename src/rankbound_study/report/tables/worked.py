"""The worked examples of the thesis and of Murphy's textbook, computed by the library, beside the printed values."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound_study.claims.worked import PERSISTENCE, worked_table
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.table_files import TableFiles, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles

_CAPTIONS = {
    "1.1": "A list with all relevant items at the bottom scores above a list whose only relevant item is second.",
    "2.2": "DCG of the ideal and the worst ordering of nine items with three relevant ones.",
    "2.3": f"RBP with p = {PERSISTENCE} of the same two orderings.",
    "2.4": "AP of the same two orderings.",
    "3.1": "DCG of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.2": "First term of the nRBP loss of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.3": "AP of all orderings of X(2,1) and X(3,2), and its expectation.",
}
SPECS = {
    f"table_{number.replace('.', '_')}": TableSpec(caption, title=f"Table {number}", beside=(), section="worked")
    for number, caption in _CAPTIONS.items()
}
SPECS["table_murphy_9_3"] = TableSpec(
    "Murphy's Table 9.3 (linear gain, first two ranks undiscounted) and his example of AP. The book adds up rounded "
    "terms, and carries its DCG into the nDCG.",
    title="Murphy, Table 9.3",
    beside=(),
    section="worked",
)

HEADER = ("list", "row", "quantity", "ours", "printed", "holds")
HOLDS = {True: "yes", False: "NO", None: "–"}
_COLUMNS = {
    **dict.fromkeys(("part", "row", "quantity"), pl.String),
    "ours": pl.Float64,
    "printed": pl.String,
    "holds": pl.Boolean,
}


def make(name: str, files: StudyFiles) -> TableFiles:
    """Return the computed and the printed values."""
    return TableFiles(worked_table(name), digits=None)


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table."""
    rows = tuple(
        (
            *map(Cell, (part, row, quantity, f"{ours:.4f}", printed or "–")),
            Cell(HOLDS[holds], strong=holds is False),
        )
        for part, row, quantity, ours, printed, holds in read_table(folder / f"{name}.csv", _COLUMNS).rows()
    )
    yield TableBlock(SPECS[name].title, SPECS[name].caption, HEADER, rows, labels=3)
