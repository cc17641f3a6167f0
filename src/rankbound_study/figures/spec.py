"""What the modules of figures share: descriptions of figures, and the tables that some are drawn from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from rankbound_study.results.specs import Spec, read_table


@dataclass(frozen=True)
class FigureSpec(Spec):
    """A figure."""

    shows_pictures: bool = False
    """The figure contains pictures of a data set, whose licence then applies to it."""
    order: int = 0
    """Place among the figures of a source that have no number."""


def of_runs(caption: str, arguments: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> FigureSpec:
    """Describe a figure drawn from the runs: its function takes their table, the selection of its rows, and epochs."""
    return FigureSpec(caption, arguments, needs=("runs",), uses=("epochs",), options=("protocol", "study"), **more)


def made(paths: Iterable[Path], stem: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read the table of that name among CSV files; no rows if it was not made."""
    path = next((path for path in paths if path.stem == stem), None)
    return pl.DataFrame(schema=columns) if path is None else read_table(path, columns)


def neural_title(number: int) -> str:
    """Return the title of a figure that the neural-ranking study numbers itself."""
    return f"Neural networks in ranking, Figure {number}"
