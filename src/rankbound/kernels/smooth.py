"""Metrics of smooth ranks: the value and the gradient of each list, by pairs or, in linear time, by interpolation.

The relevant items of a list, the targets, are put first. The sums of a metric over its targets i run over sources j:
`above` all sources count for the rank, `among` the relevant ones for the rank among these. A metric is a sum over
targets, whose terms and derivatives by the two sums `_term` returns.

Interpolation is that of `rankbound.smooth_ranks`, one list at a time. Row r holds the box r - BAND boxes above the
list's lowest one; BAND empty rows lie below and above, and gaps between occupied boxes are shortened to BAND + 1 rows
if there are many.
"""

import math

import numpy as np

from rankbound.kernels import LEFT, compiled, exact_part, part, parts
from rankbound.kernels.formulas import AP, BAND, DCG, ITEM_COST, METHODS, ORDER, PAIR_COST, RANK_SUM, ROW_COST

INTERPOLATED, AUTO = map(METHODS.index, ("interpolated", "auto"))

# Score gaps, in units of the temperature, up to which squares of exponentials of scores are far from underflow.
WIDEST = 300.0

# Lists whose boxes span more rows than this and this times their items leave rows of empty boxes out.
DENSE_ROWS = 1_000
DENSE_ROWS_PER_ITEM = 2


@compiled("i8(f8[::1],f8[::1],i8[::1],Tuple((i8,f8,i8,i8,i8,i8)),f8,f8,i8,UniTuple(f8[:,::1],2),f8,f8,f8[::1],f8[::1])")
def smooth_metric(
    scores, relevance, offsets, formula, largest, temperature, method, matrices, sign, undefined, losses, slopes
):
    """See `rankbound.kernels.Kernel`: `sign` times the metric of each list, `undefined` without relevant items.

    `formula` are the numbers of a `Formula`, `matrices` those of the sigmoid and of its slope.
    """
    if not parts.is_valid(scores, relevance, offsets, largest):
        return -1
    informative, left, size = 0, 0, parts.longest(offsets)
    order = np.empty(size, np.int64)
    x, power, inverse, slope, gains = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        p, bottom, top = _targets_first(scores, relevance, first, n, formula, order, gains, x)
        if p == 0:
            losses[t] = undefined
            for i in range(n):
                slopes[first + i] = 0.0
            continue
        informative += 1
        divisor = parts.normaliser(formula, gains, p)
        lowest = (bottom - top) / temperature
        if divisor == 0.0 or lowest == -np.inf:
            losses[t], left = LEFT, left + 1
            continue
        by_boxes = method == INTERPOLATED or (
            method == AUTO and pays(p, n, bottom, top, temperature, 2 if formula[0] == AP else 1)
        )
        if by_boxes and n > 1:
            value = _by_boxes(x, p, n, formula, gains, temperature, matrices, slope)
        elif lowest > -WIDEST:
            value = _by_powers(x, p, n, formula, gains, temperature, top, power, inverse, slope)
        else:
            value = _by_pairs(x, p, n, formula, gains, temperature, slope)
        losses[t] = sign * value / divisor
        scale = sign / (divisor * temperature)
        for k in range(n):
            slopes[first + order[k]] = scale * slope[k]
    return -2 - informative if left else informative


@part
def _targets_first(scores, relevance, first, n, formula, order, gains, x):
    """Write a list's order with its targets first, their gains, and the scores in that order.

    Returns the number of targets, and the lowest and the highest score.
    """
    kind, rel, gain, _, _, _ = formula
    p, rest, top, bottom = 0, n, -np.inf, np.inf
    for i in range(n):
        y = relevance[first + i]
        if y > 0.0 and y >= rel:
            order[p] = i
            gains[p] = parts.gain_of_grade(y, gain) if kind == DCG else 1.0
            p += 1
        else:
            rest -= 1
            order[rest] = i
        top, bottom = max(top, scores[first + i]), min(bottom, scores[first + i])
    for k in range(n):
        x[k] = scores[first + order[k]]
    return p, bottom, top


