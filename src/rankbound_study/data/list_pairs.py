"""Pairs of items inside lists, as lists of two items, for pairwise training on web queries."""

import numpy as np

from rankbound_study.data.reader import Split


def pairs_of_lists(split: Split, count: int | None = None, random: np.random.Generator | None = None) -> Split:
    """Return all pairs of a more and a less relevant item of one list, or `count` of them, as two-item lists.

    Pairs are within a query, without ties, each once (Li and Wu section 3). A pair keeps its list's topic, its items
    keep their indices and labels, and `random` determines their sides (without it, the more relevant item comes first).
    With `count`, that many pairs are drawn by `random` without replacement, uniformly over all pairs of all lists, so
    long lists weigh more, as they do among all pairs; if `count` exceeds the number of pairs, all are taken.

    Time and memory are proportional to the items and the pairs taken, never to all pairs. Raises ValueError if `count`
    is given without `random`, or if no list has two items of different relevance.
    """
    if count is not None and (random is None or count < 1):
        raise ValueError(f"count: found {count} with random {random}, expected 1 or more, and a generator")
    order, below, first = _items_below(split)
    ends = np.cumsum(below)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        raise ValueError(f"split: none of its {len(split)} lists has two items of different relevance")
    chosen = np.arange(total)
    if count is not None and random is not None and count < total:
        chosen = np.sort(random.choice(total, count, replace=False, shuffle=False))
    # Pair k joins one item with the k-th of all items below it: `better` and `worse` are positions in `order`.
    better = np.searchsorted(ends, chosen, side="right")
    worse = first[better] + chosen - (ends[better] - below[better])
    places = order[np.stack((better, worse), 1)]
    if random is not None:
        places = random.permuted(places, axis=1)
    topics = split.owners[places[:, 0]]
    flat = places.reshape(-1)
    return Split(topics, split.items[flat], split.relevance[flat], 2 * np.arange(len(places) + 1))


def _items_below(split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return items by list and ascending relevance, how many of its list are below each, and the lists' starts."""
    owner = np.repeat(np.arange(len(split)), split.sizes)
    order = np.lexsort((split.relevance, owner))
    first = np.repeat(split.offsets[:-1], split.sizes)
    grade = split.relevance[order].astype(np.int64)
    place = np.arange(len(order))
    # The first item of its label: the number of items below it is the number before it in its list.
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = (grade[1:] != grade[:-1]) | (owner[1:] != owner[:-1])
    block_start = np.maximum.accumulate(np.where(starts, place, 0))
    return order, block_start - first, first
