"""Extremes, expectations, score distributions and the five bounds against brute force over all orders."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from brute_force import METRICS, Order, Value, binary_orders, distribution, graded_orders, mean

import rankbound as rb

SIZES = [(n, p) for n in range(1, 9) for p in range(n + 1)]
MIXED = [(n, p) for n, p in SIZES if 0 < p < n]
N, P = np.array(SIZES).T
DISTRIBUTED = ("nDCG", "AP", "nRBP")
BOUNDS = ("min-max", "expectation", "expectation-max", "distribution")

GRADED: list[Order] = [
    (),
    (0,),
    (2,),
    (0, 0, 0),
    (0, 1, 2),
    (3, 0, 0, 1),
    (1, 1, 0, 0, 1),
    (2, 2, 2),
    (3, 1, 0, 2, 1),
    (0, 0, 1, 3, 2, 2),
    (4, 0, 0, 0, 0, 0, 1),
]


@cache
def values(name: str, n: int, p: int) -> tuple[Value, ...]:
    """The metric of all orders; the relevant items have the lowest grade that the metric counts."""
    grade = getattr(rb.metric(name), "rel", 1)
    return tuple(METRICS[name](tuple(grade * relevant for relevant in order)) for order in binary_orders(n, p))


def largest(known: tuple[Value, ...], sign: int = 1) -> float:
    """The largest (or, with sign -1, the smallest) value; NaN if undefined."""
    return math.nan if None in known else sign * float(max(sign * value for value in known))  # type: ignore[operator]


@pytest.mark.parametrize("name", METRICS)
def test_extremes_and_expectation_of_every_short_list(name: str) -> None:
    known = [values(name, n, p) for n, p in SIZES]
    exact = {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(rb.minimum(name, N, P), [largest(each, -1) for each in known], **exact)
    np.testing.assert_allclose(rb.maximum(name, N, P), [largest(each) for each in known], **exact)
    np.testing.assert_allclose(rb.expectation(name, N, P), [mean(each) for each in known], **exact)


@pytest.mark.parametrize(("n", "p"), [(20_000, 10_001), (1_000_000, 7)])
def test_long_lists_keep_their_digits(n: int, p: int) -> None:
    found = [float(function("nRBP", n, p)) for function in (rb.minimum, rb.expectation, rb.maximum)]
    assert found == [0, p * (n - p) / 2, p * (n - p)]
    harmonic = math.fsum(1 / rank for rank in range(1, n + 1))
    expected = ((p - 1) / (n - 1) * (n - harmonic) + harmonic) / n
    assert float(rb.expectation("AP", n, p)) == pytest.approx(expected, rel=1e-12)
    worst = math.fsum(i / (n - p + i) for i in range(1, p + 1)) / p
    assert float(rb.minimum("AP", n, p)) == pytest.approx(worst, rel=1e-9, abs=1e-9)
    gains = [1 / math.log2(rank + 1) for rank in range(1, n + 1)]
    ideal = math.fsum(gains[:p])
    assert float(rb.minimum("nDCG", n, p)) == pytest.approx(math.fsum(gains[n - p :]) / ideal, rel=1e-9)
    assert float(rb.expectation("nDCG", n, p)) == pytest.approx(p / n * math.fsum(gains) / ideal, rel=1e-12)


def flat(lists: Sequence[Order]) -> tuple[Any, Any]:
    return np.array([grade for grades in lists for grade in grades]), np.cumsum([0, *map(len, lists)])


@pytest.mark.parametrize("name", METRICS)
def test_extremes_and_expectation_of_graded_lists(name: str) -> None:
    relevance, offsets = flat(GRADED)
    known = [tuple(METRICS[name](order) for order in graded_orders(grades)) for grades in GRADED]
    exact = {"rtol": 1e-12, "atol": 1e-14}
    low, high = rb.extremes(name, relevance, offsets)
    np.testing.assert_allclose(low, [largest(each, -1) for each in known], **exact)
    np.testing.assert_allclose(high, [largest(each) for each in known], **exact)
    expected = [mean(each) for each in known]
    np.testing.assert_allclose(rb.expectation(name, relevance=relevance, offsets=offsets), expected, **exact)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.float64])
@pytest.mark.parametrize("name", ["nDCG", "AP", "DCG@2"])
def test_grades_of_any_type_have_the_same_extremes(name: str, dtype: type) -> None:
    relevance, offsets = flat(GRADED)
    expected = [*rb.extremes(name, relevance, offsets), rb.expectation(name, relevance=relevance, offsets=offsets)]
    typed = relevance.astype(dtype)
    found = [*rb.extremes(name, typed, offsets), rb.expectation(name, relevance=typed, offsets=offsets)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_booleans_are_binary_relevance() -> None:
    relevance, offsets = np.array([True, False, True]), np.array([0, 3])
    low, high = rb.extremes("nDCG", relevance, offsets)
    assert low[0] == pytest.approx(float(rb.minimum("nDCG", 3, 2)))
    assert high[0] == pytest.approx(float(rb.maximum("nDCG", 3, 2)))


def test_counts_broadcast_and_keep_their_shape() -> None:
    assert rb.minimum("nDCG", 9, 3).shape == ()
    table = rb.expectation("AP", np.array([[4], [6]]), np.array([1, 2, 3]))
    assert table.shape == (2, 3)
    assert table[1, 2] == rb.expectation("AP", 6, 3)
    assert rb.maximum("nDCG", np.zeros(0, dtype=int), np.zeros(0, dtype=int)).shape == (0,)
    assert (
        rb.minimum("AP", torch.tensor([5, 9]), torch.tensor([2, 3])).tolist()
        == rb.minimum("AP", [5, 9], [2, 3]).tolist()
    )


@pytest.mark.parametrize(
    ("n", "p"), [(3, 4), (3, -1), (0, 0), (np.array([3, 2]), np.array([1, 3])), (3.0, 1.0), (True, 2)]
)
@pytest.mark.parametrize("function", [rb.minimum, rb.maximum, rb.expectation])
def test_impossible_counts_are_refused_by_name(function: Any, n: Any, p: Any) -> None:
    with pytest.raises(ValueError, match=r"^n, p: "):
        function("nDCG", n, p)


def test_an_expectation_needs_counts_or_lists() -> None:
    for keywords in ({}, {"n": 3}, {"relevance": [1, 0]}, {"n": 3, "p": 1, "relevance": [1], "offsets": [0, 1]}):
        with pytest.raises(ValueError, match=r"^expectation: expected either n and p, or relevance= and offsets="):
            rb.expectation("nDCG", **keywords)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METRICS)
def test_score_distribution_of_every_short_list(name: str) -> None:
    """Its scores and their chances are the shares of all orders, whatever the way to them."""
    for n, p in SIZES if name in DISTRIBUTED else [(n, p) for n, p in SIZES if n <= 6]:
        known = values(name, n, p)
        if None in known:
            assert np.isnan(rb.score_distribution(name, n, p).support).all()
            continue
        expected = distribution(known)
        found = rb.score_distribution(name, n=n, p=p)
        support, chances = np.array([[value, float(chance)] for value, chance in expected]).T
        where = f"{name} X({n},{p})"
        carried = found.probability > 1e-15
        np.testing.assert_allclose(found.support[carried], support, rtol=1e-11, err_msg=where)
        np.testing.assert_allclose(found.probability[carried], chances, rtol=1e-11, err_msg=where)
        assert (np.diff(found.support) > 0).all(), where
        np.testing.assert_allclose(found.cdf(support), np.cumsum(chances), rtol=1e-11, err_msg=where)
        between = (support[1:] + support[:-1]) / 2
        np.testing.assert_allclose(found.cdf(between), np.cumsum(chances)[:-1], rtol=1e-11, err_msg=where)
        assert found.cdf(support[0] - 1e-6) == 0, where
        assert found.cdf(support[-1] + 1e-6) == pytest.approx(1, abs=1e-12), where
        numbers = [float(value) for value in known]  # type: ignore[arg-type]
        ours = [found.minimum, found.maximum, found.expectation, found.sd]
        theirs = [min(numbers), max(numbers), np.mean(numbers), np.std(numbers)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-8, err_msg=where)


@pytest.mark.parametrize("name", METRICS)
def test_gain_and_smooth_cdf_of_every_short_list(name: str) -> None:
    for n, p in MIXED if name in DISTRIBUTED else [(5, 1), (6, 3), (6, 4)]:
        expected = distribution(values(name, n, p))
        support, chances = np.array([[value, float(chance)] for value, chance in expected]).T
        if len(support) == 1:
            continue
        span = support[-1] - support[0]
        sd = math.sqrt(((support - (support * chances).sum()) ** 2 * chances).sum())
        found = rb.score_distribution(name, n=n, p=p)
        gains = {"distinct": len(support) / span, "drawn": 300_000 / span, "sd": 1 / sd}
        for gain, expected_gain in gains.items():
            assert found.gain(gain) == pytest.approx(expected_gain, rel=1e-9), (n, p, gain)
            x = np.linspace(support[0] - 0.1 * span, support[-1] + 0.1 * span, 23)
            written_out = (chances / (1 + np.exp(-np.clip(expected_gain * (x[:, None] - support), -700, 700)))).sum(1)
            # The scores of brute force are rounded to 12 digits.
            np.testing.assert_allclose(
                found.smooth_cdf(x, gain=gain), written_out, rtol=1e-8, atol=1e-12 * expected_gain
            )


@cache
def rank_sums(n: int, p: int) -> dict[int, int]:
    """Count the orders of (n, p) with each nRBP loss in integers: the item at the bottom is relevant or not."""
    if p in (0, n):
        return {0: 1}
    counts = dict(rank_sums(n - 1, p))
    for loss, ways in rank_sums(n - 1, p - 1).items():
        counts[loss + n - p] = counts.get(loss + n - p, 0) + ways
    return counts


@pytest.mark.parametrize(("n", "p"), [(12, 5), (30, 12), (40, 1), (61, 60), (60, 30)])
def test_rank_sums_of_longer_lists_by_counting_orders(n: int, p: int) -> None:
    exact = rank_sums(n, p)
    expected = [float(Fraction(exact.get(loss, 0), math.comb(n, p))) for loss in range(p * (n - p) + 1)]
    found = rb.score_distribution("nRBP", n=n, p=p)
    np.testing.assert_array_equal(found.support, np.arange(p * (n - p) + 1))
    np.testing.assert_allclose(found.probability, expected, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("name", [*DISTRIBUTED, "nDCG@3", "AP@2", "RR", "P@3", "Hit@3", "RBP(p=0.8)", "Kendall", "DCG"])
def test_drawn_orders_agree_with_all_orders(name: str) -> None:
    """Within the Dvoretzky-Kiefer-Wolfowitz distance that 20,000 draws exceed once in 10,000 times."""
    samples, limit = 20_000, math.sqrt(math.log(2 / 1e-4) / (2 * 20_000))
    for n, p in [(8, 4), (7, 1), (30, 12), (120, 40)]:
        exact = rb.score_distribution(name, n=n, p=p)
        drawn = rb.score_distribution(name, n=n, p=p, method="sampled", samples=samples, seed=1)
        assert drawn.probability.sum() == pytest.approx(1)
        # Between the scores, where a step and its neighbour can't be confused by rounding.
        middles = (drawn.support[1:] + drawn.support[:-1]) / 2
        assert np.abs(exact.cdf(middles) - drawn.cdf(middles)).max() <= limit, (n, p)
        assert drawn.probability @ drawn.support == pytest.approx(exact.expectation, abs=5 * exact.sd / samples**0.5)


def test_the_same_seed_draws_the_same_orders() -> None:
    one, same, other = (
        rb.score_distribution("AP", n=30, p=9, method="sampled", samples=500, seed=seed) for seed in (3, 3, 4)
    )
    assert np.array_equal(one.support, same.support)
    assert np.array_equal(one.probability, same.probability)
    assert not np.array_equal(one.support, other.support)


@pytest.mark.parametrize("name", DISTRIBUTED)
@pytest.mark.parametrize(("n", "p"), [(40, 13), (200, 100)])
def test_cumulative_distributions_of_long_lists_climb_from_0_to_1(name: str, n: int, p: int) -> None:
    found = rb.score_distribution(name, n=n, p=p)
    low, high = float(rb.minimum(name, n, p)), float(rb.maximum(name, n, p))
    assert [found.minimum, found.maximum] == pytest.approx([low, high])
    assert found.expectation == pytest.approx(float(rb.expectation(name, n, p)))
    heights = found.cdf(np.linspace(low, high, 1001))
    assert (np.diff(heights) >= -1e-12).all()
    assert heights[-1] == pytest.approx(1, abs=1e-9)
    assert found.cdf(low - 1e-3) == pytest.approx(0, abs=1e-6)
    assert found.probability.min() >= 0
    assert found.probability.sum() == pytest.approx(1, abs=1e-9)
    assert found.probability @ found.support == pytest.approx(found.expectation, rel=1e-4)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_scores_are_undefined_without_relevant_items(name: str) -> None:
    found = rb.score_distribution(name, n=4, p=0)
    assert math.isnan(found.minimum)
    assert math.isnan(found.minimum) == np.isnan(rb.minimum(name, 4, 0))
    assert math.isnan(found.cdf(0.5))


@pytest.mark.parametrize(
    ("text", "other"), [("nDCG(gain=exp2)", "nDCG"), ("nDCG(gain=linear)", "nDCG"), ("nRBP(rel=2)", "nRBP")]
)
def test_texts_that_mean_the_same_of_binary_lists_have_the_same_distribution(text: str, other: str) -> None:
    found, expected = rb.score_distribution(text, 60, 20), rb.score_distribution(other, 60, 20)
    assert found.metric == str(rb.metric(text))
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_array_equal(found.probability, expected.probability)
    np.testing.assert_array_equal(found.smooth_cdf([1, 400.5]), expected.smooth_cdf([1, 400.5]))


def test_auto_is_exact_where_that_can_be_had_and_else_draws() -> None:
    auto = {"method": "auto", "samples": 500}
    for name in ("nDCG", "RR", "P@10", "nDCG@5", "DCG"):
        exact = rb.score_distribution(name, 60, 20, samples=500)
        np.testing.assert_array_equal(rb.score_distribution(name, 60, 20, **auto).support, exact.support)
    for name in ("nDCG@20", "RBP(p=0.3)"):
        drawn = rb.score_distribution(name, 60, 20, method="sampled", samples=500)
        np.testing.assert_array_equal(rb.score_distribution(name, 60, 20, **auto).support, drawn.support)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"metric": "nDCG@20", "n": 60, "p": 20}, "^method: found exact for the distribution of nDCG@20 over 60 items"),
        ({"metric": "RBP(p=0.3)", "n": 60, "p": 20}, "too rugged for Fourier coefficients; expected sampled, or auto"),
        ({"method": "walk"}, "method 'walk' is not one of exact, sampled, auto"),
        ({"n": 3, "p": 4}, "4 relevant"),
        ({"n": 0, "p": 0}, "0 items"),
        ({"method": "sampled", "samples": 0}, "samples"),
    ],
)
def test_distributions_that_cannot_be_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.score_distribution(**({"metric": "nDCG", "n": 6, "p": 2} | keywords))


def written_out(bound: str, value: Value, known: tuple[Value, ...]) -> float:
    """The bounded value of one order (thesis eqs. 3.1, 3.6, 3.11, 3.12), NaN where it is a division by 0."""
    if value is None:
        return math.nan
    low, high, expected = largest(known, -1), largest(known), mean(known)
    if bound == "distribution":
        return sum(other <= value + 1e-12 for other in known) / len(known)  # type: ignore[operator]
    origin = {"min-max": low, "expectation": 0.0, "expectation-max": expected}[bound]
    unit = {"min-max": high - low, "expectation": expected, "expectation-max": high - expected}[bound]
    return (float(value) - origin) / unit if abs(unit) > 1e-9 else math.nan


CLOSED_FORMS = ("RR", "nDCG@3", "P@3", "P@10", "nRBP(p=0.8)", "RBP(p=0.8)")


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", [*DISTRIBUTED, *CLOSED_FORMS])
def test_bounded_values_of_all_orders(name: str, bound: str) -> None:
    """One batch of all orders of N <= 8 items with every P, as ranked lists and as values with their sizes."""
    orders = [order for n, p in SIZES for order in binary_orders(n, p)]
    known = [values(name, n, p) for n, p in SIZES]
    expected = [written_out(bound, value, each) for each in known for value in each]
    bounded = rb.bounded(rb.metric(name), bound)
    exact = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(bounded(*ranked(orders, name)), expected, **exact)
    numbers = [math.nan if value is None else float(value) for each in known for value in each]
    n, p = [list(map(size, orders)) for size in (len, sum)]
    np.testing.assert_allclose(bounded.from_value(np.array(numbers), n, p), expected, **exact)


def ranked(orders: list[Order], name: str) -> tuple[Any, Any, Any]:
    """Scores that rank the items as they stand, relevance and offsets; grade 1 becomes what the metric counts."""
    grades, offsets = flat(orders)
    scores = np.concatenate([np.arange(len(order), 0.0, -1) for order in orders])
    return scores, grades * getattr(rb.metric(name), "rel", 1), offsets


@pytest.mark.parametrize("name", [*DISTRIBUTED, "RR", "nRBP(p=0.95)"])
def test_what_the_bounds_promise(name: str) -> None:
    """Over all orders: min-max from 0 to 1; expectation 1 in the mean; expectation-max 0 in the mean, 1 at most."""
    for n, p in MIXED:
        numbers = np.array([float(value) for value in values(name, n, p)])  # type: ignore[arg-type]
        min_max, over_mean, above_mean = (rb.bounded(name, by).from_value(numbers, n, p) for by in BOUNDS[:3])
        assert [min_max.min(), min_max.max()] == pytest.approx([0, 1], abs=1e-12)
        assert over_mean.mean() == pytest.approx(1)
        assert above_mean.mean() == pytest.approx(0, abs=1e-12)
        assert above_mean.max() == pytest.approx(1)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", ["nDCG", "nDCG@3", "AP(rel=2)", "DCG(gain=linear)@2", "nRBP", "PairError"])
def test_bounded_values_of_graded_lists(name: str, bound: str) -> None:
    orders = [graded_orders(grades) for grades in GRADED]
    known = [tuple(map(METRICS[name], each)) for each in orders]
    expected = [written_out(bound, value, each) for each in known for value in each]
    batch = [order for each in orders for order in each]
    scores = np.concatenate([np.arange(len(order), 0.0, -1) for order in batch])
    found = rb.bounded(name, bound)(scores, *flat(batch))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bound", BOUNDS[:3])
def test_grades_between_0_and_1_are_not_taken_for_1(bound: str) -> None:
    scores, grades, offsets = np.array([3.0, 2.0, 1.0]), np.array([0.5, 1.0, 0.0]), np.array([0, 3])
    value = rb.metric("nDCG")(scores, grades, offsets)
    low, high = rb.extremes("nDCG", grades, offsets)
    expected = rb.expectation("nDCG", relevance=grades, offsets=offsets)
    origin = {"min-max": low, "expectation": 0.0, "expectation-max": expected}[bound]
    unit = {"min-max": high - low, "expectation": expected, "expectation-max": high - expected}[bound]
    found = rb.bounded("nDCG", bound)(scores, grades, offsets)
    np.testing.assert_allclose(found, (value - origin) / unit)


@pytest.mark.parametrize("bound", BOUNDS)
def test_binary_and_graded_lists_share_a_batch(bound: str) -> None:
    bounded = rb.bounded("nDCG", bound)
    relevance, offsets = flat(GRADED[3:])
    scores = np.sin(np.arange(len(relevance)))
    alone = [
        bounded(scores[start:stop], relevance[start:stop], np.array([0, stop - start]))[0]
        for start, stop in pairwise(offsets)
    ]
    np.testing.assert_allclose(bounded(scores, relevance, offsets), alone, rtol=1e-12)


@pytest.mark.parametrize("text", ["none", *BOUNDS, "distribution(gain=sd)", "distribution(gain=drawn)"])
def test_a_bounds_text_is_its_name(text: str) -> None:
    bound = rb.bound(text)
    assert str(bound) == text
    assert rb.bound(str(bound)) == bound
    assert hash(rb.bound(text)) == hash(bound)
    assert rb.bound(bound) is bound


def test_the_default_gain_is_not_another_bound() -> None:
    assert rb.bound("distribution(gain=distinct)") == rb.bound("distribution")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minmax", "Did you mean min-max"),
        ("expectation-min", "Did you mean expectation-max"),
        ("distrbution", "Did you mean distribution"),
        ("None", "known are none, min-max, expectation, expectation-max, distribution. Did you mean none"),
        ("", "expected a text such as min-max"),
        ("distribution(gain=max)", "gain=max, expected one of distinct, drawn, sd"),
        ("distribution(slope=sd)", "unknown parameter 'slope'; distribution takes: gain"),
        ("distribution(gain=sd)@3", "distribution takes no cut-off"),
    ],
)
def test_wrong_bounds_are_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.bound(text)


@pytest.mark.parametrize("counts", [(3, 5), (3.7, 1.2), (3, -1), (0, 0)])
def test_values_with_impossible_sizes_are_refused(counts: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"^n, p: .*expected"):
        rb.bounded("nDCG", "min-max").from_value(0.5, *counts)


def test_none_is_the_metric_itself() -> None:
    bounded = rb.bounded("nDCG", "none")
    numbers = np.array([0.3, math.nan])
    np.testing.assert_array_equal(bounded.from_value(numbers, 5, 2), numbers)
