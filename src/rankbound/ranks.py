"""Hard ranks of the items of ragged lists, as permutations and as blocks of ties. Rank 1 is the top.

A metric takes its mean over the orders of a tie block, so that the order of rows can never change a score.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists, as_floating


@dataclass(frozen=True)
class Ranks:
    """The ranks of some items, hard or smooth, as a metric reads them.

    `position` is the rank among all items of the list. `above` has one tensor for each of the metric's rank weights:
    the weight of the items that stand above, so that relevance for a weight counts the relevant items above. `sizes`
    `(n_lists,)` is the number of all items of each list. `temperature` is `None` for hard ranks.
    """

    position: Tensor
    sizes: Tensor
    above: tuple[Tensor, ...] = ()
    temperature: float | None = None

    def within(self, cutoff: int | None) -> Tensor | float:
        r"""Membership of the first `cutoff` ranks: $1[r \le k]$, smoothly $\sigma((k + 1/2 - r)/\tau)$."""
        if cutoff is None:
            return 1.0
        if self.temperature is None:
            return (self.position <= cutoff).to(self.position.dtype)
        return torch.sigmoid((cutoff + 0.5 - self.position) / self.temperature)


@dataclass(frozen=True)
class TieBlocks:
    """Each list in descending order of score, cut into blocks of equal scores.

    `order` (n_items,) sorts the items; `block` (n_items,) is the block of each *sorted* item; `first` and `size`
    (n_blocks,) are the block's first rank and number of items. Blocks stand list by list from the top down;
    `lists.offsets` counts blocks.
    """

    order: Tensor
    block: Tensor
    first: Tensor
    size: Tensor
    lists: Lists

    def sum(self, values: Tensor) -> Tensor:
        """Sum of the items' `values` (n_items,), in the items' own order, over each block (n_blocks,)."""
        return self._items.sum(as_floating(values)[self.order])

    def before(self, totals: Tensor) -> Tensor:
        """Sum of a list's block `totals` (n_blocks,) above each block."""
        return self.lists.running_sum(totals) - totals

    @cached_property
    def has_ties(self) -> bool:
        return len(self.first) < len(self.order)

    @cached_property
    def _items(self) -> Lists:
        return Lists(torch.cat([self.size.new_zeros(1), self.size.cumsum(0)]))


def tie_blocks(scores: Tensor, lists: Lists) -> TieBlocks:
    """Sort every list by descending score and find its blocks of equal scores."""
    order = descending_order(scores, lists)
    return blocks_of(order, block_starts(scores.index_select(0, order), lists), lists)


def block_starts(ranked: Tensor, lists: Lists) -> Tensor:
    """Which of the scores `ranked` (n_items,), each list in descending order, are the first of their block."""
    starts = torch.ones(len(ranked), dtype=torch.bool, device=ranked.device)
    starts[1:] = ranked[1:] != ranked[:-1]
    # The first item of each list starts a block whatever the score of its neighbour in the list before.
    first_items = lists.offsets[:-1][lists.sizes > 0]
    starts[first_items] = True
    return starts


def blocks_of(order: Tensor, starts: Tensor, lists: Lists) -> TieBlocks:
    """The blocks that begin where `starts` is true of the items in their `order`."""
    begins = torch.nonzero(starts).squeeze(1)
    ends = torch.cat([begins[1:], begins.new_tensor([len(order)])]) if len(begins) else begins
    first = begins - lists.offsets[lists.segment[begins]] + 1
    block = starts.cumsum(0) - 1
    return TieBlocks(order, block, first, ends - begins, lists.keep(starts))


def descending_order(values: Tensor, lists: Lists) -> Tensor:
    """The permutation that sorts each list by descending value, equal values by their place in the list."""
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    on_cpu = values.device.type == "cpu"
    if values.dtype == torch.float32 and len(lists) < 2**31:
        return _ascending(_list_and_value_keys(values, lists), on_cpu)
    if on_cpu and values.dtype == torch.float64:
        order = _by_list(torch.from_numpy(np.argsort(-values.detach().numpy())), lists)
        # NumPy's fast sort leaves equal values in any order.
        if bool(block_starts(values[order], lists).all()):
            return order
    return _by_list(torch.argsort(values, descending=True, stable=True), lists)


def _ascending(keys: Tensor, on_cpu: bool) -> Tensor:
    # NumPy sorts several times as fast as PyTorch does on a CPU.
    return torch.from_numpy(np.argsort(keys.numpy(), kind="stable")) if on_cpu else torch.argsort(keys, stable=True)


def _by_list(order: Tensor, lists: Lists) -> Tensor:
    """The items of `order` list by list, in the same order inside each."""
    if len(lists) <= 1:
        return order
    if order.device.type != "cpu":
        return order[torch.argsort(lists.segment[order], stable=True)]
    # Sixteen bits at a time, which NumPy sorts in linear time.
    for shift in range(0, (len(lists) - 1).bit_length(), 16):
        digits = (lists.segment[order] >> shift).numpy().astype(np.uint16)
        order = order[torch.from_numpy(np.argsort(digits, kind="stable"))]
    return order


def _list_and_value_keys(values: Tensor, lists: Lists) -> Tensor:
    """Integers that ascend by list and, inside it, by descending value: one sort of these does for two of others."""
    # Adding 0 turns -0.0 into 0.0. The bits of a float, as an integer, ascend with it once negatives are turned over.
    bits = (values.detach() + 0.0).view(torch.int32).to(torch.int64)
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (lists.segment << 32) - ascending


def hard_ranks(order: Tensor, lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
    """The ranks of the permutation `order` (which sorts list by list), every item at a rank of its own."""
    ranked = ranks_in_order(lists, tuple(weight.index_select(0, order) for weight in weights))
    position, *above = (
        torch.empty_like(column).index_copy_(0, order, column) for column in (ranked.position, *ranked.above)
    )
    return Ranks(position, lists.sizes, tuple(above))


def ranks_in_order(lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
    """The ranks of items that stand in their lists' order; `weights` (n_items,) are theirs in that order, too."""
    exact = (weight.to(torch.float64) for weight in weights)
    above = tuple(lists.running_sum(weight) - weight for weight in exact)
    return Ranks((lists.position + 1).to(torch.float64), lists.sizes, above)
