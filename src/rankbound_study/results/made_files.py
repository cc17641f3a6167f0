"""Errors for damaged tables and drawings of earlier steps: they name the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from rankbound.errors import DataError

_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    pl.exceptions.PolarsError,
)


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
        raise DataError(
            f"{path}: not as the step wrote it that makes it ({reason}); delete it and run that step again"
        ) from error
