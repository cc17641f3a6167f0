r"""The mean of many cells' effects by a random-effects model, for cells that share topics and trainings.

With the effects $y_i$ of $k$ cells, whose errors have the covariance matrix $V$, and true effects that differ between
cells with variance $\tau^2$:

$$\hat\mu = \frac1k \sum_i y_i, \qquad
\hat\tau^2 = \max\Big(0, \frac{\sum_i (y_i - \hat\mu)^2 - \operatorname{tr} V + 1^\top V 1 / k}{k - 1}\Big), \qquad
\operatorname{Var} \hat\mu = \frac{1^\top V 1}{k^2} + \frac{\hat\tau^2}{k}$$

This is the method of moments of Hedges (1983, "A random effects model for effect sizes") with covariances. All cells
have the same weight: weights by precision assume independent errors, and those of cells that share trainings are not.
"""

import math
from dataclasses import dataclass

import numpy as np

from rankbound.compare.scores import Floats
from rankbound.compare.statistics import CONFIDENCE, Estimate


@dataclass(frozen=True)
class Pooled:
    """The mean effect of some cells.

    Attributes:
        n: the number of cells.
        estimate: their mean, with its standard error and `n - 1` degrees of freedom.
        between: the standard deviation of the true effects between cells.
    """

    n: int
    estimate: Estimate
    between: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean."""
        return self.estimate.interval(CONFIDENCE)

    @property
    def of_new_cell(self) -> tuple[float, float]:
        """The 95 % interval of the true effect in another such cell; NaN for two cells.

        It has `n - 2` degrees of freedom (Higgins, Thompson and Spiegelhalter 2009, "A re-evaluation of random-effects
        meta-analysis"); with few cells it covers a little less than it should.
        """
        if self.n < 3:
            return math.nan, math.nan
        error = math.hypot(self.estimate.standard_error, self.between)
        return Estimate(self.estimate.mean, error, self.n - 2).interval(CONFIDENCE)


def pooled(effects: Floats, covariance: Floats) -> Pooled:
    """Return the mean of effects `(k,)` whose errors have a covariance matrix `(k, k)`.

    Raises:
        ValueError: there are fewer than two cells.
    """
    k = len(effects)
    if k < 2:
        raise ValueError(f"effects: found {k}, expected two or more: one has no variance between cells")
    mean, of_errors = float(effects.mean()), float(covariance.sum()) / k
    squares = float(((effects - mean) ** 2).sum())
    between = max(0.0, (squares - float(np.trace(covariance)) + of_errors) / (k - 1))
    return Pooled(k, Estimate(mean, math.sqrt((of_errors + between) / k), k - 1), math.sqrt(between))
