"""Draws of units and the intervals from them: scipy's to the last digit, and defined where scipy's are not."""

import math
from typing import Any

import numpy as np
import pytest

from rankbound.compare import statistics
from rankbound.compare.statistics import bootstrap, drawn_means, draws, interval_of_mean, percentiles

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

RANDOM = np.random.default_rng(31)
D = RANDOM.gamma(1.0, 0.2, 50) - 0.15


def mean(values: Any, axis: int = -1) -> Any:
    return values.mean(axis)


class TestDraws:
    def test_as_many_are_drawn_as_there_are(self) -> None:
        found = draws(np.random.default_rng(0), 30, 2000)
        assert (found.sum(1) == 30).all()
        assert found.mean(0) == pytest.approx(np.ones(30), abs=0.12)
        assert found.var() == pytest.approx(29 / 30, rel=0.05)

    def test_a_mean_is_that_of_the_drawn_values(self) -> None:
        drawn = np.random.default_rng(5).integers(0, 50, (299, 50))
        assert drawn_means(D, 299, 5) == pytest.approx(D[drawn].mean(1), abs=1e-15)

    def test_values_of_the_same_units_see_the_same_draws(self) -> None:
        other = RANDOM.random(50)
        both = drawn_means(D + other, 99, 1)
        assert both == pytest.approx(drawn_means(D, 99, 1) + drawn_means(other, 99, 1))
        assert both == pytest.approx(drawn_means(np.stack([D, other]), 99, 1).sum(0))
        assert drawn_means(D, 99, 2) != pytest.approx(drawn_means(D, 99, 1))

    def test_draws_too_many_to_keep_and_batches_are_the_same_draws(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = drawn_means(D, 301, 3)
        monkeypatch.setattr(statistics, "_KEPT_DRAWS", 0)
        monkeypatch.setattr(statistics, "_DRAWS_AT_ONCE", 7 * 50)
        assert drawn_means(D, 301, 3) == pytest.approx(whole, abs=1e-15)


class TestIntervals:
    @pytest.mark.parametrize("method", ["BCa", "percentile"])
    def test_products_of_draws_change_no_digit_of_scipys(self, method: str) -> None:
        # Of the sorted values and their mirror image interval_of_mean draws from the one that comes first.
        low, high = np.sort(D), -np.sort(-D)
        found = interval_of_mean(D, resamples=999, method=method, seed=4)
        level = 2 * stats.norm.cdf(stats.t.ppf(0.975, 49) * math.sqrt(50 / 49)) - 1
        theirs = [bootstrap(mean, low, level, resamples=999, method=method, seed=4)]
        mirrored = bootstrap(mean, -high, level, resamples=999, method=method, seed=4)
        theirs.append((-mirrored[1], -mirrored[0]))
        assert any(found == pytest.approx(one, abs=1e-14) for one in theirs)

    def test_percentiles_leave_undefined_resamples_out(self) -> None:
        known = RANDOM.normal(size=400)
        assert percentiles(np.concatenate([known, [math.nan, math.inf, -math.inf]])) == percentiles(known)
        assert percentiles(known, 0.9) == pytest.approx(tuple(np.quantile(known, [0.05, 0.95])))
        assert all(map(math.isnan, percentiles(np.full(9, math.nan))))


def share(part: Any, whole: Any, axis: int = -1) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return part.sum(axis) / whole.sum(axis)


class TestDegenerate:
    """A warning would fail these tests, as any does."""

    @pytest.mark.parametrize("method", ["BCa", "percentile"])
    def test_undefined_resamples_are_left_out(self, method: str) -> None:
        # Only one of four units counts: a third of the resamples lack it.
        part, whole = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 2.0])
        assert bootstrap(share, np.stack([part, whole]), resamples=199, method=method) == (0.5, 0.5)
        some = np.stack([np.array([0.3, 0.5, 0.0]), np.array([1.0, 1.0, 0.0])])
        low, high = bootstrap(share, some, resamples=199, method=method)
        assert 0.3 <= low <= high <= 0.5

    @pytest.mark.parametrize("method", ["BCa", "percentile"])
    def test_what_no_resample_defines_is_nan(self, method: str) -> None:
        assert all(map(math.isnan, bootstrap(share, np.zeros((2, 5)), resamples=99, method=method)))
        assert all(map(math.isnan, bootstrap(share, np.ones((2, 1)), resamples=99, method=method)))
        assert all(map(math.isnan, bootstrap(share, np.ones((2, 0)), resamples=99, method=method)))

    def test_without_a_correction_it_is_the_percentile_interval(self) -> None:
        # No single value changes the median of these, so that there is no skewness to correct for.
        def median(values: Any, axis: int = -1) -> Any:
            return np.median(values, axis)

        values = np.array([0.0] * 5 + [1.0] * 2)
        assert bootstrap(median, values, resamples=999) == bootstrap(median, values, resamples=999, method="percentile")
        assert bootstrap(median, values, resamples=999) == (0, 1)
        assert bootstrap(mean, np.full(6, 0.25), resamples=99) == (0.25, 0.25)

    @pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.0, 0.0, 1e-12], [1.0, 1.0, math.nan, 0.5]])
    def test_tiny_samples_have_the_t_interval(self, values: list[float]) -> None:
        """The whole range of five topics covers the mean of a normal distribution in 93.75 % of samples."""
        assert interval_of_mean(np.array(values), resamples=199) == interval_of_mean(np.array(values), method="t")

    def test_of_six_topics_the_range_is_enough(self) -> None:
        low, high = interval_of_mean(D[:6], resamples=199)
        assert min(D[:6]) <= low < high <= max(D[:6])
        assert interval_of_mean(D[:6], confidence=0.99, resamples=199) == interval_of_mean(
            D[:6], confidence=0.99, method="t"
        )
