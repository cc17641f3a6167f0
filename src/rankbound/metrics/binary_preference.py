"""Binary preference (bpref), which ignores unjudged items."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Thresholded, Unjudged, ratio
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class BinaryPreference(Thresholded):
    r"""Binary preference (Buckley and Voorhees, SIGIR 2004), as in trec_eval.

    $$\mathrm{bpref} = \frac{1}{P} \sum_{i: y_i \ge \mathrm{rel}}
      \left(1 - \frac{\min(B_i, P)}{\min(P, N - P)}\right)$$

    with $B_i$ the number of other items above item i; a term is 1 if all N items are relevant. In the evaluation of a
    run, only judged items count, in B as in N; N includes those that the run lacks, and a relevant item that it lacks
    adds 0. NaN without relevant items. In the mean over its orders, each relevant item of a block with q other items
    below c others has 0 to q of them above, each number with probability $1/(q + 1)$.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("Bpref")([0.9, 0.5, 0.3, 0.1], [1, 0, 1, 0], [0, 4])
    array([0.75])
    """

    name: ClassVar[str] = "Bpref"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unjudged: ClassVar[Unjudged] = "left out"

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (~self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        most = lists.spread(torch.minimum(p, ranks.sizes - p).clamp(min=1))
        terms = relevant * (1 - ranks.above[0] / most).clamp(min=0)
        return ratio(lists.sum(torch.where(torch.isinf(ranks.position), 0.0, terms)), p)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        p = blocks.lists.sum(inside)
        others = blocks.size - inside
        most = blocks.lists.spread(torch.minimum(p, lists.sizes - p).clamp(min=1))
        terms = inside * _mean_term(most, blocks.before(others), others)
        return ratio(blocks.lists.sum(terms), p)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        undefined = torch.where(p == 0, torch.nan, 0.0).to(torch.float64)
        return undefined + (p == n), undefined + 1

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        most = torch.minimum(p, n - p).clamp(min=1).to(torch.float64)
        mean = _mean_term(most, torch.zeros_like(most), (n - p).to(torch.float64))
        return torch.where(p == 0, torch.nan, mean)


def _mean_term(most: Tensor, above: Tensor, others: Tensor) -> Tensor:
    """Return the mean of max(0, 1 - (above + x) / most) over x = 0 .. others."""
    left = (most - above).clamp(min=0)
    count = torch.minimum(others + 1, left)
    return count * (left - (count - 1) / 2) / most / (others + 1)
