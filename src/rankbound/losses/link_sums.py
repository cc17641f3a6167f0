r"""Sums of a smooth link function over all pairs of items of a list with different grades.

A pair $(i, j)$ with $y_i > y_j$ is in the correct order if $s_i > s_j$; the link's kernel takes the gap
$x = (s_j - s_i)/\tau$. Direct sums visit every pair. Interpolated sums of few grades visit them in order and accumulate
moments over all lower (higher) grades, so that all pairs together cost O(items + grades x boxes). Those of many grades,
up to as many as items, split them in halves again and again, which costs O(items x log grades).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.fused.formulas import ORDER
from rankbound.interpolation import Boxes
from rankbound.kernel_sums import PRECISE_ORDER, chosen_method
from rankbound.kernels import Kernel
from rankbound.lists import Lists
from rankbound.losses.grade_halves import MOST_GRADES_IN_ORDER, GradeHalves
from rankbound.losses.item_sums import times
from rankbound.losses.preferences import Preferences
from rankbound.pairs import Chunk, pair_chunks, pair_gaps

# Up to this number of pairs per item, a direct sum is faster than an interpolated one.
PAIRS_PER_ITEM = 64


@dataclass(frozen=True)
class Link:
    """A kernel of a pair's gap, with its first and second derivatives."""

    kernel: Kernel
    slope: Kernel
    curvature: Kernel


