"""Metrics of smooth ranks by the sigmoid, pair by pair: the value, gradient and curvature of each list in one pass.

`rankbound.losses.curvature` states the formula. A term depends on the two sums of its own target only (see
`rankbound.fused.smooth`), so that a source's curvature is a sum over targets of slopes, squared slopes and curvatures
of sigmoids.
"""

import math

import numpy as np

from rankbound.fused.compiler import compiled, part
from rankbound.fused.formulas import DCG, RANK_SUM
from rankbound.fused.parts import LOG2_OF_NEXT, discount_of_rank, exponentials, is_valid, longest, normaliser
from rankbound.fused.smooth import span, targets_first

# Score gaps, in units of the temperature, whose exponentials aren't those of the lowest number.
WIDEST = 700.0

# Nanoseconds on one core of an AMD EPYC (Zen 4): a pair here; an item, and a call, of the reference.
PAIR_COST, ITEM_COST, CALL_COST = 3.3, 1_700.0, 4_000_000.0


@part
def _derivatives_of_term(kind, gain, discount, cutoff, temperature, above, among):
    """Return a target's term, its derivatives by the sums (above, among), and the second ones (twice above, mixed)."""
    if kind == RANK_SUM:
        return above, 1.0, 0.0, 0.0, 0.0
    rank = above + 0.5
    if kind == DCG:
        value, slope = discount_of_rank(rank, discount)
        shifted = rank + 1.0 if discount == LOG2_OF_NEXT else rank
        twice = -gain * slope / shifted * (1.0 + 2.0 * value / math.log(2.0))
        value, by_above, by_among, mixed = gain * value, gain * slope, 0.0, 0.0
    else:
        value, by_among = (among + 0.5) / rank, 1.0 / rank
        by_above = -value / rank
        twice, mixed = -2.0 * by_above / rank, -by_among / rank
    if cutoff > 0:
        # The smooth membership in the first ranks, and its derivatives by the rank.
        inside = 1.0 / (1.0 + math.exp(-(cutoff + 0.5 - rank) / temperature))
        fall = -inside * (1.0 - inside) / temperature
        bend = -fall * (1.0 - 2.0 * inside) / temperature
        twice, mixed = twice * inside + 2.0 * by_above * fall + value * bend, mixed * inside + by_among * fall
        by_above, by_among, value = by_above * inside + value * fall, by_among * inside, value * inside
    return value, by_above, by_among, twice, mixed


@part
def _shares(power, own, start, stop, share, rest):
    """Write the sigmoid of each source, and 1 less it."""
    for j in range(start, stop):
        inverse = 1.0 / (power[j] + own)
        share[j] = power[j] * inverse
        rest[j] = own * inverse


@part
def _sums(share, rest, start, stop):
    """Return the sums of the sigmoids, their slopes and their curvatures."""
    total, slopes, bends = 0.0, 0.0, 0.0
    for j in range(start, stop):
        total += share[j]
        slopes += share[j] * rest[j]
        bends += share[j] * rest[j] * (rest[j] - share[j])
    return total, slopes, bends


@part
def _push(once, twice, share, rest, start, stop, slope, bend):
    """Add a target's part of the derivatives by each source, given those of its term by the sum of sigmoids."""
    for j in range(start, stop):
        slope[j] += once * share[j] * rest[j]
    for j in range(start, stop):
        step = share[j] * rest[j]
        bend[j] += step * (once * (rest[j] - share[j]) + twice * step)


@part
def _by_pairs(x, p, n, kind, gains, discount, cutoff, temperature, power, share, rest, slope, bend):
    """Return the sum of terms; write its derivatives by x."""
    exponentials(x, n, power)
    for j in range(n):
        slope[j], bend[j] = 0.0, 0.0
    value = 0.0
    for i in range(p):
        among, own_among, bend_among = 0.0, 0.0, 0.0
        _shares(power, power[i], 0, n, share, rest)
        # A target is half above itself, whatever its score.
        rest[i] = 0.0
        above, own, own_bend = _sums(share, rest, p, n)
        if kind != RANK_SUM:
            among, own_among, bend_among = _sums(share, rest, 0, p)
        term, by_above, by_among, twice, mixed = _derivatives_of_term(
            kind, gains[i], discount, cutoff, temperature, above + among, among
        )
        value += term
        _push(by_above, twice, share, rest, p, n, slope, bend)
        if kind != RANK_SUM:
            # A relevant source counts in both sums.
            _push(by_above + by_among, twice + 2.0 * mixed, share, rest, 0, p, slope, bend)
        own += own_among
        slope[i] -= by_above * own + by_among * own_among
        bend[i] += by_above * (own_bend + bend_among) + by_among * bend_among
        bend[i] += twice * own * own + 2.0 * mixed * own * own_among
    return value


@compiled("i8(f8[::1],f8[::1],i8[::1],i8,f8,i8,i8,i8,i8,f8,f8,b1,f8[::1],f8[::1],f8[::1])")
def smooth_curvature(
    scores,
    relevance,
    offsets,
    kind,
    rel,
    gain,
    discount,
    cutoff,
    normalised,
    largest,
    temperature,
    always,
    curvature,
    values,
    slopes,
):
    """See `rankbound.fused.Kernel`: the metric of each list, NaN without relevant items, and its derivatives.

    `kind` to `normalised` are the numbers of a `Formula`. Unless `always`, batches with a list are refused for which
    the reference is faster.
    """
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    informative, size = 0, longest(offsets)
    order = np.empty(size, np.int64)
    x, power, share, rest = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    slope, bend, gains = np.empty(size), np.empty(size), np.empty(size)
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        p, bottom, top = targets_first(scores, relevance, first, n, kind, rel, gain, order, gains, x)
        if p == 0:
            values[t] = np.nan
            for i in range(first, first + n):
                slopes[i], curvature[i] = 0.0, 0.0
            continue
        informative += 1
        divisor = normaliser(kind, normalised, gains, p, discount, cutoff)
        if not always and p * n * PAIR_COST > n * ITEM_COST + CALL_COST:
            return -1
        if divisor == 0.0 or not span(bottom, top, temperature) >= -WIDEST:
            return -1
        for k in range(n):
            x[k] = (x[k] - top) / temperature
        value = _by_pairs(x, p, n, kind, gains, discount, cutoff, temperature, power, share, rest, slope, bend)
        values[t] = value / divisor
        scale = 1.0 / (divisor * temperature)
        for k in range(n):
            slopes[first + order[k]] = scale * slope[k]
            curvature[first + order[k]] = scale / temperature * bend[k]
    return informative
