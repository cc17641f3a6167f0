"""Sums and multiples of losses are losses: values, gradients, Hessians, and what boosting and training make of them."""

import pytest
import torch
from torch.autograd.functional import hessian

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss

OFFSETS = torch.tensor([0, 4, 4, 5, 8])
SCORES = torch.tensor([0.3, -1.2, 2.0, 0.9, 1.0, 0.1, -0.4, 0.2], dtype=torch.float64)
RELEVANCE = torch.tensor([2, 0, 1, 0, 0, 0, 1, 0])
PAIRS = [("nDCG", "RankNet"), ("softmax", "hinge"), ("ListMLE", "LambdaRank"), ("AP", "squared")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_sum_is_the_sum_of_values_gradients_and_curvatures(first: str, second: str) -> None:
    one, other = rb.loss(first), rb.loss(second)
    both, lists = 0.7 * one + other * 0.3, Lists(OFFSETS)
    leaf = SCORES.clone().requires_grad_()
    expected = 0.7 * one(leaf, RELEVANCE, OFFSETS) + 0.3 * other(leaf, RELEVANCE, OFFSETS)
    found = both(leaf, RELEVANCE, OFFSETS)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(value.sum(), leaf)[0] for value in (found, expected)]
    torch.testing.assert_close(*slopes)
    full = hessian(lambda x: both(x, RELEVANCE, OFFSETS).sum(), SCORES)
    curvature = both.curvature(SCORES, RELEVANCE, lists)
    assert (curvature is None) == (first in ("nDCG", "AP")), "all terms have one, or the sum has none"
    if curvature is not None:
        torch.testing.assert_close(curvature, full.diagonal(), rtol=1e-6, atol=1e-9)
    either = one.informative(RELEVANCE, lists) | other.informative(RELEVANCE, lists)
    assert torch.equal(both.informative(RELEVANCE, lists), either)


def test_sums_are_flat_and_say_what_they_are() -> None:
    total = 2 * (rb.loss("nDCG", "min-max") + 0.5 * rb.loss("RankNet")) + rb.loss("ListNet")
    assert [factor for factor, _ in total.terms] == [2.0, 1.0, 1.0]
    assert total.text == "2 * SmoothLoss(nDCG, bound=min-max, temperature=1) + RankNet + ListNet@1"
    assert str(total).startswith("WeightedSum(")
    by_sum = sum([rb.loss("RankNet"), rb.loss("hinge"), 2 * rb.loss("softmax")])
    assert isinstance(by_sum, RankingLoss)
    assert by_sum.text == "RankNet + hinge + 2 * softmax"
    with pytest.raises(TypeError, match="unsupported operand"):
        1.5 + rb.loss("nDCG")  # type: ignore[operator]
    assert total.temperature == 1


def test_a_term_of_factor_0_informs_nothing() -> None:
    lists = Lists(OFFSETS)
    alone = rb.loss("nDCG")
    with_zero = alone + 0 * rb.loss("squared")
    assert torch.equal(with_zero.informative(RELEVANCE, lists), alone.informative(RELEVANCE, lists))
    assert not (0 * alone).informative(RELEVANCE, lists).any()


def test_parameters_of_terms_are_parameters_of_the_sum() -> None:
    total = rb.loss("nDCG") + rb.loss("ordinal(learn=true)")
    assert len(list(total.parameters())) == 2


@pytest.mark.parametrize("factor", [-1.0, float("inf"), float("nan")])
def test_factors_that_reverse_or_destroy_a_loss_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="expected losses with finite factors from 0"):
        factor * rb.loss("nDCG")


def test_other_things_are_not_added() -> None:
    for other in ("RankNet", None, torch.ones(1)):
        with pytest.raises(TypeError):
            rb.loss("nDCG") + other  # type: ignore[operator]
