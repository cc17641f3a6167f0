"""The description of a table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.report.blocks import TableBlock
from rankbound_study.report.table_files import read_table
from rankbound_study.results.specs import Spec

Lays = Callable[[pl.DataFrame], TableBlock]
"""Lays the rows of a table out for people, such as a `report.columns.Layout`."""


@dataclass(frozen=True)
class TableSpec(Spec):
    """A table: its function makes it from its name, the files, the options and its arguments."""

    options: tuple[str, ...] = ()
    """The keys of its options, which the configuration determines."""
    beside: tuple[str, ...] = (".md", ".tex")
    """Ends of the names of its files beside NAME.csv."""
    metrics: bool = False
    """Its means are the study's metrics, a file of their own that DVC compares."""
    section: str = "table-5-1"
    """The report's section that shows it."""
    columns: Mapping[str, Any] | None = None
    """The columns of its CSV file."""
    layout: Lays | None = None
    """Lays its rows out for people."""
    in_files: Lays | None = None
    """Lays its rows out in NAME.md and NAME.tex, if not as in the report."""
    first: tuple[tuple[str, Mapping[str, Any], Lays], ...] = ()
    """CSV files beside it that the report shows above it: end of the name, columns, layout."""
    blocks: Callable[[str, Path], Iterator[TableBlock]] | None = None
    """Yields what the report shows from a folder of tables, if that is not the layout of rows."""

    def shown(self, name: str, folder: Path) -> Iterator[TableBlock]:
        """Yield what the report shows; nothing of a table without rows."""
        if self.blocks is not None:
            yield from self.blocks(name, folder)
            return
        assert self.layout is not None
        assert self.columns is not None
        if len(table := read_table(folder / f"{name}.csv", self.columns)):
            yield from (lay(read_table(folder / f"{name}{end}.csv", columns)) for end, columns, lay in self.first)
            yield self.layout(table)
