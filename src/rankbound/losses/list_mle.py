"""ListMLE: the likelihood of the order by relevance under a Plackett-Luce model of the scores."""

import torch
from torch import Tensor

from rankbound.gradients import with_gradient
from rankbound.kernels import Kernel, usable, with_numbers
from rankbound.lists import Lists
from rankbound.losses.item_sums import ItemSum
from rankbound.losses.log_sums import log_sum_exp, log_sum_exp_from
from rankbound.ranks import TieBlocks, tie_blocks


class ListMLELoss(ItemSum):
    r"""ListMLE (Xia et al., ICML 2008): negative log-likelihood of the order by relevance in the Plackett-Luce model.

    $$L = \sum_i w_i \left( \log \sum_{j: y_j \le y_i} e^{s_j} - s_i \right)$$

    Items of one grade aren't ordered among themselves: each is drawn from all items of its grade and below, which is
    Breslow's (1974) treatment of ties. The loss therefore doesn't depend on the order of rows; without ties it is the
    published sum. $w_i = 1$ without a cut-off. With a cut-off, only the draws of the first $k$ ranks count: $w_i$ is
    the share of the ranks of the item's grade that lie among the first $k$. Weights of items multiply $w_i$.

    The time is linear in $N$, plus a sort by relevance and $\log_2$(grades) passes over the grades. The loss is 0 for a
    list without relevant items.

    Args:
        cutoff: k; by default all draws count.

    Raises:
        ValueError: for k below 1.

    >>> rb.loss("ListMLE")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([1.2643])
    """

    name = "ListMLE"

    def __init__(self, *, cutoff: int | None = None) -> None:
        super().__init__()
        if cutoff is not None and cutoff < 1:
            raise ValueError(f"cutoff: found {cutoff}, expected at least 1")
        self.cutoff = cutoff

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        with torch.no_grad():
            draws = _Draws(scores, relevance, lists, self.cutoff, self.informative(relevance, lists), weights)
            losses, slopes = draws.losses().to(scores), draws.slopes().to(scores)
        return with_gradient(scores, losses, slopes, lists, draws.hessian_product)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        if not usable():
            return None
        from rankbound.kernels.softmax import list_mle

        return with_numbers(list_mle, self.cutoff or 0)

    @torch.no_grad()
    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        informative = self.informative(relevance, lists)
        draws = _Draws(scores, relevance, lists, self.cutoff, informative)
        return draws.curvature().to(scores)


class _Draws:
    """The draws of all items of each grade from the remaining items, whose log-sum is `_left`, per block of a grade.

    Computed in double precision, which preserves the difference between two items with scores far below a third.
    """

    def __init__(
        self,
        scores: Tensor,
        relevance: Tensor,
        lists: Lists,
        cutoff: int | None,
        informative: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        self._blocks, self._lists = _grades(relevance, lists), lists
        self._scores = scores.to(torch.float64).index_select(0, self._blocks.order)
        self._within = Lists.of_sizes(self._blocks.size)
        self._left = log_sum_exp_from(log_sum_exp(self._scores, self._within), self._blocks.lists)
        share = _share_of_ranks(self._blocks, cutoff) * self._blocks.lists.spread(informative)
        self._share, total = share.index_select(0, self._blocks.block), share * self._blocks.size
        if weights is not None:
            self._share = self._share * weights.to(share).index_select(0, self._blocks.order)
            total = self._within.sum(self._share)
        self._log_weight = total.log()

    def losses(self) -> Tensor:
        left = self._left.index_select(0, self._blocks.block)
        return self._lists.sum(self._share * (left - self._scores))

    def slopes(self) -> Tensor:
        """Return the expected number of draws of each item minus the actual number."""
        drawn = (self._scores + self._log_sum_to(self._log_weight - self._left)).exp()
        return self._in_order_of_rows(drawn - self._share)

    def curvature(self) -> Tensor:
        """Return the variance of the number of draws of each item: the sum of p(1 - p) over the draws it can be in."""
        drawn = (self._scores + self._log_sum_to(self._log_weight - self._left)).exp()
        twice = (2 * self._scores + self._log_sum_to(self._log_weight - 2 * self._left)).exp()
        return self._in_order_of_rows((drawn - twice).clamp(min=0))

    def hessian_product(self, direction: Tensor) -> Tensor:
        """Return, for each item, the sum over its draws of weight times p times (direction minus its mean)."""
        # The Hessian maps equal numbers to 0. Above the list's lowest, all have logarithms.
        exact = direction.to(torch.float64)
        height = (exact - self._lists.spread(self._lists.min(exact))).index_select(0, self._blocks.order)
        weighted = log_sum_exp(self._scores + height.log(), self._within)
        log_mean = log_sum_exp_from(weighted, self._blocks.lists) - self._left
        drawn = (self._scores + self._log_sum_to(self._log_weight - self._left)).exp()
        expected = (self._scores + self._log_sum_to(self._log_weight - self._left + log_mean)).exp()
        return self._in_order_of_rows(height * drawn - expected)

    def _log_sum_to(self, values: Tensor) -> Tensor:
        """Return the log-sum of the blocks' `values` from the highest grade to each item's own, in sorted order."""
        turned = values.flip(0)
        sizes = self._blocks.lists.sizes.flip(0)
        sums = log_sum_exp_from(turned, Lists.of_sizes(sizes))
        return sums.flip(0).index_select(0, self._blocks.block)

    def _in_order_of_rows(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).index_copy_(0, self._blocks.order, values)


def _grades(relevance: Tensor, lists: Lists) -> TieBlocks:
    """Return the items of each list in descending order of relevance, in blocks of equal relevance."""
    # Small integers are exact in single precision, which sorts fastest.
    small = relevance.dtype in (torch.bool, torch.int8, torch.uint8, torch.int16)
    return tie_blocks(relevance.to(torch.float32) if small else relevance, lists)


def _share_of_ranks(blocks: TieBlocks, cutoff: int | None) -> Tensor:
    """Return the share of each block's ranks that lie within the cut-off, `(n_blocks,)`."""
    if cutoff is None:
        return torch.ones(len(blocks.size), dtype=torch.float64, device=blocks.size.device)
    return (cutoff + 1 - blocks.first).clamp(min=0).minimum(blocks.size) / blocks.size.to(torch.float64)
