r"""Smooth ranks, and sums of other kernels: both methods against float64 sums over all pairs that are written out here.

Tolerances of ranks: 1e-5 relative for every rank, 1e-4 of the gradient's norm per list. Where the true gradient
vanishes (clusters far apart, or terms that cancel) a share of it means nothing, so a floor stands beside it: from 17 to
18 temperatures on the interpolated slope is 0 where the true one is below sigma'(17) = 4.2e-8. An item's gradient has
$2N$ terms of at most $\max|g| \max|w|$ times that, so that of a list of N items misses at most the floor below.

Interpolated sums of other kernels may miss a small share of the weights involved. Where a kernel fades out, a share of
the sum itself means nothing: beyond 18 temperatures it counts as 0, where the sigmoid's slope is 1.5e-8.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rankbound as rb
from rankbound import smooth_ranks as kernels
from rankbound.lists import Lists
from rankbound.smooth_ranks import PRECISE_ORDER, _Sums
from tests.library.refusals import refusals

SLOPE_BEYOND_THE_BAND = 4.2e-8
RANK_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4
SHARE_OF_THE_WEIGHTS = 1e-7

RAGGED = [1, 0, 2, 700, 1, 37, 0, 5]
SPREADS = [0.01, 0.1, 1.0, 10.0, 100.0]
OUTLIERS = [1e4, -1e4, 1e7]
TIES = [0.0, 1.0, -1.0, 0.999999, 1e4, -12345.678]
GAPS = [16.0, 17.0, 17.9, 18.0, 18.1, 20.0, 21.9, 30.0]
DTYPES = [torch.float32, torch.float64]
METHODS = ["interpolated", "direct"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(sizes: list[int], spread: float, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    scores = spread * torch.randn(sum(sizes), dtype=torch.float64, generator=generator(seed))
    return scores.to(dtype), torch.tensor([0, *sizes]).cumsum(0)


PLACES = torch.arange(sum(RAGGED))
OUTLYING = torch.isin(PLACES, torch.tensor([0, 3, 100, 701]))
SCENES: dict[str, Callable[[], Tensor]] = {
    **{f"spread of {spread}": lambda spread=spread: batch(RAGGED, spread)[0] for spread in SPREADS},  # type: ignore[misc]
    # Also on the edge of a box (odd numbers): all tied is how a factorisation starts.
    **{f"ties at {at}": lambda at=at: at + 0 * batch(RAGGED, 0.0)[0] for at in TIES},  # type: ignore[misc]
    **{f"close to {at}": lambda at=at: at + batch(RAGGED, 1e-3)[0] for at in TIES},  # type: ignore[misc]
    **{f"three values from {at}": lambda at=at: at + torch.arange(sum(RAGGED)) % 3.0 for at in TIES},  # type: ignore[misc]
    **{f"outliers at {at}": lambda at=at: torch.where(OUTLYING, at, batch(RAGGED, 1.0)[0]) for at in OUTLIERS},  # type: ignore[misc]
    **{
        f"clusters {gap} apart": lambda gap=gap: batch(RAGGED, 0.5)[0] + gap * (PLACES >= 350)
        for gap in (*GAPS, 1e4, -1e4)
    },  # type: ignore[misc]
}
LIMITS = torch.tensor([0, *RAGGED]).cumsum(0)


# Ranks
def sums_written_out(
    of: Callable[[Tensor], Tensor], scores: Tensor, lists: Lists, weights: Tensor | None, tau: float = 1.0
) -> Tensor:
    """sum_j w_j K((s_j - s_i) / tau), list by list, in float64."""
    scores = scores.to(torch.float64)
    weights = torch.ones_like(scores) if weights is None else weights.to(torch.float64)
    sums = [(of((scores[part][None, :] - scores[part][:, None]) / tau) * weights[part]).sum(1) for part in lists.each()]
    return torch.cat([scores[:0], *sums])


def written_out(scores: Tensor, offsets: Tensor, weights: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """R_i = 1 + sum_{j != i} w_j sigma((s_j - s_i) / tau)."""
    return (
        1
        + sums_written_out(torch.sigmoid, scores, Lists(offsets), weights, temperature)
        - (0.5 if weights is None else weights / 2)
    )


def assert_same_as_written_out(
    scores: Tensor, offsets: Tensor, weights: Tensor | None = None, temperature: float = 1.0, method: str = METHODS[0]
) -> None:
    """Ranks and, for a random upstream gradient, the scores' gradient, list by list."""
    upstream = torch.randn(len(scores), dtype=torch.float64, generator=generator(3))
    ours, exact = scores.clone().requires_grad_(), scores.to(torch.float64, copy=True).requires_grad_()
    ranks = rb.smooth_rank(ours, offsets, weights=weights, temperature=temperature, method=method)
    expected = written_out(exact, offsets, weights, temperature)
    assert ranks.dtype == scores.dtype
    error = (ranks.detach() - expected.detach()).abs()
    assert (error <= RANK_TOLERANCE * expected.detach()).all(), error.max()
    ranks.backward(upstream.to(ranks))
    expected.backward(upstream)
    for part in (part for part in Lists(offsets).each() if part.stop > part.start):
        missed = (ours.grad[part] - exact.grad[part]).norm()
        n, largest = len(upstream[part]), 1.0 if weights is None else float(weights[part].abs().max())
        floor = 2 * n**1.5 * float(upstream[part].abs().max()) * largest * SLOPE_BEYOND_THE_BAND / temperature
        assert missed <= GRADIENT_TOLERANCE * exact.grad[part].norm() + floor, (part, missed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scene", SCENES)
def test_ranks_and_gradients_are_written_out(scene: str, dtype: torch.dtype, temperature: float, method: str) -> None:
    assert_same_as_written_out(SCENES[scene]().to(dtype), LIMITS, temperature=temperature, method=method)


WEIGHTS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "none": lambda draws: None,
    "fractions": lambda draws: draws,
    "relevance": lambda draws: (draws < 0.3).to(draws),
    "zeros": torch.zeros_like,
}


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6) | st.just(RAGGED),
    st.sampled_from(SPREADS),
    st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    st.sampled_from(DTYPES),
    st.sampled_from(sorted(WEIGHTS)),
    st.integers(0, 1000),
)
def test_any_batch(
    sizes: list[int], spread: float, temperature: float, dtype: torch.dtype, weights: str, seed: int
) -> None:
    """Relevance as weights gives the ranks among relevant items."""
    scores, offsets = batch(sizes, spread, seed, dtype)
    weight = WEIGHTS[weights](torch.rand(len(scores), generator=generator(seed)).to(dtype))
    assert_same_as_written_out(scores, offsets, weight, temperature)


