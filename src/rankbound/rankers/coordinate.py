r"""Coordinate ascent (Metzler and Croft, Information Retrieval 2007): a linear ranker that maximises a metric itself.

$$\max_w\ \frac{1}{n} \sum_q E_q(w \cdot x), \qquad \sum_k |w_k| = 1$$

One weight at a time moves to the best of many steps, in a random order of the features, until a sweep over all of them
gains nothing. The metric has no gradient, and more than one maximum: the first start has equal weights, later ones
random weights. The steps of a weight are tried together, list by list, so that a step costs no more than ranking the
lists.
"""

import numpy as np

from rankbound.bounds.base import Bound
from rankbound.metrics import Metric
from rankbound.rankers.columns import Columns, Floats, Performance, Selection

STEPS = tuple(0.5**power for power in range(11))
"""Steps, up and down, as shares of the sum of all absolute weights; beside them, a weight of 0 is tried."""

LEAST_GAIN = 1e-4
"""The gain, as a share of the mean performance, below which a sweep is the last one of its start."""


def fit_coordinate_ascent(
    columns: Columns, selection: Selection, *, of: Metric, bound: Bound, starts: int, epochs: int, seed: int
) -> None:
    """Fit a linear ranker by coordinate ascent, and keep it in the selection after every sweep.

    Args:
        columns: the lists to train on.
        selection: what keeps the weights of the best sweep.
        of: the metric to maximise.
        bound: its bound.
        starts: the number of initial weights.
        epochs: the most sweeps of all starts together.
        seed: of the initial weights and the orders of the features.
    """
    performance = Performance(of, bound, columns.relevance, columns.offsets)
    generator, held_out, n_features = np.random.default_rng(seed), selection.held_out, len(columns.values)
    number = 0
    for start in range(starts):
        weights = np.ones(n_features) if start == 0 else generator.standard_normal(n_features)
        before = -np.inf
        while number < epochs:
            number += 1
            weights = weights / np.abs(weights).sum()
            scores = columns.weighted_sum(weights)
            for feature in generator.permutation(n_features):
                shares = np.abs(weights).sum() * np.array(STEPS)
                only = np.abs(weights).sum() == abs(weights[feature])
                steps = np.concatenate([-shares, [] if only else [-weights[feature]], shares])
                column, steps = columns.values[feature], np.unique(np.append(steps, 0.0))
                step, value = _best(steps, performance.of_steps(scores, column, steps) @ columns.shares)
                weights[feature] += step
                scores = scores + step * column.astype(np.float64)
            of_held_out = None if held_out is None else held_out.weighted_sum(weights)
            selection.offer(number, -value, of_held_out, lambda weights=weights: {"weights": weights.copy()})  # type: ignore[misc]
            if value - before <= LEAST_GAIN * abs(value):
                break
            before = value


def _best(steps: Floats, means: Floats) -> tuple[float, float]:
    """Return the shortest of the steps with the highest mean, and this mean."""
    by_length = np.argsort(np.abs(steps), kind="stable")
    best = by_length[means[by_length].argmax()]
    return float(steps[best]), float(means[best])
