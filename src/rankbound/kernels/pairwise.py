"""Losses of pairs of items with different grades: RankNet and LambdaRank."""

import numpy as np

from rankbound.kernels import LEFT
from rankbound.kernels.compiler import compiled, part
from rankbound.kernels.formulas import PAIRS_OF_ITEM, PAIRS_WORTH_INTERPOLATION
from rankbound.kernels.parts import (
    WIDEST,
    ascending,
    counted,
    discount_of_rank,
    exponentials,
    gain_of_grade,
    is_valid,
    logarithms_of_next,
    longest,
    normaliser,
    sorted_list,
)

# Lists with more pairs are left to the reference, which warns of them.
MOST_PAIRS = 50_000_000


@compiled("i8(f8[::1],f8[::1],i8[::1],f8,b1,b1,b1,f8[::1],f8[::1],f8[::1])")
def logistic(scores, relevance, offsets, temperature, mean, by_difference, always, curvature, losses, slopes):
    """RankNet: the cross-entropy of all pairs of items with different grades, weighted by their difference or alike.

    See `rankbound.kernels.Kernel`; the loss is the `mean` over pairs, or their sum. The second derivatives are written
    to `curvature` unless it is empty. Unless `always`, lists are left to the reference for which its
    interpolation is faster.
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
        pairs = _pairs_of(key, n)
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
            _compare(i, start, power, odds, logs)
            for j in range(start):
                weights[j] = key[i] - key[j] if by_difference else 1.0
            if curved:
                _add_curvature(i, start, weights, odds, bent, bend)
            loss += _add_weighted(i, start, weights, odds, logs, slope)
        scale = 1.0 / max(pairs, 1) if mean else 1.0
        losses[t] = loss * scale
        for k in range(n):
            slopes[first + order[k]] = slope[k] * scale / temperature
            if curved:
                curvature[first + order[k]] = bend[k] * scale / temperature**2
    return counted(informative, left)


@compiled("i8(f8[::1],f8[::1],i8[::1],Tuple((i8,f8,i8,i8,i8,i8)),f8,f8,f8[::1],f8[::1],f8[::1])")
def lambdarank(scores, relevance, offsets, formula, largest, temperature, curvature, losses, slopes):
    """LambdaRank: the cross-entropy of pairs, weighted by the change in DCG when the two items swap ranks.

    See `rankbound.kernels.Kernel`; `formula` are the numbers of the DCG's `Formula`. The second derivatives are written
    to `curvature` unless it is empty.
    """
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    _, _, gain, discount, cutoff, _ = formula
    size = longest(offsets)
    order, by_score, block = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    key, raw, x = np.empty(size), np.empty(size), np.empty(size)
    power, odds, logs = np.empty(size), np.empty(size), np.empty(size)
    weights, slope, gains, own, inside = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    table, bent, bend, curved = np.empty(size), np.empty(size), np.empty(size), len(curvature) > 0
    for place in range(size):
        table[place] = discount_of_rank(place + 1.0, discount)[0] if cutoff == 0 or place < cutoff else 0.0
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t] = 0.0
        for i in range(n):
            slopes[first + i] = 0.0
            if curved:
                curvature[first + i] = 0.0
        lowest = sorted_list(scores, relevance, first, n, temperature, order, key, x)
        if n == 0 or key[n - 1] <= 0.0:
            continue
        informative += key[n - 1] > key[0] and table[0] != table[n - 1]
        # Relevant items come last; the normaliser takes their gains first.
        p = 0
        while p < n and key[n - 1 - p] > 0.0:
            gains[p] = gain_of_grade(key[n - 1 - p], gain)
            p += 1
        divisor = normaliser(formula, gains, p)
        if divisor == 0.0 or not lowest >= -WIDEST or _pairs_of(key, n) > MOST_PAIRS:
            losses[t], left = LEFT, left + 1
            continue
        for k in range(n):
            gains[k] = gain_of_grade(key[k], gain) / divisor
        # Relative to the highest score, scores that differ by less than its rounding would be ties.
        for k in range(n):
            raw[k] = scores[first + order[k]]
        has_ties = _discounts(raw, n, table, by_score, block, own, inside)
        exponentials(x, n, power)
        for k in range(n):
            slope[k], bend[k] = 0.0, 0.0
        start, loss = 0, 0.0
        for i in range(n):
            if key[i] != key[start]:
                start = i
            if start == 0:
                continue
            _compare(i, start, power, odds, logs)
            for j in range(start):
                weights[j] = (gains[i] - gains[j]) * abs(own[i] - own[j])
            if has_ties:
                for j in range(start):
                    if block[j] == block[i]:
                        weights[j] = (gains[i] - gains[j]) * inside[i]
            if curved:
                _add_curvature(i, start, weights, odds, bent, bend)
            loss += _add_weighted(i, start, weights, odds, logs, slope)
        losses[t] = loss
        for k in range(n):
            slopes[first + order[k]] = slope[k] / temperature
            if curved:
                curvature[first + order[k]] = bend[k] / temperature**2
    return counted(informative, left)


@part
def _pairs_of(key, n):
    """Return the number of pairs of different keys, which ascend."""
    pairs, start = 0, 0
    for i in range(1, n + 1):
        if i == n or key[i] != key[start]:
            pairs += (i - start) * start
            start = i
    return pairs


# The loops over the pairs of an item stand in three parts: as one, they compile to code that is a sixth slower.
@part
def _compare(i, start, power, odds, logs):
    """Write the odds against item i in its pairs with the first ones, and the pairs' losses."""
    inverse = 1.0 / power[i]
    for j in range(start):
        odds[j] = power[j] * inverse
    logarithms_of_next(odds, start, logs)


@part
def _add_weighted(i, start, weights, odds, logs, slope):
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
def _add_curvature(i, start, weights, odds, bent, bend):
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


@part
def _discounts(x, n, table, by_score, block, own, inside):
    """Write each item's block of tied scores, its mean discount, and the mean gap of two discounts of the block."""
    ascending(x, n, by_score)
    has_ties = False
    stop = n
    while stop > 0:
        start = stop - 1
        while start > 0 and x[by_score[start - 1]] == x[by_score[stop - 1]]:
            start -= 1
        count = stop - start
        has_ties |= count > 1
        # The items at start .. stop - 1 in ascending order have the ranks n - stop + 1 .. n - start.
        total, gaps = 0.0, 0.0
        for place in range(count):
            d = table[n - stop + place]
            total += d
            gaps += (count - 1 - 2 * place) * d
        for k in range(start, stop):
            item = by_score[k]
            block[item], own[item] = start, total / count
            inside[item] = 2.0 * abs(gaps) / (count * (count - 1.0)) if count > 1 else 0.0
        stop = start
    return has_ties
