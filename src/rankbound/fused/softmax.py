"""Cross-entropies of the scores' softmax: softmax, multinomial and ListNet."""

import math

import numpy as np

from rankbound.fused.compiler import compiled, part
from rankbound.fused.exponentials import exponentials
from rankbound.fused.formulas import TARGETS
from rankbound.fused.input import highest, is_valid, longest

# Shares of the relevance, shares of the gain 2^y - 1, the only relevant item, the softmax of the relevance.
LINEAR, EXP2, ONE, SOFTMAX = map(TARGETS.index, ("linear", "exp2", "one", "softmax"))


@part
def _targets(grades, kind, rel, shifted, target):
    """Write the targets of a list; return their sum before scaling to 1: 0 if uninformative, below 0 if refused."""
    total, n = 0.0, len(grades)
    top = highest(grades, 0, n)
    if top <= 0.0:
        return 0.0
    for i in range(n):
        y = grades[i]
        if kind == LINEAR:
            target[i] = y
        elif kind == EXP2:
            target[i] = 2.0**y - 1.0
        elif kind == ONE:
            target[i] = 1.0 if y >= rel else 0.0
        else:
            shifted[i] = y - top
    if kind == SOFTMAX:
        exponentials(shifted, n, target)
    for i in range(n):
        total += target[i]
    if kind == ONE and total > 1.0:
        return -1.0
    return total


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8,f8,f8[::1],f8[::1])")
def cross_entropy(scores, relevance, offsets, kind, rel, largest, losses, slopes):
    """See `rankbound.fused.Kernel`; `kind` is one of the targets, and `rel` the lowest relevant grade of `ONE`."""
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    informative = 0
    size = longest(offsets)
    target, x, power = np.empty(size), np.empty(size), np.empty(size)
    for t in range(len(offsets) - 1):
        first, stop = offsets[t], offsets[t + 1]
        n = stop - first
        # Loops over a part of an array become vector instructions; those over places that may be negative don't.
        score, slope = scores[first:stop], slopes[first:stop]
        losses[t] = 0.0
        total = _targets(relevance[first:stop], kind, rel, x, target)
        if total < 0.0:
            return -1
        if total == 0.0:
            slope[:] = 0.0
            continue
        informative += 1
        top = highest(score, 0, n)
        for i in range(n):
            x[i] = score[i] - top
        exponentials(x, n, power)
        powers = 0.0
        for i in range(n):
            powers += power[i]
        log_total, share, chance = math.log(powers), 1.0 / total, 1.0 / powers
        loss = 0.0
        for i in range(n):
            loss += target[i] * (log_total - x[i])
        losses[t] = loss * share
        for i in range(n):
            slope[i] = power[i] * chance - target[i] * share
    return informative
