"""Write judged lists as an Arrow file, whose features are read through a memory map: they may be larger than memory.

The file has the columns of `rankbound.io.packed` in one record batch, so that the features are one matrix.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.columns import from_list_column
from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.atomic import atomic_path, temporary_beside
from rankbound.io.judged import JudgedLists, no_features
from rankbound.io.letor_files import feature_indices, open_judged
from rankbound.io.packed import FEATURE_NAMES
from rankbound.io.table_stream import TableStream

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


def pack_letor(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    on_topics: Callable[[int], None],
    groups: str | os.PathLike[str] | None = None,
) -> Pack:
    """Pack a LETOR file, of which a chunk and the names are in memory; `on_topics` is told how many were read."""
    names = feature_indices(source) or ["1"]
    with open_judged(source, groups) as stream:
        return _write(letor.read_lists(stream, len(names), str(source)), names, path, on_topics)


def pack_judged(lists: JudgedLists, path: str | os.PathLike[str]) -> Pack:
    """Pack lists in memory; DataError for lists without features, or relevance that is no whole number."""
    if not lists.feature_names:
        raise DataError(f"{path}: {no_features(lists.left_out)}")
    packed = _write(iter([_packed(lists, path)]), lists.feature_names, path, lambda count: None)
    return replace(packed, left_out=lists.left_out, doubtful=lists.doubtful)


def pack_table(stream: TableStream, path: str | os.PathLike[str], on_topics: Callable[[int], None]) -> Pack:
    """Pack the lists of a table, of which a batch of rows and the names are in memory; errors as `pack_judged`."""
    packed = _write((_packed(lists, path) for lists in stream), stream.feature_names, path, on_topics)
    return replace(packed, left_out=stream.left_out, doubtful=stream.doubtful)


def _packed(lists: JudgedLists, path: str | os.PathLike[str]) -> pa.Table:
    broken = lists.relevance != np.floor(lists.relevance)
    if broken.any():
        raise DataError(f"{path}: found relevance {lists.relevance[broken][0]}, but packed files hold whole numbers")
    columns = {
        "items": pa.array(list(lists.items), pa.string()),
        "relevance": pa.array(lists.relevance.astype(np.int64)),
        "features": _vectors(np.ascontiguousarray(lists.features).reshape(-1), len(lists.feature_names)),
    }
    return pa.Table.from_batches([_batch(pa.array(lists.topics, pa.string()), lists.offsets, columns)])


def _write(
    tables: Iterator[pa.Table], names: Sequence[str], path: str | os.PathLike[str], on_topics: Callable[[int], None]
) -> Pack:
    """Gather the features in a file beside `path`, and everything else in memory; then write one record batch."""
    with temporary_beside(Path(path), ".features") as gathered:
        topics, limits, columns = _gathered(tables, gathered, on_topics)
        if limits[-1] > MOST_ITEMS:
            raise DataError(f"{path}: found {limits[-1]} items, expected at most {MOST_ITEMS}: pack topics in parts")
        columns["features"] = _vectors(_mapped(gathered), len(names))
        whole = _batch(topics, limits, columns).replace_schema_metadata({FEATURE_NAMES: json.dumps(list(names))})
        with (
            atomic_path(path) as temporary,
            pa.OSFile(os.fspath(temporary), "wb") as sink,
            pa.ipc.new_file(sink, whole.schema) as writer,
        ):
            writer.write_batch(whole)
        return Pack(len(whole), int(limits[-1]), len(names), list(names))


def _gathered(
    tables: Iterator[pa.Table], path: Path, on_topics: Callable[[int], None]
) -> tuple[pa.Array, npt.NDArray[np.int64], dict[str, pa.Array]]:
    """Return the topics, the lists' limits, and the other columns by item; write the features to `path`."""
    topics: list[pa.Array] = []
    sizes = [np.zeros(1, np.int64)]
    columns: dict[str, list[pa.Array]] = {"items": [], "relevance": []}
    with path.open("wb") as features:
        for table in tables:
            for batch in table.to_batches():
                flat, offsets = from_list_column(batch.column("features"))
                features.write(flat.numpy().data)
                sizes.append(offsets.diff().numpy())
                topics.append(batch.column("topic"))
                for name, parts in columns.items():
                    parts.append(batch.column(name).flatten())
            on_topics(len(table))
    flattened = {name: pa.concat_arrays(parts) for name, parts in columns.items()}
    return pa.concat_arrays(topics), np.concatenate(sizes).cumsum(), flattened


def _batch(topics: pa.Array, limits: npt.NDArray[np.int64], columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    offsets = pa.array(limits.astype(np.int32))
    lists = {name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()}
    return pa.record_batch({"topic": topics, **lists})


def _mapped(path: Path) -> npt.NDArray[np.float32]:
    if path.stat().st_size == 0:
        return np.empty(0, np.float32)
    return np.memmap(path, np.float32, "r")


def _vectors(values: npt.NDArray[Any], width: int) -> pa.FixedSizeListArray:
    flat = pa.Array.from_buffers(pa.float32(), len(values), [None, pa.py_buffer(values)])
    return pa.FixedSizeListArray.from_arrays(flat, width)
