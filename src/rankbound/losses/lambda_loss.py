"""LambdaRank and LambdaLoss: logistic losses of pairs, weighted by the effect of their order on a metric."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.interpolation import sigmoid_slope, softplus
from rankbound.kernels import NO_CURVATURE, Array, Kernel, usable, with_numbers
from rankbound.lists import Lists
from rankbound.losses._smooth_kernel import smooth_formula_of
from rankbound.losses.base import RankingLoss
from rankbound.losses.gain_pairs import Pairs, pairs_by_gain, pairs_with_all
from rankbound.losses.swap_weights import SwapWeights, discounts
from rankbound.metrics import Metric, metric
from rankbound.metrics.additive import AdditiveMetric
from rankbound.metrics.cumulative_gain import largest_grade
from rankbound.smooth_ranks import require_temperature
from rankbound.texts import require_one_of

SCHEMES = ("lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++")

Weighted = Iterable[tuple[Pairs, Tensor]]
"""Pairs in chunks, each with its weights."""


class SwapLoss(RankingLoss):
    r"""A sum over pairs, $\sum_{ij} w_{ij} \log(1 + e^{-(s_i - s_j)/\tau})$, with weights from the current ranks.

    The weights are constants: no gradient flows through them. The time is proportional to the number of pairs of
    different gain; the memory is not. The loss is 0 for a list in which no swap changes the metric. Weights of items
    multiply the metric's gains (`Metric.weighted`), and thereby decide which item of a pair should win.
    """

    def __init__(self, of: str | Metric, temperature: float) -> None:
        super().__init__()
        require_temperature(temperature)
        self.temperature = temperature
        self._of = _additive(of)
        self.metric = str(self._of)

    @abstractmethod
    def weighted_pairs(self, weights: SwapWeights, relevance: Tensor, lists: Lists) -> Weighted:
        """Return the pairs of the loss with their weights, in chunks."""

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        losses, slopes = torch.zeros(2, lists.n_items, dtype=torch.float64, device=scores.device)
        with torch.no_grad():
            for pairs, weight, gap in self._pairs(scores, relevance, lists):
                losses.index_add_(0, pairs.winner, (weight * softplus(gap)).to(losses))
                slope = (weight * torch.sigmoid(gap) / self.temperature).to(slopes)
                slopes.index_add_(0, pairs.loser, slope).index_add_(0, pairs.winner, slope, alpha=-1)

        def hessian_product(direction: Tensor) -> Tensor:
            product = torch.zeros_like(slopes)
            for pairs, bend in self._bends(scores.detach(), relevance, lists):
                gap = direction.index_select(0, pairs.loser) - direction.index_select(0, pairs.winner)
                pull = bend * gap
                product.index_add_(0, pairs.loser, pull).index_add_(0, pairs.winner, pull, alpha=-1)
            return product

        return with_gradient(scores, lists.sum(losses).to(scores), slopes.to(scores), lists, hessian_product)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        return self.of_lists(scores, self._of.weighted(relevance, weights), lists)

    @torch.no_grad()
    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        fused = self._fused_derivatives(scores, relevance, lists)
        if fused is not None:
            return fused[1]
        curvature = torch.zeros_like(scores, dtype=torch.float64)
        for pairs, bend in self._bends(scores, relevance, lists):
            curvature.index_add_(0, pairs.loser, bend).index_add_(0, pairs.winner, bend)
        return curvature.to(scores)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with two different gains and two different discounts (0 beyond the cut-off)."""
        gains = self._of.gains(relevance).to(torch.float64)
        table = discounts(self._of, max(lists.sizes.tolist(), default=0) + 1, lists.device)
        # Discounts are monotonic: two differ if and only if the first and the last differ.
        last = table.index_select(0, (lists.sizes - 1).clamp(min=0))
        return (lists.max(gains) > lists.min(gains)) & (last != table[0])

    def _bends(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Weighted:
        """Yield pairs and the second derivatives of their terms by the score difference, float64."""
        for pairs, weight, gap in self._pairs(scores, relevance, lists):
            yield pairs, (weight * sigmoid_slope(gap) / self.temperature**2).to(torch.float64)

    def _pairs(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Iterator[tuple[Pairs, Tensor, Tensor]]:
        """Yield pairs, their weights, and the loser's score minus the winner's in units of the temperature."""
        weights = SwapWeights(self._of, scores, relevance, lists)
        for pairs, weight in self.weighted_pairs(weights, relevance, lists):
            gap = scores.index_select(0, pairs.loser) - scores.index_select(0, pairs.winner)
            yield pairs, weight, gap if self.temperature == 1 else gap / self.temperature


class LambdaRankLoss(SwapLoss):
    r"""LambdaRank (Burges 2010): pairs weighted by the change in the metric when the two items swap ranks.

    $$L = \sum_{g_i > g_j} \left|\Delta M_{ij}\right| \log\left(1 + e^{-(s_i - s_j)/\tau}\right), \qquad
      \left|\Delta M_{ij}\right| = \frac{|g_i - g_j|\, |d(R_i) - d(R_j)|}{Z}$$

    at the current ranks $R$, averaged over the orders of tied scores (`rankbound.losses.swap_weights`). The gradient is
    the sum of Burges's lambdas with his $\sigma = 1/\tau$. Pairs entirely below a cut-off are skipped.

    Args:
        metric: an additive metric or its text, such as `nDCG`, `nDCG(gain=linear)@10`, `RBP(p=0.8)`.
        temperature: $\tau$, in units of the scores.

    Raises:
        ValueError: for a metric that isn't additive, or a temperature that isn't above 0.

    >>> rb.loss("LambdaRank(metric=nDCG@10)")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([0.4041])
    """

    name = "LambdaRank"

    def __init__(self, *, metric: str | Metric = "nDCG", temperature: float = 1.0) -> None:
        super().__init__(metric, temperature)

    def weighted_pairs(self, weights: SwapWeights, relevance: Tensor, lists: Lists) -> Weighted:
        for pairs in _pairs_with_a_discount(weights, lists):
            yield pairs, weights.lambdarank(pairs)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        return self._curved_kernel(dtype, NO_CURVATURE)

    def _curved_kernel(self, dtype: torch.dtype, curvature: Array) -> Kernel | None:
        formula = smooth_formula_of(self._of)
        if formula is None or not usable():
            return None
        from rankbound.kernels.pairwise import lambdarank

        largest = largest_grade(torch.promote_types(dtype, torch.float32))
        return with_numbers(lambdarank, formula.numbers, float(largest), float(self.temperature), curvature)


class LambdaLoss(SwapLoss):
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
        """Return a mask of the informative lists; for `ndcg-loss1`, those with a gain above 0 and two items or more."""
        if self.scheme != "ndcg-loss1":
            return super().informative(relevance, lists)
        return (lists.max(self._of.gains(relevance).to(torch.float64)) > 0) & (lists.sizes > 1)


def _pairs_with_a_discount(weights: SwapWeights, lists: Lists) -> Iterator[Pairs]:
    """Yield the pairs of different gain in which a discount is above 0; about kN pairs with a cut-off k."""
    counts = weights.discount > 0
    yield from pairs_by_gain(weights.gains, lists, winners=counts)
    if not bool(counts.all()):
        yield from pairs_by_gain(weights.gains, lists, winners=~counts, losers=counts)


def _additive(of: str | Metric) -> AdditiveMetric:
    parsed = metric(of)
    if not isinstance(parsed, AdditiveMetric):
        raise ValueError(
            f"metric: found {parsed}, expected one that adds up over items, such as nDCG@10, DCG or RBP(p=0.8)"
        )
    return parsed
