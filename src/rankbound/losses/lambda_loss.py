"""LambdaRank and LambdaLoss: the logistic loss of pairs, weighted by what their order matters to a metric."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.kernels import sigmoid_slope, softplus
from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss
from rankbound.losses.gain_pairs import Pairs, pairs_by_gain, pairs_with_all
from rankbound.losses.gradients import with_gradient
from rankbound.losses.log_sums import at_least_single
from rankbound.losses.pointwise import require_one_of
from rankbound.losses.swap_weights import SwapWeights, discounts
from rankbound.metrics import Metric, metric
from rankbound.metrics.additive import AdditiveMetric
from rankbound.texts import text_of

SCHEMES = ("lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++")

Weighted = Iterable[tuple[Pairs, Tensor]]
"""Pairs in chunks, each with its weights."""


class SwapLoss(RankingLoss):
    r"""A weighted sum over pairs, $\sum_{ij} w_{ij} \log(1 + e^{-(s_i - s_j)/\tau})$, $w$ from the current ranks.

    The weights are constants: no gradient passes through them. Time grows with the number of pairs of different gain;
    memory does not. 0 for a list in which no swap changes the metric.
    """

    name: ClassVar[str]

    def __init__(self, of: str | Metric, temperature: float) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature: found {temperature}, expected a number above 0")
        self.temperature = temperature
        self._of = _additive(of)
        self.metric = str(self._of)

    @abstractmethod
    def weighted_pairs(self, weights: SwapWeights, relevance: Tensor, lists: Lists) -> Weighted:
        """The pairs that count, winners first, with their weights."""

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        single = at_least_single(scores)
        losses, slopes = torch.zeros(2, lists.n_items, dtype=torch.float64, device=scores.device)
        with torch.no_grad():
            for pairs, weight, gap in self._pairs(single, relevance, lists):
                losses.index_add_(0, pairs.winner, (weight * softplus(gap)).to(losses))
                slope = (weight * torch.sigmoid(gap) / self.temperature).to(slopes)
                slopes.index_add_(0, pairs.loser, slope).index_add_(0, pairs.winner, slope, alpha=-1)
        return with_gradient(single, lists.sum(losses).to(single), slopes.to(single), lists)

    @torch.no_grad()
    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        single = at_least_single(scores)
        curvature = torch.zeros_like(single, dtype=torch.float64)
        for pairs, weight, gap in self._pairs(single, relevance, lists):
            bend = (weight * sigmoid_slope(gap) / self.temperature**2).to(curvature)
            curvature.index_add_(0, pairs.loser, bend).index_add_(0, pairs.winner, bend)
        return curvature.to(single)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """The lists with two different gains and, up to the cut-off, two different discounts."""
        gains = self._of.gains(relevance).to(torch.float64)
        table = discounts(self._of, max(lists.sizes.tolist(), default=0) + 1, lists.device)
        # Discounts only fall, or only rise: there are two if the first and the last differ.
        last = table.index_select(0, (lists.sizes - 1).clamp(min=0))
        return (lists.max(gains) > lists.min(gains)) & (last != table[0])

    def _pairs(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Iterator[tuple[Pairs, Tensor, Tensor]]:
        """Pairs, their weights, and how far the loser stands above the winner, in temperatures."""
        weights = SwapWeights(self._of, scores, relevance, lists)
        for pairs, weight in self.weighted_pairs(weights, relevance, lists):
            gap = scores.index_select(0, pairs.loser) - scores.index_select(0, pairs.winner)
            yield pairs, weight, gap if self.temperature == 1 else gap / self.temperature

    @property
    def text(self) -> str:
        return text_of(self)

    def extra_repr(self) -> str:
        return self.text


class LambdaRankLoss(SwapLoss):
    r"""LambdaRank (Burges 2010): pairs weighted by how much the metric changes when the two swap ranks.

    $$L = \sum_{g_i > g_j} \left|\Delta M_{ij}\right| \log\left(1 + e^{-(s_i - s_j)/\tau}\right), \qquad
      \left|\Delta M_{ij}\right| = \frac{|g_i - g_j|\, |d(R_i) - d(R_j)|}{Z}$$

    at the current ranks $R$, over tied scores in the mean over their orders (`rankbound.losses.swap_weights`). The
    gradient is the sum of Burges' lambdas, with his $\sigma = 1/\tau$. With a cut-off, pairs that stand below it count
    for nothing and cost nothing.

    Args:
        metric: the text of a metric that adds up over items, such as `nDCG`, `nDCG(gain=linear)@10`, `RBP(p=0.8)`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for another metric, or a temperature that isn't above 0.
    """

    name = "LambdaRank"

    def __init__(self, *, metric: str | Metric = "nDCG", temperature: float = 1.0) -> None:
        super().__init__(metric, temperature)

    def weighted_pairs(self, weights: SwapWeights, relevance: Tensor, lists: Lists) -> Weighted:
        for pairs in _pairs_with_a_discount(weights, lists):
            yield pairs, weights.lambdarank(pairs)


class LambdaLoss(SwapLoss):
    r"""The losses of the LambdaLoss framework (Wang et al. 2018), in natural logarithms (the paper's are to base 2).

    With $g$ the gains over the normaliser, $d$ the discounts and $\delta_q = |d(q) - d(q + 1)|$, the weights of
    $\log(1 + e^{-(s_i - s_j)/\tau})$ are

    - `lambdarank`: $|g_i - g_j|\, |d(R_i) - d(R_j)|$ for $g_i > g_j$, which is `LambdaRank`;
    - `ndcg-loss1`: $g_i\, d(R_i)$ for all $j \ne i$, those with the same or a higher gain too;
    - `ndcg-loss2`: $|g_i - g_j|\, \delta_{|R_i - R_j|}$ for $g_i > g_j$;
    - `ndcg-loss2++`: $|g_i - g_j|\, (|d(R_i) - d(R_j)| + \mu\, \delta_{|R_i - R_j|})$ for $g_i > g_j$.

    A cut-off sets $d$ to 0 beyond it, in $\delta$ too.

    Args:
        metric: the text of a metric that adds up over items; the schemes' bounds were proved for `nDCG`.
        scheme: one of the four above.
        mu: $\mu$ of `ndcg-loss2++`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for another metric or scheme, a temperature that isn't above 0, or $\mu$ below 0.
    """

    name = "LambdaLoss"

    def __init__(
        self,
        *,
        metric: str | Metric = "nDCG",
        scheme: str = "ndcg-loss2++",
        mu: float = 10.0,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(metric, temperature)
        require_one_of("scheme", scheme, SCHEMES)
        if not mu >= 0:
            raise ValueError(f"mu: found {mu}, expected a number from 0")
        self.scheme, self.mu = scheme, mu

    def weighted_pairs(self, weights: SwapWeights, relevance: Tensor, lists: Lists) -> Weighted:
        if self.scheme == "lambdarank":
            for pairs in _pairs_with_a_discount(weights, lists):
                yield pairs, weights.lambdarank(pairs)
        elif self.scheme == "ndcg-loss1":
            for pairs in pairs_with_all(lists, winners=weights.gains * weights.discount > 0):
                yield pairs, weights.loss1(pairs)
        else:
            for pairs in pairs_by_gain(weights.gains, lists):
                weight = weights.loss2(pairs)
                if self.scheme == "ndcg-loss2++":
                    weight = weights.lambdarank(pairs) + self.mu * weight
                yield pairs, weight

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """As for other schemes; `ndcg-loss1`, which compares equals too, needs a gain above 0 and two items."""
        if self.scheme != "ndcg-loss1":
            return super().informative(relevance, lists)
        return (lists.max(self._of.gains(relevance).to(torch.float64)) > 0) & (lists.sizes > 1)


def _pairs_with_a_discount(weights: SwapWeights, lists: Lists) -> Iterator[Pairs]:
    """The pairs of different gain of which one has a discount above 0: with a cut-off k, about kN of all."""
    counts = weights.discount > 0
    yield from pairs_by_gain(weights.gains, lists, winners=counts)
    if not bool(counts.all()):
        yield from pairs_by_gain(weights.gains, lists, winners=~counts, losers=counts)


def _additive(of: str | Metric) -> AdditiveMetric:
    found = metric(of)
    if not isinstance(found, AdditiveMetric):
        raise ValueError(
            f"metric: found {found}, expected one that adds up over items, such as nDCG@10, DCG or RBP(p=0.8)"
        )
    return found
