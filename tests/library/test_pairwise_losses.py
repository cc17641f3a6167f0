"""Losses of pairs: against double loops in float64 that are written out here, and what every such loss must keep."""

import copy
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import pairwise, sampled
from rankbound.losses.pairwise import grade_halves
from rankbound.losses.sampled import WARPLoss, warp_penalty, warp_rank

Row = tuple[list[float], list[int]]
"""Scores and grades of one list."""


def ranknet(difference: float, scale: float) -> float:
    x = -difference / scale
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def directranker(difference: float, scale: float) -> float:
    return math.log1p(math.exp(-math.tanh(difference / scale)))


def hinge(difference: float, scale: float) -> float:
    return max(0.0, scale - difference)


PAIR_LOSSES: dict[str, Callable[[float, float], float]] = {
    "RankNet": ranknet,
    "DirectRanker": directranker,
    "hinge": hinge,
}
# The text of each way to compute a loss, its name, and its temperature or margin.
WAYS = [
    ("RankNet(method=direct)", "RankNet", 1.0),
    ("RankNet(method=interpolated)", "RankNet", 1.0),
    ("RankNet(temperature=0.3,method=direct)", "RankNet", 0.3),
    ("RankNet(temperature=0.3,method=interpolated)", "RankNet", 0.3),
    ("DirectRanker(method=direct)", "DirectRanker", 1.0),
    ("DirectRanker(temperature=2,method=interpolated)", "DirectRanker", 2.0),
    ("DirectRanker(method=interpolated)", "DirectRanker", 1.0),
    ("hinge", "hinge", 1.0),
    ("hinge(margin=2.5)", "hinge", 2.5),
    ("hinge(margin=0)", "hinge", 0.0),
]
WARPS = [
    "WARP",
    "WARP@2",
    "WARP(alpha=constant)",
    "WARP(alpha=constant)@1",
    "WARP(margin=0.5)",
    "WARP(rel=2)",
]
ALL = [*(text for text, _, _ in WAYS), *WARPS]
SMOOTH = [text for text, name, _ in WAYS if name != "hinge"]
DTYPES = [torch.float32, torch.float64]

ROWS: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [1, 0, 0, 1]),
    ([1.5, 0.1], [0, 1]),
    ([-0.7, 0.2, 0.25, 3.1, -2.0, 0.0], [0, 3, 1, 0, 2, 0]),
    ([4.0, -4.0, 0.5, 1.7, 2.6], [2, 0, 1, 0, 0]),
]
WITHOUT_PAIRS: list[Row] = [([], []), ([0.5], [1]), ([0.5], [0]), ([1.0, 2.0], [0, 0]), ([1.0, 2.0, 2.0], [1, 1, 1])]
EXTREME: list[Row] = [
    ([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 1]),
    ([1e4, 0.0, -1e4, 3.0], [1, 0, 1, 0]),
    ([-1e4, 1e4, 0.0], [2, 0, 1]),
    ([1e4, 1e4, 0.0, 0.1], [0, 1, 0, 1]),
]


