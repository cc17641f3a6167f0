"""The tables by name: a module makes a family of tables, a function each, described in the module's table `SPECS`.

A function returns the rows of a table, or its files. As for figures, a module is known by lying here and stands in no
list.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.claims import verdict_table
from rankbound_study.report.table_files import TableFiles, plain_texts
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles, found_specs

_REQUIRED = ("runs", "epochs")
"""Files without which a table that needs them cannot be made; others are absent from some studies."""


@cache
def table_specs() -> Mapping[str, TableSpec]:
    """Return all tables by name, ordered by module."""
    return found_specs(__name__, __path__)


def table_names() -> list[str]:
    """Return the names of all tables, that of the claims among them, which a step of its own makes."""
    return [*table_specs(), verdict_table.NAME]


def make(name: str, files: StudyFiles, options: Mapping[str, Any]) -> TableFiles:
    """Make a table.

    Raises:
        ConfigError: no table has that name, a file is missing, or the options have other keys.
    """
    if name not in table_specs():
        raise ConfigError(
            f"there is no {name!r}; the tables are {', '.join(table_names())} "
            f"({verdict_table.NAME}: `python -m rankbound_study claims`)"
        )
    spec = table_specs()[name]
    for needed in _REQUIRED:
        if needed in spec.needs and getattr(files, needed) is None:
            raise ConfigError(f"{name} is made from {needed}: give their table with --{needed} FILE")
    if unknown := sorted(set(options) - set(spec.options)):
        expected = f"only {', '.join(spec.options)}" if spec.options else "none"
        raise ConfigError(f"{name}: found the option {unknown[0]!r}, expected {expected}")
    assert spec.make is not None
    made = spec.make(name, files, **options, **spec.arguments)
    found: TableFiles = made if isinstance(made, TableFiles) else TableFiles(made)
    lay = spec.in_files or spec.layout
    if lay is None or ".md" not in spec.beside or found.texts is not None:
        return found
    return replace(found, texts=plain_texts(lay(found.table)))
