"""Correlations over lists, with errors by topic: lists of one topic are not independent."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rankbound.compare.scores import Floats
from rankbound.compare.statistics import CONFIDENCE, Estimate
from rankbound.texts import quantity
from rankbound_study.claims.verdict import MissingEvidence

PEARSON, SPEARMAN = "Pearson", "Spearman"
_LARGEST = 1 - 1e-12


@dataclass(frozen=True)
class Correlation:
    """A correlation, and the standard error of its Fisher transform, which is close to normal."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        low, high = self._transformed(0.0).interval(CONFIDENCE)
        return math.tanh(low), math.tanh(high)

    @property
    def measured(self) -> tuple[float, float, float]:
        """The correlation and its interval: `value`, `low` and `high` of a verdict."""
        return self.value, *self.interval

    def p_value(self) -> float:
        """Return the two-sided p-value of no correlation."""
        return self._transformed(0.0).p_value()

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value, small for correlations above the limit."""
        return self._transformed(limit).p_above(0.0)

    def p_below(self, limit: float) -> float:
        """Return the one-sided p-value, small for correlations below the limit."""
        return self._transformed(limit).p_below(0.0)

    def _transformed(self, limit: float) -> Estimate:
        value = math.atanh(max(-_LARGEST, min(_LARGEST, self.value)))
        return Estimate(value - math.atanh(limit), self.error, math.inf)


def correlation(x: Floats, y: Floats, kind: str = PEARSON) -> Correlation:
    r"""Correlate values `(n_topics, ...)`, where both are defined.

    With $z$ the standardised values (ranks for Spearman's), value $i$ moves $r = \overline{z_x z_y}$ by
    $(z_{xi} z_{yi} - r (z_{xi}^2 + z_{yi}^2) / 2) / n$; the variance is the sum of the squared sums by topic.

    Raises:
        MissingEvidence: there are fewer than three topics, or all values are equal.
    """
    x, y = (values.reshape(len(values), -1) for values in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    topic = np.nonzero(known)[0]
    values = [x[known], y[known]]
    if len(np.unique(topic)) < 3:
        raise MissingEvidence(f"no correlation over {quantity(len(np.unique(topic)), 'topic')}")
    if any(np.ptp(one) == 0 for one in values):
        raise MissingEvidence("no correlation: one of the two scores is the same in all lists")
    if kind == SPEARMAN:
        values = [stats.rankdata(one) for one in values]
    first, second = ((one - one.mean()) / one.std() for one in values)
    found = float((first * second).mean())
    moved = (first * second - found * (first**2 + second**2) / 2) / len(topic)
    variance = float((np.bincount(topic, weights=moved) ** 2).sum())
    return Correlation(found, math.sqrt(variance) / max(1 - found**2, 1 - _LARGEST))
