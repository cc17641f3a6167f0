"""Logistic losses of pairs of items with different grades: RankNet and LambdaRank."""

import numpy as np

from rankbound.kernels import LEFT
from rankbound.kernels.compiler import compiled, part
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

# Weights of a pair: 1, the difference of the grades, the change in DCG when the two items swap ranks.
ALIKE, BY_DIFFERENCE, BY_SWAP = range(3)


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,Tuple((i8,f8,i8,i8,i8,i8)),f8,f8,b1,UniTuple(i8,2),f8[::1],f8[::1],f8[::1])")
def logistic(
    scores, relevance, offsets, weighting, formula, largest, temperature, mean, most_pairs, curvature, losses, slopes
):
    """See `rankbound.kernels.Kernel`: the cross-entropy of all pairs of a list, weighted; their `mean` or sum.

    `formula` are the numbers of the DCG's `Formula`, by whose changes pairs are weighted. The second derivatives are
    written to `curvature` unless it is empty. Lists with more pairs than `most_pairs`, some and some more per item, are
    left to the reference.
    """
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    _, _, gain, discount, cutoff, _ = formula
    size, curved, has_ties = longest(offsets), len(curvature) > 0, False
    order, by_score, block = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    key, raw, x, weights = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    power, odds, logs, slope = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    gains, own, inside, table = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    bent, bend = np.empty(size), np.empty(size)
    for place in range(size):
        table[place] = discount_of_rank(place + 1.0, discount)[0] if cutoff == 0 or place < cutoff else 0.0
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t], slopes[first : first + n], curvature[first : first + n * curved] = 0.0, 0.0, 0.0
        lowest = sorted_list(scores, relevance, first, n, temperature, order, key, x)
        pairs, divisor = _pairs_of(key, n), 1.0
        if pairs == 0:
            continue
        informative += weighting != BY_SWAP or table[0] != table[n - 1]
        if weighting == BY_SWAP:
            # Relevant items come last; the normaliser takes their gains first.
            p = 0
            while p < n and key[n - 1 - p] > 0.0:
                gains[p] = gain_of_grade(key[n - 1 - p], gain)
                p += 1
            divisor = normaliser(formula, gains, p)
        if divisor == 0.0 or not lowest >= -WIDEST or pairs > most_pairs[0] + most_pairs[1] * n:
            losses[t], left = LEFT, left + 1
            continue
        if weighting == BY_SWAP:
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
            if weighting == BY_SWAP:
                for j in range(start):
                    weights[j] = (gains[i] - gains[j]) * abs(own[i] - own[j])
                if has_ties:
                    for j in range(start):
                        if block[j] == block[i]:
                            weights[j] = (gains[i] - gains[j]) * inside[i]
            else:
                for j in range(start):
                    weights[j] = key[i] - key[j] if weighting == BY_DIFFERENCE else 1.0
            if curved:
                _add_curvature(i, start, weights, odds, bent, bend)
            loss += _add_weighted(i, start, weights, odds, logs, slope)
        scale = 1.0 / pairs if mean else 1.0
        losses[t] = loss * scale
        for k in range(n):
            slopes[first + order[k]] = slope[k] * scale / temperature
            if curved:
                curvature[first + order[k]] = bend[k] * scale / temperature**2
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
