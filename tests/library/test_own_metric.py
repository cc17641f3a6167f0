"""A metric of one's own, nothing but a function of ranks: evaluation, all bounds and all losses against brute force.

Two that this library does not ship: a sum with another discount, and one that reads weights above, after bpref. They
have the properties of every metric, too, in `test_metric_matrix.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from brute_force import Order, Value, binary_orders, distribution, graded_orders, mean
from test_every_loss import Row, loss_and_gradient
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.ranks import Ranks

BOUNDS = ("none", "min-max", "expectation", "expectation-max", "distribution")
SIZES = [(n, p) for n in range(1, 7) for p in range(n + 1)]


@dataclass(frozen=True, kw_only=True)
class RootGain(rb.Metric):
    """Grades over the square roots of the ranks, down to a cut-off."""

    name: ClassVar[str] = "RootGain"

    cutoff: int | None = None

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.sum(relevance / ranks.position.sqrt() * ranks.within(self.cutoff))


@dataclass(frozen=True, kw_only=True)
class Bpref(rb.Metric):
    """The mean over the relevant items of 1 - (other items above) / min(P, N - P), at least 0."""

    name: ClassVar[str] = "OwnBpref"
    uses_grades: ClassVar[bool] = False

    rel: int = 1

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (~self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        p = lists.sum(relevant)
        most = torch.minimum(p, ranks.sizes - p).clamp(min=1)
        terms = (1 - ranks.above[0] / lists.spread(most)).clamp(min=0) * relevant
        return lists.sum(terms) / torch.where(p == 0, torch.nan, p)


def root_gain(order: Sequence[int], ranks: Sequence[float], within: Sequence[float]) -> float:
    return math.fsum(y / math.sqrt(r) * w for y, r, w in zip(order, ranks, within, strict=True))


def bpref(order: Sequence[int], others_above: Sequence[float], rel: int) -> Value:
    p = sum(y >= rel for y in order)
    most = max(1, min(p, len(order) - p))
    terms = [max(0.0, 1 - above / most) for y, above in zip(order, others_above, strict=True) if y >= rel]
    return math.fsum(terms) / p if p else None


METRICS = (RootGain(), RootGain(cutoff=2), Bpref(), Bpref(rel=2))


def of_order(metric: rb.Metric, order: Order) -> Value:
    if isinstance(metric, RootGain):
        ranks = range(1, len(order) + 1)
        return root_gain(order, ranks, [float(metric.cutoff is None or r <= metric.cutoff) for r in ranks])
    assert isinstance(metric, Bpref)
    return bpref(order, [sum(y < metric.rel for y in order[:i]) for i in range(len(order))], metric.rel)


def of_scores(metric: rb.Metric, scores: np.ndarray, grades: Sequence[int]) -> float:
    """The metric with smooth ranks in the place of ranks."""
    above = 1 / (1 + np.exp(scores[:, None] - scores[None, :]))
    np.fill_diagonal(above, 0)
    ranks = 1 + above.sum(1)
    if isinstance(metric, RootGain):
        within = np.ones_like(ranks) if metric.cutoff is None else 1 / (1 + np.exp(ranks - metric.cutoff - 0.5))
        return root_gain(grades, ranks.tolist(), within.tolist())
    assert isinstance(metric, Bpref)
    others = np.array(grades) < metric.rel
    value = bpref(grades, (above * others).sum(1).tolist(), metric.rel)
    assert value is not None
    return float(value)


def bounded(bound: str, value: float, known: Sequence[Value], smooth: bool = False) -> float:
    """Thesis eqs. 3.1, 3.6, 3.11 and 3.12, NaN where one divides by 0."""
    values = [float(one) for one in known]  # type: ignore[arg-type]
    low, high, expected = min(values), max(values), mean(values)
    if bound == "none":
        return value
    if bound == "distribution":
        if not smooth:
            return sum(one <= value + 1e-12 for one in values) / len(values)
        if high - low < 1e-9:
            return math.nan
        support, chance = np.array([[s, float(c)] for s, c in distribution(values)]).T
        gain = len(support) / (support[-1] - support[0])
        return float(chance @ (1 / (1 + np.exp(np.clip(-gain * (value - support), -700, 700)))))
    origin = {"min-max": low, "expectation": 0.0, "expectation-max": expected}[bound]
    unit = {"min-max": high - low, "expectation": expected, "expectation-max": high - expected}[bound]
    return (value - origin) / unit if abs(unit) > 1e-9 else math.nan


def flat(lists: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    return np.array([y for grades in lists for y in grades]), np.cumsum([0, *map(len, lists)])


every_metric = pytest.mark.parametrize("metric", METRICS, ids=str)


@every_metric
def test_ties_of_long_lists_do_not_depend_on_rows_or_other_lists(metric: rb.Metric) -> None:
    generator = np.random.default_rng(0)
    sizes = (40, 3, 0, 120)
    lists = [(generator.integers(0, 3, n).astype(float), generator.integers(0, 3, n)) for n in sizes]
    scores, grades = (np.concatenate(columns) for columns in zip(*lists, strict=True))
    found = metric(scores, grades, np.cumsum([0, *sizes]))
    for value, (own_scores, own_grades) in zip(found, lists, strict=True):
        rows = generator.permutation(len(own_grades))
        alone = metric(own_scores[rows], own_grades[rows], np.array([0, len(rows)]))[0]
        assert alone == value or (math.isnan(alone) and math.isnan(value))


@every_metric
def test_distribution_of_every_short_list(metric: rb.Metric) -> None:
    for n, p in SIZES:
        known = [of_order(metric, tuple(getattr(metric, "rel", 1) * y for y in order)) for order in binary_orders(n, p)]
        one = rb.score_distribution(metric, n, p)
        if None in known:
            assert np.isnan([one.minimum, *one.support]).all()
            continue
        numbers = [float(value) for value in known]  # type: ignore[arg-type]
        expected = [min(numbers), max(numbers), mean(numbers)]
        np.testing.assert_allclose([one.minimum, one.maximum, one.expectation], expected, rtol=1e-12, atol=1e-12)
        support, chance = np.array([[s, float(c)] for s, c in distribution(numbers)]).T
        np.testing.assert_allclose(one.cdf(support), np.cumsum(chance), atol=1e-12)


@every_metric
@pytest.mark.parametrize("bound", BOUNDS)
def test_bounded_values_of_all_orders(metric: rb.Metric, bound: str) -> None:
    """Binary and graded lists in one batch."""
    lists = [(0, 1, 1), (1, 0, 0, 0), (2, 0, 1, 1), (3, 0, 2), (2, 2, 0, 0), (4, 3, 2, 1, 0), (1, 1), (2,)]
    orders = [graded_orders(grades) for grades in lists]
    batch = [order for each in orders for order in each]
    known = [[of_order(metric, order) for order in each] for each in orders]
    expected = [math.nan if value is None else bounded(bound, float(value), each) for each in known for value in each]
    scores = np.concatenate([-np.arange(float(len(order))) for order in batch])
    np.testing.assert_allclose(rb.bounded(metric, bound)(scores, *flat(batch)), expected, rtol=1e-9, atol=1e-12)


ROWS: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [0, 2, 0, 2]),
    ([0.1, 0.5, 0.2, -0.4, 1.0], [2, 0, 3, 0, 0]),
    ([0.7, -0.1, 0.4], [2, 0, 0]),
]
EMPTY: list[Row] = [([], []), ([1.0, 2.0], [0, 0]), ([0.5], [2]), ([1.0, 1.0], [2, 2])]


@every_metric
@pytest.mark.parametrize("bound", BOUNDS)
def test_losses_are_the_written_out_arithmetic_with_its_gradient(metric: rb.Metric, bound: str) -> None:
    def written_out(scores: np.ndarray, grades: list[int]) -> float:
        known = [of_order(metric, order) for order in graded_orders(grades)]
        return -bounded(bound, of_scores(metric, scores, grades), known, smooth=True)

    values, gradient = loss_and_gradient(rb.SmoothLoss(metric, bound), [*ROWS, *EMPTY])
    expected = [written_out(np.array(scores), grades) for scores, grades in ROWS]
    np.testing.assert_allclose(values[: len(ROWS)], expected, rtol=1e-7)
    step = 1e-6
    slopes = [
        (written_out(np.array(scores) + move, grades) - written_out(np.array(scores) - move, grades)) / (2 * step)
        for scores, grades in ROWS
        for move in step * np.eye(len(scores))
    ]
    np.testing.assert_allclose(gradient[: len(slopes)], slopes, rtol=1e-4, atol=1e-7)


@every_metric
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_of_a_batch_are_those_of_its_lists(metric: rb.Metric, bound: str, dtype: torch.dtype) -> None:
    loss = rb.SmoothLoss(metric, bound)
    rows = [*EMPTY, *ROWS, ([1e4, -1e4, 0.0], [0, 2, 2]), *EMPTY]
    values, gradient = loss_and_gradient(loss, rows, dtype)
    alone = [loss_and_gradient(loss, [row], dtype) for row in rows]
    torch.testing.assert_close(values, torch.cat([value for value, _ in alone]))
    torch.testing.assert_close(gradient, torch.cat([own for _, own in alone]))
    if bound != "none":
        assert values[: len(EMPTY)].tolist() == [0] * len(EMPTY)


@pytest.mark.parametrize("metric", [Bpref(), RootGain()], ids=str)
def test_longer_lists_have_sampled_distributions_and_means(metric: rb.Metric) -> None:
    n, p, samples = 30, 10, 20_000
    with pytest.raises(
        ValueError, match=rf"^method: found exact for the distribution of {metric} over 30 items with 10"
    ):
        rb.score_distribution(metric, n, p)
    one = rb.score_distribution(metric, n, p, method="auto", samples=samples)
    assert one.samples == samples
    assert one.count == len(one.support)
    assert one.minimum == rb.minimum(metric, n, p) <= one.low
    assert one.maximum == rb.maximum(metric, n, p) >= one.high
    assert one.expectation == rb.expectation(metric, n, p)
    # Two independent samples: of the orders here, and of those behind the mean.
    assert one.probability @ one.support == pytest.approx(one.expectation, abs=5 * one.sd * (2 / samples) ** 0.5)


def test_a_mean_is_computed_once_per_sort_of_list() -> None:
    calls = []

    @dataclass(frozen=True, kw_only=True)
    class Counted(RootGain):
        name: ClassVar[str] = "Counted"

        def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
            calls.append(len(lists))
            return super().of_ranks(ranks, relevance, lists)

    relevance, offsets = flat([(1, 0, 2, 0), (0, 0, 1, 2), (2, 1, 0, 0)])
    means = rb.expectation(Counted(), relevance=relevance, offsets=offsets)
    assert means.tolist() == [means[0]] * 3
    # 12 orders, and the best and worst order of each list, between which the mean is.
    assert sum(calls) == 12 + 6
    for start, stop in pairwise(offsets):
        rb.expectation(Counted(), relevance=relevance[start:stop], offsets=np.array([0, stop - start]))
    assert sum(calls) == 12 + 12
