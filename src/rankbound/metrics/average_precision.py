"""Average precision, and its relatives for incomplete judgements: infAP and bpref."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.fused import formulas
from rankbound.fused.formulas import Formula
from rankbound.lists import Lists
from rankbound.metrics.base import POOLED, Thresholded, Unjudged, ratio
from rankbound.ranks import Ranks, TieBlocks

# The smoothing of Yilmaz and Aslam, as trec_eval has it.
EPSILON = 1e-5

TABLE_SIZE = 32

SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(Thresholded):
    r"""Average precision (thesis eqs. 2.6, 2.8): the mean over the relevant items of the precision at their ranks.

    $$\mathrm{AP@}k = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel},\, R_i \le k} \frac{A_i}{R_i}$$

    with $A_i$ the rank among the relevant items. P is the number of all relevant items at any k, as in trec_eval's
    `map_cut`. NaN without relevant items. In the mean over its orders, a block of $n$ tied items after rank $t$, $m$ of
    them relevant, with $c$ relevant items above adds
    $\frac{m}{n}\sum_{j=1}^{\min(n, k-t)} \frac{c + 1 + (j-1)(m-1)/(n-1)}{t+j}$.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("AP")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.83333333])
    """

    name: ClassVar[str] = "AP"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    cutoff: int | None = None

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        (above,) = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        terms = relevant * (1 + above) / ranks.position
        return ratio(lists.sum(terms * ranks.within(self.cutoff)), lists.sum(relevant))

    def formula(self) -> Formula:
        return Formula(kind=formulas.AP, rel=self.rel, cutoff=self.cutoff)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        terms = self._block_terms(blocks.first - 1, blocks.size, inside, blocks.before(inside))
        return ratio(blocks.lists.sum(terms), blocks.lists.sum(inside))

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the worst order's mean of i/(N-P+i) (thesis eq. 3.4) and the ideal order's 1, or min(P, k)/P at k."""
        reached, best = self._reached(n - p, p), self._reached(torch.zeros_like(p), p)
        lowest = ratio(reached * mean_worst_share(n - p, reached), p)
        return lowest, ratio(best.to(torch.float64), p)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        """Return thesis eq. 3.10 in closed form: the value where all items tie."""
        none = torch.zeros_like(n)
        return ratio(self._block_terms(none, n, p.to(torch.float64), none.to(torch.float64)), p)

    def _reached(self, above: Tensor, size: Tensor) -> Tensor:
        """Return how many of the `size` ranks after rank `above` are within the cut-off."""
        return size if self.cutoff is None else torch.minimum(size, (self.cutoff - above).clamp(min=0))

    def _block_terms(self, above: Tensor, size: Tensor, inside: Tensor, before: Tensor) -> Tensor:
        """Return the terms of blocks: `size` ties, `inside` relevant; `above` items higher up, `before` relevant."""
        reached = self._reached(above, size)
        reciprocals = harmonic_difference(above, reached)
        others = (inside - 1) / (size - 1).clamp(min=1)
        return inside / size * ((before + 1) * reciprocals + others * (reached - (above + 1) * reciprocals))


@dataclass(frozen=True, kw_only=True)
class InferredAveragePrecision(Thresholded):
    r"""Inferred average precision (Yilmaz and Aslam, CIKM 2006), as in trec_eval.

    $$\mathrm{infAP} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}} \frac{1}{R_i}
      \left(1 + D_i\, \frac{A_i + \epsilon}{J_i + 2 \epsilon}\right)$$

    with, among the items above item i, the pooled ones $D_i$, the judged ones $J_i$ and the relevant ones $A_i$, and
    $\epsilon = 10^{-5}$. In the evaluation of a run, items that the qrels hold are pooled, and judged unless their
    relevance is negative; a relevant item that the run lacks adds 0. In a list, all items are pooled and judged, and
    the value is AP but for $\epsilon$. NaN without relevant items. The mean over the orders of tied items is exact for
    up to 200 distinct orders of grades in a list, otherwise the mean over 200 random ones.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("infAP")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3]).round(4)
    array([0.8333])
    """

    name: ClassVar[str] = "infAP"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unjudged: ClassVar[Unjudged] = "marked"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return self.relevant(relevance), relevance >= 0, relevance >= POOLED

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        above, judged, pooled = ranks.above
        relevant = self.relevant(relevance).to(ranks.position)
        precision = (above + EPSILON) / (judged + 2 * EPSILON)
        return ratio(lists.sum(relevant * (1 + pooled * precision) / ranks.position), lists.sum(relevant))


