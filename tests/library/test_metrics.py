"""Metrics of one batch: what they refuse, the types that they take, their digits for long lists."""

import math
from collections.abc import Sequence
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rankbound as rb

# Items by descending score have grades 3, 0, 1, 0, 2.
SCORES = np.array([0.4, 0.9, -0.3, 0.1, 2.0])
GRADES = np.array([1, 0, 2, 0, 3])
ONE_LIST = np.array([0, 5])
LOG3 = math.log2(3)


NAN, INFINITY = float("nan"), float("inf")
WRONG: dict[str, list[list[Any]]] = {
    "scores": [[NAN, 1], [INFINITY, 1], [[1.0, 2.0]]],
    "relevance": [[1, -1], [1.0, NAN], [1.0, INFINITY], [1]],
    "offsets": [[0, 1], [0, 2, 1, 2], [0.0, 2.0]],
}


@pytest.mark.parametrize("metric", ["nDCG", "AP", "PairAccuracy", "ERR(max=4)"])
def test_bad_arguments_are_named(metric: str) -> None:
    for name, wrong in ((name, wrong) for name, wrongs in WRONG.items() for wrong in wrongs):
        arguments = {"scores": [1.0, 2.0], "relevance": [1, 0], "offsets": [0, 2]} | {name: wrong}
        with pytest.raises(ValueError, match=f"^{name}: "):
            rb.metric(metric)(*map(np.array, arguments.values()))
    lists = {"scores": torch.zeros(2), "relevance": torch.tensor([1, 0]), "offsets": torch.tensor([0, 2])}
    for name in ("relevance", "offsets"):
        with pytest.raises(ValueError, match=f"^{name}: found on meta, expected on cpu beside the scores"):
            rb.metric(metric)(*(lists | {name: lists[name].to("meta")}).values())


def test_gains_and_grades_that_do_not_fit_are_refused() -> None:
    """2^7 - 1 and the sums of such gains don't fit into int8, but are no integers here."""
    value = rb.metric("DCG")(np.array([3.0, 2.0, 1.0]), np.array([7, 7, 6], dtype=np.int8), [0, 3])
    assert value[0] == pytest.approx(127 + 127 / LOG3 + 63 / 2)
    scores, offsets = torch.tensor([2.0, 1.0]), [0, 2]
    for text, grade in {"nDCG": 2000, "DCG@1": 2000, "CG(gain=exp2)@2": 2000, "ERR(max=2)": 3}.items():
        with pytest.raises(ValueError, match=rf"^relevance: found grade {grade}, .*grades up to (1004|2, the)"):
            rb.metric(text)(scores, [grade, 1], offsets)
    for text, grades in (("nDCG", [1004, 1003]), ("nDCG(gain=linear)", [2000, 1])):
        assert rb.metric(text)(scores, grades, offsets)[0] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^relevance: found grade 200, .*torch.float32 scores; expected .* up to 108"):
        rb.SmoothLoss("nDCG")(scores, [200, 1], offsets)
    with pytest.raises(ValueError, match=r"^relevance: found grade 3, expected grades up to 2, the max of ERR"):
        rb.SmoothLoss("ERR(max=2)@3")(scores, [3, 1], offsets)


def test_long_lists_keep_their_digits() -> None:
    """Sums over a million ranks, written out."""
    n, p, offsets = 10**6, 7, [0, 10**6]
    scores, relevance = np.zeros(n), (np.arange(n) < p).astype(float)
    none = math.fsum(math.log1p(-p / (n - rank + 1)) for rank in range(1, 11))
    for name, expected in {"Hit@10": -math.expm1(none), "Recall@10": 10 / n, "PairAccuracy": 0.5}.items():
        assert rb.metric(name)(scores, relevance, offsets)[0] == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 2000), st.floats(0.001, 0.999))
def test_one_relevant_item_among_n_ties(n: int, p: float) -> None:
    """Closed forms on long blocks: each rank is equally likely."""
    scores, grades, offsets = np.zeros(n), np.arange(n) == n // 2, np.array([0, n])
    ranks = np.arange(1, n + 1)
    expected = {
        "nDCG": (1 / np.log2(ranks + 1)).mean(),
        "AP": (1 / ranks).mean(),
        "RR": (1 / ranks).mean(),
        "nRBP": (ranks - 1).mean(),
        f"RBP(p={p!r})": ((1 - p) * p ** (ranks - 1.0)).mean(),
    }
    for name, value in expected.items():
        assert rb.metric(name)(scores, grades, offsets)[0] == pytest.approx(value, rel=1e-10), name


