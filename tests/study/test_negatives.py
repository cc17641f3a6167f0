"""Sampled negatives: so many per positive, disjoint, from the right items, and the same again."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rankbound.errors import DataError
from rankbound_study.data.contracts import FOLDS, SPLITS
from rankbound_study.data.negatives import Drawing, RelevantPairs, _Others, sampled_instances
from rankbound_study.data.splits import split_relevant

DRAWING = Drawing(dataset="toy", nsr=2, validation_share=0.1, seed=0)
SIZES = {7: 25, 9: 31, 12: 60}
ITEM_COUNT = 200


def make_pairs(sizes: dict[int, int] = SIZES, item_count: int = ITEM_COUNT) -> RelevantPairs:
    random = np.random.default_rng(1)
    topic = np.repeat(list(sizes), list(sizes.values())).astype(np.int32)
    item = np.concatenate([np.sort(random.choice(item_count, size, replace=False)) for size in sizes.values()])
    return RelevantPairs(topic, item, split_relevant(topic, "toy", 0), item_count)


PAIRS = make_pairs()


def lists_of(drawn: pa.Table) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for row in drawn.to_pylist():
        yield row["topic"], np.array(row["items"]), np.array(row["relevance"])


def by_user(
    drawing: Drawing = DRAWING, pairs: RelevantPairs = PAIRS
) -> dict[tuple[int, str], dict[str, tuple[set, set]]]:
    """Per user and fold, per split: positives and negatives."""
    found: dict[tuple[int, str], dict[str, tuple[set, set]]] = {}
    for fold, split, drawn in sampled_instances(pairs, drawing):
        for name, items, relevance in lists_of(drawn):
            both = (set(items[relevance == 1].tolist()), set(items[relevance == 0].tolist()))
            found.setdefault((fold, name), {})[split] = both
    return found


@pytest.mark.parametrize("nsr", [1, 2])
def test_each_split_has_its_positives_and_so_many_negatives(nsr: int) -> None:
    for (fold, name), splits in by_user(replace(DRAWING, nsr=nsr)).items():
        of_user = int(name) == PAIRS.topic
        relevant = set(PAIRS.item[of_user].tolist())
        is_test = PAIRS.fold[of_user] == fold
        train, validation, test = (splits[split] for split in SPLITS)
        assert test[0] == set(PAIRS.item[of_user][is_test].tolist())
        assert train[0] | validation[0] == relevant - test[0]
        assert len(validation[0]) == max(1, round(0.1 * (len(relevant) - len(test[0]))))
        every: list[int] = []
        for positives, negatives in (train, validation, test):
            assert len(negatives) == nsr * len(positives)
            assert not negatives & relevant
            every.extend(positives | negatives)
        assert len(every) == len(set(every)) == (nsr + 1) * len(relevant)


def test_items_ascend_so_that_order_says_nothing() -> None:
    for _, _, drawn in sampled_instances(PAIRS, DRAWING):
        assert all((np.diff(items) > 0).all() for _, items, _ in lists_of(drawn))


def test_parts_come_by_fold_split_and_user() -> None:
    made = list(sampled_instances(PAIRS, DRAWING))
    assert [(fold, split) for fold, split, _ in made] == [(f, s) for f in range(1, FOLDS + 1) for s in SPLITS]
    assert all(drawn["topic"].to_pylist() == ["7", "9", "12"] for _, _, drawn in made)


def test_negatives_are_drawn_once_per_ratio_fold_seed_and_user() -> None:
    assert by_user() == by_user()
    others = (replace(DRAWING, seed=1), replace(DRAWING, dataset="other"))
    for drawing in others:
        assert all(by_user(drawing)[key]["test"][1] != value["test"][1] for key, value in by_user().items())
    first, second = by_user()[1, "9"], by_user()[2, "9"]
    assert set().union(*(first[split][1] for split in SPLITS)) != set().union(*(second[s][1] for s in SPLITS))


def test_a_user_is_drawn_alike_whoever_else_there_is() -> None:
    only = PAIRS.topic == 9
    alone = RelevantPairs(PAIRS.topic[only], PAIRS.item[only], PAIRS.fold[only], PAIRS.item_count)
    assert by_user(pairs=alone) == {key: value for key, value in by_user().items() if key[1] == "9"}


def test_the_validation_positives_are_those_of_any_ratio() -> None:
    one, two = by_user(replace(DRAWING, nsr=1)), by_user(replace(DRAWING, nsr=2))
    assert all(one[key]["validation"][0] == two[key]["validation"][0] for key in one)


def test_without_a_validation_share_there_is_none() -> None:
    for _, split, drawn in sampled_instances(PAIRS, replace(DRAWING, validation_share=0)):
        assert (len(drawn) == 0) == (split == "validation")


def test_every_candidate_is_as_likely() -> None:
    pairs = make_pairs({1: 25}, item_count=100)
    counts = np.zeros(100)
    for seed in range(60):
        for _, splits in by_user(replace(DRAWING, nsr=1, seed=seed), pairs).items():
            for _, negatives in splits.values():
                counts[list(negatives)] += 1
    candidates = np.delete(counts, pairs.item)
    assert counts[pairs.item].sum() == 0
    # Each of 75 candidates is drawn 300 times with probability 1/3: 100 expected, standard deviation 8.2.
    assert candidates.min() > 60
    assert candidates.max() < 140


def test_too_few_candidates_name_the_user_and_the_numbers() -> None:
    pairs = make_pairs({7: 25, 12: 60}, item_count=179)
    message = r"toy: user 12 has 60 relevant items and needs 120 negatives at NSR 2, but only 119 of the 179"
    with pytest.raises(DataError, match=message):
        list(sampled_instances(pairs, DRAWING))
    assert by_user(pairs=make_pairs({7: 25, 12: 60}, item_count=180))


def test_a_validation_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(DataError, match=r"user 7 has 20 training positives in fold 1, and validation would take 20"):
        list(sampled_instances(PAIRS, replace(DRAWING, validation_share=0.99)))


@pytest.mark.parametrize("relevant", [[], [0], [4], [0, 1, 2], [1, 3], [0, 4], [0, 1, 2, 3, 4]])
def test_the_other_items_are_found_by_place_as_in_the_whole_list(relevant: list[int]) -> None:
    others = _Others(np.array(relevant, np.int64), 5)
    assert others.all().tolist() == [item for item in range(5) if item not in relevant]
    np.testing.assert_array_equal(others.at(np.arange(len(others))), others.all())
