"""The distinct orders of lists of grades: how many there are, and the one with a given number.

Items of one grade are alike, so that an order is which grade stands at which rank. N items with $c_g$ of each grade g
have $N! / \\prod_g c_g!$ orders; in random order all are equally likely.
"""

from collections.abc import Sequence
from math import comb, inf, lgamma, log

import torch
from torch import Tensor

COUNTED_ORDERS = 1e15
"""More orders than these are too many for any use, and their number too large to be handy."""


def n_orders(counts: Sequence[int]) -> int | float:
    """How many orders items have of which `counts[g]` are of kind g; infinitely many beyond 10^15."""
    if lgamma(sum(counts) + 1) - sum(lgamma(count + 1) for count in counts) > log(COUNTED_ORDERS):
        return inf
    ways, placed = 1, 0
    for count in counts:
        placed += count
        ways *= comb(placed, count)
    return ways


def orders_at(counts: Tensor, ways: Tensor, index: Tensor) -> Tensor:
    """The kind of item at each rank, `(n_rows, longest)`, in the order number `index` of its row's items.

    `counts` `(n_rows, n_kinds)` says how many of each kind a row has, `ways` `(n_rows,)` how many orders (`n_orders`),
    and `index` `(n_rows,)`, from 0, which of them; all int64. Ranks beyond a row's items hold `n_kinds`. Indices count
    the orders from the one with the first kinds on top to its reverse.
    """
    left, ways, index = counts.clone(), ways.clone(), index.clone()
    size = counts.sum(1)
    longest = int(size.max()) if len(counts) else 0
    kinds = counts.new_empty(len(counts), longest)
    row = torch.arange(len(counts), device=counts.device)
    for rank in range(longest):
        # Of all orders of what is left, the share c_g / N begins with kind g.
        begin_so = ways[:, None] * left // (size - rank).clamp(min=1)[:, None]
        up_to = begin_so.cumsum(1)
        kind = (index[:, None] >= up_to).sum(1)
        kinds[:, rank] = kind
        kind = kind.clamp(max=counts.shape[1] - 1)
        ways = begin_so[row, kind]
        index = index - (up_to[row, kind] - ways)
        left[row, kind] -= 1
    return kinds
