r"""The statistics that decide claims beside means: correlations, distances of distributions, means of many cells.

Correlations over lists have errors by topic, as lists of one topic are not independent. The distance of two systems is
the largest one between the distributions of their scores over lists; it has an upper limit and a permutation test.

The mean of many cells' effects follows a random-effects model for cells that share topics and trainings. With the
effects $y_i$ of $k$ cells, whose errors have the covariance matrix $V$, and true effects that differ between cells with
variance $\tau^2$:

$$\hat\mu = \frac1k \sum_i y_i, \qquad
\hat\tau^2 = \max\Big(0, \frac{\sum_i (y_i - \hat\mu)^2 - \operatorname{tr} V + 1^\top V 1 / k}{k - 1}\Big), \qquad
\operatorname{Var} \hat\mu = \frac{1^\top V 1}{k^2} + \frac{\hat\tau^2}{k}$$

This is the method of moments of Hedges (1983, "A random effects model for effect sizes") with covariances. All cells
have the same weight: weights by precision assume independent errors, and those of cells that share trainings are not.
$V$ comes from a bootstrap of all cells that draws the same topics and trainings for each.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, Integers, any_over
from rankbound.compare.statistics import CONFIDENCE, Estimate, draws
from rankbound.texts import quantity
from rankbound_study.claims.cells import Cell, Contrast
from rankbound_study.claims.verdict import MissingEvidence

PEARSON, SPEARMAN = "Pearson", "Spearman"
_LARGEST = 1 - 1e-12


class Correlation(Contrast):
    """A correlation; `estimate` has its value and the standard error of its Fisher transform, which is near normal."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        low, high = self._transformed(0.0).interval(CONFIDENCE)
        return math.tanh(low), math.tanh(high)

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
        value = math.atanh(max(-_LARGEST, min(_LARGEST, self.mean)))
        return Estimate(value - math.atanh(limit), self.estimate.standard_error, math.inf)


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
        from scipy import stats

        values = [stats.rankdata(one) for one in values]
    first, second = ((one - one.mean()) / one.std() for one in values)
    found = float((first * second).mean())
    moved = (first * second - found * (first**2 + second**2) / 2) / len(topic)
    variance = float((np.bincount(topic, weights=moved) ** 2).sum())
    return Correlation(Estimate(found, math.sqrt(variance) / max(1 - found**2, 1 - _LARGEST), math.inf), math.nan, 0)


RESAMPLES = 1999
"""Number of permutations, and of bootstrap samples."""

POINTS = 400
"""Number of scores at which the distributions are compared: quantiles of both together."""


class Distance(NamedTuple):
    """The largest distance between two cumulative shares of lists, in which topics weigh equally.

    Attributes:
        p_value: the share of random swaps of each topic's two sets of lists that give a distance at least as large.
        upper: the upper 95 % limit, from a bootstrap of topics. A largest distance is larger in samples than in truth,
            so that the limit is too high rather than too low.
    """

    value: float
    p_value: float
    upper: float


def distance(of: Pair) -> Distance:
    """Return the distance of the distributions of two systems' scores."""
    steps = _steps(of.a, of.b)
    observed = np.abs(steps.sum(0)).max()
    signs = np.random.default_rng(0).integers(0, 2, (RESAMPLES, len(steps))) * 2.0 - 1
    reached = np.abs(signs @ steps).max(1) >= observed - 1e-12
    resampled = np.abs(draws(np.random.default_rng(0), len(steps), RESAMPLES) @ steps).max(1)
    p_value = float((1 + reached.sum()) / (1 + RESAMPLES))
    return Distance(float(observed), p_value, float(np.quantile(resampled, 1 - LEVEL)))


