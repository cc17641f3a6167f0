r"""Pairwise losses: smooth link functions of the score difference of items with different grades.

Sums over all pairs of a list take near-linear time per grade. The losses are the cross-entropies of RankNet and
DirectRanker, which include the logistic surrogate of the multipartite ranking error.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.fused import NO_CURVATURE, Array, usable, with_numbers
from rankbound.fused import Kernel as Compiled
from rankbound.fused.formulas import COSTS_OF_REFERENCE, ORDER, PAIRS_OF_ITEM, PAIRS_WORTH_INTERPOLATION
from rankbound.gradients import with_gradient
from rankbound.interpolation import Boxes
from rankbound.kernel_sums import PRECISE_ORDER, interpolation_pays, require_method
from rankbound.kernels import SIGMOID, SIGMOID_SLOPE, SOFTPLUS, TANH_LINK, TANH_LINK_CURVATURE, TANH_LINK_SLOPE, Kernel
from rankbound.lists import Lists
from rankbound.losses.base import ItemSum, times
from rankbound.losses.pointwise import REDUCTIONS
from rankbound.pairs import Chunk, pair_chunks, pair_gaps
from rankbound.ranks import tie_blocks
from rankbound.texts import require_one_of

PAIR_WEIGHTS = ("uniform", "difference")

# Distinct integer grades below this are found by counting, others by sorting.
TABLED_GRADES = 1024

# Up to this many cells per item, counting in a table of lists by grades is faster than sorting.
CELLS_PER_ITEM = 64

# Up to this number of pairs per item of a group, the items of its later half, a direct sum is faster than an
# interpolated one.
PAIRS_PER_ITEM = 64

# Beyond this number of grades, splitting them in halves is faster than visiting them in order.
MOST_GRADES_IN_ORDER = 64

# Methods of a list; the last two interpolate, grade by grade or by halves of the grades.
_DIRECT, _BY_GRADES, _BY_HALVES = range(3)


@dataclass(frozen=True)
class Link:
    """A kernel of a pair's gap, with its first and second derivatives."""

    kernel: Kernel
    slope: Kernel
    curvature: Kernel


class PairLoss(ItemSum):
    r"""A loss over all pairs $(i, j)$ of a list with $y_i > y_j$.

    $$L = \frac1Z \sum_{y_i > y_j} w_{ij}\, \ell(s_i - s_j)$$

    The term of an item are the pairs in which it is the better one: a weight of item $i$ multiplies $w_{ij}$, not $Z$.

    Args:
        reduction: `mean`: $Z$ is the number of the list's pairs, so that long and short lists count alike; `sum`:
            $Z = 1$.
        weight: `uniform`: $w_{ij} = 1$; `difference`: $w_{ij} = y_i - y_j$, which makes the loss a surrogate of the
            multipartite error of Jin and Geng, of eq. 3 with `mean` and of eq. 4, $R(f)$, with `sum`. By their
            Theorem 1 it is the sum of the binary losses over all thresholds of relevance.

    Raises:
        ValueError: for an unknown reduction or weight.
    """

    def __init__(self, *, reduction: str = "mean", weight: str = "uniform") -> None:
        super().__init__()
        require_one_of("reduction", reduction, REDUCTIONS)
        require_one_of("weight", weight, PAIR_WEIGHTS)
        self.reduction, self.weight = reduction, weight

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        pairs = Preferences(relevance, lists, self.weight, None if weights is None else weights.to(torch.float64))
        totals = self._totals(scores, pairs)
        return torch.where(pairs.some, totals * self._scale(pairs).to(totals), 0.0)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the diagonal of each list's Hessian, `(n_items,)`, without a gradient."""
        fused = self._fused_derivatives(scores.detach(), relevance, lists)
        if fused is not None:
            return fused[1]
        pairs = Preferences(relevance, lists, self.weight)
        with torch.no_grad():
            scale = torch.where(pairs.some, self._scale(pairs), 0.0)
            return (self._curvature(scores, pairs) * lists.spread(scale)).to(scores.dtype)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with two items of different grades."""
        return Preferences(relevance, lists).some

    def _scale(self, pairs: "Preferences") -> Tensor:
        """Return 1/Z of each list."""
        return 1 / pairs.count.clamp(min=1) if self.reduction == "mean" else torch.ones_like(pairs.count)

    @abstractmethod
    def _totals(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        """Return the sum over all pairs of each list, `(n_lists,)`, differentiable."""

    @abstractmethod
    def _curvature(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        """Return the second derivative of the sum with respect to each item's score, `(n_items,)`."""


