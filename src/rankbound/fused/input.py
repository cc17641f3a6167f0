"""Checks of a kernel's input, whose errors the reference reports."""

import numpy as np

from rankbound.fused.compiler import part


@part
def is_valid(scores, relevance, offsets, largest):
    """Return true for lists that are whole, finite scores, and relevance from 0 to `largest`."""
    n = len(scores)
    if len(relevance) != n or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        return False
    for t in range(len(offsets) - 1):
        if offsets[t + 1] < offsets[t]:
            return False
    total, fits = 0.0, True
    for i in range(n):
        # Infinities and NaN make the product NaN.
        total += scores[i] * 0.0
        fits &= (relevance[i] >= 0.0) & (relevance[i] <= largest)
    return fits and not np.isnan(total)


@part
def longest(offsets):
    """Return the number of items of the longest list."""
    most = 0
    for t in range(len(offsets) - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    return most
