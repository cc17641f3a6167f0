"""ListMLE: each item is drawn from the items of its grade and below."""

import math

import numpy as np

from rankbound.fused import LEFT
from rankbound.fused.compiler import compiled, part
from rankbound.fused.exponentials import exponentials
from rankbound.fused.input import counted, is_valid, longest
from rankbound.fused.preferences import WIDEST, sorted_list


@part
def _log_of_sum(a, b):
    """Return the logarithm of the sum of two exponentials; minus infinity stands for the logarithm of 0."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8[::1],f8[::1])")
def list_mle(scores, relevance, offsets, cutoff, losses, slopes):
    """See `rankbound.fused.Kernel`; a cut-off of 0 is none."""
    if not is_valid(scores, relevance, offsets, np.inf):
        return -1
    size = longest(offsets)
    order, key, x = np.empty(size, np.int64), np.empty(size), np.empty(size)
    shifted, power, left = np.empty(size), np.empty(size), np.empty(size)
    informative, n_left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t] = 0.0
        for i in range(n):
            slopes[first + i] = 0.0
        lowest = sorted_list(scores, relevance, first, n, 1.0, order, key, x)
        if n == 0 or key[n - 1] <= 0.0:
            continue
        informative += 1
        if not lowest >= -WIDEST:
            losses[t], n_left = LEFT, n_left + 1
            continue
        # The logarithm of the sum over each item's grade and those below, from the lowest grade up.
        start = 0
        while start < n:
            stop = start + 1
            while stop < n and key[stop] == key[start]:
                stop += 1
            top = -np.inf
            for i in range(start, stop):
                top = max(top, x[i])
            for i in range(start, stop):
                shifted[i] = x[i] - top
                left[i] = top
            start = stop
        exponentials(shifted, n, power)
        start, below = 0, -np.inf
        while start < n:
            stop, total = start, 0.0
            while stop < n and key[stop] == key[start]:
                total += power[stop]
                stop += 1
            below = _log_of_sum(below, left[start] + math.log(total))
            for i in range(start, stop):
                left[i] = below
            start = stop
        # The logarithm of the expected number of draws of a unit of weight, from the highest grade down.
        stop, draws, loss = n, -np.inf, 0.0
        while stop > 0:
            start = stop - 1
            while start > 0 and key[start - 1] == key[stop - 1]:
                start -= 1
            count = stop - start
            within = count if cutoff == 0 else min(max(cutoff - (n - stop), 0), count)
            if within > 0:
                draws = _log_of_sum(draws, math.log(float(within)) - left[start])
            share = within / count
            scores_above = 0.0
            for i in range(start, stop):
                scores_above += left[start] - x[i]
            loss += share * scores_above
            for i in range(start, stop):
                shifted[i] = x[i] + draws
                left[i] = share
            stop = start
        exponentials(shifted, n, power)
        losses[t] = loss
        for i in range(n):
            slopes[first + order[i]] = power[i] - left[i]
    return counted(informative, n_left)
