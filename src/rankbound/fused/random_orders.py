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


@compiled("void(u8,i8,i8,f8[::1],f8[::1],f8[::1])")
def scores_of_orders(state, n, p, fixed, counted, scores):
    """Write the sums over the relevant items of random orders; see `rankbound.bounds._sampled.sums_of_orders`."""
    relevant = np.zeros(n, dtype=np.uint8)
    for row in range(len(scores)):
        for last in range(n - p, n):
            state += _GAMMA
            rank = np.int64(((_mixed(state) >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
            relevant[last if relevant[rank] else rank] = 1
        total, so_far = 0.0, 0.0
        for rank in range(n):
            is_relevant = float(relevant[rank])
            so_far += is_relevant
            total += is_relevant * (fixed[rank] + counted[rank] * so_far)
            relevant[rank] = 0
        scores[row] = total