def flat(rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    scores = torch.tensor([score for row, _ in rows for score in row], dtype=dtype, requires_grad=True)
    relevance = torch.tensor([grade for _, row in rows for grade in row], dtype=torch.int64)
    return scores, relevance, torch.tensor([0, *(len(row) for row, _ in rows)]).cumsum(0)


def random_rows(sizes: Sequence[int], spread: float = 2.0, grades: int = 3, seed: int = 0) -> list[Row]:
    draw = generator(seed)
    return [
        ((spread * torch.randn(n, generator=draw)).tolist(), torch.randint(0, grades, (n,), generator=draw).tolist())
        for n in sizes
    ]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def values_and_gradient(text: str, rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    scores, relevance, offsets = flat(rows, dtype)
    values = rb.loss(text)(scores, relevance, offsets)
    (gradient,) = torch.autograd.grad(values.sum(), scores)
    return values.detach(), gradient


def with_parameter(text: str, parameter: str) -> str:
    return f"{text[:-1]},{parameter})" if text.endswith(")") else f"{text}({parameter})"


def pair_loss(name: str, scale: float, row: Row, reduction: str = "mean", weight: str = "uniform") -> float:
    """The sum or mean over the pairs of a list, pair by pair."""
    scores, grades = row
    terms = [
        (y - z if weight == "difference" else 1) * PAIR_LOSSES[name](s - t, scale)
        for s, y in zip(scores, grades, strict=True)
        for t, z in zip(scores, grades, strict=True)
        if y > z
    ]
    return sum(terms) / (len(terms) if reduction == "mean" and terms else 1)


def warp_loss(text: str, row: Row) -> float:
    """The mean over relevant items of L(rank) times the mean hinge of their violators."""
    scores, grades = row
    rel, margin = (2 if "rel=2" in text else 1), (0.5 if "margin" in text else 1.0)
    cutoff = int(text.partition("@")[2] or len(scores))
    relevant = [s for s, y in zip(scores, grades, strict=True) if y >= rel]
    others = [s for s, y in zip(scores, grades, strict=True) if y < rel]
    losses = []
    for s in relevant:
        hinges = [margin - s + t for t in others if t > s - margin]
        penalty = sum(1 if "constant" in text else 1 / j for j in range(1, min(len(hinges), cutoff) + 1))
        losses.append(penalty * sum(hinges) / len(hinges) if hinges else 0.0)
    return sum(losses) / len(losses) if relevant and others else 0.0


def differences(loss_of: Callable[[Row], float], rows: Sequence[Row], step: float = 1e-6) -> Tensor:
    """The gradient of each list's loss by central differences."""
    slopes = []
    for scores, grades in rows:
        for place in range(len(scores)):
            up, down = list(scores), list(scores)
            up[place] += step
            down[place] -= step
            slopes.append((loss_of((up, grades)) - loss_of((down, grades))) / (2 * step))
    return torch.tensor(slopes, dtype=torch.float64)


@pytest.mark.parametrize("weight", ["uniform", "difference"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("text", "name", "scale"), WAYS, ids=[text for text, _, _ in WAYS])
def test_pair_losses_against_written_out_pairs(text: str, name: str, scale: float, reduction: str, weight: str) -> None:
    rows = [*ROWS, *WITHOUT_PAIRS, *random_rows([15])]
    full = with_parameter(with_parameter(text, f"reduction={reduction}"), f"weight={weight}")

    def exact(row: Row) -> float:
        return pair_loss(name, scale, row, reduction, weight)

    values, gradient = values_and_gradient(full, rows)
    expected = torch.tensor([exact(row) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(gradient, differences(exact, rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("text", WARPS)
def test_warp_against_written_out_violators(text: str) -> None:
    rows = [*ROWS, *WITHOUT_PAIRS, *random_rows([15])]
    values, gradient = values_and_gradient(text, rows)
    expected = torch.tensor([warp_loss(text, row) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, differences(lambda row: warp_loss(text, row), rows), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("grades", [2, 5])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n", [5, 100, 3000])
@pytest.mark.parametrize("name", ["RankNet", "DirectRanker"])
def test_the_two_ways_agree(name: str, n: int, spread: float, grades: int) -> None:
    scores, relevance, offsets = flat(random_rows([n, 1, n // 2], spread, grades))
    with torch.no_grad():
        scores[: n // 3] = scores[0].clone()
        scores[-1] = 1e4
    found = []
    for method in ("direct", "interpolated"):
        values = rb.loss(f"{name}(method={method},weight=difference)")(scores, relevance, offsets)
        found.append((values.detach(), torch.autograd.grad(values.sum(), scores)[0]))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-6, atol=0)
    floor = 1e-7 * math.sqrt(1 / n)  # of slopes beyond 18 temperatures, which count as 0
    assert (found[1][1] - found[0][1]).norm() <= 1e-6 * found[0][1].norm() + floor


@pytest.mark.parametrize("text", ALL)
def test_single_precision_is_near_double(text: str) -> None:
    rows = random_rows([400, 30], spread=3.0)
    (value, gradient), (exact, exact_gradient) = (values_and_gradient(text, rows, dtype) for dtype in DTYPES)
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)
    assert (gradient - exact_gradient).norm() <= 1e-5 * exact_gradient.norm()


@pytest.mark.parametrize("text", ALL)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_any_batch_with_ties(text: str, lists: list[list[tuple[int, int]]]) -> None:
    """Whole scores: items tie, and pairs lie exactly at the margin."""
    rows = [([float(s) for s, _ in row], [y for _, y in row]) for row in lists]
    scores, relevance, offsets = flat(rows)
    name, scale = next(((name, scale) for way, name, scale in WAYS if way == text), ("", 0.0))
    expected = [pair_loss(name, scale, row) if name else warp_loss(text, row) for row in rows]
    values = rb.loss(text)(scores, relevance, offsets)
    # Of a list in perfect order hardly anything is left, and interpolation misses 1e-8 of each pair.
    floor = 1e-7 if "interpolated" in text else 1e-12
    assert values.tolist() == pytest.approx(expected, rel=1e-6, abs=floor)


@pytest.mark.parametrize("relevance", [[0.5, 2.25, 0.0, 2.25], [3e6, 1e9, 0.0, 1e9]])
def test_grades_need_not_be_small_whole_numbers(relevance: list[float]) -> None:
    scores = torch.tensor([0.3, 1.0, -0.4, 0.2], dtype=torch.float64)
    for name in PAIR_LOSSES:
        loss = rb.loss(f"{name}(weight=difference)")
        value = loss(scores, torch.tensor(relevance, dtype=torch.float64), torch.tensor([0, 4]))
        expected = pair_loss(name, 1.0, (scores.tolist(), relevance), weight="difference")  # type: ignore[arg-type]
        assert float(value) == pytest.approx(expected, rel=1e-6)


def test_many_lists_with_many_grades_are_counted_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevance, offsets = flat([*ROWS, *WITHOUT_PAIRS, *random_rows([50], grades=40)])
    tabled = rb.loss("RankNet")(scores, relevance, offsets)
    monkeypatch.setattr("rankbound.losses.pairwise.CELLS_PER_ITEM", 0)
    assert torch.equal(rb.loss("RankNet")(scores, relevance, offsets), tabled)


@pytest.mark.parametrize("name", ["RankNet", "DirectRanker"])
def test_curvature_of_long_lists_agrees(name: str) -> None:
    scores, relevance, offsets = flat(random_rows([400, 30], spread=3.0))
    direct, interpolated = (
        rb.loss(f"{name}(method={method})").curvature(scores, relevance, Lists(offsets))
        for method in ("direct", "interpolated")
    )
    torch.testing.assert_close(interpolated, direct, rtol=1e-5, atol=1e-9)


def test_a_low_temperature_gives_the_hinge_without_a_margin() -> None:
    """tau log(1 + exp(-d/tau)) is max(0, -d) but for at most tau log 2."""
    scores, relevance, offsets = flat([*ROWS, *random_rows([200])])
    cold = 1e-4 * rb.loss("RankNet(temperature=1e-4)")(scores, relevance, offsets)
    hard = rb.loss("hinge(margin=0)")(scores, relevance, offsets)
    torch.testing.assert_close(cold, hard, rtol=0, atol=1e-4 * math.log(2))


@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 1)), min_size=1, max_size=12))
def test_ranknet_over_log_2_bounds_the_number_of_wrong_pairs(items: list[tuple[float, int]]) -> None:
    row = [s for s, _ in items], [y for _, y in items]
    wrong = sum(s < t for s, y in items for t, z in items if y > z)
    (value, _) = values_and_gradient("RankNet(reduction=sum)", [row])
    assert float(value) >= wrong * math.log(2) * (1 - 1e-12)


def test_the_difference_of_grades_is_a_sum_over_thresholds() -> None:
    """Seed 004's Theorem 1, for the surrogates of R(f)."""
    scores, relevance, offsets = flat(random_rows([300, 20], grades=4))
    for name in PAIR_LOSSES:
        graded = rb.loss(f"{name}(weight=difference,reduction=sum)")(scores, relevance, offsets)
        binary = rb.loss(f"{name}(reduction=sum)")
        summed = sum(binary(scores, (relevance >= threshold).to(torch.int64), offsets) for threshold in (1, 2, 3))
        torch.testing.assert_close(graded, summed, rtol=1e-6, atol=0)


def test_directranker_never_falls_below_the_loss_of_a_certain_pair() -> None:
    values, _ = values_and_gradient("DirectRanker", [([1e4, 50.0, -50.0], [2, 1, 0]), ([0.0, 50.0], [1, 0])])
    assert values.tolist() == pytest.approx([0.3132616875, 1.3132616875], abs=1e-9)


# --- WARP: the rank, its penalty, and sampling ---


def test_the_top_constant_penalty_counts_lists_whose_relevant_item_is_not_first() -> None:
    rows: list[Row] = [([3.0, 1.0, 2.0], [1, 0, 0]), ([3.0, 1.0, 3.0], [1, 0, 0]), ([0.0, 1.0, 3.0], [1, 0, 0])]
    errors = [float(warp_penalty(warp_rank(torch.tensor(scores), 0), "constant", cutoff=1)) for scores, _ in rows]
    assert errors == [0, 1, 1]
    for scores, grades in rows:
        (value, _) = values_and_gradient("WARP(alpha=constant,margin=1)@1", [(scores, grades)])
        assert (float(value) > 0) == (errors.pop(0) > 0)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=9), st.integers(0, 8))
def test_the_rank_counts_ties_against_the_true_item(scores: list[float], true: int) -> None:
    true %= len(scores)
    others = [score for place, score in enumerate(scores) if place != true]
    assert warp_rank(torch.tensor(scores, dtype=torch.float64), true) == sum(s >= scores[true] for s in others)


def test_penalties_are_running_sums() -> None:
    ranks = torch.tensor([[0, 1, 2], [3, 5, 100]])
    harmonic = [sum(1 / j for j in range(1, int(rank) + 1)) for rank in ranks.flatten()]
    assert warp_penalty(ranks).flatten().tolist() == pytest.approx(harmonic)
    assert warp_penalty(ranks, "constant", cutoff=3).tolist() == [[0, 1, 2], [3, 3, 3]]
    assert warp_penalty(ranks, torch.tensor([2.0, 1.0])).tolist() == [[0, 2, 3], [3, 3, 3]]
    assert warp_penalty(torch.zeros(0, dtype=torch.int64)).tolist() == []


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
    assert isinstance(loss, WARPLoss)
    scores, relevance, offsets = flat([row] * repetitions)
    values = loss(scores, relevance, offsets).detach()
    expected = expected_of_samples(row, loss.samples, loss.cutoff or 12)
    assert expected > 0.1
    assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / math.sqrt(repetitions)
    # The gradient's mean: only the relevant items' is told by their loss alone, by differences of the expectation.
    (gradient,) = torch.autograd.grad(loss(scores, relevance, offsets).mean(), scores)
    slopes = differences(lambda one: expected_of_samples(one, loss.samples, loss.cutoff or 12), [row])
    mean = gradient.view(repetitions, -1).sum(0)
    torch.testing.assert_close(mean, slopes, rtol=0, atol=0.1 * float(slopes.abs().max()))


def test_draws_repeat_with_the_seed_and_differ_between_calls() -> None:
    scores, relevance, offsets = flat(random_rows([50, 20], grades=2))
    loss = rb.loss("WARP(samples=2)")
    again = copy.deepcopy(loss)
    first, second = (loss(scores, relevance, offsets) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(again(scores, relevance, offsets), first)
    assert torch.equal(rb.loss("WARP(samples=2)")(scores, relevance, offsets), first)
    assert not torch.equal(rb.loss("WARP(samples=2,seed=1)")(scores, relevance, offsets), first)


def test_draws_in_many_parts_are_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts take their random numbers one after the other from the same stream."""
    rows = [*WITHOUT_PAIRS, *random_rows([50, 1, 20], grades=2)]
    scores, relevance, offsets = flat(rows)
    whole = rb.loss("WARP(samples=3)")(scores, relevance, offsets)
    monkeypatch.setattr("rankbound.losses.sampled.DRAWS_PER_CHUNK", 12)
    torch.testing.assert_close(rb.loss("WARP(samples=3)")(scores, relevance, offsets), whole)


# --- texts and bad input ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RankNet(reduction=max)", "^reduction: found max, expected one of mean, sum"),
        ("hinge(weight=gain)", "^weight: found gain, expected one of uniform, difference"),
        ("DirectRanker(method=fast)", "^method: found 'fast'"),
        ("RankNet(temperature=0)", "^temperature: found 0.0, expected a number above 0"),
        ("hinge(margin=-1)", "^margin: found -1.0, expected a number from 0"),
        ("WARP(margin=0)", "^margin: found 0.0, expected a number above 0"),
        ("WARP(alpha=linear)", "^alpha: found linear, expected one of harmonic, constant"),
        ("WARP(rel=0)", "^rel: found 0.0, expected a grade above 0"),
        ("WARP(samples=-1)", "^samples: found -1"),
        ("hinge@3", "hinge takes no cut-off"),
        ("RankNets", "unknown name 'RankNets'.*Did you mean RankNet"),
    ],
)
def test_bad_parameters_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.loss(text)


def test_bad_ranks_and_penalties_are_named() -> None:
    with pytest.raises(ValueError, match=r"^true: found 3, expected an index below 3"):
        warp_rank(torch.zeros(3), 3)
    with pytest.raises(ValueError, match=r"^rank: found -1, expected integers from 0"):
        warp_penalty(-1)
    with pytest.raises(ValueError, match=r"^alpha: found \[0.5, 1.0\], expected weights that never ascend"):
        warp_penalty(1, torch.tensor([0.5, 1.0]))
    with pytest.raises(ValueError, match=r"^cutoff: found 0, expected at least 1"):
        WARPLoss(cutoff=0)


# --- as many grades as items: split in halves, sums are what they are grade by grade, and pair by pair ---

MANY_GRADES = ["RankNet(method=interpolated)", "DirectRanker(method=interpolated)", "hinge"]
FORMS = ["", "weight=difference", "reduction=sum,weight=difference"]
Derivatives = tuple[Tensor, Tensor, Tensor]


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
    return losses.detach(), slope.detach(), bend


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
    scores, labels, offsets = many_grades(4, None)
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
        order, halves = grade_halves(grades, lists)
        for groups, late in halves:
            assert groups.n_items == lists.n_items
            together = groups.segment[:, None] == groups.segment[None, :]
            seen[order[:, None], order[None, :]] += together & late[:, None] & ~late[None, :]
        same_list = lists.segment[:, None] == lists.segment[None, :]
        assert torch.equal(seen, (same_list & (grades[:, None] > grades[None, :])).long())
