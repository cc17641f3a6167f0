r"""Linear rankers: Ranking SVM, coordinate ascent, subset ranking and PRank.

Ranking SVM (Joachims, KDD 2002) minimises the squared hinge of pairs, in the primal.

$$\min_w\ \tfrac12 \lVert w \rVert^2 + C \sum_t \frac{c_t}{\sum_u c_u |P_u|}
  \sum_{(i, j) \in P_t} \max(0,\ 1 - w \cdot (x_i - x_j))^2$$

$P_t$ are the pairs of items of list $t$ with $y_i > y_j$. With $c_t = 1$ all pairs weigh the same; with
$c_t = 1 / |P_t|$ all lists do (Cao et al., SIGIR 2006). A list's own weight multiplies $c_t$ in the sum over its pairs.
$C$ is thus the cost of a mean: the solver of pairs, liblinear for instance, has $C / \sum_t |P_t|$.

It is solved by a truncated Newton method (Chapelle and Keerthi 2010; Lee and Lin 2014), whose sums over pairs take a
sort of each list and $O(n \log G)$ for $G$ grades: no pair is formed.

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
  L_q = \sum_{j \in T} (f_j - y_j)^2 + \sum_{j \notin T} (f_j - y_j)_+^2, \qquad f_j = w \cdot x_j + b$$

The papers allow other thresholds than $y_j$ in the second sum, and take its largest term instead, which is no more than
the sum. With the discounts $d_r$ of the first $k$ ranks, any scores lose at most

$$\max DCG_k - DCG_k(f) \le \sqrt{2 \sum_r d_r^2\ L_q}$$

PRank (Crammer and Singer, NIPS 2001) is a perceptron with thresholds $b_1 \le ... \le b_{K-1}$ between $K$ grades. An
item moves the thresholds that lie on the wrong side of its score, and the weights by as many steps:

$$\tau_r = y_r\,[(w \cdot x - b_r)\, y_r \le 0], \qquad w \leftarrow w + x \sum_r \tau_r, \qquad
  b_r \leftarrow b_r - \tau_r$$

with $y_r$ 1 for thresholds below the item's grade, and -1 for others. If unit weights and thresholds have a margin
$\gamma$, the distances of predicted and true grades add up to at most $(K - 1)(R^2 + 1) / \gamma^2$, $|x| \le R$,
however many items come.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from rankbound.bounds.base import Bound
from rankbound.kernels import usable
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.rankers import ITEMS_AT_ONCE, Columns, Performance, Selection
from rankbound.ranks import descending_order

COSTS = tuple(10.0**power for power in range(-4, 4))
"""The costs from which a validation chooses."""

TOLERANCE = 1e-8
"""The gradient's norm over that at weights of 0, at which the weights are final."""
LARGEST_RESIDUAL = 0.1
"""The conjugate gradients' largest residual over the gradient."""
DECREASE, HALVINGS = 1e-4, 40
"""The share of the expected decrease that a step has to reach, and how often it is halved until it does."""

Solver = Callable[[float, Floats], tuple[Floats, float, int]]
"""Returns the solution of a cost, given one to begin at, its objective and the number of steps."""

STEPS = tuple(0.5**power for power in range(11))
"""Steps, up and down, as shares of the sum of all absolute weights; beside them, a weight of 0 is tried."""

LEAST_GAIN = 1e-4
"""The gain, as a share of the mean performance, below which a sweep is the last one of its start."""


class Pairs:
    """The pairs of different grades of judged lists, which are counted but not formed.

    Args:
        columns: the lists.
        pair_weights: `equal`, or `list` for lists of the same weight.
    """

    def __init__(self, columns: Columns, pair_weights: str) -> None:
        offsets = columns.offsets
        distinct, grades = np.unique(columns.relevance, return_inverse=True)
        self.grades, self.n_grades = grades.astype(np.int64), len(distinct)
        self.segment = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        # Items by list and grade, and the places where an item's list and its grade begin and end.
        self.by_grade = np.lexsort((self.grades, self.segment))
        keys = (self.segment * self.n_grades + self.grades)[self.by_grade]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        block = np.cumsum(np.diff(keys, prepend=-1) > 0) - 1
        limits = np.empty((4, len(keys)), np.int64)
        limits[:, self.by_grade] = (
            offsets[self.segment],
            first[block],
            np.append(first[1:], len(keys))[block],
            offsets[self.segment + 1],
        )
        self.limits = limits
        counts = np.bincount(self.segment, limits[1] - limits[0], minlength=len(offsets) - 1)
        of_pair = np.where(counts > 0, 1 / np.maximum(counts, 1), 0.0) if pair_weights == "list" else 1
        weights = columns.shares * of_pair
        self.of_list = weights / (weights * counts).sum()
        self.of_item = self.of_list[self.segment]

    def below_and_above(self, lower: Floats, higher: Floats) -> tuple[Floats, Floats]:
        """Return, for each item, the sums of `lower` over the worse items of its list, of `higher` over the better."""
        start, first, last, stop = self.limits
        below, above = (np.append(0.0, np.cumsum(values[self.by_grade])) for values in (lower, higher))
        return below[first] - below[start], above[stop] - above[last]


