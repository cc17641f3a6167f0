"""What a call of a loss may ask for: reductions, weights of lists and items, sums of losses, and no validation."""

from functools import partial
from itertools import pairwise, permutations, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS
from rankbound.losses.base import ItemSum, RankingLoss
from tests.library.refusals import refusals

OFFSETS = torch.tensor([0, 5, 5, 6, 12, 14, 16])
LISTS = Lists(OFFSETS)
SCORES = torch.tensor(
    [0.3, -1.2, 2.0, 0.9, 0.9, 1.0, 0.1, -0.4, 0.2, 0.5, 0.6, -2.0, 0.5, 0.6, -0.7, 0.4], dtype=torch.float64
)
GRADES = torch.tensor([2, 0, 1, 0, 1, 1, 0, 2, 2, 0, 1, 0, 0, 0, 1, 0])
BINARY = torch.tensor([0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0])
WEIGHTS = torch.tensor(
    [0.5, 3.0, 2.0, 0.0, 1.5, 4.0, 1.0, 0.25, 2.5, 7.0, 1.0, 0.1, 2.0, 1.0, 3.0, 0.5], dtype=torch.float64
)
LIST_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 4.0, 3.0, 0.0], dtype=torch.float64)
N = len(SCORES)

LOSSES = {name: rb.loss(name) for name in (*KINDS, "nDCG", "AP")}
LOSSES |= {f"nDCG {bound}": rb.loss("nDCG", bound) for bound in ("min-max", "expectation-max", "distribution(gain=sd)")}
SUMS = (
    *("squared", "squared(reduction=sum)", "logistic", "ordinal", "softmax", "softmax(gain=exp2)", "multinomial"),
    *("ListNet", "ListMLE", "ListMLE@2", "ADR-MSE", "WARP", "WARP@1", "hinge", "hinge(weight=difference)"),
    *("DirectRanker", "RankNet", "RankNet(weight=difference, reduction=sum)", "RankNet(method=interpolated)"),
)
OF_GAINS = (
    *("nDCG", "nDCG@3", "DCG(gain=linear)", "CG@2", "LambdaRank", "LambdaRank(metric=DCG(gain=linear))"),
    *("LambdaLoss(scheme=ndcg-loss1)", "LambdaLoss(scheme=ndcg-loss2)", "LambdaLoss"),
)
BOUNDS = ("none", "min-max", "expectation", "expectation-max", "distribution")
every_loss = pytest.mark.parametrize("name", LOSSES)


class Own(RankingLoss):
    """A user's loss, which knows neither terms nor gains."""

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        assert scores.dtype != torch.float16
        return lists.sum((scores - relevance).square())


def grades_for(name: str) -> Tensor:
    return BINARY if "distribution" in name or name == "multinomial" else GRADES


def value_and_slope(
    loss: Any, relevance: Tensor = GRADES, scores: Tensor = SCORES, **options: Any
) -> tuple[Tensor, ...]:
    leaf = scores.clone().requires_grad_()
    values = loss(leaf, relevance, OFFSETS, **options)
    return values.detach(), *torch.autograd.grad(values.sum(), leaf)


@every_loss
def test_reductions_are_over_the_informative_lists_whose_weights_multiply_losses_and_gradients(name: str) -> None:
    """Batches add up to the mean over all lists."""
    loss, relevance = LOSSES[name], grades_for(name)
    call = partial(value_and_slope, loss, relevance)
    (each, slopes), informative = call(), loss.informative(relevance, LISTS)
    assert 0 < informative.sum() < len(each)
    torch.testing.assert_close(call(reduction="none"), (each, slopes), rtol=0, atol=0)
    torch.testing.assert_close(call(reduction="sum")[0], each.sum())
    mean = call(reduction="mean")[0]
    torch.testing.assert_close(mean, each[informative].mean())
    weighted = each * LIST_WEIGHTS, slopes * LISTS.spread(LIST_WEIGHTS)
    torch.testing.assert_close(call(list_weights=LIST_WEIGHTS), weighted)
    of_weights = call(list_weights=LIST_WEIGHTS, reduction="mean")[0]
    torch.testing.assert_close(of_weights, weighted[0].sum() / informative.sum())
    total, count = torch.zeros(()), torch.tensor(0)
    for items, offsets in ((slice(6), OFFSETS[:4]), (slice(6, None), OFFSETS[3:] - 6)):
        total = total + loss(SCORES[items], relevance[items], offsets, reduction="sum")
        count += loss.count_informative(relevance[items], offsets)
    torch.testing.assert_close(total / count, mean)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@every_loss
