"""Properties of every score distribution."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankbound.bounds.score_distribution import ScoreDistribution, score_distribution

METRICS = st.sampled_from(["nDCG", "AP", "nRBP"])
WITH_EXACT = st.sampled_from(["nDCG", "AP", "nRBP", "DCG", "RR", "P@1", "nDCG@2", "Kendall", "LinearNDCG"])
SIZES = st.integers(2, 70).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))
SOME = settings(max_examples=settings.default.max_examples // 2)


@st.composite
def distributions(draw: st.DrawFn) -> ScoreDistribution:
    n, p = draw(SIZES)
    if 200_000 < comb(n, p) <= 5_000_000:  # enumeration is tested elsewhere, and takes a second
        n = 12
        p = min(p, 11)
    return score_distribution(draw(WITH_EXACT), n, p)


@SOME
@given(distributions())
def test_is_a_distribution_over_the_true_range(one: ScoreDistribution) -> None:
    assert one.probability.min() >= 0
    assert one.probability.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(np.diff(one.support) > 0)
    half = one.width / 2
    assert one.support[0] - half == pytest.approx(one.minimum, abs=1e-9)
    assert one.support[-1] + half == pytest.approx(one.maximum, abs=1e-9)
    assert one.minimum <= one.low <= one.high <= one.maximum
    assert 0 < one.count <= min(one.samples, comb(one.n, one.p)) * (1 + 1e-9)
    assert 0 <= one.error <= 1e-4


@SOME
@given(distributions())
def test_moments_are_the_closed_forms(one: ScoreDistribution) -> None:
    mean = (one.probability * one.support).sum()
    variance = (one.probability * (one.support - mean) ** 2).sum() - one.width**2 / 12
    assert mean == pytest.approx(one.expectation, abs=1e-4 * one.sd)
    assert max(variance, 0) ** 0.5 == pytest.approx(one.sd, rel=1e-3)


@SOME
@given(distributions(), st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=20))
def test_cdfs_rise_from_0_to_1(one: ScoreDistribution, places: list[float]) -> None:
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


@SOME
@given(SIZES)
def test_nrbp_is_symmetric_and_the_same_for_the_other_items(sizes: tuple[int, int]) -> None:
    n, p = sizes
    one, other = score_distribution("nRBP", n, p), score_distribution("nRBP", n, n - p)
    np.testing.assert_array_equal(one.probability, one.probability[::-1])
    np.testing.assert_allclose(one.probability, other.probability, atol=1e-14)


@given(METRICS, SIZES, st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 4)
def test_samples_agree_within_dvoretzky_kiefer_wolfowitz(metric: str, sizes: tuple[int, int], seed: int) -> None:
    n, p = sizes
    samples = 20_000
    exact = score_distribution(metric, n, p)
    drawn = score_distribution(metric, n, p, method="sampled", samples=samples, seed=seed)
    # Exceeded once in 1e9 runs.
    bound = (np.log(2e9) / (2 * samples)) ** 0.5 + exact.error
    assert np.abs(drawn.cdf(drawn.support) - exact.cdf(drawn.support)).max() <= bound
    assert drawn.count == len(drawn.support)
    again = score_distribution(metric, n, p, method="sampled", samples=samples, seed=seed)
    np.testing.assert_array_equal(drawn.support, again.support)
    np.testing.assert_array_equal(drawn.probability, again.probability)
