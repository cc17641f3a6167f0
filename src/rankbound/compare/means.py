"""The interval and the test of a mean over units: bootstrap and sign flips, or what knows that pairs share members."""

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
    """Of a value per unit `(n_units,)`: `mean_interval`; of pairs with `members` `(n_units, 2)` by the dyadic error.

    NaNs are left out; NaN for fewer than two units.
    """
    if members is None:
        return mean_interval(values, confidence, resamples, method, seed)
    known = np.isfinite(values)
    if known.sum() < 2:
        return math.nan, math.nan
    return over_members(values[known], members[known]).interval(confidence)


def p_value_of_mean(values: Floats, members: Integers | None = None, flips: int = FLIPS, seed: int = 0) -> float:
    """Two-sided, that the true mean is 0: `sign_flip`; of pairs with `members` `(n_units, 2)` by the dyadic error.

    NaNs are left out; NaN where nothing remains.
    """
    if members is None:
        return sign_flip(values, flips, seed)
    known = np.isfinite(values)
    return over_members(values[known], members[known]).p_value() if known.any() else math.nan
