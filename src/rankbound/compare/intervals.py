"""Intervals over units, of the bootstrap by scipy: units are drawn with replacement, all their scores together."""

import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from rankbound.compare.draws import drawn_means
from rankbound.compare.estimates import over_units
from rankbound.compare.scores import Floats

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
    drawn = mirrored if swapped else known
    low, high = of_resamples(drawn_means(drawn, resamples, seed), _mean, drawn, confidence, method)
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
    or a difference of quantiles, a score and the number of relevant items, and so on. Small and even samples have an
    interval, too, without a warning:

    - resamples for which the statistic is undefined (NaN or infinite) are left out;
    - where the correction of BCa is undefined, as where hardly any resample differs, it is the percentile interval;
    - fewer than two units, and a statistic that no resample defines, have the interval NaN.

    Raises:
        ValueError: for a method that is none of the bootstrap.
    """
    columns = np.atleast_2d(values)
    if columns.shape[1] < 2:
        return math.nan, math.nan
    how = {"n_resamples": resamples, "rng": np.random.default_rng(seed)}
    return _interval(statistic, columns, confidence, method, how)


def of_resamples(
    resampled: Floats,
    statistic: Callable[..., Any],
    values: Floats,
    confidence: float = CONFIDENCE,
    method: str = "BCa",
) -> tuple[float, float]:
    """As `bootstrap`, where the statistic of every resample, `(resamples,)`, is there already."""
    how = {"n_resamples": 0, "bootstrap_result": SimpleNamespace(bootstrap_distribution=resampled)}
    return _interval(statistic, np.atleast_2d(values), confidence, method, how)


def percentiles(resampled: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Between which the middle `confidence` of the resamples lie, undefined ones left out; NaN if all are."""
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _interval(
    statistic: Callable[..., Any], columns: Floats, confidence: float, method: str, how: dict[str, Any]
) -> tuple[float, float]:
    from scipy import stats

    if method not in BOOTSTRAP:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(BOOTSTRAP)}")
    with warnings.catch_warnings():
        # Whether the interval is defined is asked below.
        warnings.simplefilter("ignore")
        found: Any = stats.bootstrap(
            tuple(columns),
            statistic,
            paired=True,
            vectorized=True,
            batch=max(1, _NUMBERS_AT_ONCE // columns.size),
            confidence_level=confidence,
            method=method,
            **how,
        )
    low, high = map(float, found.confidence_interval)
    defined = math.isfinite(low) and math.isfinite(high)
    return (low, high) if defined else percentiles(found.bootstrap_distribution, confidence)


def _mean(values: Any, axis: int) -> Any:
    return values.mean(axis)
