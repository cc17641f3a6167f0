"""The interval and test of a mean: bootstrap and sign flips for units, t for pairs that share members."""

import math

import numpy as np

from rankbound.compare.estimates import over_members
from rankbound.compare.intervals import CONFIDENCE, METHODS, RESAMPLES, mean_interval
from rankbound.compare.randomisation import FLIPS, sign_flip
from rankbound.compare.scores import Floats, Integers


def interval_of_mean(
    values: Floats,
    members: Integers | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: str = METHODS[0],
    seed: int = 0,
) -> tuple[float, float]:
    """Return the interval of the mean of values `(n_units,)`, ignoring NaNs; NaN for fewer than two units.

    It is `mean_interval`, or the t interval of `over_members` for pairs with `members` `(n_units, 2)`, NaN where that
    has no estimate.
    """
    if members is None:
        return mean_interval(values, confidence, resamples, method, seed)
    known = np.isfinite(values)
    estimate = over_members(values[known], members[known]) if known.any() else None
    return (math.nan, math.nan) if estimate is None else estimate.interval(confidence)


def p_value_of_mean(values: Floats, members: Integers | None = None, flips: int = FLIPS, seed: int = 0) -> float:
    """Return the two-sided p-value of a true mean of 0, from values `(n_units,)`; NaNs are ignored, NaN without units.

    It is `sign_flip`, or the t test of `over_members` for pairs with `members` `(n_units, 2)`, NaN where that has no
    estimate.
    """
    if members is None:
        return sign_flip(values, flips, seed)
    known = np.isfinite(values)
    estimate = over_members(values[known], members[known]) if known.any() else None
    return math.nan if estimate is None else estimate.p_value()
