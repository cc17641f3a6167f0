"""Sums of exponentials of score differences over a sorted list: `rankbound.scans`, one list at a time."""

import numpy as np

from rankbound.fused.compiler import ordered_part, part
from rankbound.fused.parts import exponentials


@part
def decays(scores, order, n, temperature, decay):
    """Write the exponential of minus the gap from each item, in ascending order of score, to the one before."""
    gap = np.zeros(n)
    for k in range(1, n):
        gap[k] = (scores[order[k - 1]] - scores[order[k]]) / temperature
    exponentials(gap, n, decay)


@ordered_part
def decayed(weight, decay, n, before, behind):
    """Write the weights of the items before and behind each, which decay with their gaps to it."""
    total = 0.0
    for k in range(n):
        before[k] = total
        if k + 1 < n:
            total = decay[k + 1] * (total + weight[k])
    total = 0.0
    for k in range(n - 1, -1, -1):
        behind[k] = total
        total = decay[k] * (total + weight[k])
