"""Weights of items: linear in sums over items, gains in metrics of gains, refused elsewhere; unbiased from clicks."""

from itertools import permutations, product

import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses.base import ItemSum

OFFSETS = torch.tensor([0, 5, 5, 6, 12])
SCORES = torch.tensor([0.3, -1.2, 2.0, 0.9, 0.9, 1.0, 0.1, -0.4, 0.2, 0.5, 0.6, -2.0], dtype=torch.float64)
GRADES = torch.tensor([2, 0, 1, 0, 1, 1, 0, 2, 2, 0, 1, 0])
BINARY = torch.tensor([0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0])
WEIGHTS = torch.tensor([0.5, 3.0, 2.0, 0.0, 1.5, 4.0, 1.0, 0.25, 2.5, 7.0, 1.0, 0.1], dtype=torch.float64)
SUMS = [
    *("squared", "squared(reduction=sum)", "logistic", "ordinal", "softmax", "softmax(gain=exp2)", "multinomial"),
    *(
        "ListNet",
        "ListMLE",
        "ListMLE@2",
        "ADR-MSE",
        "WARP",
        "WARP@1",
        "hinge",
        "hinge(weight=difference)",
        "DirectRanker",
    ),
    *("RankNet", "RankNet(weight=difference, reduction=sum)", "RankNet(method=interpolated)"),
]
OF_GAINS = [
    *("nDCG", "nDCG@3", "DCG(gain=linear)", "CG@2", "LambdaRank", "LambdaRank(metric=DCG(gain=linear))"),
    *("LambdaLoss(scheme=ndcg-loss1)", "LambdaLoss(scheme=ndcg-loss2)", "LambdaLoss"),
]
BOUNDS = ["none", "min-max", "expectation", "expectation-max", "distribution"]


def grades_for(name: str) -> Tensor:
    return BINARY if name == "multinomial" else GRADES


@pytest.mark.parametrize("name", [*SUMS, *OF_GAINS])
def test_weights_of_1_change_nothing(name: str) -> None:
    loss, weighted, plain = rb.loss(name), SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    found = loss(weighted, grades_for(name), OFFSETS, weights=torch.ones(12))
    expected = loss(plain, grades_for(name), OFFSETS)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(weighted.grad, plain.grad)