def test_half_precision_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    """The loss and the gradient are those of the rounded scores in single precision, but for the gradient's dtype."""
    half = SCORES.to(dtype)
    found, slope = value_and_slope(LOSSES[name], grades_for(name), half)
    expected, slopes = value_and_slope(LOSSES[name], grades_for(name), half.float())
    assert found.dtype == Own()(half, GRADES, OFFSETS).dtype == torch.float32
    torch.testing.assert_close((found, slope), (expected, slopes.to(dtype)), rtol=0, atol=0)


WITH_GAINS = ["nDCG", "LambdaRank", "LambdaLoss", "LambdaRank(metric=DCG)", "softmax(gain=exp2)", "squared(gain=exp2)"]


@pytest.mark.parametrize("name", WITH_GAINS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_grades_whose_gains_overflow_are_refused(name: str, dtype: torch.dtype) -> None:
    loss, offsets = rb.loss(name), torch.tensor([0, 3])
    largest = {"squared(gain=exp2)": (54, 502), "softmax(gain=exp2)": (1004, 1004)}.get(name, (108, 1004))
    for grade in (50, largest[dtype == torch.float64]):
        scores = torch.tensor([0.1, 0.2, 0.3], dtype=dtype, requires_grad=True)
        value = loss(scores, torch.tensor([grade, 0, 1]), offsets).sum()
        assert value.isfinite()
        assert torch.autograd.grad(value, scores)[0].isfinite().all()
    for beyond in (grade + 1, 1024):
        with pytest.raises(ValueError, match=rf"^relevance: found grade {beyond}, whose gain 2\^y - 1 is too large"):
            loss(scores, torch.tensor([beyond, 0, 1]), offsets)


# Weights of items: linear in sums over items, gains in metrics of gains, refused elsewhere; unbiased from clicks
@pytest.mark.parametrize("name", [*SUMS, *OF_GAINS])
def test_weights_of_1_change_nothing_and_sums_over_items_are_linear_in_them(name: str) -> None:
    loss, relevance = rb.loss(name), grades_for(name)
    plain = value_and_slope(loss, relevance)
    torch.testing.assert_close(value_and_slope(loss, relevance, weights=torch.ones(N)), plain)
    if name in SUMS:
        assert isinstance(loss, ItemSum)
        terms = torch.stack([loss(SCORES, relevance, OFFSETS, weights=row) for row in torch.eye(N)])
        assert (terms.count_nonzero(1) <= 1).all()
        weighted = partial(loss, relevance=relevance, offsets=OFFSETS, weights=WEIGHTS)
        torch.testing.assert_close(weighted(SCORES), (WEIGHTS[:, None] * terms).sum(0))
        if "interpolated" not in name:
            leaf = SCORES.clone().requires_grad_()
            assert torch.autograd.gradcheck(weighted, (leaf,))
            assert torch.autograd.gradgradcheck(weighted, (leaf,))


@pytest.mark.parametrize("factor", [1e-30, 1e-17, 1e-9, 1e9])
@pytest.mark.parametrize("name", ["nDCG", "nDCG@3", "LambdaRank", "LambdaLoss(scheme=ndcg-loss2)"])
def test_a_factor_of_all_weights_changes_neither_normalised_losses_nor_metrics(name: str, factor: float) -> None:
    for bound in BOUNDS[:3] if name.startswith("nDCG") else ["none"]:
        ways = (value_and_slope(rb.loss(name, bound), weights=weights) for weights in (WEIGHTS, factor * WEIGHTS))
        torch.testing.assert_close(*ways)
    if name.startswith("nDCG"):
        of_metric = (rb.metric(name)(SCORES, GRADES, OFFSETS, weights=each) for each in (WEIGHTS, factor * WEIGHTS))
        torch.testing.assert_close(*of_metric, equal_nan=True)


def test_weights_are_those_of_rax_and_reach_every_term_and_violator() -> None:
    """Rax's `pairwise_logistic_loss` with `weights`, and its softmax loss over the sum of the gains."""
    ranknet, softmax = torch.zeros(2, len(LISTS), dtype=torch.float64)
    for at, (start, stop) in enumerate(pairwise(OFFSETS.tolist())):
        pairs = [(i, j) for i, j in product(range(start, stop), repeat=2) if GRADES[i] > GRADES[j]]
        terms = [WEIGHTS[i] * torch.log1p(torch.exp(SCORES[j] - SCORES[i])) for i, j in pairs]
        ranknet[at] = torch.stack(terms).mean() if terms else 0.0
        own, grades = SCORES[start:stop], GRADES[start:stop].double()
        softmax[at] = -(WEIGHTS[start:stop] * grades * torch.log_softmax(own, 0)).sum() / grades.sum().clamp(min=1)
    torch.testing.assert_close(rb.loss("RankNet")(SCORES, GRADES, OFFSETS, weights=WEIGHTS), ranknet)
    torch.testing.assert_close(rb.loss("softmax")(SCORES, GRADES, OFFSETS, weights=WEIGHTS), softmax)
    ndcg, ranknet = (partial(rb.loss(name), SCORES, GRADES, OFFSETS, weights=WEIGHTS) for name in ("nDCG", "RankNet"))
    both = 0.7 * rb.loss("nDCG") + 2 * rb.loss("RankNet")
    torch.testing.assert_close(both(SCORES, GRADES, OFFSETS, weights=WEIGHTS), 0.7 * ndcg() + 2 * ranknet())
    found = rb.loss("WARP(samples=20)")(SCORES, GRADES, OFFSETS, weights=2 * torch.ones(N))
    torch.testing.assert_close(found, 2 * rb.loss("WARP(samples=20)")(SCORES, GRADES, OFFSETS))


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


@pytest.mark.parametrize("name", ["DCG(gain=linear)", "DCG", "squared(reduction=sum)", "CG@2"])
def test_inverse_propensities_make_clicks_unbiased(name: str) -> None:
    """The mean over all outcomes of the examination is the loss of the true relevance, if clicks are in no normaliser.

    Only the terms of relevant items are compared for the squared loss, whose other items count whatever is clicked.
    """
    propensity = torch.tensor([1.0, 0.5, 0.9, 0.2, 0.7, 0.3], dtype=torch.float64)
    scores, relevance, offsets, loss = SCORES[6:12], torch.tensor([0, 1, 0, 1, 1, 0]), [0, 6], rb.loss(name)
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


def asked(of: Any, **options: Any) -> Any:
    return lambda: of(SCORES, BINARY, OFFSETS, **options)


NEGATIVE, NAN = (torch.ones(N).index_fill(0, torch.tensor(at), value) for at, value in ((4, -1), (2, float("nan"))))
test_what_a_call_may_not_ask_for_is_named = refusals(
    [
        (asked(rb.loss("nDCG"), reduction="average"), "reduction: found average, expected one of none, mean, sum"),
        (asked(rb.loss("nDCG"), list_weights=torch.ones(3)), "list_weights: found 3 values, expected 6"),
        (asked(rb.loss("nDCG"), list_weights=NEGATIVE[:6]), r"list_weights: found -1.0 at 4, expected finite"),
        (asked(rb.loss("nDCG"), list_weights=NAN[:6]), "list_weights: found nan at 2"),
        *(
            (asked(rb.loss(name), weights=WEIGHTS), rf"weights: found weights of items for {name}, which has n\w+")
            for name in ("AP", "RR", "nRBP", "P@3", "Kendall", "ListNet@2")
        ),
        (asked(rb.loss("nDCG") + rb.loss("AP"), weights=WEIGHTS), "found weights of items for AP"),
        (asked(Own(), weights=WEIGHTS), "found weights of items for Own, which has neither terms nor gains"),
        (lambda: rb.loss("nDCG").count_informative([1, -1], [0, 2]), "^relevance: found -1.0, expected grades from 0"),
        (lambda: rb.loss("nDCG").count_informative([1, 0], [0, 1]), "^offsets: found 0 .. 1, expected 0 .. 2"),
        *(
            (asked(of("nDCG"), weights=weights), f"^weights: found {message}")
            for of in (rb.loss, rb.metric)
            for weights, message in (
                (torch.ones(3), f"3 values, expected {N}"),
                (NEGATIVE, "-1.0 at 4, expected finite numbers from 0"),
                (NAN, "nan at 2"),
            )
        ),
    ]
)


# Sums and multiples of losses
@pytest.mark.parametrize(
    ("first", "second"), [("nDCG", "RankNet"), ("softmax", "hinge"), ("ListMLE", "LambdaRank"), ("AP", "squared")]
)
def test_a_sum_is_the_sum_of_values_gradients_and_curvatures(first: str, second: str) -> None:
    one, other = rb.loss(first), rb.loss(second)
    both = 0.7 * one + other * 0.3
    terms = zip(value_and_slope(one), value_and_slope(other), strict=True)
    torch.testing.assert_close(value_and_slope(both), tuple(0.7 * a + 0.3 * b for a, b in terms))
    curvature = both.curvature(SCORES, GRADES, LISTS)
    assert (curvature is None) == (first in ("nDCG", "AP")), "all terms have one, or the sum has none"
    if curvature is not None:
        full = hessian(lambda x: both(x, GRADES, OFFSETS).sum(), SCORES)
        torch.testing.assert_close(curvature, full.diagonal(), rtol=1e-6, atol=1e-9)
    informative = [loss.informative(GRADES, LISTS) for loss in (both, one, other, one + 0 * other, 0 * one)]
    assert torch.equal(informative[0], informative[1] | informative[2])
    assert torch.equal(informative[3], informative[1])
    assert not informative[4].any()


def test_sums_are_flat_and_say_what_they_are_and_what_cannot_be_added() -> None:
    total = 2 * (rb.loss("nDCG", "min-max") + 0.5 * rb.loss("RankNet")) + rb.loss("ListNet")
    assert [factor for factor, _ in total.terms] == [2.0, 1.0, 1.0]
    assert total.text == "2 * SmoothLoss(nDCG, bound=min-max, temperature=1) + RankNet + ListNet@1"
    assert str(total).startswith("WeightedSum(")
    assert str(Own()) == "Own(Own)"
    by_sum = sum([rb.loss("RankNet"), rb.loss("hinge"), 2 * rb.loss("softmax")])
    assert isinstance(by_sum, RankingLoss)
    assert by_sum.text == "RankNet + hinge + 2 * softmax"
    assert total.temperature == 1
    assert len(list((rb.loss("nDCG") + rb.loss("ordinal(learn=true)")).parameters())) == 2
    for factor in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="expected losses with finite factors from 0"):
            factor * rb.loss("nDCG")
    for other in ("RankNet", None, torch.ones(1), 1.5):
        with pytest.raises(TypeError):
            rb.loss("nDCG") + other
    with pytest.raises(TypeError, match="unsupported operand"):
        1.5 + rb.loss("nDCG")


