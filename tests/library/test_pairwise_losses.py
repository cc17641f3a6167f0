"""Losses of pairs beside `test_every_loss`: methods and orders of grades agree, WARP's parts, and sampling."""

import copy
import math
from collections.abc import Sequence
from itertools import product

import loss_arithmetic as by_hand
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_every_loss import GENERIC, LOSSES, Row, flat
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import pairwise, sampled
from rankbound.losses.sampled import warp_penalty

PAIR_LOSSES = {"RankNet": by_hand.ranknet(), "DirectRanker": by_hand.direct_ranker(), "hinge": by_hand.hinge()}
PAIRWISE = {text: arithmetic for text, arithmetic in LOSSES.items() if text.startswith((*PAIR_LOSSES, "WARP"))}
PAIRWISE["hinge(margin=0)"] = by_hand.pair_loss(by_hand.hinge(0))

WITHOUT_PAIRS: list[Row] = [([], []), ([0.5], [1]), ([0.5], [0]), ([1.0, 2.0], [0, 0]), ([1.0, 2.0, 2.0], [1, 1, 1])]


def random_rows(sizes: Sequence[int], spread: float = 2.0, grades: int = 3, seed: int = 0) -> list[Row]:
    draw = torch.Generator().manual_seed(seed)
    return [
        ((spread * torch.randn(n, generator=draw)).tolist(), torch.randint(0, grades, (n,), generator=draw).tolist())
        for n in sizes
    ]


def values(text: str, rows: Sequence[Row]) -> list[float]:
    found: list[float] = rb.loss(text)(*flat(rows)).tolist()
    return found


@pytest.mark.parametrize("text", PAIRWISE)
@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), max_size=8), min_size=1, max_size=4))
def test_any_batch_with_ties(text: str, lists: list[list[tuple[int, int]]]) -> None:
    """Whole scores: items tie, and pairs lie exactly at the margin."""
    rows = [([float(s) for s, _ in row], [y for _, y in row]) for row in lists]
    expected = [PAIRWISE[text](scores, grades, scores) for scores, grades in rows]
    # Of a list in perfect order hardly anything is left, and interpolation misses 1e-8 of each pair.
    floor = 1e-7 if "interpolated" in text else 1e-12
    assert values(text, rows) == pytest.approx(expected, rel=1e-6, abs=floor)


