"""Hard ranks of the items of ragged lists, as permutations and as blocks of ties. Rank 1 is the top.

A metric takes its mean over the orders of a tie block, so that the order of rows can never change a score.
"""

from dataclasses import dataclass
from functools import cached_property

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
    ranked = scores[order]
    starts = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    starts[1:] = ranked[1:] != ranked[:-1]
    # The first item of each list starts a block whatever the score of its neighbour in the list before.
    first_items = lists.offsets[:-1][lists.sizes > 0]
    starts[first_items] = True
    begins = torch.nonzero(starts).squeeze(1)
    ends = torch.cat([begins[1:], begins.new_tensor([len(scores)])]) if len(begins) else begins
    first = begins - lists.offsets[lists.segment[begins]] + 1
    block = starts.cumsum(0) - 1
    return TieBlocks(order, block, first, ends - begins, lists.keep(starts))


def descending_order(values: Tensor, lists: Lists) -> Tensor:
    """The permutation that sorts each list by descending value, equal values by their place in the list."""
    if values.dtype == torch.float32 and len(lists) < 2**31:
        return torch.argsort(_list_and_value_keys(values, lists), stable=True)
    by_value = torch.argsort(values, descending=True, stable=True)
    if len(lists) <= 1:
        return by_value
    return by_value[torch.argsort(lists.segment[by_value], stable=True)]


def _list_and_value_keys(values: Tensor, lists: Lists) -> Tensor:
    """Integers that ascend by list and, inside it, by descending value: one sort of these does for two of others."""
    # Adding 0 turns -0.0 into 0.0. The bits of a float, as an integer, ascend with it once negatives are turned over.
    bits = (values + 0.0).view(torch.int32).to(torch.int64)
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (lists.segment << 32) - ascending


def hard_ranks(order: Tensor, lists: Lists, weights: tuple[Tensor, ...] = ()) -> Ranks:
    """The ranks of the permutation `order` (which sorts list by list), every item at a rank of its own."""
    place = torch.empty_like(order)
    place[order] = lists.position
    above = tuple(_weight_above(weight.to(torch.float64), order, lists) for weight in weights)
    return Ranks((place + 1).to(torch.float64), lists.sizes, above)


def _weight_above(weight: Tensor, order: Tensor, lists: Lists) -> Tensor:
    ranked = weight[order]
    above = torch.empty_like(ranked)
    above[order] = lists.running_sum(ranked) - ranked
    return above
