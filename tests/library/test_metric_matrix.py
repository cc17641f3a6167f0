"""Every metric has every property: the metrics of `brute_force.METRICS` x what evaluation and training rely on.

A metric joins by being listed there with its arithmetic. Random batches are in `test_metric_properties.py`, the
extremes and expectations of binary lists in `test_bounds.py`.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from brute_force import METRICS, Order, binary_orders, graded_orders, mean, orders_of_ties

import rankbound as rb

Floats = npt.NDArray[np.float64]
Row = tuple[list[float], list[int]]
"""Scores and grades of one list."""

SHORT: list[Order] = [order for n in range(6) for order in product(range(4), repeat=n)]
GRADED: list[Order] = [(), (0,), (3,), (0, 0, 0), (2, 2), (3, 1), (2, 0, 1, 0), (3, 1, 0, 2, 1), (1, 0, 0, 1, 3, 0, 2)]
TIED: list[Row] = [
    ([1, 1, 1, 1, 1, 1], [0, 3, 1, 0, 2, 1]),
    ([2, 1, 1, 0, 0, 0], [1, 0, 2, 3, 0, 3]),
    ([0, 0, 0, 0], [0, 0, 0, 0]),
    ([3, 3, 1, 1, 1, 1, -2], [0, 0, 1, 2, 0, 1, 3]),
    ([5, 5, 5], [2, 2, 2]),
    ([1, 0, 0], [1, 0, 1]),
]
GENERIC: list[Row] = [
    ([0.3, -1.2, 2.0, 0.9], [3, 0, 0, 1]),
    ([1.5, 0.1], [0, 2]),
    ([-0.7, 0.2, 0.25, 3.0, -2.0, 0.0], [0, 1, 3, 0, 2, 0]),
    ([4.0, -4.0, 0.5, 1.0, 2.5], [0, 0, 3, 0, 0]),
    ([0.01, 0.02, 0.04], [1, 2, 0]),
    ([0.8, 0.1, -0.5, -0.9], [1, 0, 1, 1]),
]
DEGENERATE: list[Row] = [
    ([], []),
    ([0.5], [0]),
    ([0.7], [3]),
    ([1.0, 2.0, 3.0], [0, 0, 0]),
    ([0.3, -0.2, 5.0], [1, 1, 1]),
    ([0.3, -0.2, 5.0], [3, 2, 3]),
    ([0.0, 0.0, 0.0, 0.0], [3, 0, 0, 1]),
    ([1e4, 0.0, -1e4, 3.0], [1, 0, 2, 0]),
    ([1e4, 1e4, 0.0, 0.1], [0, 3, 0, 1]),
    ([9 - 9.0 * i for i in range(30)], [0] * 29 + [3]),
    ([], []),
]

every_metric = pytest.mark.parametrize("name", METRICS)


def flat(rows: Sequence[Row]) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    scores = np.array([score for row, _ in rows for score in row], dtype=float)
    grades = np.array([grade for _, row in rows for grade in row], dtype=np.int64)
    return scores, grades, np.cumsum([0, *(len(row) for row, _ in rows)])


def values(name: str, rows: Sequence[Row]) -> Floats:
    return np.asarray(rb.metric(name)(*flat(rows)))


def ranked(orders: Sequence[Order]) -> list[Row]:
    return [([-float(place) for place in range(len(order))], list(order)) for order in orders]


@cache
def of_all_orders(name: str, grades: Order) -> list[Any]:
    return [METRICS[name](order) for order in graded_orders(grades)]


def tensors(rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    scores, grades, offsets = map(torch.from_numpy, flat(rows))
    return scores.to(dtype).requires_grad_(), grades, offsets


@every_metric
def test_value_of_every_order_of_every_short_list(name: str) -> None:
    """All 1,365 lists of up to 5 items with grades 0 to 3; NaN exactly where the arithmetic is undefined."""
    np.testing.assert_allclose(
        values(name, ranked(SHORT)), [mean([METRICS[name](order)]) for order in SHORT], rtol=1e-12, atol=1e-14
    )


@every_metric
def test_value_under_ties_is_the_mean_over_all_tie_breaks(name: str) -> None:
    expected = [mean(map(METRICS[name], orders_of_ties(scores, grades))) for scores, grades in TIED]
    np.testing.assert_allclose(values(name, TIED), expected, rtol=1e-12, atol=1e-14)


@every_metric
def test_the_order_of_rows_and_a_shift_of_scores_do_not_count(name: str) -> None:
    rows = [*TIED, *GENERIC]
    turned = [([score - 7.5 for score in scores[::-1]], grades[::-1]) for scores, grades in rows]
    np.testing.assert_allclose(values(name, turned), values(name, rows), rtol=1e-13, atol=1e-15)


@every_metric
def test_a_batch_is_its_lists_one_by_one(name: str) -> None:
    rows = [*TIED, *DEGENERATE, *GENERIC]
    alone = np.concatenate([values(name, [row]) for row in rows])
    np.testing.assert_allclose(values(name, rows), alone, rtol=1e-13, atol=1e-15)


@every_metric
def test_extremes_and_expectation_of_graded_lists(name: str) -> None:
    grades, offsets = flat(ranked(GRADED))[1:]
    known = [of_all_orders(name, order) for order in GRADED]
    low, high = rb.extremes(name, grades, offsets)
    expected = rb.expectation(name, relevance=grades, offsets=offsets)
    for found, best in ((low, min), (high, max)):
        extreme = [math.nan if None in each else float(best(each)) for each in known]
        np.testing.assert_allclose(found, extreme, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(expected, [mean(each) for each in known], rtol=1e-12, atol=1e-14)


@every_metric
@pytest.mark.parametrize("cutoff", [1, 7])
def test_values_lie_between_the_extremes(name: str, cutoff: int) -> None:
    scores, grades, offsets = flat([*TIED, *GENERIC])
    low, high = rb.extremes(name, grades, offsets)
    found = rb.metric(name)(np.round(scores, cutoff), grades, offsets)
    assert ((found >= low - 1e-12) & (found <= high + 1e-12) | np.isnan(found)).all()
    assert np.isnan(found).tolist() == np.isnan(low).tolist() == np.isnan(high).tolist()


@every_metric
def test_closed_forms_of_binary_lists_are_those_of_the_lists(name: str) -> None:
    """Formulas of (N, P) against the walk over all orders, N <= 7."""
    sizes = [(n, p) for n in range(1, 8) for p in range(n + 1)]
    grade = getattr(rb.metric(name), "rel", 1)
    known = [[METRICS[name](tuple(grade * y for y in order)) for order in binary_orders(n, p)] for n, p in sizes]
    n, p = np.array(sizes).T
    for found, of in ((rb.minimum(name, n, p), min), (rb.maximum(name, n, p), max), (rb.expectation(name, n, p), mean)):
        expected = [math.nan if None in each else float(of(each)) for each in known]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@every_metric
def test_the_text_reads_back_as_the_metric(name: str) -> None:
    metric = rb.metric(name)
    assert rb.metric(str(metric)) == metric
    assert rb.loss(name).text == str(metric)


@every_metric
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_smooth_loss_is_finite_and_0_where_the_metric_is_undefined(name: str, dtype: torch.dtype) -> None:
    scores, grades, offsets = tensors(DEGENERATE, dtype)
    loss = rb.SmoothLoss(name)
    found = loss(scores, grades, offsets)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    assert torch.isfinite(gradient).all()
    undefined = torch.tensor([METRICS[name](tuple(row)) is None for _, row in DEGENERATE])
    assert not found[undefined].any()
    assert not (loss.informative(grades, offsets_of(offsets)) & undefined).any()


@every_metric
@pytest.mark.parametrize("bound", ["min-max", "expectation", "expectation-max"])
def test_the_bounded_loss_is_finite(name: str, bound: str) -> None:
    scores, grades, offsets = tensors([*GENERIC, *DEGENERATE], torch.float32)
    found = rb.SmoothLoss(name, bound)(scores, grades, offsets)
    (gradient,) = torch.autograd.grad(found.sum(), scores, allow_unused=True)
    assert torch.isfinite(found).all()
    assert gradient is None or torch.isfinite(gradient).all()


@every_metric
@pytest.mark.parametrize("method", ["direct", "interpolated"])
def test_a_low_temperature_gives_the_hard_value(name: str, method: str) -> None:
    if "p=0)" in name and method == "interpolated":
        pytest.skip("0 ** (R - 1) jumps at R = 1: the interpolation's own 1e-9 shows")
    loss = rb.SmoothLoss(name, temperature=5e-4, method=method)
    found = loss.smooth_value(*tensors(GENERIC)[:2], offsets_of(tensors(GENERIC)[2])).detach()
    np.testing.assert_allclose(found, values(name, GENERIC), rtol=1e-6, atol=1e-7)


@every_metric
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    scores, grades, offsets = tensors(GENERIC)
    loss = rb.SmoothLoss(name, method="direct")
    assert torch.autograd.gradcheck(lambda x: loss(x, grades, offsets), scores, eps=1e-6, atol=1e-7, rtol=1e-5)


def offsets_of(offsets: torch.Tensor) -> Any:
    from rankbound.lists import Lists

    return Lists(offsets)


def written_out(name: str, scores: Floats, grades: npt.NDArray[np.int64], temperature: float) -> float:
    """A metric over smooth ranks, or smooth comparisons of pairs, spelled out."""
    chance = 1 / (1 + np.exp(-(scores[None, :] - scores[:, None]) / temperature))  # of the column above the row
    np.fill_diagonal(chance, 0)
    rank, relevant = 1 + chance.sum(1), grades > 0
    kind, _, k = name.partition("@")
    inside = 1 / (1 + np.exp(-(int(k) + 0.5 - rank) / temperature)) if k else np.ones_like(rank)
    gaps = np.clip(grades[:, None] - grades[None, :], 0, None)  # how much better the row is
    n, unequal = len(scores), (gaps > 0).sum()
    stops = (2.0**grades - 1) / 16
    return float(
        {
            "AP": (relevant * inside * (1 + (chance * relevant).sum(1)) / rank).sum() / relevant.sum(),
            "RR": (inside / rank)[relevant].max(),
            "Hit": inside[relevant].max(),
            "Recall": (relevant * inside).sum() / relevant.sum(),
            "CG": (grades * inside).sum(),
            "ERR(max=4)": (inside * stops / rank * np.prod((1 - stops) ** chance, axis=1)).sum(),
            "LinearDCG": (grades * (n - rank)).sum(),
            "PairError": (gaps * chance).sum(),
            "PairError(norm=pairs)": (gaps * chance).sum() / unequal,
            "PairError(norm=max)": (gaps * chance).sum() / gaps.sum(),
            "PairAccuracy": 1 - ((gaps > 0) * chance).sum() / unequal,
            "Kendall": 0.5 + (unequal / 2 - ((gaps > 0) * chance).sum()) / (n * (n - 1) / 2),
            "Kendall(weight=difference)": 1 - (gaps * chance).sum() / gaps.sum(),
        }[kind]
    )


WRITTEN_OUT = (
    *("AP@3", "RR@2", "Hit@2", "Recall@3", "CG@2", "ERR(max=4)", "ERR(max=4)@3", "LinearDCG", "PairError"),
    *("PairError(norm=pairs)", "PairError(norm=max)", "PairAccuracy", "Kendall", "Kendall(weight=difference)"),
)


@pytest.mark.parametrize("name", WRITTEN_OUT)
@pytest.mark.parametrize("method", ["direct", "interpolated"])
def test_the_smooth_value_is_the_written_out_arithmetic(name: str, method: str) -> None:
    loss = rb.SmoothLoss(name, temperature=0.7, method=method)
    scores, grades, offsets = tensors(GENERIC)
    expected = [written_out(name, np.array(s), np.array(y), 0.7) for s, y in GENERIC]
    found = loss.smooth_value(scores, grades, offsets_of(offsets)).detach()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
