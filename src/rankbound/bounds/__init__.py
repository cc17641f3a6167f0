"""Bounds of ranking metrics: extremes, expectations and score distributions over all orders of a list.

- `base` has the bounds and bounded metrics.
- `extremes` has the smallest, largest and mean values, which need no PyTorch for binary lists, and the facts about
  lists that bounds use.
- `score_distribution` chooses among the methods, those of `orders` and drawn `sums` over the relevant items; `tables`
  has the distributions of many lists.
"""
