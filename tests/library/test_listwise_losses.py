"""Pointwise and listwise losses beside `test_every_loss`: long lists, pairs that are formed, thresholds in order.

Those of random orders, against draws of scores, another implementation's numbers, and limits.
"""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from test_every_loss import OF_RANK_CHANCES
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS, lambda_loss
from rankbound.losses.lambda_loss import LambdaRankLoss, SwapWeights
from rankbound.losses.pointwise import OrdinalLoss
from rankbound.losses.random_orders import MOST_ITEMS
from rankbound.losses.softmax import MOST_PERMUTATIONS
from rankbound.metrics import metric
from tests.library.refusals import problems, refusals


def whole(n_items: int) -> Tensor:
    return torch.tensor([0, n_items])


def gradient_of(text: str, scores: Tensor, relevance: Tensor, offsets: Tensor) -> Tensor:
    leaf = scores.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rb.loss(text)(leaf, relevance, offsets).sum(), leaf)
    return gradient


# Lists of one relevant item, all pairs, or matrices.
SHORT = ("multinomial", "LambdaRank", "LambdaLoss", "SoftRank", "NeuralNDCG", "PiRank")


@pytest.mark.parametrize("text", [name for name in KINDS if name not in SHORT])
def test_long_lists_keep_their_digits_in_single_precision(text: str) -> None:
    """Added up one by one, 100,000 terms lose some; a gradient is a small difference of such sums."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(100_000, generator=generator)
    relevance = (torch.rand(100_000, generator=generator) < 0.1).to(torch.int8)
    exact = gradient_of(text, scores.double(), relevance, whole(100_000))
    found = gradient_of(text, scores, relevance, whole(100_000))
    assert float((found - exact).norm() / exact.norm()) < 3e-6
    losses = [float(rb.loss(text)(some, relevance, whole(100_000))) for some in (scores, scores.double())]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_list_net_refuses_more_permutations_than_it_can_hold() -> None:
    scores, relevance = torch.zeros(1001), torch.ones(1001)
    assert math.perm(1001, 2) > MOST_PERMUTATIONS > math.perm(1000, 2)
    assert rb.loss("ListNet@2")(scores[:1000], relevance[:1000], whole(1000)) == pytest.approx(
        math.log(1000) + math.log(999)
    )
    with pytest.raises(ValueError, match=r"^cutoff: found 2 for lists of up to 1001 items.*ListNet@1 accepts"):
        rb.loss("ListNet@2")(scores, relevance, whole(1001))
    with pytest.raises(ValueError, match=r"^cutoff: found 900 .* 10\^\d+"):
        rb.loss("ListNet@900")(scores, relevance, whole(1001))


def test_relevance_that_a_loss_is_not_made_for_is_named() -> None:
    scores, relevance, offsets = torch.zeros(6), torch.tensor([0, 1, 1, 0, 2, 1]), torch.tensor([0, 2, 4, 6])
    assert rb.loss("multinomial(rel=2)")(scores, relevance, offsets).tolist() == pytest.approx([0, 0, math.log(2)])
    with pytest.raises(ValueError, match=r"^relevance: found 2 relevant items in list 2, expected at most one"):
        rb.loss("multinomial")(scores, relevance, offsets)
    with pytest.raises(ValueError, match=r"^relevance: found 3, expected grades up to 2; set .* ordinal\(grades=...\)"):
        rb.loss("ordinal")(torch.zeros(2), torch.tensor([3, 0]), whole(2))


@pytest.mark.parametrize("grades", [2, 3, 6])
def test_ordinal_thresholds_are_learned_in_order(grades: int) -> None:
    loss = OrdinalLoss(grades=grades, learn=True)
    assert loss.thresholds.tolist() == pytest.approx([grade - 0.5 for grade in range(1, grades)])
    assert sum(parameter.numel() for parameter in loss.parameters()) == grades - 1
    scores, relevance = torch.linspace(-3, 3, 12), torch.arange(12) * grades // 12
    before = loss(scores, relevance, whole(12)).item()
    optimiser = torch.optim.SGD(loss.parameters(), lr=0.5)
    for _ in range(50):
        optimiser.zero_grad()
        loss(scores, relevance, whole(12)).sum().backward()
        optimiser.step()
    assert loss(scores, relevance, whole(12)).item() < before
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.copy_(torch.linspace(-30, 5, parameter.numel()).view_as(parameter))
    assert (loss.thresholds.diff() >= 0).all()


@pytest.mark.parametrize(
    "text", ["LambdaRank", "LambdaRank(metric=nDCG@3)", "LambdaLoss", "LambdaLoss(scheme=ndcg-loss1)"]
)
@pytest.mark.parametrize("n_pairs", [1, 7, 100])
def test_chunks_of_pairs_change_nothing(text: str, n_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    offsets = torch.tensor([0, 17, 17, 18, 43])
    scores = torch.randint(-9, 9, (43,), generator=generator).double() / 4
    relevance = torch.randint(0, 4, (43,), generator=generator)
    loss = rb.loss(text)
    expected, slopes = loss(scores, relevance, offsets), gradient_of(text, scores, relevance, offsets)
    monkeypatch.setattr(lambda_loss, "PAIRS_PER_CHUNK", n_pairs)
    torch.testing.assert_close(loss(scores, relevance, offsets), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient_of(text, scores, relevance, offsets), slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", ["nDCG", "nDCG@3"])
def test_each_pair_that_can_count_is_formed_once(text: str) -> None:
    """All pairs of different gain, and with a cut-off those of them that have an item above it."""
    generator = torch.Generator().manual_seed(2)
    lists = Lists(torch.tensor([0, 30, 30, 75]))
    scores, relevance = torch.randn(75, generator=generator), torch.randint(0, 3, (75,), generator=generator)
    of = metric(text)
    weights = SwapWeights(of, scores, relevance, lists)
    pairs = torch.cat([torch.stack(both) for both, *_ in LambdaRankLoss(metric=of)._pairs(scores, relevance, lists)], 1)
    counts = weights.discount > 0
    better = (relevance[:, None] > relevance) & (lists.segment[:, None] == lists.segment)
    expected = better & (counts[:, None] | counts)
    assert pairs.shape[1] == expected.sum()
    assert expected[pairs[0], pairs[1]].all()
    assert len(pairs.unique(dim=1).T) == pairs.shape[1]


@pytest.mark.parametrize("text", ["LambdaRank", "LambdaLoss", "LambdaLoss(scheme=ndcg-loss1)"])
def test_many_pairs_are_warned_of(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambda_loss, "PAIRS_TO_WARN_OF", 9)
    monkeypatch.setenv("RANKBOUND_FAST", "0")  # a kernel leaves as many pairs to the reference
    scores, offsets = torch.zeros(5, requires_grad=True), torch.tensor([0, 5])
    rb.loss(text)(scores, torch.tensor([1, 0, 0, 0, 0]), offsets)
    with pytest.warns(UserWarning, match=r"all of \d+ pairs of items are visited. With a cut-off"):
        rb.loss(text)(scores, torch.tensor([4, 3, 2, 1, 0]), offsets)


# Losses of random orders
SCORES = torch.tensor([0.3, -1.2, 2.0, 0.9, 0.1, 0.5], dtype=torch.float64)
GRADES = torch.tensor([1, 0, 0, 2, 0, 1])
ONE_LIST = torch.tensor([0, 6])


@pytest.mark.parametrize("name", OF_RANK_CHANCES)
def test_far_scores_or_low_temperatures_give_the_metric_and_a_batch_is_refused_by_its_longest_list(name: str) -> None:
    for text in ("nDCG", "nDCG@3", "RBP(p=0.8)"):
        found = rb.loss(f"{name}(metric={text})")(100 * SCORES, GRADES, ONE_LIST)
        assert float(found) == pytest.approx(-rb.metric(text)(SCORES, GRADES, ONE_LIST).item(), abs=1e-6)
    sizes = torch.tensor([3, MOST_ITEMS + 1])
    with pytest.raises(ValueError, match=rf"^offsets: found a list of 2001 items for the loss {name}, .* at most 2000"):
        rb.loss(name)(torch.zeros(2004), torch.ones(2004), rb.Lists.of_sizes(sizes).offsets)


def test_neural_ndcg_is_that_of_allrank() -> None:
    for scores, grades, temperature, cutoff, expected in problems("losses of allRank"):
        metric = "nDCG" if cutoff is None else f"nDCG@{cutoff}"
        loss = rb.loss(f"NeuralNDCG(metric={metric},temperature={temperature})")
        found = loss(torch.tensor(scores, dtype=torch.float64), grades, [0, len(scores)])
        assert float(found) == pytest.approx(expected, abs=1e-6)


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
    # At a low temperature, smooth ranks are ranks.
    loss = rb.sampled(rb.loss("nDCG", temperature=1e-4), samples=20_000, temperature=0.5)
    assert -float(loss(scores, grades, [0, 4])) == pytest.approx(expected, abs=0.005)


SAMPLED = [*((text, "none") for text in (*KINDS, "nDCG", "AP")), ("nDCG", "min-max"), ("AP", "min-max")]


@pytest.mark.parametrize(("text", "bound"), SAMPLED)
def test_any_loss_can_be_sampled(text: str, bound: str) -> None:
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


test_refused_sampling = refusals(
    [
        (lambda: rb.sampled("nDCG", samples=0), "^samples: found 0, expected at least 1"),
        (lambda: rb.sampled("nDCG", temperature=0), "^temperature: found 0, expected a number above 0"),
        (lambda: rb.sampled("ndgc"), "Did you mean nDCG"),
    ],
    lambda call: call(),
)
