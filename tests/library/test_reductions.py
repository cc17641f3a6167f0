"""The weights of lists and the reductions over them; precision and grades that losses refuse."""

import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS
from rankbound.losses.base import RankingLoss

OFFSETS = torch.tensor([0, 4, 4, 5, 8, 10])
SCORES = torch.tensor([0.3, -1.2, 2.0, 0.9, 1.0, 0.1, -0.4, 0.2, 0.5, 0.6])
RELEVANCE = torch.tensor([2, 0, 1, 0, 0, 0, 1, 0, 0, 0])
LOSSES = {name: rb.loss(name) for name in (*KINDS, "nDCG", "AP") if name != "multinomial"}
LOSSES |= {f"nDCG {bound}": rb.loss("nDCG", bound) for bound in ("min-max", "expectation-max", "distribution(gain=sd)")}
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 4.0, 0.0])


def binary(name: str) -> Tensor:
    return RELEVANCE.clamp(max=1) if "distribution" in name else RELEVANCE


@pytest.mark.parametrize("name", LOSSES)
def test_mean_and_sum_over_the_informative_lists(name: str) -> None:
    loss, relevance = LOSSES[name], binary(name)
    each = loss(SCORES, relevance, OFFSETS)
    informative = loss.informative(relevance, Lists(OFFSETS))
    assert 0 < informative.sum() < len(each)
    assert torch.equal(loss(SCORES, relevance, OFFSETS, reduction="none"), each)
    torch.testing.assert_close(loss(SCORES, relevance, OFFSETS, reduction="sum"), each.sum())
    torch.testing.assert_close(loss(SCORES, relevance, OFFSETS, reduction="mean"), each[informative].mean())


@pytest.mark.parametrize("name", LOSSES)
def test_batches_add_up_to_the_mean_over_all_lists(name: str) -> None:
    loss, relevance = LOSSES[name], binary(name)
    total, count, cut = torch.zeros(()), torch.tensor(0), 2
    for items, offsets in [(slice(5), OFFSETS[: cut + 2]), (slice(5, None), OFFSETS[cut + 1 :] - 5)]:
        total += loss(SCORES[items], relevance[items], offsets, reduction="sum")
        count += loss.count_informative(relevance[items], offsets)
    torch.testing.assert_close(total / count, loss(SCORES, relevance, OFFSETS, reduction="mean"))


def test_the_number_of_informative_lists_is_of_any_arrays_and_is_checked() -> None:
    loss = rb.loss("nDCG")
    assert loss.count_informative(RELEVANCE.numpy(), OFFSETS.numpy()) == 2
    assert loss.count_informative(torch.zeros(0), torch.tensor([0, 0])).dtype == torch.int64
    assert loss.count_informative(torch.zeros(0), torch.tensor([0])) == 0
    with pytest.raises(ValueError, match="relevance"):
        loss.count_informative(-RELEVANCE, OFFSETS)
    with pytest.raises(ValueError, match=r"expected 0 \.\. 9"):
        loss.count_informative(RELEVANCE[:9], OFFSETS)


@pytest.mark.parametrize("name", LOSSES)
def test_list_weights_multiply_losses_and_gradients(name: str) -> None:
    loss, relevance = LOSSES[name], binary(name)
    leaf, plain = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    weighted = loss(leaf, relevance, OFFSETS, list_weights=WEIGHTS)
    each = loss(plain, relevance, OFFSETS)
    torch.testing.assert_close(weighted, each * WEIGHTS)
    weighted.sum().backward()
    each.sum().backward()
    torch.testing.assert_close(leaf.grad, plain.grad * Lists(OFFSETS).spread(WEIGHTS))
    mean = loss(SCORES, relevance, OFFSETS, list_weights=WEIGHTS, reduction="mean")
    torch.testing.assert_close(mean, (each * WEIGHTS).sum() / loss.informative(relevance, Lists(OFFSETS)).sum())


def test_nothing_to_learn_has_mean_0_with_a_gradient_of_0() -> None:
    leaf = SCORES.clone().requires_grad_()
    mean = rb.loss("nDCG", "min-max")(leaf, torch.zeros(10), OFFSETS, reduction="mean")
    mean.backward()
    assert mean == 0
    assert leaf.grad is not None
    assert leaf.grad.eq(0).all()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"reduction": "average"}, "reduction: found average, expected one of none, mean, sum"),
        ({"list_weights": torch.ones(3)}, "list_weights: found 3 values, expected 5"),
        ({"list_weights": torch.tensor([1, 1, -2.0, 1, 1])}, r"list_weights: found -2.0 at 2, expected finite"),
        ({"list_weights": torch.tensor([1, float("nan"), 1, 1, 1])}, "list_weights: found nan at 1"),
    ],
)
def test_wrong_arguments_are_named(keywords: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, **keywords)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    """The loss and the gradient are those of the rounded scores in single precision, but for the gradient's dtype."""
    loss, relevance = LOSSES[name], binary(name)
    half = SCORES.to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    found, expected = loss(half, relevance, OFFSETS), loss(single, relevance, OFFSETS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    found.sum().backward()
    expected.sum().backward()
    assert half.grad is not None
    assert single.grad is not None
    assert torch.equal(half.grad, single.grad.to(dtype))


WITH_GAINS = ["nDCG", "LambdaRank", "LambdaLoss", "LambdaRank(metric=DCG)", "softmax(gain=exp2)", "squared(gain=exp2)"]


@pytest.mark.parametrize("name", WITH_GAINS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_grades_whose_gains_overflow_are_refused(name: str, dtype: torch.dtype) -> None:
    loss, offsets = rb.loss(name), torch.tensor([0, 3])
    largest = {"squared(gain=exp2)": (54, 502), "softmax(gain=exp2)": (1004, 1004)}.get(name, (108, 1004))
    for grade in (50, largest[dtype == torch.float64]):
        scores = torch.tensor([0.1, 0.2, 0.3], dtype=dtype, requires_grad=True)
        value = loss(scores, torch.tensor([grade, 0, 1]), offsets).sum()
        value.backward()
        assert value.isfinite()
        assert scores.grad is not None
        assert scores.grad.isfinite().all()
    with pytest.raises(ValueError, match=rf"found grade {grade + 1}, whose gain 2\^y - 1 is too large"):
        loss(scores, torch.tensor([grade + 1, 0, 1]), offsets)
    with pytest.raises(ValueError, match=r"found grade 1024, whose gain 2\^y - 1 is too large"):
        loss(torch.zeros(3), torch.tensor([1024, 0, 1]), offsets)


def test_a_users_loss_with_a_half_precision_model_trains_in_single_precision() -> None:
    class Mine(RankingLoss):
        def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
            assert scores.dtype == torch.float32
            return lists.sum((scores - relevance).square())

    assert Mine()(SCORES.half(), RELEVANCE, OFFSETS).dtype == torch.float32
    assert str(Mine()) == "Mine(Mine)"
