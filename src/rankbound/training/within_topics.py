"""Split the items of each topic, for models that know topics: into folds, or into training and validation.

The items of a topic are sorted by relevance, at random within a label, and dealt one after another: each part of a
split has its share of every label, and of the topic, up to one item.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankbound.seeds import Indices, derive_seed

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Judged pairs of a topic and an item, by index, each `(n,)`; draws depend on their order, so callers sort them."""

    topics: Indices
    items: Indices
    relevance: npt.NDArray[np.generic]


def folds_within(pairs: Pairs, folds: int, seed: int) -> Indices:
    """Return the fold of each pair, from 0; every topic begins at a random one."""
    generator = np.random.default_rng(derive_seed("folds within topics", seed))
    order, place = _dealt(pairs, generator)
    first = generator.integers(folds, size=int(pairs.topics.max(initial=-1)) + 1)
    fold = np.empty(len(order), np.int64)
    fold[order] = (place + first[pairs.topics[order]]) % folds
    return fold


def held_out_within(pairs: Pairs, share: float, seed: int) -> Mask:
    """Return a mask of pairs to hold out, about `share` of each topic's.

    Pairs whose topic or item would have no other pair left to learn from are not held out.
    """
    generator = np.random.default_rng(derive_seed("validation within topics", seed))
    order, place = _dealt(pairs, generator)
    start = generator.random(int(pairs.topics.max(initial=-1)) + 1)[pairs.topics[order]]
    held = np.empty(len(order), bool)
    held[order] = np.floor((place + 1) * share + start) > np.floor(place * share + start)
    for index in (pairs.items, pairs.topics):
        left = np.bincount(index[~held], minlength=int(index.max(initial=-1)) + 1)
        held &= left[index] > 0
    return held


def _dealt(pairs: Pairs, generator: np.random.Generator) -> tuple[Indices, Indices]:
    """Return the order by topic, label and chance, and each pair's place in its topic in that order."""
    order = np.lexsort((generator.random(len(pairs.topics)), pairs.relevance, pairs.topics))
    sizes = np.bincount(pairs.topics)
    return order, np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
