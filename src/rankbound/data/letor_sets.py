"""LETOR data sets: what the archive of each holds, and how it becomes one file of judged lists.

The publishers cut the queries into five parts S1 .. S5 and form five folds of them. Only the parts are read, each
once: a fold is which part is for what (`rankbound.data.folds`), so that no row is stored five times.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
from tqdm import tqdm

from rankbound.data.archives import find_member, list_members, open_member
from rankbound.data.contracts import open_writer
from rankbound.data.letor import read_lists
from rankbound.data.rar import Member
from rankbound.data.schemas import DATASET_KEY, PARTS_KEY
from rankbound.data.sources import SOURCES
from rankbound.errors import ConfigError, DataError

Path = str | os.PathLike[str]

_GROUP_BYTES = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class LetorSet:
    """What the archive of a LETOR data set holds.

    Attributes:
        width: number of features.
        largest_label: labels are 0 .. this one.
        parts: the members with the parts S1 .. S5, in that order.
        copies: pairs of members that are one and the same part.
        topics: queries in all, as published.
        rows: judged documents in all, as published.
    """

    width: int
    largest_label: int
    parts: Sequence[str]
    copies: Sequence[tuple[str, str]] = ()
    topics: int
    rows: int


LETOR_SETS: Mapping[str, LetorSet] = {
    "mq2008": LetorSet(
        width=46,
        largest_label=2,
        parts=("S1.txt", "S2.txt", "S3.txt", "S4.txt", "S5.txt"),
        topics=784,
        rows=15_211,
    ),
    # Parts come as folds alone. Fold k tests on the part that fold k + 1 validates on: fold 1 on S5, fold 2 on S1.
    "mslr-web10k": LetorSet(
        width=136,
        largest_label=4,
        parts=("Fold2/test.txt", "Fold3/test.txt", "Fold4/test.txt", "Fold5/test.txt", "Fold1/test.txt"),
        copies=tuple((f"Fold{fold}/test.txt", f"Fold{fold % 5 + 1}/vali.txt") for fold in range(1, 6)),
        topics=10_000,
        rows=1_200_192,
    ),
}


def convert(dataset: str, raw: Path, out: Path) -> None:
    """Write the judged lists of the archive `raw` of that data set to `out`, part after part.

    Every part has row groups of its own. Memory is that of a few chunks of text, whatever the size of the archive.
    Numbers of queries or rows that are not the published ones are noted on the standard error output.

    Raises ConfigError for a data set that is not described here; DataError for an archive that is unreadable or whose
    folds contradict one another, and for malformed lines (part, line number and token).
    """
    if dataset not in LETOR_SETS:
        raise ConfigError(f"there is no LETOR data set {dataset!r}; known are {', '.join(LETOR_SETS)}")
    described, limits = LETOR_SETS[dataset], SOURCES[dataset].limits
    members = list_members(raw, limits)
    names = [find_member(members, part, raw) for part in described.parts]
    sizes = {member.name: member.size for member in members}
    _check_copies(described, members, sizes, raw)
    seen: set[str] = set()
    counts: list[int] = []
    rows = 0
    # disable=None: no bar where the output is no terminal.
    bar = tqdm(total=sum(sizes[name] for name in names), unit="B", unit_scale=True, desc=dataset, disable=None)
    with bar, open_writer(out, "lists", {DATASET_KEY: dataset}) as write:
        for name in names:
            before = len(seen)
            with open_member(raw, name, limits) as stream:
                counted = cast("BinaryIO", _Counted(stream, bar))
                lists = read_lists(
                    counted, described.width, f"{raw}: {name}", seen=seen, largest_label=described.largest_label
                )
                for table in _ahead(_grouped(lists)):
                    write(table)
                    rows += len(table.column("relevance").chunk(0).values)
            counts.append(len(seen) - before)
        write.note(PARTS_KEY, json.dumps(counts))
    _compare(described, raw, len(seen), rows)


def _check_copies(described: LetorSet, members: list[Member], sizes: Mapping[str, int], raw: Path) -> None:
    """What the archive's listing can tell of the folds: files of one part have one size."""
    for pair in described.copies:
        first, second = (find_member(members, name, raw) for name in pair)
        if sizes[first] != sizes[second]:
            raise DataError(
                f"{raw}: {first!r} and {second!r} should be the same part, but have {sizes[first]} and "
                f"{sizes[second]} bytes: the folds contradict one another; fetch the archive again"
            )


def _compare(described: LetorSet, raw: Path, topics: int, rows: int) -> None:
    if (topics, rows) != (described.topics, described.rows):
        print(
            f"note: {raw} has {topics} queries and {rows} rows; "
            f"{described.topics} and {described.rows} were published: this is another edition, or a part of it",
            file=sys.stderr,
        )


class _Counted:
    """A stream that tells a progress bar how much was read."""

    def __init__(self, stream: BinaryIO, bar: "tqdm[None]") -> None:
        self._stream, self._bar = stream, bar

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._bar.update(len(data))
        return data


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables, of bounded size."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= _GROUP_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same tables, each made while the one before it is being written."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table
