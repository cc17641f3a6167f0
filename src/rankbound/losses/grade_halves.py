"""Pairs of items of different grades, for up to as many grades as items: grades split in halves again and again."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.ranks import tie_blocks

# Beyond this number of grades, splitting them in halves is faster than visiting them in order.
MOST_GRADES_IN_ORDER = 64


@dataclass(frozen=True)
class Half:
    """Groups of items, in the order of `GradeHalves.order`: an item of `late` pairs with every other of its group."""

    groups: Lists
    late: Tensor


class GradeHalves:
    """The pairs of items of one list whose grades have different places among the list's distinct grades.

    The first bit in which two places differ is 0 in the earlier one. Items that agree in all bits before it are a
    group, and each pair is in one group of one bit.

    Attributes:
        order: `(n_items,)`, the items of each list by place.
    """

    def __init__(self, grades: Tensor, lists: Lists, *, descending: bool = False) -> None:
        place = _places(grades, lists, descending)
        self._bits = int(place.max()).bit_length() if len(place) else 0
        key = lists.segment * 2**self._bits + place
        self.order = torch.argsort(key)
        self._key = key.index_select(0, self.order)

    def __iter__(self) -> Iterator[Half]:
        for bit in range(self._bits):
            sizes = torch.unique_consecutive(self._key >> (bit + 1), return_counts=True)[1]
            yield Half(Lists.of_sizes(sizes), (self._key >> bit) % 2 == 1)

    def in_order_of_rows(self, values: Tensor) -> Tensor:
        """Return values `(..., n_items)` in the items' own order."""
        return torch.empty_like(values).index_copy_(-1, self.order, values)


def _places(grades: Tensor, lists: Lists, descending: bool) -> Tensor:
    """Return the place, from 0, of each item's grade among the distinct grades of its list, `(n_items,)`."""
    blocks = tie_blocks(grades, lists)
    place = blocks.lists.position
    if not descending:
        place = blocks.lists.spread(blocks.lists.sizes) - 1 - place
    return torch.empty_like(blocks.block).index_copy_(0, blocks.order, place.index_select(0, blocks.block))
