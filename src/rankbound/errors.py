"""The package's exceptions; a message states what was found, where, what was expected and what to do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


class RankboundError(Exception):
    """Base class of the package's errors; the command line prints the message without a traceback."""


class ConfigError(RankboundError):
    """A configuration key or value that cannot be used."""


class DataError(RankboundError):
    """A file whose content breaks its contract: malformed line, wrong column, impossible value."""


class SourceError(RankboundError):
    """A raw file that could not be fetched, or whose checksum is not the expected one."""


class ColumnWarning(UserWarning):
    """Columns of a table that are no features unless they are chosen, or features that may give the labels away."""


class OutputError(RankboundError, OSError):
    """A file that could not be written: the disk is full or failed, or permission is missing."""


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
