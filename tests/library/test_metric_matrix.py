"""Every metric has every property: the metrics of the library x what evaluation and training rely on.

A metric joins by being in `rankbound.metrics`, and so do some of one's own: its ties, extremes and means are compared
with its own values of all orders. With its arithmetic in `brute_force.METRICS`, those values are compared, too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import test_every_loss as rows_of_losses
import torch
from brute_force import METRICS, Order, Value, binary_orders, graded_orders, mean, orders_of_ties
from hypothesis import example, given
from hypothesis import strategies as st
from test_every_loss import Row
from test_own_metric import METRICS as OWN
from test_own_metric import ORACLES as LISTED_ORACLES

import rankbound as rb
from rankbound.lists import Lists
from rankbound.metrics import KINDS, RunMetric
from rankbound.metrics.base import formula_of
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP

Floats = npt.NDArray[np.float64]
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
ORACLES = LISTED_ORACLES | {text: own_value(text) for text in map(example_of, OTHERS)}
ALL = [OWN.get(text, text) for text in ORACLES]
BINARY = [order for n in range(6, 9) for p in range(n + 1) for order in binary_orders(n, p)]
SHORT: list[Order] = [order for n in range(6) for order in product(range(4), repeat=n)] + BINARY
GRADED: list[Order] = [(), (0,), (3,), (0, 0, 0), (2, 2), (3, 1), (2, 0, 1, 0), (3, 1, 0, 2, 1), (1, 0, 0, 1, 3, 0, 2)]
TIED = [*rows_of_losses.TIED, ([3, 3, 1, 1, 1, 1, -2], [0, 0, 1, 2, 0, 1, 3]), ([5, 5, 5], [2, 2, 2])]
GENERIC = [*rows_of_losses.GENERIC, ([0.8, 0.1, -0.5, -0.9], [3, 0, 1, 1])]
DEGENERATE = [*rows_of_losses.DEGENERATE, ([9 - 9.0 * i for i in range(30)], [0] * 29 + [3]), ([0.3, -0.2], [3, 2])]

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
    scores, grades, offsets = (tensor.detach().numpy() for tensor in rows_of_losses.flat(rows))
    return scores, grades, offsets


def values(name: str, rows: Sequence[Row]) -> Floats:
    return np.asarray(parsed(name)(*flat(rows)))


def ranked(orders: Sequence[Order]) -> list[Row]:
    return [([-float(place) for place in range(len(order))], list(order)) for order in orders]


@cache
def of_all_orders(name: str, grades: Order) -> list[Any]:
    return [ORACLES[name](order) for order in graded_orders(grades)]


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
    assert values(name, []).shape == (0,)


@given(st.lists(ROWS, min_size=1, max_size=1))
@example(TIED)
def test_value_under_ties_is_the_mean_over_all_tie_breaks(rows: list[Row]) -> None:
    orders = [orders_of_ties(scores, grades) for scores, grades in rows]
    for name, found in all_values(rows).items():
        expected = [mean(map(ORACLES[name], each)) for each in orders]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=name)


def test_a_batch_is_its_lists_one_by_one() -> None:
    """Batches that are drawn are in `test_fuzz_metrics`."""
    alone = [all_values([row]) for row in BATCH]
    require_equal(all_values(BATCH), {name: np.concatenate([each[name] for each in alone]) for name in ORACLES})


INCREASING = st.sampled_from([lambda s: s - 1000, lambda s: 3 * s + 7, np.exp, np.arctan, lambda s: s**3])


@given(BATCHES, st.randoms(use_true_random=False), INCREASING)
def test_only_the_order_of_scores_counts(rows: list[Row], random: Any, increasing: Callable[[Floats], Floats]) -> None:
    expected = all_values(rows)
    places = [random.sample(range(len(grades)), len(grades)) for _, grades in rows]
    shuffled = [
        ([scores[i] for i in own], [grades[i] for i in own]) for own, (scores, grades) in zip(places, rows, strict=True)
    ]
    found = all_values(shuffled)
    require_equal(found, expected)
    for name in ORACLES:
        if formula_of(parsed(name)):
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    scores, grades, offsets = flat(rows)
    for name, moved in rb.evaluate(ALL, increasing(scores), grades, offsets).items():
        np.testing.assert_array_equal(moved.numpy(), expected[name], err_msg=name)


@every_metric
def test_extremes_and_expectation_of_graded_lists_and_closed_forms_of_binary_ones(name: str) -> None:
    """Against all orders; formulas of (N, P) with N <= 8."""
    metric, (_, grades, offsets) = parsed(name), flat(ranked(GRADED))
    of_lists = *rb.extremes(metric, grades, offsets), rb.expectation(metric, relevance=grades, offsets=offsets)
    sizes, grade = [(n, p) for n in range(1, 9) for p in range(n + 1)], getattr(metric, "rel", 1)
    binary = [[ORACLES[name](tuple(grade * y for y in order)) for order in binary_orders(n, p)] for n, p in sizes]
    of_counts = [of(metric, *np.array(sizes).T) for of in (rb.minimum, rb.maximum, rb.expectation)]
    for found, known in ((of_lists, [of_all_orders(name, order) for order in GRADED]), (of_counts, binary)):
        for values, of in zip(found, (min, max, mean), strict=True):
            expected = [math.nan if None in each else float(of(each)) for each in known]
            np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


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
    "T": st.floats(0.5, 100, exclude_min=True),
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
    if "alpha" in values and "beta" in values:
        # A persistence, elsewhere a weight of the recall.
        values["beta"] = DRAWN["p"]
    if "divisor" in values:
        # Other divisors are those of a cut-off.
        optional["cutoff"] = DRAWN["cutoff"]
    return st.builds(kind, **values | optional)


@given(st.sampled_from([*KINDS.values(), NormalizedRBP, RankSum]).flatmap(drawn))
def test_the_text_of_any_metric_reads_back_as_itself(metric: rb.Metric) -> None:
    assert rb.metric(str(metric)) == metric


@every_metric
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_smooth_losses_are_finite_and_0_where_the_metric_is_undefined(name: str, dtype: torch.dtype) -> None:
    rows = [*GENERIC, *DEGENERATE]
    scores, grades, offsets = rows_of_losses.flat(rows, dtype)
    loss = rb.SmoothLoss(parsed(name))
    found = loss(scores, grades, offsets)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert found.dtype == dtype
    assert torch.isfinite(found).all()
    assert torch.isfinite(gradient).all()
    undefined = torch.tensor([ORACLES[name](tuple(row)) is None for _, row in rows])
    assert not found[undefined].any()
    assert not (loss.informative(grades, Lists(offsets)) & undefined).any()
    for bound in ("min-max", "expectation", "expectation-max"):
        bounded = rb.SmoothLoss(parsed(name), bound)(scores, grades, offsets)
        (gradient,) = torch.autograd.grad(bounded.sum(), scores, allow_unused=True)
        assert torch.isfinite(bounded).all()
        assert gradient is None or torch.isfinite(gradient).all()


@every_metric
@pytest.mark.parametrize("method", ["direct", "interpolated"])
def test_a_low_temperature_gives_the_hard_value(name: str, method: str) -> None:
    if "p=0)" in name and method == "interpolated":
        pytest.skip("0 ** (R - 1) jumps at R = 1: the interpolation's own 1e-9 shows")
    loss = rb.SmoothLoss(parsed(name), temperature=5e-4, method=method)
    scores, grades, offsets = rows_of_losses.flat(GENERIC)
    found = loss.smooth_value(scores, grades, Lists(offsets)).detach()
    np.testing.assert_allclose(found, values(name, GENERIC), rtol=1e-6, atol=1e-7)


@every_metric
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    scores, grades, offsets = rows_of_losses.flat(GENERIC)
    loss = rb.SmoothLoss(parsed(name), method="direct")
    assert torch.autograd.gradcheck(lambda x: loss(x, grades, offsets), scores, atol=1e-7, rtol=1e-5, fast_mode=True)
