"""Orders of tied items, for metrics without a closed form of their mean over ties."""

from collections.abc import Iterator
from math import log

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.orders import orders_at
from rankbound.ranks import TieBlocks

# Tolerance of the logarithms of numbers of orders.
_ROUNDING = 1e-9


def orders_of_ties(blocks: TieBlocks, relevance: Tensor, lists: Lists, most: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield orders of all lists at once: relevance by rank `(n_items,)` and each list's weight `(n_lists,)`.

    A list whose ties admit at most `most` distinct orders of grades goes through all of them; after that its weight is
    0. Any other list gets `most` random orders. A list's weights sum to 1, and its orders depend on its blocks and
    their grades alone.
    """
    ties = _Ties(blocks, relevance, lists)
    few = ties.log_orders <= log(most) + _ROUNDING
    number = torch.where(few, ties.log_orders.exp().round(), float(most))
    enumerated, drawn = _Enumerated(ties, few), lists.spread(~few)
    for index in range(int(number.max()) if len(lists) else 0):
        ranked = enumerated(index)
        if not bool(few.all()):
            ranked = torch.where(drawn, ties.shuffled(index), ranked)
        yield ranked, (index < number) / number


class _Ties:
    """The grades of each block's items in descending order, in runs of equal grade."""

    def __init__(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> None:
        ranked = relevance[blocks.order]
        by_grade = torch.argsort(ranked, descending=True, stable=True)
        self.blocks, self.lists = blocks, lists
        self.grades = ranked[by_grade[torch.argsort(blocks.block[by_grade], stable=True)]]

        begins = torch.ones(len(ranked), dtype=torch.bool, device=lists.device)
        begins[1:] = (self.grades[1:] != self.grades[:-1]) | (blocks.block[1:] != blocks.block[:-1])
        self.runs = Lists.of_sizes(torch.bincount(blocks.block[begins], minlength=len(blocks.size)))
        self.run_grades = self.grades[begins]
        self.run_sizes = torch.bincount(begins.cumsum(0) - 1, minlength=len(self.run_grades))
        self.log_ways = _log_factorial(blocks.size) - self.runs.sum(_log_factorial(self.run_sizes))
        # The logarithm of the number of orders that each list's ties admit, (n_lists,).
        self.log_orders = blocks.lists.sum(self.log_ways)

    def shuffled(self, index: int) -> Tensor:
        """Return the grades by rank in a random order of each block; all lists share the same random keys."""
        longest = int(self.lists.sizes.max())
        keys = torch.from_numpy(np.random.default_rng((0, index)).random(longest)).to(self.lists.device)
        by_key = torch.argsort(keys[self.lists.position], stable=True)
        return self.grades[by_key[torch.argsort(self.blocks.block[by_key], stable=True)]]


class _Enumerated:
    """The orders of the lists `few` by index; the index's mixed-radix digits are the indices of the blocks' orders."""

    def __init__(self, ties: _Ties, few: Tensor) -> None:
        blocks, self._ties = ties.blocks, ties
        # Blocks with several orders, and the ranked items in them.
        is_open = (ties.log_ways > _ROUNDING) & blocks.lists.spread(few)
        self._slots = torch.nonzero(is_open[blocks.block]).squeeze(1)
        self._owner = (is_open.cumsum(0) - 1)[blocks.block[self._slots]]
        if len(self._slots) == 0:
            return
        runs = ties.runs.keep(is_open[ties.runs.segment])
        runs = Lists(torch.unique_consecutive(runs.offsets))
        counts = runs.offsets.new_zeros(len(runs), int(runs.sizes.max()))
        counts[runs.segment, runs.position] = ties.run_sizes[is_open[ties.runs.segment]]
        log_ways = ties.log_ways[is_open]
        before = blocks.lists.keep(is_open).running_sum(log_ways) - log_ways
        self._ways, self._stride = (logs.exp().round().to(torch.int64) for logs in (log_ways, before))

        # All orders of each distinct block.
        sorts, which = torch.unique(counts, dim=0, return_inverse=True)
        ways = torch.empty_like(sorts[:, 0]).scatter_(0, which, self._ways)
        rows = Lists.of_sizes(ways)
        self._kinds = orders_at(sorts[rows.segment], rows.spread(ways), rows.position)
        self._first_row = rows.offsets[:-1][which]
        self._first_run = ties.runs.offsets[:-1][is_open]
        first_slot = (blocks.size.cumsum(0) - blocks.size)[is_open]
        self._place = self._slots - first_slot[self._owner]

    def __call__(self, index: int) -> Tensor:
        """Return the grades by rank in each list's order of this index; blocks of other lists are descending."""
        if len(self._slots) == 0:
            return self._ties.grades
        row = self._first_row + index // self._stride % self._ways
        run = self._first_run[self._owner] + self._kinds[row[self._owner], self._place]
        return self._ties.grades.index_copy(0, self._slots, self._ties.run_grades[run])


def _log_factorial(number: Tensor) -> Tensor:
    return torch.lgamma(number.to(torch.float64) + 1)
