"""Mean scores of methods on the same lists, with the intervals and tests of `rankbound.compare`."""

from dataclasses import dataclass

import numpy as np

from rankbound.compare.scores import Floats, Integers, mean_of_known
from rankbound.compare.statistics import interval_of_mean, p_value_of_mean


@dataclass(frozen=True)
class MethodMeans:
    """Means of `values` `(n_methods, n_lists)`, NaN where undefined; lists that are pairs have `faces` `(n_lists, 2)`.

    Differences and combinations are over the lists with a score of all their methods. They agree with
    `rankbound.compare.compare` to the last digit.
    """

    values: Floats
    faces: Integers | None = None

    @property
    def means(self) -> Floats:
        """The mean of each method."""
        return mean_of_known(self.values)

    def interval(self, method: int) -> tuple[float, float]:
        """Return the 95 % interval of a method's mean, clipped to 0 .. 1 for pairs."""
        _, low, high = self._around(self.values[method])
        return (low, high) if self.faces is None else (max(low, 0.0), min(high, 1.0))

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """Return the mean difference of two methods, with its 95 % interval."""
        return self._around(self.values[method] - self.values[other])

    def p_value(self, method: int, other: int) -> float:
        """Return the two-sided p-value of equal means of two methods."""
        return p_value_of_mean(self.values[method] - self.values[other], self.faces)

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """Return the weighted sum of all methods' means, its 95 % interval and the two-sided p-value of a zero sum."""
        used = np.flatnonzero(weights)
        values = weights[used] @ self.values[used]
        return *self._around(values), p_value_of_mean(values, self.faces)

    def _around(self, values: Floats) -> tuple[float, float, float]:
        """Return the mean and its interval: the value of a single list, NaN for several pairs of too few faces."""
        mean = float(mean_of_known(values))
        low, high = interval_of_mean(values, self.faces)
        return (mean, mean, mean) if np.isfinite(values).sum() < 2 else (mean, low, high)
