"""Score distributions: brute force over all orders, closed forms, long lists, draws, bins, and what is refused."""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from brute_force import METRICS, binary_orders, distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rankbound as rb
from rankbound.bounds.sampled import sums_of_orders
from rankbound.bounds.score_distribution import SAMPLES, ScoreDistribution, score_distribution, score_distributions
from rankbound.kernels import usable

THESIS = ("nDCG", "AP", "nRBP")
SIZES = [(n, p) for n in range(1, 9) for p in range(n + 1)]
MIXED = [(n, p) for n, p in SIZES if 0 < p < n]
DRAWN_SIZES = st.integers(2, 70).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))
WITH_EXACT = st.sampled_from(["nDCG", "AP", "nRBP", "DCG", "RR", "P@1", "nDCG@2", "Kendall", "LinearNDCG"])
SOME = settings(max_examples=settings.default.max_examples // 2)


@cache
def values(name: str, n: int, p: int) -> tuple[Fraction | float | None, ...]:
    """The metric of all orders; the relevant items have the lowest grade that the metric counts."""
    grade = getattr(rb.metric(name), "rel", 1)
    return tuple(METRICS[name](tuple(grade * relevant for relevant in order)) for order in binary_orders(n, p))


@pytest.mark.parametrize("name", METRICS)
def test_score_distribution_of_every_short_list(name: str) -> None:
    """Its scores and their chances are the shares of all orders, whatever the way to them."""
    for n, p in SIZES if name in THESIS else [(n, p) for n, p in SIZES if n <= 6]:
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
    for n, p in MIXED if name in THESIS else [(5, 1), (6, 3), (6, 4)]:
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


@pytest.mark.parametrize(("n", "p"), [(100, 50), (60, 3), (130, 65), (200, 7), (90, 80)])
def test_nrbp_is_mann_whitneys_statistic(n: int, p: int) -> None:
    one = score_distribution("nRBP", n, p)
    table = stats._mannwhitneyu._MWU(min(p, n - p), max(p, n - p))
    np.testing.assert_allclose(one.probability, table.pmf(np.arange(p * (n - p) + 1)), atol=1e-14, rtol=1e-7)


@pytest.mark.parametrize("name", THESIS)
@pytest.mark.parametrize(
    ("n", "p"), [(100, 50), (121, 6), (400, 100), (1500, 375), (1500, 20), (2454, 1227), (300, 290)]
)
def test_long_lists_have_the_moments_and_the_range_of_the_closed_forms(name: str, n: int, p: int) -> None:
    one = score_distribution(name, n, p)
    assert one.error <= 1e-4
    if name == "nRBP":
        assert len(one.support) == p * (n - p) + 1
        np.testing.assert_array_equal(one.probability, one.probability[::-1])
    else:
        assert one.width > 0
        assert len(one.support) <= 65536
    assert [one.minimum, one.maximum] == pytest.approx([float(rb.minimum(name, n, p)), float(rb.maximum(name, n, p))])
    assert one.expectation == pytest.approx(float(rb.expectation(name, n, p)))
    edges = one.support[[0, -1]] + 0.5 * one.width * np.array([-1, 1])
    np.testing.assert_allclose(edges, [one.minimum, one.maximum], atol=1e-12)
    assert one.probability.min() >= 0
    assert one.probability.sum() == pytest.approx(1, abs=1e-12)
    mean = (one.probability * one.support).sum()
    spread = ((one.probability * (one.support - mean) ** 2).sum() - one.width**2 / 12) ** 0.5
    assert mean == pytest.approx(one.expectation, abs=1e-5 * one.sd)
    assert spread == pytest.approx(one.sd, rel=2e-4)


@pytest.mark.parametrize("metric", THESIS)
def test_a_batch_of_pairs_equals_one_by_one(metric: str) -> None:
    pairs = [(90, 30), (8, 4), (60, 20), (75, 25), (90, 45), (61, 20)]
    for (n, p), one in zip(pairs, score_distributions(metric, pairs), strict=True):
        alone = score_distribution(metric, n, p)
        assert (one.n, one.p) == (n, p)
        np.testing.assert_allclose(one.support, alone.support, rtol=1e-12)
        x = np.linspace(one.minimum, one.maximum, 501)
        np.testing.assert_allclose(one.cdf(x), alone.cdf(x), atol=2e-6)


@st.composite
def distributions(draw: st.DrawFn) -> ScoreDistribution:
    n, p = draw(DRAWN_SIZES)
    if 200_000 < comb(n, p) <= 5_000_000:  # enumeration is tested elsewhere, and takes a second
        n = 12
        p = min(p, 11)
    return score_distribution(draw(WITH_EXACT), n, p)


@SOME
@given(distributions(), st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=20))
def test_is_a_distribution_over_the_true_range(one: ScoreDistribution, places: list[float]) -> None:
    assert one.probability.min() >= 0
    assert one.probability.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(np.diff(one.support) > 0)
    half = one.width / 2
    assert one.support[0] - half == pytest.approx(one.minimum, abs=1e-9)
    assert one.support[-1] + half == pytest.approx(one.maximum, abs=1e-9)
    assert one.minimum <= one.low <= one.high <= one.maximum
    assert 0 < one.count <= min(one.samples, comb(one.n, one.p)) * (1 + 1e-9)
    assert 0 <= one.error <= 1e-4
    mean = (one.probability * one.support).sum()
    variance = (one.probability * (one.support - mean) ** 2).sum() - one.width**2 / 12
    assert mean == pytest.approx(one.expectation, abs=1e-4 * one.sd)
    assert max(variance, 0) ** 0.5 == pytest.approx(one.sd, rel=1e-3)
    x = one.minimum + np.sort(places) * (one.maximum - one.minimum)
    for values in (one.cdf(x), one.smooth_cdf(x), one.smooth_cdf(x, "sd")):
        assert np.all(np.diff(values) >= -1e-12)
        assert values.min() >= 0
        assert values.max() <= 1 + 1e-12
    assert np.all(one.cdf(x[x < one.minimum - 1e-9]) == 0)
    assert np.all(one.cdf(x[x >= one.maximum]) == 1)
    assert np.isnan(one.cdf(np.nan))


