"""Judged lists in files of any known layout, converted to one file.

A list that several files repeat, as the files of folds do, is stored once. Which lists each file has is noted in the
metadata, from which `rankbound_study.data.splits` makes the folds.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.judged import doubt, listed
from rankbound_study.config.sections.description import ColumnKeys
from rankbound_study.data.contracts import DATASET_KEY, PARTS_KEY, judged_table, open_writer
from rankbound_study.data.sources import RawFiles, as_file, require_sizes

_GROUP_BYTES = 16 * 2**20

Reader = Callable[[str, set[str]], Iterator[pa.Table]]
"""From the name of a member, and the topics seen so far, to its lists."""


def convert(raw: RawFiles, out: str | os.PathLike[str]) -> None:
    """Write the judged lists of `raw` to `out`, file by file, under the name of its source.

    Every file has separate row groups. Memory is that of a few chunks of text and the largest file of a table.

    Raises DataError for files that contradict each other or the description, and for malformed lines (file, line number
    and token).
    """
    described, files = raw.source.described, raw.wanted()
    reader = _of_tables(raw) if described.format == "table" else _of_text(raw, files.values())
    # The ranges of stored lists, first and past the last, by the name of the file.
    places: dict[str, list[list[int]]] = {}
    # The topics of the files so far, without repeats, and the stored lists by their digests.
    seen, stored, topics, rows = set[str](), dict[bytes, int](), 0, 0

    def new_lists(tables: Iterator[pa.Table], ranges: list[list[int]]) -> Iterator[pa.Table]:
        """Yield the lists of a file that are not stored yet; files of folds may have the same lists, and topics."""
        nonlocal topics
        for table in tables:
            new = []
            for row in range(len(table)):
                place = stored.setdefault(_digest(table, row), topics) if described.given_folds else topics
                if place == topics:
                    new.append(row)
                    topics += 1
                if ranges and ranges[-1][1] == place:
                    ranges[-1][1] += 1
                else:
                    ranges.append([place, place + 1])
            if new:
                yield table if len(new) == len(table) else table.take(new)
        if described.given_folds:
            seen.clear()

    with open_writer(out, "lists", {DATASET_KEY: raw.source.name}) as write:
        # disable=None: no bar unless the output is a terminal.
        for wanted, name in tqdm(files.items(), unit="file", desc=raw.source.name, disable=None):
            lists = new_lists(reader(name, seen), places.setdefault(wanted, []))
            for table in _ahead(lists):
                write(table)
                rows += len(table.column("items").combine_chunks().flatten())
        require_sizes(raw, topics, rows)
        write.note(PARTS_KEY, json.dumps(places, separators=(",", ":")))


def _of_text(raw: RawFiles, names: Collection[str]) -> Reader:
    """Return a reader of LETOR text; queries without ids are numbered through all files."""
    described = raw.source.described
    width, first = described.features or 0, 1
    for name in () if described.features else names:
        with raw.open(name) as stream:
            width = max(width, letor.extent(stream, raw.where(name)).largest)

    def read(name: str, seen: set[str]) -> Iterator[pa.Table]:
        nonlocal first
        where = raw.where(name)
        with raw.open(name) as stream:
            if described.format == "lightgbm":
                beside = raw.find(name + described.groups)
                with raw.open(beside) as lines:
                    sizes = letor.group_sizes(lines, raw.where(beside))
                stream = letor.with_query_ids(stream, sizes, where, first)
                first += len(sizes)
            yield from letor.read_lists(stream, max(width, 1), where, seen=seen, largest_label=letor.LARGEST_LABEL)
        if not width:
            raise DataError(f"{where}: there are no features in it; expected lines of `label qid:ID index:value ...`")

    return read


def _of_tables(raw: RawFiles) -> Reader:
    """Return a reader of CSV or parquet files with a row per item, in a stream; all have the features of the first.

    What is left out, and doubtful features, are printed.
    """
    from rankbound.io.files import grades_of, kind_of, read_lists
    from rankbound.io.table_columns import Columns
    from rankbound.io.tables import TableStream

    described = raw.source.described
    named = described.columns or ColumnKeys.model_validate({"topic": "topic"})
    grades, features = grades_of(described.labels), named.features
    columns = Columns(named.topic, named.item, named.relevance or "relevance", grades=grades)

    def read(name: str, _: set[str]) -> Iterator[pa.Table]:
        nonlocal features
        where = raw.where(name)
        with as_file(raw, name) as path:
            try:
                stream = TableStream(path, replace(columns, features=features)) if kind_of(path) == "rows" else None
                # Packed files, and LETOR text, are read whole.
                for part in [read_lists(path, features=features, grades=grades)] if stream is None else stream:
                    features = list(part.feature_names)
                    wrong = (part.relevance % 1 != 0) | (part.relevance > letor.LARGEST_LABEL)
                    if wrong.any():
                        raise DataError(
                            f"{path}: found relevance {part.relevance[wrong][0]:g}, expected whole numbers 0 .. "
                            f"{letor.LARGEST_LABEL}: write grades as such, for example 0, 0.5 and 1 as 0, 1 and 2"
                        )
                    labels = part.relevance.astype(np.int8)
                    yield judged_table(list(part.topics), list(part.items), labels, part.features, part.offsets)
            except DataError as error:
                raise DataError(str(error).replace(str(path), where)) from error
        if stream is not None and stream.left_out:
            print(f"note: {where}: left out, as `features` does not name them: {listed(stream.left_out)}")
        if stream is not None and stream.doubtful:
            print(f"note: {where}: {doubt(stream.doubtful)}")

    return read


def _digest(table: pa.Table, row: int) -> bytes:
    """Return a digest of a topic, its labels and features; items without names are called after their lines."""
    digest = hashlib.blake2b(str(table.column("topic")[row]).encode(), digest_size=16)
    for name in ("relevance", "features"):
        values = table.column(name)[row].values
        flat = values.flatten() if name == "features" else values
        digest.update(np.ascontiguousarray(flat.to_numpy(zero_copy_only=False)).tobytes())
    return digest.digest()


def _ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of some megabytes, each made while the previous one is being written."""

    def following() -> pa.Table | None:
        held, size = list[pa.Table](), 0
        for table in tables:
            held.append(table)
            size += table.nbytes
            if size >= _GROUP_BYTES:
                break
        return pa.concat_tables(held).combine_chunks() if held else None

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(following)
        while (table := coming.result()) is not None:
            coming = pool.submit(following)
            yield table
