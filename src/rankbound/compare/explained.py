"""How much of a quantity's variance predictions explain, with the interval of the bootstrap."""

import math
from typing import Any

import numpy as np

from rankbound.compare.draws import drawn_means
from rankbound.compare.intervals import CONFIDENCE, METHODS, RESAMPLES, of_resamples
from rankbound.compare.scores import Floats

_ROUNDING = 1e-12
"""Of the mean square: a smaller variance is that of one value, drawn again and again."""


def r_squared(
    predicted: Floats,
    true: Floats,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: str = METHODS[0],
    seed: int = 0,
) -> tuple[float, float, float]:
    r"""The coefficient of determination of predictions, and its interval over units; both arrays are `(n_units,)`.

    $$R^2 = 1 - \frac{\sum_u (t_u - p_u)^2}{\sum_u (t_u - \bar t)^2}$$

    is 1 for the truth, 0 for its mean $\bar t$ (in each resample that of the resample), and below 0 for what is worse.
    NaN where the truth is one value.
    """
    if not len(true) or np.ptp(true) == 0:
        return math.nan, math.nan, math.nan
    centred = true - true.mean()
    columns = np.stack([(true - predicted) ** 2, centred, centred**2])
    resampled = _explained(*drawn_means(columns, resamples, seed))
    interval = of_resamples(resampled, _of_units, columns, confidence, method)
    return float(_explained(*columns.mean(1))), *interval


def _of_units(missed: Any, centred: Any, squares: Any, axis: int = -1) -> Any:
    return _explained(missed.mean(axis), centred.mean(axis), squares.mean(axis))


def _explained(missed: Any, centred: Any, squares: Any) -> Any:
    """From means over units; NaN where they have one value."""
    variance = squares - centred**2
    varies = variance > _ROUNDING * squares
    return 1 - np.divide(missed, variance, out=np.full(np.shape(variance), np.nan), where=varies)
