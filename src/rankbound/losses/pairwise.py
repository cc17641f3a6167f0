r"""Pairwise losses: smooth link functions of the score difference of items with different grades.

Sums over all pairs of a list (`_LinkSums`) take near-linear time. The losses are the cross-entropies of RankNet and
DirectRanker, which include the logistic surrogate of the multipartite ranking error; `rankbound.losses.sampled` has the
hinge.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound import smooth_ranks
from rankbound.gradients import with_gradient
from rankbound.kernels import Kernel as Compiled
from rankbound.kernels.formulas import COSTS_OF_REFERENCE, DCG, PAIRS_OF_ITEM, PAIRS_WORTH_INTERPOLATION, Formula
from rankbound.lists import Lists, may_read
from rankbound.losses.base import ItemSum, times
from rankbound.losses.pointwise import REDUCTIONS
from rankbound.ranks import block_starts, blocks_of, tie_blocks
from rankbound.smooth_ranks import Boxes, Kernel, PairSums, joined, require_method
from rankbound.texts import require_one_of

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
        require_one_of("weight", weight, ("uniform", "difference"))
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

    def _curvature(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        """Return the second derivative of the sum with respect to each item's score, `(n_items,)`; 0 by default."""
        return torch.zeros_like(scores)


class LinkLoss(PairLoss):
    """A pair loss with a smooth link of `(s_i - s_j) / temperature`; `method` as in `rankbound.smooth_rank`."""

    link: ClassVar[tuple[Kernel, Kernel, Kernel]]
    """The kernel of a pair's gap, with its first and second derivatives."""
    unit: ClassVar[float] = 1.0
    """The unit of the kernels' gaps, in temperatures."""

    def __init__(
        self, *, reduction: str = "mean", weight: str = "uniform", temperature: float = 1.0, method: str = "auto"
    ) -> None:
        super().__init__(reduction=reduction, weight=weight)
        require_method(method, temperature)
        self.temperature, self.method = temperature, method

    def _totals(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        (parts, places), unit, lists = self._parts(scores.detach(), pairs), self.unit * self.temperature, pairs.lists
        if not (scores.requires_grad and torch.is_grad_enabled()):
            return lists.sum(joined([part.losses()[0] for part in parts], places)).to(scores.dtype)
        losses, gradient = joined([part.losses(with_gradient=True) for part in parts], places)

        def hessian_product(direction: Tensor) -> Tensor:
            bent = [part.hessian_product(direction[items]) for part, items in zip(parts, places, strict=True)]
            return joined(bent, places) / unit**2

        return with_gradient(scores, lists.sum(losses).to(scores.dtype), gradient / unit, lists, hessian_product)

    def _curvature(self, scores: Tensor, pairs: "Preferences") -> Tensor:
        parts, places = self._parts(scores, pairs)
        return joined([part.curvature() for part in parts], places) / (self.unit * self.temperature) ** 2

    def _parts(self, scores: Tensor, pairs: "Preferences") -> tuple[list["_LinkSums"], list[Tensor | slice]]:
        """Return the sums of the lists of each method, which depends on a list alone, and the places of their items."""
        lists, unit, exact = pairs.lists, self.unit * self.temperature, scores.to(torch.float64)
        interpolated: Tensor | npt.NDArray[np.bool_]
        if self.method != "auto":
            interpolated = np.full(len(lists), self.method == "interpolated")
        elif not may_read(scores):
            interpolated = smooth_ranks.long_enough(lists, 2, COSTS_OF_REFERENCE)
        elif self.link[0] is smooth_ranks.SOFTPLUS and scores.dtype == torch.float64:
            # The choice of the compiled kernel, with which lists in double precision agree to rounding.
            interpolated = pairs.count > PAIRS_OF_ITEM * lists.sizes + PAIRS_WORTH_INTERPOLATION
        else:
            interpolated = smooth_ranks.interpolation_pays(scores, lists, pairs.better, 2, unit, COSTS_OF_REFERENCE)
        methods: Tensor | npt.NDArray[np.int64] = np.full(len(lists), _DIRECT)
        if not may_read(scores):
            methods = np.where(interpolated, _BY_HALVES, _DIRECT)
        elif bool(interpolated.any()):
            few = lists.max(pairs.grades) < MOST_GRADES_IN_ORDER
            whole = lists.sum((pairs.grades != pairs.grades.floor()).to(torch.float64)) == 0
            by_grades = torch.where(few & whole, _BY_GRADES, _BY_HALVES)
            methods = torch.where(torch.as_tensor(interpolated, device=lists.device), by_grades, _DIRECT)
        shares, parts = lists._shares(methods), []
        for kind, items, own in shares:
            better = None if pairs.of_better is None else pairs.of_better[items]
            some = Preferences(pairs.relevance[items], own, self.weight, better) if len(shares) > 1 else pairs
            parts.append(_LinkSums(exact[items], some, self.link, unit, kind))
        return parts, [items for _, items, _ in shares]


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
    link = smooth_ranks.SOFTPLUS, smooth_ranks.SIGMOID, smooth_ranks.SIGMOID_SLOPE

    _kernel_has_curvature = True

    def _kernel(self, dtype: torch.dtype) -> Compiled | None:
        if self.method == "interpolated":
            return None
        from rankbound.kernels.losses import ALIKE, BY_DIFFERENCE, logistic

        weighting = BY_DIFFERENCE if self.weight == "difference" else ALIKE
        most_pairs = (2**62, 0) if self.method == "direct" else (PAIRS_WORTH_INTERPOLATION, PAIRS_OF_ITEM)
        numbers = Formula(kind=DCG).numbers, math.inf, float(self.temperature)
        return logistic, weighting, *numbers, self.reduction == "mean", most_pairs


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
    link = smooth_ranks.TANH_LINK, smooth_ranks.TANH_LINK_SLOPE, smooth_ranks.TANH_LINK_CURVATURE
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
        read = may_read(self.grades)
        n_cells = len(self.lists) * len(self.distinct) if read else 0
        if not read or n_cells > CELLS_PER_ITEM * (len(self.grades) + len(self.lists)):
            blocks = tie_blocks(self.grades, self.lists)
            of_equals = blocks.lists.sum(blocks.size.to(torch.float64).square())
        else:
            cell = self.lists.segment * len(self.distinct) + torch.searchsorted(self.distinct, self.grades)
            held = torch.bincount(cell, minlength=n_cells).view(len(self.lists), len(self.distinct))
            of_equals = held.to(torch.float64).square().sum(1)
        return (self.lists.sizes.to(torch.float64).square() - of_equals) / 2

    @cached_property
    def better(self) -> Tensor:
        """The indices of the items with a higher grade than another item of their list; all items if none is read."""
        if not may_read(self.grades):
            return torch.arange(len(self.grades), device=self.grades.device)
        return torch.nonzero(self.grades > self.lists.spread(self.lists.min(self.grades))).squeeze(1)

    def by_step(self, step: Tensor) -> Tensor:
        """Return the weight of pairs by the better item's grade less the other's, without `of_better`; 0 below 0."""
        return step.clamp(min=0) if self.weight == "difference" else (step > 0).to(step)


class _LinkSums:
    r"""Sums of a link over the pairs of each item of lists with one method, `(n_items,)`.

    A pair $(i, j)$ with $y_i > y_j$ is in the correct order if $s_i > s_j$; the link's kernel takes the gap
    $x = (s_j - s_i)/\tau$. Direct sums visit every pair. Interpolated sums of few grades visit them in order and
    accumulate moments over all lower (higher) grades, so that all pairs together cost O(items + grades x boxes). Those
    of many grades, up to as many as items, split them in halves again and again, which costs O(items x log grades).
    Derivatives are by scores over the temperature.
    """

    def __init__(
        self, scores: Tensor, pairs: Preferences, link: tuple[Kernel, Kernel, Kernel], temperature: float, method: int
    ) -> None:
        self._scores, self._pairs, self._temperature, self._method = scores, pairs, temperature, method
        self._kernel, self._slope, self._bend = link

    def losses(self, with_gradient: bool = False) -> Tensor:
        """Return the sums of the kernel, where each pair counts at its better item, and the gradient of their total."""
        kernels = (self._kernel, self._slope) if with_gradient else (self._kernel,)
        if self._method == _DIRECT:
            sums = self._direct(kernels, self._slope if with_gradient else None)
        else:
            boxes = Boxes(self._scores, self._pairs.lists, self._temperature)
            sums = self._over_grades(boxes, kernels)
            if with_gradient:
                sums = torch.cat([sums, self._over_grades(boxes, (self._slope,), higher=True)])
        return torch.stack([sums[0], sums[2] - sums[1]]) if with_gradient else sums

    def curvature(self, factor: Tensor | None = None) -> Tensor:
        """Return the second derivative of the total with respect to each item's score.

        With a `factor` `(n_items,)`, pairs are multiplied by that of the other item; interpolated sums only.
        """
        if self._method == _DIRECT:
            return self._direct((self._bend,), pushed=self._bend).sum(0)
        bend = (self._bend,)
        boxes = Boxes(self._scores, self._pairs.lists, self._temperature, smooth_ranks.PRECISE_ORDER)
        return self._over_grades(boxes, bend, factor)[0] + self._over_grades(boxes, bend, factor, higher=True)[0]

    def hessian_product(self, direction: Tensor) -> Tensor:
        """Return the Hessian of the total times `direction` `(n_items,)`."""
        own = direction.to(torch.float64)
        if self._method != _DIRECT:
            return self.curvature() * own - self.curvature(own)
        product = torch.zeros_like(own)
        for better, runs, item, gaps, weights in self._chunks():
            winner = runs.spread(better)
            pull = self._bend.at(gaps) * weights * (own.index_select(0, winner) - own.index_select(0, item))
            product.index_add_(0, winner, pull).index_add_(0, item, pull, alpha=-1)
        return product

    def _direct(self, kernels: tuple[Kernel, ...], pushed: Kernel | None = None) -> Tensor:
        """Return one row per kernel, summed at the better items, and one of `pushed`, summed at the worse ones."""
        sums = self._scores.new_zeros(len(kernels) + (pushed is not None), len(self._scores))
        for better, runs, item, gaps, weights in self._chunks():
            for kernel, own in zip(kernels, sums, strict=False):
                values = kernel.at(gaps) * weights
                own[better] = runs.sum(values)
                if kernel is pushed:
                    sums[-1].index_add_(0, item, values)
        return sums

    def _chunks(self) -> Iterator[tuple[Tensor, Lists, Tensor, Tensor, Tensor]]:
        """Yield some better items, their pairs as a list each, the pairs' items, gaps and weights."""
        pairs, better, weight = self._pairs, self._pairs.better, self._pairs.of_better
        sums = PairSums(self._scores, pairs.lists, better, self._temperature, not may_read(better))
        for chunk, runs, item, gaps in sums.chunks():
            winner = runs.spread(own := better[chunk])
            step = pairs.grades.index_select(0, winner) - pairs.grades.index_select(0, item)
            weights = times(pairs.by_step(step), None if weight is None else weight.index_select(0, winner))
            yield own, runs, item, gaps, weights.to(gaps)

    def _over_grades(
        self, boxes: Boxes, kernels: tuple[Kernel, ...], factor: Tensor | None = None, *, higher: bool = False
    ) -> Tensor:
        """Return one row per kernel: each item's sums over the items of all lower, or all higher, grades.

        Terms are multiplied by the other item's `factor` `(n_items,)`.
        """
        over, weights = self._in_order if self._method == _BY_GRADES else self._in_halves, self._pairs.of_better
        if not higher:
            return times(over(boxes, kernels, factor, False), weights)
        factor = weights if factor is None else times(factor, weights)
        return over(boxes, tuple(kernel.mirrored for kernel in kernels), factor, True)

    def _in_order(self, boxes: Boxes, kernels: tuple[Kernel, ...], factor: Tensor | None, descending: bool) -> Tensor:
        """Return each item's sums over all grades before its own, one grade after the other."""
        grades = sorted(self._pairs.distinct.tolist(), reverse=descending)
        sums = torch.zeros(len(kernels), len(self._scores), dtype=torch.float64, device=self._scores.device)
        moments = weighted = sums.new_zeros(())
        for place, grade in enumerate(grades):
            items = torch.nonzero(self._pairs.grades == grade).squeeze(1)
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

    def _in_halves(self, boxes: Boxes, kernels: tuple[Kernel, ...], factor: Tensor | None, descending: bool) -> Tensor:
        """Return what `_in_order` returns; each step sums over the earlier items of groups of items."""
        order, halves = grade_halves(self._pairs.grades, self._pairs.lists, descending=descending)
        scores, grades = self._scores[order], self._pairs.grades[order]
        weight = torch.ones_like(grades) if factor is None else factor[order].to(grades)
        weights = torch.stack([weight, weight * grades])[: 1 + (self._pairs.weight == "difference")]
        sums = torch.zeros(len(kernels), len(grades), dtype=torch.float64, device=grades.device)
        for groups, late in halves:
            earlier = weights * ~late
            if not may_read(late):
                of_groups = Boxes(scores, groups, self._temperature, boxes.order)
                moments, at = of_groups.moments(tuple(earlier), of_groups.points()), of_groups.points()
                parts = torch.stack([of_groups.at(at, kernel, moments).T for kernel in kernels])
                over = parts[:, 0] if len(weights) == 1 else grades * parts[:, 0] - parts[:, 1]
                sums += torch.where(late, -over if descending and len(weights) > 1 else over, 0.0)
                continue
            targets = torch.nonzero(late).squeeze(1)
            many = groups.spread(groups.sum(late.to(torch.float64)) > PAIRS_PER_ITEM).index_select(0, targets)
            parts = grades.new_empty(len(kernels), len(weights), len(targets))
            few = targets[~many]
            direct = PairSums(scores, groups, few, self._temperature)
            parts[:, :, ~many] = torch.stack([direct.sums(kernel, tuple(earlier)).T for kernel in kernels])
            if len(few) < len(targets):
                of_groups = Boxes(scores, groups, self._temperature, boxes.order)
                moments, at = of_groups.moments(tuple(earlier), of_groups.points()), of_groups.points(targets[many])
                parts[:, :, many] = torch.stack([of_groups.at(at, kernel, moments).T for kernel in kernels])
            over = parts[:, 0] if len(weights) == 1 else grades[late] * parts[:, 0] - parts[:, 1]
            sums[:, late] += -over if descending and len(weights) > 1 else over
        return torch.empty_like(sums).index_copy_(1, order, sums)


def grade_halves(
    grades: Tensor, lists: Lists, *, descending: bool = False
) -> tuple[Tensor, Iterator[tuple[Lists, Tensor]]]:
    """Return the items of each list in ascending order of grade, and steps that together meet each pair once.

    A step has groups of these items and a mask of late ones, `(n_items,)`: a late item pairs with every other of its
    group. The first bit in which the places of two grades, among the list's distinct ones, differ is 0 in the earlier
    one. Items that agree in all bits before it are a group, and each pair is in one group of one bit.
    """
    blocks = tie_blocks(grades, lists)
    place = blocks.lists.position
    if not descending:
        place = blocks.lists.spread(blocks.lists.sizes) - 1 - place
    place = torch.empty_like(blocks.block).index_copy_(0, blocks.order, place.index_select(0, blocks.block))
    highest = lists.longest - 1 if blocks.vacant else int(place.max()) if len(place) else 0
    bits = max(highest, 0).bit_length()
    key = lists.segment * 2**bits + place
    order = torch.argsort(key)
    key = key.index_select(0, order)

    def steps() -> Iterator[tuple[Lists, Tensor]]:
        for bit in range(bits):
            group = key >> (bit + 1)
            if blocks.vacant:
                sizes = blocks_of(order, block_starts(group, lists), lists).size
            else:
                sizes = torch.unique_consecutive(group, return_counts=True)[1]
            yield Lists._of_sizes(sizes, len(key), lists.longest if blocks.vacant else None), (key >> bit) % 2 == 1

    return order, steps()