@pytest.mark.parametrize("factor", [1e-30, 1e-17, 1e-9, 1e9])
@pytest.mark.parametrize("name", ["nDCG", "nDCG@3", "LambdaRank", "LambdaLoss(scheme=ndcg-loss2)"])
def test_a_factor_of_all_weights_changes_no_normalised_loss(name: str, factor: float) -> None:
    for bound in BOUNDS[:3] if name.startswith("nDCG") else ["none"]:
        loss, leaf = rb.loss(name, bound), SCORES.clone().requires_grad_()
        one, other = (loss(leaf, GRADES, OFFSETS, weights=weights) for weights in (WEIGHTS, factor * WEIGHTS))
        torch.testing.assert_close(other, one)
        gradients = [torch.autograd.grad(values.sum(), leaf)[0] for values in (one, other)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("factor", [1e-30, 1e-17, 1e-9, 1e9])
@pytest.mark.parametrize("name", ["nDCG", "nDCG@3"])
def test_a_factor_of_all_weights_changes_no_normalised_metric(name: str, factor: float) -> None:
    one, other = (rb.metric(name)(SCORES, GRADES, OFFSETS, weights=weights) for weights in (WEIGHTS, factor * WEIGHTS))
    torch.testing.assert_close(other, one, equal_nan=True)


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_items_are_linear_in_the_weights(name: str) -> None:
    loss = rb.loss(name)
    assert isinstance(loss, ItemSum)
    terms = torch.stack([loss(SCORES, grades_for(name), OFFSETS, weights=row) for row in torch.eye(12)])
    assert (terms.count_nonzero(1) <= 1).all()
    torch.testing.assert_close(
        loss(SCORES, grades_for(name), OFFSETS, weights=WEIGHTS), (WEIGHTS[:, None] * terms).sum(0)
    )


@pytest.mark.parametrize("name", [name for name in SUMS if "interpolated" not in name])
def test_derivatives_of_weighted_sums(name: str) -> None:
    leaf = SCORES.clone().requires_grad_()

    def weighted(scores: Tensor) -> Tensor:
        return rb.loss(name)(scores, grades_for(name), OFFSETS, weights=WEIGHTS)

    assert torch.autograd.gradcheck(weighted, (leaf,))
    assert torch.autograd.gradgradcheck(weighted, (leaf,))


def test_a_pair_has_the_weight_of_its_better_item() -> None:
    """Rax's `pairwise_logistic_loss` with `weights`."""
    expected = torch.zeros(4, dtype=torch.float64)
    for at, (start, stop) in enumerate(zip(OFFSETS[:-1].tolist(), OFFSETS[1:].tolist(), strict=True)):
        pairs = [(i, j) for i, j in product(range(start, stop), repeat=2) if GRADES[i] > GRADES[j]]
        terms = [WEIGHTS[i] * torch.log1p(torch.exp(SCORES[j] - SCORES[i])) for i, j in pairs]
        if terms:
            expected[at] = torch.stack(terms).mean()
    torch.testing.assert_close(rb.loss("RankNet")(SCORES, GRADES, OFFSETS, weights=WEIGHTS), expected)


def test_softmax_terms_are_those_of_rax_over_the_sum_of_the_gains() -> None:
    expected = []
    for start, stop in zip(OFFSETS[:-1].tolist(), OFFSETS[1:].tolist(), strict=True):
        own, grades = SCORES[start:stop], GRADES[start:stop].double()
        of_rax = -(WEIGHTS[start:stop] * grades * torch.log_softmax(own, 0)).sum()
        expected.append(of_rax / grades.sum().clamp(min=1))
    torch.testing.assert_close(rb.loss("softmax")(SCORES, GRADES, OFFSETS, weights=WEIGHTS), torch.stack(expected))


def dcg(order: Tensor, gains: Tensor) -> float:
    return float((gains[order] / torch.log2(torch.arange(2.0, len(order) + 2, dtype=torch.float64))).sum())


@pytest.mark.parametrize("gain", ["exp2", "linear"])
def test_weights_multiply_the_gains_of_ndcg(gain: str) -> None:
    """Rax's `ndcg_metric` with `weights`, whose ideal order is by weighted gains, too."""
    scores, grades = torch.tensor([0.3, -1.2, 2.0, 0.9, 0.8]), GRADES[:5]
    gains = WEIGHTS[:5] * (torch.exp2(grades.double()) - 1 if gain == "exp2" else grades)
    ideal = max(dcg(torch.tensor(order), gains) for order in permutations(range(5)))
    found = rb.metric(f"nDCG(gain={gain})")(scores, grades, [0, 5], weights=WEIGHTS[:5])
    assert float(found[0]) == pytest.approx(dcg(scores.argsort(descending=True), gains) / ideal, rel=1e-12)
    assert rb.metric("DCG")(scores, grades, [0, 5], weights=torch.zeros(5)).tolist() == [0.0]


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_are_those_of_the_weighted_gains(bound: str) -> None:
    """With linear gains, weighted grades are other grades."""
    loss, grades = rb.SmoothLoss("nDCG(gain=linear)", bound), GRADES.double()
    found = loss(SCORES, grades, OFFSETS, weights=WEIGHTS)
    torch.testing.assert_close(found, loss(SCORES, grades * WEIGHTS, OFFSETS))
    assert found.abs().max() > 0.01


def test_weights_reach_every_term_of_a_sum_of_losses() -> None:
    ndcg, ranknet = rb.loss("nDCG"), rb.loss("RankNet")
    expected = 0.7 * ndcg(SCORES, GRADES, OFFSETS, weights=WEIGHTS) + 2 * ranknet(
        SCORES, GRADES, OFFSETS, weights=WEIGHTS
    )
    torch.testing.assert_close((0.7 * ndcg + 2 * ranknet)(SCORES, GRADES, OFFSETS, weights=WEIGHTS), expected)
    with pytest.raises(ValueError, match="found weights of items for AP"):
        (ndcg + rb.loss("AP"))(SCORES, GRADES, OFFSETS, weights=WEIGHTS)


def test_sampled_violators_of_warp_are_weighted_one_by_one() -> None:
    found = rb.loss("WARP(samples=20)")(SCORES, GRADES, OFFSETS, weights=2 * torch.ones(12))
    torch.testing.assert_close(found, 2 * rb.loss("WARP(samples=20)")(SCORES, GRADES, OFFSETS))


@pytest.mark.parametrize("name", ["DCG(gain=linear)", "DCG", "squared(reduction=sum)", "CG@2"])
def test_inverse_propensities_make_clicks_unbiased(name: str) -> None:
    """The mean over all outcomes of the examination is the loss of the true relevance, if clicks are in no normaliser.

    Only the terms of relevant items are compared for the squared loss, whose other items count whatever is clicked.
    """
    relevance, propensity = BINARY[6:], torch.tensor([1.0, 0.5, 0.9, 0.2, 0.7, 0.3], dtype=torch.float64)
    scores, offsets, loss = SCORES[6:], torch.tensor([0, 6]), rb.loss(name)
    relevance = relevance | torch.tensor([0, 0, 0, 1, 1, 0])
    expected, biased = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for examined in product([0, 1], repeat=6):
        seen = torch.tensor(examined)
        chance = torch.where(seen == 1, propensity, 1 - propensity).prod()
        clicks = seen * relevance
        expected += chance * loss(scores, relevance, offsets, weights=clicks / propensity)
        biased += chance * loss(scores, relevance, offsets, weights=clicks.double())
    truth = loss(scores, relevance, offsets, weights=relevance.double())
    torch.testing.assert_close(expected, truth)
    assert not torch.isclose(biased, truth, rtol=0.05)


@pytest.mark.parametrize("name", ["AP", "RR", "nRBP", "P@3", "Kendall", "ListNet@2"])
def test_losses_without_terms_or_gains_refuse(name: str) -> None:
    with pytest.raises(ValueError, match=rf"weights: found weights of items for {name}, which has n\w+"):
        rb.loss(name)(SCORES, BINARY, OFFSETS, weights=WEIGHTS)


def test_a_users_loss_refuses_weights_that_it_does_not_know() -> None:
    class Mine(rb.losses.RankingLoss):
        def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
            return lists.sum((scores - relevance).square())

    with pytest.raises(ValueError, match="weights: found weights of items for Mine, which has neither terms nor gains"):
        Mine()(SCORES, GRADES, OFFSETS, weights=WEIGHTS)


@pytest.mark.parametrize("of", ["loss", "metric"])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(3), "weights: found 3 values, expected 12"),
        (torch.ones(12).index_fill(0, torch.tensor(4), -1), "weights: found -1.0 at 4, expected finite numbers from 0"),
        (torch.ones(12).index_fill(0, torch.tensor(2), float("nan")), "weights: found nan at 2"),
    ],
)
def test_wrong_weights_are_named(of: str, weights: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(rb, of)("nDCG")(SCORES, GRADES, OFFSETS, weights=weights)
