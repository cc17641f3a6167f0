"""Lazy reading of the tables of runs and epochs."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from rankbound.errors import DataError
from rankbound.io.models import check_seal


def scan_runs(path: Path, columns: Iterable[str] = ()) -> pl.LazyFrame:
    """Scan the rows of a parquet file; DataError if it is missing or damaged, or lacks one of the columns."""
    check_seal(path)
    scan = pl.scan_parquet(path, glob=False)
    try:
        found = scan.collect_schema().names()
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the step that makes it first") from error
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{path}: not a readable parquet file ({reason}); it may be cut off or damaged: delete it and run the step "
            "that makes it again"
        ) from error
    for column in columns:
        if column not in found:
            raise DataError(f"{path}: column {column!r} is missing; expected the columns of the runs contract")
    return scan
