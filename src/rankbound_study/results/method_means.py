"""Mean scores of methods on the same lists, with the intervals and tests of `rankbound.compare`."""

import math
from dataclasses import dataclass

import numpy as np

from rankbound.compare.means import interval_of_mean, p_value_of_mean
from rankbound.compare.scores import Floats, Integers, mean_of_known


@dataclass(frozen=True)
class MethodMeans:
    """Of `values` `(n_methods, n_lists)`, NaN where undefined; lists that are pairs have `faces` `(n_lists, 2)`.

    Differences and combinations are over the lists that all their methods have a score for, as those of
    `rankbound.compare.compare`, and agree with it to the last digit.
    """

    values: Floats
    faces: Integers | None = None

    @property
    def means(self) -> Floats:
        """Of each method."""
        return mean_of_known(self.values)

    def interval(self, method: int) -> tuple[float, float]:
        """The 95 % interval of a method's mean; of pairs inside 0 .. 1, as shares are."""
        _, low, high = self._around(self.values[method])
        return (low, high) if self.faces is None else (max(low, 0.0), min(high, 1.0))

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """The mean difference of two methods, with its 95 % interval."""
        return self._around(self.values[method] - self.values[other])

    def p_value(self, method: int, other: int) -> float:
        """Two-sided, that the two methods have the same mean."""
        return p_value_of_mean(self.values[method] - self.values[other], self.faces)

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """The weighted sum of all methods' means, with its 95 % interval and the two-sided p-value that it is 0."""
        used = np.flatnonzero(weights)
        values = weights[used] @ self.values[used]
        return *self._around(values), p_value_of_mean(values, self.faces)

    def _around(self, values: Floats) -> tuple[float, float, float]:
        """One list says nothing about others: its interval is its value alone."""
        mean = float(mean_of_known(values))
        low, high = interval_of_mean(values, self.faces)
        return (mean, mean, mean) if math.isnan(low) else (mean, low, high)
