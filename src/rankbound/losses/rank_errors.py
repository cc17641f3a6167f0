"""ADR-MSE: squared errors of smooth ranks, for training on another ranker's order."""

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.losses.item_sums import ItemSum, times
from rankbound.ranks import tie_blocks
from rankbound.smooth_ranks import require_method, smooth_ranks_of


class ADRMSELoss(ItemSum):
    r"""Approximate discounted rank MSE (Schlatt et al. 2024): squared errors of smooth ranks, by discount.

    $$L = \frac1N \sum_i \frac{(\tilde R_i - r_i)^2}{\log_2(r_i + 1)}$$

    $r_i$ is the rank by relevance, the mean of the possible ranks for items of one grade, and $\tilde R_i$ the smooth
    rank by score. Time and memory are linear in $N$, except for a sort by relevance. The loss is 0 for a list whose
    items have one grade.

    Args:
        temperature: $\tau$ of the smooth ranks, in units of the scores.
        method: as in `rankbound.smooth_rank`.

    Raises:
        ValueError: for a temperature that isn't above 0, or an unknown method.

    >>> rb.loss("ADR-MSE")(torch.tensor([9.0, 3.0, -9.0]), [2, 1, 0], [0, 3])
    tensor([3.3174e-06])
    """

    name = "ADR-MSE"

    def __init__(self, *, temperature: float = 1.0, method: str = "auto") -> None:
        super().__init__()
        require_method(method, temperature)
        self.temperature, self.method = temperature, method

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        expected = _mean_ranks(relevance, lists)
        ranks = smooth_ranks_of(scores, lists, (None,), temperature=self.temperature, method=self.method)
        errors = (ranks.squeeze(1) - expected).square() / torch.log2(expected + 1)
        mean = lists.sum(times(errors, weights)) / lists.sizes.clamp(min=1)
        return torch.where(self.informative(relevance, lists), mean, 0.0).to(scores.dtype)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with two items of different grades."""
        grades = relevance.to(torch.float64)
        return lists.max(grades) > lists.min(grades)


def _mean_ranks(relevance: Tensor, lists: Lists) -> Tensor:
    """Return the rank of each item by relevance, the mean over the orders of items of one grade, float64."""
    blocks = tie_blocks(relevance.to(torch.float64), lists)
    middle = blocks.first + (blocks.size - 1) / 2
    ranked = middle.index_select(0, blocks.block).to(torch.float64)
    return torch.empty_like(ranked).index_copy_(0, blocks.order, ranked)
