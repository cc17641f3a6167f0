"""Sums of any kernel over the items of a list: both ways against a float64 double sum that is written out here.

Interpolated sums may miss a small share of the weights involved. Where a kernel fades out, a share of the sum itself
means nothing: beyond 18 temperatures it counts as 0, where the sigmoid's slope is 1.5e-8.
"""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rankbound.interpolation import (
    SIGMOID,
    SIGMOID_CURVATURE,
    SIGMOID_SLOPE,
    SOFTPLUS,
    TANH_LINK,
    TANH_LINK_CURVATURE,
    TANH_LINK_SLOPE,
    Kernel,
)
from rankbound.lists import Lists
from rankbound.smooth_ranks import kernel_sums

SHARE_OF_THE_WEIGHTS = 1e-7


def sigma(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def slope(x: Tensor) -> Tensor:
    # Even, and without cancellation: sigma(x) sigma(-x).
    return sigma(x) * sigma(-x)


def tanh_link(x: Tensor) -> Tensor:
    return torch.log1p(torch.exp(torch.tanh(x / 2)))


def tanh_slope(x: Tensor) -> Tensor:
    return 2 * slope(x) * sigma(torch.tanh(x / 2))


def tanh_curvature(x: Tensor) -> Tensor:
    bent = torch.tanh(x / 2)
    return 4 * slope(x) ** 2 * slope(bent) + 2 * slope(x) * (1 - 2 * sigma(x)) * sigma(bent)


KERNELS: dict[str, tuple[Kernel, Callable[[Tensor], Tensor]]] = {
    "sigmoid": (SIGMOID, sigma),
    "its slope": (SIGMOID_SLOPE, slope),
    "its curvature": (SIGMOID_CURVATURE, lambda x: slope(x) * (1 - 2 * sigma(x))),
    "softplus": (SOFTPLUS, lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    "tanh link": (TANH_LINK, tanh_link),
    "its slope ": (TANH_LINK_SLOPE, tanh_slope),
    "its curvature ": (TANH_LINK_CURVATURE, tanh_curvature),
    "sigmoid from below": (SIGMOID.mirrored, lambda x: sigma(-x)),
    "tanh link from below": (TANH_LINK.mirrored, lambda x: tanh_link(-x)),
    "its slope from below": (TANH_LINK_SLOPE.mirrored, lambda x: tanh_slope(-x)),
}
RAGGED = [1, 0, 2, 400, 1, 37, 0, 5]
METHODS = ["direct", "interpolated"]


def written_out(name: str, scores: Tensor, lists: Lists, weights: Tensor | None, tau: float = 1.0) -> Tensor:
    scores = scores.to(torch.float64)
    weights = torch.ones_like(scores) if weights is None else weights.to(torch.float64)
    sums = []
    for part in lists.each():
        gaps = (scores[part][None, :] - scores[part][:, None]) / tau
        sums.append((KERNELS[name][1](gaps) * weights[part]).sum(1))
    return torch.cat(sums)


def assert_same(name: str, scores: Tensor, lists: Lists, weights: Tensor | None, method: str, tau: float = 1.0) -> None:
    (ours,) = kernel_sums(scores, lists, KERNELS[name][0], (weights,), temperature=tau, method=method).unbind(1)
    exact = written_out(name, scores, lists, weights, tau)
    weight = lists.spread(lists.sum(torch.ones_like(exact) if weights is None else weights.abs().to(exact)))
    assert ours.dtype == scores.dtype
    rounding = torch.finfo(scores.dtype).eps * 8 * (exact.abs() + weight)
    assert (ours - exact).abs().sub(SHARE_OF_THE_WEIGHTS * weight + rounding).max() <= 0


def batch(spread: float, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Lists]:
    scores = spread * torch.randn(sum(RAGGED), dtype=torch.float64, generator=generator(seed))
    scores[100:130] = scores[100].clone()
    return scores.to(dtype), Lists(torch.tensor([0, *RAGGED]).cumsum(0))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("name", KERNELS)
def test_score_spreads(name: str, spread: float, method: str) -> None:
    scores, lists = batch(spread)
    weights = torch.randn(len(scores), dtype=torch.float64, generator=generator(1))
    assert_same(name, scores, lists, weights, method)
    assert_same(name, scores, lists, None, method, tau=0.7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNELS)
def test_single_precision(name: str, method: str) -> None:
    scores, lists = batch(2.0, torch.float32)
    assert_same(name, scores, lists, torch.rand(len(scores), generator=generator(1)), method)


@pytest.mark.parametrize("shift", [0.0, 1.0, -12345.678])
@pytest.mark.parametrize("name", KERNELS)
def test_ties_wherever_they_lie(name: str, shift: float) -> None:
    scores, lists = batch(0.0)
    assert_same(name, scores + shift, lists, None, "interpolated")
    assert_same(name, scores + shift + torch.arange(len(scores)) % 3, lists, None, "interpolated")


@pytest.mark.parametrize("outlier", [1e4, -1e4, 1e7])
@pytest.mark.parametrize("name", KERNELS)
def test_outliers_and_clusters_keep_the_precision_of_the_rest(name: str, outlier: float) -> None:
    scores, lists = batch(1.0)
    scores[[0, 3, 300]] = outlier
    assert_same(name, scores, lists, None, "interpolated")
    scores[50:200] += outlier
    assert_same(name, scores, lists, None, "interpolated")


@pytest.mark.parametrize("gap", [16.0, 17.9, 18.0, 18.1, 20.0, 21.9, 30.0])
@pytest.mark.parametrize("name", KERNELS)
def test_gaps_around_the_bands_edge(name: str, gap: float) -> None:
    scores, lists = batch(0.5)
    scores[150:] += gap
    assert_same(name, scores, lists, None, "interpolated")


@pytest.mark.parametrize("outlier", [1e4, 1e7])
def test_growing_kernels_are_relatively_precise_at_every_height(outlier: float) -> None:
    """Softplus of far gaps is the gap; the few items just below the top must not inherit the rounding of the rest."""
    scores, lists = batch(30.0)
    scores[5:100] -= outlier
    scores[100:200] += outlier
    ours = kernel_sums(scores, lists, SOFTPLUS, (None,), method="interpolated").squeeze(1)
    torch.testing.assert_close(ours, written_out("softplus", scores, lists, None), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", KERNELS)
def test_occupied_boxes_alone_give_the_same_as_all_boxes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, lists = batch(50.0)
    weights = torch.rand(len(scores), dtype=torch.float64, generator=generator(2))

    def sums() -> Tensor:
        return kernel_sums(scores, lists, KERNELS[name][0], (weights,), method="interpolated")

    dense = sums()
    monkeypatch.setattr("rankbound.interpolation.DENSE_ROWS", 0)
    monkeypatch.setattr("rankbound.interpolation.DENSE_ROWS_PER_ITEM", 0)
    torch.testing.assert_close(sums(), dense, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_a_list_alone_is_the_same_list_in_any_batch(name: str) -> None:
    scores, lists = batch(5.0)
    scores[2] = 1e7  # an outlier in one list must not reach another
    together = kernel_sums(scores, lists, KERNELS[name][0], (None,), method="interpolated")
    for part, size in zip(lists.each(), RAGGED, strict=True):
        alone = kernel_sums(
            scores[part], Lists(torch.tensor([0, size])), KERNELS[name][0], (None,), method="interpolated"
        )
        torch.testing.assert_close(alone, together[part], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=12),
    st.sampled_from(sorted(KERNELS)),
    st.integers(0, 9),
)
def test_any_scores(method: str, values: list[float], name: str, seed: int) -> None:
    scores = torch.tensor(values, dtype=torch.float64)
    weights = torch.randn(len(values), dtype=torch.float64, generator=generator(seed))
    assert_same(name, scores, Lists(torch.tensor([0, len(values)])), weights, method)


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_targets_and_columns_are_parts_of_the_whole(method: str) -> None:
    scores, lists = batch(3.0)
    weights = tuple(torch.rand(len(scores), generator=generator(seed)) for seed in (0, 1))
    targets = torch.tensor([0, 1, 2, 7, 300, 420, len(scores) - 1])
    some = kernel_sums(scores, lists, SOFTPLUS, (*weights, None), targets=targets, method=method)
    assert some.shape == (7, 3)
    for column, weight in enumerate((*weights, None)):
        whole = kernel_sums(scores, lists, SOFTPLUS, (weight,), method=method).squeeze(1)
        torch.testing.assert_close(some[:, column], whole[targets], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [[], [0], [0, 0]])
def test_no_items_no_sums(sizes: list[int], method: str) -> None:
    lists = Lists(torch.tensor([0, *sizes]))
    for kernel in (SIGMOID, SOFTPLUS, TANH_LINK):
        assert kernel_sums(torch.zeros(0), lists, kernel, (None, None), method=method).shape == (0, 2)


@pytest.mark.parametrize("name", KERNELS)
def test_far_away_a_kernel_is_what_it_states(name: str) -> None:
    kernel, exact = KERNELS[name]
    gaps = torch.tensor([18.0, 25.0, 300.0], dtype=torch.float64)
    above = gaps if kernel.linear else torch.full_like(gaps, kernel.above)
    torch.testing.assert_close(exact(gaps), above, rtol=0, atol=5e-8)
    torch.testing.assert_close(exact(-gaps), torch.full_like(gaps, kernel.below), rtol=0, atol=5e-8)


@pytest.mark.parametrize(
    ("kernel", "derivative"),
    [
        (SIGMOID, SIGMOID_SLOPE),
        (SIGMOID_SLOPE, SIGMOID_CURVATURE),
        (SOFTPLUS, SIGMOID),
        (TANH_LINK, TANH_LINK_SLOPE),
        (TANH_LINK_SLOPE, TANH_LINK_CURVATURE),
    ],
)
def test_derivatives(kernel: Kernel, derivative: Kernel) -> None:
    gaps, step = torch.linspace(-30, 30, 601, dtype=torch.float64), 1e-5
    differences = (kernel.at(gaps + step) - kernel.at(gaps - step)) / (2 * step)
    torch.testing.assert_close(derivative.at(gaps), differences, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_finite_at_any_gap(name: str, dtype: torch.dtype) -> None:
    gaps = torch.tensor([-1e30, -1e4, -90.0, 0.0, 90.0, 1e4, 1e30], dtype=dtype)
    assert torch.isfinite(KERNELS[name][0].at(gaps)).all()


def test_a_growing_kernel_has_no_mirror_image() -> None:
    with pytest.raises(ValueError, match=r"^kernel: found a linear one"):
        _ = SOFTPLUS.mirrored


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"method": "fast"}, "^method: found 'fast', expected one of auto, direct, interpolated"),
        ({"temperature": 0.0}, "^temperature: found 0.0, expected a number above 0"),
        ({"temperature": math.nan}, "^temperature: found nan"),
    ],
)
def test_bad_arguments_are_named(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel_sums(torch.zeros(2), Lists(torch.tensor([0, 2])), SIGMOID, (None,), **keywords)  # type: ignore[arg-type]
