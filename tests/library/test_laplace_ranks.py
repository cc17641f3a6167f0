r"""Smooth ranks by the Laplace step: scans against a float64 sum over all pairs that is written out here."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rankbound as rb
from rankbound.kernel_sums import kernel_sums
from rankbound.kernels import LAPLACE, LAPLACE_CURVATURE, LAPLACE_SLOPE, LAPLACE_SLOPE_SQUARED, Kernel
from rankbound.lists import Lists

RAGGED = [1, 0, 2, 300, 1, 37, 0, 5]
SPREADS = [1e-6, 0.01, 1.0, 30.0, 1e6]
DTYPES = [torch.float32, torch.float64]
METHODS = ["auto", "scanned", "direct"]
LOSSES = ("nDCG", "nDCG@3", "DCG", "AP", "RR", "P@3", "nRBP", "nRBP(p=0.8)", "PairAccuracy")
BOUNDS = ("none", "min-max", "expectation", "expectation-max", "distribution", "distribution(gain=sd)")


def step(gap: Tensor) -> Tensor:
    """The distribution function; clamps at 0 pass the gradient on, 1/2 on either side."""
    return torch.where(gap < 0, gap.clamp(max=0).exp() / 2, 1 - gap.clamp(min=0).neg().exp() / 2)


def written_out(scores: Tensor, offsets: Tensor, weights: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """R_i = 1 + sum_{j != i} w_j F((s_j - s_i) / tau), list by list, in float64."""
    scores = scores.to(torch.float64)
    weights = torch.ones_like(scores) if weights is None else weights.to(torch.float64)
    ranks = [torch.zeros(0, dtype=torch.float64)]
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        s, w = scores[start:stop], weights[start:stop]
        others = 1 - torch.eye(stop - start, dtype=torch.float64)
        ranks.append(1 + (step((s[None, :] - s[:, None]) / temperature) * others * w).sum(1))
    return torch.cat(ranks)


def batch(sizes: list[int], spread: float, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Normal scores of this spread, a third of them tied, also across lists."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(sizes), dtype=torch.float64, generator=generator)
    tied = torch.rand(sum(sizes), generator=generator) < 1 / 3
    scores[tied] = scores[tied].round()
    return (spread * scores).to(dtype), torch.tensor([0, *sizes]).cumsum(0)


def assert_same_as_written_out(
    scores: Tensor, offsets: Tensor, weights: Tensor | None = None, temperature: float = 1.0, method: str = "auto"
) -> None:
    upstream = torch.randn(len(scores), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, exact = scores.clone().requires_grad_(), scores.to(torch.float64, copy=True).requires_grad_()
    ranks = rb.smooth_rank(ours, offsets, weights=weights, temperature=temperature, method=method, kernel="laplace")
    expected = written_out(exact, offsets, weights, temperature)
    assert ranks.dtype == scores.dtype
    torch.testing.assert_close(
        ranks.detach(),
        expected.detach().to(scores.dtype),
        rtol=1e-12 if scores.dtype == torch.float64 else 1e-6,
        atol=0,
    )
    ranks.backward(upstream.to(ranks))
    expected.backward(upstream)
    assert ours.grad is not None
    assert exact.grad is not None
    for part in Lists(offsets).each():
        missed, size = (ours.grad[part] - exact.grad[part]).norm(), exact.grad[part].norm()
        assert missed <= (1e-10 if scores.dtype == torch.float64 else 1e-4) * size + 1e-9 / temperature


@pytest.fixture(params=["with kernels", "without"], autouse=True)
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKBOUND_FAST", "1" if request.param == "with kernels" else "0")
        yield


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("spread", SPREADS)
def test_score_spreads(spread: float, dtype: torch.dtype, method: str) -> None:
    scores, offsets = batch(RAGGED, spread, dtype=dtype)
    assert_same_as_written_out(scores, offsets, method=method)
    weights = torch.rand(len(scores), generator=torch.Generator().manual_seed(2)).to(dtype)
    assert_same_as_written_out(scores, offsets, weights, 0.7, method)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.sampled_from(SPREADS),
    st.sampled_from([0.1, 1.0, 3.0]),
    st.sampled_from(DTYPES),
    st.integers(0, 1000),
)
def test_any_batch(sizes: list[int], spread: float, temperature: float, dtype: torch.dtype, seed: int) -> None:
    scores, offsets = batch(sizes, spread, seed, dtype)
    assert_same_as_written_out(scores, offsets, None, temperature)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30))
def test_any_scores(values: list[float]) -> None:
    scores = torch.tensor(values, dtype=torch.float64)
    assert_same_as_written_out(scores, torch.tensor([0, len(scores)]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0]])
def test_no_items_no_ranks(sizes: list[int], method: str) -> None:
    scores = torch.zeros(0, requires_grad=True)
    ranks = rb.smooth_rank(scores, torch.tensor([0, *sizes]), method=method, kernel="laplace")
    assert ranks.shape == (0,)
    (slope,) = torch.autograd.grad(ranks.square().sum(), scores, create_graph=True)
    assert torch.autograd.grad(slope.sum(), scores)[0].shape == (0,)


@pytest.mark.parametrize("method", METHODS)
def test_tied_items_share_their_rank_and_lone_ones_have_rank_1(method: str) -> None:
    scores = torch.tensor([7.0, 2.0, 2.0, 2.0, -5.0, 2.0], dtype=torch.float64, requires_grad=True)
    ranks = rb.smooth_rank(scores, torch.tensor([0, 1, 4, 4, 6]), method=method, kernel="laplace")
    expected = [1.0, 2.0, 2.0, 2.0, 2 - math.exp(-7) / 2, 1 + math.exp(-7) / 2]
    assert ranks.tolist() == pytest.approx(expected, rel=1e-15)
    (ranks * torch.tensor([1e6, 1.0, 2.0, 0.0, 0.0, 0.0])).sum().backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == pytest.approx([0.0, 0.0, -1.5, 1.5, 0.0, 0.0])
    assert scores.grad[0] == 0


@pytest.mark.parametrize("method", METHODS)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.sampled_from(SPREADS), st.integers(0, 99))
def test_ranks_of_a_list_sum_to_that_of_any_order(method: str, sizes: list[int], spread: float, seed: int) -> None:
    scores, offsets = batch(sizes, spread, seed)
    ranks = rb.smooth_rank(scores, offsets, method=method, kernel="laplace")
    assert [float(part.sum()) for part in ranks.split(sizes)] == pytest.approx([n * (n + 1) / 2 for n in sizes])


@pytest.mark.parametrize("method", METHODS)
def test_only_differences_over_the_temperature_and_no_order_of_rows_count(method: str) -> None:
    scores, offsets = batch([80, 20], 2.0)

    def ranks(values: Tensor, temperature: float = 1.0) -> Tensor:
        return rb.smooth_rank(values, offsets, temperature=temperature, method=method, kernel="laplace")

    expected = ranks(scores)
    torch.testing.assert_close(ranks(scores * 0.25, 0.25), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(ranks(scores + 123.0), expected, rtol=1e-9, atol=0)
    order = torch.cat([torch.randperm(80, generator=torch.Generator().manual_seed(0)), torch.arange(80, 100)])
    torch.testing.assert_close(ranks(scores[order]), expected[order], rtol=1e-13, atol=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", SPREADS)
def test_a_list_alone_is_the_same_list_in_any_batch(spread: float, method: str) -> None:
    scores, offsets = batch(RAGGED, spread)
    scores[2] = 1e9  # an outlier in one list must not reach another
    scores.requires_grad_()
    upstream = torch.linspace(-1, 1, len(scores), dtype=torch.float64)
    together = rb.smooth_rank(scores, offsets, method=method, kernel="laplace")
    (gradient,) = torch.autograd.grad(together, scores, upstream)
    for part in Lists(offsets).each():
        alone = scores[part].detach().requires_grad_()
        ranks = rb.smooth_rank(alone, torch.tensor([0, len(alone)]), method=method, kernel="laplace")
        torch.testing.assert_close(ranks, together[part], rtol=1e-13, atol=0)
        (own,) = torch.autograd.grad(ranks, alone, upstream[part])
        torch.testing.assert_close(own, gradient[part], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_first_and_second_derivatives(method: str) -> None:
    scores = torch.tensor([0.3, -1.2, 2.0, 0.9, 5.0, -0.4, 0.5, 1.4], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 0.0, 0.5, 2.0, 1.0, 1.0, 0.0, 3.0], dtype=torch.float64)

    def ranks(values: Tensor) -> Tensor:
        offsets = torch.tensor([0, 4, 4, 5, 8])
        return rb.smooth_rank(values, offsets, weights=weights, temperature=0.7, method=method, kernel="laplace")

    assert torch.autograd.gradcheck(ranks, scores)
    assert torch.autograd.gradgradcheck(ranks, scores)


def test_second_derivatives_at_ties_are_the_mean_of_both_sides() -> None:
    """Where the two methods meet the jump of the second derivative; the first one is continuous."""
    scores, offsets = batch([9, 6], 1.0, seed=3)
    assert len(scores.unique()) < len(scores)

    def product(values: Tensor, method: str) -> Tensor:
        leaf = values.clone().requires_grad_()
        ranks = rb.smooth_rank(leaf, offsets, method=method, kernel="laplace")
        (slope,) = torch.autograd.grad(ranks.log().sum(), leaf, create_graph=True)
        return torch.autograd.grad((slope * torch.linspace(-1, 2, 15)).sum(), leaf)[0]

    found = product(scores, "scanned")
    torch.testing.assert_close(found, product(scores, "direct"))
    aside = 1e-7 * torch.randn(15, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    torch.testing.assert_close(
        found, (product(scores + aside, "scanned") + product(scores - aside, "scanned")) / 2, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("kernel", [LAPLACE, LAPLACE_SLOPE, LAPLACE_SLOPE_SQUARED, LAPLACE_CURVATURE])
@pytest.mark.parametrize("spread", SPREADS)
def test_scanned_sums_of_every_kernel_are_those_over_pairs(kernel: Kernel, spread: float) -> None:
    scores, offsets = batch(RAGGED, spread)
    weights = (None, torch.randn(len(scores), generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    scanned, direct = (
        kernel_sums(scores, Lists(offsets), kernel, weights, targets=torch.arange(1, 300, 7), method=method)
        for method in ("scanned", "direct")
    )
    torch.testing.assert_close(scanned, direct, rtol=1e-10, atol=1e-10)


def test_kernels_are_derivatives_of_each_other() -> None:
    x = torch.tensor([-30.0, -2.0, -0.1, 0.2, 1.0, 20.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(LAPLACE.at(x.detach()), step(x.detach()))
    (slope,) = torch.autograd.grad(step(x).sum(), x, create_graph=True)
    torch.testing.assert_close(LAPLACE_SLOPE.at(x.detach()), slope.detach())
    torch.testing.assert_close(LAPLACE_CURVATURE.at(x.detach()), torch.autograd.grad(slope.sum(), x)[0])
    assert LAPLACE.at(torch.zeros(1)).item() == LAPLACE_SLOPE.at(torch.zeros(1)).item() == 0.5


def relevance_of(offsets: Tensor, highest: int) -> Tensor:
    generator, n = torch.Generator().manual_seed(4), int(offsets[-1])
    return torch.randint(1, highest + 1, (n,), generator=generator) * (torch.rand(n, generator=generator) < 0.3)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("text", LOSSES)
def test_losses_and_their_bounds_are_those_of_the_direct_ranks(text: str, bound: str) -> None:
    scores, offsets = batch(RAGGED, 2.0)
    relevance = relevance_of(offsets, 1)

    def result(make: Callable[..., rb.RankingLoss], **keywords: object) -> tuple[Tensor, Tensor]:
        leaf = scores.clone().requires_grad_()
        value = make(text, bound, kernel="laplace", temperature=0.8, **keywords)(leaf, relevance, offsets)
        return value.detach(), torch.autograd.grad(value @ torch.arange(1.0, 9.0, dtype=value.dtype), leaf)[0]

    value, gradient = result(rb.loss)
    expected, slopes = result(rb.SmoothLoss, method="direct")
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, slopes, rtol=1e-8, atol=1e-10 * float(slopes.abs().max()))
    assert not torch.allclose(value, rb.loss(text, bound, 0.8)(scores, relevance, offsets), atol=1e-4)


@pytest.mark.parametrize("text", ["nDCG", "AP", "nRBP", "ERR(max=2)", "PairAccuracy"])
def test_curvature_is_the_diagonal_of_the_hessian(text: str) -> None:
    scores = torch.tensor([0.3, -1.2, 2.0, 0.9, -0.4, 0.5, 1.4, 0.0], dtype=torch.float64)
    relevance, offsets = torch.tensor([2, 0, 1, 2, 0, 0, 1, 0]), torch.tensor([0, 5, 8])
    loss = rb.SmoothLoss(text, "min-max", kernel="laplace", temperature=0.6)
    hessian = torch.autograd.functional.hessian(lambda x: loss(x, relevance, offsets).sum(), scores)
    found = loss.curvature(scores, relevance, Lists(offsets))
    torch.testing.assert_close(found, hessian.diagonal(), rtol=1e-9, atol=1e-12)
    assert found.abs().max() > 1e-3
    step, differences = 1e-5, torch.zeros_like(scores)
    for place in range(8):
        slopes = []
        for move in (step, -step):
            leaf = (scores + move * (torch.arange(8) == place)).requires_grad_()
            slopes.append(torch.autograd.grad(loss(leaf, relevance, offsets).sum(), leaf)[0][place])
        differences[place] = (slopes[0] - slopes[1]) / (2 * step)
    torch.testing.assert_close(found, differences, rtol=1e-4, atol=1e-7)


def test_adr_mse_takes_the_kernel_in_its_text() -> None:
    scores, offsets = batch(RAGGED, 2.0)
    relevance = relevance_of(offsets, 3)
    loss = rb.loss("ADR-MSE(kernel=laplace)")
    assert loss.text == "ADR-MSE(kernel=laplace)"
    direct = rb.loss("ADR-MSE(method=direct,kernel=laplace)")(scores, relevance, offsets)
    torch.testing.assert_close(loss(scores, relevance, offsets), direct)
    assert not torch.allclose(direct, rb.loss("ADR-MSE")(scores, relevance, offsets), rtol=1e-3)


def test_compiled_steps_call_the_loss() -> None:
    scores, offsets = batch([80, 20], 2.0)
    loss, relevance = rb.loss("nDCG", kernel="laplace"), relevance_of(offsets, 1)
    compiled = torch.compile(lambda x: 2 * loss(x, relevance, offsets).sum(), backend="eager")
    assert compiled(scores) == 2 * loss(scores, relevance, offsets).sum()


def test_the_kernel_is_part_of_the_representation() -> None:
    assert str(rb.loss("nDCG", kernel="laplace")) == "SmoothLoss(nDCG, bound=none, temperature=1, kernel=laplace)"
    assert str(rb.loss("nDCG")) == "SmoothLoss(nDCG, bound=none, temperature=1)"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"method": "interpolated"}, "^method: found 'interpolated', expected one of auto, direct, scanned"),
        ({"kernel": "cauchy"}, "^kernel: found cauchy, expected one of sigmoid, laplace"),
        ({"kernel": "sigmoid", "method": "scanned"}, "^method: found 'scanned', expected .* interpolated"),
        ({"temperature": 0.0}, "^temperature: found 0.0"),
    ],
)
def test_bad_arguments_are_named(keywords: dict[str, object], message: str) -> None:
    chosen = {"kernel": "laplace"} | keywords
    with pytest.raises(ValueError, match=message):
        rb.smooth_rank(torch.zeros(3), torch.tensor([0, 3]), **chosen)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        rb.SmoothLoss("nDCG", **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_refused(score: float) -> None:
    with pytest.raises(ValueError, match=r"^scores: found .* at item 1"):
        rb.smooth_rank(torch.tensor([0.0, score]), torch.tensor([0, 2]), kernel="laplace")


def test_other_losses_have_no_kernel() -> None:
    with pytest.raises(ValueError, match=r"^kernel: found laplace beside the loss RankNet, expected none"):
        rb.loss("RankNet", kernel="laplace")
    with pytest.raises(ValueError, match=r"^kernel: found laplace beside a loss"):
        rb.loss(rb.loss("nDCG"), kernel="laplace")
