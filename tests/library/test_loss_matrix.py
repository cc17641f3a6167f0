"""Every loss has every property: metrics x bounds x what a training run relies on.

A new metric or bound joins by being listed in LOSSES and, with its arithmetic, in `smooth_value`.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from brute_force import METRICS, Order, distribution, graded_orders, mean
from test_every_loss import Row, flat, loss_and_gradient

import rankbound as rb

AFFINE = ("min-max", "expectation", "expectation-max")
DISTRIBUTIONS = ("distribution", "distribution(gain=drawn)", "distribution(gain=sd)")
DISTRIBUTED = ("nDCG", "AP", "nRBP", "nDCG@3", "RR", "P@3", "RBP(p=0.8)")
BINARY = (*DISTRIBUTED, "nDCG(discount=log2(r))", "DCG", "P@10", "nRBP(p=0.8)")
LOSSES = [(name, bound) for name in BINARY for bound in ("none", *AFFINE)]
LOSSES += [(name, bound) for name in DISTRIBUTED for bound in DISTRIBUTIONS]
GRADED = [
    (name, bound)
    for name in ("nDCG", "nDCG(gain=linear)", "nDCG@3", "DCG(gain=linear)@2", "AP(rel=2)", "nRBP(rel=2)")
    for bound in ("none", *AFFINE, "distribution", "distribution(gain=sd)")
]
METHODS = ("direct", "interpolated")

Floats = npt.NDArray[np.float64]
GENERIC: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [1, 0, 0, 1]),
    ([1.5, 0.1], [0, 1]),
    ([-0.7, 0.2, 0.25, 3.0, -2.0, 0.0], [0, 1, 1, 0, 1, 0]),
    ([4.0, -4.0, 0.5, 1.0, 2.5], [0, 0, 1, 0, 0]),
    ([0.01, 0.02, 0.04], [1, 1, 0]),
]
WITHOUT_INFORMATION: list[Row] = [([], []), ([1.0, 2.0, 3.0], [0, 0, 0]), ([0.5], [0])]
WITHOUT_ANOTHER_ORDER: list[Row] = [([0.7], [1]), ([0.3, -0.2, 5.0], [1, 1, 1])]
EXTREME: list[Row] = [
    ([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 1]),
    ([1.0, 1.0], [0, 1]),
    ([1e4, 0.0, -1e4, 3.0], [1, 0, 1, 0]),
    ([-1e4, 1e4, 0.0], [1, 0, 0]),
    ([1e4, 1e4, 0.0, 0.1], [0, 1, 0, 1]),
]
GRADED_ROWS: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [2, 0, 1, 3]),
    ([1.0, 0.1, -0.3, 0.2, 0.7], [0, 0, 1, 4, 2]),
    ([0.0, 2.0, 1.0], [1, 0, 2]),
]
DEGENERATE = [*WITHOUT_INFORMATION, *GENERIC[:1], *WITHOUT_ANOTHER_ORDER, *EXTREME, *WITHOUT_INFORMATION]


def written_out(name: str, bound: str, scores: Floats, grades: Sequence[int]) -> float:
    """The loss of one list as the thesis' equations spell it, with brute force over its orders."""
    known = [METRICS[name](order) for order in orders_of(tuple(grades))]
    sign = 1 if name.startswith("nRBP") and "p=" not in name else -1
    value = smooth_value(name, scores, np.array(grades))
    low, high, expected = min(known), max(known), mean(known)  # type: ignore[type-var]
    if bound.startswith("distribution"):
        support, chance = np.array([[float(s), float(c)] for s, c in distribution(known)]).T
        span, sd = support[-1] - support[0], math.sqrt((support - expected) ** 2 @ chance)
        gains = {"distribution": len(support) / span, "distribution(gain=drawn)": 300_000 / span}
        gain = gains.get(bound, 1 / sd)
        return float(sign * chance @ sigmoid(gain * (value - support)))
    bounded = {
        "none": lambda: value,
        "min-max": lambda: (value - float(low)) / float(high - low),  # type: ignore[operator,arg-type]
        "expectation": lambda: value / expected,
        "expectation-max": lambda: (value - expected) / (float(high) - expected),  # type: ignore[arg-type]
    }[bound]
    return float(sign * bounded())


@cache
def orders_of(grades: Order) -> list[Order]:
    return graded_orders(grades)


