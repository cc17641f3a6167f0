"""Losses of pairs and of the scores' softmax, and the products of a step of training.

RankNet and LambdaRank are logistic losses of the pairs of items with different grades. Softmax, multinomial and ListNet
are cross-entropies, of which short lists are computed together; ListMLE is one of each draw. The products are those of
factors of topics and items, with their gradients, and of slopes with upstream gradients.
"""

import math

import numpy as np

from rankbound.kernels import LEFT, compiled, part, parts
from rankbound.kernels.formulas import TARGETS

# Weights of a pair: 1, the difference of the grades, the change in DCG when the two items swap ranks.
ALIKE, BY_DIFFERENCE, BY_SWAP = range(3)

# Shares of the relevance, shares of the gain 2^y - 1, the only relevant item, the softmax of the relevance.
LINEAR, EXP2, ONE, SOFTMAX = map(TARGETS.index, ("linear", "exp2", "one", "softmax"))

# Lists are computed together as far as they have so many items: loops over a short one at a time would hardly pay.
BLOCK = 1024


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,Tuple((i8,f8,i8,i8,i8,i8)),f8,f8,b1,UniTuple(i8,2),f8[::1],f8[::1],f8[::1])")
def logistic(
    scores, relevance, offsets, weighting, formula, largest, temperature, mean, most_pairs, curvature, losses, slopes
):
    """See `rankbound.kernels.Kernel`: the cross-entropy of all pairs of a list, weighted; their `mean` or sum.

    `formula` are the numbers of the DCG's `Formula`, by whose changes pairs are weighted. The second derivatives are
    written to `curvature` unless it is empty. Lists with more pairs than `most_pairs`, some and some more per item, are
    left to the reference.
    """
    if not parts.is_valid(scores, relevance, offsets, largest):
        return -1
    _, _, gain, discount, cutoff, _ = formula
    size, curved, has_ties = parts.longest(offsets), len(curvature) > 0, False
    order, by_score, block = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    key, raw, x, weights = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    power, odds, logs, slope = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    gains, own, inside, table = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    bent, bend = np.empty(size), np.empty(size)
    for place in range(size):
        table[place] = parts.discount_of_rank(place + 1.0, discount)[0] if cutoff == 0 or place < cutoff else 0.0
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t], slopes[first : first + n], curvature[first : first + n * curved] = 0.0, 0.0, 0.0
        lowest = parts.sorted_list(scores, relevance, first, n, temperature, order, key, x)
        pairs, divisor = _pairs_of(key, n), 1.0
        if pairs == 0:
            continue
        informative += weighting != BY_SWAP or table[0] != table[n - 1]
        if weighting == BY_SWAP:
            # Relevant items come last; the normaliser takes their gains first.
            p = 0
            while p < n and key[n - 1 - p] > 0.0:
                gains[p] = parts.gain_of_grade(key[n - 1 - p], gain)
                p += 1
            divisor = parts.normaliser(formula, gains, p)
        if divisor == 0.0 or not lowest >= -parts.WIDEST or pairs > most_pairs[0] + most_pairs[1] * n:
            losses[t], left = LEFT, left + 1
            continue
        if weighting == BY_SWAP:
            for k in range(n):
                gains[k] = parts.gain_of_grade(key[k], gain) / divisor
            # Relative to the highest score, scores that differ by less than its rounding would be ties.
            for k in range(n):
                raw[k] = scores[first + order[k]]
            has_ties = _discounts(raw, n, table, by_score, block, own, inside)
        parts.exponentials(x, n, power)
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
    return -2 - informative if left else informative


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
    parts.logarithms_of_next(odds, start, logs)


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
    parts.ascending(x, n, by_score)
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


@part
def _below_highest(values, limits, tops, below):
    """Write the highest value of each list, and all values less this."""
    for t in range(len(limits) - 1):
        start, stop = np.uint64(limits[t]), np.uint64(limits[t + 1])
        if stop - start < parts.LONG:
            top = -np.inf
            for i in range(start, stop):
                top = values[i] if values[i] > top else top
        else:
            top = parts.highest(values, limits[t], limits[t + 1] - limits[t])
        tops[t] = top
        for i in range(start, stop):
            below[i] = values[i] - top


@part
def _targets(grades, kind, rel, target):
    """Write the targets of lists, which do not sum to 1 yet."""
    for i in range(len(grades)):
        y = grades[i]
        if kind == LINEAR:
            target[i] = y
        elif kind == EXP2:
            target[i] = 2.0**y - 1.0
        else:
            target[i] = 1.0 if y >= rel else 0.0


