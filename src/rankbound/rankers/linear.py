r"""Linear rankers: coordinate ascent, subset ranking and PRank.

Coordinate ascent (Metzler and Croft, Information Retrieval 2007) maximises a metric itself.

$$\max_w\ \frac{1}{n} \sum_q E_q(w \cdot x), \qquad \sum_k |w_k| = 1$$

One weight at a time moves to the best of many steps, in a random order of the features, until a sweep over all of them
gains nothing. The metric has no gradient, and more than one maximum: the first start has equal weights, later ones
random weights. The steps of a weight are tried together, list by list, so that a step costs no more than ranking the
lists.

Subset ranking (Cossock and Zhang, COLT 2006 and IEEE Trans. Information Theory 2008) is a regression of gains
$y = 2^{grade} - 1$ that has to be right at the top of each list, and not too high below. With the top $T$, the items
whose gain is at least the $k$-th largest of their list, it minimises

$$\tfrac12 \|w\|^2 + C \sum_q P(q)\, L_q, \qquad
  L_q = \sum_{j \in T} (f_j - y_j)^2 + u \sum_{j \notin T} (f_j - y_j)_+^2, \qquad f_j = w \cdot x_j + b$$

The papers allow other thresholds than $y_j$ in the second sum, and take its largest term instead, which is no more than
the sum. With $u \ge 1$ and the discounts $d_r$ of the first $k$ ranks, any scores lose at most

$$\max DCG_k - DCG_k(f) \le \sqrt{2 \sum_r d_r^2\ L_q}$$

PRank (Crammer and Singer, NIPS 2001) is a perceptron with thresholds $b_1 \le ... \le b_{K-1}$ between $K$ grades. An
item moves the thresholds that lie on the wrong side of its score, and the weights by as many steps:

$$\tau_r = y_r\,[(w \cdot x - b_r)\, y_r \le 0], \qquad w \leftarrow w + x \sum_r \tau_r, \qquad
  b_r \leftarrow b_r - \tau_r$$

with $y_r$ 1 for thresholds below the item's grade, and -1 for others. If unit weights and thresholds have a margin
$\gamma$, the distances of predicted and true grades add up to at most $(K - 1)(R^2 + 1) / \gamma^2$, $|x| \le R$,
however many items come.
"""

import numpy as np
import numpy.typing as npt

from rankbound.bounds.base import Bound
from rankbound.kernels import usable
from rankbound.metrics import Metric
from rankbound.rankers.columns import ITEMS_AT_ONCE, Columns, Floats, Integers, Performance, Selection
from rankbound.rankers.svm import COSTS, HALVINGS, TOLERANCE

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


def fit_subset_ranking(
    columns: Columns, selection: Selection, *, cost: float | None, top: int, rest_weight: float, epochs: int
) -> dict[str, float]:
    """Fit the regression of subset ranking by Newton steps, and keep it in the selection.

    Args:
        columns: the lists to train on.
        selection: what keeps the weights of the cost with the best validation metric.
        cost: $C$; None chooses the best of `COSTS`, ascending, each from the weights of the one before.
        top: $k$.
        rest_weight: $u$.
        epochs: the most Newton steps of a cost.

    Returns:
        The cost that was chosen, by `cost`.
    """
    sizes, gains = np.diff(columns.offsets), np.exp2(columns.relevance) - 1
    segment = np.repeat(np.arange(len(sizes)), sizes)
    limits = gains[np.lexsort((-gains, segment))][columns.offsets[:-1] + np.minimum(sizes, top) - 1]
    tops = gains >= limits[segment]
    shares, held_out = columns.shares[segment] * np.where(tops, 1.0, rest_weight), selection.held_out
    solution, chosen, steps = np.zeros(len(columns.values) + 1), 0.0, 0

    def at(solution: Floats, cost: float) -> tuple[Floats, float]:
        """Return the excesses that count, and the objective."""
        excess = columns.weighted_sum(solution[:-1]) + solution[-1] - gains
        excess[~tops & (excess < 0)] = 0.0
        return excess, 0.5 * float(solution[:-1] @ solution[:-1]) + cost * float(shares @ excess**2)

    for one in COSTS if cost is None else (cost,):
        (excess, value), small, count = at(solution, one), np.inf, 0
        while count < epochs:
            slopes = 2 * one * shares * excess
            gradient = np.append(columns.products(slopes) + solution[:-1], slopes.sum())
            size = float(np.linalg.norm(gradient))
            small = TOLERANCE * size if count == 0 else small
            if size <= small:
                break
            curvature = _products(columns.values, 2 * one * shares * (tops | (excess > 0)))
            curvature[range(len(gradient) - 1), range(len(gradient) - 1)] += 1.0
            direction = -np.linalg.lstsq(curvature, gradient)[0]
            trials = ((solution + 0.5**halved * direction) for halved in range(HALVINGS))
            moved = next((trial for trial in trials if at(trial, one)[1] < value), None)
            if moved is None:
                # Rounding hides any further decrease.
                break
            solution, count = moved, count + 1
            excess, value = at(solution, one)
        scores = None if held_out is None else held_out.weighted_sum(solution[:-1])
        steps += max(count, 1)
        selection.offer(steps, value, scores, lambda solution=solution: {"weights": solution[:-1]})  # type: ignore[misc]
        chosen = one if selection.epoch == steps else chosen
    return {"cost": chosen}


