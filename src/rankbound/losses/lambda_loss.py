"""LambdaRank and LambdaLoss: logistic losses of pairs, weighted by the effect of their order on a metric."""

import warnings
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.kernels import Kernel
from rankbound.kernels.formulas import DCG
from rankbound.lists import Lists, may_read
from rankbound.losses.base import RankingLoss
from rankbound.metrics import Metric, metric
from rankbound.metrics.base import formula_of
from rankbound.metrics.cumulative_gain import AdditiveMetric, largest_grade
from rankbound.ranks import Ranks, tie_blocks
from rankbound.smooth_ranks import pair_chunks, require_temperature, sigmoid_slope, softplus
from rankbound.texts import require, require_one_of

# Limits the memory of one chunk, about 20 tensors, to what largely fits the processor's cache.
PAIRS_PER_CHUNK = 1_000_000

# Up to this many pairs of items of a list, of any gain, a GPU is not waited for to learn which ones count.
MOST_UNREAD_PAIRS = 200_000_000

PAIRS_TO_WARN_OF = 100_000_000
"""Pairs that take some 10 seconds."""

# Lists with more pairs are left to the reference, which warns of them.
PAIRS_OF_A_KERNEL = 50_000_000

Pairs = tuple[Tensor, Tensor]
"""Pairs of items of one list: the indices of winners, and those of the losers."""


class AdditiveLoss(RankingLoss):
    """A loss of a metric that adds up over items, whose gains weights of items multiply (`Metric.weighted`)."""

    def __init__(self, of: str | Metric) -> None:
        super().__init__()
        parsed = metric(of)
        if not isinstance(parsed, AdditiveMetric):
            raise ValueError(
                f"metric: found {parsed}, expected one that adds up over items, such as nDCG@10, DCG or RBP(p=0.8)"
            )
        self._of, self.metric = parsed, str(parsed)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        return self.of_lists(scores, self._of.weighted(relevance, weights), lists)


