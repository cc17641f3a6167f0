"""Judged lists in files of any known layout, converted to one file.

A list that several files repeat, as the files of folds do, is stored once. Which lists each file has is noted in the
metadata, from which `rankbound_study.data.splits` makes the folds.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.judged import doubt, listed
from rankbound.io.text_files import plain_name, separator_of
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
    described, files = raw.source.described, _members(raw)
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


def _members(raw: RawFiles) -> dict[str, str]:
    """Return the members to read by the names that the description gives them."""
    described = raw.source.described
    if described.wanted:
        return {wanted: raw.find(wanted) for wanted in described.wanted}
    is_grouped = described.format == "lightgbm"
    names = [member.name for member in raw.members if not (is_grouped and member.name.endswith(described.groups))]
    if len(names) != 1:
        shown = ", ".join(names[:8])
        raise DataError(f"{raw.path}: it has {len(names)} files ({shown}): name those to read (files)")
    return {Path(names[0]).name: names[0]}


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
    from rankbound.io.files import kind_of, read_lists
    from rankbound.io.table_columns import Columns
    from rankbound.io.tables import TableStream

    described = raw.source.described
    named = described.columns or ColumnKeys.model_validate({"topic": "topic"})
    columns = Columns(named.topic, named.item, named.relevance or "relevance")
    features: Sequence[str] | None = named.features

    def read(name: str, _: set[str]) -> Iterator[pa.Table]:
        nonlocal features
        where = raw.where(name)
        with as_file(raw, name) as lies, _graded(lies, columns.relevance, described.labels, where) as path:
            try:
                stream = TableStream(path, replace(columns, features=features)) if kind_of(path) == "rows" else None
                # Packed files, and LETOR text, are read whole.
                for part in [read_lists(path, features=features)] if stream is None else stream:
                    features = part.feature_names
                    wrong = (part.relevance % 1 != 0) | (part.relevance > letor.LARGEST_LABEL)
                    if wrong.any():
                        raise DataError(
                            f"{path}: found relevance {part.relevance[wrong][0]:g}, expected whole numbers 0 .. "
                            f"{letor.LARGEST_LABEL}: write grades as such, for example 0, 0.5 and 1 as 0, 1 and 2"
                        )
                    grades = part.relevance.astype(np.int8)
                    yield judged_table(list(part.topics), list(part.items), grades, part.features, part.offsets)
            except DataError as error:
                raise DataError(str(error).replace(str(path), where)) from error
        if stream is not None and stream.left_out:
            print(f"note: {where}: left out, as `features` does not name them: {listed(stream.left_out)}")
        if stream is not None and stream.doubtful:
            print(f"note: {where}: {doubt(stream.doubtful)}")

    return read


@contextmanager
def _graded(path: Path, column: str, labels: Sequence[str] | None, where: str) -> Iterator[Path]:
    """Yield a table whose labels, if they are words, are replaced by their places among `labels`; row by row."""
    if labels is None:
        yield path
        return
    import polars as pl

    is_parquet = path.suffix == ".parquet"
    separator = separator_of(path)
    try:
        scan = pl.scan_parquet(path) if is_parquet else pl.scan_csv(path, separator=separator, infer_schema=False)
        if column not in scan.collect_schema():
            raise DataError(f"{where}: there is no column {column!r}, of labels")
        words = pl.col(column).cast(pl.String)
        numbered = scan.select(words).with_row_index("row", 1 if is_parquet else 2)
        unknown = numbered.filter(~words.is_in(list(labels)) | words.is_null()).head(1).collect()
        if len(unknown):
            raise DataError(
                f"{where}, {'row' if is_parquet else 'line'} {unknown['row'][0]}: found the label "
                f"{unknown[column][0]!r}, expected {', '.join(labels)}"
            )
        graded = scan.with_columns(words.replace_strict(list(labels), range(len(labels)), return_dtype=pl.Int8))
        with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
            to = Path(folder, plain_name(path))
            graded.sink_parquet(to) if is_parquet else graded.sink_csv(to, separator=separator)
            yield to
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{where}: cannot be read as a table ({str(error).splitlines()[0]})") from error


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
