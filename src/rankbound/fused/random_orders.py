"""Scores of random orders of a list."""

import numpy as np

from rankbound.fused.compiler import compiled, part

# Constants of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@part
def _mixed(state):
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


@part
def _below(state, end):
    """Return a number from 0 to end - 1."""
    return np.int64(((_mixed(state) >> np.uint64(32)) * np.uint64(end)) >> np.uint64(32))


@compiled("void(u8,i8,f8[::1],f8[::1])")
def sums_of_ranks(state, p, fixed, sums):
    """Write the sums of `fixed` over the ranks of p relevant items; see `rankbound.bounds.sampled.sums_of_orders`."""
    n, values = len(fixed), fixed.copy()
    for row in range(len(sums)):
        values[:] = fixed
        total = 0.0
        for place in range(p):
            state += _GAMMA
            other = place + _below(state, n - place)
            chosen = values[other]
            values[other] = values[place]
            total += chosen
        sums[row] = total


@compiled("void(u8,i8,f8[::1],f8[::1],f8[::1])")
def sums_of_counts(state, p, fixed, counted, sums):
    """Write the sums of `fixed` and of `counted` times the number of relevant items so far, over relevant items."""
    n = len(fixed)
    places, ranks = np.arange(n), np.arange(n)
    relevant, so_far = np.zeros(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    for row in range(len(sums)):
        relevant[:] = 0
        ranks[:] = places
        for place in range(p):
            state += _GAMMA
            other = place + _below(state, n - place)
            relevant[ranks[other]] = 1
            ranks[other] = ranks[place]
        count = np.int32(0)
        for rank in range(n):
            count += relevant[rank]
            so_far[rank] = count
        total = 0.0
        for rank in range(n):
            total += relevant[rank] * (fixed[rank] + counted[rank] * so_far[rank])
        sums[row] = total
