"""Write instances files: the lists that training reads, of item indices and relevance, per fold and split."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.arrow import repeated, strings_to_arrow, to_arrow
from rankbound_study.data.contracts import open_writer, read_metadata
from rankbound_study.data.schemas import DATASET_KEY, SYNTHETIC_KEY

Path = str | os.PathLike[str]

SPLITS = ("train", "validation", "test")

ITEM_COUNT_KEY = "rankbound.item_count"
"""Metadata of an instances file: items are indices 0 .. this number - 1."""

ITEM_NAMES_KEY = "rankbound.item_names"
"""Metadata of sampled instances: JSON list of the item ids by index. (For judged lists: rows of the lists file.)"""

TOPIC_NAMES_KEY = "rankbound.topic_names"
"""Metadata of interactions whose users are texts: JSON list of them by number. (Items' have the key above.)"""

LARGEST_PART = 2**31 - 1
"""Items of all lists of a part at most: Arrow's lists have offsets of 32 bits."""

LEFT_OUT_KEY = "rankbound.left_out"
"""Metadata of sampled instances: JSON of the numbers of users and of lists that were left out, if there are any."""

REPEATS_KEY = "rankbound.repeats"
"""Metadata of sampled instances whose folds are drawn several times: how often."""

FoldLists = tuple[int, str, pa.Table]
"""A fold, a split, and its lists by `lists_table`."""


def lists_table(
    names: Sequence[str],
    items: npt.NDArray[np.int64],
    relevance: npt.NDArray[np.int8],
    offsets: npt.NDArray[np.int64],
) -> pa.Table:
    """Return a row for each list: the topic's name, items and relevance."""
    if offsets[-1] > LARGEST_PART:
        raise DataError(f"found {offsets[-1]:,} items in the lists of a part, expected at most {LARGEST_PART:,}")
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
    left_out: Mapping[str, int] | None = None,
) -> None:
    """Write the lists of all folds and splits as they come, one row group each.

    `origin` is that of the data (see `origin_of`); `left_out` counts what is not written, until the last part came.
    """
    names = {} if item_names is None else {ITEM_NAMES_KEY: json.dumps(list(item_names))}
    notes = {**(origin or {}), **names, ITEM_COUNT_KEY: str(item_count), DATASET_KEY: dataset}
    with open_writer(out, "instances", notes) as write:
        for fold, split, lists in parts:
            write(_with_key(lists, dataset, nsr, fold, split))
        if left_out:
            write.note(LEFT_OUT_KEY, json.dumps(dict(left_out), sort_keys=True))


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