@dataclass(frozen=True, kw_only=True)
class BinaryPreference(Thresholded):
    r"""Binary preference (Buckley and Voorhees, SIGIR 2004), as in trec_eval.

    $$\mathrm{bpref} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}}
      \left(1 - \frac{\min(B_i, P)}{\min(P, N - P)}\right)$$

    with $B_i$ the number of other items above item i; a term is 1 if all N items are relevant. In the evaluation of a
    run, only judged items count, in B as in N; N includes those that the run lacks, and a relevant item that it lacks
    adds 0. NaN without relevant items. In the mean over its orders, each relevant item of a block with q other items
    below c others has 0 to q of them above, each number with probability $1/(q + 1)$.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("Bpref")([0.9, 0.5, 0.3, 0.1], [1, 0, 1, 0], [0, 4])
    array([0.75])
    """

    name: ClassVar[str] = "Bpref"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unjudged: ClassVar[Unjudged] = "left out"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (~self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        most = lists.spread(torch.minimum(p, ranks.sizes - p).clamp(min=1))
        terms = relevant * (1 - ranks.above[0] / most).clamp(min=0)
        return ratio(lists.sum(torch.where(torch.isinf(ranks.position), 0.0, terms)), p)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        p = blocks.lists.sum(inside)
        others = blocks.size - inside
        most = blocks.lists.spread(torch.minimum(p, lists.sizes - p).clamp(min=1))
        terms = inside * _mean_term(most, blocks.before(others), others)
        return ratio(blocks.lists.sum(terms), p)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        undefined = torch.where(p == 0, torch.nan, 0.0).to(torch.float64)
        return undefined + (p == n), undefined + 1

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        most = torch.minimum(p, n - p).clamp(min=1).to(torch.float64)
        mean = _mean_term(most, torch.zeros_like(most), (n - p).to(torch.float64))
        return torch.where(p == 0, torch.nan, mean)


def _mean_term(most: Tensor, above: Tensor, others: Tensor) -> Tensor:
    """Return the mean of max(0, 1 - (above + x) / most) over x = 0 .. others."""
    left = (most - above).clamp(min=0)
    count = torch.minimum(others + 1, left)
    return count * (left - (count - 1) / 2) / most / (others + 1)


def harmonic_difference(start: Tensor, count: Tensor) -> Tensor:
    """Return the sum of 1/(start + j) over j = 1 .. count, for integers from 0, float64."""
    low = _table(start.device).index_select(0, (start + count).clamp(max=TABLE_SIZE))
    low = low - _table(start.device).index_select(0, start.clamp(max=TABLE_SIZE))
    large, beyond = (x.clamp(min=TABLE_SIZE).to(torch.float64) + 0.5 for x in (start, start + count))
    return low + torch.log1p((beyond - large) / large) + _correction(beyond) - _correction(large)


def mean_worst_share(others: Tensor, count: Tensor) -> Tensor:
    r"""Return the mean of i/(others + i) over i = 1 .. count, $1 - \frac{M}{C} (H_{M+C} - H_M)$, float64; 0 if C = 0.

    For M > C the value is near 0, and cancellation is avoided by the form, with $u = C/(M + 1/2)$,
    $\frac{1/2}{M + 1/2} + \frac{M}{C}(u - \ln(1 + u) - c(M + C) + c(M))$.
    """
    m, c = others.to(torch.float64), count.clamp(min=1).to(torch.float64)
    plain = 1 - m / c * harmonic_difference(others, count)
    u = c / (m + 0.5)
    corrections = _correction(m + c + 0.5) - _correction(m + 0.5)
    careful = 0.5 / (m + 0.5) + m / c * (_less_log1p(u.clamp(max=1)) - corrections)
    return torch.where(count == 0, 0.0, torch.where((others >= TABLE_SIZE) & (others > count), careful, plain))


def _less_log1p(u: Tensor) -> Tensor:
    r"""Return $u - \ln(1 + u)$ for 0 <= u <= 1, with $\ln(1 + u) = 2\,\mathrm{artanh}\, z$, $z = u / (2 + u)$."""
    z = u / (2 + u)
    tail = torch.zeros_like(u)
    for odd in range(35, 1, -2):
        tail = (tail + 1 / odd) * z.square()
    return z * (u - 2 * tail)


def _correction(half: Tensor) -> Tensor:
    """Return the series c in 1/half^2, half = x + 1/2."""
    inverse = 1 / half.square()
    total = torch.zeros_like(inverse)
    for coefficient in reversed(SERIES):
        total = (total + coefficient) * inverse
    return total


@lru_cache(maxsize=8)
def _table(device: torch.device) -> Tensor:
    terms = 1 / torch.arange(1, TABLE_SIZE + 1, dtype=torch.float64, device=device)
    return torch.cat([terms.new_zeros(1), terms.cumsum(0)])
