r"""Tests against a margin: "no worse" and "alike" are claims of their own, not what is left when a test finds nothing.

With the margin $\Delta$, in units of the metric, and the mean gain $g$ of A over B (the difference, negated where lower
is better):

- *no worse* (non-inferiority): $g \le -\Delta$ is rejected at 5 %, one-sided;
- *alike* (equivalence, two one-sided tests): both $g \le -\Delta$ and $g \ge \Delta$ are rejected at 5 %, that is, the
  90 % interval lies inside the margin.

The tests are of the t distribution: a sign flip assumes that the two systems could be exchanged, which is not what a
hypothesis with a margin says.
"""

import math
from dataclasses import dataclass, replace

from rankbound.compare.effects import LEVEL
from rankbound.compare.estimates import Estimate, seed_deviation
from rankbound.compare.scores import Pair

MARGIN = 0.01
"""The default margin, for metrics from 0 to 1: one point of a hundred, a change in the second digit.
A margin is a judgement of what matters, to be made before anything is measured; who knows better says so."""

REPEATABILITY = 1.959963984540054 * math.sqrt(2)
"""95 % of the differences between two results that only chance tells apart lie within so many of their standard
deviations (the repeatability limit of ISO 5725)."""


@dataclass(frozen=True)
class MarginTest:
    """What a margin says of a difference.

    Attributes:
        margin: in units of the metric.
        low, high: the 90 % interval of the difference A - B, which decides both at 5 %.
        p_not_worse, p_alike: small where A is no worse than B by the margin, or alike within it.
        covers: what the interval speaks of: "topics", or "topics and trainings" where there are several seeds.
        verdict: what A is, at 5 %: "alike", "no worse", "worse" (by more than the margin) or "undecided".
    """

    margin: float
    low: float
    high: float
    p_not_worse: float
    p_alike: float
    covers: str
    verdict: str


def against_margin(estimate: Estimate, margin: float, covers: str, higher_is_better: bool = True) -> MarginTest:
    """Both tests of an estimated difference.

    Raises:
        ValueError: for a margin that is not above 0.
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
    """What two trainings of one system may differ by, by the seed alone: their repeatability limit; NaN for one seed.

    The seeds' variance is the mean of both systems'. A margin that comes from the data it is used on has an error of
    its own, large for few seeds.
    """
    squares = [seed_deviation(values) ** 2 for values in (pair.a, pair.b)]
    return REPEATABILITY * math.sqrt(sum(squares) / 2)