@part
def _by_powers(x, p, n, formula, gains, temperature, top, power, inverse, slope):
    """Return the sum of terms, by pairs; write the gradient by the scores x over the temperature.

    The sigmoid of a gap is a ratio of exponentials.
    """
    for j in range(n):
        inverse[j] = (x[j] - top) / temperature
    parts.exponentials(inverse, n, power)
    for j in range(n):
        slope[j] = 0.0
    value = 0.0
    for i in range(p):
        own = power[i]
        above, pushed = _shares(power, own, p, n, inverse)
        among, pushed_among = 0.0, 0.0
        if formula[0] != RANK_SUM:
            among, pushed_among = _shares(power, own, 0, p, inverse)
        term, by_above, by_among = _term(formula, gains[i], temperature, above + among, among)
        value += term
        _push(by_above * own, power, inverse, p, n, slope)
        if formula[0] != RANK_SUM:
            _push((by_above + by_among) * own, power, inverse, 0, p, slope)
        slope[i] -= by_above * pushed + (by_above + by_among) * pushed_among
    return value


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
def _by_pairs(x, p, n, formula, gains, temperature, slope):
    """Return what `_by_powers` returns, for gaps of any width."""
    for j in range(n):
        slope[j] = 0.0
    value = 0.0
    start = p if formula[0] == RANK_SUM else 0
    for i in range(p):
        above = among = 0.0
        for j in range(start, n):
            # Gaps are differences of the scores themselves: below a score of 1e20, others would be rounded to ties.
            share = 1.0 / (1.0 + math.exp((x[i] - x[j]) / temperature))
            above += share
            if j < p:
                among += share
        term, by_above, by_among = _term(formula, gains[i], temperature, above, among)
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
def _by_boxes(x, p, n, formula, gains, temperature, matrices, slope):
    """Return what `_by_powers` returns, by interpolation."""
    kind, (sigmoid, bell) = formula[0], matrices
    row, local = np.empty(n, np.int64), np.empty(n)
    n_rows = rows_of(x, n, temperature, row, local)
    occupied = np.zeros(n_rows, np.bool_)
    for i in range(n):
        occupied[row[i]] = True
    one = np.ones(1)
    above, among = np.zeros((n_rows, ORDER)), np.zeros((n_rows, ORDER))
    add_moments(one, p, n, row, local, above)
    if kind != RANK_SUM:
        add_moments(one, 0, p, row, local, among)
        above += among
    of_above, of_among = np.empty((n_rows, ORDER)), np.zeros((n_rows, ORDER))
    expand(above, sigmoid, occupied, n_rows, of_above)
    add_weight_far_above(above, occupied, n_rows, of_above)
    if kind == AP:
        expand(among, sigmoid, occupied, n_rows, of_among)
        add_weight_far_above(among, occupied, n_rows, of_among)
    terms, by_above, by_both = np.empty(p), np.empty(p), np.empty(p)
    for i in range(p):
        of_all, of_relevant = expansion_at(of_above, row, local, i), expansion_at(of_among, row, local, i)
        terms[i], by_above[i], by_among = _term(formula, gains[i], temperature, of_all, of_relevant)
        by_both[i] = by_above[i] + by_among
    value = 0.0
    for i in range(p):
        value += terms[i]
    # The targets' own slopes.
    expand(above, bell, occupied, n_rows, of_above)
    if kind == AP:
        expand(among, bell, occupied, n_rows, of_among)
    for i in range(p):
        slope[i] = -by_above[i] * expansion_at(of_above, row, local, i)
        if kind == AP:
            slope[i] -= (by_both[i] - by_above[i]) * expansion_at(of_among, row, local, i)
    # Their pushes on the sources.
    above[:] = 0.0
    add_moments(by_above, 0, p, row, local, above)
    expand(above, bell, occupied, n_rows, of_above)
    for j in range(p, n):
        slope[j] = expansion_at(of_above, row, local, j)
    if kind != RANK_SUM:
        if kind == AP:
            above[:] = 0.0
            add_moments(by_both, 0, p, row, local, above)
            expand(above, bell, occupied, n_rows, of_above)
        for i in range(p):
            slope[i] += expansion_at(of_above, row, local, i)
    return value


@exact_part
def pays(n_targets, n, bottom, top, temperature, n_fields):
    """Return true if interpolation of so many kinds of sums is faster in a list of n items, from `bottom` to `top`.

    The reference makes the same choice for scores in double precision (`rankbound.smooth_ranks`).
    """
    rows = min(float(n), 1.0 - (bottom - top) / temperature / 2.0)
    return n_targets * n * PAIR_COST > n_fields * (n * ITEM_COST + rows * ROW_COST)


