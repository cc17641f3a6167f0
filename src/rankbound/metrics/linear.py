r"""Metrics that are linear in the ranks: the nRBP loss, linear DCG and the multipartite error of Jin and Geng.

The mean over ties only needs the mean rank of each block. With smooth ranks, the metrics are sums of sigmoids over
pairs: $\sum_i y_i \tilde R_i$ is, up to a constant per list, $\sum_{y_i > y_j} (y_i - y_j)\,\sigma(s_j - s_i)$.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Formula
from rankbound.lists import Lists
from rankbound.metrics.base import Metric, Thresholded, ratio
from rankbound.metrics.grade_pairs import is_binary, unequal_pairs
from rankbound.ranks import Ranks, TieBlocks, descending_order

NORMS = ("none", "pairs", "max")


@dataclass(frozen=True, kw_only=True)
class LinearMetric(Metric):
    """A metric that is linear in the ranks; its mean over ties is its value at the mean ranks."""

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        mean_rank = blocks.first + (blocks.size.to(torch.float64) - 1) / 2
        position = torch.empty(len(blocks.order), dtype=torch.float64, device=lists.device)
        position[blocks.order] = mean_rank.index_select(0, blocks.block)
        return self.of_ranks(Ranks(position, lists.sizes), relevance, lists)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        n, p = n.to(torch.float64), p.to(torch.float64)
        top, bottom = (self.of_rank_sums(total, n, p) for total in (p * (p + 1) / 2, p * (2 * n - p + 1) / 2))
        return torch.minimum(top, bottom), torch.maximum(top, bottom)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        n, p = n.to(torch.float64), p.to(torch.float64)
        return self.of_rank_sums(p * (n + 1) / 2, n, p)

    @abstractmethod
    def of_rank_sums(self, total: Tensor, n: Tensor, p: Tensor) -> Tensor:
        """Return the value of lists of `n` items, `p` of them of grade 1, whose ranks sum to `total`."""


@dataclass(frozen=True, kw_only=True)
class RankSum(Thresholded, LinearMetric):
    r"""The nRBP loss (thesis eq. 2.12), a sum of ranks.

    $$\mathrm{nRBP} = \sum_i y_i (R_i - 1) - \frac{P(P-1)}{2}$$

    from 0 (ideal) to $P(N - P)$; lower is better. With hard ranks it is the number of wrongly ordered (relevant, other)
    pairs, the Mann-Whitney U statistic. NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1; $y_i$ is 1 from there, and 0 below.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("nRBP")([0.9, 0.5, 0.1], [0, 0, 1], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "nRBP"
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)
    higher_is_better: ClassVar[bool] = False

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        # Ranks from 0: smaller terms keep more digits of the sum.
        wrong = lists.sum(relevant * (ranks.position - 1)) - p * (p - 1) / 2
        return torch.where(p == 0, torch.nan, wrong)

    def of_rank_sums(self, total: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return torch.where(p == 0, torch.nan, total - p * (p + 1) / 2)

    def formula(self) -> Formula:
        return Formula(kind=formulas.RANK_SUM, rel=self.rel)


@dataclass(frozen=True, kw_only=True)
class LinearDCG(LinearMetric):
    r"""DCG with a linear discount (Jin and Geng, arXiv 2013, eq. 1).

    $$\mathrm{DCG}^\beta = \sum_i y_i (N - R_i)$$

    >>> rb.metric("LinearDCG")([0.9, 0.5, 0.1], [2, 1, 0], [0, 3])
    array([5.])
    """

    name: ClassVar[str] = "LinearDCG"
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.sum(relevance.to(ranks.position) * (lists.spread(ranks.sizes) - ranks.position))

    def of_rank_sums(self, total: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return p * n - total


@dataclass(frozen=True, kw_only=True)
class LinearNDCG(LinearDCG):
    r"""Linear DCG over that of the ideal order (Jin and Geng, arXiv 2013, eq. 1).

    $$\mathrm{NDCG}^\beta = \frac{\sum_i y_i (N - R_i)}{\max_\pi \sum_i y_i (N - \pi_i)}$$

    NaN where the divisor is 0: no relevant item, or N = 1.

    >>> rb.metric("LinearNDCG")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "LinearNDCG"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        return super().informative(relevance, lists) & (lists.sizes > 1)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        total, ideal_ranks = _grade_sums(relevance, lists)
        return ratio(super().of_ranks(ranks, relevance, lists), ranks.sizes * total - ideal_ranks)

    def of_rank_sums(self, total: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return ratio(super().of_rank_sums(total, n, p), p * n - p * (p + 1) / 2)


@dataclass(frozen=True, kw_only=True)
class PairError(LinearMetric):
    r"""Multipartite error (Jin and Geng, arXiv 2013, eqs. 3, 4): wrongly ordered pairs, by their difference of grades.

    $$R = \sum_{y_i > y_j} (y_i - y_j) \left(1[R_i > R_j] + \tfrac12\, 1[R_i = R_j]\right)
        = \sum_i y_i R_i - \min_\pi \sum_i y_i \pi_i$$

    Lower is better; a tied pair counts half. For binary relevance it is the nRBP loss. NaN without relevant items.

    Args:
        norm: the divisor. `none`; `pairs`, the number of pairs of different grade (eq. 3; the result can exceed 1 where
            grades differ by more than 1); `max`, the worst order's error, which gives a share in [0, 1]. NaN where it
            is 0.

    Raises:
        ValueError: for an unknown norm.

    >>> rb.metric("PairError(norm=max)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.25])
    """

    name: ClassVar[str] = "PairError"
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)
    higher_is_better: ClassVar[bool] = False

    norm: str = "none"

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"metric {self.name}: found norm={self.norm}, expected one of {', '.join(NORMS)}")

    def in_range(self, value: Tensor) -> Tensor:
        return super().in_range(value).clamp(max=1.0 if self.norm == "max" else math.inf)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        if self.norm == "none":
            return super().informative(relevance, lists)
        return unequal_pairs(relevance, lists, lists.sizes) > 0

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        total, ideal_ranks = _grade_sums(relevance, lists)
        # Ranks from 0: smaller terms keep more digits of the sum.
        error = lists.sum(relevance.to(ranks.position) * (ranks.position - 1)) - (ideal_ranks - total).to(
            ranks.position
        )
        if self.norm == "pairs":
            return ratio(error, unequal_pairs(relevance, lists, ranks.sizes))
        if self.norm == "max":
            return ratio(error, (ranks.sizes + 1) * total - 2 * ideal_ranks)
        return torch.where(total == 0, torch.nan, error)

    def of_rank_sums(self, total: Tensor, n: Tensor, p: Tensor) -> Tensor:
        error = total - p * (p + 1) / 2
        return torch.where(p == 0, torch.nan, error) if self.norm == "none" else ratio(error, p * (n - p))


def _grade_sums(relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    r"""Return $\sum_i y_i$ and the ideal order's $\sum_i y_i R_i$ of each list."""
    grades = relevance.to(torch.float64)
    total = lists.sum(grades)
    if is_binary(relevance):
        return total, total * (total + 1) / 2
    return total, lists.sum(grades[descending_order(grades, lists)] * (lists.position + 1))
