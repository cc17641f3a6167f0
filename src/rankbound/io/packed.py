"""Packed files, parquet or Arrow: a row per topic, with the topic's items in list columns.

| column | type |
|---|---|
| `topic` | text |
| `items` | list of text |
| `relevance` | list of whole numbers from 0 |
| `features` | list of fixed-size lists of float32, one per item |

The features of such a file are read without copying; those of an Arrow file (`.arrow`) stay in the file, which is
mapped into memory. `pack` writes such a file in one record batch, so that the features are one matrix, which may be
larger than memory. If a parquet file carries a seal (`rankbound.io.models`), it is checked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.io.atomic import File, atomic_path, temporary_beside
from rankbound.io.judged import JudgedLists, chosen_features
from rankbound.io.models import check_memory, count_nulls, open_parquet, readable
from rankbound.lazy import pa, pc, pq

ARROW = ".arrow"
"""The ending of the names of Arrow files."""

FEATURE_NAMES = b"rankbound.features"
"""The key of the features' names, as JSON, in the metadata of an Arrow file; without it they are 1, 2, ..."""

BLOCK_ROWS = 2**16
"""The number of rows whose features are checked at once."""

MOST_ITEMS = 2**31 - 1
"""Offsets of Arrow's lists have 32 bits."""


@dataclass(frozen=True)
class Pack:
    """What was packed: numbers of topics, items and features, and the columns of a table, as in `JudgedLists`."""

    n_topics: int
    n_items: int
    n_features: int
    feature_names: Sequence[str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, str] = field(default_factory=dict)


def is_packed(path: File) -> bool:
    """Return True for an Arrow file, and for parquet with lists of items and of features; DataError if unreadable."""
    if Path(path).suffix == ARROW:
        return True
    with readable(path):
        schema = pq.read_schema(path)
    kinds = [_small(schema.field(name).type) for name in ("items", "features") if name in schema.names]
    return len(kinds) == 2 and all(pa.types.is_list(kind) for kind in kinds)


def read_packed(path: File, features: Sequence[str] | None = None) -> JudgedLists:
    """Read the lists of a packed file; its features are named 1, 2, ... unless an Arrow file names them.

    Those of an Arrow file stay in it: the array is read-only. DataError names the column, and the item, of a damaged
    file, one without a column, and one with nulls or values that are not finite numbers.
    """
    is_mapped = Path(path).suffix == ARROW
    if is_mapped:
        with readable(path, "Arrow"), pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as arrow:
            table = _small_columns(path, arrow.schema, arrow.read_all)
    else:
        with open_parquet(path) as file, readable(path):
            check_memory(file, path)
            table = _small_columns(path, file.schema_arrow, lambda: file.read(columns=list(_COLUMNS)))
    sizes = pc.list_value_length(table.column("items")).to_numpy()
    for name in _COLUMNS:
        if nulls := count_nulls(table.column(name)):
            raise DataError(f"{path}: column {name!r} holds {nulls} nulls, expected none")
    for name in ("relevance", "features"):
        lengths = pc.list_value_length(table.column(name)).to_numpy()
        for row in np.flatnonzero(lengths != sizes)[:1].tolist():
            raise DataError(
                f"{path}: topic {table.column('topic')[row].as_py()!r} has {sizes[row]} items, but {lengths[row]} "
                f"entries in the column {name!r}; expected one per item"
            )
    width = table.schema.field("features").type.value_type.list_size
    try:
        lists = joined([table], _feature_names(table.schema, width, path))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    for first in range(0, len(lists.features), BLOCK_ROWS):
        for row, column in np.argwhere(~np.isfinite(lists.features[first : first + BLOCK_ROWS]))[:1].tolist():
            name, found = lists.feature_names[column], lists.features[first + row, column]
            item = lists.items[first + row]
            raise DataError(f"{path}: item {item!r}: feature {name} is {found}, expected a finite number")
    for row in np.flatnonzero(lists.relevance < 0)[:1].tolist():
        raise DataError(f"{path}: item {lists.items[row]!r}: relevance {lists.relevance[row]}, expected grades from 0")
    lists = lists if features is None else chosen_features(lists, features, str(path))
    if is_mapped:
        # Writing to the file's memory would end the process.
        lists.features.flags.writeable = False
    return lists


def joined(tables: Sequence[pa.Table], feature_names: list[str]) -> JudgedLists:
    """Join packed tables into one batch of lists."""
    chunks = [batch for table in tables for batch in table.to_batches()]
    items = [chunk.column("items").flatten() for chunk in chunks]
    labels = [_numbers(chunk.column("relevance").flatten()) for chunk in chunks]
    features = [_features(chunk) for chunk in chunks]
    return JudgedLists(
        topics=[name for chunk in chunks for name in chunk.column("topic").to_pylist()],
        items=pl.Series(pl.from_arrow(pa.chunked_array(items, pa.string()))),
        relevance=np.concatenate([np.empty(0, np.int8), *labels]),
        offsets=_limits(chunks),
        features=features[0]
        if len(features) == 1
        else np.concatenate([np.empty((0, len(feature_names)), np.float32), *features]),
        feature_names=feature_names,
    )


def whole_topics(batches: Iterable[pa.Table]) -> Generator[pa.Table, None, None]:
    """Yield the rows of whole topics, of batches whose last topic may continue in the next one."""
    held: list[pa.Table] = []
    for rows in batches:
        topic = rows.column("topic").to_numpy()
        others = np.flatnonzero(topic != topic[-1])
        start = int(others[-1]) + 1 if len(others) else 0
        if start or (held and held[-1].column("topic")[-1].as_py() != topic[-1]):
            yield pa.concat_tables([*held, rows.slice(0, start)])
            held = []
        held.append(rows.slice(start))
    if held:
        yield pa.concat_tables(held)


