r"""Pairwise losses: smooth link functions of the score difference of items with different grades.

Sums over all pairs of a list take near-linear time per grade. The losses are the cross-entropies of RankNet and
DirectRanker, which include the logistic surrogate of the multipartite ranking error.
"""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.interpolation import SIGMOID, SIGMOID_SLOPE, SOFTPLUS, TANH_LINK, TANH_LINK_CURVATURE, TANH_LINK_SLOPE
from rankbound.kernels import NO_CURVATURE, Array, Kernel, usable, with_numbers
from rankbound.lists import Lists
from rankbound.losses.item_sums import ItemSum
from rankbound.losses.link_sums import Link, LinkSums
from rankbound.losses.pointwise import REDUCTIONS
from rankbound.losses.preferences import PAIR_WEIGHTS, Preferences
from rankbound.smooth_ranks import require_method
from rankbound.texts import require_one_of


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
        require_one_of("weight", weight, PAIR_WEIGHTS)
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

    def _scale(self, pairs: Preferences) -> Tensor:
        """Return 1/Z of each list."""
        return 1 / pairs.count.clamp(min=1) if self.reduction == "mean" else torch.ones_like(pairs.count)

    @abstractmethod
    def _totals(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return the sum over all pairs of each list, `(n_lists,)`, differentiable."""

    @abstractmethod
    def _curvature(self, scores: Tensor, pairs: Preferences) -> Tensor:
        """Return the second derivative of the sum with respect to each item's score, `(n_items,)`."""


class LinkLoss(PairLoss):
    """A pair loss with a smooth link of `(s_i - s_j) / temperature`; `method` as in `rankbound.smooth_rank`."""

    link: ClassVar[Link]
    unit: ClassVar[float] = 1.0
    """The unit of the kernels' gaps, in temperatures."""

    def __init__(
        self, *, reduction: str = "mean", weight: str = "uniform", temperature: float = 1.0, method: str = "auto"
    ) -> None:
        super().__init__(reduction=reduction, weight=weight)
        require_method(method, temperature)
        self.temperature, self.method = temperature, method

    def _totals(self, scores: Tensor, pairs: Preferences) -> Tensor:
        unit, lists = self.unit * self.temperature, pairs.lists
        sums = LinkSums.of(scores.detach(), pairs, self.link, unit, self.method)
        if not (scores.requires_grad and torch.is_grad_enabled()):
            return lists.sum(sums.losses()).to(scores.dtype)
        losses, gradient = sums.losses_and_gradient()
        return with_gradient(
            scores,
            lists.sum(losses).to(scores.dtype),
            gradient / unit,
            lists,
            lambda direction: sums.hessian_product(direction) / unit**2,
        )

    def _curvature(self, scores: Tensor, pairs: Preferences) -> Tensor:
        unit = self.unit * self.temperature
        return LinkSums.of(scores, pairs, self.link, unit, self.method).curvature() / unit**2


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
    link = Link(SOFTPLUS, SIGMOID, SIGMOID_SLOPE)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        return self._curved_kernel(dtype, NO_CURVATURE)

    def _curved_kernel(self, dtype: torch.dtype, curvature: Array) -> Kernel | None:
        if not usable() or self.method == "interpolated":
            return None
        from rankbound.kernels.pairwise import logistic

        mean, by_difference, always = self.reduction == "mean", self.weight == "difference", self.method == "direct"
        return with_numbers(logistic, float(self.temperature), mean, by_difference, always, curvature)


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
    link = Link(TANH_LINK, TANH_LINK_SLOPE, TANH_LINK_CURVATURE)
    unit = 0.5
