"""Hard ranks of ragged lists, as permutations and as blocks of tied items. Rank 1 is the top.

A metric is averaged over the orders of tied items, so its value doesn't depend on the order of rows. Metrics without a
closed form of this mean go through the orders, or draw some. Items of one grade are interchangeable: an order is a
grade per rank. N items with $c_g$ of each grade g have $N! / \\prod_g c_g!$ orders, all equally likely under a random
permutation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, inf, lgamma, log

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists, as_floating, may_read

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
    top; the offsets of `lists` count blocks. Where a GPU isn't waited for to learn their number, every item is a block:
    the last one of those with its score holds them all, and the others are `vacant`, of size 0.
    """

    order: Tensor
    block: Tensor
    first: Tensor
    size: Tensor
    lists: Lists
    vacant: bool = False

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of `values` (n_items,), given in the items' original order, over each block (n_blocks,)."""
        return self.items.sum(as_floating(values)[self.order])

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
        return self.vacant or len(self.first) < len(self.order)

    @cached_property
    def items(self) -> Lists:
        """The sorted items of each block."""
        return Lists._of_sizes(self.size, len(self.order))


def tie_blocks(scores: Tensor, lists: Lists) -> TieBlocks:
    """Sort every list by descending score and find its blocks of equal scores."""
    order = descending_order(scores, lists)
    return blocks_of(order, block_starts(scores.index_select(0, order), lists), lists)


def block_starts(ranked: Tensor, lists: Lists) -> Tensor:
    """Return a mask of the scores `ranked` (n_items,), descending in each list, that begin a block."""
    starts = torch.ones(len(ranked) + 1, dtype=torch.bool, device=ranked.device)
    starts[1:-1] = ranked[1:] != ranked[:-1]
    # The first item of a list starts a block even if the last score of the list before is equal.
    return starts.index_fill_(0, lists.offsets, True)[:-1]


def blocks_of(order: Tensor, starts: Tensor, lists: Lists) -> TieBlocks:
    """Return the blocks that begin at the items of `order` where `starts` is true."""
    if not may_read(starts):
        place, ends = torch.arange(len(order), device=order.device), starts.roll(-1)
        begin = torch.where(starts, place, 0).cummax(0).values
        block = torch.where(ends, place, len(order)).flip(0).cummin(0).values.flip(0)
        size = torch.where(ends, place - begin + 1, 0)
        return TieBlocks(order, block, begin - lists.spread(lists.offsets[:-1]) + 1, size, lists, vacant=True)
    begins = torch.nonzero(starts).squeeze(1)
    ends = torch.cat([begins[1:], begins.new_tensor([len(order)])]) if len(begins) else begins
    first = begins - lists.offsets[lists.segment[begins]] + 1
    block = starts.cumsum(0) - 1
    return TieBlocks(order, block, first, ends - begins, lists.keep(starts))


def descending_order(values: Tensor, lists: Lists) -> Tensor:
    """Return the permutation that sorts each list by descending value, equal values by their place in the list."""
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    on_cpu = values.is_cpu
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
    # The grades of each block's items in descending order, in runs of equal grade.
    ranked = relevance[blocks.order]
    by_grade = torch.argsort(ranked, descending=True, stable=True)
    grades = ranked[by_grade[torch.argsort(blocks.block[by_grade], stable=True)]]
    begins = torch.ones(len(ranked), dtype=torch.bool, device=lists.device)
    begins[1:] = (grades[1:] != grades[:-1]) | (blocks.block[1:] != blocks.block[:-1])
    run_grades = grades[begins]
    run_sizes = torch.bincount(begins.cumsum(0) - 1, minlength=len(run_grades))
    runs = Lists.of_sizes(torch.bincount(blocks.block[begins], minlength=len(blocks.size)))
    log_ways = torch.lgamma(blocks.size.double() + 1) - runs.sum(torch.lgamma(run_sizes.double() + 1))
    # The logarithm of the number of orders that each list's ties admit, (n_lists,).
    log_orders = blocks.lists.sum(log_ways)
    few = log_orders <= log(most) + _ROUNDING
    number = torch.where(few, log_orders.exp().round(), float(most))
    all_few, drawn, longest = bool(few.all()), lists.spread(~few), int(lists.sizes.max()) if len(lists) else 0

    # Blocks with several orders, and the ranked items in them.
    is_open = (log_ways > _ROUNDING) & blocks.lists.spread(few)
    slots = torch.nonzero(is_open[blocks.block]).squeeze(1)
    runs_of = _orders_of_blocks(blocks, is_open, slots, runs, run_sizes, log_ways) if len(slots) else None
    for index in range(int(number.max()) if len(lists) else 0):
        ranked = grades if runs_of is None else grades.index_copy(0, slots, run_grades[runs_of(index)])
        if not all_few:
            # All lists share the same random keys.
            keys = torch.from_numpy(np.random.default_rng((0, index)).random(longest)).to(lists.device)
            by_key = torch.argsort(keys[lists.position], stable=True)
            shuffled = grades[by_key[torch.argsort(blocks.block[by_key], stable=True)]]
            ranked = torch.where(drawn, shuffled, ranked)
        yield ranked, (index < number) / number


