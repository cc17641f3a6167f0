"""Splits of judged lists into training, validation and test: by topic, or of the items within each topic.

Models that know topics are tested on other items of the same topics. To split these, the items of a topic are sorted by
relevance, at random within a label, and dealt one after another: each part of a split has its share of every label, and
of the topic, up to one item.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.io.ragged import Indices
from rankbound.texts import derive_seed, quoted

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Judged lists to train on, to select the epoch on, and to test on.

    Args:
        training: the lists to train on.
        validation: those that select the epoch; by default, a share of the training lists is held out.
        test: the lists to score and evaluate.
        name: how messages call the split, such as the names of its files.

    >>> split = rb.Split(training=rb.read_lists("train.csv"), test=rb.read_lists("test.csv"))  # doctest: +SKIP
    """

    training: JudgedLists
    validation: JudgedLists | None = None
    test: JudgedLists
    name: str = ""

    @property
    def parts(self) -> Mapping[str, JudgedLists | None]:
        """The three parts by name."""
        return {"training": self.training, "validation": self.validation, "test": self.test}


def require_apart(parts: Mapping[str, JudgedLists | None], *, by_item: bool) -> None:
    """Raise DataError for a topic that is in two of the named parts, or, `by_item`, for a topic's item in two."""
    there = {name: lists for name, lists in parts.items() if lists is not None}
    for (a, first), (b, second) in combinations(there.items(), 2):
        shared = _shared_item(first, second) if by_item else _shared_topic(first, second)
        if shared:
            where = "each item of a topic" if by_item else "each topic"
            raise DataError(
                f"{shared} is in the {a} and in the {b} lists; expected {where} in one of them: remove it from one"
                + ("" if by_item else ", or give different topics different names")
            )


def split_by_topic(lists: JudgedLists, tested: Sequence[Indices]) -> Iterator[Split]:
    """Yield a split for each set of topics to test, which trains on all others."""
    owner = np.repeat(np.arange(len(lists)), np.diff(lists.offsets))
    for part in tested:
        own = np.isin(np.arange(len(lists)), part)
        yield Split(training=_picked(lists, ~own[owner], ~own), test=_picked(lists, own[owner], own))


def split_by_item(lists: JudgedLists, fold: Indices) -> Iterator[Split]:
    """Yield a split for each fold of items `(n_items,)`, from 0, which trains on all others."""
    for number in range(int(fold.max(initial=-1)) + 1):
        yield Split(training=_picked(lists, fold != number), test=_picked(lists, fold == number))


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


def _shared_topic(a: JudgedLists, b: JudgedLists) -> str:
    known = set(a.topics)
    return next((f"topic {quoted(topic)}" for topic in b.topics if topic in known), "")


def _shared_item(a: JudgedLists, b: JudgedLists) -> str:
    import polars as pl

    from rankbound.io.table_columns import name_column, topic_column

    frames = [
        pl.DataFrame({"topic": topic_column(lists.topics, lists.offsets), "item": name_column(lists.items)})
        for lists in (a, b)
    ]
    shared = frames[1].join(frames[0], on=["topic", "item"], how="semi", maintain_order="left")
    if not len(shared):
        return ""
    topic, item = shared.row(0)
    return f"item {quoted(item)} of topic {quoted(topic)}"


def _picked(lists: JudgedLists, rows: Mask, topics: Mask | None = None) -> JudgedLists:
    """Return the lists of some rows: these topics', by default those that have any of the rows."""
    from rankbound.io.table_columns import name_column

    sizes = np.diff(np.append(0, np.cumsum(rows))[lists.offsets])
    kept = np.flatnonzero(sizes if topics is None else topics)
    return JudgedLists(
        topics=[lists.topics[topic] for topic in kept.tolist()],
        items=name_column(lists.items).filter(rows),
        relevance=lists.relevance[rows],
        offsets=np.append(0, np.cumsum(sizes[kept])),
        features=lists.features[rows],
        feature_names=lists.feature_names,
    )


def _dealt(pairs: Pairs, generator: np.random.Generator) -> tuple[Indices, Indices]:
    """Return the order by topic, label and chance, and each pair's place in its topic in that order."""
    order = np.lexsort((generator.random(len(pairs.topics)), pairs.relevance, pairs.topics))
    sizes = np.bincount(pairs.topics)
    return order, np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