def test_reciprocal_rank_of_a_long_block_with_many_relevant_items() -> None:
    """First relevant of 300 in 1,000 ties, by the recursion over ranks instead of binomials."""
    n, m, expected, still = 1000, 300, 0.0, 1.0
    for rank in range(1, n - m + 2):
        chance = m / (n - rank + 1)
        expected += still * chance / rank
        still *= 1 - chance
    value = rb.metric("RR")(np.zeros(n), np.arange(n) < m, np.array([0, n]))
    assert value[0] == pytest.approx(expected, rel=1e-9)


def test_err_of_a_long_block_of_ties() -> None:
    """500 items, 200 of them of grades 1 to 3: the user stops at rank j if they go on after j - 1 and not after j."""
    n, held = 500, {1: 120, 2: 50, 3: 30}
    grades = np.repeat([0, *held], [n - sum(held.values()), *held.values()])
    # The mean product of j of the items' 1 - S, item after item: a new one is among the j with the chance j / i.
    products = np.ones(1)
    for i, grade in enumerate(grades[::-1], start=1):
        q, j = 1 - (2.0**grade - 1) / 16, np.arange(i + 1) / i
        products = j * q * np.append(0, products) + (1 - j) * np.append(products, 0)
    ranks = np.arange(1, n + 1)
    terms = (products[:-1] - products[1:]) / ranks
    for name, expected in {"ERR(max=4)": terms.sum(), "ERR(max=4)@30": terms[:30].sum()}.items():
        assert rb.metric(name)(np.zeros(n), grades, np.array([0, n]))[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["PairAccuracy", "PairError(norm=max)", "Kendall", "LinearNDCG", "nDCG(gain=linear)"])
def test_grades_may_be_fractions(name: str) -> None:
    """Metrics that only compare grades, or whose gain is linear over its best, don't see their unit."""
    halves = rb.metric(name)(SCORES, GRADES / 2, ONE_LIST)
    assert halves == pytest.approx(rb.metric(name)(SCORES, GRADES, ONE_LIST), rel=1e-12)
    smooth, other = (
        rb.SmoothLoss(name)(*map(torch.from_numpy, (SCORES, grades, ONE_LIST))) for grades in (GRADES / 2, GRADES)
    )
    torch.testing.assert_close(smooth, other, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_tensors_of_any_precision_give_float64_tensors_without_gradients_and_arrays_arrays(dtype: torch.dtype) -> None:
    scores = torch.tensor([3, 1, 2]).to(dtype)
    value = rb.metric("AP")(scores.requires_grad_(dtype.is_floating_point), torch.tensor([0, 1, 1]), [0, 3])
    assert isinstance(value, torch.Tensor)
    assert (value.dtype, value.requires_grad) == (torch.float64, False)
    array = rb.metric("AP")(np.array([3, 1, 2]), np.array([0, 1, 1]), np.array([0, 3]))
    assert isinstance(array, np.ndarray)
    assert value.tolist() == array.tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])


def test_compatibility_is_that_with_the_nearest_of_all_ideal_rankings() -> None:
    """Clarke, Vtyurina and Smucker 2021: items of one grade may have any order in the ideal ranking."""
    for grades in product(range(3), repeat=5):
        relevant = [item for item, y in enumerate(grades) if y]
        ideals = [
            order
            for order in permutations(relevant)
            if all(grades[one] >= grades[below] for one, below in pairwise(order))
        ]

        def overlap(ranking: Sequence[int], ideal: Sequence[int]) -> float:
            return sum(0.8 ** (d - 1) * len({*ranking[:d]} & {*ideal[:d]}) / d for d in range(1, 6))

        found = float(rb.metric("Compat(p=0.8)")(-np.arange(5.0), np.array(grades), [0, 5])[0])
        if relevant:
            expected = max(overlap(range(5), ideal) for ideal in ideals) / overlap(ideals[0], ideals[0])
            assert found == pytest.approx(expected, rel=1e-12)
        else:
            assert np.isnan(found)
