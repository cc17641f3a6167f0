"""Second derivatives of every loss by autograd: Hessians, products with them, and penalties of the gradient."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.nn import functional

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS
from rankbound.losses.base import RankingLoss
from rankbound.ranks import Ranks

SIZES = [8, 0, 1, 5, 3]
OFFSETS = torch.tensor([0, *SIZES]).cumsum(0)
METRICS = ["nDCG", "nDCG@3", "nDCG(gain=linear,discount=log2(r))", "DCG", "AP", "RR", "P@3", "RBP(p=0.8)", "nRBP"]
METRICS += ["ERR(max=2)", "Kendall", "PairAccuracy", "LinearNDCG"]
BOUNDS = ["none", "min-max", "expectation-max", "distribution(gain=sd)"]
METHODS = ["direct", "interpolated"]


@dataclass(frozen=True, kw_only=True)
class GeometricMean(rb.Metric):
    """The mean of reciprocal ranks, geometric: its second derivatives couple the ranks of any two relevant items."""

    name: ClassVar[str] = "GeometricMean"

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = (relevance > 0).to(ranks.position)
        return torch.exp(-lists.sum(relevant * torch.log(ranks.position)) / lists.sum(relevant))


def batch(name: str = "") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(sum(SIZES), generator=generator, dtype=torch.float64)
    relevance = torch.randint(0, 3, (sum(SIZES),), generator=generator)
    relevance[[0, 9]] = 2
    if name == "multinomial":
        relevance.zero_()[[0, 9]] = 1
    return scores, relevance


def losses() -> list[tuple[str, RankingLoss]]:
    smooth = [
        (f"{name} {bound} {method}", rb.SmoothLoss(name, bound, method=method))
        for name in METRICS
        for bound in BOUNDS
        for method in METHODS
        if not (bound.startswith("distribution") and name not in ("nDCG", "AP", "nRBP"))
    ]
    links = [
        (f"{name} {method}", KINDS[name](method=method)) for name in ("RankNet", "DirectRanker") for method in METHODS
    ]
    weighted = [(f"{name} differences", KINDS[name](weight="difference")) for name in ("RankNet", "hinge")]
    others = [(name, rb.loss(name)) for name in KINDS if name not in ("RankNet", "DirectRanker")]
    return [
        *smooth,
        *links,
        *weighted,
        *others,
        ("ListNet@2", rb.loss("ListNet@2")),
        ("ListMLE@2", rb.loss("ListMLE@2")),
        *((f"one's own {method}", rb.SmoothLoss(GeometricMean(), method=method)) for method in METHODS),
    ]


LOSSES = dict(losses())
# Constant weights from the current ranks: differences of their gradients see the weights change.
WEIGHED_BY_RANKS = ("LambdaRank", "LambdaLoss", "WARP")


def close(name: str) -> float:
    """The tolerated error as a share of the largest entry; interpolation's grows with the metric's own curvature."""
    return 1e-5 if name.endswith("interpolated") else 1e-6


def relevance_of(loss: RankingLoss, name: str) -> tuple[Tensor, Tensor]:
    scores, relevance = batch(name)
    return scores, relevance.clamp(max=1) if "distribution" in name else relevance


@pytest.mark.parametrize("name", LOSSES)
def test_autograd_of_the_gradient_agrees_with_differences(name: str) -> None:
    loss = LOSSES[name]
    scores, relevance = relevance_of(loss, name)
    direction = torch.cos(torch.arange(len(scores), dtype=torch.float64))
    weights = torch.tensor([1.0, 3.0, 0.5, 2.0, 0.7], dtype=torch.float64)

    def gradient(at: Tensor, create_graph: bool = False) -> Tensor:
        total = (weights * loss(at, relevance, OFFSETS)).sum()
        return torch.autograd.grad(total, at, create_graph=create_graph)[0]

    leaf = scores.clone().requires_grad_()
    (found,) = torch.autograd.grad(gradient(leaf, create_graph=True) @ direction, leaf)
    if any(name.startswith(one) for one in WEIGHED_BY_RANKS):
        lists = Lists(OFFSETS)
        curvature = loss.curvature(scores, relevance, lists)
        assert curvature is not None
        ones = torch.zeros_like(scores).index_fill(0, torch.tensor([2]), 1.0)
        leaf = scores.clone().requires_grad_()
        (column,) = torch.autograd.grad(gradient(leaf, create_graph=True) @ ones, leaf)
        torch.testing.assert_close(column[2], (curvature * lists.spread(weights))[2])
        torch.testing.assert_close(column.sum(), torch.zeros((), dtype=torch.float64), rtol=0, atol=1e-12)
        return
    step = 1e-4
    above, below = (gradient((scores + move * direction).requires_grad_()) for move in (step, -step))
    expected = (above - below) / (2 * step)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=close(name) * float(expected.abs().max()) + 1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_hessians_are_symmetric_and_their_diagonal_is_the_curvature(name: str) -> None:
    loss = LOSSES[name]
    scores, relevance = relevance_of(loss, name)
    found = hessian(lambda x: loss(x, relevance, OFFSETS).sum(), scores)
    torch.testing.assert_close(found, found.T, rtol=1e-6, atol=close(name) * float(found.abs().max()) + 1e-12)
    curvature = loss.curvature(scores, relevance, Lists(OFFSETS))
    assert (curvature is None) == (name in ("ADR-MSE", "ListNet@2") or isinstance(loss, rb.SmoothLoss))
    if curvature is not None:
        torch.testing.assert_close(
            found.diagonal(), curvature, rtol=1e-6, atol=close(name) * float(curvature.abs().max()) + 1e-12
        )
    if name not in ("hinge", "hinge differences", "WARP"):
        assert found.abs().max() > 1e-4, "zeros would agree with nothing"


def test_a_penalty_of_the_gradient_is_that_of_plain_torch() -> None:
    scores, relevance = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64), torch.tensor([1, 0, 0])

    def penalised(loss: object) -> Tensor:
        leaf = scores.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)  # type: ignore[operator]
        return torch.autograd.grad(10 * slope.square().sum(), leaf)[0]

    plain = penalised(lambda x: functional.cross_entropy(x[None], torch.tensor([0])))
    assert plain.abs().min() > 1e-3
    for name in ("softmax", "multinomial"):
        found = penalised(lambda x, name=name: rb.loss(name)(x, relevance, torch.tensor([0, 3])).mean())
        torch.testing.assert_close(found, plain)


def test_single_precision_and_ties() -> None:
    scores, relevance = torch.zeros(sum(SIZES)), batch()[1]
    for name in ("nDCG", "RankNet", "softmax", "ListMLE", "LambdaRank"):
        found = hessian(lambda x, name=name: rb.loss(name)(x, relevance, OFFSETS).sum(), scores)
        exact = hessian(lambda x, name=name: rb.loss(name)(x, relevance, OFFSETS).sum(), scores.double())
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["nDCG@3", "AP", "RR"])
def test_ties_and_far_scores_have_finite_hessians(text: str, method: str) -> None:
    scores = torch.tensor([0.0, 0, 0, 0, 1e4, 0, -1e4, 3, 1e4, 1e4])
    relevance, offsets = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0, 0, 1]), torch.tensor([0, 4, 8, 10])
    for bound in ("none", "min-max"):
        loss = rb.SmoothLoss(text, bound, method=method)
        assert hessian(lambda x, loss=loss: loss(x, relevance, offsets).sum(), scores).isfinite().all()


def test_smooth_ranks_with_weights_and_temperatures() -> None:
    scores, relevance = batch()
    for method in METHODS:
        for temperature in (0.5, 2.0):

            def ranks(x: Tensor, method: str = method, temperature: float = temperature) -> Tensor:
                return rb.smooth_rank(x, OFFSETS, weights=relevance, temperature=temperature, method=method)

            at = scores.clone().requires_grad_()
            assert torch.autograd.gradgradcheck(ranks, at, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["nDCG", "RankNet", "softmax", "LambdaRank", "hinge", "nDCG distribution"])
def test_third_derivatives_are_refused_by_name(name: str) -> None:
    scores, relevance = batch()
    loss = rb.SmoothLoss("nDCG", "distribution(gain=sd)") if name.endswith("distribution") else rb.loss(name)
    leaf = scores.requires_grad_()
    (slope,) = torch.autograd.grad(loss(leaf, relevance.clamp(max=1), OFFSETS).sum(), leaf, create_graph=True)
    (bend,) = torch.autograd.grad(slope.square().sum(), leaf, create_graph=True)
    with pytest.raises(NotImplementedError, match="third derivatives of ranking losses"):
        torch.autograd.grad(bend.square().sum(), leaf)
