"""Metrics of smooth ranks: the value and the gradient of each list.

The relevant items of a list, the targets, are put first. The sums of a metric over its targets i run over sources j:
`above` all sources count for the rank, `among` the relevant ones for the rank among these. A metric is a sum over
targets, whose terms and derivatives by the two sums `_term` returns.
"""

import math

import numpy as np

from rankbound.fused import LEFT, boxes
from rankbound.fused.compiler import compiled, exact_part, part
from rankbound.fused.discounted import discount_of_rank, gain_of_grade, normaliser
from rankbound.fused.exponentials import exponentials
from rankbound.fused.formulas import AP, DCG, METHODS, RANK_SUM
from rankbound.fused.input import counted, is_valid, longest

INTERPOLATED, AUTO = map(METHODS.index, ("interpolated", "auto"))

# Score gaps, in units of the temperature, up to which squares of exponentials of scores are far from underflow.
WIDEST = 300.0


@part
def targets_first(scores, relevance, first, n, kind, rel, gain, order, gains, x):
    """Write a list's order with its targets first, their gains, and the scores in that order.

    Returns the number of targets, and the lowest and the highest score.
    """
    p, rest, top, bottom = 0, n, -np.inf, np.inf
    for i in range(n):
        y = relevance[first + i]
        if y > 0.0 and y >= rel:
            order[p] = i
            gains[p] = gain_of_grade(y, gain) if kind == DCG else 1.0
            p += 1
        else:
            rest -= 1
            order[rest] = i
        top, bottom = max(top, scores[first + i]), min(bottom, scores[first + i])
    for k in range(n):
        x[k] = scores[first + order[k]]
    return p, bottom, top


@exact_part
def span(bottom, top, temperature):
    """Return the lowest score less the highest, in units of the temperature, to the last digit of the reference's."""
    return (bottom - top) / temperature


@part
def _term(kind, gain, discount, cutoff, temperature, above, among):
    """Return a target's term, and its derivatives by the sums, which count half of the target itself."""
    if kind == RANK_SUM:
        return above, 1.0, 0.0
    rank = above + 0.5
    if kind == DCG:
        value, by_above = discount_of_rank(rank, discount)
        value, by_above, by_among = gain * value, gain * by_above, 0.0
    else:
        value, by_among = (among + 0.5) / rank, 1.0 / rank
        by_above = -value / rank
    if cutoff > 0:
        # The smooth membership in the first ranks.
        inside = 1.0 / (1.0 + math.exp(-(cutoff + 0.5 - rank) / temperature))
        by_above = by_above * inside - value * inside * (1.0 - inside) / temperature
        value, by_among = value * inside, by_among * inside
    return value, by_above, by_among


@part
def _shares(power, own, start, stop, inverse):
    """Return the sums of sigmoids and of their slopes over the sources; write 1/(own + power) of each source."""
    for j in range(start, stop):
        inverse[j] = 1.0 / (power[j] + own)
    total, slopes = 0.0, 0.0
    for j in range(start, stop):
        share = power[j] * inverse[j]
        total += share
        slopes += share * inverse[j]
    return total, own * slopes


@part
def _push(factor, power, inverse, start, stop, slope):
    """Add `factor` times the slope of the sigmoid to each source."""
    for j in range(start, stop):
        slope[j] += factor * power[j] * inverse[j] * inverse[j]


@part
def _by_powers(x, p, n, kind, gains, discount, cutoff, temperature, top, power, inverse, slope):
    """Return the sum of terms, by pairs; write the gradient by the scores x over the temperature.

    The sigmoid of a gap is a ratio of exponentials.
    """
    for j in range(n):
        inverse[j] = (x[j] - top) / temperature
    exponentials(inverse, n, power)
    for j in range(n):
        slope[j] = 0.0
    value = 0.0
    for i in range(p):
        own = power[i]
        above, pushed = _shares(power, own, p, n, inverse)
        among, pushed_among = 0.0, 0.0
        if kind != RANK_SUM:
            among, pushed_among = _shares(power, own, 0, p, inverse)
        term, by_above, by_among = _term(kind, gains[i], discount, cutoff, temperature, above + among, among)
        value += term
        _push(by_above * own, power, inverse, p, n, slope)
        if kind != RANK_SUM:
            _push((by_above + by_among) * own, power, inverse, 0, p, slope)
        slope[i] -= by_above * pushed + (by_above + by_among) * pushed_among
    return value


@part
def _by_pairs(x, p, n, kind, gains, discount, cutoff, temperature, slope):
    """Return what `_by_powers` returns, for gaps of any width."""
    for j in range(n):
        slope[j] = 0.0
    value = 0.0
    start = p if kind == RANK_SUM else 0
    for i in range(p):
        above = among = 0.0
        for j in range(start, n):
            # Gaps are differences of the scores themselves: below a score of 1e20, others would be rounded to ties.
            share = 1.0 / (1.0 + math.exp((x[i] - x[j]) / temperature))
            above += share
            if j < p:
                among += share
        term, by_above, by_among = _term(kind, gains[i], discount, cutoff, temperature, above, among)
        value += term
        pushed = 0.0
        for j in range(start, n):
            lesser = math.exp(-abs(x[i] - x[j]) / temperature)
            push = (by_above + (by_among if j < p else 0.0)) * lesser / (1.0 + lesser) ** 2
            slope[j] += push
            pushed += push
        slope[i] -= pushed
    return value