def _orders_of_blocks(
    blocks: TieBlocks, is_open: Tensor, slots: Tensor, runs: Lists, run_sizes: Tensor, log_ways: Tensor
) -> Callable[[int], Tensor]:
    """Return a function of an order's index: the run from which each of the `slots` of the open blocks has its grade.

    The index's mixed-radix digits are the indices of the blocks' orders.
    """
    owner = (is_open.cumsum(0) - 1)[blocks.block[slots]]
    of_open = is_open[runs.segment]
    open_runs = Lists(torch.unique_consecutive(runs.keep(of_open).offsets))
    counts = open_runs.offsets.new_zeros(len(open_runs), int(open_runs.sizes.max()))
    counts[open_runs.segment, open_runs.position] = run_sizes[of_open]
    logs = log_ways[is_open]
    before = blocks.lists.keep(is_open).running_sum(logs) - logs
    ways, stride = (number.exp().round().to(torch.int64) for number in (logs, before))

    # All orders of each distinct block, in rows of one length.
    sorts, which = torch.unique(counts, dim=0, return_inverse=True)
    orders, longest = [orders_of(tuple(sort)) for sort in sorts.tolist()], int(counts.sum(1).max())
    filled = [(*order, *[0] * (longest - len(order))) for of_sort in orders for order in of_sort]
    kinds, rows = counts.new_tensor(filled), Lists.of_sizes(counts.new_tensor([len(of_sort) for of_sort in orders]))
    first_row, first_run = rows.offsets[:-1][which], runs.offsets[:-1][is_open]
    place = slots - (blocks.size.cumsum(0) - blocks.size)[is_open][owner]

    def runs_of(index: int) -> Tensor:
        return first_run[owner] + kinds[(first_row + index // stride % ways)[owner], place]

    return runs_of


def n_orders(counts: Sequence[int]) -> int | float:
    """Return the number of orders of items of which `counts[g]` are of kind g; infinity above 10^15."""
    if lgamma(sum(counts) + 1) - sum(lgamma(count + 1) for count in counts) > log(COUNTED_ORDERS):
        return inf
    ways, placed = 1, 0
    for count in counts:
        placed += count
        ways *= comb(placed, count)
    return ways


@lru_cache(maxsize=4096)
def orders_of(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all orders of items of which `counts[g]` are of kind g, a kind per rank; the first kinds on top first."""
    kinds = [kind for kind, count in enumerate(counts) if count]
    if len(kinds) == 1:
        return [(kinds[0],) * counts[kinds[0]]]
    fewer = [(*counts[:kind], counts[kind] - 1, *counts[kind + 1 :]) for kind in kinds]
    return [(kind, *rest) for kind, left in zip(kinds, fewer, strict=True) for rest in orders_of(left)]


def _by_list(order: Tensor, lists: Lists) -> Tensor:
    """Group the items of `order` by list, keeping their order inside each."""
    if len(lists) <= 1:
        return order
    if not order.is_cpu:
        return order[torch.argsort(lists.segment[order], stable=True)]
    # Sixteen bits at a time, which NumPy sorts in linear time.
    for shift in range(0, (len(lists) - 1).bit_length(), 16):
        digits = (lists.segment[order] >> shift).numpy().astype(np.uint16)
        order = order[torch.from_numpy(np.argsort(digits, kind="stable"))]
    return order