class LambdaRankLoss(AdditiveLoss):
    r"""LambdaRank (Burges 2010): pairs weighted by the change in the metric when the two items swap ranks.

    $$L = \sum_{g_i > g_j} \left|\Delta M_{ij}\right| \log\left(1 + e^{-(s_i - s_j)/\tau}\right), \qquad
    \left|\Delta M_{ij}\right| = \frac{|g_i - g_j|\, |d(R_i) - d(R_j)|}{Z}$$

    at the current ranks $R$, averaged over the orders of tied scores (`SwapWeights`). The gradient is
    the sum of Burges's lambdas with his $\sigma = 1/\tau$. Pairs entirely below a cut-off are skipped.

    The weights are constants: no gradient flows through them. The time is proportional to the number of pairs of
    different gain; the memory is not. The loss is 0 for a list in which no swap changes the metric. Weights of items
    multiply the metric's gains (`Metric.weighted`), and thereby decide which item of a pair should win.

    Args:
        metric: an additive metric or its text, such as `nDCG`, `nDCG(gain=linear)@10`, `RBP(p=0.8)`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for a metric that isn't additive, or a temperature that isn't above 0.

    >>> rb.loss("LambdaRank(metric=nDCG@10)")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([0.4041])
    """

    name = "LambdaRank"
    scheme: ClassVar[str] = "lambdarank"
    """The weights of pairs, as in `LambdaLoss`."""

    def __init__(self, *, metric: str | Metric = "nDCG", temperature: float = 1.0) -> None:
        super().__init__(metric)
        require_temperature(temperature)
        self.temperature = temperature

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        losses, slopes = torch.zeros(2, lists.n_items, dtype=torch.float64, device=scores.device)
        with torch.no_grad():
            for (winner, loser), weight, gap in self._pairs(scores, relevance, lists):
                losses.index_add_(0, winner, (weight * softplus(gap)).to(losses))
                slope = (weight * torch.sigmoid(gap) / self.temperature).to(slopes)
                slopes.index_add_(0, loser, slope).index_add_(0, winner, slope, alpha=-1)

        def hessian_product(direction: Tensor) -> Tensor:
            product = torch.zeros_like(slopes)
            for (winner, loser), weight, gap in self._pairs(scores.detach(), relevance, lists):
                pull = self._bend(weight, gap) * -_difference(direction, (winner, loser))
                product.index_add_(0, loser, pull).index_add_(0, winner, pull, alpha=-1)
            return product

        return with_gradient(scores, lists.sum(losses).to(scores), slopes.to(scores), lists, hessian_product)

    @torch.no_grad()
    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        fused = self._fused_derivatives(scores, relevance, lists)
        if fused is not None:
            return fused[1]
        curvature = torch.zeros_like(scores, dtype=torch.float64)
        for (winner, loser), weight, gap in self._pairs(scores, relevance, lists):
            bend = self._bend(weight, gap)
            curvature.index_add_(0, loser, bend).index_add_(0, winner, bend)
        return curvature.to(scores)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with two different gains and two different discounts (0 beyond the cut-off).

        For `ndcg-loss1`, it is one of the lists with a gain above 0 and two items or more.
        """
        gains = self._of.gains(relevance).to(torch.float64)
        if self.scheme == "ndcg-loss1":
            return (lists.max(gains) > 0) & (lists.sizes > 1)
        table = discounts(self._of, lists.longest + 1, lists.device)
        # Discounts are monotonic: two differ if and only if the first and the last differ.
        last = table.index_select(0, (lists.sizes - 1).clamp(min=0))
        return (lists.max(gains) > lists.min(gains)) & (last != table[0])

    def _pairs(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Iterator[tuple[Pairs, Tensor, Tensor]]:
        """Yield pairs, their weights, and the loser's score minus the winner's in units of the temperature."""
        weights = SwapWeights(self._of, scores, relevance, lists)
        n_pairs = int((np.diff(lists.limits).astype(np.float64) ** 2).sum())
        every = not may_read(scores) and n_pairs <= MOST_UNREAD_PAIRS
        chunks: Iterator[Pairs]
        if every or self.scheme == "ndcg-loss1":
            # Each item with all items of its list, itself too.
            items = torch.arange(lists.n_items, device=lists.device)
            begin, end = (lists.spread(limit) for limit in (lists.offsets[:-1], lists.offsets[1:]))
            if every:
                sizes = np.diff(lists.limits)
                parts = pair_chunks(begin, end, PAIRS_PER_CHUNK, np.repeat(sizes, sizes))
                chunks = ((runs.spread(items[chosen]), place) for chosen, runs, place in parts)
            else:
                winner = torch.nonzero(weights.gains * weights.discount > 0).squeeze(1)
                limits = begin.index_select(0, winner), end.index_select(0, winner)
                chunks = _pair_chunks(items, items, winner, *limits)
        elif self.scheme == "lambdarank":
            # Those in which a discount is above 0: about kN pairs with a cut-off k.
            counts = weights.discount > 0
            chunks = pairs_by_gain(weights.gains, lists, winners=counts)
            if not bool(counts.all()):
                chunks = chain(chunks, pairs_by_gain(weights.gains, lists, winners=~counts, losers=counts))
        else:
            chunks = pairs_by_gain(weights.gains, lists)
        for pairs in chunks:
            gap, weight = _difference(scores, pairs[::-1]), self._weight(weights, pairs)
            if self.scheme == "ndcg-loss1":
                weight = torch.where(pairs[0] != pairs[1], weight, 0.0)
            elif every:
                weight = torch.where(_difference(weights.gains, pairs) > 0, weight, 0.0)
            yield pairs, weight, gap if self.temperature == 1 else gap / self.temperature

    def _weight(self, weights: "SwapWeights", pairs: Pairs) -> Tensor:
        """Return the weights of pairs."""
        return weights.lambdarank(pairs)

    def _bend(self, weight: Tensor, gap: Tensor) -> Tensor:
        """Return the second derivative of pairs' terms by the score difference, float64."""
        return (weight * sigmoid_slope(gap) / self.temperature**2).to(torch.float64)

    _kernel_has_curvature = True

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        formula = formula_of(self._of)
        if formula is None or formula.kind != DCG:
            return None
        from rankbound.kernels.losses import BY_SWAP, logistic

        largest = float(largest_grade(torch.promote_types(dtype, torch.float32)))
        return logistic, BY_SWAP, formula.numbers, largest, float(self.temperature), False, (PAIRS_OF_A_KERNEL, 0)