@part
def _by_boxes(x, p, n, kind, gains, discount, cutoff, temperature, sigmoid, bell, slope):
    """Return what `_by_powers` returns, by interpolation."""
    row, local = np.empty(n, np.int64), np.empty(n)
    n_rows = boxes.place(x, n, temperature, row, local)
    occupied = np.zeros(n_rows, np.bool_)
    for i in range(n):
        occupied[row[i]] = True
    one = np.ones(1)
    above, among = np.zeros((n_rows, boxes.ORDER)), np.zeros((n_rows, boxes.ORDER))
    boxes.add_moments(one, p, n, row, local, above)
    if kind != RANK_SUM:
        boxes.add_moments(one, 0, p, row, local, among)
        above += among
    of_above, of_among = np.empty((n_rows, boxes.ORDER)), np.zeros((n_rows, boxes.ORDER))
    boxes.expand(above, sigmoid, occupied, n_rows, of_above)
    boxes.add_weight_far_above(above, occupied, n_rows, of_above)
    if kind == AP:
        boxes.expand(among, sigmoid, occupied, n_rows, of_among)
        boxes.add_weight_far_above(among, occupied, n_rows, of_among)
    terms, by_above, by_both = np.empty(p), np.empty(p), np.empty(p)
    for i in range(p):
        of_all, of_relevant = boxes.at(of_above, row, local, i), boxes.at(of_among, row, local, i)
        terms[i], by_above[i], by_among = _term(kind, gains[i], discount, cutoff, temperature, of_all, of_relevant)
        by_both[i] = by_above[i] + by_among
    value = 0.0
    for i in range(p):
        value += terms[i]
    # The targets' own slopes.
    boxes.expand(above, bell, occupied, n_rows, of_above)
    if kind == AP:
        boxes.expand(among, bell, occupied, n_rows, of_among)
    for i in range(p):
        slope[i] = -by_above[i] * boxes.at(of_above, row, local, i)
        if kind == AP:
            slope[i] -= (by_both[i] - by_above[i]) * boxes.at(of_among, row, local, i)
    # Their pushes on the sources.
    above[:] = 0.0
    boxes.add_moments(by_above, 0, p, row, local, above)
    boxes.expand(above, bell, occupied, n_rows, of_above)
    for j in range(p, n):
        slope[j] = boxes.at(of_above, row, local, j)
    if kind != RANK_SUM:
        if kind == AP:
            above[:] = 0.0
            boxes.add_moments(by_both, 0, p, row, local, above)
            boxes.expand(above, bell, occupied, n_rows, of_above)
        for i in range(p):
            slope[i] += boxes.at(of_above, row, local, i)
    return value


@compiled(
    "i8(f8[::1],f8[::1],i8[::1],i8,f8,i8,i8,i8,i8,f8,f8,i8,f8[:,::1],f8[:,::1],f8,f8,f8[::1],f8[::1])",
)
def smooth_metric(
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
    method,
    sigmoid,
    bell,
    sign,
    undefined,
    losses,
    slopes,
):
    """See `rankbound.fused.Kernel`: `sign` times the metric of each list, `undefined` without relevant items.

    `kind` to `normalised` are the numbers of a `Formula`; `sigmoid` and `bell` are these kernels' matrices.
    """
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    informative, left = 0, 0
    size = longest(offsets)
    order = np.empty(size, np.int64)
    x, power, inverse, slope, gains = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        p, bottom, top = targets_first(scores, relevance, first, n, kind, rel, gain, order, gains, x)
        if p == 0:
            losses[t] = undefined
            for i in range(n):
                slopes[first + i] = 0.0
            continue
        informative += 1
        divisor = normaliser(kind, normalised, gains, p, discount, cutoff)
        lowest = span(bottom, top, temperature)
        if divisor == 0.0 or lowest == -np.inf:
            losses[t], left = LEFT, left + 1
            continue
        by_boxes = method == INTERPOLATED or (method == AUTO and boxes.pays(p, n, lowest, 2 if kind == AP else 1))
        if by_boxes and n > 1:
            value = _by_boxes(x, p, n, kind, gains, discount, cutoff, temperature, sigmoid, bell, slope)
        elif lowest > -WIDEST:
            value = _by_powers(x, p, n, kind, gains, discount, cutoff, temperature, top, power, inverse, slope)
        else:
            value = _by_pairs(x, p, n, kind, gains, discount, cutoff, temperature, slope)
        losses[t] = sign * value / divisor
        scale = sign / (divisor * temperature)
        for k in range(n):
            slopes[first + order[k]] = scale * slope[k]
    return counted(informative, left)
