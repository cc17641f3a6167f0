"""Every metric has every property: the metrics of the library x what evaluation and training rely on.

A metric joins by being in `rankbound.metrics`, and so do some of one's own: its ties, extremes and means are compared
with its own values of all orders. With its arithmetic in `brute_force.METRICS`, those values are compared, too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import test_own_metric
import torch
from brute_force import METRICS, Order, Value, binary_orders, graded_orders, mean, orders_of_ties
from hypothesis import example, given
from hypothesis import strategies as st

import rankbound as rb
from rankbound.lists import Lists
from rankbound.metrics import KINDS, RunMetric
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP

Floats = npt.NDArray[np.float64]
Row = tuple[list[float], list[int]]
"""Scores and grades of one list."""

PARAMETERS = {"cutoff": 2, "p": 0.8, "max": 4, "recall": 0.5}
"""Values for the parameters without a default."""


def example_of(kind: type[rb.Metric]) -> str:
    return str(kind(**{one.name: PARAMETERS[one.name] for one in fields(kind) if one.default is MISSING}))


def own_value(text: str) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        found = float(rb.metric(text)(-np.arange(float(len(order))), np.array(order, int), [0, len(order)])[0])
        return None if math.isnan(found) else found

    return value


LISTED = {type(rb.metric(text)) for text in METRICS}
OTHERS = [kind for kind in KINDS.values() if kind not in LISTED and not issubclass(kind, RunMetric)]
OWN = {str(metric): metric for metric in test_own_metric.METRICS}
ORACLES = (
    METRICS
    | {text: own_value(text) for text in map(example_of, OTHERS)}
    | {text: partial(test_own_metric.of_order, metric) for text, metric in OWN.items()}
)
ALL = [OWN.get(text, text) for text in ORACLES]
BINARY = [order for n in range(6, 9) for p in range(n + 1) for order in binary_orders(n, p)]
SHORT: list[Order] = [order for n in range(6) for order in product(range(4), repeat=n)] + BINARY
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

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=6).map(
    lambda pairs: ([float(score) for score, _ in pairs], [grade for _, grade in pairs])
)
"""Few distinct scores, so that most lists have ties."""
BATCHES = st.lists(ROWS, min_size=1, max_size=6)
BATCH = [*TIED, *DEGENERATE, *GENERIC]

every_metric = pytest.mark.parametrize("name", ORACLES)


def parsed(name: str) -> rb.Metric:
    return OWN.get(name) or rb.metric(name)


def flat(rows: Sequence[Row]) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    scores = np.array([score for row, _ in rows for score in row], dtype=float)
    grades = np.array([grade for _, row in rows for grade in row], dtype=np.int64)
    return scores, grades, np.cumsum([0, *(len(row) for row, _ in rows)])


def values(name: str, rows: Sequence[Row]) -> Floats:
    return np.asarray(parsed(name)(*flat(rows)))


def ranked(orders: Sequence[Order]) -> list[Row]:
    return [([-float(place) for place in range(len(order))], list(order)) for order in orders]


@cache
def of_all_orders(name: str, grades: Order) -> list[Any]:
    return [ORACLES[name](order) for order in graded_orders(grades)]


def tensors(rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    scores, grades, offsets = map(torch.from_numpy, flat(rows))
    return scores.to(dtype).requires_grad_(), grades, offsets


def all_values(rows: Sequence[Row]) -> dict[str, Floats]:
    """Every metric, from one sort."""
    found = rb.evaluate(ALL, *flat(rows))
    assert list(found) == list(ORACLES)
    return {name: value.numpy() for name, value in found.items()}


def require_equal(found: dict[str, Floats], expected: dict[str, Floats]) -> None:
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-13, atol=1e-15, err_msg=name)


@every_metric
def test_value_of_every_order_of_every_short_list(name: str) -> None:
    """All 1,365 lists of up to 5 items with grades 0 to 3, and binary ones of up to 8; NaN where undefined."""
    np.testing.assert_allclose(
        values(name, ranked(SHORT)), [mean([ORACLES[name](order)]) for order in SHORT], rtol=1e-12, atol=1e-14
    )


@every_metric
def test_a_batch_without_lists_has_no_values(name: str) -> None:
    assert values(name, []).shape == (0,)


@given(st.lists(ROWS, min_size=1, max_size=1))
@example(TIED)
def test_value_under_ties_is_the_mean_over_all_tie_breaks(rows: list[Row]) -> None:
    orders = [orders_of_ties(scores, grades) for scores, grades in rows]
    for name, found in all_values(rows).items():
        expected = [mean(map(ORACLES[name], each)) for each in orders]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=name)


@given(BATCHES)
@example(BATCH)
def test_a_batch_is_its_lists_one_by_one(rows: list[Row]) -> None:
    alone = [all_values([row]) for row in rows]
    require_equal(all_values(rows), {name: np.concatenate([each[name] for each in alone]) for name in ORACLES})


@given(BATCHES, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(rows: list[Row], random: Any) -> None:
    places = [random.sample(range(len(grades)), len(grades)) for _, grades in rows]
    shuffled = [
        ([scores[i] for i in own], [grades[i] for i in own]) for own, (scores, grades) in zip(places, rows, strict=True)
    ]
    require_equal(all_values(shuffled), all_values(rows))


@given(BATCHES, st.sampled_from([lambda s: s - 1000, lambda s: 3 * s + 7, np.exp, np.arctan, lambda s: s**3]))
def test_only_the_order_of_scores_counts(rows: list[Row], increasing: Callable[[Floats], Floats]) -> None:
    scores, grades, offsets = flat(rows)
    moved = rb.evaluate(ALL, increasing(scores), grades, offsets)
    for name, expected in all_values(rows).items():
        np.testing.assert_array_equal(moved[name].numpy(), expected, err_msg=name)


@every_metric
def test_extremes_and_expectation_of_graded_lists(name: str) -> None:
    grades, offsets = flat(ranked(GRADED))[1:]
    known = [of_all_orders(name, order) for order in GRADED]
    low, high = rb.extremes(parsed(name), grades, offsets)
    expected = rb.expectation(parsed(name), relevance=grades, offsets=offsets)
    for found, best in ((low, min), (high, max)):
        extreme = [math.nan if None in each else float(best(each)) for each in known]
        np.testing.assert_allclose(found, extreme, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(expected, [mean(each) for each in known], rtol=1e-12, atol=1e-14)


@every_metric
def test_closed_forms_of_binary_lists_are_those_of_the_lists(name: str) -> None:
    """Formulas of (N, P) against the walk over all orders, N <= 7."""
    sizes = [(n, p) for n in range(1, 8) for p in range(n + 1)]
    grade = getattr(parsed(name), "rel", 1)
    known = [[ORACLES[name](tuple(grade * y for y in order)) for order in binary_orders(n, p)] for n, p in sizes]
    n, p = np.array(sizes).T
    for found, of in (
        (rb.minimum(parsed(name), n, p), min),
        (rb.maximum(parsed(name), n, p), max),
        (rb.expectation(parsed(name), n, p), mean),
    ):
        expected = [math.nan if None in each else float(of(each)) for each in known]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in ORACLES if name not in OWN])
def test_the_text_reads_back_as_the_metric(name: str) -> None:
    metric = rb.metric(name)
    assert str(metric) == rb.loss(name).text == name
    assert rb.metric(str(metric)) == metric
    assert hash(rb.metric(name)) == hash(metric)
    assert rb.metric(metric) is metric


DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "rel": st.integers(1, 100),
    "max": st.integers(1, 20),
    "cutoff": st.integers(1, 10**6),
    "recall": st.floats(0, 1),
    "alpha": st.floats(0, 1),
    "p": st.floats(0, 1, exclude_max=True),
    "beta": st.floats(0.01, 100),
    "gain": st.sampled_from(["exp2", "linear"]),
    "discount": st.sampled_from(["log2(r+1)", "log2(r)"]),
    "norm": st.sampled_from(["none", "pairs", "max"]),
    "weight": st.sampled_from(["uniform", "difference"]),
    "divisor": st.sampled_from(["relevant", "cutoff", "found"]),
}
"""Values of parameters, by name."""


def drawn(kind: type[rb.Metric]) -> st.SearchStrategy[rb.Metric]:
    values = {one.name: DRAWN[one.name] for one in fields(kind)}
    optional = {one.name: st.none() | DRAWN[one.name] for one in fields(kind) if one.default is None}
    if "divisor" in values:
        # Other divisors are those of a cut-off.
        optional["cutoff"] = DRAWN["cutoff"]
    return st.builds(kind, **values | optional)


@given(st.sampled_from([*KINDS.values(), NormalizedRBP, RankSum]).flatmap(drawn))
def test_the_text_of_any_metric_reads_back_as_itself(metric: rb.Metric) -> None:
    assert rb.metric(str(metric)) == metric


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_an_example_of_every_metric_can_be_made(kind: type[rb.Metric]) -> None:
    assert type(rb.metric(example_of(kind))) is kind


@every_metric
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_smooth_loss_is_finite_and_0_where_the_metric_is_undefined(name: str, dtype: torch.dtype) -> None:
    scores, grades, offsets = tensors(DEGENERATE, dtype)
    loss = rb.SmoothLoss(parsed(name))
    found = loss(scores, grades, offsets)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    assert torch.isfinite(gradient).all()
    undefined = torch.tensor([ORACLES[name](tuple(row)) is None for _, row in DEGENERATE])
    assert not found[undefined].any()
    assert not (loss.informative(grades, Lists(offsets)) & undefined).any()


@every_metric
@pytest.mark.parametrize("bound", ["min-max", "expectation", "expectation-max"])
def test_the_bounded_loss_is_finite(name: str, bound: str) -> None:
    scores, grades, offsets = tensors([*GENERIC, *DEGENERATE], torch.float32)
    found = rb.SmoothLoss(parsed(name), bound)(scores, grades, offsets)
    (gradient,) = torch.autograd.grad(found.sum(), scores, allow_unused=True)
    assert torch.isfinite(found).all()
    assert gradient is None or torch.isfinite(gradient).all()


@every_metric
@pytest.mark.parametrize("method", ["direct", "interpolated"])
def test_a_low_temperature_gives_the_hard_value(name: str, method: str) -> None:
    if "p=0)" in name and method == "interpolated":
        pytest.skip("0 ** (R - 1) jumps at R = 1: the interpolation's own 1e-9 shows")
    loss = rb.SmoothLoss(parsed(name), temperature=5e-4, method=method)
    scores, grades, offsets = tensors(GENERIC)
    found = loss.smooth_value(scores, grades, Lists(offsets)).detach()
    np.testing.assert_allclose(found, values(name, GENERIC), rtol=1e-6, atol=1e-7)


@every_metric
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    scores, grades, offsets = tensors(GENERIC)
    loss = rb.SmoothLoss(parsed(name), method="direct")
    assert torch.autograd.gradcheck(lambda x: loss(x, grades, offsets), scores, eps=1e-6, atol=1e-7, rtol=1e-5)


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
    loss = rb.SmoothLoss(parsed(name), temperature=0.7, method=method)
    scores, grades, offsets = tensors(GENERIC)
    expected = [written_out(name, np.array(s), np.array(y), 0.7) for s, y in GENERIC]
    found = loss.smooth_value(scores, grades, Lists(offsets)).detach()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
