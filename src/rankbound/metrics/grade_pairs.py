"""The number of pairs of items of different grade, and of those in the wrong order, in near-linear time."""

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.ranks import TieBlocks, tie_blocks


def is_binary(relevance: Tensor) -> bool:
    """Return true if all grades are 0 or 1."""
    return bool(((relevance == 0) | (relevance == 1)).all())


def unequal_pairs(relevance: Tensor, lists: Lists, sizes: Tensor) -> Tensor:
    """Count the pairs of different grade in each list of `sizes` items; items not in `relevance` have grade 0."""
    relevant = lists.sum((relevance > 0).to(torch.float64))
    alike = relevant.square()
    if not is_binary(relevance):
        blocks = tie_blocks(relevance.to(torch.float64), lists)
        alike = blocks.lists.sum(blocks.sum((relevance > 0).to(torch.float64)).square())
    return (sizes.to(torch.float64).square() - alike - (sizes - relevant).square()) / 2


def wrong_pairs(blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
    """Count the pairs of each list whose item of lower grade ranks higher; a tie counts half.

    Number the grades from 0. At the first bit in which two numbers differ, the item with the 1 should rank above the
    item with the 0. One pass per bit, over the items that agree in the higher bits, counts every pair once.
    """
    levels, number = torch.unique(relevance, return_inverse=True)
    ranked = number[blocks.order]
    total = torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
    for bit in reversed(range((len(levels) - 1).bit_length())):
        group = lists.segment * len(levels) + (ranked >> (bit + 1))
        order = torch.argsort(group, stable=True)  # still list by list, and from the top down inside a group
        high = (ranked[order] >> bit) & 1
        total += lists.sum(high * _zeros_above(high, group[order], blocks.block[order]))
    return total


def _zeros_above(high: Tensor, group: Tensor, block: Tensor) -> Tensor:
    """Count the items with `high` = 0 above each item in its group, ties half; groups and blocks are runs."""
    zeros = torch.cat([high.new_zeros(1), (1 - high).cumsum(0)])
    group_start, _ = _runs(group, group)
    start, end = _runs(group, block)
    return (zeros[start] + zeros[end]).to(torch.float64) / 2 - zeros[group_start]


def _runs(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the start and end of each item's run of equal pairs (first, second)."""
    starts = torch.ones(len(first), dtype=torch.bool, device=first.device)
    starts[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    limits = torch.cat([torch.nonzero(starts).squeeze(1), first.new_tensor([len(first)])])
    run = starts.cumsum(0) - 1
    return limits[run], limits[run + 1]
