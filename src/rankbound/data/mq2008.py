"""LETOR 4.0 MQ2008: the five parts S1..S5 of its archive as one file of judged lists."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from rankbound.data.archives import find_member, list_members, open_member
from rankbound.data.contracts import open_writer
from rankbound.data.letor import read_lists
from rankbound.data.schemas import DATASET_KEY
from rankbound.data.sources import SOURCES
from rankbound.errors import DataError

WIDTH = 46
PARTS = ("S1", "S2", "S3", "S4", "S5")
PARTS_KEY = "rankbound.parts"
"""Metadata of a lists file: JSON list, the number of topics of each part, in the file's order."""

_GROUP_BYTES = 16 * 2**20


def convert(raw: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Write the judged lists of the archive `raw` to `out`, part after part, each in its own row groups.

    Raises DataError for an unreadable archive, and for malformed lines (part, line number and token).
    """
    limits = SOURCES["mq2008"].limits
    members = list_members(raw, limits)
    names = [find_member(members, f"{part}.txt", raw) for part in PARTS]
    seen: set[str] = set()
    counts: list[int] = []
    with open_writer(out, "lists", {DATASET_KEY: "mq2008"}) as write:
        for name in names:
            before = len(seen)
            with open_member(raw, name, limits) as stream:
                for table in _ahead(_grouped(read_lists(stream, WIDTH, f"{raw}: {name}", seen=seen))):
                    write(table)
            counts.append(len(seen) - before)
        write.note(PARTS_KEY, json.dumps(counts))


def part_of_topics(counts: list[int], topics: int, where: str) -> list[int]:
    """The part, from 1, of each topic of a lists file whose metadata has these counts."""
    if sum(counts) != topics:
        raise DataError(f"{where}: {PARTS_KEY} counts {sum(counts)} topics in {counts}, but there are {topics}")
    return [part for part, count in enumerate(counts, 1) for _ in range(count)]


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
