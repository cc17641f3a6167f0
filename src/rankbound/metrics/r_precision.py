"""R-precision."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Thresholded, ratio
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class RPrecision(Thresholded):
    r"""R-precision (Buckley and Voorhees, Retrieval System Evaluation, 2005): the precision at rank P.

    $$\mathrm{Rprec} = \frac{1}{P} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le P\}\right|$$

    with P the number of relevant items (in a run's evaluation, those that it lacks included). It equals the recall at
    rank P. NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1.

    >>> rb.metric("Rprec")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "Rprec"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance).to(ranks.position)
        p = lists.sum(relevant)
        return ratio(lists.sum(relevant * ranks.within(lists.spread(p))), p)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        inside = blocks.sum(self.relevant(relevance).to(torch.float64))
        p = blocks.lists.sum(inside)
        places = torch.minimum(blocks.size, (blocks.lists.spread(p) - blocks.first + 1).clamp(min=0))
        return ratio(blocks.lists.sum(inside * places / blocks.size), p)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        fewest, count = (2 * p - n).clamp(min=0).to(torch.float64), p.to(torch.float64)
        return ratio(fewest, p), ratio(count, p)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        return torch.where(p == 0, torch.nan, p.to(torch.float64) / n)
