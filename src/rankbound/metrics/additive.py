r"""Metrics that are sums over items of gain times discount: nDCG, DCG, P@k, RBP and more.

$$M = \frac{\sum_i g(y_i)\, d(R_i)}{Z}$$

In the mean over ties, an item has the mean discount of its block's ranks: a difference of running totals
$D(r) = d(1) + \dots + d(r)$. The extremes and the mean over all orders are differences of $D$ as well.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.kernels.formulas import RankedItems, normaliser, table_size
from rankbound.lists import Lists
from rankbound.metrics.base import Metric, formula_of, ratio
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class AdditiveMetric(Metric):
    """A metric that is a sum over items; subclasses define gain, discount and normaliser."""

    @abstractmethod
    def gains(self, relevance: Tensor) -> Tensor:
        """Return the gain of each item, at least 0, float64 unless the relevance has another floating type."""

    @abstractmethod
    def discount_at(self, position: Tensor) -> Tensor:
        """Return the discount of each rank; `position` may be fractional."""

    @abstractmethod
    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the divisor of each list's sum; NaN or 0 where the metric is undefined."""

    @abstractmethod
    def binary_normaliser(self, p: Tensor) -> Tensor:
        """Return the normaliser of lists with `p` relevant items of grade 1."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        self.require_gains_that_fit(relevance, ranks.position.dtype)
        terms = self.gains(relevance).to(ranks.position) * self.discount_at(ranks.position)
        if self._cutoff is not None:
            terms = terms * ranks.within(self._cutoff)
        return ratio(lists.sum(terms), self.normaliser(relevance, lists))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        self.require_gains_that_fit(relevance, torch.float64)
        totals = self._running_discounts(int(lists.sizes.max()) if len(lists) else 0, lists.device)
        ends = blocks.first - 1 + blocks.size
        mean_discount = (totals.index_select(0, ends) - totals.index_select(0, blocks.first - 1)) / blocks.size
        gains = blocks.sum(self.gains(relevance).to(torch.float64))
        formula = formula_of(self) if relevance.is_cpu else None
        if formula is None:
            divisor = self.normaliser(relevance, lists)
        else:
            # That of evaluation, which does not depend on the other lists.
            items = RankedItems.of(relevance.numpy(), lists.offsets.numpy())
            divisor = torch.from_numpy(normaliser(formula, items))
        return ratio(blocks.lists.sum(gains * mean_discount), divisor)

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
        """Return D(0) .. D(size), possibly further; discounts beyond the cut-off are 0."""
        return _running_discounts(self, table_size(size), device)


@lru_cache(maxsize=64)
def _running_discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    positions = torch.arange(1, size + 1, dtype=torch.float64, device="cpu")
    formula = formula_of(metric)
    discounts = metric.discount_at(positions) if formula is None else torch.from_numpy(formula.discounts(size).copy())
    discounts = discounts * Ranks(positions, positions.new_tensor([size])).within(metric._cutoff)
    return torch.cat([discounts.new_zeros(1), discounts.cumsum(0)]).to(device)
