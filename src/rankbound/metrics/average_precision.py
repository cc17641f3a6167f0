"""Average precision."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Formula
from rankbound.lists import Lists
from rankbound.metrics.base import Thresholded, ratio
from rankbound.metrics.harmonic import harmonic_difference, mean_worst_share
from rankbound.ranks import Ranks, TieBlocks


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
