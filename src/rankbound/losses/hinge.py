"""The pairwise hinge loss, computed by sorting."""

import torch
from torch import Tensor

from rankbound.gradients import with_gradient, without_curvature
from rankbound.losses.grade_halves import MOST_GRADES_IN_ORDER, GradeHalves
from rankbound.losses.item_sums import times
from rankbound.losses.pairwise import PairLoss
from rankbound.losses.preferences import Preferences
from rankbound.losses.violations import Violations


class HingeLoss(PairLoss):
    r"""Pairwise hinge loss (Herbrich et al. 2000), 0 for pairs whose scores are at least a margin apart.

    $$L = \frac1Z \sum_{y_i > y_j} w_{ij} \max(0, m - (s_i - s_j))$$

    The time is O(N log N) per grade, or O(N log^2 N) for many grades. At exactly the margin, the gradient is 0.

    Args:
        margin: $m \ge 0$, in units of the scores.
        reduction: `mean` divides by the number $Z$ of pairs; for `sum`, $Z = 1$.
        weight: `uniform`, $w_{ij} = 1$, or `difference`, $w_{ij} = y_i - y_j$.

    Raises:
        ValueError: for a margin below 0, or an unknown reduction or weight.

    >>> rb.loss("hinge")(torch.tensor([0.5, 0.25, 3.0]), [1, 0, 2], [0, 3])
    tensor([0.2500])
    """

    name = "hinge"

    def __init__(self, *, margin: float = 1.0, reduction: str = "mean", weight: str = "uniform") -> None:
        super().__init__(reduction=reduction, weight=weight)
        if not margin >= 0:
            raise ValueError(f"margin: found {margin}, expected a number from 0")
        self.margin = margin

    def _totals(self, scores: Tensor, pairs: Preferences) -> Tensor:
        sums = self._over_halves if len(pairs.distinct) > MOST_GRADES_IN_ORDER else self._over_grades
        losses, slopes = sums(scores.detach(), pairs)
        return with_gradient(scores, pairs.lists.sum(losses).to(scores.dtype), slopes, pairs.lists, without_curvature)

    def _over_grades(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return the losses of each item's pairs in which it is the better one, and the slopes, `(2, n_items)`."""
        violations = Violations(scores, pairs.lists, self.margin)
        sums = torch.zeros(2, len(scores), dtype=torch.float64, device=scores.device)
        losses, slopes = sums
        grades = pairs.distinct.tolist()
        for grade in grades:
            items = pairs.of_grade(grade)
            if grade > grades[0]:
                hinges, lost = violations.hinges_of(items, pairs.over(grade))
                losses[items] = times(hinges, pairs.weight_of(items))
                slopes[items] -= times(lost, pairs.weight_of(items))
            if grade < grades[-1]:
                slopes[items] += violations.by(items, pairs.under(grade))
        return sums

    def _over_halves(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return what `_over_grades` returns; each step pairs the better with the worse items of groups."""
        halves = GradeHalves(pairs.grades, pairs.lists)
        grades, scores = pairs.grades[halves.order], scores[halves.order]
        own = torch.ones_like(grades) if pairs.of_better is None else pairs.of_better[halves.order]
        sums = torch.zeros(2, len(scores), dtype=torch.float64, device=scores.device)
        losses, slopes = sums
        for half in halves:
            violations = Violations(scores, half.groups, self.margin)
            better, worse = (torch.nonzero(mask).squeeze(1) for mask in (half.late, ~half.late))
            hinges, lost = violations.hinges_of(better, (~half.late).to(grades))
            pushed = violations.by(worse, own * half.late)
            if pairs.weight == "difference":
                far = violations.hinges_of(better, grades * ~half.late)
                hinges, lost = (grades[better] * near - away for near, away in zip((hinges, lost), far, strict=True))
                pushed = violations.by(worse, own * grades * half.late) - grades[worse] * pushed
            losses[better] += own[better] * hinges
            slopes[better] -= own[better] * lost
            slopes[worse] += pushed
        return halves.in_order_of_rows(sums)

    def _curvature(self, scores: Tensor, pairs: Preferences) -> Tensor:
        return torch.zeros_like(scores)
