"""The share of variance that predictions explain, with its bootstrap interval."""

import math
from typing import Any

import numpy as np

from rankbound.compare.draws import drawn_means
from rankbound.compare.intervals import CONFIDENCE, METHODS, RESAMPLES, of_resamples
from rankbound.compare.scores import Floats

_ROUNDING = 1e-12
"""A variance below this share of the mean square is that of a constant."""


def r_squared(
    predicted: Floats,
    true: Floats,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: str = METHODS[0],
    seed: int = 0,
) -> tuple[float, float, float]:
    r"""Return the coefficient of determination of predictions, and the limits of its bootstrap interval over units.

    $$R^2 = 1 - \frac{\sum_u (t_u - p_u)^2}{\sum_u (t_u - \bar t)^2}$$

    is 1 for perfect predictions, 0 for the mean $\bar t$ (recomputed in each resample), and negative for worse ones.
    Both arrays are `(n_units,)`. NaN if the true values are constant.
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
    """Return R^2 from means over units; NaN for constant true values."""
    variance = squares - centred**2
    varies = variance > _ROUNDING * squares
    return 1 - np.divide(missed, variance, out=np.full(np.shape(variance), np.nan), where=varies)
