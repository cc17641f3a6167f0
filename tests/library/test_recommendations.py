"""Measures of recommended lists: against plain Python over all orders of ties, against RecBole's formula, refusals."""

import math
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound import recommendations
from tests.library.refusals import refusals

ITEMS = list("abcdef")
VECTORS = np.random.default_rng(0).normal(size=(6, 3))
TRAINING = {"u": {"a": 1, "b": 1, "c": 0}, "v": {"a": 1, "c": 1}, "w": {"a": 2, "d": 1, "e": 1, "f": 1, "b": 1}}
TEST = {"u": {"b": 1, "d": 1, "e": 0}, "v": {"a": 1, "f": 2}, "w": {"c": 1}}
EXPECTED = {"u": {"a": 2.0, "b": 1.0}, "w": {"f": 1.0}}
RUNS: list[dict[str, dict[str, float]]] = [
    {"u": {"a": 3.0, "b": 2.0, "d": 1.0}, "v": {"f": 1.0, "c": 0.5}},
    {"u": {"d": 1.0, "b": 1.0, "a": 1.0, "e": 1.0}, "w": {"c": 5.0, "f": 2.0, "a": 2.0}, "v": {"c": 1.0}},
    {"v": {"a": 0.0, "f": 0.0}, "w": {"b": 1.0, "d": 1.0, "c": 2.0, "e": 0.0}},
]


def orders(run: dict[str, dict[str, float]]) -> Iterator[dict[str, list[str]]]:
    """All orders of ties of all topics."""
    each = [
        [order for order in permutations(scores) if list(order) == sorted(order, key=lambda item: -scores[item])]
        for scores in run.values()
    ]
    for chosen in product(*each):
        yield dict(zip(run, map(list, chosen), strict=True))


def shown(lists: dict[str, list[str]], k: int) -> list[str]:
    return [item for order in lists.values() for item in order[:k]]


def covered(lists: dict[str, list[str]], k: int) -> float:
    return len(set(shown(lists, k))) / len(ITEMS)


def information(user: str, own: list[str]) -> float:
    counts = {item: sum(lists.get(item, 0) > 0 for lists in TRAINING.values()) for item in own}
    return math.fsum(-math.log2(count / len(TRAINING)) for count in counts.values()) / len(own)


def unlike(user: str, own: list[str]) -> float:
    rows = [VECTORS[ITEMS.index(item)] for item in own]
    cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in combinations(rows, 2)]
    return 1 - math.fsum(cosines) / len(cosines) if cosines else math.nan


def surprising(user: str, own: list[str]) -> float:
    return sum(TEST[user].get(item, 0) > 0 and item not in EXPECTED.get(user, {}) for item in own) / len(own)


OF_TOPICS: dict[str, Any] = {
    "novelty": (lambda run, k: recommendations.novelty(run, TRAINING, k=k), information),
    "diversity": (lambda run, k: recommendations.diversity(run, ITEMS, VECTORS, k=k), unlike),
    "serendipity": (lambda run, k: recommendations.serendipity(run, TEST, EXPECTED, k=k), surprising),
}


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("run", RUNS)
def test_values_are_means_over_all_orders_of_ties(run: dict[str, dict[str, float]], k: int) -> None:
    every = list(orders(run))
    assert recommendations.coverage(run, ITEMS, k=k) == pytest.approx(np.mean([covered(one, k) for one in every]))
    for measure, own in OF_TOPICS.values():
        expected = [np.mean([own(user, one[user][:k]) for one in every]) for user in run]
        np.testing.assert_allclose(measure(run, k), expected, rtol=1e-12, atol=1e-14)
    counts = [sum(shown(one, k).count(item) for one in every) / len(every) for item in ITEMS]
    differences = sum(abs(x - y) for x, y in product(counts, counts))
    gini = differences / (2 * len(ITEMS) * sum(counts))
    assert recommendations.gini(run, ITEMS, k=k) == pytest.approx(gini)


def test_the_order_of_rows_does_not_matter() -> None:
    turned = {user: dict(reversed(scores.items())) for user, scores in RUNS[1].items()}
    for measure, _ in OF_TOPICS.values():
        np.testing.assert_allclose(measure(turned, 2), measure(RUNS[1], 2), rtol=1e-12)


def test_edges() -> None:
    everything = {f"u{place}": {item: 1.0} for place, item in enumerate(ITEMS)}
    assert recommendations.coverage(everything, ITEMS, k=1) == 1
    assert recommendations.gini(everything, ITEMS, k=1) == pytest.approx(0, abs=1e-12)
    assert recommendations.gini({"u": {"a": 1.0}}, ITEMS, k=1) == pytest.approx(5 / 6)
    empty = rb.Run(topics=["u"], items=[], scores=np.zeros(0), offsets=[0, 0])
    assert recommendations.coverage(empty, ITEMS, k=3) == 0
    assert math.isnan(recommendations.gini(empty, ITEMS, k=3))
    for measure, _ in OF_TOPICS.values():
        assert np.isnan(measure(empty, 3)).all()
    # An item beyond rank k may be unknown.
    assert recommendations.coverage({"u": {"a": 2.0, "z": 1.0}}, ITEMS, k=1) == pytest.approx(1 / 6)


RUN = {"u": {"a": 2.0, "z": 1.0}}
test_what_is_refused = refusals(
    [
        (lambda: recommendations.coverage(RUN, ITEMS, k=0), "k: found 0, expected a number of items from 1"),
        (lambda: recommendations.coverage(RUN, ITEMS, k=2), "recommended item 'z' of topic 'u'"),
        (lambda: recommendations.gini(RUN, [], k=2), "items: found none, expected the names"),
        (lambda: recommendations.gini(RUN, ["a", "z", "a"], k=2), "items: found 'a' twice, expected each once"),
        (lambda: recommendations.novelty(RUN, TRAINING, k=2), "recommended item 'z' of topic 'u'"),
        (lambda: recommendations.novelty({"u": {"a": math.nan}}, TRAINING, k=2), "scores: found nan in topic u"),
        (lambda: recommendations.diversity(RUN, ITEMS, VECTORS[:3], k=1), "one row for each of 6 items"),
        (lambda: recommendations.diversity(RUN, ITEMS, 0 * VECTORS, k=1), "for item 'a', expected finite numbers"),
    ],
    lambda call: call(),
)
