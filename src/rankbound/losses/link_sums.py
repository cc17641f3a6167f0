r"""Sums of a smooth link function over all pairs of items of a list with different grades.

A pair $(i, j)$ with $y_i > y_j$ is in the correct order if $s_i > s_j$; the link's kernel takes the gap
$x = (s_j - s_i)/\tau$. Direct sums visit every pair. Interpolated sums of few grades visit them in order and accumulate
moments over all lower (higher) grades, so that all pairs together cost O(items + grades x boxes). Those of many grades,
up to as many as items, split them in halves again and again, which costs O(items x log grades).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.interpolation import SOFTPLUS, Boxes, Kernel
from rankbound.kernels.formulas import COSTS_OF_REFERENCE, ORDER, PAIRS_OF_ITEM, PAIRS_WORTH_INTERPOLATION
from rankbound.lists import Lists
from rankbound.losses.grade_halves import MOST_GRADES_IN_ORDER, GradeHalves
from rankbound.losses.item_sums import times
from rankbound.losses.preferences import Preferences
from rankbound.smooth_ranks import PRECISE_ORDER, Chunk, interpolation_pays, pair_chunks, pair_gaps

# Up to this number of pairs per item of a group, the items of its later half, a direct sum is faster than an
# interpolated one.
PAIRS_PER_ITEM = 64


@dataclass(frozen=True)
class Link:
    """A kernel of a pair's gap, with its first and second derivatives."""

    kernel: Kernel
    slope: Kernel
    curvature: Kernel


@dataclass(frozen=True)
class LinkSums:
    """Sums of a link over each item's pairs, `(n_items,)`; derivatives are by scores over the temperature.

    The method of a list depends on it alone.
    """

    items: Sequence[Tensor | slice]
    parts: Sequence["_Sums"]

    @classmethod
    def of(cls, scores: Tensor, pairs: Preferences, link: Link, temperature: float, method: str) -> "LinkSums":
        """Return the sums of a batch's pairs; `method` is `direct`, `interpolated` or `auto`."""
        methods, scores = _methods(scores, pairs, link, temperature, method), scores.to(torch.float64)
        kinds = [kind for kind in (_DIRECT, _BY_GRADES, _BY_HALVES) if bool((methods == kind).any())] or [_DIRECT]
        if len(kinds) == 1:
            return cls([slice(None)], [_Sums(scores, pairs, link, temperature, kinds[0])])
        masks = [pairs.lists.spread(methods == kind) for kind in kinds]
        shares = [pairs.of_some(methods == kind, mask) for kind, mask in zip(kinds, masks, strict=True)]
        parts = [
            _Sums(scores[mask], share, link, temperature, kind)
            for kind, mask, share in zip(kinds, masks, shares, strict=True)
        ]
        return cls([torch.nonzero(mask).squeeze(1) for mask in masks], parts)

    def losses(self) -> Tensor:
        """Return the sums of the kernel; each pair counts at its better item."""
        return self._joined([part.losses() for part in self.parts])

    def losses_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return `losses` and the gradient of their total with respect to the scores over the temperature."""
        losses, gradients = zip(*(part.losses_and_gradient() for part in self.parts), strict=True)
        return self._joined(losses), self._joined(gradients)

    def curvature(self) -> Tensor:
        """Return the second derivative of the total with respect to each item's score over the temperature."""
        return self._joined([part.curvature() for part in self.parts])

    def hessian_product(self, direction: Tensor) -> Tensor:
        """Return the Hessian of the total by scores over the temperature, times `direction` `(n_items,)`."""
        own = zip(self.items, self.parts, strict=True)
        return self._joined([part.hessian_product(direction[items]) for items, part in own])

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        joined = parts[0].new_empty(sum(map(len, parts)), dtype=torch.float64)
        for items, part in zip(self.items, parts, strict=True):
            joined[items] = part.to(torch.float64)
        return joined


# Methods of a list; the last two interpolate, grade by grade or by halves of the grades.
_DIRECT, _BY_GRADES, _BY_HALVES = range(3)


def _methods(scores: Tensor, pairs: Preferences, link: Link, temperature: float, method: str) -> Tensor:
    """Return the method of each list, `(n_lists,)`."""
    lists = pairs.lists
    if method == "auto" and link.kernel is SOFTPLUS and scores.dtype == torch.float64:
        # The choice of the compiled kernel, with which lists in double precision agree to rounding.
        interpolated = pairs.count > PAIRS_OF_ITEM * lists.sizes + PAIRS_WORTH_INTERPOLATION
    elif method == "auto":
        interpolated = interpolation_pays(scores, lists, pairs.better, 2, temperature, COSTS_OF_REFERENCE)
    else:
        interpolated = torch.full_like(lists.sizes, method == "interpolated", dtype=torch.bool)
    if not bool(interpolated.any()):
        return torch.full_like(lists.sizes, _DIRECT)
    few = lists.max(pairs.grades) < MOST_GRADES_IN_ORDER
    whole = lists.sum((pairs.grades != pairs.grades.floor()).to(torch.float64)) == 0
    return torch.where(interpolated, torch.where(few & whole, _BY_GRADES, _BY_HALVES), _DIRECT)


class _Sums:
    """The sums of lists that are computed by one method."""

    def __init__(self, scores: Tensor, pairs: Preferences, link: Link, temperature: float, method: int) -> None:
        self._scores, self._pairs, self._link, self._temperature = scores, pairs, link, temperature
        self._method = method

    def losses(self) -> Tensor:
        if self._method == _DIRECT:
            return self._direct((self._link.kernel,))[0]
        return self._over_lower_grades(self._boxes(), (self._link.kernel,))[0]

    def losses_and_gradient(self) -> tuple[Tensor, Tensor]:
        """See `LinkSums`."""
        kernels = self._link.kernel, self._link.slope
        if self._method == _DIRECT:
            sums = self._direct(kernels, pushed=self._link.slope)
        else:
            boxes = self._boxes()
            sums = torch.cat([self._over_lower_grades(boxes, kernels), self._over_higher_grades(boxes, kernels[1:])])
        return sums[0], sums[2] - sums[1]

    def curvature(self) -> Tensor:
        curvature = self._link.curvature
        if self._method == _DIRECT:
            return self._direct((curvature,), pushed=curvature).sum(0)
        boxes = self._boxes(PRECISE_ORDER)
        return self._over_lower_grades(boxes, (curvature,))[0] + self._over_higher_grades(boxes, (curvature,))[0]

    def hessian_product(self, direction: Tensor) -> Tensor:
        link, own = self._link.curvature, direction.to(torch.float64)
        if self._method == _DIRECT:
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
        if self._method == _BY_HALVES:
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
                moments = moments + boxes.moments((None if factor is None else factor.index_select(0, items),), points)
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
            late = half.groups.sum(half.late.to(torch.float64))
            many = half.groups.spread(late > PAIRS_PER_ITEM).index_select(0, targets)
            parts = grades.new_empty(len(kernels), len(weights), len(targets))
            few = targets[~many]
            parts[:, :, ~many] = _direct_sums(scores, half.groups, few, kernels, earlier, self._temperature)
            if len(few) < len(targets):
                boxes = Boxes(scores, half.groups, self._temperature, order)
                moments, at = boxes.moments(tuple(earlier), boxes.points()), boxes.points(targets[many])
                parts[:, :, many] = torch.stack([boxes.at(at, kernel, moments).T for kernel in kernels])
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
