"""Extremes, expectations and the bounds against brute force over all orders; every bound has the properties of each."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from brute_force import Order, Value, binary_orders, graded_orders, mean
from drawn_arguments import PER_ROUND, ROUNDS, Drawn, Outcome, drawn, outcome, require_same
from test_own_metric import METRICS as OWN
from test_own_metric import ORACLES

import rankbound as rb
from rankbound.bounds.base import kinds
from rankbound.bounds.orders import Profile
from rankbound.bounds.score_distribution import ScoreDistribution
from rankbound.bounds.tables import DistributionsOnDemand
from rankbound.lists import Lists
from rankbound.metrics.base import values_of
from rankbound.ranks import n_orders, orders_of
from tests.library.refusals import problems, refusals

SIZES = [(n, p) for n in range(1, 9) for p in range(n + 1)]
ORIGIN_AND_UNIT: dict[str, Callable[[float, float, float], tuple[float, float]]] = {
    "none": lambda low, expected, high: (0.0, 1.0),
    "min-max": lambda low, expected, high: (low, high - low),
    "expectation": lambda low, expected, high: (0.0, expected),
    "expectation-max": lambda low, expected, high: (expected, high - expected),
}
"""The affine bounds, by the smallest, mean and largest value (thesis eqs. 3.1, 3.6, 3.11)."""

GRADED: list[Order] = [
    *((), (0,), (2,), (0, 0, 0), (0, 1, 2), (2, 2, 2), (3, 0, 0, 1)),
    *((1, 1, 0, 0, 1), (3, 1, 0, 2, 1), (0, 0, 1, 3, 2, 2), (4, 0, 0, 0, 0, 0, 1)),
]


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


@pytest.mark.parametrize("bound", kinds())
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
        assert np.isnan(bounded.from_value(math.nan, 5, 2))


@pytest.mark.parametrize(
    "text", [*kinds(), *(f"distribution({of})" for of in ("gain=sd", "gain=drawn", "tilt=4", "gain=sd,tilt=0.5"))]
)
def test_a_bounds_text_is_its_name(text: str) -> None:
    bound = rb.bound(text)
    assert str(bound) == text
    assert rb.bound(str(bound)) == bound
    assert hash(rb.bound(text)) == hash(bound)
    assert rb.bound(bound) is bound
    assert rb.bound("distribution(gain=distinct)") == rb.bound("distribution")


test_wrong_bounds_are_refused_with_what_was_expected = refusals(problems("texts of bounds"), rb.bound)


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


# Drawn arguments: each call has the values of all orders, in the ranges that these have, or refuses its arguments by an
# error of the library, whether compiled kernels are used or not
METRICS = (
    *("nDCG", "nDCG@3", "nDCG(gain=linear)", "nDCG(discount=log2(r))", "DCG", "DCG@2", "CG@3", "AP", "AP@3"),
    *("AP(rel=2)", "RR", "RR@2", "P@2", "Recall@3", "Hit@1", "Hit@3", "RBP(p=0.5)", "RBP(p=0.999999)", "RBP(p=0)"),
    *("nRBP", "nRBP(p=0.5)", "nRBP(p=0.99)", "nRBP(p=0)", "ERR(max=20)", "ERR(max=20)@2", "Rprec", "Kendall"),
    *("Kendall(weight=difference)", "PairAccuracy", "PairError", "PairError(norm=max)", "LinearDCG", "LinearNDCG"),
    *("IPrec(recall=0.3)", "Bpref", "infAP"),
)
UNNORMALISED = ("DCG", "CG", "LinearDCG", "PairError")
BOUNDS = ("min-max", "expectation", "expectation-max")
MOST_ORDERS = 400

LENGTHS: tuple[Any, ...] = (1, 2, 3, 5, 7, 40, 1000, 10**6)
ODD_COUNTS: tuple[Any, ...] = (-1, 0, 2.0, 2.5, np.nan, np.inf, 2**31, 2**40, 2**63, 2**70, "5", None, True, [1, [2]])
FORMS: tuple[Callable[[Any], Any], ...] = (
    int,
    np.int64,
    lambda count: np.array(count),
    lambda count: np.array([count, count], dtype=np.int32),
    lambda count: [count],
    lambda count: torch.tensor([[count]]),
    lambda count: np.array([count], dtype=np.uint64)[::-1],
)


def kernels(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], context: object) -> Outcome:
    """Return the outcome of a call, which is the same without compiled kernels."""
    monkeypatch.delenv("RANKBOUND_FAST", raising=False)
    compiled = outcome(call)
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    require_same(compiled, outcome(call), context, relative=1e-12, absolute=1e-300)
    return compiled


def of_all_orders(metric: rb.Metric, grades: Sequence[float]) -> np.ndarray | None:
    """Return the metric of all distinct orders of one list; `None` if they are many."""
    kinds, counts = np.unique(grades, return_counts=True)
    number = n_orders(counts.tolist())
    if number > MOST_ORDERS:
        return None
    ranked = torch.from_numpy(kinds)[torch.tensor(orders_of(tuple(counts.tolist())))]
    scores = -torch.arange(len(grades), dtype=torch.float64).repeat(len(ranked))
    offsets = torch.arange(len(ranked) + 1) * len(grades)
    return np.asarray(values_of([metric], scores, ranked.reshape(-1), offsets)[str(metric)].numpy())


def longest(name: str) -> int:
    """Return the most items of a list; the mean of ERR takes a term for each pair of relevant items and depth."""
    return 1000 if name == "ERR(max=20)" else 10**6


def require_ranges(name: str, low: Any, mean: Any, high: Any, context: object) -> None:
    """Fail unless minimum <= mean <= maximum, in the metric's range, undefined alike, without a negative zero."""
    for value in (low, mean, high):
        assert (np.isnan(value) == np.isnan(low)).all(), context
        assert not np.signbit(value[~np.isnan(value)]).any(), context
    defined = ~np.isnan(low)
    assert (low[defined] <= mean[defined]).all(), (name, context)
    assert (mean[defined] <= high[defined]).all(), (name, context)
    if not name.startswith(UNNORMALISED) and name != "nRBP":
        assert (high[defined] <= 1).all(), (name, context)


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.filterwarnings("ignore:.*between 0 and 1|.*below 1")
def test_lists_have_the_extremes_and_means_of_all_orders(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, draw in enumerate(drawn(round_)):
        random = np.random.default_rng([round_, place, 1])
        for name in random.choice(METRICS, 2, replace=False):
            require_true_of_lists(str(name), str(random.choice(BOUNDS)), draw, monkeypatch)


def require_true_of_lists(name: str, bound: str, draw: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    context, metric = f"{name} {bound}; {draw}", rb.metric(name)

    def facts() -> dict[str, Any]:
        _, relevance, offsets = draw.passed()
        low, high = rb.extremes(name, relevance, offsets)
        mean = rb.expectation(name, relevance=relevance, offsets=offsets)
        return {"low": low, "high": high, "mean": mean}

    found = kernels(monkeypatch, facts, context)
    bounded = kernels(monkeypatch, lambda: rb.bounded(name, bound)(*draw.passed()), context)
    if found.error is not None:
        assert bounded.error is not None, context
        return
    low, high, mean = (found.values[key] for key in ("low", "high", "mean"))
    require_ranges(name, low, mean, high, context)
    if bounded.error is None:
        value = bounded.values[""]
        assert not (np.signbit(value) & (value == 0)).any(), context
        assert bound != "min-max" or ((value >= 0) & (value <= 1) | np.isnan(value)).all(), context
        assert bound != "expectation-max" or (np.isnan(value) | (value <= 1)).all(), context
    for t, (start, stop) in enumerate(pairwise(draw.offsets.astype(np.int64))):
        values = None if stop - start == 0 else of_all_orders(metric, draw.relevance[start:stop].astype(np.float64))
        if values is None:
            continue
        # The mean of ERR adds differences of products near 1, 2^-20 at least for `max=20`.
        close = {
            "rtol": 1e-9 if name.startswith("ERR") else 1e-11,
            "atol": 1e-13 * max(float(np.abs(values).max()), 0.0),
            "err_msg": context,
        }
        np.testing.assert_allclose([low[t], high[t], mean[t]], [values.min(), values.max(), values.mean()], **close)


@pytest.mark.parametrize("round_", ROUNDS)
def test_counts_of_any_form_have_values_in_range_or_are_refused(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in range(PER_ROUND):
        random = np.random.default_rng([round_, place, 2])
        name = str(random.choice(METRICS[:-3]))
        size = min(LENGTHS[random.integers(len(LENGTHS))], longest(name))
        counts = [size, int(random.choice([0, 1, size // 3, size]))]
        n, p = (FORMS[random.integers(len(FORMS))](count) for count in counts)
        if random.random() < 0.3:
            odd = ODD_COUNTS[random.integers(len(ODD_COUNTS))]
            n, p = (odd, p) if random.random() < 0.5 else (n, odd)
        context = f"{name} of {n!r}, {p!r}"

        def facts(name: str = name, n: Any = n, p: Any = p) -> dict[str, Any]:
            low, high = rb.minimum(name, n, p), rb.maximum(name, n, p)
            bounded = {bound: rb.bounded(name, bound).from_value(high, n, p) for bound in BOUNDS}
            return {"low": low, "high": high, "mean": rb.expectation(name, n, p), **bounded}

        found = kernels(monkeypatch, facts, context)
        if found.error is None:
            low, high, mean = (np.atleast_1d(found.values[key]) for key in ("low", "high", "mean"))
            require_ranges(name, low, mean, high, context)
            min_max = found.values["min-max"]
            assert ((min_max == 1) | np.isnan(min_max)).all(), context
        else:
            assert found.error.startswith("ValueError: n"), found.error


ODD_OPTIONS: tuple[dict[str, Any], ...] = (
    *({"samples": samples} for samples in (0, -1, 10**15, 1)),
    *({"seed": seed} for seed in (-1, 2**70)),
    *({"tilt": tilt} for tilt in (0.0, np.nan, 4.0, np.inf)),
    {"method": "other"},
)


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.filterwarnings("ignore:.*between 0 and 1|.*below 1")
def test_distributions_ascend_in_range_or_are_refused(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, draw in enumerate(drawn(round_)):
        random = np.random.default_rng([round_, place, 3])
        name, grades = str(random.choice(METRICS)), draw.passed()[1]
        options: dict[str, Any] = {"samples": 200, "method": str(random.choice(["auto", "sampled"]))}
        if random.random() < 0.2:
            options |= ODD_OPTIONS[random.integers(len(ODD_OPTIONS))]
        context = f"{name} {options} of {draw.relevance.tolist()}"

        def facts(name: str = name, grades: Any = grades, options: Any = options) -> dict[str, Any]:
            found = rb.score_distribution(name, relevance=grades, **options)
            require_distribution(found)
            binned = found.binned()
            assert binned.cdf(binned.maximum) == 1.0 or np.isnan(binned.maximum)
            ends = np.array([found.minimum, found.expectation, found.maximum, found.error])
            return {"cdf": found.cdf(found.support), "support": found.support, "ends": ends}

        kernels(monkeypatch, facts, context)


def require_distribution(found: rb.ScoreDistribution) -> None:
    """Fail unless the scores ascend between the extremes, and the CDF from 0 to 1, with the probabilities' sum 1."""
    context = f"{found.metric} of {found.profile}, tilt {found.tilt}"
    if np.isnan(found.support).any():
        assert np.isnan([found.minimum, found.maximum, *found.support]).all(), context
        return
    assert (np.diff(found.support) > 0).all(), context
    assert found.minimum <= found.support[0], context
    assert found.support[-1] <= found.maximum, context
    assert found.probability.min() >= 0, context
    assert found.probability.sum() == pytest.approx(1, abs=1e-9), context
    x = np.sort(np.concatenate([found.support[:: max(1, len(found.support) // 500)], [-np.inf, found.minimum, np.inf]]))
    cdf = found.cdf(x)
    assert (np.diff(cdf) >= 0).all(), context
    assert (cdf[0], found.cdf(found.maximum), cdf[-1]) == (0.0, 1.0, 1.0), context
    assert found.error >= 0, context


LONG = [(10**6, 1000), (10**6, 10**6), (10**6, 1), (10**6 - 1, 0), (4096, 4095), (33, 33), (7, 7), (3, 3)]


@pytest.mark.parametrize("name", METRICS[:-3])
def test_long_lists_stay_in_range(name: str) -> None:
    n, p = np.array([pair for pair in LONG if pair[0] <= longest(name)]).T
    low, high, mean = rb.minimum(name, n, p), rb.maximum(name, n, p), rb.expectation(name, n, p)
    require_ranges(name, low, mean, high, name)
    for bound, least in (("min-max", 0), ("expectation", 0), ("expectation-max", -np.inf)):
        for value in (low, mean, high):
            bounded = rb.bounded(name, bound).from_value(value, n, p)
            assert ((bounded >= least) | np.isnan(bounded)).all()
            assert ((bounded <= 1) | np.isnan(bounded) | (bound == "expectation")).all()
            assert not (np.signbit(bounded) & (bounded == 0)).any()