class Violations:
    """The pairs whose scores are less than the margin of 1 apart, or in the wrong order, at some scores."""

    def __init__(self, pairs: Pairs, offsets: torch.Tensor, scores: Floats) -> None:
        self._pairs, self._offsets, self._scores = pairs, offsets.numpy(), scores
        lists = Lists(offsets)
        self._order = descending_order(torch.from_numpy(scores), lists).numpy()
        worse, of_worse, better, of_better = self._sums(scores)
        margins = worse * (1 - scores) + of_worse
        self.slopes = 2 * pairs.of_item * (better * (1 + scores) - of_better - margins)
        # Of squared margins m = 1 - (s_i - s_j), the slopes know the part that the scores multiply.
        self.loss = float(pairs.of_item @ margins + scores @ self.slopes / 2)
        self._count = worse + better

    def bend(self, direction: Floats) -> Floats:
        """Return the product of the loss's second derivatives and a direction of the scores."""
        _, of_worse, _, of_better = self._sums(direction)
        product: Floats = 2 * self._pairs.of_item * (self._count * direction - of_worse - of_better)
        return product

    def _sums(self, values: Floats) -> Floats:
        """Return the number of each item's violating worse items, the sum of their values, and these of better ones."""
        sums = np.empty((4, len(values)))
        pairs, scores, order = self._pairs, self._scores, self._order
        if usable():
            from rankbound.kernels.rankers import violators

            violators(scores, pairs.grades, pairs.n_grades, order, self._offsets, values, sums)
            return sums
        n, (start, _, _, stop), ranked = len(scores), pairs.limits, pairs.grades[order]
        # The number of items, of all lists, before the place of a score one lower and one higher.
        limits = []
        for moved in (-1.0, 1.0):
            ties = np.repeat([moved < 0, moved > 0], n)
            merged = np.lexsort((ties, -np.append(scores, scores + moved), np.tile(pairs.segment, 2)))
            limits.append(np.empty(n, np.int64))
            limits[-1][merged[merged >= n] - n] = np.cumsum(merged < n)[merged >= n]
        for grade in range(pairs.n_grades):
            at = pairs.grades == grade
            for row, worse, low, high in ((0, ranked < grade, start, limits[0]), (2, ranked > grade, limits[1], stop)):
                for place, summed in ((row, worse), (row + 1, worse * values[order])):
                    total = np.append(0.0, np.cumsum(summed))
                    sums[place, at] = total[high[at]] - total[low[at]]
        return sums


def fit_svm(
    columns: Columns, selection: Selection, *, cost: float | None, pair_weights: str, epochs: int
) -> dict[str, float]:
    """Fit a Ranking SVM by at most so many Newton steps for each cost, and return the `cost` that was chosen.

    The cost is $C$; None chooses the best of `COSTS`, ascending, each from the weights of the one before.
    """
    pairs, n = Pairs(columns, pair_weights), len(columns.values)
    return _best_cost(selection, cost, np.zeros(n), lambda one, weights: solve(columns, pairs, one, weights, epochs), n)


def _best_cost(selection: Selection, cost: float | None, solution: Floats, solve: Solver, n: int) -> dict[str, float]:
    """Offer the n weights of each cost, whose solution begins at that of the one before; return the best cost."""
    chosen, steps = 0.0, 0
    for one in COSTS if cost is None else (cost,):
        solution, loss, count = solve(one, solution)
        steps += max(count, 1)
        selection.offer_weights(steps, loss, solution[:n])
        chosen = one if selection.epoch == steps else chosen
    return {"cost": chosen}


def solve(columns: Columns, pairs: Pairs, cost: float, weights: Floats, steps: int) -> tuple[Floats, float, int]:
    """Return the weights of the smallest objective, the objective, and the number of Newton steps from `weights`."""
    offsets = torch.from_numpy(columns.offsets)

    def at(scores: Floats, weights: Floats) -> tuple[Violations, float]:
        found = Violations(pairs, offsets, scores)
        return found, 0.5 * float(weights @ weights) + cost * found.loss

    first = cost * columns.products(Violations(pairs, offsets, np.zeros(columns.values.shape[1])).slopes)
    small = TOLERANCE * float(np.linalg.norm(first))
    scores = columns.weighted_sum(weights)
    violations, objective = at(scores, weights)
    for step in range(steps):
        gradient = weights + cost * columns.products(violations.slopes)
        size = float(np.linalg.norm(gradient))
        if size <= small:
            return weights, objective, step
        direction, moved = _conjugate_gradients(columns, violations, cost, gradient, small)
        slope, length = float(gradient @ direction), 1.0
        for _ in range(HALVINGS):
            found, value = at(scores + length * moved, weights + length * direction)
            if value <= objective + DECREASE * length * slope:
                break
            length /= 2
        else:
            # Rounding hides any further decrease.
            return weights, objective, step
        weights, scores = weights + length * direction, scores + length * moved
        violations, objective = found, value
    return weights, objective, steps


