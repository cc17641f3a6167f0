"""Read packed files, parquet or Arrow: a row per topic, with the topic's items in list columns.

| column | type |
|---|---|
| `topic` | text |
| `items` | list of text |
| `relevance` | list of whole numbers from 0 |
| `features` | list of fixed-size lists of float32, one per item |

The features of such a file are read without copying; those of an Arrow file (`.arrow`) stay in the file, which is
mapped into memory. If a parquet file carries a seal (`rankbound.io.seals`), it is checked.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankbound.columns import from_list_column
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists, chosen_features
from rankbound.io.parquet import DAMAGE, check_memory, count_nulls, open_parquet, unreadable

ARROW = ".arrow"
"""The ending of the names of Arrow files."""

FEATURE_NAMES = b"rankbound.features"
"""The key of the features' names, as JSON, in the metadata of an Arrow file; without it they are 1, 2, ..."""

BLOCK_ROWS = 2**16
"""The number of rows whose features are checked at once."""


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return True for an Arrow file, and for parquet with a row per topic: lists of items and lists of features.

    Raises:
        DataError: the file cannot be read.
    """
    if Path(path).suffix == ARROW:
        return True
    try:
        schema = pq.read_schema(path)
    except DAMAGE as error:
        raise unreadable(path, error) from error
    kinds = [_small(schema.field(name).type) for name in ("items", "features") if name in schema.names]
    return len(kinds) == 2 and all(pa.types.is_list(kind) for kind in kinds)


def read_packed(path: str | os.PathLike[str], features: Sequence[str] | None = None) -> JudgedLists:
    """Read the lists of a packed file; its features are named 1, 2, ... unless an Arrow file names them.

    Those of an Arrow file stay in it: the array is read-only.

    Raises:
        DataError: the file is damaged, lacks a column, or holds nulls or values that are not finite numbers; the
            message names the column and the item.
    """
    is_mapped = Path(path).suffix == ARROW
    lists = _judged(_without_nulls(_map(path) if is_mapped else _read(path), path), path, features)
    if is_mapped:
        # Writing to the file's memory would end the process.
        lists.features.flags.writeable = False
    return lists


def _map(path: str | os.PathLike[str]) -> pa.Table:
    """Return the columns of an Arrow file, whose buffers stay in the file."""
    try:
        with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as file:
            _check_columns(file.schema, path)
            return _validated(file.read_all())
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except DAMAGE as error:
        raise unreadable(path, error, "Arrow") from error


def _judged(table: pa.Table, path: str | os.PathLike[str], features: Sequence[str] | None) -> JudgedLists:
    width = table.schema.field("features").type.value_type.list_size
    try:
        lists = joined([table], _feature_names(table.schema, width, path))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    for first in range(0, len(lists.features), BLOCK_ROWS):
        finite = np.isfinite(lists.features[first : first + BLOCK_ROWS])
        if not finite.all():
            row, column = np.argwhere(~finite)[0].tolist()
            name, found = lists.feature_names[column], lists.features[first + row, column]
            item = lists.items[first + row]
            raise DataError(f"{path}: item {item!r}: feature {name} is {found}, expected a finite number")
    if (lists.relevance < 0).any():
        row = int((lists.relevance < 0).argmax())
        raise DataError(f"{path}: item {lists.items[row]!r}: relevance {lists.relevance[row]}, expected grades from 0")
    return lists if features is None else chosen_features(lists, features, str(path))


def joined(tables: Sequence[pa.Table], feature_names: list[str]) -> JudgedLists:
    """Join packed tables into one batch of lists."""
    chunks = [batch for table in tables for batch in table.to_batches()]
    items, features, relevance, sizes = [], [np.empty((0, len(feature_names)), np.float32)], [], []
    for chunk in chunks:
        flat, offsets = from_list_column(chunk.column("features"))
        labels, _ = from_list_column(chunk.column("relevance"))
        items.append(chunk.column("items").flatten())
        features.append(flat.numpy())
        relevance.append(labels.numpy())
        sizes.append(offsets.diff().numpy())
    return JudgedLists(
        topics=[name for chunk in chunks for name in chunk.column("topic").to_pylist()],
        items=pl.Series(pl.from_arrow(pa.chunked_array(items, pa.string()))),
        relevance=np.concatenate([np.empty(0, np.int8), *relevance]),
        offsets=np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum(),
        features=features[1] if len(features) == 2 else np.concatenate(features),
        feature_names=feature_names,
    )


def _read(path: str | os.PathLike[str]) -> pa.Table:
    file = open_parquet(path)
    try:
        _check_columns(file.schema_arrow, path)
        check_memory(file, path)
        return _validated(file.read(columns=list(_COLUMNS)))
    except DAMAGE as error:
        raise unreadable(path, error) from error
    finally:
        file.close()


def _validated(table: pa.Table) -> pa.Table:
    table.validate(full=True)
    fields = [(name, _small(table.schema.field(name).type)) for name in table.column_names]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _feature_names(schema: pa.Schema, width: int, path: str | os.PathLike[str]) -> list[str]:
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


def _without_nulls(table: pa.Table, path: str | os.PathLike[str]) -> pa.Table:
    for name in _COLUMNS:
        if nulls := count_nulls(table.column(name)):
            raise DataError(f"{path}: column {name!r} holds {nulls} nulls, expected none")
    _check_lengths(table, path)
    return table


def _check_lengths(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Raise DataError for the first topic whose lists have different lengths."""
    items, *others = ([name, pc.list_value_length(table.column(name)).to_numpy()] for name in list(_COLUMNS)[1:])
    for name, lengths in others:
        rows = np.flatnonzero(lengths != items[1])
        if len(rows):
            raise DataError(
                f"{path}: topic {table.column('topic')[rows[0]].as_py()!r} has {items[1][rows[0]]} items, but "
                f"{lengths[rows[0]]} entries in the column {name!r}; expected one per item"
            )


def _check_columns(schema: pa.Schema, path: str | os.PathLike[str]) -> None:
    for name, (expected, is_expected) in _COLUMNS.items():
        if name not in schema.names:
            raise DataError(f"{path}: column {name!r} is missing; it has {', '.join(schema.names) or 'none'}")
        kind = _small(schema.field(name).type)
        if not is_expected(kind):
            raise DataError(f"{path}: column {name!r} is {kind}, expected {expected}")


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets for one with 64-bit offsets, which polars writes; other types stay."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    return kind


def _is_list_of_whole_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_integer(kind.value_type))


def _is_list_of_vectors(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        and pa.types.is_fixed_size_list(kind.value_type)
        and kind.value_type.value_type == pa.float32()
    )


_COLUMNS: Mapping[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "topic": ("string", lambda kind: bool(kind == pa.string())),
    "items": ("list<string>", lambda kind: bool(kind == pa.list_(pa.string()))),
    "relevance": ("list of whole numbers", _is_list_of_whole_numbers),
    "features": ("list<fixed_size_list<float>[d]>", _is_list_of_vectors),
}
