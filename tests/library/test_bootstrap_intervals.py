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

    @pytest.mark.parametrize("limits", [{}, {"_KEPT_DRAWS": 0, "_DRAWS_AT_ONCE": 7 * 50}], ids=["kept", "in batches"])
    def test_means_of_all_values_are_those_of_the_drawn_units(
        self, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in limits.items():
            monkeypatch.setattr(statistics, name, value)
        drawn = np.random.default_rng(5).integers(0, 50, (301, 50))
        values = np.stack([D, RANDOM.random(50)])
        assert drawn_means(values, 301, 5) == pytest.approx(values[:, drawn].mean(2), abs=1e-15)
        assert drawn_means(D, 301, 5) == pytest.approx(D[drawn].mean(1), abs=1e-15)


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
    def test_undefined_resamples_are_left_out_and_without_any_it_is_nan(self, method: str) -> None:
        # Only one of four units counts: a third of the resamples lack it.
        part, whole = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 2.0])
        assert bootstrap(share, np.stack([part, whole]), resamples=199, method=method) == (0.5, 0.5)
        some = np.stack([np.array([0.3, 0.5, 0.0]), np.array([1.0, 1.0, 0.0])])
        low, high = bootstrap(share, some, resamples=199, method=method)
        assert 0.3 <= low <= high <= 0.5
        for none in (np.zeros((2, 5)), np.ones((2, 1)), np.ones((2, 0))):
            assert all(map(math.isnan, bootstrap(share, none, resamples=99, method=method)))

    def test_without_a_correction_it_is_the_percentile_interval(self) -> None:
        # No single value changes the median of these, so that there is no skewness to correct for.
        def median(values: Any, axis: int = -1) -> Any:
            return np.median(values, axis)

        values = np.array([0.0] * 5 + [1.0] * 2)
        assert bootstrap(median, values, resamples=999) == bootstrap(median, values, resamples=999, method="percentile")
        assert bootstrap(median, values, resamples=999) == (0, 1)
        assert bootstrap(mean, np.full(6, 0.25), resamples=99) == (0.25, 0.25)

    @pytest.mark.parametrize(
        ("values", "confidence", "is_t"),
        [
            ([0.0, 1.0], 0.95, True),
            ([0.0, 0.0, 0.0, 1e-12], 0.95, True),
            ([1.0, 1.0, math.nan, 0.5], 0.95, True),
            (D[:6], 0.95, False),
            (D[:6], 0.99, True),
        ],
    )
    def test_tiny_samples_have_the_t_interval(self, values: Any, confidence: float, is_t: bool) -> None:
        """The whole range of five topics covers the mean of a normal distribution in 93.75 % of samples."""
        found, of_t = (interval_of_mean(np.array(values), None, confidence, 199, how) for how in ("BCa", "t"))
        assert (found == of_t) == is_t
        assert is_t or min(values) <= found[0] < found[1] <= max(values)
