"""Pairs inside lists: all of them, or some, without looking at all."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound_study.data.reader import Split, pairs_of_lists


def random_split(seed: int = 0, lists: int = 12) -> Split:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 8, lists)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    items = random.permutation(1000)[: offsets[-1]]
    return Split(100 + np.arange(lists), items, random.integers(0, 3, offsets[-1]).astype(np.int8), offsets)


def all_pairs(split: Split) -> set[tuple[int, int, int, int, int]]:
    """(topic, better item, its grade, worse item, its grade), by two loops."""
    found = set()
    for topic, start, stop in zip(split.topics, split.offsets[:-1], split.offsets[1:], strict=True):
        for i in range(start, stop):
            for j in range(start, stop):
                if split.relevance[i] > split.relevance[j]:
                    found.add(
                        tuple(map(int, (topic, split.items[i], split.relevance[i], split.items[j], split.relevance[j])))
                    )
    return found


def as_set(pairs: Split) -> list[tuple[int, int, int, int, int]]:
    """The same of two-item lists, better item first."""
    items, grades = pairs.items.reshape(-1, 2), pairs.relevance.reshape(-1, 2)
    order = np.argsort(-grades, axis=1)
    items, grades = np.take_along_axis(items, order, 1), np.take_along_axis(grades, order, 1)
    return [
        tuple(map(int, row))
        for row in zip(pairs.topics, items[:, 0], grades[:, 0], items[:, 1], grades[:, 1], strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_all_pairs_of_lists_are_those_of_two_loops(seed: int) -> None:
    split = random_split(seed)
    pairs = pairs_of_lists(split)
    assert (pairs.sizes == 2).all()
    assert len(pairs) == len(all_pairs(split)) > 10
    assert set(as_set(pairs)) == all_pairs(split)
    assert (pairs.relevance[::2] > pairs.relevance[1::2]).all()
    turned = pairs_of_lists(split, random=np.random.default_rng(0))
    assert set(as_set(turned)) == all_pairs(split)
    assert 0.2 < (turned.relevance[::2] > turned.relevance[1::2]).mean() < 0.8


def test_drawn_pairs_are_some_of_all_and_each_is_as_likely() -> None:
    split = random_split(1)
    every = sorted(all_pairs(split))
    random, counts = np.random.default_rng(0), dict.fromkeys(every, 0)
    for _ in range(400):
        found = as_set(pairs_of_lists(split, 10, random))
        assert len(set(found)) == len(found) == 10
        for pair in found:
            counts[pair] += 1
    expected = 400 * 10 / len(every)
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5
    assert set(as_set(pairs_of_lists(split, 10_000, random))) == set(every)


def test_pairs_of_lists_refuse_what_has_none() -> None:
    split = random_split()
    with pytest.raises(ValueError, match=r"^count: found 3 with random None"):
        pairs_of_lists(split, 3)
    flat = replace(split, relevance=np.ones_like(split.relevance))
    with pytest.raises(ValueError, match=r"^split: none of its 12 lists has two items of different relevance"):
        pairs_of_lists(flat)
    empty = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match=r"^split: none of its 0 lists"):
        pairs_of_lists(Split(empty, empty, empty.astype(np.int8), np.zeros(1, dtype=np.int64)))
