"""Folds, negatives and merging hold their promises for any sizes."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankbound_study.data.contracts import FOLDS, SPLITS
from rankbound_study.data.negatives import Drawing, RelevantPairs, sampled_instances
from rankbound_study.data.reader import Split, merge
from rankbound_study.data.splits import split_relevant

user_sizes = st.lists(st.integers(5, 40), min_size=1, max_size=5)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 3))
def test_folds_are_near_equal_for_every_user(sizes: list[int], seed: int) -> None:
    topic = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    fold = split_relevant(topic, "toy", seed)
    for user, size in enumerate(sizes):
        counts = np.bincount(fold[topic == user], minlength=FOLDS + 1)
        assert counts[0] == 0
        assert sorted(set(counts[1:].tolist())) in ([size // FOLDS], [size // FOLDS, size // FOLDS + 1])


@given(user_sizes, st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.3]), st.integers(0, 3))
def test_every_fold_uses_each_positive_once_and_disjoint_negatives(
    sizes: list[int], nsr: int, share: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    topic = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    item = np.concatenate([np.sort(random.choice(160, size, replace=False)) for size in sizes])
    pairs = RelevantPairs(topic, item, split_relevant(topic, "toy", seed), 160)
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for fold, split, drawn in sampled_instances(pairs, Drawing("toy", nsr, share, seed)):
        assert split in SPLITS
        for row in drawn.to_pylist():
            assert len(row["items"]) == (nsr + 1) * sum(row["relevance"])
            rows = zip(row["items"], row["relevance"], strict=True)
            found.setdefault((fold, row["topic"]), []).extend(rows)
    assert len(found) == FOLDS * len(sizes)
    for (_, name), rows in found.items():
        assert len({item for item, _ in rows}) == len(rows)
        assert {item for item, relevant in rows if relevant} == set(item[topic == int(name)].tolist())


flat_lists = st.dictionaries(st.integers(0, 5), st.sets(st.integers(0, 9)), max_size=4)


def as_split(lists: dict[int, set[int]]) -> Split:
    items = [item for one in lists.values() for item in sorted(one)]
    offsets = np.cumsum([0, *(len(one) for one in lists.values())])
    relevance = (np.array(items, dtype=np.int64) % 2).astype(np.int8)
    return Split(np.array(list(lists), dtype=np.int64), np.array(items, dtype=np.int64), relevance, offsets)


@given(flat_lists, flat_lists)
def test_merging_is_the_union_per_topic(train: dict[int, set[int]], other: dict[int, set[int]]) -> None:
    other = {topic: {item + 10 for item in items} for topic, items in other.items()}
    both = merge(as_split(train), as_split(other))
    expected = {topic: sorted(train.get(topic, set()) | other.get(topic, set())) for topic in train | other}
    bounds = pairwise(both.offsets)
    found = {int(topic): both.items[a:b].tolist() for topic, (a, b) in zip(both.topics, bounds, strict=True)}
    assert found == expected
    np.testing.assert_array_equal(both.relevance, both.items % 2)
