"""Effect sizes of a difference, and the minimal detectable difference."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rankbound.compare.estimates import Estimate
from rankbound.compare.scores import Floats

POWER = 0.8
LEVEL = 0.05
"""The significance level of every test, after correction for multiple tests."""

TIE = 1e-9
"""Scores that differ by less count as equal: means over seeds differ by rounding."""


@dataclass(frozen=True)
class Effect:
    """Effect sizes of a difference.

    Attributes:
        standardised: mean over standard deviation of the differences (Cohen's d_z); NaN if they are constant.
        superiority: the probability that A is better on a unit; a tie counts half.
        wins, ties, losses: number of units on which A is better, equal (within 1e-9) and worse.
    """

    standardised: float
    superiority: float
    wins: int
    ties: int
    losses: int

    @classmethod
    def of(cls, differences: Floats, higher_is_better: bool = True) -> "Effect":
        """Return the effect sizes of the differences A - B `(n_units,)`, of at least one unit."""
        gains = differences if higher_is_better else -differences
        wins, losses = int((gains > TIE).sum()), int((gains < -TIE).sum())
        ties = len(gains) - wins - losses
        spread = float(differences.std(ddof=1)) if len(differences) > 1 and np.ptp(differences) > TIE else math.nan
        return cls(float(differences.mean()) / spread, (wins + ties / 2) / len(gains), wins, ties, losses)


def detectable(estimate: Estimate, power: float = POWER, level: float = LEVEL) -> float:
    """Return the minimal detectable difference: the smallest true difference that a test finds with `power`.

    It is computed for the two-sided t test at `level`, by the noncentral t distribution (normal for infinite degrees
    of freedom); the randomisation test has the same power. For the first step of Holm's correction, divide `level` by
    the number of tests.
    """
    return _in_errors(estimate.degrees_of_freedom, power, level) * estimate.standard_error


@lru_cache(maxsize=1024)
def _in_errors(freedom: float, power: float, level: float) -> float:
    """Return the minimal detectable difference in standard errors of the mean."""
    from scipy import optimize, stats

    critical = float(stats.t.isf(level / 2, freedom))

    def missing(shift: float) -> float:
        if math.isinf(freedom):
            return float(stats.norm.sf(critical - shift)) - power
        return float(stats.nct.sf(critical, freedom, shift)) - power

    # The root lies between 0 and a shift far beyond the critical value.
    return float(optimize.brentq(missing, 0.0, 10.0 + 3.0 * critical))
