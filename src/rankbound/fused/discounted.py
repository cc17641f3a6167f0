"""Gains, discounts and normalisers of DCG and its kin."""

import math

import numpy as np

from rankbound.fused.compiler import part
from rankbound.fused.formulas import AP, DISCOUNTS, GAINS, RANK_SUM
from rankbound.fused.sorting import ascending

GAIN_EXP2 = GAINS.index("exp2")
LOG2_OF_NEXT, LOG2, CONSTANT = map(DISCOUNTS.index, ("log2(r+1)", "log2(r)", "constant"))


@part
def gain_of_grade(y, gain):
    return 2.0**y - 1.0 if gain == GAIN_EXP2 else y


@part
def discount_of_rank(rank, discount):
    """Return the discount of a rank and its derivative."""
    if discount == CONSTANT:
        return 1.0, 0.0
    shifted = rank + 1.0 if discount == LOG2_OF_NEXT else rank
    # At its kink, the slope is that of the ranks below.
    if shifted < 2.0 and discount == LOG2:
        return 1.0, 0.0
    log = math.log(shifted)
    value = math.log(2.0) / log
    return value, -value / (log * shifted)


@part
def normaliser(kind, normalised, gains, p, discount, cutoff):
    """Return the divisor of a list with these gains of its relevant items."""
    if kind == AP:
        return float(p)
    if kind == RANK_SUM or not normalised:
        return 1.0
    ranked = gains[:p]
    for i in range(1, p):
        if ranked[i] != ranked[0]:
            ranked = np.empty(p)
            order = np.empty(p, np.int64)
            ascending(gains, p, order)
            for k in range(p):
                ranked[k] = gains[order[p - 1 - k]]
            break
    total = 0.0
    for i in range(p if cutoff == 0 else min(p, cutoff)):
        total += ranked[i] * discount_of_rank(i + 1.0, discount)[0]
    return total