class LambdaLoss(LambdaRankLoss):
    r"""Losses of the LambdaLoss framework (Wang et al., CIKM 2018), with natural logarithms (base 2 in the paper).

    With $g$ the gains over the normaliser, $d$ the discounts and $\delta_q = |d(q) - d(q + 1)|$, the weights of
    $\log(1 + e^{-(s_i - s_j)/\tau})$ are

    - `lambdarank`: $|g_i - g_j|\, |d(R_i) - d(R_j)|$ for $g_i > g_j$, which is `LambdaRank`;
    - `ndcg-loss1`: $g_i\, d(R_i)$ for all $j \ne i$, including those with the same or a higher gain;
    - `ndcg-loss2`: $|g_i - g_j|\, \delta_{|R_i - R_j|}$ for $g_i > g_j$;
    - `ndcg-loss2++`: $|g_i - g_j|\, (|d(R_i) - d(R_j)| + \mu\, \delta_{|R_i - R_j|})$ for $g_i > g_j$.

    With a cut-off, $d$ is 0 beyond it, also in $\delta$.

    Args:
        metric: an additive metric or its text; the schemes' bounds were proved for `nDCG`.
        scheme: one of the four above.
        mu: $\mu$ of `ndcg-loss2++`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for a metric that isn't additive, an unknown scheme, a temperature that isn't above 0, or
            $\mu < 0$.

    >>> rb.loss("LambdaLoss(scheme=ndcg-loss2)")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([0.5263])
    """

    name = "LambdaLoss"

    def __init__(
        self, *, metric: str | Metric = "nDCG", scheme: str = "ndcg-loss2++", mu: float = 10.0, temperature: float = 1.0
    ) -> None:
        super().__init__(metric=metric, temperature=temperature)
        require_one_of("scheme", scheme, ("lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"))
        require("mu", mu, mu >= 0, "a number from 0")
        self.scheme, self.mu = scheme, mu  # type: ignore[misc]

    def _weight(self, weights: "SwapWeights", pairs: Pairs) -> Tensor:
        if self.scheme == "lambdarank":
            return weights.lambdarank(pairs)
        if self.scheme == "ndcg-loss1":
            # $g_i\, d(R_i) / Z$ of the winner.
            return (weights.gains * weights.discount).index_select(0, pairs[0])
        delta = weights.loss2(pairs)
        return delta if self.scheme == "ndcg-loss2" else weights.lambdarank(pairs) + self.mu * delta


def discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    """Return the discounts of the ranks 1 .. `size`, 0 beyond the cut-off, float64."""
    position = torch.arange(1, size + 1, dtype=torch.float64, device=device)
    within = Ranks(position, position.new_full((1,), size)).within(getattr(metric, "cutoff", None))
    return metric.discount_at(position) * within


