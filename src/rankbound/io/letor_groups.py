"""LETOR text whose lines name no query, beside a file with the number of lines of each query, as LightGBM reads it."""

import io
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rankbound.errors import DataError
from rankbound.io.block_stream import BlockStream
from rankbound.io.unpacked import open_unpacked
from rankbound.texts import quoted

LARGEST_GROUP = 2**31 - 1
_LINES_AT_ONCE = 4096


def read_group_sizes(path: str | os.PathLike[str]) -> list[int]:
    """Return the numbers of a file of group sizes, one on each line; DataError for another line."""
    with open_unpacked(path) as stream:
        return group_sizes(stream, str(path))


def group_sizes(lines: Iterable[bytes], where: str) -> list[int]:
    """Return the group sizes in lines of text; blank lines count for nothing."""
    sizes = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if not (text.isdigit() and len(text) <= len(str(LARGEST_GROUP)) and 1 <= int(text) <= LARGEST_GROUP):
            raise DataError(
                f"{where}, line {number}: found {quoted(text)[1:]}, expected the number of lines of one query"
            )
        sizes.append(int(text))
    if not sizes:
        raise DataError(f"{where}: there are no numbers in it; expected the number of lines of each query")
    return sizes


def with_query_ids(stream: BinaryIO, sizes: list[int], where: str, first: int = 1) -> BinaryIO:
    """Return the text with `qid:1`, `qid:2`, ... (from `first` on) behind the labels; lines keep their numbers.

    Reading it raises DataError for a line that has a query's id already, and for more or fewer lines than the sizes
    add up to.
    """
    return io.BufferedReader(BlockStream(_numbered(stream, sizes, where, first)))


def _numbered(stream: BinaryIO, sizes: list[int], where: str, first: int) -> Iterator[bytes]:
    keys = (itertools.repeat(b" qid:%d " % query, size) for query, size in enumerate(sizes, start=first))
    queries = itertools.chain.from_iterable(keys)
    lines = enumerate(stream, start=1)
    while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
        yield b"".join(_numbered_line(line, number, queries, where) for number, line in some)
    if (left := sum(1 for _ in queries)) > 0:
        raise DataError(f"{where}: the group sizes add up to {sum(sizes)} lines, but {left} of them are missing")


def _numbered_line(line: bytes, number: int, queries: Iterator[bytes], where: str) -> bytes:
    body, hash_mark, comment = line.partition(b"#")
    label, _, rest = body.strip().partition(b" ")
    if not label:
        return line
    if rest.lstrip().startswith(b"qid:"):
        raise DataError(f"{where}, line {number}: it names its query, but sizes of groups are given, too; omit them")
    query = next(queries, None)
    if query is None:
        raise DataError(f"{where}, line {number}: expected no more lines, by the sizes of its groups")
    return b"".join((label, query, rest, b" ", hash_mark, comment.rstrip(b"\n"), b"\n"))
