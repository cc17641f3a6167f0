"""ListNet: the cross-entropy of the top-k distributions of relevance and scores."""

from math import log, log10, perm

import torch
from torch import Tensor

from rankbound.kernels import Kernel
from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss
from rankbound.losses.listwise import CrossEntropyLoss, cross_entropy_kernel
from rankbound.losses.log_sums import log_softmax

# About 100 MB in a training step.
MOST_PERMUTATIONS = 1_000_000


def n_top_k_permutations(m: int, k: int) -> int:
    """Return the number of top-k permutations of `m` items, m!/(m-k)! (Murphy, before eq. 9.125); m! for k > m."""
    return perm(m, min(k, m))


class ListNetLoss(CrossEntropyLoss):
    r"""ListNet (Cao et al., ICML 2007): cross-entropy of two distributions over top-k permutations.

    $$L = -\sum_\pi P_y(\pi) \log P_s(\pi), \qquad
      P_s(\pi) = \prod_{t=1}^{k} \frac{e^{s_{\pi(t)}}}{\sum_{j \notin \{\pi(1), \dots, \pi(t-1)\}} e^{s_j}}$$

    over the $m!/(m-k)!$ ways to fill the first $k$ ranks; $P_y$ is the same with relevance instead of scores. With
    $k = 1$, both are softmaxes (Murphy 2012, before eq. 9.125) and the time is linear. Larger $k$ enumerates all
    permutations and suits short lists only.

    Args:
        cutoff: k.

    Raises:
        ValueError: for k below 1, and when called with lists of more than a million permutations in total.

    >>> rb.loss("ListNet@1")(torch.tensor([0.9, 0.5, 0.1]), [2, 1, 0], [0, 3])
    tensor([0.9212])
    """

    name = "ListNet"

    def __init__(self, *, cutoff: int = 1) -> None:
        super().__init__()
        if cutoff < 1:
            raise ValueError(f"cutoff: found {cutoff}, expected at least 1")
        self.cutoff = cutoff

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the target of the first rank, the softmax of the relevance."""
        chances = log_softmax(relevance.to(torch.float64), lists).exp()
        return torch.where(lists.spread(self.informative(relevance, lists)), chances, 0.0)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        if self.cutoff == 1:
            return super().of_weighted_lists(scores, relevance, lists, weights)
        if weights is not None:
            return RankingLoss.of_weighted_lists(self, scores, relevance, lists, weights)
        self._require_few_permutations(lists)
        # Double precision for sums of up to a million small terms.
        exact, relevance = scores.to(torch.float64), relevance.to(torch.float64)
        informative = self.informative(relevance, lists)
        first = torch.arange(lists.n_items, device=lists.device)
        losses = exact.new_zeros(len(lists))
        # Each row is a way to fill the ranks so far, and `chance` its target probability. Rows that differ only in the
        # last rank are siblings, drawn from the same remaining items.
        rows, owner, siblings, chance = first[:, None], lists.segment, lists, lists.spread(informative.double())
        for rank in range(self.cutoff):
            last = rows[:, rank]
            chance = chance * log_softmax(relevance.index_select(0, last), siblings).exp()
            log_chance = log_softmax(exact.index_select(0, last), siblings)
            losses = losses.index_add(0, owner, -chance * log_chance)
            if rank + 1 < self.cutoff:
                rows, parent, siblings = _with_one_more(rows, owner, lists)
                owner, chance = owner.index_select(0, parent), chance.index_select(0, parent)
        return losses.to(scores)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        return super().curvature(scores, relevance, lists) if self.cutoff == 1 else None

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        return cross_entropy_kernel("softmax") if self.cutoff == 1 else None

    def _require_few_permutations(self, lists: Lists) -> None:
        n = lists.sizes.to(torch.float64)
        # In logarithms, since the number for a long list has millions of digits.
        log_ways = torch.lgamma(n + 1) - torch.lgamma((n - self.cutoff).clamp(min=0) + 1)
        power = float(log_ways.logsumexp(0)) / log(10) if len(n) else 0.0
        if power > log10(MOST_PERMUTATIONS) + 1e-9:
            raise ValueError(
                f"cutoff: found {self.cutoff} for lists of up to {int(n.max())} items, which have 10^{power:.1f} top-k "
                f"permutations in total, expected at most {MOST_PERMUTATIONS:,}; ListNet@1 accepts lists of any length"
            )


def _with_one_more(rows: Tensor, owner: Tensor, lists: Lists) -> tuple[Tensor, Tensor, Lists]:
    """Extend each row by each unused item of its list; return the new rows, their old rows' indices, and siblings."""
    sizes = lists.sizes.index_select(0, owner)
    every = Lists.of_sizes(sizes)
    item = every.position + every.spread(lists.offsets.index_select(0, owner))
    longer = torch.cat([rows.index_select(0, every.segment), item[:, None]], 1)
    unused = (longer[:, :-1] != item[:, None]).all(1)
    return longer[unused], every.segment[unused], every.keep(unused)
