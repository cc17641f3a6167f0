"""Metrics of the first relevant item: reciprocal rank and hit at k."""

from dataclasses import dataclass

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Floats, Integers
from rankbound.kernels.ties import chance_of_hit, mean_reciprocal_rank
from rankbound.lazy import Lists, Ranks, Tensor, torch
from rankbound.metrics.base import Thresholded


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

    name = "RR"
    formula = formulas.RECIPROCAL_RANK
    cutoff: int | None = None

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        best = lists.max(torch.where(relevant, ranks.within(self.cutoff) / ranks.position, -1.0))
        return torch.where(best >= 0, best, torch.nan)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        last = n - p + 1
        lowest = 1 / last if self.cutoff is None else (last <= self.cutoff) / last
        return np.where(p == 0, np.nan, lowest), np.where(p == 0, np.nan, 1.0)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return np.where(p == 0, np.nan, mean_reciprocal_rank(n, p.clip(1), 0 * n, self.cutoff))


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

    name = "Hit"
    formula = formulas.HIT
    cutoff: int

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        return lists.max(torch.where(self.relevant(relevance), ranks.within(self.cutoff), 0.0)).clamp(min=0)

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        return ((p > 0) & (n - p < self.cutoff)).astype(np.float64), (p > 0).astype(np.float64)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return chance_of_hit(n, p, 0 * n, self.cutoff)
