"""Extremes, means, bounded values and distributions of drawn arguments, against all orders of short lists.

Each call either has the values of brute force over the metric's own values, in the ranges that these have, or refuses
the arguments by an error of the library, whether compiled kernels are used or not.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from drawn_arguments import PER_ROUND, ROUNDS, Drawn, Outcome, drawn, outcome, require_same

import rankbound as rb
from rankbound.metrics.base import values_of
from rankbound.ranks import n_orders, orders_of

METRICS = (
    *("nDCG", "nDCG@3", "nDCG(gain=linear)", "nDCG(discount=log2(r))", "DCG", "DCG@2", "CG@3", "AP", "AP@3"),
    *("AP(rel=2)", "RR", "RR@2", "P@2", "Recall@3", "Hit@1", "Hit@3", "RBP(p=0.5)", "RBP(p=0.999999)", "RBP(p=0)"),
    *("nRBP", "nRBP(p=0.5)", "nRBP(p=0.99)", "nRBP(p=0)", "ERR(max=20)", "ERR(max=20)@2", "Rprec", "Kendall"),
    *("Kendall(weight=difference)", "PairAccuracy", "PairError", "PairError(norm=max)", "LinearDCG", "LinearNDCG"),
    *("IPrec(recall=0.3)", "Bpref", "infAP"),
)
UNNORMALISED = ("DCG", "CG", "LinearDCG", "PairError")
BOUNDS = ("min-max", "expectation", "expectation-max", "distribution")
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
        if bound in ("min-max", "distribution"):
            assert ((value >= 0) & (value <= 1) | np.isnan(value)).all(), context
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
            bounded = {bound: rb.bounded(name, bound).from_value(high, n, p) for bound in BOUNDS[:3]}
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


SIZES = [(1, 0), (1, 1), (2, 1), (5, 5), (7, 3), (13, 12), (14, 7), (60, 2), (60, 30)]


@pytest.mark.parametrize("name", METRICS)
def test_distributions_are_in_range_and_a_bound_where_all_orders_score_the_same(name: str) -> None:
    """It is 1, as M / E[M] is, where min-max and expectation-max are 0 / 0; NaN only where the metric is."""
    for (n, p), method in [*((size, "auto") for size in SIZES), ((30, 20), "sampled"), ((7, 3), "sampled")]:
        found = rb.score_distribution(name, n, p, method=method, samples=300)  # type: ignore[arg-type]
        require_distribution(found)
        binned = found.binned()
        assert binned.cdf(binned.maximum) == 1.0 or np.isnan(binned.maximum)
    lists = np.arange(6.0), np.array([1, 1, 1, 0, 1, 0]), np.array([0, 3, 4, 6])
    value, bounded = rb.metric(name)(*lists), rb.bounded(name, "distribution")(*lists)
    found = (rb.score_distribution(name, relevance=part) for part in np.split(lists[1], lists[2][1:-1]))
    np.testing.assert_allclose(bounded, [float(one.cdf(at)) for one, at in zip(found, value, strict=True)], rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(bounded), np.isnan(value))
    assert bounded[0] == 1 or np.isnan(value[0])
    for bound in ("min-max", "expectation-max"):
        assert np.isnan(rb.bounded(name, bound)(*lists)[0])


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


def test_small_gains_have_a_range() -> None:
    """Relevance of 1e-13: two orders differ by less than 1e-13, and by all that the list has."""
    scores, relevance, offsets = np.arange(6.0), np.array([1e-13, 0, 0, 0, 0, 0]), np.array([0, 6])
    for bound, expected in (("min-max", 0.0), ("distribution", 1 / 6)):
        assert rb.bounded("DCG", bound)(scores, relevance, offsets)[0] == pytest.approx(expected)
