r"""Metrics of lists on a GPU, all from one sort: sums over the sorted items, each with its block of tied scores.

The values are means over the orders of tied items, as on a CPU (`rankbound.kernels.ties`); nothing is copied there, and
no number of an item is read. An item of a block of $n$ items, $m$ of them relevant, stands for two things: itself,
which has each of the block's ranks with the same probability, and a place $j$ of the block, which the first of its
relevant items has with probability $\binom{n-j}{m-1} / \binom{n}{m}$.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rankbound.kernels.formulas import AP, HIT, RANK_SUM, RECIPROCAL_RANK, Formula, table_size
from rankbound.kernels.ties import HARMONIC, HARMONIC_SIZE, SERIES, log_factorials
from rankbound.lists import Lists

if TYPE_CHECKING:
    from rankbound.metrics.base import Metric


def values_together(
    formulas: "Mapping[Metric, Formula]", ranked: Tensor, starts: Tensor, lists: Lists
) -> "dict[Metric, Tensor]":
    """Return the values of metrics with formulas, float64 `(n_lists,)`, NaN where undefined.

    `ranked` `(n_items,)` is the relevance of each list by descending score; `starts` `(n_items,)` is true where a block
    of equal scores begins.
    """
    ranking = _Ranking(ranked, starts, lists)
    return {metric: ranking.value(metric, formula) for metric, formula in formulas.items()}


class _Ranking:
    """Sorted items; each has the number of items `above` its block, the block's `size`, and its `place` therein."""

    def __init__(self, ranked: Tensor, starts: Tensor, lists: Lists) -> None:
        self.ranked, self.lists = ranked, lists
        index = torch.arange(len(ranked), device=ranked.device)
        self._first = torch.where(starts, index, 0).cummax(0).values
        self._end = torch.where(starts.roll(-1), index, len(ranked)).flip(0).cummin(0).values.flip(0) + 1
        self._list = lists.spread(lists.offsets[:-1])
        self.above, self.size, self.place = self._first - self._list, self._end - self._first, index - self._first + 1
        self._counts = cache(self._counted)

    def _counted(self, rel: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the relevant items, their number in each item's block and above it, and in each list."""
        relevant = self.ranked >= rel if rel > 0 else self.ranked > 0
        total = torch.nn.functional.pad(relevant.cumsum(0), (1, 0))
        at_first = total.index_select(0, self._first)
        inside, before = total.index_select(0, self._end) - at_first, at_first - total.index_select(0, self._list)
        of_lists = total.index_select(0, self.lists.offsets)
        return relevant, inside, before, of_lists.diff().to(torch.float64)

    def value(self, metric: Any, formula: Formula) -> Tensor:
        if formula.kind not in (AP, RANK_SUM, RECIPROCAL_RANK, HIT):
            # A sum over items of gain times discount.
            totals = metric._totals(self.lists)
            mean = (totals.index_select(0, self.above + self.size) - totals.index_select(0, self.above)) / self.size
            terms = metric.gains(self.ranked).to(torch.float64) * mean
            return _quotient(self.lists.sum(terms), metric.normaliser(self.ranked, self.lists))
        relevant, inside, before, p = self._counts(formula.rel)
        if formula.kind == AP:
            return _quotient(self.lists.sum(torch.where(relevant, self._precision(inside, before, formula), 0.0)), p)
        if formula.kind == RANK_SUM:
            mean = self.above + (self.size.to(torch.float64) + 1.0) / 2.0
            total = self.lists.sum(torch.where(relevant, mean, 0.0)) - p * (p + 1.0) / 2.0
            return torch.where(p > 0, total, torch.nan)
        rank = self.above + self.place
        counts = (inside > 0) & (before == 0) & (self.place <= self.size - inside + 1)
        if formula.cutoff is not None:
            counts &= rank <= formula.cutoff
        chance = torch.where(counts, self._chance_of_first(inside, counts), 0.0)
        if formula.kind == HIT:
            return self.lists.sum(chance)
        return torch.where(p > 0, self.lists.sum(chance / rank), torch.nan)

    def _precision(self, inside: Tensor, before: Tensor, formula: Formula) -> Tensor:
        """Return the mean precision at a relevant item over the ranks of its block within the cut-off."""
        counted = self.size
        if formula.cutoff is not None:
            counted = torch.minimum(self.size, (formula.cutoff - self.above).clamp(min=0))
        reciprocals = _harmonic_difference(self.above, counted)
        others = (inside - 1).to(torch.float64) / (self.size - 1).clamp(min=1)
        return ((before + 1) * reciprocals + others * (counted - (self.above + 1) * reciprocals)) / self.size

    def _chance_of_first(self, inside: Tensor, counts: Tensor) -> Tensor:
        """Return the probability that a block's first relevant item has an item's place, where it can."""
        table = _log_factorials_on(table_size(self.lists.longest + 1), self.ranked.device)
        n, m, j = (torch.where(counts, one, 1) for one in (self.size, inside, self.place))

        def log_binomial(of: Tensor, k: Tensor) -> Tensor:
            return table.index_select(0, of) - table.index_select(0, k) - table.index_select(0, of - k)

        return (log_binomial(n - j, m - 1) - log_binomial(n, m)).exp()


def _quotient(total: Tensor, divisor: Tensor) -> Tensor:
    """Return sums over their divisors; NaN where these are 0 or NaN."""
    divisor = divisor.nan_to_num()
    return torch.where(divisor == 0, torch.nan, total / torch.where(divisor == 0, 1.0, divisor))


def _harmonic_difference(start: Tensor, count: Tensor) -> Tensor:
    """Return what `rankbound.kernels.ties.harmonic_difference` returns."""
    table, stop = _harmonic_on(start.device), start + count
    low = table.index_select(0, stop.clamp(max=HARMONIC_SIZE)) - table.index_select(0, start.clamp(max=HARMONIC_SIZE))
    large, beyond = (one.clamp(min=HARMONIC_SIZE).to(torch.float64) + 0.5 for one in (start, stop))
    return low + torch.log1p((beyond - large) / large) + _harmonic_tail(beyond) - _harmonic_tail(large)


def _harmonic_tail(half: Tensor) -> Tensor:
    inverse, total = 1 / half**2, torch.zeros_like(half)
    for coefficient in reversed(SERIES):
        total = (total + coefficient) * inverse
    return total


@cache
def _harmonic_on(device: torch.device) -> Tensor:
    return torch.from_numpy(HARMONIC).to(device)


@lru_cache(maxsize=8)
def _log_factorials_on(size: int, device: torch.device) -> Tensor:
    return torch.from_numpy(log_factorials(size)).to(device)
