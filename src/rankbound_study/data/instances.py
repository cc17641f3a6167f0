"""The instances that training reads: lists of item indices and relevance per fold and split."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound_study.data.folds import FOLDS

SPLITS = ("train", "validation", "test")
TRAIN_PARTS = 3


@dataclass(frozen=True)
class Topics:
    """The lists of one fold and split: names, and flat items and relevance with offsets."""

    names: list[str]
    items: npt.NDArray[np.int64]
    relevance: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]


def split_of_part(fold: int, part: npt.NDArray[np.int8]) -> npt.NDArray[np.str_]:
    """Return the split of each LETOR part in fold k: k, k+1, k+2 train, k+3 validation, k+4 test (cyclic)."""
    names = np.array([*["train"] * TRAIN_PARTS, "validation", "test"])
    chosen: npt.NDArray[np.str_] = names[(part.astype(np.int64) - fold) % FOLDS]
    return chosen


def judged_instances(
    names: list[str],
    offsets: npt.NDArray[np.int64],
    relevance: npt.NDArray[np.int8],
    part: npt.NDArray[np.int8],
    threshold: int | None,
) -> Iterable[tuple[int, str, Topics]]:
    """Return whole judged lists, relevant from the label `threshold` on; without one, labels are the relevance.

    Items are row indices of the file. Lists without relevant items are kept; metrics and the trainer handle them.
    """
    read = relevance if threshold is None else (relevance >= threshold).astype(np.int8)
    for fold in range(1, FOLDS + 1):
        split = split_of_part(fold, part)
        for wanted in SPLITS:
            chosen = np.flatnonzero(split == wanted)
            rows = [np.arange(offsets[topic], offsets[topic + 1]) for topic in chosen]
            items = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
            sizes = offsets[chosen + 1] - offsets[chosen]
            flat = Topics([names[topic] for topic in chosen], items, read[items], _offsets(sizes))
            yield fold, wanted, flat


def instances_table(
    dataset: str, nsr: int | None, parts: Iterable[tuple[int, str, Topics]]
) -> tuple[pa.Table, list[int]]:
    """Return the table of the instances contract, and its row group sizes: one group per fold and split."""
    tables = [_part_table(dataset, nsr, fold, split, topics) for fold, split, topics in parts]
    return pa.concat_tables(tables), [table.num_rows for table in tables]


def _part_table(dataset: str, nsr: int | None, fold: int, split: str, topics: Topics) -> pa.Table:
    count = len(topics.names)
    offsets = pa.array(topics.offsets.astype(np.int32))
    columns: Mapping[str, pa.Array] = {
        "dataset": pa.array([dataset] * count, pa.string()),
        "nsr": pa.array([nsr] * count, pa.int8()),
        "fold": pa.array([fold] * count, pa.int8()),
        "split": pa.array([split] * count, pa.string()),
        "topic": pa.array(topics.names, pa.string()),
        "items": pa.ListArray.from_arrays(offsets, pa.array(topics.items, pa.int64())),
        "relevance": pa.ListArray.from_arrays(offsets, pa.array(topics.relevance, pa.int8())),
    }
    return pa.table(columns)


def _offsets(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    return offsets
