"""Metrics of the first relevant item: reciprocal rank and hit at k."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Formula
from rankbound.lists import Lists
from rankbound.metrics.base import Thresholded
from rankbound.metrics.places import log_chance_of_none, mean_discount
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank(Thresholded):
    r"""Reciprocal rank of the first relevant item (Murphy 2012, MRR; Voorhees, TREC 1999).

    $$\mathrm{RR@}k = \frac{1[R \le k]}{R}, \qquad R = \min\{R_i : y_i \ge \mathrm{rel}\}$$

    NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k; by default all ranks count. The value is 0 if none of the first k items is relevant.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("RR")([0.9, 0.5, 0.1], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "RR"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    cutoff: int | None = None

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        best = lists.max(torch.where(relevant, ranks.within(self.cutoff) / ranks.position, -1.0))
        return torch.where(best >= 0, best, torch.nan)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        first, inside = _first_blocks(self.relevant(relevance), blocks)
        value = torch.full((len(lists),), torch.nan, dtype=torch.float64, device=lists.device)
        value[blocks.lists.segment[first]] = mean_discount(
            blocks.size[first], inside, torch.ones_like(inside), blocks.first[first] - 1, self.cutoff
        )
        return value

    def formula(self) -> Formula:
        return Formula(kind=formulas.RECIPROCAL_RANK, rel=self.rel, cutoff=self.cutoff)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        last = (n - p + 1).to(torch.float64)
        lowest = 1 / last if self.cutoff is None else (last <= self.cutoff) / last
        return torch.where(p == 0, torch.nan, lowest), torch.where(p == 0, torch.nan, torch.ones_like(lowest))

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        mean = mean_discount(n, p.clamp(min=1), torch.ones_like(n), torch.zeros_like(n), self.cutoff)
        return torch.where(p == 0, torch.nan, mean)


@dataclass(frozen=True, kw_only=True)
class Hit(Thresholded):
    r"""Hit at k, also called success or hit rate (Deshpande and Karypis, TOIS 2004).

    $$\mathrm{Hit@}k = 1[\min\{R_i : y_i \ge \mathrm{rel}\} \le k]$$

    It is 1 if one of the first k items is relevant, otherwise 0. With smooth ranks it is the membership of the best
    relevant item, $\sigma((k + \frac12 - \min \tilde R_i)/\tau)$.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("Hit@2")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([1.])
    """

    name: ClassVar[str] = "Hit"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    cutoff: int

    def formula(self) -> Formula:
        return Formula(kind=formulas.HIT, rel=self.rel, cutoff=self.cutoff)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.max(torch.where(self.relevant(relevance), ranks.within(self.cutoff), 0.0)).clamp(min=0)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        first, inside = _first_blocks(self.relevant(relevance), blocks)
        value = torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        value[blocks.lists.segment[first]] = self._chance(blocks.size[first], inside, blocks.first[first] - 1)
        return value

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        return ((p > 0) & (n - p < self.cutoff)).to(torch.float64), (p > 0).to(torch.float64)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        return self._chance(n, p, torch.zeros_like(n))

    def _chance(self, size: Tensor, relevant: Tensor, above: Tensor) -> Tensor:
        """Return the probability of a hit in a block of `size` items, `relevant` of them relevant, below `above`."""
        places = torch.minimum(size, (self.cutoff - above).clamp(min=0))
        return -torch.expm1(log_chance_of_none(size, relevant, places))


def _first_blocks(relevant: Tensor, blocks: TieBlocks) -> tuple[Tensor, Tensor]:
    """Return the block of the first relevant item of each list that has one, and the block's relevant items."""
    inside = blocks.sum(relevant.to(torch.float64))
    first = torch.nonzero((inside > 0) & (blocks.before(inside) == 0)).squeeze(1)
    return first, inside[first].to(torch.int64)