def _conjugate_gradients(
    columns: Columns, violations: Violations, cost: float, gradient: Floats, small: float
) -> tuple[Floats, Floats]:
    """Return the Newton direction, up to a residual, and the change in scores along it."""
    norm = float(np.linalg.norm(gradient))
    enough = max(min(LARGEST_RESIDUAL, np.sqrt(norm)) * norm, small / 2)
    direction, residual = np.zeros_like(gradient), -gradient
    moved, search = np.zeros(columns.values.shape[1]), -gradient
    square = float(residual @ residual)
    for _ in range(10 * len(gradient)):
        if np.sqrt(square) <= enough:
            break
        along = columns.weighted_sum(search)
        product = search + cost * columns.products(violations.bend(along))
        length = square / float(search @ product)
        direction, moved = direction + length * search, moved + length * along
        residual = residual - length * product
        square, before = float(residual @ residual), square
        search = residual + square / before * search
    return direction, moved


def fit_coordinate_ascent(
    columns: Columns, selection: Selection, *, of: Metric, bound: Bound, starts: int, epochs: int, seed: int
) -> None:
    """Maximise a bounded metric by coordinate ascent, and offer the selection the weights after every sweep.

    There are at most `epochs` sweeps in all starts together; initial weights and orders of features are by `seed`.
    """
    performance = Performance(of, bound, columns.relevance, columns.offsets)
    generator, n_features, number = np.random.default_rng(seed), len(columns.values), 0
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
                means = performance.of_steps(scores, column, steps) @ columns.shares
                # The shortest of the best steps.
                by_length = np.argsort(np.abs(steps), kind="stable")
                best = by_length[means[by_length].argmax()]
                step, value = float(steps[best]), float(means[best])
                weights[feature] += step
                scores = scores + step * column.astype(np.float64)
            selection.offer_weights(number, -value, weights)
            if value - before <= LEAST_GAIN * abs(value):
                break
            before = value


def fit_subset_ranking(
    columns: Columns, selection: Selection, *, cost: float | None, top: int, epochs: int
) -> dict[str, float]:
    """Fit the regression of subset ranking, with `top` as $k$; steps and cost as `fit_svm`."""
    sizes, gains = np.diff(columns.offsets), np.exp2(columns.relevance) - 1
    segment = np.repeat(np.arange(len(sizes)), sizes)
    limits = gains[np.lexsort((-gains, segment))][columns.offsets[:-1] + np.minimum(sizes, top) - 1]
    tops = gains >= limits[segment]
    shares, n = columns.shares[segment], len(columns.values)

    def at(solution: Floats, cost: float) -> tuple[Floats, float]:
        """Return the excesses that count, and the objective."""
        excess = columns.weighted_sum(solution[:-1]) + solution[-1] - gains
        excess[~tops & (excess < 0)] = 0.0
        return excess, 0.5 * float(solution[:-1] @ solution[:-1]) + cost * float(shares @ excess**2)

    def solve(cost: float, solution: Floats) -> tuple[Floats, float, int]:
        (excess, value), small = at(solution, cost), np.inf
        for step in range(epochs):
            slopes = 2 * cost * shares * excess
            gradient = np.append(columns.products(slopes) + solution[:-1], slopes.sum())
            size = float(np.linalg.norm(gradient))
            small = TOLERANCE * size if step == 0 else small
            if size <= small:
                return solution, value, step
            curvature = _products(columns.values, 2 * cost * shares * (tops | (excess > 0)))
            curvature[range(n), range(n)] += 1.0
            direction = -np.linalg.lstsq(curvature, gradient)[0]
            trials = ((solution + 0.5**halved * direction) for halved in range(HALVINGS))
            moved = next((trial for trial in trials if at(trial, cost)[1] < value), None)
            if moved is None:
                # Rounding hides any further decrease.
                return solution, value, step
            solution, (excess, value) = moved, at(moved, cost)
        return solution, value, epochs

    return _best_cost(selection, cost, np.zeros(n + 1), solve, n)


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
    """Fit PRank, and offer the selection its weights after every pass over the items, in an order drawn by `seed`.

    There are fewer passes than `epochs` if one changes nothing. The lists' shares have no part in it.
    """
    distinct, grades = np.unique(columns.relevance, return_inverse=True)
    rows, weights = np.ascontiguousarray(columns.values.T), np.zeros(len(columns.values))
    thresholds, generator = np.zeros(len(distinct) - 1), np.random.default_rng(seed)
    for number in range(1, epochs + 1):
        order = generator.permutation(len(rows))
        distance, moves = pass_of_prank(rows, grades.astype(np.int64), order, weights, thresholds)
        selection.offer_weights(number, distance / len(rows), weights)
        if not moves:
            break


def pass_of_prank(
    rows: npt.NDArray[np.float32], grades: Integers, order: Integers, weights: Floats, thresholds: Floats
) -> tuple[float, float]:
    """Change the weights `(d,)` and the ascending thresholds by each of the rows `(n_items, d)` in turn.

    Returns the sum of the distances of predicted and true grades, from 0, and the number of moves of thresholds.
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
