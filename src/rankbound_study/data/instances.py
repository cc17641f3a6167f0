"""Write instances files: the lists that training reads, of item indices and relevance, per fold and split."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError
from rankbound_study.data.arrow import repeated, strings_to_arrow, to_arrow
from rankbound_study.data.contracts import read_metadata, write_table
from rankbound_study.data.schemas import DATASET_KEY, SYNTHETIC_KEY

Path = str | os.PathLike[str]

SPLITS = ("train", "validation", "test")

ITEM_COUNT_KEY = "rankbound.item_count"
"""Metadata of an instances file: items are indices 0 .. this number - 1."""

ITEM_NAMES_KEY = "rankbound.item_names"
"""Metadata of sampled instances: JSON list of the item ids by index. (For judged lists: rows of the lists file.)"""

TOPIC_NAMES_KEY = "rankbound.topic_names"
"""Metadata of interactions whose users are texts: JSON list of them by number. (Items' have the key above.)"""

FoldLists = tuple[int, str, pa.Table]
"""A fold, a split, and its lists by `lists_table`."""


def lists_table(
    names: Sequence[str],
    items: npt.NDArray[np.int64],
    relevance: npt.NDArray[np.int8],
    offsets: npt.NDArray[np.int64],
) -> pa.Table:
    """Return a row for each list: the topic's name, items and relevance."""
    starts = to_arrow(offsets.astype(np.int32))
    return pa.table(
        {
            "topic": strings_to_arrow(names),
            "items": pa.ListArray.from_arrays(starts, to_arrow(items)),
            "relevance": pa.ListArray.from_arrays(starts, to_arrow(relevance)),
        }
    )


def write_instances(
    out: Path,
    dataset: str,
    nsr: int | None,
    parts: Iterable[FoldLists],
    *,
    item_count: int,
    item_names: Sequence[Any] | None = None,
    origin: Mapping[str, str] | None = None,
) -> None:
    """Write the lists of all folds and splits, one row group each; `origin` is that of the data (see `origin_of`)."""
    names = {} if item_names is None else {ITEM_NAMES_KEY: json.dumps(list(item_names))}
    tables = [_with_key(lists, dataset, nsr, fold, split) for fold, split, lists in parts]
    notes = {**(origin or {}), **names, ITEM_COUNT_KEY: str(item_count), DATASET_KEY: dataset}
    write_table(pa.concat_tables(tables), out, "instances", [table.num_rows for table in tables], notes)


def origin_of(data: Path, contract: str, dataset: str) -> dict[str, str]:
    """Return how a file of data was generated, if it was; ConfigError if the data set's name does not say so."""
    origin = {key: value for key, value in read_metadata(data, contract).items() if key == SYNTHETIC_KEY}
    if origin and not dataset.startswith("synthetic-"):
        raise ConfigError(f"{data} is synthetic, so its data set cannot be named {dataset!r}: name it synthetic-...")
    return origin


def _with_key(lists: pa.Table, dataset: str, nsr: int | None, fold: int, split: str) -> pa.Table:
    key = {
        "dataset": repeated(dataset, pa.string(), lists.num_rows),
        "nsr": repeated(nsr, pa.int8(), lists.num_rows),
        "fold": repeated(fold, pa.int8(), lists.num_rows),
        "split": repeated(split, pa.string(), lists.num_rows),
    }
    return pa.table({**key, **{name: lists.column(name) for name in lists.column_names}})
