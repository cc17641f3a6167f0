"""LETOR text files and files of the judged-lists contract, whole in memory."""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.columns import from_list_column
from rankbound.data import letor
from rankbound.data.contracts import read_table
from rankbound.data.schemas import CONTRACTS, SCHEMA_KEY
from rankbound.errors import DataError
from rankbound.interchange.judged import JudgedLists

LARGEST_INDEX = 2**16
"""A row of features is kept whole, zeros too: an index beyond this is more likely a mistake than a feature."""

_QUERY_KEY = b"qid:"


def read_letor(path: str | os.PathLike[str], features: Sequence[str] | None = None) -> JudgedLists:
    """A LETOR file; its features are called 1, 2, ... up to the largest index, or up to the last one of `features`.

    The file is parsed a chunk at a time. DataError names the line and the token.
    """
    with _opened(path) as stream:
        largest = _largest_index(stream, str(path))
    names = [str(index) for index in range(1, largest + 1)] if features is None else list(features)
    unknown = [name for name in names if not name.isdigit() or int(name) < 1]
    if unknown:
        raise DataError(f"{path}: there is no feature {unknown[0]!r}; those of a LETOR file are numbers from 1")
    width = max(largest, *map(int, names), 1) if names else 1
    with _opened(path) as stream:
        lists = _joined(list(letor.read_lists(stream, width, str(path))), [str(index + 1) for index in range(width)])
    return lists if len(names) == width else chosen_features(lists, names, str(path))


def read_contract(path: str | os.PathLike[str], features: Sequence[str] | None = None) -> JudgedLists:
    """A parquet file of judged lists, as `rankbound convert` writes it."""
    table = read_table(path, "lists")
    width = table.schema.field("features").type.value_type.list_size
    lists = _joined([table], [str(index + 1) for index in range(width)])
    if not np.isfinite(lists.features).all():
        row, column = np.argwhere(~np.isfinite(lists.features))[0].tolist()
        found = lists.features[row, column]
        raise DataError(f"{path}: item {lists.items[row]!r}: feature {column + 1} is {found}, expected a finite number")
    return lists if features is None else chosen_features(lists, features, str(path))


def has_contract(path: str | os.PathLike[str]) -> bool:
    """Whether a parquet file is one of judged lists, by its metadata."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a readable parquet file ({str(error).split('. ')[0]})") from error
    return bool(metadata.get(SCHEMA_KEY.encode()) == str(CONTRACTS["lists"]).encode())


def is_letor(path: str | os.PathLike[str]) -> bool:
    """Whether the first line with anything in it has a query id as its second token."""
    with _opened(path) as stream:
        for line in stream:
            tokens = line.partition(b"#")[0].split()
            if tokens:
                return len(tokens) > 1 and tokens[1].startswith(_QUERY_KEY)
    return False


def chosen_features(lists: JudgedLists, names: Sequence[str], where: str) -> JudgedLists:
    """The same lists with the features of `names` alone, in that order."""
    place = {name: index for index, name in enumerate(lists.feature_names)}
    missing = [name for name in names if name not in place]
    if missing:
        raise DataError(f"{where}: there is no feature {missing[0]!r}; it has {', '.join(lists.feature_names[:8])} ...")
    picked = np.ascontiguousarray(lists.features[:, [place[name] for name in names]])
    return JudgedLists(
        topics=lists.topics,
        items=lists.items,
        relevance=lists.relevance,
        offsets=lists.offsets,
        features=picked,
        feature_names=list(names),
    )


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    try:
        if Path(path).suffix == ".gz":
            with gzip.open(path, "rb") as stream:
                yield cast("BinaryIO", stream)
        else:
            with Path(path).open("rb") as stream:
                yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _largest_index(lines: Iterable[bytes], where: str) -> int:
    """The largest feature index: that of some line's last pair. What is malformed is left to the parser."""
    largest = 0
    for number, line in enumerate(lines, start=1):
        tokens = line.partition(b"#")[0].rsplit(None, 1)
        key = tokens[-1].partition(b":")[0] if tokens else b""
        if key.isdigit() and int(key) > largest:
            largest = int(key)
            if largest > LARGEST_INDEX:
                raise DataError(
                    f"{where}, line {number}: found feature index {largest}, expected at most {LARGEST_INDEX}"
                )
    return largest


def _joined(tables: list[pa.Table], feature_names: list[str]) -> JudgedLists:
    """Tables of the contract as one batch of lists."""
    chunks = [batch for table in tables for batch in table.to_batches()]
    items, features, relevance, sizes = [], [np.empty((0, len(feature_names)), np.float32)], [], []
    for chunk in chunks:
        names = chunk.column("items")
        flat, offsets = from_list_column(chunk.column("features"))
        labels, _ = from_list_column(chunk.column("relevance"))
        items.append(names.flatten())
        features.append(flat.numpy())
        relevance.append(labels.numpy())
        sizes.append(offsets.diff().numpy())
    return JudgedLists(
        topics=[name for chunk in chunks for name in chunk.column("topic").to_pylist()],
        items=_series(items),
        relevance=np.concatenate([np.empty(0, np.int8), *relevance]),
        offsets=np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum(),
        features=features[1] if len(features) == 2 else np.concatenate(features),
        feature_names=feature_names,
    )


def _series(names: list[pa.Array]) -> pl.Series:
    return pl.Series(pl.from_arrow(pa.chunked_array(names, pa.string())))