def smooth_value(name: str, scores: Floats, grades: npt.NDArray[np.int64]) -> float:
    """Eqs. 2.9 to 2.12, and the other metrics with smooth ranks in the place of ranks."""
    above = sigmoid(scores[None, :] - scores[:, None])
    np.fill_diagonal(above, 0)
    rank = 1 + above.sum(1)
    relevant = grades >= (2 if "rel=2" in name else 1)
    p = relevant.sum()
    kind, cutoff = name.partition("@")[::2]
    k = int(cutoff or 10**9)
    inside = sigmoid(k + 0.5 - rank)
    if kind.startswith(("nDCG", "DCG")):
        gain = grades if "linear" in kind else 2.0**grades - 1
        discount = np.log2(np.maximum(rank, 2)) if "log2(r)" in kind else np.log2(rank + 1)
        total = float((gain / discount * inside).sum())
        return total if kind.startswith("DCG") else total / float(METRICS[name.replace("nDCG", "DCG")](_ideal(grades)))
    if kind.startswith("AP"):
        among = 1 + (above * relevant).sum(1)
        return float((relevant * among / rank).sum() / p)
    if kind == "RR":
        return float(1 / rank[relevant].min())
    if kind == "P":
        return float((relevant * inside).sum() / k)
    if "p=0.8" in kind:
        total = 0.2 * float((relevant * 0.8 ** (rank - 1)).sum())
        return total / (1 - 0.8 ** float(p)) if kind.startswith("n") else total
    return float((relevant * (rank - 1)).sum() - p * (p - 1) / 2)


def _ideal(grades: npt.NDArray[np.int64]) -> Order:
    return tuple(sorted(grades.tolist(), reverse=True))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def differences(name: str, bound: str, scores: Floats, grades: Sequence[int], step: float = 1e-6) -> list[float]:
    """The gradient of the written-out loss by central differences."""
    moves = step * np.eye(len(scores))
    values = [[written_out(name, bound, scores + way * move, grades) for way in (1, -1)] for move in moves]
    return [(up - down) / (2 * step) for up, down in values]


every_loss = pytest.mark.parametrize(("name", "bound"), LOSSES)
every_case = pytest.mark.parametrize(
    ("name", "bound", "graded"), [(*pair, graded) for graded, pairs in enumerate((LOSSES, GRADED)) for pair in pairs]
)
every_method = pytest.mark.parametrize("method", METHODS)


def informative(name: str, bound: str, rows: Sequence[Row]) -> list[Row]:
    """The rows that this loss can order: for P@10 of a short list all orders are alike."""
    if bound == "none":
        return list(rows)
    return [row for row in rows if len({METRICS[name](order) for order in orders_of(tuple(row[1]))}) > 1]


def batch_of(name: str, bound: str, graded: bool, extreme: list[Row]) -> list[Row]:
    return GRADED_ROWS if graded else informative(name, bound, [*GENERIC, *extreme])


@every_case
@every_method
def test_value_is_the_written_out_arithmetic(name: str, bound: str, graded: bool, method: str) -> None:
    rows = batch_of(name, bound, graded, EXTREME)
    values, _ = loss_and_gradient(rb.SmoothLoss(name, bound, method=method), rows)
    expected = [written_out(name, bound, np.array(scores), grades) for scores, grades in rows]
    # `drawn` multiplies the ranks' own tolerance by a gain of 300,000 and more.
    tolerance = 5e-3 if "drawn" in bound else 1e-6 if graded else 3e-6
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@every_case
@every_method
def test_gradient_is_that_of_the_written_out_arithmetic(name: str, bound: str, graded: bool, method: str) -> None:
    if "drawn" in bound:
        bound = "distribution(gain=sd)"  # a step of 1 / 300,000 has no finite differences; the code is the same
    rows = batch_of(name, bound, graded, [])
    _, gradient = loss_and_gradient(rb.SmoothLoss(name, bound, method=method), rows)
    expected = [slope for scores, grades in rows for slope in differences(name, bound, np.array(scores), grades)]
    scale = max(map(abs, expected), default=1.0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * scale if "distribution" in bound else 1e-7)


@every_loss
@every_method
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_always_finite(name: str, bound: str, method: str, dtype: torch.dtype) -> None:
    values, gradient = loss_and_gradient(rb.SmoothLoss(name, bound, method=method), DEGENERATE, dtype)
    assert values.dtype == dtype
    assert values.shape == (len(DEGENERATE),)
    assert torch.isfinite(values).all(), values
    assert torch.isfinite(gradient).all(), gradient


@every_loss
@every_method
def test_a_list_without_information_is_0_with_no_gradient(name: str, bound: str, method: str) -> None:
    """Without relevant items always; without another order where a bound would divide by 0."""
    rows = WITHOUT_INFORMATION if bound == "none" else [*WITHOUT_INFORMATION, *WITHOUT_ANOTHER_ORDER]
    values, gradient = loss_and_gradient(rb.SmoothLoss(name, bound, method=method), rows)
    assert values.tolist() == [0] * len(rows)
    assert gradient.tolist() == [0] * len(gradient)


