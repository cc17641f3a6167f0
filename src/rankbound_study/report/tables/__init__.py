"""The tables by name: a module makes a family of tables, a function each, in the module's `Catalogue`.

A function returns the rows of a table, or its files. As for figures, a module is known by lying here and stands in no
list.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError
from rankbound_study.claims import verdicts
from rankbound_study.claims.evidence import Evidence
from rankbound_study.figures import Spec, found_specs
from rankbound_study.report.blocks import TableBlock, TableFiles, texts
from rankbound_study.results.study_files import StudyFiles, read_made, read_table
from rankbound_study.vocabulary import HONEST

Lays = Callable[[pl.DataFrame], TableBlock]
"""Lays the rows of a table out for people, such as a `report.blocks.Layout`."""


@dataclass(frozen=True)
class TableSpec(Spec):
    """A table: its function makes it from its name, the files, the options and its arguments."""

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
            for end, columns, lay in self.first:
                if len(beside := read_made(folder / f"{name}{end}.csv", columns)):
                    yield lay(beside)
            yield self.layout(table)


OF_STUDY: Mapping[str, Any] = {"needs": ("runs", "epochs"), "part": HONEST, "options": ("study",)}
"""Fields of a table that is made from a study's honest runs and epochs."""
OF_EXPERIMENTS = {**OF_STUDY, "needs": ("runs", "epochs", "experiments", "experiment_epochs")}
"""Fields of a table that is made from those and from the experiments."""


def of_evidence(make: Callable[[Evidence], Any]) -> Callable[..., Any]:
    """Return the function of a table that is made from the evidence of a study alone."""

    def made(name: str, files: StudyFiles, *, study: str = "thesis") -> Any:
        return make(Evidence.of(study, files))

    return made


@cache
def table_specs() -> Mapping[str, TableSpec]:
    """Return all tables by name, ordered by module."""
    return found_specs(__name__, __path__, TableSpec)


def table_names() -> list[str]:
    """Return the names of all tables, that of the claims among them, which a step of its own makes."""
    return [*table_specs(), verdicts.NAME]


def make(name: str, files: StudyFiles, options: Mapping[str, Any]) -> TableFiles:
    """Make a table.

    Raises:
        ConfigError: no table has that name, a file is missing, or the options have other keys.
    """
    if name not in table_specs():
        raise ConfigError(
            f"there is no {name!r}; the tables are {', '.join(table_names())} "
            f"({verdicts.NAME}: `python -m rankbound_study claims`)"
        )
    spec = table_specs()[name]
    # Other files are absent from some studies.
    for needed in ("runs", "epochs"):
        if needed in spec.needs and getattr(files, needed) is None:
            raise ConfigError(f"{name} is made from {needed}: give their table with --{needed} FILE")
    spec.check_options(name, options)
    made = spec.make(name, files, **options, **spec.arguments)
    found: TableFiles = made if isinstance(made, TableFiles) else TableFiles(made)
    lay = spec.in_files or spec.layout
    if lay is None or ".md" not in spec.beside or ".md" in found.beside:
        return found
    block = lay(found.table)
    return replace(found, beside={**texts(f"{block.name}. {block.caption}", [block], block.name), **found.beside})
