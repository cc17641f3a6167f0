"""Several metrics of lists without ties, which are ranked once, and scores of random orders of a list.

The arithmetic is that of the reference, `formulas.values_of_ranking`, to the last digit: the same tables, the same
terms, added from the top of a list down.
"""

import numpy as np

from rankbound.kernels import compiled, exact_part, part
from rankbound.kernels.formulas import AP, DCG, HIT, PRECISION, RANK_SUM, RBP, RECALL, RECIPROCAL_RANK
from rankbound.kernels.parts import MANY, ascending, by_grade, longest

# Lists of fewer than `MANY` items, and those of at most this many relevant ones, are ranked by counting the items above
# each, others by sorting. Measured: 75 counts cost one sort by digits, from 500 items to 30,000.
MOST_COUNTED = 64


@exact_part
def _value(kind, rel, gains, table, cutoff, normalised, grades, ranks, p, order):
    """Return a metric of p relevant items, by their grades and ranks from the top down."""
    relevant, reached, total, first = 0, 0, 0.0, 0
    for i in range(p):
        if grades[i] >= rel:
            relevant += 1
            first = ranks[i] if relevant == 1 else first
            if ranks[i] <= cutoff:
                reached += 1
                if kind == DCG:
                    total += gains[int(grades[i])] * table[ranks[i] - 1]
                elif kind == RBP:
                    total += table[ranks[i] - 1]
                elif kind == AP:
                    total += relevant / ranks[i]
                else:
                    total += ranks[i]
    if kind == PRECISION:
        return reached / cutoff
    if kind == HIT:
        return 1.0 if reached > 0 else 0.0
    if kind in (DCG, RBP) and not normalised:
        return total
    if relevant == 0:
        return np.nan
    if kind == RANK_SUM:
        return total - relevant * (relevant + 1.0) / 2.0
    if kind == RECIPROCAL_RANK:
        return 1.0 / first if reached > 0 else 0.0
    if kind == RECALL:
        return reached / relevant
    if kind == AP:
        return total / relevant
    ideal = 0.0
    if kind == DCG:
        by_grade(grades, p, order)
    for i in range(relevant):
        if i < cutoff:
            ideal += gains[int(grades[order[p - 1 - i]])] * table[i] if kind == DCG else table[i]
    return total / ideal


@exact_part
def _count_above(x, y, n, ranked):
    """Write the grades of relevant items at their ranks, 0 at others; return true if one of them has a tied score."""
    tied = 0
    for k in range(n):
        ranked[k] = 0.0
    for i in range(n):
        if y[i] > 0.0:
            own, above, reached = x[i], 0, 0
            for j in range(n):
                above += x[j] > own
                reached += x[j] >= own
            ranked[above] = y[i]
            tied += reached - above - 1
    return tied > 0


@exact_part
def _rank(x, y, n, order, ranked):
    """Write and return what `_count_above` does, for lists of any size."""
    ascending(x, n, order)
    tied = False
    for k in range(n):
        i = order[n - 1 - k]
        ranked[k] = y[i]
        if k > 0 and x[i] == x[order[n - k]]:
            tied |= y[i] > 0.0 or ranked[k - 1] > 0.0
    return tied


@compiled("i8(f8[::1],f8[::1],i8[::1],f8[:,::1],f8[:,::1],f8[:,::1],b1[::1],f8[:,::1])", exact=True)
def of_untied_lists(scores, relevance, offsets, formulas, tables, gains, tied, values):
    """Write the metrics of each list, `(n_metrics, n_lists)`, and which lists have no values.

    These are the ones in which a relevant item's score is tied.

    `formulas` has a row of each metric's `Formula`: kind, lowest grade, index of the gains, index of the table of
    discounts, cut-off (infinity for none), and 1 if normalised. `gains` are those of the grades 0, 1, ... Returns the
    number of lists with ties, or -1 for grades that are not whole or have no gains.
    """
    are_whole = True
    for i in range(len(relevance)):
        are_whole &= (relevance[i] <= gains.shape[1] - 1.0) & (relevance[i] == np.floor(relevance[i]))
    if not are_whole:
        return -1
    size, n_tied = longest(offsets), 0
    x, y, ranked = np.empty(size), np.empty(size), np.empty(size)
    order, ranks = np.empty(size, np.int64), np.empty(size, np.int64)
    grades = np.empty(size)
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        relevant, p = 0, 0
        # From 0 on, loops become vector instructions.
        for i in range(n):
            x[i], y[i] = scores[first + i], relevance[first + i]
            relevant += y[i] > 0.0
        if relevant <= MOST_COUNTED or n < MANY:
            tied[t] = _count_above(x, y, n, ranked)
        else:
            tied[t] = _rank(x, y, n, order, ranked)
        if tied[t]:
            n_tied += 1
            continue
        for k in range(n):
            grades[p], ranks[p] = ranked[k], k + 1
            p += ranked[k] > 0.0
        for m in range(len(formulas)):
            kind, rel, of_grade = int(formulas[m, 0]), formulas[m, 1], gains[int(formulas[m, 2])]
            table, cutoff, normalised = tables[int(formulas[m, 3])], formulas[m, 4], formulas[m, 5] > 0.0
            values[m, t] = _value(kind, rel, of_grade, table, cutoff, normalised, grades, ranks, p, order)
    return n_tied


# Constants of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@part
def _below(state, end):
    """Return a number from 0 to end - 1."""
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    state = state ^ (state >> np.uint64(31))
    return np.int64(((state >> np.uint64(32)) * np.uint64(end)) >> np.uint64(32))


@compiled("void(u8,i8,f8[::1],f8[::1])")
def sums_of_ranks(state, p, fixed, sums):
    """Write the sums of `fixed` over the ranks of p relevant items; see `rankbound.bounds.sums.sums_of_orders`."""
    n, values = len(fixed), fixed.copy()
    for row in range(len(sums)):
        values[:] = fixed
        total = 0.0
        for place in range(p):
            state += _GAMMA
            other = place + _below(state, n - place)
            chosen = values[other]
            values[other] = values[place]
            total += chosen
        sums[row] = total


@compiled("void(u8,i8,f8[::1],f8[::1],f8[::1])")
def sums_of_counts(state, p, fixed, counted, sums):
    """Write the sums of `fixed` and of `counted` times the number of relevant items so far, over relevant items."""
    n = len(fixed)
    places, ranks = np.arange(n), np.arange(n)
    relevant, so_far = np.zeros(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    for row in range(len(sums)):
        relevant[:] = 0
        ranks[:] = places
        for place in range(p):
            state += _GAMMA
            other = place + _below(state, n - place)
            relevant[ranks[other]] = 1
            ranks[other] = ranks[place]
        count = np.int32(0)
        for rank in range(n):
            count += relevant[rank]
            so_far[rank] = count
        total = 0.0
        for rank in range(n):
            total += relevant[rank] * (fixed[rank] + counted[rank] * so_far[rank])
        sums[row] = total
