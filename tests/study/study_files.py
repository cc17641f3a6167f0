"""Small instances and lists files, written as the data steps write them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from rankbound_study.data.contracts import SPLITS, judged_table, lists_table, write_table
from rankbound_study.data.sampling import write_instances as write_lists_of

N_ITEMS = 40
N_FEATURES = 3


def write_instances(path: Path, *, nsr: int | None = 1, folds: tuple[int, ...] = (1, 2), seed: int = 0) -> Path:
    """Lists of 6 to 8 items with two relevant ones, four topics a split; item indices are the same in all splits."""
    generator = np.random.default_rng(seed)
    parts = [(fold, split, _topics(generator, split, nsr)) for fold in folds for split in SPLITS]
    write_lists_of(path, "movielens" if nsr else "mq2008-label1", nsr, parts, item_count=N_ITEMS)
    return path


def write_lists(path: Path, seed: int = 0) -> Path:
    """Judged lists whose rows are the items of `write_instances`."""
    values = np.random.default_rng(seed).normal(size=(N_ITEMS, N_FEATURES)).astype(np.float32)
    names, grades = [f"d{row}" for row in range(N_ITEMS)], np.zeros(N_ITEMS, np.int8)
    write_table(judged_table(["all"], names, grades, values, np.array([0, N_ITEMS])), path, "lists")
    return path


def _topics(generator: np.random.Generator, split: str, nsr: int | None) -> pa.Table:
    # Users occur in every split, with other items in each; a query has one list.
    names = [f"{index}" if nsr else f"{split}-{index}" for index in range(4)]
    span = N_ITEMS // len(SPLITS)
    lowest = SPLITS.index(split) * span
    lists = [lowest + np.sort(generator.permutation(span)[: generator.integers(6, 9)]) for _ in names]
    relevance = [generator.permutation([1, 1, *[0] * (len(items) - 2)]) for items in lists]
    offsets = np.concatenate([[0], np.cumsum([len(items) for items in lists])])
    return lists_table(names, np.concatenate(lists), np.concatenate(relevance).astype(np.int8), offsets)
