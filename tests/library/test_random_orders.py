"""Losses of random orders: against draws of scores and of comparisons, another implementation's numbers, and limits."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.losses import KINDS
from rankbound.losses.random_orders import MOST_ITEMS, binomial_chances
from tests.library.refusals import refusals

SCORES = torch.tensor([0.3, -1.2, 2.0, 0.9, 0.1, 0.5], dtype=torch.float64)
GRADES = torch.tensor([1, 0, 0, 2, 0, 1])
ONE_LIST = torch.tensor([0, 6])
OF_RANK_CHANCES = ("SoftRank", "NeuralNDCG", "PiRank")

# Scores, grades, temperature, cut-off, and the loss of allRank 1.4.3's neuralNDCG in single precision.
OF_ALLRANK: list[tuple[list[float], list[int], float, int | None, float]] = [
    ([2.31, -0.44, -3.27], [2, 3, 1], 1.0, None, -0.847490),
    ([0.85, 0.31, 1.36], [2, 0, 0], 1.0, 2, -0.558104),
    ([-0.39, 1.6, 0.62], [2, 1, 1], 0.3, None, -0.759999),
    ([1.26, 1.65, -0.13], [2, 3, 1], 0.3, 2, -0.963461),
    ([-1.34, -2.26, 0.56, 2.18, 1.41, 1.16], [2, 3, 0, 1, 1, 1], 1.0, None, -0.567663),
    ([-1.03, -2.26, 0.38, 2.71, -0.68, -0.72], [2, 0, 0, 0, 1, 1], 1.0, 2, -0.053511),
    ([-1.54, -0.75, 0.41, -1.38, -0.06, 0.43], [2, 3, 1, 1, 3, 2], 0.3, None, -0.760435),
    ([-2.93, 0.63, 4.98, 1.31, 1.85, -1.75], [2, 3, 0, 2, 0, 3], 0.3, 2, -0.022544),
    (
        [-2.0, 1.33, 1.15, 0.09, 0.34, 0.83, -0.87, 0.03, 0.2, 1.53, -0.67, 0.68],
        [2, 0, 1, 2, 3, 2, 1, 2, 1, 0, 2, 2],
        1.0,
        2,
        -0.085152,
    ),
]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def mean_of(ranks: Tensor) -> tuple[float, float]:
    """The mean nDCG of drawn ranks `(n_draws, n_items)`, with its standard error."""
    gains = 2.0**GRADES - 1
    ideal = float((gains.sort(descending=True).values / torch.log2(torch.arange(2, 8, dtype=torch.float64))).sum())
    values = (gains / torch.log2(ranks + 1.0)).sum(1) / ideal
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def test_softrank_is_the_mean_over_independent_comparisons_of_gaussian_scores() -> None:
    """Each pair with scores of its own; with one draw of scores for all pairs, ranks vary more than the loss says."""
    found = -float(rb.loss("SoftRank")(SCORES, GRADES, ONE_LIST))
    draws = SCORES + normal(40_000, 2, 6, 6)
    draws = torch.stack([draws[:, 0].mT, draws[:, 1]])
    above = (draws[1] > draws[0]) & ~torch.eye(6, dtype=torch.bool)
    value, error = mean_of(1 + above.sum(2))
    assert found == pytest.approx(value, abs=4 * error)
    scores = SCORES + normal(40_000, 6)
    value, error = mean_of(1 + (scores[:, None, :] > scores[:, :, None]).sum(2))
    assert 4 * error < abs(found - value) < 0.1


@pytest.mark.parametrize("deviation", [0.5, 2.0])
def test_of_two_items_softrank_is_the_mean_over_gaussian_scores(deviation: float) -> None:
    scores = torch.tensor([0.4, 0.9], dtype=torch.float64)
    first = (1 + torch.erf(torch.tensor(-0.5 / (2 * deviation), dtype=torch.float64))) / 2
    found = rb.loss(f"SoftRank(deviation={deviation})")(scores, [1, 0], [0, 2])
    assert float(found) == pytest.approx(-float(first + (1 - first) / math.log2(3)), rel=1e-14)


@pytest.mark.parametrize("name", OF_RANK_CHANCES)
def test_far_scores_or_low_temperatures_give_the_metric_and_a_batch_is_refused_by_its_longest_list(name: str) -> None:
    for metric in ("nDCG", "nDCG@3", "RBP(p=0.8)"):
        found = rb.loss(f"{name}(metric={metric})")(100 * SCORES, GRADES, ONE_LIST)
        assert float(found) == pytest.approx(-rb.metric(metric)(SCORES, GRADES, ONE_LIST).item(), abs=1e-6)
    sizes = torch.tensor([3, MOST_ITEMS + 1])
    with pytest.raises(ValueError, match=rf"^offsets: found a list of 2001 items for the loss {name}, .* at most 2000"):
        rb.loss(name)(torch.zeros(2004), torch.ones(2004), rb.Lists.of_sizes(sizes).offsets)


@pytest.mark.parametrize("name", [*OF_RANK_CHANCES, "RankCosine", "TFMAP", "CLiMF", "XE-NDCG"])
def test_first_and_second_derivatives(name: str) -> None:
    loss, grades, offsets = rb.loss(name), torch.tensor([2, 1, 0, 2, 0]), torch.tensor([0, 3, 3, 5])
    scores = torch.tensor([0.3, -0.2, 0.8, 0.4, 0.55], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: loss(x, grades, offsets), scores)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, grades, offsets), scores)


def test_neural_ndcg_is_that_of_allrank() -> None:
    for scores, grades, temperature, cutoff, expected in OF_ALLRANK:
        metric = "nDCG" if cutoff is None else f"nDCG@{cutoff}"
        loss = rb.loss(f"NeuralNDCG(metric={metric},temperature={temperature})")
        found = loss(torch.tensor(scores, dtype=torch.float64), grades, [0, len(scores)])
        assert float(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("width", [1, 2, 8, 64])
def test_the_chances_of_numbers_of_events_are_those_of_the_recursion(width: int) -> None:
    chances = torch.rand(3, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    known = torch.ones(3, 1, dtype=torch.float64)
    for chance in chances.T[:, :, None]:
        none = torch.zeros(3, 1, dtype=torch.float64)
        known = torch.cat([known, none], 1) * (1 - chance) + torch.cat([none, known], 1) * chance
    torch.testing.assert_close(binomial_chances(chances), known, rtol=0, atol=1e-15)


def test_xe_ndcg_with_gamma_1_is_softmax_and_draws_have_the_mean_of_their_losses() -> None:
    arguments = SCORES, GRADES, ONE_LIST
    softmax = rb.loss("softmax(gain=exp2)")(*arguments)
    torch.testing.assert_close(rb.loss("XE-NDCG(gamma=1)")(*arguments), softmax)
    one, other = rb.loss("XE-NDCG(draw=true)"), rb.loss("XE-NDCG(draw=true,seed=1)")
    first = float(one(*arguments))
    assert first == float(rb.loss(one.text)(*arguments)) != float(other(*arguments))
    # Linear in the shares, which have a random total: near the loss of the mean gamma.
    drawn = [float(one(*arguments)) for _ in range(500)]
    assert np.mean(drawn) == pytest.approx(float(rb.loss("XE-NDCG")(*arguments)), abs=0.06)
    assert len(set(drawn)) == 500


def test_sampled_scores_are_orders_of_the_plackett_luce_model() -> None:
    """The mean of the metric over all orders by their chances; Gumbel noise and sorting draw them."""
    scores, grades = SCORES[:4], GRADES[:4]
    expected = 0.0
    for order in permutations(range(4)):
        chance, left = 1.0, [*range(4)]
        for item in order:
            chance *= float(torch.softmax(scores[left] / 0.5, 0)[left.index(item)])
            left.remove(item)
        ranks = torch.empty(4, dtype=torch.float64)
        ranks[[*order]] = torch.arange(4.0, dtype=torch.float64)
        expected += chance * rb.metric("nDCG")(-ranks, grades, [0, 4]).item()
    for item, chance in enumerate(torch.softmax(scores / 0.5, 0).tolist()):
        # At a low temperature, smooth ranks are ranks.
        first = rb.sampled(rb.loss("RR@1", temperature=1e-4), samples=50_000, temperature=0.5, seed=item)
        relevance = torch.arange(4) == item
        assert -float(first(scores, relevance, [0, 4])) == pytest.approx(chance, abs=0.007)
    loss = rb.sampled(rb.loss("nDCG", temperature=1e-4), samples=20_000, temperature=0.5)
    assert -float(loss(scores, grades, [0, 4])) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("text", [*KINDS, "nDCG", "AP"])
@pytest.mark.parametrize("bound", ["none", "min-max"])
def test_any_loss_can_be_sampled(text: str, bound: str) -> None:
    if text in KINDS and bound != "none":
        return
    grades = torch.tensor([1, 0, 0, 0, 0, 1, 0]) if text == "multinomial" else torch.tensor([1, 0, 2, 0, 0, 1, 0])
    offsets, scores = torch.tensor([0, 4, 4, 7]), torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    of = rb.loss(text, bound)
    loss = rb.sampled(of, samples=3, temperature=0.1, seed=5)
    value = loss(scores, grades, offsets)
    assert value.tolist() == rb.sampled(of, samples=3, temperature=0.1, seed=5)(scores, grades, offsets).tolist()
    assert value.tolist() != rb.sampled(of, samples=3, temperature=0.1, seed=6)(scores, grades, offsets).tolist()
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    assert torch.isfinite(gradient).all()
    assert bool(gradient.any())
    assert value.tolist() != loss(scores, grades, offsets).tolist()
    tiny = rb.sampled(of, samples=2, temperature=1e-9)
    torch.testing.assert_close(tiny(scores, grades, offsets), of(scores, grades, offsets), rtol=1e-6, atol=1e-6)
    assert loss.count_informative(grades, offsets) == of.count_informative(grades, offsets)
    assert loss(scores, grades, offsets, reduction="mean").dim() == 0


def test_sampled_losses_have_weights_and_names_and_refuse_transforms() -> None:
    loss = 2 * rb.sampled("RankNet", temperature=1e-9) + rb.loss("softmax")
    weights = torch.tensor([1.0, 2, 0, 3, 1, 1], dtype=torch.float64)
    expected = 2 * rb.loss("RankNet") + rb.loss("softmax")
    arguments = SCORES, GRADES, ONE_LIST
    torch.testing.assert_close(loss(*arguments, weights=weights), expected(*arguments, weights=weights))
    assert loss.text == "2 * sampled(RankNet, samples=8, temperature=1e-09, seed=0) + softmax"
    for random in (rb.sampled("nDCG"), rb.loss("XE-NDCG(draw=true)")):
        with pytest.raises(NotImplementedError, match="with other draws; use "):
            torch.func.grad(lambda x, of=random: of(x, GRADES, ONE_LIST).sum())(SCORES)


test_refusals = refusals(
    [
        ("SoftRank(metric=AP)", "^metric: found AP, expected one that adds up over items"),
        ("SoftRank(deviation=0)", "^deviation: found 0, expected a number above 0"),
        ("PiRank(temperature=-1)", "^temperature: found -1.0, expected a number above 0"),
        ("NeuralNDCG@5", "cut-off"),
        ("XE-NDCG(gamma=2)", "^gamma: found 2, expected a number from 0 to 1"),
        ("RankCosine(gain=exp)", "^gain: found exp, expected one of linear, exp2"),
        ("TFMAP(rel=0)", "^rel: found 0.0, expected a grade above 0"),
        ("CLiMF(rel=-1)", "^rel: found -1.0, expected a grade above 0"),
    ],
    rb.loss,
)

test_refused_sampling = refusals(
    [
        (lambda: rb.sampled("nDCG", samples=0), "^samples: found 0, expected at least 1"),
        (lambda: rb.sampled("nDCG", temperature=0), "^temperature: found 0, expected a number above 0"),
        (lambda: rb.sampled("ndgc"), "Did you mean nDCG"),
    ],
    lambda call: call(),
)
