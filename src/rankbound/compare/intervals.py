"""Bootstrap intervals over units, by scipy: each unit is resampled with all its scores."""

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
"""Two bootstrap intervals, and the t interval, the best of the three for fewer than about 20 units."""
BOOTSTRAP = METHODS[:2]

_NUMBERS_AT_ONCE = 2**22


def mean_interval(
    values: Floats, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, method: str = "BCa", seed: int = 0
) -> tuple[float, float]:
    """Return the interval of the mean over units `(n_units,)`, ignoring NaNs; NaN for fewer than two units.

    The interval does not depend on the order of units, and changing all signs mirrors it.
    """
    known = np.sort(values[np.isfinite(values)])
    if len(known) < 2:
        return math.nan, math.nan
    if known[0] == known[-1]:
        return float(known[0]), float(known[0])
    if method == "t":
        return over_units(known).interval(confidence)
    # A sample and its mirror image use the same draws.
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
    """Return the bootstrap interval of a statistic, `statistic(column, ..., axis)` of `values` `(n_columns, n_units)`.

    The columns of a unit are resampled together, such as two systems' scores for a correlation or a difference of
    quantiles. Degenerate samples raise no warning:

    - resamples with an undefined statistic (NaN or infinite) are ignored;
    - if the BCa correction is undefined, as when hardly any resamples differ, the percentile interval is returned;
    - the interval is NaN for fewer than two units, or if no resample defines the statistic.

    Raises:
        ValueError: `method` is not a bootstrap method.
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
    """Return the interval of `bootstrap`, given the statistic of every resample `(resamples,)`."""
    how = {"n_resamples": 0, "bootstrap_result": SimpleNamespace(bootstrap_distribution=resampled)}
    return _interval(statistic, np.atleast_2d(values), confidence, method, how)


def percentiles(resampled: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the percentile interval of the defined resamples; NaN if there is none."""
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
        # Undefined intervals are handled below.
        warnings.simplefilter("ignore")
        result: Any = stats.bootstrap(
            tuple(columns),
            statistic,
            paired=True,
            vectorized=True,
            batch=max(1, _NUMBERS_AT_ONCE // columns.size),
            confidence_level=confidence,
            method=method,
            **how,
        )
    low, high = map(float, result.confidence_interval)
    defined = math.isfinite(low) and math.isfinite(high)
    return (low, high) if defined else percentiles(result.bootstrap_distribution, confidence)


def _mean(values: Any, axis: int) -> Any:
    return values.mean(axis)
