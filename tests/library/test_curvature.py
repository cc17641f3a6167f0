"""A loss' curvature is its Hessian's diagonal: against autograd through written-out ranks, and against differences."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import pytest
import torch
from brute_force import METRICS, distribution, graded_orders, mean
from torch import Tensor
from torch.autograd.functional import hessian

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS
from rankbound.losses.base import RankingLoss
from rankbound.ranks import Ranks

AFFINE = ("none", "min-max", "expectation", "expectation-max")
BINARY = (
    "nDCG",
    "nDCG@3",
    "nDCG(discount=log2(r))",
    "DCG",
    "AP",
    "RR",
    "P@3",
    "Recall@3",
    "Hit@2",
    "RBP(p=0.8)",
    "ERR(max=1)",
)
BINARY += ("nRBP", "nRBP(p=0.8)", "LinearNDCG", "PairAccuracy")
GRADED = ("nDCG", "nDCG(gain=linear)@3", "AP(rel=2)", "ERR(max=3)", "LinearDCG", "PairError", "PairAccuracy", "Kendall")
GENERAL = [(name, bound, False) for name in BINARY for bound in AFFINE]
GENERAL += [(name, bound, True) for name in GRADED for bound in AFFINE]
METHODS = ("direct", "interpolated")
# WARP draws its weights anew at each call, so its gradient has no differences.
OTHERS = [name for name in KINDS if name != "WARP"]

SCORES = [0.3, -1.2, 2.0, 0.9, -0.4, 0.5, 1.4, 0.0]
BINARY_GRADES, GRADED_GRADES = [1, 0, 0, 1, 1, 0, 0, 0], [2, 0, 1, 3, 0, 0, 1, 0]

Function = Callable[[Tensor], Tensor]


def one_list(grades: list[int]) -> tuple[Tensor, Tensor, Lists]:
    return torch.tensor(SCORES, dtype=torch.float64), torch.tensor(grades), Lists(torch.tensor([0, len(SCORES)]))


def sigmoids(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """Entry (i, j): how much of item j stands above item i; nothing of itself."""
    return torch.sigmoid((scores[None, :] - scores[:, None]) / temperature) * (1 - torch.eye(len(scores)))


def written_out(metric: rb.Metric, grades: Tensor, temperature: float = 1.0) -> Function:
    """The metric of one list over ranks that are sums of a matrix of sigmoids, which autograd differentiates twice."""
    mask = metric.relevant(grades)
    lists = Lists(torch.tensor([0, int(mask.sum())]))
    weights = [weight.to(torch.float64) for weight in metric.rank_weights(grades)]

    def value(scores: Tensor) -> Tensor:
        above = sigmoids(scores, temperature)[mask]
        ranks = Ranks(
            1 + above.sum(1), torch.tensor([len(grades)]), tuple(above @ weight for weight in weights), temperature
        )
        return metric.of_ranks(ranks, grades[mask], lists).squeeze(0)

    return value


@pytest.mark.parametrize(("name", "bound", "graded"), GENERAL)
@pytest.mark.parametrize("method", METHODS)
def test_every_metric_and_affine_bound(name: str, bound: str, graded: bool, method: str) -> None:
    scores, grades, lists = one_list(GRADED_GRADES if graded else BINARY_GRADES)
    metric = rb.metric(name)
    value, known = written_out(metric, grades), values_of_orders(name, tuple(grades.tolist()))
    low, high, expected_value = min(known), max(known), mean(known)
    unit = {
        "none": 1.0,
        "min-max": high - low,
        "expectation": expected_value,
        "expectation-max": high - expected_value,
    }[bound]
    sign = -1 if metric.higher_is_better else 1

    def loss(x: Tensor) -> Tensor:
        return sign * value(x) / unit

    expected = hessian(loss, scores).diagonal()
    found = rb.SmoothLoss(name, bound, method=method).curvature(scores, grades, lists)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()) + 1e-12)


@cache
def values_of_orders(name: str, grades: tuple[int, ...]) -> list[float]:
    metric, orders = METRICS.get(name), graded_orders(grades)
    if metric is not None:
        return [float(metric(order)) for order in orders]  # type: ignore[arg-type]
    # What the table of written-out metrics lacks, over hard ranks.
    flat, offsets = torch.tensor(orders).flatten(), torch.arange(len(orders) + 1) * len(grades)
    values: Tensor = rb.metric(name)(-torch.arange(len(grades)).repeat(len(orders)).double(), flat, offsets)
    return values.tolist()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("method", METHODS)
def test_written_out_ndcg_and_average_precision(temperature: float, method: str) -> None:
    scores, grades, lists = one_list(BINARY_GRADES)
    relevant, ideal = grades.to(torch.float64), sum(1 / math.log2(rank + 1) for rank in (1, 2, 3))

    def ndcg(x: Tensor) -> Tensor:
        return -(relevant / torch.log2(sigmoids(x, temperature).sum(1) + 2)).sum() / ideal

    def average_precision(x: Tensor) -> Tensor:
        above = sigmoids(x, temperature)
        return -(relevant * (1 + above @ relevant) / (1 + above.sum(1))).sum() / 3

    for name, formula in (("nDCG", ndcg), ("AP", average_precision)):
        loss = rb.SmoothLoss(name, temperature=temperature, method=method)
        expected = hessian(formula, scores).diagonal()
        torch.testing.assert_close(loss.curvature(scores, grades, lists), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["nDCG", "AP", "nRBP"])
@pytest.mark.parametrize("gain", ["distinct", "sd"])
def test_distribution_bound(name: str, gain: str) -> None:
    """The smooth distribution function of algorithm 2, from the scores of all orders."""
    scores, grades, lists = one_list(BINARY_GRADES)
    value = written_out(rb.metric(name), grades)
    known = [METRICS[name](order) for order in graded_orders(BINARY_GRADES)]
    support, chance = torch.tensor([[float(s), float(c)] for s, c in distribution(known)], dtype=torch.float64).T
    deviation = float(((support - mean(known)) ** 2 @ chance).sqrt())  # type: ignore[type-var]
    steepness = len(support) / float(support[-1] - support[0]) if gain == "distinct" else 1 / deviation
    sign = 1 if name == "nRBP" else -1

    def loss(x: Tensor) -> Tensor:
        return sign * chance @ torch.sigmoid(steepness * (value(x) - support))

    expected = hessian(loss, scores).diagonal()
    found = rb.SmoothLoss(name, f"distribution(gain={gain})").curvature(scores, grades, lists)
    # Entries of the tables closer than a fifth of the kernel's width are merged.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_distribution_bound_of_binned_tables() -> None:
    """Too many orders to list: the curvature against differences of the gradient."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(60, generator=generator, dtype=torch.float64)
    grades, lists = (torch.arange(60) % 4 == 0).long(), Lists(torch.tensor([0, 60]))
    for name in ("nDCG", "nRBP"):
        loss = rb.SmoothLoss(name, "distribution(gain=sd)")
        expected = by_differences(loss, scores, grades, lists)
        found = loss.curvature(scores, grades, lists)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_loss_against_differences_of_its_gradient(name: str) -> None:
    loss = rb.loss(name)
    scores, grades, lists = ragged()
    if name == "multinomial":  # one relevant item a list
        grades = grades * (lists.running_sum(grades) == 1)
    expected = by_differences(loss, scores, grades, lists)
    torch.testing.assert_close(loss.curvature(scores, grades, lists), expected, rtol=1e-5, atol=1e-6)