@part
def _sums(target, x, power, limits, totals, gains, others):
    """Write the sums of targets, of targets times x, and of powers less 1, which is that of the highest score."""
    for t in range(len(limits) - 1):
        total = gain = powers = 0.0
        for i in range(np.uint64(limits[t]), np.uint64(limits[t + 1])):
            total += target[i]
            gain += target[i] * x[i]
            powers += power[i]
        totals[t], gains[t], others[t] = total, gain, powers - 1.0


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8,f8,f8[::1],f8[::1])")
def cross_entropy(scores, relevance, offsets, kind, rel, largest, losses, slopes):
    """See `rankbound.kernels.Kernel`; `kind` is one of the targets, and `rel` the lowest relevant grade of `ONE`."""
    if not parts.is_valid(scores, relevance, offsets, largest):
        return -1
    informative, left, begin, size = 0, 0, 0, max(parts.longest(offsets), BLOCK)
    x, power, target, shifted = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    tops, totals, gains, others, logs = np.empty((5, BLOCK))
    while begin < len(offsets) - 1:
        end = begin + 1
        while end < len(offsets) - 1 and end - begin < BLOCK and offsets[end + 1] - offsets[begin] <= BLOCK:
            end += 1
        first, last = offsets[begin], offsets[end]
        limits, slope = offsets[begin : end + 1] - first, slopes[first:last]
        if kind == SOFTMAX:
            _below_highest(relevance[first:last], limits, tops, shifted)
            parts.exponentials(shifted, last - first, target)
        else:
            _targets(relevance[first:last], kind, rel, target)
            tops[:] = 1.0
        _below_highest(scores[first:last], limits, others, x)
        parts.exponentials(x, last - first, power)
        _sums(target, x, power, limits, totals, gains, others)
        parts.logarithms_of_next(others, end - begin, logs)
        for t in range(end - begin):
            if kind == ONE and totals[t] > 1.0:
                return -1
            is_informative = tops[t] > 0.0 and totals[t] > 0.0
            informative += is_informative
            share = 1.0 / totals[t] if is_informative else 0.0
            chance = 1.0 / (others[t] + 1.0) if is_informative else 0.0
            losses[begin + t] = logs[t] - gains[t] * share if is_informative else 0.0
            if not np.isfinite(losses[begin + t]):
                losses[begin + t], left = LEFT, left + 1
            for i in range(np.uint64(limits[t]), np.uint64(limits[t + 1])):
                slope[i] = power[i] * chance - target[i] * share
        begin = end
    return -2 - informative if left else informative


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8[::1],f8[::1])")
def list_mle(scores, relevance, offsets, cutoff, losses, slopes):
    """ListMLE, by which each item is drawn from the items of its grade and below; a cut-off of 0 is none.

    See `rankbound.kernels.Kernel`.
    """
    if not parts.is_valid(scores, relevance, offsets, np.inf):
        return -1
    size = parts.longest(offsets)
    order, key, x = np.empty(size, np.int64), np.empty(size), np.empty(size)
    power, sums = np.empty(size), np.empty(size)
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t], slopes[first : first + n] = 0.0, 0.0
        lowest = parts.sorted_list(scores, relevance, first, n, 1.0, order, key, x)
        if n == 0 or key[n - 1] <= 0.0:
            continue
        informative += 1
        if not lowest >= -parts.WIDEST:
            losses[t], left = LEFT, left + 1
            continue
        parts.exponentials(x, n, power)
        # The sum over each item's grade and those below, from the lowest grade up.
        start, total = 0, 0.0
        while start < n:
            stop = start
            while stop < n and key[stop] == key[start]:
                total += power[stop]
                stop += 1
            for i in range(start, stop):
                sums[i] = total
            start = stop
        # The expected number of draws of a unit of power, from the highest grade down.
        stop, draws, loss = n, 0.0, 0.0
        while stop > 0:
            start = stop - 1
            while start > 0 and key[start - 1] == key[stop - 1]:
                start -= 1
            count, total = stop - start, math.log(sums[start])
            within = count if cutoff == 0 else min(max(cutoff - (n - stop), 0), count)
            share, above = within / count, 0.0
            draws += within / sums[start]
            for i in range(start, stop):
                above += total - x[i]
            loss += share * above
            for i in range(start, stop):
                slopes[first + order[i]] = power[i] * draws - share
            stop = start
        losses[t] = loss
    return -2 - informative if left else informative


@compiled("void(f8[::1],f8[::1],i8[::1],f8[::1])")
def times_upstream(upstream, slopes, offsets, gradient):
    """Write the slopes of each list times its upstream gradient."""
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            gradient[i] = upstream[t] * slopes[i]


@compiled("b1(f4[:,::1],f4[:,::1],i8[::1],i8[::1],f4[::1])")
def products(of_topics, of_items, topics, items, scores):
    """Write the product of each item's factors and its topic's; return false for an index out of range."""
    for i in range(len(items)):
        if not (0 <= topics[i] < len(of_topics) and 0 <= items[i] < len(of_items)):
            return False
        p, q = of_topics[topics[i]], of_items[items[i]]
        total = np.float32(0.0)
        for k in range(len(p)):
            total += p[k] * q[k]
        scores[i] = total
    return True


@compiled("void(f4[:,::1],f4[:,::1],i8[::1],i8[::1],f4[::1],f4[:,::1],f4[:,::1])")
def add_gradients(of_topics, of_items, topics, items, upstream, topic_gradients, item_gradients):
    """Add the gradients of the products by the factors, given those by the products."""
    for i in range(len(items)):
        p, q = of_topics[topics[i]], of_items[items[i]]
        of_p, of_q = topic_gradients[topics[i]], item_gradients[items[i]]
        slope = upstream[i]
        for k in range(len(p)):
            of_p[k] += slope * q[k]
        for k in range(len(p)):
            of_q[k] += slope * p[k]
