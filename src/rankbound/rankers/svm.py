r"""Ranking SVM (Joachims, KDD 2002), linear, with the squared hinge, in the primal.

$$\min_w\ \tfrac12 \lVert w \rVert^2 + C \sum_t \frac{c_t}{\sum_u c_u |P_u|}
  \sum_{(i, j) \in P_t} \max(0,\ 1 - w \cdot (x_i - x_j))^2$$

$P_t$ are the pairs of items of list $t$ with $y_i > y_j$. With $c_t = 1$ all pairs weigh the same; with
$c_t = 1 / |P_t|$ all lists do (Cao et al., SIGIR 2006). A list's own weight multiplies $c_t$ in the sum over its pairs.
$C$ is thus the cost of a mean: the solver of pairs, liblinear for instance, has $C / \sum_t |P_t|$.

It is solved by a truncated Newton method (Chapelle and Keerthi 2010; Lee and Lin 2014), whose sums over pairs take a
sort of each list and $O(n \log G)$ for $G$ grades: no pair is formed.
"""

import numpy as np
import torch

from rankbound.kernels import usable
from rankbound.lists import Lists
from rankbound.rankers.columns import Columns, Floats, Selection
from rankbound.ranks import descending_order

COSTS = tuple(10.0**power for power in range(-4, 4))
"""The costs from which a validation chooses."""

TOLERANCE = 1e-8
"""The gradient's norm over that at weights of 0, at which the weights are final."""
LARGEST_RESIDUAL = 0.1
"""The conjugate gradients' largest residual over the gradient."""
DECREASE, HALVINGS = 1e-4, 40
"""The share of the expected decrease that a step has to reach, and how often it is halved until it does."""


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
        weights = columns.shares * (
            np.where(counts > 0, 1 / np.maximum(counts, 1), 0.0) if pair_weights == "list" else 1
        )
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
            for row, counted, low, high in (
                (0, ranked < grade, start, limits[0]),
                (2, ranked > grade, limits[1], stop),
            ):
                for place, summed in ((row, counted), (row + 1, counted * values[order])):
                    total = np.append(0.0, np.cumsum(summed))
                    sums[place, at] = total[high[at]] - total[low[at]]
        return sums


def fit_svm(
    columns: Columns, selection: Selection, *, cost: float | None, pair_weights: str, epochs: int
) -> dict[str, float]:
    """Fit a Ranking SVM, and keep it in the selection.

    Args:
        columns: the lists to train on.
        selection: what keeps the weights of the cost with the best validation metric.
        cost: $C$; None chooses the best of `COSTS`, ascending, each from the weights of the one before.
        pair_weights: `equal` or `list`.
        epochs: the most Newton steps of a cost.

    Returns:
        The cost that was chosen, by `cost`.
    """
    pairs, weights, chosen, steps = Pairs(columns, pair_weights), np.zeros(len(columns.values)), 0.0, 0
    for one in COSTS if cost is None else (cost,):
        weights, loss, count = solve(columns, pairs, one, weights, epochs)
        steps += count
        held_out = selection.held_out
        scores = None if held_out is None else held_out.weighted_sum(weights)
        selection.offer(steps, loss, scores, lambda weights=weights: {"weights": weights})  # type: ignore[misc]
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
