r"""The weights of LambdaRank and LambdaLoss: the change in a metric when two items swap their current ranks.

Weights are averaged over the orders of tied items. They therefore don't depend on the order of rows, and are positive
at a start with equal scores, where differences of mean discounts would all be 0. For two items of one block, the weight
uses the mean of $|d_a - d_b|$ over pairs of its ranks; for items of two blocks, whose ranks don't interleave, the
difference of the blocks' mean discounts.
"""

from functools import cached_property

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.losses.gain_pairs import Pairs
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.ranks import Ranks, tie_blocks


def discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    """Return the discounts of the ranks 1 .. `size`, 0 beyond the cut-off, float64."""
    position = torch.arange(1, size + 1, dtype=torch.float64, device=device)
    within = Ranks(position, position.new_tensor([size])).within(getattr(metric, "cutoff", None))
    return metric.discount_at(position) * within


class SwapWeights:
    """Weights of pairs at the current ranks, in the scores' dtype; a pair's winner has the higher gain."""

    def __init__(self, metric: AdditiveMetric, scores: Tensor, relevance: Tensor, lists: Lists) -> None:
        metric.require_gains_that_fit(relevance, scores.dtype)
        gains, normaliser = metric.gains(relevance).to(torch.float64), metric.normaliser(relevance, lists)
        # Weights are 0 in lists for which the metric is undefined.
        share = torch.where(normaliser > 0, 1 / normaliser, 0.0).to(torch.float64)
        self.gains = (gains * lists.spread(share)).to(scores)
        self._table = discounts(metric, int(lists.sizes.max()) if len(lists) else 0, lists.device)
        self._blocks, self._lists, self._dtype = tie_blocks(scores, lists), lists, scores.dtype

    @cached_property
    def discount(self) -> Tensor:
        """The mean discount of each item's block, `(n_items,)`."""
        ranked = self._ranked.sum(self._ranked_discount) / self._blocks.size
        return ranked.to(self._dtype).index_select(0, self._block)

    def lambdarank(self, pairs: Pairs) -> Tensor:
        r"""Return $(g_i - g_j)\,|d(R_i) - d(R_j)| / Z$ (Burges 2010)."""
        gap = _difference(self.discount, pairs).abs()
        if self._blocks.has_ties:
            block, other = self._blocks_of(pairs)
            gap = torch.where(block == other, self._mean_gap_inside.index_select(0, block), gap)
        return _difference(self.gains, pairs) * gap

    def loss1(self, pairs: Pairs) -> Tensor:
        r"""Return $g_i\, d(R_i) / Z$."""
        return (self.gains * self.discount).index_select(0, pairs.winner)

    def loss2(self, pairs: Pairs) -> Tensor:
        r"""Return $(g_i - g_j)\,\delta_{|R_i - R_j|} / Z$ with $\delta_q = |d(q) - d(q + 1)|$."""
        block, other = self._blocks_of(pairs)
        if self._blocks.has_ties:
            delta = self._mean_delta(torch.minimum(block, other), torch.maximum(block, other)).to(self._dtype)
        else:
            delta = self._delta.index_select(0, (block - other).abs() - 1)
        return _difference(self.gains, pairs) * delta

    def _mean_delta(self, upper: Tensor, lower: Tensor) -> Tensor:
        r"""Return the mean of $\delta$ over the possible ranks of two items of two blocks, or of one.

        It is a second difference of the running totals $D(r) = d(1) + \dots + d(r)$: for two blocks of $n$ and $m$
        ranks whose first ranks are $x$ apart, $(D(x) - D(x-n) - D(x+m) + D(x+m-n)) / nm$; for the pairs of one block,
        $2 (n\,d(1) - D(n)) / n(n-1)$.
        """
        first, size = self._blocks.first, self._blocks.size
        same = upper == lower
        n, m = size.index_select(0, upper), torch.where(same, 0, size.index_select(0, lower))
        x = torch.where(same, n, first.index_select(0, lower) - first.index_select(0, upper))
        total = torch.cat([self._table.new_zeros(1), self._table.cumsum(0)])
        between = (total[x] - total[x - n] - total[x + m] + total[x + m - n]) / (n * m.clamp(min=1))
        inside = 2 * (n * total[1] - total[n]) / (n * (n - 1)).clamp(min=1)
        return torch.where(same, inside, between).abs()

    def _blocks_of(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        return self._block.index_select(0, pairs.winner), self._block.index_select(0, pairs.loser)

    @cached_property
    def _block(self) -> Tensor:
        """The block of each item, in the items' original order; a list's blocks are numbered from the top."""
        return torch.empty_like(self._blocks.block).index_copy_(0, self._blocks.order, self._blocks.block)

    @cached_property
    def _ranked(self) -> Lists:
        """The blocks as lists of the sorted items."""
        return Lists.of_sizes(self._blocks.size)

    @cached_property
    def _ranked_discount(self) -> Tensor:
        return self._table.index_select(0, self._lists.position)

    @cached_property
    def _mean_gap_inside(self) -> Tensor:
        """The mean difference of two discounts of a block: each counts +1 per rank below it and -1 per rank above."""
        size = self._blocks.size
        sign = self._ranked.spread(size) - 1 - 2 * self._ranked.position
        total = self._ranked.sum(sign * self._ranked_discount)
        return (2 * total / (size * (size - 1)).clamp(min=1)).abs().to(self._dtype)

    @cached_property
    def _delta(self) -> Tensor:
        r"""The values of $\delta_q$ for q = 1, 2, ..."""
        return self._table.diff().abs().to(self._dtype)


def _difference(values: Tensor, pairs: Pairs) -> Tensor:
    return values.index_select(0, pairs.winner) - values.index_select(0, pairs.loser)
