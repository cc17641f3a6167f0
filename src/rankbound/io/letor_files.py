"""Read whole LETOR text files into memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.judged import JudgedLists, chosen_features
from rankbound.io.letor_groups import read_group_sizes, with_query_ids
from rankbound.io.packed import joined
from rankbound.io.unpacked import open_unpacked
from rankbound.texts import shortened

LARGEST_INDEX = 2**16
"""Features are stored densely, zeros included: a larger index is more likely a mistake than a feature."""

_QUERY_KEY = b"qid:"
_LONGEST_INDEX = 100
"""Digits of an index that are read; more are beyond the largest anyway, and Python parses only some thousand."""


def read_letor(
    path: str | os.PathLike[str], features: Sequence[str] | None = None, groups: str | os.PathLike[str] | None = None
) -> JudgedLists:
    """Read a LETOR file, a chunk at a time; its features are named 1, 2, ... up to the largest index.

    `features` selects some of them; selected features that no line has are 0. `groups` is a file with the numbers of
    lines of each query, whose ids the lines then lack.

    Raises:
        DataError: the file cannot be read, or a line is malformed; the message names line and token.
    """
    with _explained(path):
        return _read(path, features, groups)


@contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add to the message of a file whose first line has no query id how tables are named."""
    try:
        yield
    except DataError as error:
        if not Path(path).exists() or is_letor(path):
            raise
        raise DataError(
            f"{error}; if this is a table, not LETOR text, name it .csv (commas) or .tsv (tabs), with the names of the "
            "columns in the first line"
        ) from error


def _read(
    path: str | os.PathLike[str], features: Sequence[str] | None, groups: str | os.PathLike[str] | None
) -> JudgedLists:
    found = feature_indices(path)
    names = found if features is None else list(features)
    unknown = next((name for name in names if not _is_index(name)), None)
    if unknown is not None:
        shown = shortened(repr(unknown), _LONGEST_INDEX)
        raise DataError(
            f"{path}: there is no feature {shown}; those of a LETOR file are numbers from 1 to {LARGEST_INDEX}"
        )
    width = max([len(found), 1, *map(int, names)])
    with open_judged(path, groups) as stream:
        lists = joined(list(letor.read_lists(stream, width, str(path))), [str(index + 1) for index in range(width)])
    return chosen_features(lists, names, str(path))


@contextmanager
def open_judged(path: str | os.PathLike[str], groups: str | os.PathLike[str] | None = None) -> Iterator[BinaryIO]:
    """Open LETOR text, whose lines get the ids of their queries if there is a file with the queries' sizes."""
    with open_unpacked(path) as stream:
        yield stream if groups is None else with_query_ids(stream, read_group_sizes(groups), str(path))


def feature_indices(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of a LETOR file's features: 1, 2, ... up to the largest index; DataError beyond 65,536."""
    with open_unpacked(path) as stream:
        largest = largest_index(stream, str(path))
    return [str(index) for index in range(1, largest + 1)]


def is_letor(path: str | os.PathLike[str]) -> bool:
    """Return True if the second token of the first non-blank line is a query id."""
    with open_unpacked(path) as stream:
        for line in stream:
            tokens = line.partition(b"#")[0].split()
            if tokens:
                return len(tokens) > 1 and tokens[1].startswith(_QUERY_KEY)
    return False


def _is_index(name: str) -> bool:
    """Return true for the name of a feature that a file may have; memory is needed for all features below it."""
    return name.isascii() and name.isdigit() and len(name) <= _LONGEST_INDEX and 1 <= int(name) <= LARGEST_INDEX


def largest_index(lines: Iterable[bytes], where: str) -> int:
    """Return the largest feature index, from the last pair of every line; malformed lines are left to the parser."""
    largest = 0
    for number, line in enumerate(lines, start=1):
        tokens = line.partition(b"#")[0].rsplit(None, 1)
        key = tokens[-1].partition(b":")[0] if tokens else b""
        index = int(key[:_LONGEST_INDEX]) if key.isdigit() else 0
        if index > largest:
            largest = index
            if largest > LARGEST_INDEX:
                raise DataError(
                    f"{where}, line {number}: found feature index {largest}, expected at most {LARGEST_INDEX}"
                )
    return largest
