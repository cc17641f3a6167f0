"""Types of command-line flags, and the conversion of their errors to messages."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rankbound.errors import ConfigError, DataError


def names(text: str) -> list[str]:
    """Parse `a,b` as a list of names."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """Parse `64,32` as integers; argparse reports any other text."""
    return tuple(int(part) for part in names(text))


def positive(text: str) -> int:
    """Parse `5` as a positive integer; argparse reports anything else."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number}: expected at least 1")
    return number


@contextmanager
def plain_errors() -> Iterator[None]:
    """Convert `ValueError` to `ConfigError`, which the command line prints without a traceback."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(str(error)) from error


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Precede the messages of `DataError` by the file whose content they are about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{os.fspath(path)}: {error}") from error
