"""Checks of a kernel's input, whose errors the reference reports, and extremes of it."""

import numpy as np

from rankbound.fused.compiler import part

LARGEST = np.finfo(np.float64).max

# Lists from which on it pays to keep several maxima.
LONG = 32


@part
def is_valid(scores, relevance, offsets, largest):
    """Return true for lists that are whole, finite scores, and finite relevance from 0 to `largest`."""
    n = len(scores)
    if len(relevance) != n or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        return False
    for t in range(len(offsets) - 1):
        if offsets[t + 1] < offsets[t]:
            return False
    total, fits, largest = 0.0, True, min(largest, LARGEST)
    for i in range(n):
        # Infinities and NaN make the product NaN.
        total += scores[i] * 0.0
        fits &= (relevance[i] >= 0.0) & (relevance[i] <= largest)
    return fits and not np.isnan(total)


@part
def counted(informative, left):
    """Return what a kernel returns for its informative lists, if it leaves so many lists to the reference."""
    return informative if left == 0 else -2 - informative


@part
def longest(offsets):
    """Return the number of items of the longest list."""
    most = 0
    for t in range(len(offsets) - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    return most


@part
def highest(values, first, n):
    """Return the largest of the n values from `first`; minus infinity without values."""
    # Four maxima in long lists, since each has to wait for the one before.
    a = b = c = d = -np.inf
    stop = first + (n - n % 4 if n >= LONG else 0)
    for i in range(first, stop, 4):
        a, b, c, d = max(a, values[i]), max(b, values[i + 1]), max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(stop, first + n):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))