class SwapWeights:
    r"""Weights of pairs at the current ranks, in the scores' dtype; a pair's winner has the higher gain.

    They are averaged over the orders of tied items, so that they don't depend on the order of rows, and are positive at
    a start with equal scores, where differences of mean discounts would all be 0. For two items of one block, a weight
    uses the mean of $|d_a - d_b|$ over pairs of its ranks; for items of two blocks, whose ranks don't interleave, the
    difference of the blocks' mean discounts.
    """

    def __init__(self, metric: AdditiveMetric, scores: Tensor, relevance: Tensor, lists: Lists) -> None:
        metric.require_gains_that_fit(relevance, scores.dtype)
        gains, normaliser = metric.gains(relevance).to(torch.float64), metric.normaliser(relevance, lists)
        # Weights are 0 in lists for which the metric is undefined.
        share = torch.where(normaliser > 0, 1 / normaliser, 0.0).to(torch.float64)
        self.gains = (gains * lists.spread(share)).to(scores)
        self._table = discounts(metric, lists.longest, lists.device)
        self._blocks, self._dtype = tie_blocks(scores, lists), scores.dtype
        # The block of each item; a list's blocks are numbered from the top.
        self._block = torch.empty_like(self._blocks.block).index_copy_(0, self._blocks.order, self._blocks.block)
        self._ranked, self._discounts = self._blocks.items, self._table.index_select(0, lists.position)
        means = (self._ranked.sum(self._discounts) / self._blocks.size).to(self._dtype)
        self.discount = means.index_select(0, self._block)
        """The mean discount of each item's block, `(n_items,)`."""

    def lambdarank(self, pairs: Pairs) -> Tensor:
        r"""Return $(g_i - g_j)\,|d(R_i) - d(R_j)| / Z$ (Burges 2010)."""
        gap = _difference(self.discount, pairs).abs()
        if self._blocks.has_ties:
            # The mean difference of two discounts of a block: each counts +1 per rank below it and -1 per rank above.
            size = self._blocks.size
            sign = self._ranked.spread(size) - 1 - 2 * self._ranked.position
            inside = 2 * self._ranked.sum(sign * self._discounts) / (size * (size - 1)).clamp(min=1)
            block, other = (self._block.index_select(0, items) for items in pairs)
            gap = torch.where(block == other, inside.abs().to(self._dtype).index_select(0, block), gap)
        return _difference(self.gains, pairs) * gap

    def loss2(self, pairs: Pairs) -> Tensor:
        r"""Return $(g_i - g_j)\,\delta_{|R_i - R_j|} / Z$ with $\delta_q = |d(q) - d(q + 1)|$.

        The mean of $\delta$ over the possible ranks of two tied items is a second difference of the running totals
        $D(r) = d(1) + \dots + d(r)$: for two blocks of $n$ and $m$ ranks whose first ranks are $x$ apart,
        $(D(x) - D(x-n) - D(x+m) + D(x+m-n)) / nm$; for the pairs of one block, $2 (n\,d(1) - D(n)) / n(n-1)$.
        """
        block, other = (self._block.index_select(0, items) for items in pairs)
        if not self._blocks.has_ties:
            # The values of delta_q for q = 1, 2, ...
            delta = self._table.diff().abs().to(self._dtype).index_select(0, (block - other).abs() - 1)
            return _difference(self.gains, pairs) * delta
        first, size, upper, lower = self._blocks.first, self._blocks.size, block.minimum(other), block.maximum(other)
        same = upper == lower
        n, m = size.index_select(0, upper), torch.where(same, 0, size.index_select(0, lower))
        x = torch.where(same, n, first.index_select(0, lower) - first.index_select(0, upper))
        total = torch.cat([self._table.new_zeros(1), self._table.cumsum(0)])
        between = (total[x] - total[x - n] - total[x + m] + total[x + m - n]) / (n * m.clamp(min=1))
        inside = 2 * (n * total[1] - total[n]) / (n * (n - 1)).clamp(min=1)
        return _difference(self.gains, pairs) * torch.where(same, inside, between).abs().to(self._dtype)


def _difference(values: Tensor, pairs: Pairs) -> Tensor:
    return values.index_select(0, pairs[0]) - values.index_select(0, pairs[1])


def pairs_by_gain(
    gains: Tensor, lists: Lists, *, winners: Tensor | None = None, losers: Tensor | None = None
) -> Iterator[Pairs]:
    """Yield all pairs of a list's items in which the winner's gain is higher, in chunks.

    The boolean masks `winners` and `losers` `(n_items,)` restrict the pairs.
    """
    blocks = tie_blocks(gains, lists)
    # In sorted order, an item wins against all items of its list after its block of equal gains.
    owner = blocks.lists.segment
    ends = lists.offsets.index_select(0, owner) + blocks.first - 1 + blocks.size
    begin = ends.index_select(0, blocks.block)
    end = lists.spread(lists.offsets[1:])
    loser, winner = blocks.order, torch.arange(len(gains), device=gains.device)
    if losers is not None:
        kept = losers.index_select(0, blocks.order)
        before = torch.cat([lists.offsets.new_zeros(1), kept.cumsum(0)])
        loser, begin, end = blocks.order[kept], before.index_select(0, begin), before.index_select(0, end)
    if winners is not None:
        winner = torch.nonzero(winners.index_select(0, blocks.order)).squeeze(1)
    return _pair_chunks(blocks.order, loser, winner, begin.index_select(0, winner), end.index_select(0, winner))


def _pair_chunks(items: Tensor, losers: Tensor, winners: Tensor, begin: Tensor, end: Tensor) -> Iterator[Pairs]:
    """Yield the pairs of each `items[winners[k]]` with `losers[begin[k]:end[k]]`, in chunks."""
    if (total := int((end - begin).sum())) > PAIRS_TO_WARN_OF:
        warnings.warn(
            f"LambdaRank or LambdaLoss: all of {total:,} pairs of items are visited. With a cut-off k, as in "
            "LambdaRank(metric=nDCG@10), there are about k pairs for each item; RankNet takes near-linear time.",
            stacklevel=2,
        )
    for chosen, runs, place in pair_chunks(begin, end, PAIRS_PER_CHUNK):
        yield items.index_select(0, runs.spread(winners[chosen])), losers.index_select(0, place)
