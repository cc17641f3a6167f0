"""How large a difference is: in spreads of the differences, in topics won, and beside what could have been found."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rankbound.compare.estimates import Estimate
from rankbound.compare.scores import Floats

POWER = 0.8
LEVEL = 0.05
"""The level of every test, after correction where there are several."""

TIE = 1e-9
"""Scores that differ by less are equal: means over seeds differ by rounding."""


@dataclass(frozen=True)
class Effect:
    """Sizes of a difference.

    Attributes:
        standardised: mean difference over the standard deviation of the differences (Cohen's d_z); NaN without spread.
        superiority: the probability that A is better on a unit, a tie being half of either.
        wins, ties, losses: units where A is better, equal (within 1e-9) and worse.
    """

    standardised: float
    superiority: float
    wins: int
    ties: int
    losses: int

    @classmethod
    def of(cls, differences: Floats, higher_is_better: bool = True) -> "Effect":
        """Of the differences A - B of each unit, at least one."""
        gains = differences if higher_is_better else -differences
        wins, losses = int((gains > TIE).sum()), int((gains < -TIE).sum())
        ties = len(gains) - wins - losses
        spread = float(differences.std(ddof=1)) if len(differences) > 1 and np.ptp(differences) > TIE else math.nan
        return cls(float(differences.mean()) / spread, (wins + ties / 2) / len(gains), wins, ties, losses)


def detectable(estimate: Estimate, power: float = POWER, level: float = LEVEL) -> float:
    """The minimal detectable difference: the smallest true one that a test of this spread finds with `power`.

    Of the two-sided t test at `level`, whose power the randomisation test shares (noncentral t; normal where there are
    no degrees of freedom to count). Divide `level` by the number of tests for the first step of Holm's correction.
    """
    return _in_errors(estimate.degrees_of_freedom, power, level) * estimate.standard_error


@lru_cache(maxsize=1024)
def _in_errors(freedom: float, power: float, level: float) -> float:
    """In standard errors of the mean."""
    from scipy import optimize, stats

    critical = float(stats.t.isf(level / 2, freedom))

    def missing(shift: float) -> float:
        if math.isinf(freedom):
            return float(stats.norm.sf(critical - shift)) - power
        return float(stats.nct.sf(critical, freedom, shift)) - power

    # Any shift that is found this often lies between nothing and far beyond the critical value.
    return float(optimize.brentq(missing, 0.0, 10.0 + 3.0 * critical))
