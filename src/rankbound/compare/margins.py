r"""Effect sizes, the minimal detectable difference, and tests against a margin.

A difference that is not significant shows neither "no worse" nor "alike". With the margin $\Delta$, in units of the
metric, and the mean gain $g$ of A over B (the difference, negated where lower is better):

- *no worse* (non-inferiority): $g \le -\Delta$ is rejected at 5 %, one-sided;
- *alike* (equivalence, two one-sided tests): both $g \le -\Delta$ and $g \ge \Delta$ are rejected at 5 %, that is, the
  90 % interval lies inside the margin.

Both are t tests: sign flips assume exchangeable systems, which contradicts a hypothesis with a margin.

Source: Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability".
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rankbound.compare.scores import Floats, Pair
from rankbound.compare.statistics import Estimate, seed_deviation

POWER = 0.8
LEVEL = 0.05
"""The significance level of every test, after correction for multiple tests."""

TIE = 1e-9
"""Scores that differ by less count as equal: means over seeds differ by rounding."""

MARGIN = 0.01
"""The default margin, for metrics from 0 to 1. A margin is a judgement of what matters, made before measuring."""

REPEATABILITY = 1.959963984540054 * math.sqrt(2)
"""The repeatability limit of ISO 5725 in standard deviations: 95 % of the differences between two results that differ
by chance alone lie within it."""


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


@dataclass(frozen=True)
class MarginTest:
    """Tests of a difference against a margin.

    Attributes:
        margin: in units of the metric.
        low, high: the 90 % interval of the difference A - B, which decides both tests at 5 %.
        p_not_worse, p_alike: p-values of the non-inferiority and the equivalence test.
        covers: the sources of variance: "topics", or "topics and trainings" with several seeds.
        verdict: A compared with B at 5 %: "alike", "no worse", "worse" (by more than the margin) or "undecided".
    """

    margin: float
    low: float
    high: float
    p_not_worse: float
    p_alike: float
    covers: str
    verdict: str


def against_margin(estimate: Estimate, margin: float, covers: str, higher_is_better: bool = True) -> MarginTest:
    """Test an estimated difference for non-inferiority and equivalence.

    Raises:
        ValueError: the margin is not a finite number above 0.
    """
    if not (margin > 0 and math.isfinite(margin)):
        raise ValueError(f"margin: found {margin}, expected a number above 0, in units of the metric")
    above, below = estimate.p_above(-margin), estimate.p_below(margin)
    gain = estimate if higher_is_better else replace(estimate, mean=-estimate.mean)
    not_worse, alike = gain.p_above(-margin), max(above, below)
    worse = gain.p_below(-margin)
    verdicts = {"alike": alike, "no worse": not_worse, "worse": worse, "undecided": 0.0}
    verdict = next(name for name, p_value in verdicts.items() if p_value <= LEVEL)
    return MarginTest(margin, *estimate.interval(1 - 2 * LEVEL), not_worse, alike, covers, verdict)


def noise_margin(pair: Pair) -> float:
    r"""Return the repeatability limit of two trainings of one system, in units of the metric; NaN for one seed.

    $$\Delta = 1.96 \sqrt 2 \sqrt{(s_A^2 + s_B^2) / 2}$$

    with the standard deviations $s_A$ and $s_B$ of the systems' means between seeds. The margin is estimated from the
    data that it is applied to, with a large error for few seeds.
    """
    squares = [seed_deviation(values) ** 2 for values in (pair.a, pair.b)]
    return REPEATABILITY * math.sqrt(sum(squares) / 2)


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