@pytest.mark.parametrize("method", ["interpolated", "direct", "auto"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("score", [0.0, 1.0, -3.7, 1e4])
def test_a_lone_item_has_rank_1_and_exactly_no_gradient(score: float, dtype: torch.dtype, method: str) -> None:
    scores = torch.tensor([score, 5.0, 1.0, score], dtype=dtype, requires_grad=True)
    ranks = rb.smooth_rank(scores, torch.tensor([0, 1, 3, 4]), method=method)
    assert ranks[[0, 3]].tolist() == pytest.approx([1, 1], abs=1e-6)
    (ranks * torch.tensor([1e3, 1.0, 2.0, -1e6], dtype=dtype)).sum().backward()
    assert scores.grad[[0, 3]].tolist() == [0, 0]
    assert scores.grad[1] != 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [[3], [400], [3, 2], [400, 2, 400, 3], [2, 900]])
def test_the_default_way_of_a_list_does_not_depend_on_others(sizes: list[int], dtype: torch.dtype) -> None:
    scores, offsets = batch(sizes, 1.0, dtype=dtype)
    ways = {method: rb.smooth_rank(scores, offsets, method=method) for method in ("direct", "interpolated")}
    chosen = torch.cat([ways["interpolated" if n > 100 else "direct"].split(sizes)[t] for t, n in enumerate(sizes)])
    torch.testing.assert_close(rb.smooth_rank(scores, offsets), chosen, rtol=2 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("method", METHODS)
def test_calls_repeat_every_bit_and_many_chunks_are_one_sum(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept graph has the same gradient; parts bound the memory of long lists, and are made small here."""
    scores, offsets = batch(RAGGED, 3.0, dtype=torch.float32)
    upstream, runs = torch.randn(len(scores), generator=generator()), []
    for _ in range(3):
        ranks = rb.smooth_rank(scores.requires_grad_(), offsets, method=method)
        gradients = (torch.autograd.grad(ranks, scores, upstream, retain_graph=True)[0] for _ in range(2))
        runs.append((ranks, *gradients))
    assert torch.equal(runs[0][1], runs[0][2])
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))
    monkeypatch.setattr("rankbound.smooth_ranks.PAIRS_PER_CHUNK", 1000)
    monkeypatch.setattr("rankbound.smooth_ranks.ROWS_PER_CHUNK", 7)
    scores, offsets = batch([90, 0, 45, 1], 20.0)
    assert_same_as_written_out(scores, offsets, method=method)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_half_precision_scores_have_the_gradient_of_double_ones(dtype: torch.dtype, method: str) -> None:
    scores, offsets = batch([1000, 40], 2.0, dtype=dtype)
    upstream = torch.where(torch.arange(len(scores)) % 3 == 0, 1.0, -1.0)
    gradients = []
    for leaf in (scores.requires_grad_(), scores.detach().to(torch.float64).requires_grad_()):
        ranks = rb.smooth_rank(leaf, offsets, method=method, temperature=0.1)
        gradients += torch.autograd.grad(ranks, leaf, upstream.to(ranks))
    found, expected = gradients
    torch.testing.assert_close(
        found.to(torch.float64), expected, rtol=0, atol=float(torch.finfo(dtype).eps * expected.abs().max())
    )


def test_scores_may_be_whole_numbers_in_a_list() -> None:
    assert torch.equal(rb.smooth_rank([3, 1, 2], [0, 3]), rb.smooth_rank(torch.tensor([3.0, 1, 2]).double(), [0, 3]))


@pytest.mark.parametrize("method", METHODS)
def test_autocast_changes_nothing(method: str) -> None:
    """Nor when the backward pass stands inside the context."""
    scores, offsets = batch([100, 20], 3.0, dtype=torch.float32)
    scores.requires_grad_()
    ranks = rb.smooth_rank(scores, offsets, method=method)
    (gradient,) = torch.autograd.grad(ranks[:50].square().sum(), scores)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        automatic = rb.smooth_rank(scores, offsets, method=method)
        (automatic_gradient,) = torch.autograd.grad(automatic[:50].square().sum(), scores)
    torch.testing.assert_close(automatic, ranks, rtol=1e-6, atol=0)
    torch.testing.assert_close(automatic_gradient, gradient, rtol=1e-5, atol=1e-4)


test_bad_arguments_are_named = refusals(
    [
        ({"method": "fast"}, "^method: found fast, expected one of direct, interpolated, auto"),
        ({"temperature": 0.0}, "^temperature: found 0.0, expected a number above 0"),
        ({"temperature": -1.0}, "^temperature: found -1.0"),
        ({"temperature": math.nan}, "^temperature: found nan"),
        ({"weights": torch.ones(2)}, "^weights: found 2 values, expected 3"),
        ({"offsets": torch.tensor([0, 2])}, "^offsets: found 0 .. 2, expected 0 .. 3"),
        ({"scores": torch.tensor([0.0, math.nan, 1.0])}, "^scores: found nan at item 1"),
        ({"scores": torch.tensor([0.0, 1.0, -math.inf])}, "^scores: found -inf at item 2"),
        ({"scores": torch.zeros(1, 3)}, "^scores: found shape"),
    ],
    lambda given: rb.smooth_rank(**{"scores": torch.zeros(3), "offsets": torch.tensor([0, 3])} | given),
)


# Sums of other kernels
def derivative(of: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def slope(x: Tensor) -> Tensor:
        leaf = x if x.requires_grad else x.clone().requires_grad_()
        return torch.autograd.grad(of(leaf).sum(), leaf, create_graph=True)[0]

    return slope


def tanh_link(x: Tensor) -> Tensor:
    return torch.log1p(torch.exp(torch.tanh(x / 2)))


KERNELS: dict[str, tuple[kernels.Kernel, Callable[[Tensor], Tensor]]] = {
    "sigmoid": (kernels.SIGMOID, torch.sigmoid),
    "its slope": (kernels.SIGMOID_SLOPE, derivative(torch.sigmoid)),
    "its curvature": (kernels.SIGMOID_CURVATURE, derivative(derivative(torch.sigmoid))),
    "softplus": (kernels.SOFTPLUS, lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    "tanh link": (kernels.TANH_LINK, tanh_link),
    "its slope ": (kernels.TANH_LINK_SLOPE, derivative(tanh_link)),
    "its curvature ": (kernels.TANH_LINK_CURVATURE, derivative(derivative(tanh_link))),
    "sigmoid from below": (kernels.SIGMOID.mirrored, lambda x: torch.sigmoid(-x)),
    "tanh link from below": (kernels.TANH_LINK.mirrored, lambda x: tanh_link(-x)),
    "its slope from below": (kernels.TANH_LINK_SLOPE.mirrored, lambda x: derivative(tanh_link)(-x)),
}


def kernel_sums(
    scores: Tensor, lists: Lists, kernel: kernels.Kernel, *weights: Tensor | None, **options: Any
) -> Tensor:
    given = {"targets": None, "temperature": 1.0, "method": "interpolated"} | options
    return _Sums(scores, lists, weights, *given.values(), PRECISE_ORDER).of(kernel).to(scores.dtype)


def assert_same_sums(
    name: str, scores: Tensor, lists: Lists, weights: Tensor | None, method: str, tau: float = 1.0
) -> None:
    (ours,) = kernel_sums(scores, lists, KERNELS[name][0], weights, temperature=tau, method=method).unbind(1)
    exact = sums_written_out(KERNELS[name][1], scores, lists, weights, tau)
    weight = lists.spread(lists.sum(torch.ones_like(exact) if weights is None else weights.abs().to(exact)))
    assert ours.dtype == scores.dtype
    rounding = torch.finfo(scores.dtype).eps * 8 * (exact.abs() + weight)
    assert (ours - exact).abs().sub(SHARE_OF_THE_WEIGHTS * weight + rounding).max() <= 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", KERNELS)
def test_sums_are_those_written_out(name: str, scene: str, method: str) -> None:
    scores = SCENES[scene]()
    weights = torch.randn(len(scores), dtype=torch.float64, generator=generator(1))
    assert_same_sums(name, scores, Lists(LIMITS), weights, method)
    if scene.startswith("spread"):
        assert_same_sums(name, scores, Lists(LIMITS), None, method, tau=0.7)
        assert_same_sums(name, scores.to(torch.float32), Lists(LIMITS), weights.abs().to(torch.float32), method)


@pytest.mark.parametrize("outlier", [1e4, 1e7])
def test_growing_kernels_are_relatively_precise_at_every_height(outlier: float) -> None:
    """Softplus of far gaps is the gap; the few items just below the top must not inherit the rounding of the rest."""
    scores, lists = batch(RAGGED, 30.0)[0], Lists(LIMITS)
    scores[5:100] -= outlier
    scores[100:200] += outlier
    ours = kernel_sums(scores, lists, kernels.SOFTPLUS, None).squeeze(1)
    torch.testing.assert_close(ours, sums_written_out(KERNELS["softplus"][1], scores, lists, None), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", KERNELS)
def test_sums_know_no_other_lists_and_kernels_are_finite_at_any_gap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outlier in one list must not reach another."""
    scores, lists = batch(RAGGED, 50.0)[0], Lists(LIMITS)
    scores[2] = 1e7
    weights = torch.rand(len(scores), dtype=torch.float64, generator=generator(2))

    def sums(part: slice, lists: Lists) -> Tensor:
        return kernel_sums(scores[part], lists, KERNELS[name][0], weights[part])

    dense = sums(slice(None), lists)
    for part in lists.each():
        alone = sums(part, Lists(torch.tensor([0, part.stop - part.start])))
        torch.testing.assert_close(alone, dense[part], rtol=1e-9, atol=1e-12)
    monkeypatch.setattr("rankbound.smooth_ranks.DENSE_ROWS", 0)
    monkeypatch.setattr("rankbound.smooth_ranks.DENSE_ROWS_PER_ITEM", 0)
    torch.testing.assert_close(sums(slice(None), lists), dense, rtol=1e-9, atol=1e-12)
    kernel, exact = KERNELS[name]
    gaps = torch.tensor([18.0, 25.0, 300.0], dtype=torch.float64)
    above = gaps if kernel.linear else torch.full_like(gaps, kernel.above)
    torch.testing.assert_close(exact(gaps), above, rtol=0, atol=5e-8)
    torch.testing.assert_close(exact(-gaps), torch.full_like(gaps, kernel.below), rtol=0, atol=5e-8)
    for dtype in DTYPES:
        assert kernel.at(torch.tensor([-1e30, -1e4, -90.0, 0.0, 90.0, 1e4, 1e30], dtype=dtype)).isfinite().all()


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_targets_and_columns_are_parts_of_the_whole(method: str) -> None:
    scores, lists = batch(RAGGED, 3.0)[0], Lists(LIMITS)
    weights = tuple(torch.rand(len(scores), generator=generator(seed)) for seed in (0, 1))
    targets = torch.tensor([0, 1, 2, 7, 300, 420, len(scores) - 1])
    some = kernel_sums(scores, lists, kernels.SOFTPLUS, *weights, None, targets=targets, method=method)
    assert some.shape == (7, 3)
    for column, weight in enumerate((*weights, None)):
        whole = kernel_sums(scores, lists, kernels.SOFTPLUS, weight, method=method).squeeze(1)
        torch.testing.assert_close(some[:, column], whole[targets], rtol=1e-6, atol=1e-6)
