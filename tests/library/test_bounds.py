"""Extremes, expectations and the bounds against brute force over all orders; every bound has the properties of each."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from brute_force import METRICS, Order, Value, binary_orders, graded_orders, mean
from test_own_metric import METRICS as OWN
from test_own_metric import ORACLES

import rankbound as rb
from rankbound.bounds.base import kinds
from rankbound.bounds.orders import Profile
from rankbound.bounds.score_distribution import ScoreDistribution
from rankbound.bounds.tables import DistributionsOnDemand
from rankbound.lists import Lists
from tests.library.refusals import refusals

SIZES = [(n, p) for n in range(1, 9) for p in range(n + 1)]
MIXED = [(n, p) for n, p in SIZES if 0 < p < n]
BOUNDS = tuple(kinds())
ORIGIN_AND_UNIT: dict[str, Callable[[float, float, float], tuple[float, float]]] = {
    "none": lambda low, expected, high: (0.0, 1.0),
    "min-max": lambda low, expected, high: (low, high - low),
    "expectation": lambda low, expected, high: (0.0, expected),
    "expectation-max": lambda low, expected, high: (expected, high - expected),
}
"""The affine bounds, by the smallest, mean and largest value (thesis eqs. 3.1, 3.6, 3.11)."""
WRITTEN_OUT = (*ORIGIN_AND_UNIT, "distribution")

GRADED: list[Order] = [
    (),
    (0,),
    (2,),
    (0, 0, 0),
    (0, 1, 2),
    (3, 0, 0, 1),
    (1, 1, 0, 0, 1),
    (2, 2, 2),
    (3, 1, 0, 2, 1),
    (0, 0, 1, 3, 2, 2),
    (4, 0, 0, 0, 0, 0, 1),
]


@cache
def values(name: str, n: int, p: int) -> tuple[Value, ...]:
    return tuple(METRICS[name](order) for order in binary_orders(n, p))


def largest(known: tuple[Value, ...], sign: int = 1) -> float:
    """The largest (or, with sign -1, the smallest) value; NaN if undefined."""
    return math.nan if None in known else sign * float(max(sign * value for value in known))  # type: ignore[operator]


@pytest.mark.parametrize(("n", "p"), [(20_000, 10_001), (1_000_000, 7)])
def test_long_lists_keep_their_digits(n: int, p: int) -> None:
    found = [float(function("nRBP", n, p)) for function in (rb.minimum, rb.expectation, rb.maximum)]
    assert found == [0, p * (n - p) / 2, p * (n - p)]
    harmonic = math.fsum(1 / rank for rank in range(1, n + 1))
    expected = ((p - 1) / (n - 1) * (n - harmonic) + harmonic) / n
    assert float(rb.expectation("AP", n, p)) == pytest.approx(expected, rel=1e-12)
    worst = math.fsum(i / (n - p + i) for i in range(1, p + 1)) / p
    assert float(rb.minimum("AP", n, p)) == pytest.approx(worst, rel=1e-9, abs=1e-9)
    gains = [1 / math.log2(rank + 1) for rank in range(1, n + 1)]
    ideal = math.fsum(gains[:p])
    assert float(rb.minimum("nDCG", n, p)) == pytest.approx(math.fsum(gains[n - p :]) / ideal, rel=1e-9)
    assert float(rb.expectation("nDCG", n, p)) == pytest.approx(p / n * math.fsum(gains) / ideal, rel=1e-12)


def flat(lists: Sequence[Order]) -> tuple[Any, Any]:
    return np.array([grade for grades in lists for grade in grades]), np.cumsum([0, *map(len, lists)])


def test_counts_keep_their_shape_and_grades_their_fractions() -> None:
    assert rb.minimum("nDCG", 9, 3).shape == ()
    table = rb.expectation("AP", np.array([[4], [6]]), np.array([1, 2, 3]))
    assert table.shape == (2, 3)
    assert table[1, 2] == rb.expectation("AP", 6, 3)
    assert rb.maximum("nDCG", np.zeros(0, dtype=int), np.zeros(0, dtype=int)).shape == (0,)
    assert (
        rb.minimum("AP", torch.tensor([5, 9]), torch.tensor([2, 3])).tolist()
        == rb.minimum("AP", [5, 9], [2, 3]).tolist()
    )
    lists = np.array([0.5, 1.0, 0.0]), np.array([0, 3])
    facts = [*rb.extremes("nDCG", *lists), rb.expectation("nDCG", relevance=lists[0], offsets=lists[1])]
    scores = np.array([3.0, 2.0, 1.0])
    for bound, origin_and_unit in ORIGIN_AND_UNIT.items():
        origin, unit = origin_and_unit(facts[0], facts[2], facts[1])
        expected = (rb.metric("nDCG")(scores, *lists) - origin) / unit
        np.testing.assert_allclose(rb.bounded("nDCG", bound)(scores, *lists), expected)


@pytest.mark.parametrize(
    ("n", "p"), [(3, 4), (3, -1), (0, 0), (np.array([3, 2]), np.array([1, 3])), (3.0, 1.0), (True, 2)]
)
def test_impossible_counts_are_refused_by_name(n: Any, p: Any) -> None:
    for call in (
        rb.minimum,
        rb.maximum,
        rb.expectation,
        lambda _, *of: rb.bounded("AP", "min-max").from_value(0.5, *of),
    ):
        with pytest.raises(ValueError, match=r"^n, p: "):
            call("nDCG", n, p)
    for keywords in ({}, {"n": 3}, {"relevance": [1, 0]}, {"n": 3, "p": 1, "relevance": [1], "offsets": [0, 1]}):
        with pytest.raises(ValueError, match=r"^expectation: expected either n and p, or relevance= and offsets="):
            rb.expectation("nDCG", **keywords)  # type: ignore[arg-type]


def written_out(bound: str, value: Value, known: tuple[Value, ...]) -> float:
    """The bounded value of one order, NaN where it is a division by 0; for the distribution, thesis eq. 3.12."""
    if value is None:
        return math.nan
    if bound == "distribution":
        return sum(other <= value + 1e-12 for other in known) / len(known)  # type: ignore[operator]
    origin, unit = ORIGIN_AND_UNIT[bound](largest(known, -1), mean(known), largest(known))
    return (float(value) - origin) / unit if abs(unit) > 1e-9 else math.nan


BINARY_NAMES = ("nDCG", "AP", "nRBP", "RR", "nDCG@3", "P@3", "P@10", "nRBP(p=0.8)", "RBP(p=0.8)", *OWN)
GRADED_NAMES = ("nDCG", "nDCG@3", "AP(rel=2)", "DCG(gain=linear)@2", "nRBP", "PairError", *OWN)


@pytest.mark.parametrize("bound", WRITTEN_OUT)
@pytest.mark.parametrize(
    ("name", "graded"), [*((name, False) for name in BINARY_NAMES), *((name, True) for name in GRADED_NAMES)]
)
def test_bounded_values_of_all_orders(name: str, graded: bool, bound: str) -> None:
    """One batch of all orders, as ranked lists and, of N <= 8 binary items with every P, as values with their sizes."""
    lists = [graded_orders(grades) for grades in GRADED] if graded else [binary_orders(n, p) for n, p in SIZES]
    known = [tuple(map(ORACLES[name], orders)) for orders in lists]
    expected = [written_out(bound, value, each) for each in known for value in each]
    batch = [order for orders in lists for order in orders]
    scores = np.concatenate([np.arange(len(order), 0.0, -1) for order in batch])
    bounded = rb.bounded(OWN.get(name, name), bound)
    np.testing.assert_allclose(bounded(scores, *flat(batch)), expected, rtol=1e-9, atol=1e-12)
    if not graded:
        numbers = [math.nan if value is None else float(value) for each in known for value in each]
        n, p = [list(map(size, batch)) for size in (len, sum)]
        read_only = np.frombuffer(np.array(numbers, np.float64).tobytes())
        np.testing.assert_allclose(bounded.from_value(read_only, n, p), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", ["nDCG", "AP", "nRBP", "RR", "P@3"])
def test_every_bound_is_a_rising_map_of_each_lists_value(name: str, bound: str) -> None:
    """It depends on nothing but the list and its value, keeps undefined values, and is NaN or finite elsewhere."""
    bounded, (relevance, offsets) = rb.bounded(name, bound), flat(GRADED[3:])
    scores = np.sin(np.arange(len(relevance)))
    alone = [
        bounded(scores[start:stop], relevance[start:stop], np.array([0, stop - start]))[0]
        for start, stop in pairwise(offsets)
    ]
    np.testing.assert_allclose(bounded(scores, relevance, offsets), alone, rtol=1e-12)
    assert np.isnan(bounded([0.1, 0.2], [0, 0], [0, 2])).all() or not np.isnan(rb.minimum(name, 2, 0))
    assert np.isnan(bounded.from_value([math.nan], 5, 2)).all()
    for n, p in MIXED:
        numbers = np.unique([float(value) for value in values(name, n, p)])  # type: ignore[arg-type]
        found = bounded.from_value(numbers, n, p)
        assert np.isfinite(found).all() or np.isnan(found).all()
        assert np.isnan(found).all() or (np.diff(found) > 0).all()


@pytest.mark.parametrize(
    "text", [*BOUNDS, *(f"distribution({of})" for of in ("gain=sd", "gain=drawn", "tilt=4", "gain=sd,tilt=0.5"))]
)
def test_a_bounds_text_is_its_name(text: str) -> None:
    bound = rb.bound(text)
    assert str(bound) == text
    assert rb.bound(str(bound)) == bound
    assert hash(rb.bound(text)) == hash(bound)
    assert rb.bound(bound) is bound
    assert rb.bound("distribution(gain=distinct)") == rb.bound("distribution")


test_wrong_bounds_are_refused_with_what_was_expected = refusals(
    [
        ("minmax", "Did you mean min-max"),
        ("expectation-min", "Did you mean expectation-max"),
        ("distrbution", "Did you mean distribution"),
        ("None", "known are none, min-max, expectation, expectation-max, distribution. Did you mean none"),
        ("", "expected a text such as min-max"),
        ("distribution(gain=max)", "gain=max, expected one of distinct, drawn, sd"),
        ("distribution(slope=sd)", "unknown parameter 'slope'; distribution takes: gain"),
        ("distribution(gain=sd)@3", "distribution takes no cut-off"),
        *((f"distribution(tilt={tilt})", "tilt=.*, expected a number above 0") for tilt in ("0", "-1", "inf", "nan")),
    ],
    rb.bound,
)


def test_facts_keep_the_distributions_that_their_lists_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    own = DistributionsOnDemand.distributions

    def counted(self: DistributionsOnDemand, profiles: list[Profile], *done: Any) -> list[ScoreDistribution]:
        computed.append(len(profiles))
        return own(self, profiles, *done)

    monkeypatch.setattr(DistributionsOnDemand, "distributions", counted)
    relevance, lists = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0, 0]), Lists.of_sizes([3, 3, 3])
    of = rb.bounded("AP", "distribution")
    facts = of.facts(relevance, lists)
    values = torch.tensor([1 / 3, 1.0, 0.5], dtype=torch.float64)
    first = of.of_value(values, facts)
    torch.testing.assert_close(first, torch.tensor([1 / 3, 1.0, 2 / 3], dtype=torch.float64))
    torch.testing.assert_close(of.of_value(values.flip(0), facts.select(torch.tensor([2, 1, 0]))), first.flip(0))
    assert sum(computed) == 2