def _features(chunk: pa.RecordBatch) -> npt.NDArray[np.float32]:
    vectors = chunk.column("features").flatten()
    return _numbers(vectors.flatten()).reshape(len(vectors), vectors.type.list_size)


def _limits(chunks: Sequence[pa.RecordBatch]) -> npt.NDArray[np.int64]:
    sizes = [_numbers(chunk.column("items").value_lengths()) for chunk in chunks]
    return np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum()


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return numbers that share the memory of an array; Arrow's own conversion would protect it from writing."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _feature_names(schema: pa.Schema, width: int, path: File) -> list[str]:
    stated = (schema.metadata or {}).get(FEATURE_NAMES)
    if stated is None:
        return [str(index + 1) for index in range(width)]
    try:
        names = json.loads(stated)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) != width:
        raise DataError(f"{path}: damaged: its metadata don't name its {width} features; pack the lists again")
    return names


_COLUMNS: Mapping[str, tuple[str, str]] = {
    "topic": ("string", "string"),
    "items": ("list<string>", "list<item: string>"),
    "relevance": ("list of whole numbers", r"list<item: u?int\d+>"),
    "features": ("list<fixed_size_list<float>[d]>", r"list<item: fixed_size_list<.*: float( not null)?>\[\d+\]>"),
}
"""What is expected of each column, for messages and as a pattern of the text of its type."""


def _small_columns(path: File, schema: pa.Schema, read: Callable[[], pa.Table]) -> pa.Table:
    """Return the columns after a check of their types, all offsets in 32 bits; DataError for another or none."""
    fields = {name: _small(schema.field(name).type) for name in _COLUMNS if name in schema.names}
    for name, (expected, pattern) in _COLUMNS.items():
        if name not in fields:
            raise DataError(f"{path}: column {name!r} is missing; it has {', '.join(schema.names) or 'none'}")
        if not re.fullmatch(pattern, str(fields[name])):
            raise DataError(f"{path}: column {name!r} is {fields[name]}, expected {expected}")
    table = read()
    table.validate(full=True)
    return table.select(list(fields)).cast(pa.schema(fields, table.schema.metadata))


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets for one with 64-bit offsets, which polars writes; other types stay."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    return kind


def pack(
    tables: Iterable[pa.Table], names: Sequence[str], path: File, on_topics: Callable[[int], None] = lambda count: None
) -> Pack:
    """Write packed tables of features with these names as one Arrow file, atomically.

    The features are gathered in a file beside `path`, everything else in memory. `on_topics` is called with the number
    of topics of each table.

    Raises:
        DataError: there are more than 2,147,483,647 items.
    """
    chunks: list[pa.RecordBatch] = []
    with temporary_beside(Path(path), ".features") as gathered:
        with gathered.open("wb") as file:
            for table in tables:
                for chunk in table.to_batches():
                    file.write(_features(chunk).data)
                    chunks.append(chunk.select(["topic", "items", "relevance"]))
                on_topics(len(table))
        limits = _limits(chunks)
        if limits[-1] > MOST_ITEMS:
            raise DataError(f"{path}: found {limits[-1]} items, expected at most {MOST_ITEMS}: pack topics in parts")
        flat = {
            name: pa.concat_arrays([chunk.column(name).flatten() for chunk in chunks])
            for name in ("items", "relevance")
        }
        values = np.memmap(gathered, np.float32, "r") if gathered.stat().st_size else np.empty(0, np.float32)
        columns = {**flat, "features": vectors(values, len(names))}
        topics = pa.concat_arrays([chunk.column("topic") for chunk in chunks])
        batch = packed_table(topics, limits, columns).to_batches()[0]
        batch = batch.replace_schema_metadata({FEATURE_NAMES: json.dumps(list(names))})
        with (
            atomic_path(path) as temporary,
            pa.OSFile(os.fspath(temporary), "wb") as sink,
            pa.ipc.new_file(sink, batch.schema) as writer,
        ):
            writer.write_batch(batch)
        return Pack(len(batch), int(limits[-1]), len(names), list(names))


def packed_lists(lists: JudgedLists, path: File) -> pa.Table:
    """Return lists as a packed table; DataError that names `path` for relevance that is no whole number."""
    broken = lists.relevance != np.floor(lists.relevance)
    if broken.any():
        raise DataError(f"{path}: found relevance {lists.relevance[broken][0]}, but packed files hold whole numbers")
    columns = {
        "items": pa.array(list(lists.items), pa.string()),
        "relevance": pa.array(lists.relevance.astype(np.int64)),
        "features": vectors(lists.features, len(lists.feature_names)),
    }
    return packed_table(pa.array(lists.topics, pa.string()), lists.offsets, columns)


def packed_table(topics: pa.Array, limits: npt.NDArray[np.int64], columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table with a row per topic, of columns with an entry per item."""
    offsets = pa.array(limits.astype(np.int32))
    lists = {name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()}
    return pa.table({"topic": topics, **lists})


def vectors(values: npt.NDArray[Any], width: int) -> pa.FixedSizeListArray:
    """Return a matrix, float32, or its values row by row, as a column of vectors, without copying."""
    buffer = pa.py_buffer(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(pa.Array.from_buffers(pa.float32(), values.size, [None, buffer]), width)
