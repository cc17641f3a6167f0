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
def _targets(relevance, first, n, kind, rel, target):
    """Write the targets of a list; return their sum before scaling to 1: 0 if uninformative, below 0 if refused."""
    total = 0.0
    top = highest(relevance, first, n)
    if top <= 0.0:
        return 0.0
    for i in range(n):
        y = relevance[first + i]
        if kind == LINEAR:
            target[i] = y
        elif kind == EXP2:
            target[i] = 2.0**y - 1.0
        elif kind == ONE:
            target[i] = 1.0 if y >= rel else 0.0
        else:
            target[i] = y - top
    if kind == SOFTMAX:
        exponentials(target, n, target)
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
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t] = 0.0
        total = _targets(relevance, first, n, kind, rel, target)
        if total < 0.0:
            return -1
        if total == 0.0:
            for i in range(n):
                slopes[first + i] = 0.0
            continue
        informative += 1
        top = highest(scores, first, n)
        for i in range(n):
            x[i] = scores[first + i] - top
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
            slopes[first + i] = power[i] * chance - target[i] * share
    return informative
