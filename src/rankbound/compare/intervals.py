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
"""Two bootstrap intervals, and the t interval."""
BOOTSTRAP = METHODS[:2]

_NUMBERS_AT_ONCE = 2**22

_ROUNDING = 1e-9


def mean_interval(
    values: Floats, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, method: str = "BCa", seed: int = 0
) -> tuple[float, float]:
    r"""Return the interval of the mean over units `(n_units,)`, ignoring NaNs; NaN for fewer than two units.

    A bootstrap interval of $n$ units is too narrow: resamples have the variance of the sample, without the factor
    $n / (n - 1)$, and normal quantiles, where $t$ quantiles are due. It is therefore taken at the level
    $2 \Phi(t_{n-1} \sqrt{n / (n - 1)}) - 1$, with $t_{n-1}$ the quantile of the t interval of level `confidence`. With
    so few units that the whole range of the sample would not have this level (five, for 95 %), it is the t interval.
    It does not depend on the order of units, and changing all signs mirrors it.

    Source: Hesterberg 2015, "What teachers should know about the bootstrap", on expanded percentile intervals.
    """
    known = np.sort(values[np.isfinite(values)])
    if len(known) < 2:
        return math.nan, math.nan
    if known[0] == known[-1]:
        return float(known[0]), float(known[0])
    if method == "t" or not can_reach(len(known), 1 - confidence):
        return over_units(known).interval(confidence)
    # A sample and its mirror image use the same draws.
    mirrored = -known[::-1]
    unequal = known != mirrored
    swapped = bool(unequal.any()) and bool((known < mirrored)[unequal][0])
    drawn = mirrored if swapped else known
    level = _expanded(confidence, len(known))
    low, high = of_resamples(drawn_means(drawn, resamples, seed), _mean, drawn, level, method)
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


def can_reach(n: int, level: float) -> bool:
    """Return True if the least p-value of `n` sign flips, 2 / 2^n, is at most `level`.

    It is also the probability that a symmetric sample lies on one side of its centre, where no resample reaches.
    """
    return 2.0 ** (1 - n) <= level * (1 + _ROUNDING)


def _expanded(confidence: float, n: int) -> float:
    """Return the level at which the bootstrap interval of a normal sample is as wide as the t interval."""
    from scipy import special

    reach = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * math.sqrt(n / (n - 1))
    return 2 * float(special.ndtr(reach)) - 1


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
