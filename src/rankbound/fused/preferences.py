"""RankNet's cross-entropy of all pairs of items with different grades."""

import numpy as np

from rankbound.fused import LEFT
from rankbound.fused.compiler import compiled, part
from rankbound.fused.formulas import PAIRS_OF_ITEM, PAIRS_WORTH_INTERPOLATION
from rankbound.fused.parts import WIDEST, counted, exponentials, is_valid, logarithms_of_next, longest, sorted_list


@part
def pairs_of(key, n):
    """Return the number of pairs of different keys, which ascend."""
    pairs, start = 0, 0
    for i in range(1, n + 1):
        if i == n or key[i] != key[start]:
            pairs += (i - start) * start
            start = i
    return pairs


@part
def compare(i, start, power, odds, logs):
    """Write the odds against item i in its pairs with the first ones, and the pairs' losses."""
    inverse = 1.0 / power[i]
    for j in range(start):
        odds[j] = power[j] * inverse
    logarithms_of_next(odds, start, logs)


@part
def add_weighted(i, start, weights, odds, logs, slope):
    """Return the loss of the pairs of item i with the first ones, and add its derivatives by all scores to `slope`."""
    loss, pushed = 0.0, 0.0
    for j in range(start):
        odds[j] = weights[j] * odds[j] / (1.0 + odds[j])
    for j in range(start):
        loss += weights[j] * logs[j]
        pushed += odds[j]
    for j in range(start):
        slope[j] += odds[j]
    slope[i] -= pushed
    return loss


@part
def add_curvature(i, start, weights, odds, bent, bend):
    """Add the second derivatives of the pairs of item i with the first ones to `bend`."""
    total = 0.0
    for j in range(start):
        inverse = 1.0 / (1.0 + odds[j])
        bent[j] = weights[j] * (odds[j] * inverse) * inverse
    for j in range(start):
        total += bent[j]
    for j in range(start):
        bend[j] += bent[j]
    bend[i] += total


@compiled("i8(f8[::1],f8[::1],i8[::1],f8,b1,b1,b1,f8[::1],f8[::1],f8[::1])")
def logistic(scores, relevance, offsets, temperature, mean, by_difference, always, curvature, losses, slopes):
    """See `rankbound.fused.Kernel`: `mean` over pairs, weighted by their difference of grades or alike.

    The second derivatives are written to `curvature` unless it is `NO_CURVATURE`.

    Unless `always`, lists are left to the reference for which its interpolation is faster.
    """
    if not is_valid(scores, relevance, offsets, np.inf):
        return -1
    size = longest(offsets)
    order, key, x = np.empty(size, np.int64), np.empty(size), np.empty(size)
    power, odds, logs, weights = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    slope, bent, bend, curved = np.empty(size), np.empty(size), np.empty(size), len(curvature) > 0
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        lowest = sorted_list(scores, relevance, first, n, temperature, order, key, x)
        pairs = pairs_of(key, n)
        informative += pairs > 0
        affordable = PAIRS_OF_ITEM * n + PAIRS_WORTH_INTERPOLATION
        if pairs > 0 and (not lowest >= -WIDEST or (pairs > affordable and not always)):
            losses[t], left = LEFT, left + 1
            continue
        losses[t] = 0.0
        exponentials(x, n, power)
        for k in range(n):
            slope[k], bend[k] = 0.0, 0.0
        start, loss = 0, 0.0
        for i in range(n):
            if key[i] != key[start]:
                start = i
            if start == 0:
                continue
            compare(i, start, power, odds, logs)
            for j in range(start):
                weights[j] = key[i] - key[j] if by_difference else 1.0
            if curved:
                add_curvature(i, start, weights, odds, bent, bend)
            loss += add_weighted(i, start, weights, odds, logs, slope)
        scale = 1.0 / max(pairs, 1) if mean else 1.0
        losses[t] = loss * scale
        for k in range(n):
            slopes[first + order[k]] = slope[k] * scale / temperature
            if curved:
                curvature[first + order[k]] = bend[k] * scale / temperature**2
    return counted(informative, left)