@SOME
@given(distributions())
def test_a_huge_gain_gives_the_discrete_cdf_between_the_scores(one: ScoreDistribution) -> None:
    between = (one.support[1:] + one.support[:-1]) / 2 if one.width == 0 else one.support[:-1] + one.width / 2
    # Some of them: each is compared with the whole support, which may have thousands of scores.
    between = between[np.unique(np.linspace(0, len(between) - 1, 100).astype(int))] if len(between) else between
    spacing = np.diff(one.support).min()
    tolerance = 1e-9 if one.width == 0 else 1e-3 * one.probability.max()
    np.testing.assert_allclose(one.smooth_cdf(between, gain=1e4 / spacing), one.cdf(between), atol=tolerance)


DRAWN = st.sampled_from([*THESIS, "nDCG@3", "AP@2", "RR", "P@3", "Hit@3", "RBP(p=0.8)", "Kendall", "DCG"])


@given(DRAWN, DRAWN_SIZES, st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 4)
def test_samples_agree_within_dvoretzky_kiefer_wolfowitz(name: str, sizes: tuple[int, int], seed: int) -> None:
    samples, (n, p) = 20_000, sizes
    if 200_000 < comb(n, p) <= 5_000_000 or name in ("nDCG@3", "AP@2"):
        n, p = min(n, 12), min(p, 11, n - 1)
    exact = score_distribution(name, n, p)
    drawn = score_distribution(name, n, p, method="sampled", samples=samples, seed=seed)
    # Exceeded once in 1e9 runs.
    bound = (np.log(2e9) / (2 * samples)) ** 0.5 + exact.error
    # Between the scores, where a step and its neighbour can't be confused by rounding.
    middles = (drawn.support[1:] + drawn.support[:-1]) / 2
    assert np.abs(drawn.cdf(middles) - exact.cdf(middles)).max(initial=0.0) <= bound
    assert drawn.probability @ drawn.support == pytest.approx(exact.expectation, abs=7 * exact.sd / samples**0.5)
    assert drawn.count == len(drawn.support)
    again = score_distribution(name, n, p, method="sampled", samples=samples, seed=seed)
    np.testing.assert_array_equal(drawn.support, again.support)
    np.testing.assert_array_equal(drawn.probability, again.probability)
    if usable():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RANKBOUND_FAST", "0")
            plain = score_distribution(name, n, p, method="sampled", samples=samples, seed=seed)
        np.testing.assert_allclose(plain.support, drawn.support, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(plain.probability, drawn.probability)


@pytest.mark.parametrize(("n", "p"), [(5, 2), (7, 4), (6, 6), (9, 1)])
@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("counts", [False, True])
def test_every_set_of_ranks_is_equally_likely(
    n: int, p: int, fast: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", fast)
    counted = np.zeros(n) if counts else None
    sets = {float(sum(2**rank for rank in chosen)) for chosen in combinations(range(n), p)}
    drawn, counts = np.unique(sums_of_orders(2.0 ** np.arange(n), counted, p, 50_000, 7), return_counts=True)
    assert set(drawn) == sets
    assert len(sets) == 1 or stats.chisquare(counts).pvalue > 0.001


def test_metrics_share_their_orders_and_seeds_do_not() -> None:
    """The rank sum decides nRBP, and the same ranks decide nDCG."""
    ranks = np.arange(1.0, 31.0)
    one, other = (sums_of_orders(fixed, None, 1, 200, 3) for fixed in (ranks, 1 / ranks))
    np.testing.assert_allclose(one * other, 1.0)
    assert not np.array_equal(one, sums_of_orders(ranks, None, 1, 200, 4))


def test_a_score_equal_to_an_atom_counts_despite_rounding() -> None:
    one = score_distribution("AP", 8, 4)
    for shift in (-1e-14, 0.0, 1e-14):
        np.testing.assert_allclose(one.cdf(one.support + shift), np.cumsum(one.probability), atol=1e-12)
    assert one.cdf(one.support[3] - 1e-6) == pytest.approx(one.probability[:3].sum())


@pytest.mark.parametrize("metric", ["nDCG", "AP"])
def test_the_expected_distinct_scores_are_those_of_a_sample(metric: str) -> None:
    """AP is a sum of fractions: one draw in ten repeats an earlier score here."""
    for n, p in ((30, 8), (60, 6)):
        drawn = score_distribution(metric, n, p, method="sampled", samples=100_000, seed=3)
        exact = score_distribution(metric, n, p)
        assert (drawn.count, exact.samples) != (100_000, 100_000)
        assert exact.count == pytest.approx(score_distribution(metric, n, p, method="sampled").count, rel=0.02)


def test_extremes_of_the_draws() -> None:
    tiny = score_distribution("AP", 8, 4)
    assert (tiny.low, tiny.high) == (tiny.minimum, tiny.maximum)
    long = score_distribution("nRBP", 400, 200)
    # The median extreme of 300,000 normal draws lies 4.58 standard deviations out.
    assert (long.high - long.expectation) / long.sd == pytest.approx(4.58, abs=0.05)
    assert long.high + long.low == pytest.approx(2 * long.expectation, abs=1.5)


@pytest.mark.parametrize("metric", THESIS)
def test_certain_scores(metric: str) -> None:
    whole = score_distribution(metric, 5, 5)
    assert whole.support.tolist() == [0.0 if metric == "nRBP" else 1.0]
    assert whole.cdf(whole.support[0]) == 1.0
    with pytest.raises(ValueError, match="all its orders have the same score"):
        whole.gain()
    none = score_distribution(metric, 5, 0)
    assert np.isnan(none.support).tolist() == [True]
    assert np.isnan(none.cdf(0.5))
    with pytest.raises(ValueError, match="5 items with 0 relevant"):
        none.smooth_cdf(0.5)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_integers_of_numpy_do_not_overflow(dtype: type) -> None:
    for metric in ("nRBP", "AP", "P@10"):
        found, expected = score_distribution(metric, dtype(300), dtype(150)), score_distribution(metric, 300, 150)
        assert (found.expectation, found.sd, found.gain()) == (expected.expectation, expected.sd, expected.gain())
        assert found.profile.key == expected.profile.key
    (found,) = score_distributions("nRBP", [(dtype(300), dtype(150))])
    assert found.sd == score_distribution("nRBP", 300, 150).sd


def test_a_loss_with_more_scores_than_memory_holds_is_sampled_or_refused() -> None:
    """A list of 100,000 items, half of them relevant, would take several arrays of 20 GB."""
    found = score_distribution("nRBP", 100_000, 50_000, method="auto", samples=20)
    assert 0 < len(found.support) <= 20
    assert abs(found.support.mean() - found.expectation) < 6 * found.sd / 20**0.5
    with pytest.raises(ValueError, match="it has 2,500,000,001 scores, more than 50,000,000"):
        score_distribution("nRBP", 100_000, 50_000)


def test_binning_keeps_small_tables_and_bounds_the_error_of_large_ones() -> None:
    small = score_distribution("nDCG", 12, 6)
    assert small.binned() is small
    for metric, n, p in (("nDCG", 22, 8), ("nRBP", 260, 130), ("nRBP", 2000, 1000)):
        atoms = score_distribution(metric, n, p)
        bins = atoms.binned()
        assert bins.width > 0
        assert len(bins.support) < len(atoms.support) / 4
        assert bins.error <= 1e-4 + atoms.error
        assert np.abs(bins.cdf(atoms.support) - atoms.cdf(atoms.support)).max() <= bins.error
        assert bins.probability.sum() == pytest.approx(1, abs=1e-12)


def test_nrbp_bins_still_step_at_the_integers() -> None:
    atoms = score_distribution("nRBP", 300, 150)
    bins = atoms.binned()
    x = np.array([11000.0, 11000.4, 11000.99, 11001.0])
    np.testing.assert_allclose(bins.cdf(x), atoms.cdf(x), atol=2e-5)
    assert bins.cdf(x)[0] == bins.cdf(x)[2] < bins.cdf(x)[3]
    np.testing.assert_allclose(bins.smooth_cdf(x, gain=60.0), atoms.smooth_cdf(x, gain=60.0), atol=2e-5)


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


EITHER = r"^score_distribution: expected either n and p, or relevance="


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"metric": "nDCG@20", "n": 60, "p": 20}, "^method: found exact for the distribution of nDCG@20 over 60 items"),
        ({"metric": "RBP(p=0.3)", "n": 60, "p": 20}, "too rugged for Fourier coefficients; expected sampled, or auto"),
        ({"metric": "nDGC", "n": 5, "p": 2}, "Did you mean nDCG"),
        ({"n": 5, "p": 2, "method": "walk"}, "method 'walk' is not one of exact, sampled, auto"),
        ({"n": 5, "p": 2, "method": "sampled", "samples": 0}, "found samples=0, expected 1 to 100,000,000"),
        ({"n": 3, "p": 4}, "found 3 items with 4 relevant"),
        ({"n": 0, "p": 0}, "found 0 items"),
        ({"n": 5.0, "p": 2}, r"^n, p: found 5\.0 and 2, expected integers"),
        ({}, EITHER),
        ({"n": 5}, EITHER),
        ({"n": 5, "p": 2, "relevance": [1, 0]}, EITHER),
        ({"p": 2, "relevance": [1, 0]}, EITHER),
        ({"relevance": [1, -1]}, r"^relevance: found -1.0, expected grades from 0"),
        ({"relevance": []}, "found 0 items"),
    ],
)
def test_distributions_that_cannot_be_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.score_distribution(**({"metric": "nDCG"} | keywords))


def test_a_gain_is_known_by_name() -> None:
    with pytest.raises(ValueError, match="gain 'wide' is not one of distinct, drawn, sd"):
        score_distribution("AP", 5, 2).gain("wide")  # type: ignore[arg-type]


def test_the_constants_agree_with_the_thesis() -> None:
    assert SAMPLES == 300_000
