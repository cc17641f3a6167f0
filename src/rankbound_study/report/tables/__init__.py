"""The tables by name: each module of this package describes the tables that it makes, in its table `SPECS`.

A module's `make` returns the files of a table; its `blocks` returns what the report shows of them. As for figures, a
module is known by lying here and stands in no list.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.claims import verdict_table
from rankbound_study.report.table_files import TableFiles
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
    made: TableFiles = module_of(spec).make(name, files, **options, **spec.arguments)
    return made


def module_of(spec: TableSpec) -> Any:
    """Import the module that describes and makes a table."""
    return import_module(f"{__name__}.{spec.module}")