def by_differences(loss: RankingLoss, scores: Tensor, grades: Tensor, lists: Lists, step: float = 1e-4) -> Tensor:
    """Central differences of the gradient, one place of all lists at a time."""
    result = torch.zeros_like(scores)
    for place in range(int(lists.sizes.max())):
        here = (lists.position == place).to(scores)
        slopes = []
        for move in (step, -step):
            leaf = (scores + move * here).requires_grad_()
            slopes.append(torch.autograd.grad(loss.of_lists(leaf, grades, lists).sum(), leaf)[0])
        result += here * (slopes[0] - slopes[1]) / (2 * step)
    return result


def ragged(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Lists]:
    """Lists of several sizes, among them empty, one-item, all-relevant and irrelevant ones."""
    sizes = [8, 0, 1, 5, 3, 1, 6, 0]
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(sum(sizes), generator=generator, dtype=dtype)
    grades = (torch.rand(sum(sizes), generator=generator) < 0.4).long()
    lists = Lists(torch.tensor([0, *sizes]).cumsum(0))
    grades[lists.segment == 3], grades[lists.segment == 4] = 1, 0
    grades[0], grades[lists.segment == 5] = 1, 1
    return scores, grades, lists


@pytest.mark.parametrize("bound", ["none", "min-max", "distribution(gain=sd)"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ragged_is_one_by_one_and_nothing_where_there_is_nothing_to_learn(
    bound: str, method: str, dtype: torch.dtype
) -> None:
    scores, grades, lists = ragged(dtype)
    loss = rb.SmoothLoss("nDCG", bound, method=method)
    found = loss.curvature(scores, grades, lists)
    assert found.dtype == dtype
    alone = [
        loss.curvature(scores[own], grades[own], Lists(torch.tensor([0, own.stop - own.start]))) for own in lists.each()
    ]
    torch.testing.assert_close(found, torch.cat(alone), rtol=1e-5, atol=1e-8)
    idle = lists.spread(~loss.informative(grades, lists) | (lists.sizes == 1))
    assert idle.sum() == (10 if bound != "none" else 5)
    assert found[idle].eq(0).all()
    assert found[~idle].ne(0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["nDCG@3", "AP", "RR"])
def test_ties_and_far_scores_are_finite(name: str, method: str) -> None:
    scores = torch.tensor([0.0, 0, 0, 0, 1e4, 0, -1e4, 3, 1e4, 1e4])
    grades, lists = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0, 0, 1]), Lists(torch.tensor([0, 4, 8, 10]))
    for bound in ("none", "min-max"):
        assert rb.SmoothLoss(name, bound, method=method).curvature(scores, grades, lists).isfinite().all()


