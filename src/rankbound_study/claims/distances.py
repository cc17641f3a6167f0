"""The largest distance between the distributions of two systems' scores over lists, its limit and permutation test."""

import numpy as np

from rankbound.compare import Pair
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats
from rankbound.compare.statistics import draws

PERMUTATIONS = 1999
"""Number of permutations, and of bootstrap samples."""

POINTS = 400
"""Number of scores at which the distributions are compared: quantiles of both together."""


def distance(of: Pair) -> float:
    """Return the largest distance between the cumulative shares of lists, in which topics weigh equally."""
    return float(np.abs(_steps(of.a, of.b).sum(0)).max())


def permuted_p_value(of: Pair) -> float:
    """Return the share of random swaps of each topic's two sets of lists that give a distance at least as large."""
    steps = _steps(of.a, of.b)
    observed = np.abs(steps.sum(0)).max()
    signs = np.random.default_rng(0).integers(0, 2, (PERMUTATIONS, len(steps))) * 2.0 - 1
    reached = np.abs(signs @ steps).max(1) >= observed - 1e-12
    return float((1 + reached.sum()) / (1 + PERMUTATIONS))


def upper_limit(of: Pair) -> float:
    """Return the upper 95 % limit of the distance, from a bootstrap of topics.

    A largest distance is larger in samples than in truth, so that the limit is too high rather than too low.
    """
    steps = _steps(of.a, of.b)
    resampled = draws(np.random.default_rng(0), len(steps), PERMUTATIONS) @ steps
    return float(np.quantile(np.abs(resampled).max(1), 1 - LEVEL))


def _steps(a: Floats, b: Floats) -> Floats:
    """Return every topic's contribution to the difference of the two distributions, `(n_topics, n_points)`."""
    both = np.concatenate([a[np.isfinite(a)], b[np.isfinite(b)]])
    points = np.unique(np.quantile(both, np.linspace(0, 1, POINTS), method="inverted_cdf"))
    found: Floats = (_shares(a, points) - _shares(b, points)) / len(a)
    return found


def _shares(values: Floats, points: Floats) -> Floats:
    """Return the share of every topic's lists that score at most each point."""
    flat = values.reshape(len(values), -1)
    known = np.isfinite(flat)
    rows = np.nonzero(known)[0]
    counts = np.zeros((len(flat), len(points) + 1))
    np.add.at(counts, (rows, np.searchsorted(points, flat[known])), 1.0)
    shares: Floats = counts[:, :-1].cumsum(1) / known.sum(1, keepdims=True)
    return shares
