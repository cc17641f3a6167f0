"""Intervals over units, of the bootstrap by scipy: units are drawn with replacement, all their scores together."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rankbound.statistics.estimates import over_units
from rankbound.statistics.scores import Floats

CONFIDENCE = 0.95
RESAMPLES = 9999
METHODS = ("BCa", "percentile", "t")
"""Two of the bootstrap; `t` is mean and standard error, the best of the three for fewer than about 20 units."""
BOOTSTRAP = METHODS[:2]

_NUMBERS_AT_ONCE = 2**22


def mean_interval(
    values: Floats, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, method: str = "BCa", seed: int = 0
) -> tuple[float, float]:
    """The interval of the mean over units, NaNs left out; NaN for fewer than two units.

    The order of the units changes nothing, and swapping all signs mirrors the interval.
    """
    known = np.sort(values[np.isfinite(values)])
    if len(known) < 2:
        return math.nan, math.nan
    if known[0] == known[-1]:
        return float(known[0]), float(known[0])
    if method == "t":
        return over_units(known).interval(confidence)
    # Of a sample and its mirror image one is drawn from, so that both see the same draws.
    mirrored = -known[::-1]
    unequal = known != mirrored
    swapped = bool(unequal.any()) and bool((known < mirrored)[unequal][0])
    low, high = bootstrap(_mean, mirrored if swapped else known, confidence, resamples, method, seed)
    return (-high, -low) if swapped else (low, high)


def bootstrap(
    statistic: Callable[..., Any],
    values: Floats,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: str = "BCa",
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of any statistic of units, `statistic(column, ..., axis)` of `values` `(n_columns, n_units)`.

    Rows of `values` are columns of the same units, which are resampled together: two systems' scores for a correlation
    or a difference of quantiles, a score and the number of relevant items, and so on.

    Raises:
        ValueError: for a method that is none of the bootstrap.
    """
    from scipy import stats

    if method not in BOOTSTRAP:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(BOOTSTRAP)}")
    columns = np.atleast_2d(values)

    def interval(method: str) -> tuple[float, float]:
        found = stats.bootstrap(
            tuple(columns),
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=resamples,
            batch=max(1, _NUMBERS_AT_ONCE // columns.size),
            confidence_level=confidence,
            method=method,
            rng=np.random.default_rng(seed),
        ).confidence_interval
        return float(found.low), float(found.high)

    with warnings.catch_warnings():
        # Where hardly any resample differs, the correction is undefined: the percentiles themselves still are.
        warnings.simplefilter("ignore")
        low, high = interval(method)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else interval("percentile")


def _mean(values: Any, axis: int) -> Any:
    return values.mean(axis)
