"""Every metric has every property: the metrics of the library x what evaluation and training rely on.

A metric joins by being in `rankbound.metrics`, and so do some of one's own: its ties, extremes and means are compared
with its own values of all orders. With its arithmetic in `brute_force.METRICS`, those values are compared, too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise, permutations, product
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


# What a batch may hold: types, bad arguments, and the digits of long lists
NAN, INFINITY = float("nan"), float("inf")
WRONG: dict[str, list[list[Any]]] = {
    "scores": [[NAN, 1], [INFINITY, 1], [[1.0, 2.0]]],
    "relevance": [[1, -1], [1.0, NAN], [1.0, INFINITY], [1]],
    "offsets": [[0, 1], [0, 2, 1, 2], [0.0, 2.0]],
}


@pytest.mark.parametrize("metric", ["nDCG", "AP", "PairAccuracy", "ERR(max=4)"])
def test_bad_arguments_are_named(metric: str) -> None:
    for name, wrong in ((name, wrong) for name, wrongs in WRONG.items() for wrong in wrongs):
        arguments = {"scores": [1.0, 2.0], "relevance": [1, 0], "offsets": [0, 2]} | {name: wrong}
        with pytest.raises(ValueError, match=f"^{name}: "):
            rb.metric(metric)(*map(np.array, arguments.values()))
    lists = {"scores": torch.zeros(2), "relevance": torch.tensor([1, 0]), "offsets": torch.tensor([0, 2])}
    for name in ("relevance", "offsets"):
        with pytest.raises(ValueError, match=f"^{name}: found on meta, expected on cpu beside the scores"):
            rb.metric(metric)(*(lists | {name: lists[name].to("meta")}).values())


def test_gains_and_grades_that_do_not_fit_are_refused() -> None:
    """2^7 - 1 and the sums of such gains don't fit into int8, but are no integers here."""
    value = rb.metric("DCG")(np.array([3.0, 2.0, 1.0]), np.array([7, 7, 6], dtype=np.int8), [0, 3])
    assert value[0] == pytest.approx(127 + 127 / math.log2(3) + 63 / 2)
    scores, offsets = torch.tensor([2.0, 1.0]), [0, 2]
    for text, grade in {"nDCG": 2000, "DCG@1": 2000, "CG(gain=exp2)@2": 2000, "ERR(max=2)": 3}.items():
        with pytest.raises(ValueError, match=rf"^relevance: found grade {grade}, .*grades up to (1004|2, the)"):
            rb.metric(text)(scores, [grade, 1], offsets)
    for text, grades in (("nDCG", [1004, 1003]), ("nDCG(gain=linear)", [2000, 1])):
        assert rb.metric(text)(scores, grades, offsets)[0] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^relevance: found grade 3, expected grades up to 2, the max of ERR"):
        rb.SmoothLoss("ERR(max=2)@3")(scores, [3, 1], offsets)


def test_long_lists_keep_their_digits() -> None:
    """Sums over a million ranks, written out."""
    n, p, offsets = 10**6, 7, [0, 10**6]
    scores, relevance = np.zeros(n), (np.arange(n) < p).astype(float)
    none = math.fsum(math.log1p(-p / (n - rank + 1)) for rank in range(1, 11))
    for name, expected in {"Hit@10": -math.expm1(none), "Recall@10": 10 / n, "PairAccuracy": 0.5}.items():
        assert rb.metric(name)(scores, relevance, offsets)[0] == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 2000), st.floats(0.001, 0.999))
def test_one_relevant_item_among_n_ties(n: int, p: float) -> None:
    """Closed forms on long blocks: each rank is equally likely."""
    scores, grades, offsets = np.zeros(n), np.arange(n) == n // 2, np.array([0, n])
    ranks = np.arange(1, n + 1)
    expected = {
        "nDCG": (1 / np.log2(ranks + 1)).mean(),
        "AP": (1 / ranks).mean(),
        "RR": (1 / ranks).mean(),
        "nRBP": (ranks - 1).mean(),
        f"RBP(p={p!r})": ((1 - p) * p ** (ranks - 1.0)).mean(),
    }
    for name, value in expected.items():
        assert rb.metric(name)(scores, grades, offsets)[0] == pytest.approx(value, rel=1e-10), name


