"""The files of a study that figures, tables and claims are made from, their readers, and the formats of numbers.

Table files have six decimals: a number is first rounded to six, so its digits do not depend on whether it was read from
a file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import DataError
from rankbound.io.models import open_parquet
from rankbound_study.data import contracts

FILE_PLACES = 6

_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    pl.exceptions.PolarsError,
)

_KINDS = {"text": pl.String(), "int8": pl.Int8(), "int": pl.Int64(), "float": pl.Float64(), "flag": pl.Boolean()}


def schema(text: str) -> dict[str, pl.DataType]:
    """Return the columns of a table in their order, by kind: `text: dataset; int8: nsr; float: low high`."""
    parts = (part.partition(":") for part in text.split(";"))
    return {name: _KINDS[kind.strip()] for kind, _, names in parts for name in names.split()}


@dataclass(frozen=True)
class StudyFiles:
    """The files of a study that a figure or a table is made from."""

    runs: Path | None = None
    epochs: Path | None = None
    experiments: Path | None = None
    experiment_epochs: Path | None = None
    rates: Path | None = None
    leaderboard: tuple[Path, ...] = ()
    law: tuple[Path, ...] = ()
    effects: tuple[Path, ...] = ()
    instances: tuple[Path, ...] = ()
    regimes: Path | None = None
    images: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()

    def needed(self, name: str) -> Path:
        """Return a file that was checked to be there, because the figure or table is made from it."""
        path: Path | None = getattr(self, name)
        assert path is not None, name
        return path


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of reading a damaged file into a DataError that names the file."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        # Tables and figures lie in folders of these names.
        step = f"{path.parent.name.removesuffix('s')} {path.stem.removesuffix('_summary')}"
        raise DataError(f"{path} is missing: make it with `python -m rankbound_study {step}`") from error
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        text = f"not as the step wrote it that makes it ({reason}); delete it and run that step again"
        raise DataError(f"{path}: {text}") from error


def read_frame(path: Path, contract: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a file of the contract of that name; DataError if it violates it."""
    frame = pl.from_arrow(contracts.read_table(path, contract, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_table(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read a table's CSV file back; DataError if it is missing or damaged."""
    with reading(path):
        return pl.read_csv(path, schema=columns)


def read_made(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read a table's CSV file back; no rows if it was not made."""
    return read_table(path, columns) if path.exists() else pl.DataFrame(schema=columns)


def read_facts(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """Read the numbers (JSON) beside a table; DataError if they are missing or damaged, or lack one of the keys."""
    with reading(path):
        facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := sorted(set(keys) - set(facts)):
            raise KeyError(f"missing keys: {', '.join(missing)}")
    return facts


def scan_runs(path: Path, columns: Iterable[str] = ()) -> pl.LazyFrame:
    """Scan the rows of a parquet file; DataError if it is missing or damaged, or lacks one of the columns."""
    with open_parquet(path) as file:
        found = file.schema_arrow.names
    for column in columns:
        if column not in found:
            raise DataError(f"{path}: column {column!r} is missing; expected the columns of the runs contract")
    return pl.scan_parquet(path, glob=False)


def signed(value: float) -> str:
    """Format a difference of scores with four decimals and its sign; zero has a plus."""
    # Adding zero removes the sign of a negative zero.
    return f"{round(round(value, FILE_PLACES), 4) + 0.0:+.4f}"


def score(value: float) -> str:
    """Format a score with four decimals."""
    return f"{round(value, FILE_PLACES):.4f}"


def probability(value: float) -> str:
    """Format a p-value with four decimals, or as `<0.0001`."""
    return "<0.0001" if value < 0.00005 else f"{value:.4f}"