def _products(values: npt.NDArray[np.float32], weights: Floats) -> Floats:
    """Return the weighted products of all features, and a constant, with each other, `(d + 1, d + 1)`."""
    total = np.zeros((len(values) + 1, len(values) + 1))
    counted = np.flatnonzero(weights)
    for first in range(0, len(counted), ITEMS_AT_ONCE):
        rows = counted[first : first + ITEMS_AT_ONCE]
        block = np.vstack([values[:, rows].astype(np.float64), np.ones(len(rows))])
        total += (block * weights[rows]) @ block.T
    return total


def fit_prank(columns: Columns, selection: Selection, *, epochs: int, seed: int) -> None:
    """Fit PRank, and keep its weights in the selection after every pass over the items.

    Args:
        columns: the lists to train on, whose shares have no part in it.
        selection: what keeps the weights of the best pass.
        epochs: the number of passes; fewer, if one changes nothing.
        seed: of the items' order in each pass.
    """
    distinct, grades = np.unique(columns.relevance, return_inverse=True)
    rows, weights = np.ascontiguousarray(columns.values.T), np.zeros(len(columns.values))
    thresholds, generator, held_out = np.zeros(len(distinct) - 1), np.random.default_rng(seed), selection.held_out
    for number in range(1, epochs + 1):
        order = generator.permutation(len(rows))
        distance, moves = pass_of_prank(rows, grades.astype(np.int64), order, weights, thresholds)
        of_held_out = None if held_out is None else held_out.weighted_sum(weights)
        selection.offer(number, distance / len(rows), of_held_out, lambda: {"weights": weights.copy()})
        if not moves:
            break


def pass_of_prank(
    rows: npt.NDArray[np.float32], grades: Integers, order: Integers, weights: Floats, thresholds: Floats
) -> tuple[float, float]:
    """Change the weights and thresholds by each item in turn.

    Args:
        rows: `(n_items, d)`, the features.
        grades: `(n_items,)`, from 0.
        order: the items' order.
        weights: `(d,)`.
        thresholds: `(n_grades - 1,)`, ascending.

    Returns:
        The sum of the distances of predicted and true grades, and the number of moves of thresholds.
    """
    totals = np.zeros(2)
    if usable():
        from rankbound.kernels.rankers import prank

        prank(rows, grades, order, weights, thresholds, totals)
        return float(totals[0]), float(totals[1])
    # The weights at an item depend on the items before: no two of them can be computed together.
    for item in order.tolist():
        row = rows[item].astype(np.float64)
        margin = row @ weights - thresholds
        signs = np.where(np.arange(len(thresholds)) < grades[item], 1.0, -1.0)
        moves = signs * (margin * signs <= 0)
        totals += abs(int((margin >= 0).sum()) - int(grades[item])), np.abs(moves).sum()
        weights += moves.sum() * row
        thresholds -= moves
    return float(totals[0]), float(totals[1])