def test_reciprocal_rank_of_a_long_block_with_many_relevant_items() -> None:
    """First relevant of 300 in 1,000 ties, by the recursion over ranks instead of binomials."""
    n, m, expected, still = 1000, 300, 0.0, 1.0
    for rank in range(1, n - m + 2):
        chance = m / (n - rank + 1)
        expected += still * chance / rank
        still *= 1 - chance
    value = rb.metric("RR")(np.zeros(n), np.arange(n) < m, np.array([0, n]))
    assert value[0] == pytest.approx(expected, rel=1e-9)


def test_err_of_a_long_block_of_ties() -> None:
    """500 items, 200 of them of grades 1 to 3: the user stops at rank j if they go on after j - 1 and not after j."""
    n, held = 500, {1: 120, 2: 50, 3: 30}
    grades = np.repeat([0, *held], [n - sum(held.values()), *held.values()])
    # The mean product of j of the items' 1 - S, item after item: a new one is among the j with the chance j / i.
    products = np.ones(1)
    for i, grade in enumerate(grades[::-1], start=1):
        q, j = 1 - (2.0**grade - 1) / 16, np.arange(i + 1) / i
        products = j * q * np.append(0, products) + (1 - j) * np.append(products, 0)
    ranks = np.arange(1, n + 1)
    terms = (products[:-1] - products[1:]) / ranks
    for name, expected in {"ERR(max=4)": terms.sum(), "ERR(max=4)@30": terms[:30].sum()}.items():
        assert rb.metric(name)(np.zeros(n), grades, np.array([0, n]))[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["PairAccuracy", "PairError(norm=max)", "Kendall", "LinearNDCG", "nDCG(gain=linear)"])
def test_grades_may_be_fractions(name: str) -> None:
    """Metrics that only compare grades, or whose gain is linear over its best, don't see their unit."""
    scores, grades, offsets = torch.tensor([0.4, 0.9, -0.3, 0.1, 2.0]).double(), torch.tensor([1, 0, 2, 0, 3]), [0, 5]
    for of in (rb.metric(name), rb.SmoothLoss(name)):
        torch.testing.assert_close(of(scores, grades / 2, offsets), of(scores, grades, offsets), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_tensors_of_any_precision_give_float64_tensors_without_gradients_and_arrays_arrays(dtype: torch.dtype) -> None:
    scores = torch.tensor([3, 1, 2]).to(dtype)
    value = rb.metric("AP")(scores.requires_grad_(dtype.is_floating_point), torch.tensor([0, 1, 1]), [0, 3])
    assert isinstance(value, torch.Tensor)
    assert (value.dtype, value.requires_grad) == (torch.float64, False)
    array = rb.metric("AP")(np.array([3, 1, 2]), np.array([0, 1, 1]), np.array([0, 3]))
    assert isinstance(array, np.ndarray)
    assert value.tolist() == array.tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])


def test_compatibility_is_that_with_the_nearest_of_all_ideal_rankings() -> None:
    """Clarke, Vtyurina and Smucker 2021: items of one grade may have any order in the ideal ranking."""
    for grades in product(range(3), repeat=5):
        relevant = [item for item, y in enumerate(grades) if y]
        ideals = [
            order
            for order in permutations(relevant)
            if all(grades[one] >= grades[below] for one, below in pairwise(order))
        ]

        def overlap(ranking: Sequence[int], ideal: Sequence[int]) -> float:
            return sum(0.8 ** (d - 1) * len({*ranking[:d]} & {*ideal[:d]}) / d for d in range(1, 6))

        found = float(rb.metric("Compat(p=0.8)")(-np.arange(5.0), np.array(grades), [0, 5])[0])
        if relevant:
            expected = max(overlap(range(5), ideal) for ideal in ideals) / overlap(ideals[0], ideals[0])
            assert found == pytest.approx(expected, rel=1e-12)
        else:
            assert np.isnan(found)