class LinkLoss(PairLoss):
    """A pair loss with a smooth link of `(s_i - s_j) / temperature`; `method` as in `rankbound.smooth_rank`."""

    link: ClassVar[Link]
    unit: ClassVar[float] = 1.0
    """The unit of the kernels' gaps, in temperatures."""

    def __init__(
        self, *, reduction: str = "mean", weight: str = "uniform", temperature: float = 1.0, method: str = "auto"
    ) -> None:
        super().__init__(reduction=reduction, weight=weight)
        require_method(method, temperature)
        self.temperature, self.method = temperature, method

    def _totals(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        unit, lists = self.unit * self.temperature, pairs.lists
        sums = LinkSums.of(scores.detach(), pairs, self.link, unit, self.method)
        if not (scores.requires_grad and torch.is_grad_enabled()):
            return lists.sum(sums.losses()).to(scores.dtype)
        losses, gradient = sums.losses_and_gradient()
        return with_gradient(
            scores,
            lists.sum(losses).to(scores.dtype),
            gradient / unit,
            lists,
            lambda direction: sums.hessian_product(direction) / unit**2,
        )

    def _curvature(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        unit = self.unit * self.temperature
        return LinkSums.of(scores, pairs, self.link, unit, self.method).curvature() / unit**2


class PairwiseLogisticLoss(LinkLoss):
    r"""RankNet's cross-entropy (Burges et al., ICML 2005; Li and Wu eq. 2 with corrected sign, erratum N01).

    $$L = \frac1Z \sum_{y_i > y_j} w_{ij} \log\left(1 + e^{-(s_i - s_j)/\tau}\right)$$

    A pair's term is $-\log \sigma((s_i - s_j)/\tau)$.

    Args:
        reduction: `mean` divides by the number $Z$ of pairs; for `sum`, $Z = 1$.
        weight: `uniform`, $w_{ij} = 1$, or `difference`, $w_{ij} = y_i - y_j$.
        temperature: $\tau$, in units of the scores.
        method: as in `rankbound.smooth_rank`.

    Raises:
        ValueError: for an unknown reduction, weight or method, or a temperature that isn't above 0.

    >>> rb.loss("RankNet")(torch.tensor([0.0, 0.0, 1.0]), [1, 0, 0], [0, 3])
    tensor([1.0032])
    """

    name = "RankNet"
    link = Link(SOFTPLUS, SIGMOID, SIGMOID_SLOPE)

    def _kernel(self, dtype: torch.dtype) -> Compiled | None:
        return self._curved_kernel(dtype, NO_CURVATURE)

    def _curved_kernel(self, dtype: torch.dtype, curvature: Array) -> Compiled | None:
        if not usable() or self.method == "interpolated":
            return None
        from rankbound.fused.preferences import logistic

        mean, by_difference, always = self.reduction == "mean", self.weight == "difference", self.method == "direct"
        return with_numbers(logistic, float(self.temperature), mean, by_difference, always, curvature)


class DirectRankerLoss(LinkLoss):
    r"""DirectRanker's cross-entropy (Köppel et al., ECML PKDD 2019; Li and Wu, sec. 3.1).

    $$L = -\frac1Z \sum_{y_i > y_j} w_{ij} \log \sigma\left(\tanh \frac{s_i - s_j}{\tau}\right)$$

    It is RankNet's with a tanh before the sigmoid. A pair's probability lies between $\sigma(-1) = 0.269$ and
    $\sigma(1) = 0.731$ and its loss between 0.3133 and 1.3133 (erratum N05).

    Args:
        reduction: `mean` divides by the number $Z$ of pairs; for `sum`, $Z = 1$.
        weight: `uniform`, $w_{ij} = 1$, or `difference`, $w_{ij} = y_i - y_j$.
        temperature: $\tau$, in units of the scores.
        method: as in `rankbound.smooth_rank`.

    Raises:
        ValueError: for an unknown reduction, weight or method, or a temperature that isn't above 0.

    >>> rb.loss("DirectRanker")(torch.tensor([0.0, 0.0, 1.0]), [1, 0, 0], [0, 3])
    tensor([0.9190])
    """

    name = "DirectRanker"
    link = Link(TANH_LINK, TANH_LINK_SLOPE, TANH_LINK_CURVATURE)
    unit = 0.5


@dataclass(frozen=True)
class Preferences:
    """The pairs $(i, j)$ with $y_i > y_j$, of weight 1 (`uniform`) or $y_i - y_j$ (`difference`).

    The weights `of_better` `(n_items,)`, if given, multiply those of the pairs in which the item is the better one.
    """

    relevance: Tensor
    lists: Lists
    weight: str = "uniform"
    of_better: Tensor | None = None

    def of_some(self, lists: Tensor, items: Tensor) -> "Preferences":
        """Return the pairs of the lists of a mask `(n_lists,)`, whose items are those of the mask `items`."""
        better = None if self.of_better is None else self.of_better[items]
        return Preferences(self.relevance[items], Lists.of_sizes(self.lists.sizes[lists]), self.weight, better)

    @cached_property
    def grades(self) -> Tensor:
        """`relevance` in double precision."""
        # Contiguous, without which searches warn.
        return self.relevance.to(torch.float64).contiguous()

    @cached_property
    def distinct(self) -> Tensor:
        """The grades that occur in the batch, ascending."""
        if len(self.grades) and float(self.grades.max()) < TABLED_GRADES:
            whole = self.grades.to(torch.int64)
            if torch.equal(whole.to(torch.float64), self.grades):
                return torch.nonzero(torch.bincount(whole)).squeeze(1).to(torch.float64)
        distinct: Tensor = torch.unique(self.grades)
        return distinct

    @cached_property
    def some(self) -> Tensor:
        """A mask of the lists with a pair, `(n_lists,)`."""
        return self.lists.max(self.grades) > self.lists.min(self.grades)

    @cached_property
    def count(self) -> Tensor:
        """The number of pairs of each list, `(n_lists,)`, double precision."""
        n_cells = len(self.lists) * len(self.distinct)
        if n_cells > CELLS_PER_ITEM * (len(self.grades) + len(self.lists)):
            blocks = tie_blocks(self.grades, self.lists)
            of_equals = blocks.lists.sum(blocks.size.to(torch.float64).square())
        else:
            cell = self.lists.segment * len(self.distinct) + torch.searchsorted(self.distinct, self.grades)
            held = torch.bincount(cell, minlength=n_cells).view(len(self.lists), len(self.distinct))
            of_equals = held.to(torch.float64).square().sum(1)
        return (self.lists.sizes.to(torch.float64).square() - of_equals) / 2

    @cached_property
    def better(self) -> Tensor:
        """The indices of the items with a higher grade than another item of their list."""
        return torch.nonzero(self.grades > self.lists.spread(self.lists.min(self.grades))).squeeze(1)

    def of_grade(self, grade: float) -> Tensor:
        """Return the indices of the items of this grade."""
        return torch.nonzero(self.grades == grade).squeeze(1)

    def between(self, better: Tensor, worse: Tensor) -> Tensor:
        """Return the weight of pairs of items, given by index; 0 unless `better` has the higher grade."""
        weights = self._weight(self.grades.index_select(0, better) - self.grades.index_select(0, worse))
        return times(weights, self.weight_of(better))

    def over(self, grade: float) -> Tensor:
        """Return the weight of an item of this grade over each item, `(n_items,)`; 0 for items that aren't lower.

        The items' own weights, `of_better`, are left out.
        """
        return self._weight(grade - self.grades)

    def under(self, grade: float) -> Tensor:
        """Return the weight of each item over one of this grade, `(n_items,)`; 0 for items that aren't higher."""
        return times(self._weight(self.grades - grade), self.of_better)

    def weight_of(self, items: Tensor) -> Tensor | None:
        """Return the weights `of_better` of items, given by index; None without any."""
        return None if self.of_better is None else self.of_better.index_select(0, items)

    def _weight(self, difference: Tensor) -> Tensor:
        return difference.clamp(min=0) if self.weight == "difference" else (difference > 0).to(difference)


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


@dataclass(frozen=True)
class Half:
    """Groups of items, in the order of `GradeHalves.order`: an item of `late` pairs with every other of its group."""

    groups: Lists
    late: Tensor


class GradeHalves:
    """The pairs of items of one list whose grades have different places among the list's distinct grades.

    The first bit in which two places differ is 0 in the earlier one. Items that agree in all bits before it are a
    group, and each pair is in one group of one bit.

    Attributes:
        order: `(n_items,)`, the items of each list by place.
    """

    def __init__(self, grades: Tensor, lists: Lists, *, descending: bool = False) -> None:
        place = _places(grades, lists, descending)
        self._bits = int(place.max()).bit_length() if len(place) else 0
        key = lists.segment * 2**self._bits + place
        self.order = torch.argsort(key)
        self._key = key.index_select(0, self.order)

    def __iter__(self) -> Iterator[Half]:
        for bit in range(self._bits):
            sizes = torch.unique_consecutive(self._key >> (bit + 1), return_counts=True)[1]
            yield Half(Lists.of_sizes(sizes), (self._key >> bit) % 2 == 1)

    def in_order_of_rows(self, values: Tensor) -> Tensor:
        """Return values `(..., n_items)` in the items' own order."""
        return torch.empty_like(values).index_copy_(-1, self.order, values)


def _places(grades: Tensor, lists: Lists, descending: bool) -> Tensor:
    """Return the place, from 0, of each item's grade among the distinct grades of its list, `(n_items,)`."""
    blocks = tie_blocks(grades, lists)
    place = blocks.lists.position
    if not descending:
        place = blocks.lists.spread(blocks.lists.sizes) - 1 - place
    return torch.empty_like(blocks.block).index_copy_(0, blocks.order, place.index_select(0, blocks.block))
