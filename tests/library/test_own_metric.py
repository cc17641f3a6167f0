"""Metrics of one's own, nothing but functions of ranks.

Two that this library does not ship: a sum with another discount, and one that reads weights above, after bpref. They
have the properties of every metric, in `test_metrics`, of every bound, in `test_bounds`, of every distribution,
in `test_score_distribution`, and of every loss, in `test_loss_matrix`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import brute_force
import numpy as np
import pytest
import torch
from brute_force import Order, Value
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.ranks import Ranks


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


METRICS = {str(metric): metric for metric in (RootGain(), RootGain(cutoff=2), Bpref(), Bpref(rel=2))}


def of_order(metric: rb.Metric, order: Order) -> Value:
    if isinstance(metric, RootGain):
        ranks = range(1, len(order) + 1)
        return root_gain(order, ranks, [float(metric.cutoff is None or r <= metric.cutoff) for r in ranks])
    assert isinstance(metric, Bpref)
    return bpref(order, [sum(y < metric.rel for y in order[:i]) for i in range(len(order))], metric.rel)


ORACLES = brute_force.METRICS | {text: partial(of_order, metric) for text, metric in METRICS.items()}
"""The arithmetic of all metrics, the library's and those of one's own, of an order's grades."""


def of_scores(metric: rb.Metric, scores: np.ndarray, grades: Sequence[int]) -> float:
    above = 1 / (1 + np.exp(np.clip(scores[:, None] - scores[None, :], -700, 700)))
    np.fill_diagonal(above, 0)
    ranks = 1 + above.sum(1)
    if isinstance(metric, RootGain):
        within = np.ones_like(ranks) if metric.cutoff is None else 1 / (1 + np.exp(ranks - metric.cutoff - 0.5))
        return root_gain(grades, ranks.tolist(), within.tolist())
    assert isinstance(metric, Bpref)
    others = np.array(grades) < metric.rel
    value = bpref(grades, (above * others).sum(1).tolist(), metric.rel)
    return float(value)


@pytest.mark.parametrize("metric", METRICS.values(), ids=str)
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

    relevance, offsets = np.array([1, 0, 2, 0, 0, 0, 1, 2, 2, 1, 0, 0]), np.array([0, 4, 8, 12])
    means = rb.expectation(Counted(), relevance=relevance, offsets=offsets)
    assert means.tolist() == [means[0]] * 3
    # 12 orders, and the best and worst order of each list, between which the mean is.
    assert sum(calls) == 12 + 6
    for start, stop in pairwise(offsets):
        rb.expectation(Counted(), relevance=relevance[start:stop], offsets=np.array([0, stop - start]))
    assert sum(calls) == 12 + 12
