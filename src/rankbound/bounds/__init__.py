"""Bounds of ranking metrics: extremes, expectations and score distributions over all orders of a list.

- `base` has the class of bounds and bounded metrics; `affine` and `distribution` have the bounds.
- `extremes` has the smallest, largest and mean values, which need no PyTorch for binary lists.
- `score_distribution` chooses among the methods: `exact` enumeration, formulas and Fourier series, `sampled` orders,
  `tilted` orders, and, for any metric, the orders of `profiles`; `tables` has the distributions of many lists.
"""