def test_grades_may_be_fractions_large_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists with many grades are counted by sorting."""
    scores = torch.tensor([0.3, 1.0, -0.4, 0.2], dtype=torch.float64)
    for name, relevance in product(PAIR_LOSSES, ([0.5, 2.25, 0.0, 2.25], [3e6, 1e9, 0.0, 1e9])):
        value = rb.loss(f"{name}(weight=difference)")(scores, torch.tensor(relevance, dtype=torch.float64), [0, 4])
        arithmetic = by_hand.pair_loss(PAIR_LOSSES[name], weight="difference")
        assert float(value) == pytest.approx(arithmetic(scores.tolist(), relevance, []), rel=1e-6)
    batch = flat([*GENERIC, *WITHOUT_PAIRS, *random_rows([50], grades=40)])
    tabled = rb.loss("RankNet")(*batch)
    monkeypatch.setattr("rankbound.losses.pairwise.CELLS_PER_ITEM", 0)
    assert torch.equal(rb.loss("RankNet")(*batch), tabled)


# WARP: the penalty, and sampling
def test_penalties_are_running_sums() -> None:
    """The top constant one counts lists whose relevant item is not first."""
    ranks = torch.tensor([[0, 1, 2], [3, 5, 100]])
    harmonic = [sum(1 / j for j in range(1, int(rank) + 1)) for rank in ranks.flatten()]
    assert warp_penalty(ranks, "harmonic", None, 100).flatten().tolist() == pytest.approx(harmonic)
    assert warp_penalty(ranks, "constant", 3, 100).tolist() == [[0, 1, 2], [3, 3, 3]]
    assert warp_penalty(torch.zeros(0, dtype=torch.int64), "harmonic", None, 0).tolist() == []
    rows: list[Row] = [([3.0, 1.0, 2.0], [1, 0, 0]), ([3.0, 1.0, 3.0], [1, 0, 0]), ([0.0, 1.0, 3.0], [1, 0, 0])]
    assert [value > 0 for value in values("WARP(alpha=constant,margin=1)@1", rows)] == [False, True, True]


def expected_of_samples(row: Row, samples: int, cutoff: int) -> float:
    """Over the place q of the first violator: L(floor(n/q)) times the mean hinge, both independent of each other."""
    scores, grades = row
    others = [s for s, y in zip(scores, grades, strict=True) if y == 0]
    losses = []
    for s in (s for s, y in zip(scores, grades, strict=True) if y > 0):
        hinges = [1 - s + t for t in others if t > s - 1]
        share = len(hinges) / len(others)
        penalty = sum(
            (1 - share) ** (q - 1) * share * sum(1 / j for j in range(1, min(len(others) // q, cutoff) + 1))
            for q in range(1, samples + 1)
        )
        losses.append(penalty * sum(hinges) / len(hinges) if hinges else 0.0)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("text", ["WARP(samples=1)", "WARP(samples=4)", "WARP(samples=30)@2"])
def test_sampled_losses_have_their_expectation(text: str) -> None:
    """The mean over repetitions, all in one batch, is within four standard errors of what the sampling is worth."""
    row = random_rows([12], spread=1.5, grades=2, seed=3)[0]
    loss, repetitions = rb.loss(text), 4000
    scores, relevance, offsets = flat([row] * repetitions)
    losses, drawn = loss(scores, relevance, offsets).detach(), (loss.samples, loss.cutoff or 12)
    expected = expected_of_samples(row, *drawn)
    assert expected > 0.1
    assert abs(float(losses.mean()) - expected) < 4 * float(losses.std()) / math.sqrt(repetitions)
    # The gradient's mean: only the relevant items' is told by their loss alone, by differences of the expectation.
    (gradient,) = torch.autograd.grad(loss(scores, relevance, offsets).mean(), scores)
    ends = [
        [
            expected_of_samples(([s + way * (i == k) for i, s in enumerate(row[0])], row[1]), *drawn)
            for way in (1e-6, -1e-6)
        ]
        for k in range(12)
    ]
    slopes = torch.tensor([(up - down) / 2e-6 for up, down in ends], dtype=torch.float64)
    mean = gradient.view(repetitions, -1).sum(0)
    torch.testing.assert_close(mean, slopes, rtol=0, atol=0.1 * float(slopes.abs().max()))


def test_draws_repeat_with_the_seed_and_may_come_in_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts take their random numbers one after the other from the same stream."""
    batch, text = flat([*WITHOUT_PAIRS, *random_rows([50, 1, 20], grades=2)]), "WARP(samples=3)"
    loss = rb.loss(text)
    again = copy.deepcopy(loss)
    first, second = (loss(*batch) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(again(*batch), first)
    assert torch.equal(rb.loss(text)(*batch), first)
    assert not torch.equal(rb.loss("WARP(samples=3,seed=1)")(*batch), first)
    monkeypatch.setattr("rankbound.losses.sampled.DRAWS_PER_CHUNK", 12)
    torch.testing.assert_close(rb.loss(text)(*batch), first)


# As many grades as items: split in halves, sums are what they are grade by grade, and pair by pair

MANY_GRADES = ["RankNet(method=interpolated)", "DirectRanker(method=interpolated)", "hinge"]
FORMS = ["", "weight=difference", "reduction=sum,weight=difference"]
Derivatives = tuple[Tensor, ...]


def many_grades(seed: int, grades: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and labels of lists of 0 to 300 items; without a number of grades, labels are continuous."""
    draws = torch.Generator().manual_seed(seed)
    offsets = torch.tensor([0, 1, 1, 40, 340, 343])
    scores = 3 * torch.randn(343, generator=draws, dtype=torch.float64)
    labels = torch.rand(343, generator=draws, dtype=torch.float64)
    return scores, labels if grades is None else (grades * labels).floor(), offsets


def derivatives(text: str, seed: int, grades: int | None, weighted: bool) -> Derivatives:
    scores, labels, offsets = many_grades(seed, grades)
    leaf = scores.requires_grad_()
    weights = torch.arange(343) % 5 if weighted else None
    losses = rb.loss(text)(leaf, labels, offsets, weights=weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf, create_graph=True)
    direction = torch.linspace(-1, 1, 343, dtype=torch.float64)
    (bend,) = torch.autograd.grad(slope @ direction, leaf)
    curvature = rb.loss(text).curvature(scores.detach(), labels, Lists(offsets))
    return losses.detach(), slope.detach(), bend, curvature


@pytest.fixture(params=["interpolated", "direct"])
def halves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Splits any number of grades, with either kind of sums at every step."""
    for module in (pairwise, sampled):
        monkeypatch.setattr(module, "MOST_GRADES_IN_ORDER", 0)
    monkeypatch.setattr(pairwise, "PAIRS_PER_ITEM", 0 if request.param == "interpolated" else 10**9)
    return monkeypatch


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", MANY_GRADES)
@pytest.mark.parametrize(("grades", "weighted"), [(None, False), (None, True), (2, True), (7, False), (100, True)])
def test_halves_are_grades_in_order(
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