# `validate=False`: the same losses without the checks of values; `test_without_waiting` shows that nothing is read back

OF_EACH_SORT = (
    *("softmax", "ListNet", "logistic", "squared", "nDCG", "AP", "nRBP", "RR", "ListMLE", "RankNet", "hinge"),
    *("LambdaRank", "WARP", "DirectRanker"),
)


@pytest.mark.parametrize("name", OF_EACH_SORT)
def test_without_validation_the_loss_is_the_same_and_offsets_lengths_and_types_are_compared_anyway(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over lists that are not there would end the process, or read what lies behind the scores."""
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    ways = (value_and_slope(rb.loss(name), validate=validate) for validate in (True, False))
    torch.testing.assert_close(*ways, rtol=0, atol=0)
    loss = partial(rb.loss(name), validate=False)
    for offsets in ([0, 10**9], [0, 5 * 10**6, N], [0, -(10**7), N], [3, N], [0, 3]):
        with pytest.raises(ValueError, match=r"^offsets: "):
            loss(SCORES, BINARY, torch.tensor(offsets))
    with pytest.raises(ValueError, match="relevance: found"):
        loss(SCORES, BINARY[1:], OFFSETS)
    with pytest.raises(ValueError, match="offsets: found dtype"):
        loss(SCORES, BINARY, OFFSETS.float())
