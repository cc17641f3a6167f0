"""The pairs of items of each list whose gains differ, in chunks of bounded memory, without padding."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.ranks import tie_blocks

# Limits the memory of one chunk, about 20 tensors, to what largely fits the processor's cache.
PAIRS_PER_CHUNK = 1_000_000

PAIRS_TO_WARN_OF = 100_000_000
"""Pairs that take some 10 seconds."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of items: pair `k` compares the item `winner[k]` with the item `loser[k]` of the same list."""

    winner: Tensor
    loser: Tensor


def pairs_by_gain(
    gains: Tensor, lists: Lists, *, winners: Tensor | None = None, losers: Tensor | None = None
) -> Iterator[Pairs]:
    """Yield all pairs of a list's items in which the winner's gain is higher, in chunks.

    The boolean masks `winners` and `losers` `(n_items,)` restrict the pairs.
    """
    blocks = tie_blocks(gains, lists)
    # In sorted order, an item wins against all items of its list after its block of equal gains.
    owner = blocks.lists.segment
    ends = lists.offsets.index_select(0, owner) + blocks.first - 1 + blocks.size
    begin = ends.index_select(0, blocks.block)
    end = lists.spread(lists.offsets[1:])
    loser, winner = blocks.order, torch.arange(len(gains), device=gains.device)
    if losers is not None:
        kept = losers.index_select(0, blocks.order)
        before = torch.cat([lists.offsets.new_zeros(1), kept.cumsum(0)])
        loser, begin, end = blocks.order[kept], before.index_select(0, begin), before.index_select(0, end)
    if winners is not None:
        winner = torch.nonzero(winners.index_select(0, blocks.order)).squeeze(1)
    return _chunks(blocks.order, loser, winner, begin.index_select(0, winner), end.index_select(0, winner))


def pairs_with_all(lists: Lists, *, winners: Tensor) -> Iterator[Pairs]:
    """Yield the pairs of each item of the mask `winners` `(n_items,)` with every other item of its list, in chunks."""
    items = torch.arange(lists.n_items, device=lists.device)
    winner = torch.nonzero(winners).squeeze(1)
    begin, end = (lists.spread(limit).index_select(0, winner) for limit in (lists.offsets[:-1], lists.offsets[1:]))
    for pairs in _chunks(items, items, winner, begin, end):
        others = pairs.winner != pairs.loser
        yield Pairs(pairs.winner[others], pairs.loser[others])


def _chunks(items: Tensor, losers: Tensor, winners: Tensor, begin: Tensor, end: Tensor) -> Iterator[Pairs]:
    """Yield the pairs of each `items[winners[k]]` with `losers[begin[k]:end[k]]`, in chunks."""
    totals = (end - begin).cumsum(0)
    if len(totals) and totals[-1] > PAIRS_TO_WARN_OF:
        warnings.warn(
            f"LambdaRank or LambdaLoss: all of {int(totals[-1]):,} pairs of items are visited. With a cut-off k, as in "
            "LambdaRank(metric=nDCG@10), there are about k pairs for each item; RankNet takes near-linear time.",
            stacklevel=2,
        )
    start = 0
    while start < len(winners):
        done = int(totals[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(totals, done + PAIRS_PER_CHUNK, right=True)))
        runs = Lists.of_sizes((end - begin)[start:stop])
        place = runs.position + runs.spread(begin[start:stop])
        winner = items.index_select(0, runs.spread(winners[start:stop]))
        yield Pairs(winner, losers.index_select(0, place))
        start = stop
