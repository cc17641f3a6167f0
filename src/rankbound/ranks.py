"""Hard ranks of ragged lists, as permutations and as blocks of tied items. Rank 1 is the top.

A metric is averaged over the orders of tied items, so its value doesn't depend on the order of rows. Metrics without a
closed form of this mean go through the orders, or draw some. Items of one grade are interchangeable: an order is a
grade per rank. N items with $c_g$ of each grade g have $N! / \\prod_g c_g!$ orders, all equally likely under a random
permutation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, lgamma, log

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists, as_floating

COUNTED_ORDERS = 1e15
"""Larger numbers of orders are reported as infinite."""

# Tolerance of the logarithms of numbers of orders.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Ranks:
    """The hard or smooth ranks of some items, the input of a metric.

    `position` is the rank among all items of the list. `above` has one tensor per rank weight of the metric: the total
    weight of the items above each item (with relevance as the weight, the number of relevant items above). `sizes`
    `(n_lists,)` is the number of all items of each list. `temperature` is `None` for hard ranks.
    """

    position: Tensor
    sizes: Tensor
    above: tuple[Tensor, ...] = ()
    temperature: float | None = None

    def within(self, cutoff: int | Tensor | None) -> Tensor | float:
        r"""Return membership in the first `cutoff` ranks: $1[r \le k]$, smoothly $\sigma((k + 1/2 - r)/\tau)$.

        `cutoff` is one for all items, or one for each `(n_items,)`.
        """
        if cutoff is None:
            return 1.0
        if self.temperature is None:
            return (self.position <= cutoff).to(self.position.dtype)
        return torch.sigmoid((cutoff + 0.5 - self.position) / self.temperature)


def hard_ranks(order: Tensor, lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
    """Return the ranks of the permutation `order`, which sorts list by list; every item has a distinct rank."""
    ranked = ranks_in_order(lists, tuple(weight.index_select(0, order) for weight in weights))
    position, *above = (
        torch.empty_like(column).index_copy_(0, order, column) for column in (ranked.position, *ranked.above)
    )
    return Ranks(position, lists.sizes, tuple(above))


def ranks_in_order(lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
    """Return the ranks of items already sorted in each list; `weights` (n_items,) are in the same order."""
    exact = (weight.to(torch.float64 if weight.is_floating_point() else torch.int64) for weight in weights)
    above = tuple((lists.running_sum(weight) - weight).to(torch.float64) for weight in exact)
    return Ranks((lists.position + 1).to(torch.float64), lists.sizes, above)


@dataclass(frozen=True)
class TieBlocks:
    """The lists in descending order of score, divided into blocks of equal scores.

    `order` (n_items,) sorts the items; `block` (n_items,) is the block of each *sorted* item; `first` and `size`
    (n_blocks,) are each block's first rank and number of items. Blocks are ordered by list and, inside it, from the
    top; the offsets of `lists` count blocks.
    """

    order: Tensor
    block: Tensor
    first: Tensor
    size: Tensor
    lists: Lists

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of `values` (n_items,), given in the items' original order, over each block (n_blocks,)."""
        return self._items.sum(as_floating(values)[self.order])

    def before(self, totals: Tensor) -> Tensor:
        """Return the sum of `totals` (n_blocks,) over the blocks above each block of its list."""
        return self.lists.running_sum(totals) - totals

    def mean_ranks(self, lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
        """Return the mean rank of each item over the orders of its block, and the mean of the weights above it."""
        block = torch.empty_like(self.block).index_copy_(0, self.order, self.block)
        position = (self.first + (self.size.to(torch.float64) - 1) / 2).index_select(0, block)
        exact = [weight.to(torch.float64) for weight in weights]
        means = [self.before(total) + total / 2 for total in map(self.sum, exact)]
        above = (mean.index_select(0, block) - own / 2 for mean, own in zip(means, exact, strict=True))
        return Ranks(position, lists.sizes, tuple(above))

    @cached_property
    def has_ties(self) -> bool:
        return len(self.first) < len(self.order)

    @cached_property
    def _items(self) -> Lists:
        return Lists.of_sizes(self.size)


def tie_blocks(scores: Tensor, lists: Lists) -> TieBlocks:
    """Sort every list by descending score and find its blocks of equal scores."""
    order = descending_order(scores, lists)
    return blocks_of(order, block_starts(scores.index_select(0, order), lists), lists)


def block_starts(ranked: Tensor, lists: Lists) -> Tensor:
    """Return a mask of the scores `ranked` (n_items,), descending in each list, that begin a block."""
    starts = torch.ones(len(ranked), dtype=torch.bool, device=ranked.device)
    starts[1:] = ranked[1:] != ranked[:-1]
    # The first item of a list starts a block even if the last score of the list before is equal.
    first_items = lists.offsets[:-1][lists.sizes > 0]
    starts[first_items] = True
    return starts


def blocks_of(order: Tensor, starts: Tensor, lists: Lists) -> TieBlocks:
    """Return the blocks that begin at the items of `order` where `starts` is true."""
    begins = torch.nonzero(starts).squeeze(1)
    ends = torch.cat([begins[1:], begins.new_tensor([len(order)])]) if len(begins) else begins
    first = begins - lists.offsets[lists.segment[begins]] + 1
    block = starts.cumsum(0) - 1
    return TieBlocks(order, block, first, ends - begins, lists.keep(starts))


def descending_order(values: Tensor, lists: Lists) -> Tensor:
    """Return the permutation that sorts each list by descending value, equal values by their place in the list."""
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    on_cpu = values.device.type == "cpu"
    if values.dtype == torch.float32 and len(lists) < 2**31:
        # Integers that ascend by list and, inside it, by descending value, so that one sort replaces two. Adding 0
        # turns -0.0 into 0.0; the bits of a float, read as an integer, ascend with it once negatives are inverted.
        bits = (values.detach() + 0.0).view(torch.int32).to(torch.int64)
        keys = (lists.segment << 32) - torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        # NumPy sorts several times as fast as PyTorch does on a CPU.
        return torch.from_numpy(np.argsort(keys.numpy(), kind="stable")) if on_cpu else torch.argsort(keys, stable=True)
    if on_cpu and values.dtype == torch.float64:
        order = _by_list(torch.from_numpy(np.argsort(-values.detach().numpy())), lists)
        # NumPy's fast sort isn't stable.
        if bool(block_starts(values[order], lists).all()):
            return order
    return _by_list(torch.argsort(values, descending=True, stable=True), lists)


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


def n_orders(counts: Sequence[int]) -> int | float:
    """Return the number of orders of items of which `counts[g]` are of kind g; infinity above 10^15."""
    if lgamma(sum(counts) + 1) - sum(lgamma(count + 1) for count in counts) > log(COUNTED_ORDERS):
        return inf
    ways, placed = 1, 0
    for count in counts:
        placed += count
        ways *= comb(placed, count)
    return ways


def orders_at(counts: Tensor, ways: Tensor, index: Tensor) -> Tensor:
    """Return the kind of item at each rank, `(n_rows, longest)`, in the order with index `index` of each row's items.

    Args:
        counts: `(n_rows, n_kinds)`, int64, the number of items of each kind in each row.
        ways: `(n_rows,)`, int64, the number of orders of each row (`n_orders`).
        index: `(n_rows,)`, int64, the order's index, from 0 for the one with the first kinds on top to `ways - 1` for
            its reverse.

    Ranks beyond a row's items hold `n_kinds`.
    """
    left, ways, index = counts.clone(), ways.clone(), index.clone()
    size = counts.sum(1)
    longest = int(size.max()) if len(counts) else 0
    kinds = counts.new_empty(len(counts), longest)
    row = torch.arange(len(counts), device=counts.device)
    for rank in range(longest):
        # A share c_g / N of all orders of the remaining items begins with kind g.
        begin_so = ways[:, None] * left // (size - rank).clamp(min=1)[:, None]
        up_to = begin_so.cumsum(1)
        kind = (index[:, None] >= up_to).sum(1)
        kinds[:, rank] = kind
        kind = kind.clamp(max=counts.shape[1] - 1)
        ways = begin_so[row, kind]
        index = index - (up_to[row, kind] - ways)
        left[row, kind] -= 1
    return kinds


def _by_list(order: Tensor, lists: Lists) -> Tensor:
    """Group the items of `order` by list, keeping their order inside each."""
    if len(lists) <= 1:
        return order
    if order.device.type != "cpu":
        return order[torch.argsort(lists.segment[order], stable=True)]
    # Sixteen bits at a time, which NumPy sorts in linear time.
    for shift in range(0, (len(lists) - 1).bit_length(), 16):
        digits = (lists.segment[order] >> shift).numpy().astype(np.uint16)
        order = order[torch.from_numpy(np.argsort(digits, kind="stable"))]
    return order


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