@pytest.mark.parametrize(("name", "bound"), [pair for pair in LOSSES if pair[1] in ("none", *AFFINE)])
@every_method
def test_a_low_temperature_gives_the_hard_bounded_metric(name: str, bound: str, method: str) -> None:
    scores, relevance, offsets = flat(informative(name, bound, GENERIC))
    loss = rb.SmoothLoss(name, bound, temperature=5e-4, method=method)
    hard = rb.bounded(name, bound)(scores.detach(), relevance, offsets)
    sign = -1 if loss.metric.higher_is_better else 1
    torch.testing.assert_close(loss(scores, relevance, offsets).detach(), sign * hard, rtol=1e-6, atol=1e-6)


@every_method
@pytest.mark.parametrize("p", [1, 2, 3, 10, 22])
def test_ndcg_of_half_relevant_lists_has_two_equivalent_bounds(p: int, method: str) -> None:
    """At N = 2P, twice the expectation is 1 plus the minimum: expectation-max = 2 min-max - 1 (erratum T27)."""
    scores = [math.sin(3.0 * i) for i in range(2 * p)]
    row = (scores, [int(i % 2 == 0) for i in range(2 * p)])
    above, min_max = (
        loss_and_gradient(rb.SmoothLoss("nDCG", bound, method=method), [row])
        for bound in ("expectation-max", "min-max")
    )
    # Losses are negated: -(2 m - 1) = 2 (-m) + 1.
    torch.testing.assert_close(above[0], 2 * min_max[0] + 1, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(above[1], 2 * min_max[1], rtol=1e-12, atol=1e-15)


def test_smooth_ndcg_may_leave_the_hard_range_and_ap_and_nrbp_do_not() -> None:
    """Erratum T-sm-neg: 1/log2(1 + r) is convex, so that ties at the bottom score below the worst order."""
    row = ([-10.0, -10.0, 10.0], [1, 1, 0])
    losses = {
        name: float(loss_and_gradient(rb.SmoothLoss(name, "min-max"), [row])[0]) for name in ("nDCG", "AP", "nRBP")
    }
    assert losses["nDCG"] == pytest.approx(0.0486804834, abs=1e-8)
    assert -1 <= losses["AP"] <= 0
    assert 0 <= losses["nRBP"] <= 1


@pytest.mark.parametrize("bound", ["none", "min-max", "distribution"])
@pytest.mark.parametrize("name", ["nDCG", "AP"])
def test_relevance_is_a_constant(name: str, bound: str) -> None:
    """With or without kernels: relevance that another model computes gets no gradient, not even a part of it."""
    scores = torch.tensor([0.3, -1.2, 2.0, 0.9]).requires_grad_()
    relevance, offsets = torch.tensor([1.0, 0.0, 0.0, 1.0]).requires_grad_(), torch.tensor([0, 4])
    rb.loss(name, bound)(scores, relevance, offsets, reduction="mean").backward()  # type: ignore[no-untyped-call]
    rb.loss("squared")(scores, relevance, offsets, reduction="mean").backward()  # type: ignore[no-untyped-call]
    assert relevance.grad is None
    assert scores.grad is not None
    assert not rb.metric(name)(scores, relevance, offsets).requires_grad
    assert rb.bounded(name, bound)(scores.tolist(), relevance, offsets).shape == (1,)


def test_a_loss_is_named_by_its_metric_and_bound() -> None:
    loss = rb.SmoothLoss("nDCG(gain=exp2)@10", "min-max", temperature=0.5)
    assert repr(loss) == "SmoothLoss(nDCG@10, bound=min-max, temperature=0.5)"
    assert not list(loss.parameters())
    with pytest.raises(ValueError, match="Did you mean nDCG"):
        rb.SmoothLoss("ndgc")
    with pytest.raises(ValueError, match="Did you mean min-max"):
        rb.SmoothLoss("nDCG", "min_max")


@pytest.mark.parametrize("name", [name for name, bound in GRADED if bound == "distribution"])
def test_binary_and_graded_lists_share_a_batch(name: str) -> None:
    loss = rb.SmoothLoss(name, "distribution")
    rows = [*GRADED_ROWS, *informative(name, "distribution", GENERIC), *GRADED_ROWS[::-1]]
    values, gradient = loss_and_gradient(loss, rows)
    alone = [loss_and_gradient(rb.SmoothLoss(name, "distribution"), [row]) for row in rows]
    torch.testing.assert_close(values, torch.cat([value for value, _ in alone]), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient, torch.cat([own for _, own in alone]), rtol=1e-6, atol=1e-9)


def test_tables_of_another_metric_are_refused() -> None:
    from rankbound.bounds.tables import DistributionsOnDemand

    with pytest.raises(ValueError, match=r"^tables: found distributions of AP, expected those of nDCG"):
        rb.SmoothLoss("nDCG", "distribution", tables=DistributionsOnDemand("AP"))
