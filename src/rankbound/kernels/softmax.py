"""Cross-entropies of the scores' softmax: softmax, multinomial, ListNet, and ListMLE, item by item."""

import math

import numpy as np

from rankbound.kernels import LEFT
from rankbound.kernels.compiler import compiled, part
from rankbound.kernels.formulas import TARGETS
from rankbound.kernels.parts import (
    LONG,
    WIDEST,
    counted,
    exponentials,
    highest,
    is_valid,
    logarithms_of_next,
    longest,
    sorted_list,
)

# Shares of the relevance, shares of the gain 2^y - 1, the only relevant item, the softmax of the relevance.
LINEAR, EXP2, ONE, SOFTMAX = map(TARGETS.index, ("linear", "exp2", "one", "softmax"))

# Short lists up to this number of items are computed together: loops over one of them at a time would hardly pay.
BLOCK = 1024


@part
def _block_end(offsets, begin):
    """Return the list up to which the lists from `begin` are computed together: at least one, at most `BLOCK`."""
    end = begin + 1
    while end < len(offsets) - 1 and end - begin < BLOCK and offsets[end + 1] - offsets[begin] <= BLOCK:
        end += 1
    return end


@part
def _below_highest(values, limits, tops, below):
    """Write the highest value of each list, and all values less this."""
    for t in range(len(limits) - 1):
        start, stop = np.uint64(limits[t]), np.uint64(limits[t + 1])
        if stop - start < LONG:
            top = -np.inf
            for i in range(start, stop):
                top = values[i] if values[i] > top else top
        else:
            top = highest(values, limits[t], limits[t + 1] - limits[t])
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
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    informative, left, begin, size = 0, 0, 0, max(longest(offsets), BLOCK)
    x, power, target, shifted = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    tops, totals, gains, others, logs = np.empty((5, BLOCK))
    while begin < len(offsets) - 1:
        end = _block_end(offsets, begin)
        first, last = offsets[begin], offsets[end]
        limits, slope = offsets[begin : end + 1] - first, slopes[first:last]
        if kind == SOFTMAX:
            _below_highest(relevance[first:last], limits, tops, shifted)
            exponentials(shifted, last - first, target)
        else:
            _targets(relevance[first:last], kind, rel, target)
            tops[:] = 1.0
        _below_highest(scores[first:last], limits, others, x)
        exponentials(x, last - first, power)
        _sums(target, x, power, limits, totals, gains, others)
        logarithms_of_next(others, end - begin, logs)
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
    return counted(informative, left)


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8[::1],f8[::1])")
def list_mle(scores, relevance, offsets, cutoff, losses, slopes):
    """ListMLE, by which each item is drawn from the items of its grade and below; a cut-off of 0 is none.

    See `rankbound.kernels.Kernel`.
    """
    if not is_valid(scores, relevance, offsets, np.inf):
        return -1
    size = longest(offsets)
    order, key, x = np.empty(size, np.int64), np.empty(size), np.empty(size)
    power, sums = np.empty(size), np.empty(size)
    informative, left = 0, 0
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        losses[t], slopes[first : first + n] = 0.0, 0.0
        lowest = sorted_list(scores, relevance, first, n, 1.0, order, key, x)
        if n == 0 or key[n - 1] <= 0.0:
            continue
        informative += 1
        if not lowest >= -WIDEST:
            losses[t], left = LEFT, left + 1
            continue
        exponentials(x, n, power)
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
    return counted(informative, left)
