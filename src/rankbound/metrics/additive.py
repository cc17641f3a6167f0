r"""What metrics that are sums over items of gain times discount share: nDCG, DCG, P@k, RBP and more.

$$M = \frac{\sum_i g(y_i)\, d(R_i)}{Z}$$

A sum is as easy with ties as without: a tied item counts with the mean discount of its block's ranks, a difference of
running totals $D(r) = d(1) + \dots + d(r)$. The extremes and the mean over all orders are differences of $D$ as well.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric, ratio
from rankbound.ranks import Ranks, TieBlocks

# Least length of a table of running totals, so that batches of short lists share one.
TABLE_SIZE = 256


@dataclass(frozen=True, kw_only=True)
class AdditiveMetric(Metric):
    """A metric whose items' terms add up. Subclasses say what an item is worth, where, and out of how much."""

    @abstractmethod
    def gains(self, relevance: Tensor) -> Tensor:
        """What each item is worth, from 0, float64 unless the relevance has another floating type."""

    @abstractmethod
    def discount_at(self, position: Tensor) -> Tensor:
        """The weight of each rank; `position` may lie between two ranks."""

    @abstractmethod
    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        """What the sum of each list is divided by; NaN or 0 where the metric is undefined."""

    @abstractmethod
    def binary_normaliser(self, p: Tensor) -> Tensor:
        """The normaliser of lists with `p` relevant items of grade 1."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        terms = self.gains(relevance).to(ranks.position) * self.discount_at(ranks.position)
        if self._cutoff is not None:
            terms = terms * ranks.within(self._cutoff)
        return ratio(lists.sum(terms), self.normaliser(relevance, lists))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        totals = self._running_discounts(int(lists.sizes.max()) if len(lists) else 0, lists.device)
        ends = blocks.first - 1 + blocks.size
        mean_discount = (totals.index_select(0, ends) - totals.index_select(0, blocks.first - 1)) / blocks.size
        gains = blocks.sum(self.gains(relevance).to(torch.float64))
        return ratio(blocks.lists.sum(gains * mean_discount), self.normaliser(relevance, lists))

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        bottom, top = totals.index_select(0, n) - totals.index_select(0, n - p), totals.index_select(0, p)
        values = [ratio(total, self.binary_normaliser(p.to(torch.float64))) for total in (bottom, top)]
        return torch.minimum(*values), torch.maximum(*values)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        return ratio(totals.index_select(0, n) * p / n, self.binary_normaliser(p.to(torch.float64)))

    @property
    def _cutoff(self) -> int | None:
        return getattr(self, "cutoff", None)

    def _running_discounts(self, size: int, device: torch.device) -> Tensor:
        """D(0) .. D(size) and perhaps further, with 0 beyond the cut-off."""
        return _running_discounts(self, max(TABLE_SIZE, 1 << (size - 1).bit_length()), device)


@lru_cache(maxsize=64)
def _running_discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    positions = torch.arange(1, size + 1, dtype=torch.float64, device=device)
    discounts = metric.discount_at(positions) * Ranks(positions, positions.new_tensor([size])).within(metric._cutoff)
    return torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])