@exact_part
def rows_of(scores, n, temperature, row, local):
    """Write each item's row and its coordinate in the box, -1 to 1; return the number of rows.

    The boxes are those of `rankbound.smooth_ranks`, to the last digit of a score on the limit of two.
    """
    box, lowest, highest = np.empty(n), np.inf, -np.inf
    for i in range(n):
        x = scores[i] / temperature
        # `math.floor` would return an integer, of which the boxes of scores beyond 2e19 are none.
        box[i] = np.floor(x / 2.0 + 0.5)
        local[i] = x - 2.0 * box[i]
        lowest, highest = min(lowest, box[i]), max(highest, box[i])
    if highest - lowest < max(DENSE_ROWS, DENSE_ROWS_PER_ITEM * n):
        for i in range(n):
            row[i] = int(box[i] - lowest) + BAND
        return int(highest - lowest) + 1 + 2 * BAND
    order = np.empty(n, np.int64)
    parts.ascending(box, n, order)
    last, before = BAND, lowest
    for k in range(n):
        last += int(min(box[order[k]] - before, BAND + 1.0))
        before = box[order[k]]
        row[order[k]] = last
    return last + 1 + BAND


@part
def add_moments(weight, start, stop, row, local, moments):
    """Add the moments of the items from `start` to `stop`, with `weight[0]` for all or one each, to their rows."""
    for i in range(start, stop):
        w = weight[0] if len(weight) == 1 else weight[i]
        v = local[i]
        out = moments[row[i]]
        before, now = w, w * v
        out[0] += before
        out[1] += now
        for k in range(2, ORDER):
            before, now = now, 2.0 * v * now - before
            out[k] += now


@part
def expand(moments, matrix, occupied, n_rows, field):
    """Write the local expansions of the occupied rows."""
    for r in range(n_rows):
        if not occupied[r]:
            continue
        # Ten sums in registers; an array of them would be written and read for every moment.
        o0 = o1 = o2 = o3 = o4 = o5 = o6 = o7 = o8 = o9 = 0.0
        for d in range(2 * BAND + 1):
            for b in range(ORDER):
                m = moments[r - BAND + d, b]
                if m != 0.0:
                    c = matrix[d * ORDER + b]
                    o0, o1, o2, o3, o4 = o0 + m * c[0], o1 + m * c[1], o2 + m * c[2], o3 + m * c[3], o4 + m * c[4]
                    o5, o6, o7, o8, o9 = o5 + m * c[5], o6 + m * c[6], o7 + m * c[7], o8 + m * c[8], o9 + m * c[9]
        out = field[r]
        out[0], out[1], out[2], out[3], out[4] = o0, o1, o2, o3, o4
        out[5], out[6], out[7], out[8], out[9] = o5, o6, o7, o8, o9


@part
def add_weight_far_above(moments, occupied, n_rows, field):
    """Add the total weight of the rows beyond the band above, where the sigmoid is 1, to the expansions."""
    above = 0.0
    for r in range(n_rows - 1, BAND - 1, -1):
        if r + BAND + 1 < n_rows:
            above += moments[r + BAND + 1, 0]
        if occupied[r]:
            field[r, 0] += above


@part
def expansion_at(field, row, local, i):
    """Return the expansion of item i's row at the item."""
    v, f = local[i], field[row[i]]
    before, now = 1.0, v
    total = f[0] + f[1] * v
    for k in range(2, ORDER):
        before, now = now, 2.0 * v * now - before
        total += f[k] * now
    return total


@part
def _term(formula, gain, temperature, above, among):
    """Return a target's term, and its derivatives by the sums, which count half of the target itself."""
    kind, _, _, discount, cutoff, _ = formula
    if kind == RANK_SUM:
        return above, 1.0, 0.0
    rank = above + 0.5
    if kind == DCG:
        value, by_above = parts.discount_of_rank(rank, discount)
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


@compiled("void(f8[:,::1],b1[::1],f8[:,::1],f8[:,::1])")
def running_sums(values, starts, before, behind):
    """Write, for each row of values, the sums before and behind each place, from 0 where a list begins."""
    n = len(starts)
    for c in range(len(values)):
        total = 0.0
        for k in range(n):
            if starts[k]:
                total = 0.0
            before[c, k] = total
            total += values[c, k]
        total = 0.0
        for k in range(n - 1, -1, -1):
            behind[c, k] = total
            total = 0.0 if starts[k] else total + values[c, k]