def _steps(a: Floats, b: Floats) -> Floats:
    """Return every topic's contribution to the difference of the two distributions, `(n_topics, n_points)`.

    It is that of the shares of the topic's lists that score at most each point.
    """
    both = np.concatenate([a[np.isfinite(a)], b[np.isfinite(b)]])
    points = np.unique(np.quantile(both, np.linspace(0, 1, POINTS), method="inverted_cdf"))
    shares: list[Floats] = []
    for values in (a, b):
        flat = values.reshape(len(values), -1)
        known = np.isfinite(flat)
        counts = np.zeros((len(flat), len(points) + 1))
        np.add.at(counts, (np.nonzero(known)[0], np.searchsorted(points, flat[known])), 1.0)
        shares.append(counts[:, :-1].cumsum(1) / known.sum(1, keepdims=True))
    return (shares[0] - shares[1]) / len(a)


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


def resampled_means(pairs: Mapping[Cell, Pair]) -> Floats:
    """Return resampled mean differences `(RESAMPLES, n_cells)`.

    A topic is drawn for all cells of its source, with all its lists, at every ratio and in every reading of its labels.
    So are clusters of trainings, for all boundings and losses of a column: drawings if there are five or more, or else
    folds (of a drawing), or the seeds of a single fold. What seeds of a fold share, as a learning rate that one of them
    selects, is drawn with them. With $K$ clusters, their numbers of draws are spread by $\\sqrt{K / (K - 1)}$, as a
    bootstrap's variance is too small by this factor. Drawing topics and trainings is conservative: the variance of a
    topic within one training counts up to three times (Owen 2007, "The pigeonhole bootstrap").
    """
    random = np.random.default_rng(0)
    sources = sorted({cell.column.source for cell in pairs})
    names = {
        source: sorted({unit for cell, one in pairs.items() if cell.column.source == source for unit in one.units})
        for source in sources
    }
    drawn = {source: draws(random, len(names[source]), RESAMPLES) for source in sources}
    places = {source: {name: place for place, name in enumerate(names[source])} for source in sources}
    of_trainings: dict[object, Floats] = {}
    means = np.empty((RESAMPLES, len(pairs)))
    for number, (cell, one) in enumerate(pairs.items()):
        differences = one.a - one.b
        trained = any_over(np.isfinite(differences), 0)
        key = (cell.column, trained.tobytes())
        if key not in of_trainings:
            of_trainings[key] = _drawn_trainings(random, trained, one.drawings)
        source = cell.column.source
        topics = drawn[source][:, [places[source][name] for name in one.units]]
        lists = any_over(np.isfinite(differences), 2)
        weighted = np.nan_to_num(differences) / np.maximum(lists.sum(1), 1)[:, None, None]
        sums = topics @ weighted.reshape(len(weighted), -1)
        weights = of_trainings[key].reshape(RESAMPLES, -1)
        means[:, number] = (sums * weights).sum(1) / np.maximum(topics.sum(1), 1)
    return means


FEWEST_DRAWINGS = 5
"""Fewer drawings are no sample of drawings: their folds are drawn instead."""


def _drawn_trainings(random: np.random.Generator, trained: np.ndarray, drawings: Integers | None) -> Floats:
    """Return the weight of each training in the mean of its fold, times its fold's, `(RESAMPLES, n_folds, n_seeds)`."""
    cluster = np.arange(trained.size).reshape(trained.shape)
    if trained.any(1).sum() > 1:
        cluster = np.broadcast_to(np.arange(len(trained))[:, None], trained.shape)
        if drawings is not None and len(np.unique(drawings[trained.any(1)])) >= FEWEST_DRAWINGS:
            cluster = np.broadcast_to(drawings[:, None], trained.shape)
    _, member = np.unique(cluster[trained], return_inverse=True)
    count = int(member.max()) + 1
    spread = math.sqrt(count / (count - 1)) if count > 1 else 0.0
    weights = 1 + spread * (draws(random, count, RESAMPLES) - 1)
    found = np.zeros((RESAMPLES, *trained.shape))
    found[:, trained] = weights[:, member] / np.broadcast_to(trained.sum(1)[:, None], trained.shape)[trained]
    return found
