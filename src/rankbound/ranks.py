"""Hard ranks of ragged lists, as permutations and as blocks of tied items. Rank 1 is the top.

A metric is averaged over the orders of tied items, so its value doesn't depend on the order of rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rankbound.lists import Lists, as_floating


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
        return _ascending(_list_and_value_keys(values, lists), on_cpu)
    if on_cpu and values.dtype == torch.float64:
        order = _by_list(torch.from_numpy(np.argsort(-values.detach().numpy())), lists)
        # NumPy's fast sort isn't stable.
        if bool(block_starts(values[order], lists).all()):
            return order
    return _by_list(torch.argsort(values, descending=True, stable=True), lists)


def _ascending(keys: Tensor, on_cpu: bool) -> Tensor:
    # NumPy sorts several times as fast as PyTorch does on a CPU.
    return torch.from_numpy(np.argsort(keys.numpy(), kind="stable")) if on_cpu else torch.argsort(keys, stable=True)


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


def _list_and_value_keys(values: Tensor, lists: Lists) -> Tensor:
    """Return integers that ascend by list and, inside it, by descending value, so that one sort replaces two."""
    # Adding 0 turns -0.0 into 0.0. The bits of a float, read as an integer, ascend with it once negatives are inverted.
    bits = (values.detach() + 0.0).view(torch.int32).to(torch.int64)
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (lists.segment << 32) - ascending


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
