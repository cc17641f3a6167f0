"""Pair losses of as many grades as items: split in halves, they are what they are grade by grade, and pair by pair."""

import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import pairwise, sampled
from rankbound.losses.pairwise import GradeHalves

TEXTS = ["RankNet(method=interpolated)", "DirectRanker(method=interpolated)", "hinge"]
FORMS = ["", "weight=difference", "reduction=sum,weight=difference"]
Derivatives = tuple[Tensor, Tensor, Tensor]


def batch(seed: int, grades: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and labels of lists of 0 to 300 items; without a number of grades, labels are continuous."""
    draws = torch.Generator().manual_seed(seed)
    offsets = torch.tensor([0, 1, 1, 40, 340, 343])
    scores = 3 * torch.randn(343, generator=draws, dtype=torch.float64)
    labels = torch.rand(343, generator=draws, dtype=torch.float64)
    return scores, labels if grades is None else (grades * labels).floor(), offsets


def derivatives(text: str, seed: int, grades: int | None, weighted: bool) -> Derivatives:
    scores, labels, offsets = batch(seed, grades)
    leaf = scores.requires_grad_()
    weights = torch.arange(343) % 5 if weighted else None
    losses = rb.loss(text)(leaf, labels, offsets, weights=weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf, create_graph=True)
    direction = torch.linspace(-1, 1, 343, dtype=torch.float64)
    (bend,) = torch.autograd.grad(slope @ direction, leaf)
    return losses.detach(), slope.detach(), bend


@pytest.fixture(params=["interpolated", "direct"])
def halves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Splits any number of grades, with either kind of sums at every step."""
    for module in (pairwise, sampled):
        monkeypatch.setattr(module, "MOST_GRADES_IN_ORDER", 0)
    monkeypatch.setattr(pairwise, "PAIRS_PER_ITEM", 0 if request.param == "interpolated" else 10**9)
    return monkeypatch


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("grades", "weighted"), [(None, False), (None, True), (2, True), (7, False), (100, True)])
def test_halves_agree_with_grades_in_order(
    text: str, form: str, grades: int | None, weighted: bool, halves: pytest.MonkeyPatch
) -> None:
    name, _, inside = text.rstrip(")").partition("(")
    text = f"{name}({','.join(filter(None, [inside, form]))})"
    found = derivatives(text, 3, grades, weighted)
    for module in (pairwise, sampled):
        halves.setattr(module, "MOST_GRADES_IN_ORDER", 10**9)
    expected = derivatives(text.replace("interpolated", "direct"), 3, grades, weighted)
    assert expected[1].abs().max() > 1e-4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=float(1e-6 * other.abs().max()))


@pytest.mark.parametrize("text", ["RankNet", "DirectRanker"])
def test_curvature_in_halves(text: str, halves: pytest.MonkeyPatch) -> None:
    scores, labels, offsets = batch(4, None)
    found, expected = (
        rb.loss(f"{text}(method={method})").curvature(scores, labels, Lists(offsets))
        for method in ("interpolated", "direct")
    )
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-10)


def test_each_pair_of_grades_is_in_one_group_of_one_step() -> None:
    draws = torch.Generator().manual_seed(6)
    for sizes in ([1], [9], [3, 0, 17, 2], [33, 5]):
        lists = Lists.of_sizes(torch.tensor(sizes))
        grades = torch.randint(0, 9, (lists.n_items,), generator=draws).double()
        seen = torch.zeros(lists.n_items, lists.n_items, dtype=torch.int64)
        halves = GradeHalves(grades, lists)
        for half in halves:
            assert half.groups.n_items == lists.n_items
            together = half.groups.segment[:, None] == half.groups.segment[None, :]
            pairs = together & half.late[:, None] & ~half.late[None, :]
            seen[halves.order[:, None], halves.order[None, :]] += pairs
        same_list = lists.segment[:, None] == lists.segment[None, :]
        assert torch.equal(seen, (same_list & (grades[:, None] > grades[None, :])).long())
