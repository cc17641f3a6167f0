"""LETOR data sets: the content of each archive, and its conversion to one file of judged lists.

The publishers cut the queries into five parts S1 .. S5 and form five folds of them. Each part is read once; a fold only
assigns roles to the parts (`rankbound_study.data.folds`), so no row is stored five times.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
from tqdm import tqdm
from tqdm.utils import CallbackIOWrapper

from rankbound.errors import ConfigError, DataError
from rankbound.io.letor import read_lists
from rankbound_study.data.contracts import open_writer
from rankbound_study.data.schemas import DATASET_KEY, PARTS_KEY
from rankbound_study.data.sources import RawFile

_GROUP_BYTES = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class LetorSet:
    """The content of a LETOR data set's archive.

    Attributes:
        width: number of features.
        largest_label: labels are 0 .. this one.
        parts: the members with the parts S1 .. S5, in that order.
        copies: pairs of members that are the same part.
    """

    width: int
    largest_label: int
    parts: Sequence[str]
    copies: Sequence[tuple[str, str]] = ()


LETOR_SETS: Mapping[str, LetorSet] = {
    "mq2008": LetorSet(
        width=46,
        largest_label=2,
        parts=("S1.txt", "S2.txt", "S3.txt", "S4.txt", "S5.txt"),
    ),
    # The archive has only folds. Fold k tests on the part on which fold k + 1 validates: fold 1 on S5, fold 2 on S1.
    "mslr-web10k": LetorSet(
        width=136,
        largest_label=4,
        parts=("Fold2/test.txt", "Fold3/test.txt", "Fold4/test.txt", "Fold5/test.txt", "Fold1/test.txt"),
        copies=tuple((f"Fold{fold}/test.txt", f"Fold{fold % 5 + 1}/vali.txt") for fold in range(1, 6)),
    ),
}


def convert(raw: RawFile, out: str | os.PathLike[str]) -> None:
    """Write the judged lists of the archive `raw` to `out`, part by part, under the name of its source.

    Every part has separate row groups. Memory is that of a few chunks of text, for any size of the archive.

    Raises ConfigError for an unknown data set; DataError for an archive whose folds contradict each other, and for
    malformed lines (part, line number and token).
    """
    dataset = raw.source.name
    if dataset not in LETOR_SETS:
        raise ConfigError(f"there is no LETOR data set {dataset!r}; known are {', '.join(LETOR_SETS)}")
    described = LETOR_SETS[dataset]
    names = [raw.find(part) for part in described.parts]
    sizes = {member.name: member.size for member in raw.members}
    _check_copies(described, raw, sizes)
    seen: set[str] = set()
    counts: list[int] = []
    # disable=None: no bar unless the output is a terminal.
    bar = tqdm(total=sum(sizes[name] for name in names), unit="B", unit_scale=True, desc=dataset, disable=None)
    with bar, open_writer(out, "lists", {DATASET_KEY: dataset}) as write:
        for name in names:
            before = len(seen)
            with raw.open(name) as stream:
                counted = cast("BinaryIO", CallbackIOWrapper(bar.update, stream, "read"))
                where = f"{raw.path}: {name}"
                lists = read_lists(counted, described.width, where, seen=seen, largest_label=described.largest_label)
                for table in _ahead(_grouped(lists)):
                    write(table)
            counts.append(len(seen) - before)
        write.note(PARTS_KEY, json.dumps(counts))


def _check_copies(described: LetorSet, raw: RawFile, sizes: Mapping[str, int]) -> None:
    """Check the folds as far as the archive's listing allows: copies of one part have one size."""
    for pair in described.copies:
        first, second = map(raw.find, pair)
        if sizes[first] != sizes[second]:
            raise DataError(
                f"{raw.path}: {first!r} and {second!r} should be the same part, but have {sizes[first]} and "
                f"{sizes[second]} bytes: the folds contradict one another; fetch the archive again"
            )


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in fewer tables, of bounded size."""
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
    """Yield the same tables, each made while the previous one is being written."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table
