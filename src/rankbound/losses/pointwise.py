r"""Pointwise losses: a function of each item's own score and grade, averaged or summed over the list.

They don't depend on the order, so an item is as informative in a list without relevant items as in any other. Unlike
the other losses, they count every list that has items: excluding lists without relevant items would bias a model
towards overestimating relevance. RankCosine, which ends the file, compares scores with gains, too, but as directions.
"""

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from rankbound.lists import Lists
from rankbound.losses.base import ItemSum, RankingLoss, times
from rankbound.metrics.base import has_numbers
from rankbound.metrics.cumulative_gain import require_gains_that_fit
from rankbound.smooth_ranks import sigmoid_slope, softplus
from rankbound.texts import require, require_one_of

REDUCTIONS = ("mean", "sum")
GAINS = ("linear", "exp2")


class PointwiseLoss(ItemSum):
    """A loss of single items, a function of score and grade; the mean divides by the number of items."""

    def __init__(self, reduction: str) -> None:
        super().__init__()
        require_one_of("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    @abstractmethod
    def of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the loss of each item, `(n_items,)`."""

    @abstractmethod
    def curvature_of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the second derivative of each item's loss with respect to its score, `(n_items,)`."""

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        losses = lists.sum(times(self.of_items(scores, relevance), weights))
        return losses / lists.sizes.clamp(min=1) if self.reduction == "mean" else losses

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        curvature = self.curvature_of_items(scores.detach(), relevance).detach()
        return curvature / lists.spread(lists.sizes) if self.reduction == "mean" else curvature

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists that have items."""
        return lists.sizes > 0


class SquaredLoss(PointwiseLoss):
    """Squared error of the score as an estimate of the gain (Cossock and Zhang, COLT 2006; Li and Wu, sec. 3.2).

    $$L_i = (s_i - g(y_i))^2$$

    Args:
        gain: `linear` is $y$, `exp2` is $2^y - 1$.
        reduction: `mean` or `sum` over the list's items.

    Raises:
        ValueError: for an unknown gain or reduction, and when called with grades whose gains are too large.

    >>> rb.loss("squared")(torch.tensor([0.5, 1.0]), [0, 1], [0, 2])
    tensor([0.1250])
    """

    name = "squared"

    def __init__(self, *, gain: str = "linear", reduction: str = "mean") -> None:
        super().__init__(reduction)
        require_one_of("gain", gain, GAINS)
        self.gain = gain

    def of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        gains = gains_of(relevance, self.gain, scores.dtype, self.text, power=2)
        return (scores - gains.to(scores)).square()

    def curvature_of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return torch.full_like(scores, 2.0)


class LogisticLoss(PointwiseLoss):
    r"""Logistic regression of relevance (Gey, SIGIR 1994; Li and Wu, secs. 3.2, 4.2).

    $$L_i = \log(1 + e^{s_i}) - s_i\, t_i, \qquad t_i = 1[y_i \ge \mathrm{rel}]$$

    is the cross-entropy of $\sigma(s_i)$, the probability that item $i$ is relevant, with $t_i$.

    Args:
        rel: the lowest grade that counts as relevant.
        reduction: `mean` or `sum` over the list's items.

    Raises:
        ValueError: for an unknown reduction.

    >>> rb.loss("logistic")(torch.tensor([0.5, 1.0]), [0, 1], [0, 2])
    tensor([0.6437])
    """

    name = "logistic"

    def __init__(self, *, rel: int = 1, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.rel = rel

    def of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return softplus(torch.where(relevance >= self.rel, -scores, scores))

    def curvature_of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return sigmoid_slope(scores)


class OrdinalLoss(PointwiseLoss):
    r"""Ordinal regression (McCullagh 1980; Rennie and Srebro 2005): a logistic loss per threshold between two grades.

    $$L_i = \sum_{k=1}^{K-1} \log\left(1 + e^{\pm(s_i - \theta_k)}\right)$$

    with minus where $y_i \ge k$ and plus elsewhere: the cross-entropies of $P(y_i \ge k) = \sigma(s_i - \theta_k)$,
    McCullagh's proportional odds model, summed over all thresholds as by Rennie and Srebro. The loss is convex, and
    finite for any score.

    Args:
        grades: $K$, the number of grades 0 .. K-1, at least 2.
        learn: learn the thresholds, instead of fixing them at $\theta_k = k - 1/2$. Learned thresholds start there,
            remain in ascending order and are parameters of the loss: pass `loss.parameters()` to the optimiser as well.
        reduction: `mean` or `sum` over the list's items.

    Raises:
        ValueError: for fewer than 2 grades or an unknown reduction, and when called with grades above $K - 1$.

    >>> rb.loss("ordinal(grades=3)")(torch.tensor([0.5, 1.0]), [0, 2], [0, 2])
    tensor([1.2273])
    """

    name = "ordinal"

    def __init__(self, *, grades: int = 3, learn: bool = False, reduction: str = "mean") -> None:
        super().__init__(reduction)
        require("grades", grades, grades >= 2, "at least 2")
        self.grades, self.learn = grades, learn
        if learn:
            self._first = nn.Parameter(torch.tensor(0.5))
            # The distances are the softplus of these, initially 1.
            self._distances = nn.Parameter(torch.full((grades - 2,), math.log(math.e - 1)))

    @property
    def thresholds(self) -> Tensor:
        """The thresholds between grades, ascending, `(grades - 1,)`."""
        if not self.learn:
            return torch.arange(1, self.grades, device="cpu") - 0.5
        distances = functional.softplus(self._distances).cumsum(0)
        return self._first + torch.cat([distances.new_zeros(1), distances])

    def of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        if has_numbers(relevance) and not float(relevance.max()) <= self.grades - 1:
            raise ValueError(
                f"relevance: found {float(relevance.max()):g}, expected grades up to {self.grades - 1}; "
                f"set their number with {self.name}(grades=...)"
            )
        losses = torch.zeros_like(scores)
        for grade, threshold in enumerate(self.thresholds.to(scores, non_blocking=True), start=1):
            above = scores - threshold
            losses = losses + softplus(torch.where(relevance >= grade, -above, above))
        return losses

    def curvature_of_items(self, scores: Tensor, relevance: Tensor) -> Tensor:
        curvatures = [sigmoid_slope(scores - threshold) for threshold in self.thresholds.to(scores, non_blocking=True)]
        return torch.stack(curvatures).sum(0)


class RankCosineLoss(RankingLoss):
    r"""RankCosine (Qin et al., IP&M 2008): half the distance of the cosine of scores and gains from 1.

    $$L = \frac12 \left(1 - \frac{\sum_i s_i\, g(y_i)}{\sqrt{\sum_i s_i^2}\, \sqrt{\sum_i g(y_i)^2}}\right)$$

    It is from 0 to 1, whatever the scale of the scores and the number of items, but shifting all scores changes it.
    Where all scores are 0, the loss is 1/2, without a gradient. It is 0 for a list without relevant items.

    Args:
        gain: `linear` is $y$, `exp2` is $2^y - 1$.

    Raises:
        ValueError: for an unknown gain, and when called with grades whose gains are too large.

    >>> rb.loss("RankCosine")(torch.tensor([0.5, 1.0]), [0, 1], [0, 2])
    tensor([0.0528])
    """

    name = "RankCosine"

    def __init__(self, *, gain: str = "linear") -> None:
        super().__init__()
        require_one_of("gain", gain, GAINS)
        self.gain = gain

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        gains = gains_of(relevance, self.gain, torch.float64, self.text, power=2)
        # As shares of the largest, squares neither overflow nor vanish.
        top, highest = lists.max(scores.detach().abs()).to(torch.float64), lists.max(gains)
        x = scores / lists.spread(torch.where(top > 0, top, 1.0))
        g = gains / lists.spread(torch.where(highest > 0, highest, 1.0))
        lengths = lists.sum(x.square()) * lists.sum(g.square())
        cosine = lists.sum(x * g) / torch.where(lengths > 0, lengths, 1.0).sqrt()
        return torch.where(self.informative(relevance, lists), (1 - cosine * (top > 0)) / 2, 0.0).to(scores.dtype)


def gains_of(relevance: Tensor, gain: str, dtype: torch.dtype, what: str, power: int = 1) -> Tensor:
    """Return the gain of each item, float64.

    Gains whose `power`, or sums of it, exceed the range of `dtype` raise `ValueError`, which names the loss `what`.
    """
    if gain == "exp2":
        require_gains_that_fit(relevance, dtype, what, power)
    # Shares of the gains of grades in half precision would have three digits.
    grades = relevance.to(torch.float64)
    return torch.exp2(grades) - 1 if gain == "exp2" else grades
