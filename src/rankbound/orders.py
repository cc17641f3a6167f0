"""The distinct orders of lists of grades: their number, and the order with a given index.

Items of one grade are interchangeable: an order is a grade per rank. N items with $c_g$ of each grade g have
$N! / \\prod_g c_g!$ orders, all equally likely under a random permutation.
"""

from collections.abc import Sequence
from math import comb, inf, lgamma, log

import torch
from torch import Tensor

COUNTED_ORDERS = 1e15
"""Larger numbers of orders are reported as infinite."""


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
