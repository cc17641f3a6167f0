"""ListNet: the chances that the items come first, by their scores, against the same by their relevance."""

from math import log, log10, perm

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss
from rankbound.losses.listwise import CrossEntropyLoss
from rankbound.losses.log_sums import at_least_single, log_softmax

# About 100 MB of a training step.
MOST_PERMUTATIONS = 1_000_000


def n_top_k_permutations(m: int, k: int) -> int:
    """In how many ways the first `k` of `m` items can be filled: m!/(m-k)! (Murphy, before eq. 9.125); m! for k > m."""
    return perm(m, min(k, m))


class ListNetLoss(CrossEntropyLoss):
    r"""Cross-entropy of two distributions over top-k permutations (Cao et al. 2007; Murphy, before eq. 9.125).

    $$L = -\sum_\pi P_y(\pi) \log P_s(\pi), \qquad
      P_s(\pi) = \prod_{t=1}^{k} \frac{e^{s_{\pi(t)}}}{\sum_{j \notin \{\pi(1), \dots, \pi(t-1)\}} e^{s_j}}$$

    over the $m!/(m-k)!$ ways to fill the first $k$ ranks, $P_y$ alike from the relevance in place of scores. With
    $k = 1$ both are softmaxes and the time is linear. Larger $k$ goes through all permutations: it is for short lists.

    Args:
        cutoff: k.

    Raises:
        ValueError: for k below 1, and when called with lists of more than a million permutations in all.
    """

    name = "ListNet"

    def __init__(self, *, cutoff: int = 1) -> None:
        super().__init__()
        if cutoff < 1:
            raise ValueError(f"cutoff: found {cutoff}, expected at least 1")
        self.cutoff = cutoff

    def targets(self, relevance: Tensor, lists: Lists) -> Tensor:
        """The target of the first rank: the softmax of the relevance."""
        chances = log_softmax(relevance.to(torch.float64), lists).exp()
        return torch.where(lists.spread(self.informative(relevance, lists)), chances, 0.0)

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        if self.cutoff == 1:
            return super().of_lists(scores, relevance, lists)
        self._require_few_permutations(lists)
        # In double precision: a million small terms make one sum.
        exact, relevance = scores.to(torch.float64), relevance.to(torch.float64)
        informative = self.informative(relevance, lists)
        first = torch.arange(lists.n_items, device=lists.device)
        losses = exact.new_zeros(len(lists))
        # Each row is a way to fill the ranks so far, `chance` the target's; rows that differ in the last rank only are
        # siblings, and share the items that are left.
        rows, owner, siblings, chance = first[:, None], lists.segment, lists, lists.spread(informative.double())
        for rank in range(self.cutoff):
            last = rows[:, rank]
            chance = chance * log_softmax(relevance.index_select(0, last), siblings).exp()
            log_chance = log_softmax(exact.index_select(0, last), siblings)
            losses = losses.index_add(0, owner, -chance * log_chance)
            if rank + 1 < self.cutoff:
                rows, parent, siblings = _with_one_more(rows, owner, lists)
                owner, chance = owner.index_select(0, parent), chance.index_select(0, parent)
        return losses.to(at_least_single(scores))

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        if self.cutoff == 1:
            return super().curvature(scores, relevance, lists)
        return RankingLoss.curvature(self, scores, relevance, lists)

    def _require_few_permutations(self, lists: Lists) -> None:
        n = lists.sizes.to(torch.float64)
        # In logarithms, for the count of a long list has millions of digits.
        log_ways = torch.lgamma(n + 1) - torch.lgamma((n - self.cutoff).clamp(min=0) + 1)
        power = float(log_ways.logsumexp(0)) / log(10) if len(n) else 0.0
        if power > log10(MOST_PERMUTATIONS) + 1e-9:
            raise ValueError(
                f"cutoff: found {self.cutoff} for lists of up to {int(n.max())} items, which have 10^{power:.1f} top-k "
                f"permutations in all, expected at most {MOST_PERMUTATIONS:,}; ListNet@1 takes lists of any length"
            )


def _with_one_more(rows: Tensor, owner: Tensor, lists: Lists) -> tuple[Tensor, Tensor, Lists]:
    """Each row with each item of its list that it has not yet: the new rows, the old row of each, and the siblings."""
    sizes = lists.sizes.index_select(0, owner)
    every = Lists(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
    item = every.position + every.spread(lists.offsets.index_select(0, owner))
    longer = torch.cat([rows.index_select(0, every.segment), item[:, None]], 1)
    unused = (longer[:, :-1] != item[:, None]).all(1)
    # Of the same class as `lists`, which may be one whose sums can be differentiated twice.
    return longer[unused], every.segment[unused], type(lists)(every.keep(unused).offsets)