def test_no_lists_have_no_curvature() -> None:
    nothing = torch.zeros(0)
    for loss in (rb.SmoothLoss("AP", "min-max"), Product()):
        found = loss.curvature(nothing, nothing.long(), Lists(torch.tensor([0])))
        assert found.shape == (0,)


@dataclass(frozen=True, kw_only=True)
class GeometricMean(rb.Metric):
    """The mean of reciprocal ranks, geometric: its second derivatives couple the ranks of any two relevant items."""

    name: ClassVar[str] = "GeometricMean"

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = (relevance > 0).to(ranks.position)
        return torch.exp(-lists.sum(relevant * torch.log(ranks.position)) / lists.sum(relevant))


@pytest.mark.parametrize("method", METHODS)
def test_a_metric_that_couples_ranks_of_different_items(method: str) -> None:
    scores, grades, _ = one_list(BINARY_GRADES)
    expected = hessian(lambda x: -written_out(GeometricMean(), grades)(x), scores).diagonal()
    loss = rb.SmoothLoss(GeometricMean(), method=method)
    several = Lists(torch.tensor([0, 8, 8, 11, 19]))
    between = torch.tensor([0.5, 0.1, 0.2], dtype=torch.float64)
    found = loss.curvature(
        torch.cat([scores, between, scores]), torch.cat([grades, torch.tensor([0, 0, 0]), grades]), several
    )
    torch.testing.assert_close(found, torch.cat([expected, 0 * between, expected]), rtol=1e-6, atol=1e-8)


class Product(RankingLoss):
    """A user's own loss: the relevant items' mean score times minus the list's hardest comparison."""

    text = "product"

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = (relevance > 0).to(scores)
        mean_score = lists.sum(relevant * scores) / lists.sum(relevant).clamp(min=1)
        top = torch.where(lists.sizes > 0, lists.max(scores.square() * (1 - relevant)), 0.0)
        return torch.where(self.informative(relevance, lists), -mean_score * torch.sigmoid(top), 0.0)


def test_a_users_own_loss_is_differentiated_twice() -> None:
    scores, grades, lists = ragged()
    loss = Product()
    expected = by_differences(loss, scores, grades, lists)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(loss.curvature(scores, grades, lists), expected, rtol=1e-5, atol=1e-6)


def test_extremes_of_differentiable_lists_share_the_gradient() -> None:
    lists = Lists(torch.tensor([0, 3, 3, 5]))
    values = torch.tensor([1.0, 4.0, 4.0, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
    assert lists.max(values).tolist() == [4.0, -math.inf, 2.0]
    assert lists.min(values).tolist() == [1.0, math.inf, 0.0]
    (slope,) = torch.autograd.grad((lists.max(values)[[0, 2]] ** 2).sum(), values)
    assert slope.tolist() == [0.0, 4.0, 4.0, 4.0, 0.0]
    assert torch.autograd.gradgradcheck(lambda x: lists.sum(x**3), values)