class LinkSums:
    """Sums of a link over each item's pairs, `(n_items,)`; derivatives are by scores over the temperature."""

    def __init__(self, scores: Tensor, pairs: Preferences, link: Link, temperature: float, method: str) -> None:
        self._scores, self._pairs, self._link, self._temperature = scores, pairs, link, temperature
        self._method = chosen_method(method, temperature, pairs.lists, pairs.better)

    def losses(self) -> Tensor:
        """Return the sums of the kernel; each pair counts at its better item."""
        if self._method == "direct":
            return self._direct((self._link.kernel,))[0]
        return self._over_lower_grades(self._boxes(), (self._link.kernel,))[0]

    def losses_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return `losses` and the gradient of their total with respect to the scores over the temperature."""
        kernels = self._link.kernel, self._link.slope
        if self._method == "direct":
            sums = self._direct(kernels, pushed=self._link.slope)
        else:
            boxes = self._boxes()
            sums = torch.cat([self._over_lower_grades(boxes, kernels), self._over_higher_grades(boxes, kernels[1:])])
        return sums[0], sums[2] - sums[1]

    def curvature(self) -> Tensor:
        """Return the second derivative of the total with respect to each item's score over the temperature."""
        curvature = self._link.curvature
        if self._method == "direct":
            return self._direct((curvature,), pushed=curvature).sum(0)
        boxes = self._boxes(PRECISE_ORDER)
        return self._over_lower_grades(boxes, (curvature,))[0] + self._over_higher_grades(boxes, (curvature,))[0]

    def hessian_product(self, direction: Tensor) -> Tensor:
        """Return the Hessian of the total by scores over the temperature, times `direction` `(n_items,)`."""
        link, own = self._link.curvature, direction.to(torch.float64)
        if self._method == "direct":
            product = torch.zeros_like(own)
            for targets, chunk, gaps, weights in self._pair_chunks():
                winner = chunk.per_target.spread(targets)
                pull = link.at(gaps) * weights * (own.index_select(0, winner) - own.index_select(0, chunk.item))
                product.index_add_(0, winner, pull).index_add_(0, chunk.item, pull, alpha=-1)
            return product
        boxes = self._boxes(PRECISE_ORDER)
        pulled = self._over_lower_grades(boxes, (link,), own)[0] + self._over_higher_grades(boxes, (link,), own)[0]
        return self.curvature() * own - pulled

    def _direct(self, kernels: tuple[Kernel, ...], pushed: Kernel | None = None) -> Tensor:
        """Return one row per kernel, summed at the better items, and one of `pushed`, summed at the worse ones."""
        sums = self._scores.new_zeros(len(kernels) + (pushed is not None), len(self._scores))
        for targets, chunk, gaps, weights in self._pair_chunks():
            for kernel, own in zip(kernels, sums, strict=False):
                values = kernel.at(gaps) * weights
                own[targets] = chunk.per_target.sum(values)
                if kernel is pushed:
                    sums[-1].index_add_(0, chunk.item, values)
        return sums

    def _pair_chunks(self) -> Iterator[tuple[Tensor, Chunk, Tensor, Tensor]]:
        """Yield chunks of the pairs: their better items, the chunk, the gaps and the weights."""
        better = self._pairs.better
        for chunk in pair_chunks(self._pairs.lists, better):
            targets = better[chunk.targets]
            gaps = pair_gaps(self._scores, better, chunk, self._temperature)
            yield targets, chunk, gaps, self._pairs.between(chunk.per_target.spread(targets), chunk.item).to(gaps)

    def _boxes(self, order: int = ORDER) -> Boxes:
        return Boxes(self._scores, self._pairs.lists, self._temperature, order)

    def _over_lower_grades(self, boxes: Boxes, kernels: tuple[Kernel, ...], factor: Tensor | None = None) -> Tensor:
        sums = self._over_grades(boxes, kernels, self._pairs.distinct, factor)
        return times(sums, self._pairs.of_better)

    def _over_higher_grades(self, boxes: Boxes, kernels: tuple[Kernel, ...], factor: Tensor | None = None) -> Tensor:
        mirrored = tuple(kernel.mirrored for kernel in kernels)
        weights = self._pairs.of_better
        factor = weights if factor is None else times(factor, weights)
        return self._over_grades(boxes, mirrored, self._pairs.distinct.flip(0), factor)

    def _over_grades(
        self, boxes: Boxes, kernels: tuple[Kernel, ...], distinct: Tensor, factor: Tensor | None
    ) -> Tensor:
        """Return one row per kernel: each item's sums over the items of all grades before its own in `distinct`.

        Terms are multiplied by the other item's `factor` `(n_items,)`.
        """
        if len(distinct) > MOST_GRADES_IN_ORDER:
            return self._over_halves(kernels, bool(distinct[0] > distinct[1]), factor, boxes.order)
        grades = distinct.tolist()
        sums = torch.zeros(len(kernels), len(self._scores), dtype=torch.float64, device=self._scores.device)
        moments = weighted = sums.new_zeros(())
        for place, grade in enumerate(grades):
            items = self._pairs.of_grade(grade)
            points = boxes.points(items)
            if place:
                # From one grade to the next, the weights of all earlier items grow by the same step.
                step = abs(grade - grades[place - 1])
                weighted = weighted + step * moments if self._pairs.weight == "difference" else moments
                for kernel, row in zip(kernels, sums, strict=True):
                    row[items] = boxes.at(points, kernel, weighted).squeeze(1)
            if place + 1 < len(grades):
                moments = moments + boxes.moments((None if factor is None else points.pick(factor),), points)
        return sums

    def _over_halves(self, kernels: tuple[Kernel, ...], descending: bool, factor: Tensor | None, order: int) -> Tensor:
        """Return what `_over_grades` returns; each step sums over the earlier items of groups of items."""
        halves = GradeHalves(self._pairs.grades, self._pairs.lists, descending=descending)
        scores, grades = self._scores[halves.order], self._pairs.grades[halves.order]
        weight = torch.ones_like(grades) if factor is None else factor[halves.order].to(grades)
        weights = torch.stack([weight, weight * grades])[: 1 + (self._pairs.weight == "difference")]
        sums = torch.zeros(len(kernels), len(grades), dtype=torch.float64, device=grades.device)
        for half in halves:
            targets, earlier = torch.nonzero(half.late).squeeze(1), weights * ~half.late
            if int(half.groups.spread(half.groups.sizes)[targets].sum()) <= PAIRS_PER_ITEM * len(scores):
                parts = _direct_sums(scores, half.groups, targets, kernels, earlier, self._temperature)
            else:
                boxes = Boxes(scores, half.groups, self._temperature, order)
                moments, at = boxes.moments(tuple(earlier), boxes.points()), boxes.points(targets)
                parts = torch.stack([boxes.at(at, kernel, moments).T for kernel in kernels])
            over = parts[:, 0] if len(weights) == 1 else grades[half.late] * parts[:, 0] - parts[:, 1]
            sums[:, half.late] += -over if descending and len(weights) > 1 else over
        return halves.in_order_of_rows(sums)


def _direct_sums(
    scores: Tensor, lists: Lists, targets: Tensor, kernels: tuple[Kernel, ...], weights: Tensor, temperature: float
) -> Tensor:
    """Return the sums of kernel times weight over each target's list, `(n_kernels, n_weights, n_targets)`."""
    sums = weights.new_zeros(len(kernels), len(weights), len(targets))
    for chunk in pair_chunks(lists, targets):
        gaps = pair_gaps(scores, targets, chunk, temperature)
        for kernel, rows in zip(kernels, sums, strict=True):
            values = kernel.at(gaps)
            for weight, row in zip(weights, rows, strict=True):
                row[chunk.targets] = chunk.per_target.sum(values * weight.index_select(0, chunk.item))
    return sums
