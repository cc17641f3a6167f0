"""Softmax losses: the cross-entropy of the scores' softmax against a target from the relevance."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.kernels import Kernel, usable, with_numbers
from rankbound.kernels.formulas import TARGETS
from rankbound.lists import Lists
from rankbound.losses.item_sums import ItemSum
from rankbound.losses.log_sums import log_softmax, precise_sum
from rankbound.losses.pointwise import GAINS, gains_of
from rankbound.metrics.cumulative_gain import largest_grade
from rankbound.texts import require_one_of


class CrossEntropyLoss(ItemSum):
    r"""Cross-entropy $-\sum_i t_i \log p_i$ of $p = \mathrm{softmax}(s)$ against a target $t$ that sums to 1.

    Time and memory are linear. The loss is 0 for a list without relevant items. Weights of items multiply the target,
    $-\sum_i w_i t_i \log p_i$.
    """

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the target of each item, `(n_items,)`; 0 in uninformative lists."""
        raise NotImplementedError

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        with torch.no_grad():
            targets, log_chances = self.targets(relevance, lists).to(scores), log_softmax(scores, lists)
            total = self.informative(relevance, lists).to(scores)
            if weights is not None:
                targets = targets * weights
                total = precise_sum(targets, lists)
            losses = precise_sum(targets * -log_chances, lists)
            chances, total = log_chances.exp(), lists.spread(total)

        def hessian_product(direction: Tensor) -> Tensor:
            return total * chances * (direction - lists.spread(precise_sum(chances * direction, lists)))

        return with_gradient(scores, losses, total * chances - targets, lists, hessian_product)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        """Return $p_i (1 - p_i)$, which doesn't depend on the target."""
        chance = log_softmax(scores.detach(), lists).exp()
        return torch.where(lists.spread(self.informative(relevance, lists)), chance * (1 - chance), 0.0)


class SoftmaxLoss(CrossEntropyLoss):
    r"""Softmax cross-entropy (Bruch et al., ICTIR 2019).

    $$L = -\sum_i \frac{g(y_i)}{\sum_j g(y_j)} \log \frac{e^{s_i}}{\sum_j e^{s_j}}$$

    Relevant items share the target in proportion to their gains; with one relevant item, it is `multinomial`.

    Args:
        gain: `linear` is $y$, `exp2` is $2^y - 1$.

    Raises:
        ValueError: for an unknown gain.

    >>> rb.loss("softmax")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([0.8846])
    """

    name = "softmax"

    def __init__(self, *, gain: str = "linear") -> None:
        super().__init__()
        require_one_of("gain", gain, GAINS)
        self.gain = gain

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        gains = gains_of(relevance, self.gain, torch.float64, self.text)
        total = lists.sum(gains)
        return gains / lists.spread(torch.where(total > 0, total, 1.0))

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        return cross_entropy_kernel(self.gain)


class MultinomialLoss(CrossEntropyLoss):
    r"""Multinomial logistic loss with one relevant item per list (Murphy 2012, eq. 9.125).

    $$L = -\log p_c, \qquad p_c = \frac{e^{s_c}}{\sum_{c'} e^{s_{c'}}}$$

    with $c$ the relevant item.

    Args:
        rel: the lowest grade that counts as relevant.

    Raises:
        ValueError: when called with a list of two or more relevant items; use `softmax` for these.

    >>> rb.loss("multinomial")(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([1.1513])
    """

    name = "multinomial"

    def __init__(self, *, rel: int = 1) -> None:
        super().__init__()
        self.rel = rel

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = (relevance >= self.rel).to(torch.float64)
        counts = lists.sum(relevant)
        if bool((counts > 1).any()):
            where = int(torch.nonzero(counts > 1)[0, 0])
            raise ValueError(
                f"relevance: found {int(counts[where])} relevant items in list {where}, expected at most one for the "
                f"loss {self.text}; use softmax for several"
            )
        return relevant

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a relevant item."""
        return lists.sum((relevance >= self.rel).to(torch.float64)) > 0

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        return cross_entropy_kernel("one", self.rel) if self.rel >= 1 else None


def cross_entropy_kernel(target: str, rel: float = 0.0) -> Kernel | None:
    """Return the compiled kernel for a target of `rankbound.kernels.TARGETS`."""
    return _with_parameters(target, float(rel)) if usable() else None


@lru_cache(maxsize=256)
def _with_parameters(target: str, rel: float) -> Kernel:
    from rankbound.kernels.softmax import cross_entropy

    largest = float(largest_grade(torch.float64)) if target == "exp2" else math.inf
    return with_numbers(cross_entropy, TARGETS.index(target), rel, largest)
