"""Several metrics of lists without ties, which are ranked once."""

import numpy as np

from rankbound.fused.compiler import compiled, part
from rankbound.fused.discounted import discount_of_rank, gain_of_grade
from rankbound.fused.formulas import AP, DCG, DISCOUNTS, HIT, PRECISION, RANK_SUM, RBP, RECALL
from rankbound.fused.input import is_valid, longest
from rankbound.fused.sorting import ascending, by_grade

N_DISCOUNTS = len(DISCOUNTS)

# Lists of at most this many relevant items are ranked by counting the items above each, others by sorting.
MOST_COUNTED = 256


@part
def _discounted(grades, ranks, p, gain, table, cutoff):
    """Return the sum of gain times discount of items at these ranks."""
    total = 0.0
    for i in range(p):
        if cutoff == 0 or ranks[i] <= cutoff:
            total += gain_of_grade(grades[i], gain) * table[ranks[i] - 1]
    return total


@part
def _of_dcg(grades, ranks, p, gain, table, cutoff, normalised, ideal, order, first_ranks):
    value = _discounted(grades, ranks, p, gain, table, cutoff)
    if not normalised:
        return value
    if p == 0:
        return np.nan
    by_grade(grades, p, order)
    for i in range(p):
        ideal[i] = grades[order[p - 1 - i]]
    return value / _discounted(ideal, first_ranks, p, gain, table, cutoff)


@part
def _of_relevant(kind, grades, ranks, p, rel, cutoff):
    """Return a metric of the ranks of the items of grade `rel` or more."""
    relevant, reached, precisions, ranks_sum, first = 0, 0, 0.0, 0.0, 0
    for i in range(p):
        if grades[i] >= rel:
            relevant += 1
            ranks_sum += ranks[i]
            if relevant == 1:
                first = ranks[i]
            if cutoff == 0 or ranks[i] <= cutoff:
                reached += 1
                if kind == AP:
                    precisions += relevant / ranks[i]
    if kind == PRECISION:
        return reached / cutoff
    if kind == HIT:
        return 1.0 if reached > 0 else 0.0
    if relevant == 0:
        return np.nan
    if kind == AP:
        return precisions / relevant
    if kind == RANK_SUM:
        return ranks_sum - relevant * (relevant + 1.0) / 2.0
    if kind == RECALL:
        return reached / relevant
    return 1.0 / first if reached > 0 else 0.0


@part
def _of_persistence(grades, ranks, p, rel, persistence, normalised):
    """Return the rank-biased precision of the items of grade `rel` or more."""
    relevant, total = 0, 0.0
    for i in range(p):
        if grades[i] >= rel:
            relevant += 1
            total += persistence ** (ranks[i] - 1)
    value = (1.0 - persistence) * total
    if not normalised:
        return value
    if relevant == 0:
        return np.nan
    # 1 - p^relevant without cancellation.
    return value / -np.expm1(relevant * np.log(persistence)) if persistence > 0.0 else value


@part
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


@part
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


@compiled("i8(f8[::1],f8[::1],i8[::1],f8[:,::1],f8,b1[::1],f8[:,::1])")
def of_untied_lists(scores, relevance, offsets, formulas, largest, tied, values):
    """Write the metrics of each list, `(n_metrics, n_lists)`, and which lists have no values.

    These are the ones in which a relevant item's score is tied.

    `formulas` has the numbers and the persistence of each metric's `Formula`. Returns the number of lists with ties, or
    -1 for input that the reference refuses.
    """
    if not is_valid(scores, relevance, offsets, largest):
        return -1
    size, n_tied = longest(offsets), 0
    tables = np.empty((N_DISCOUNTS, size))
    for discount in range(N_DISCOUNTS):
        for place in range(size):
            tables[discount, place] = discount_of_rank(place + 1.0, discount)[0]
    x, y, ranked = np.empty(size), np.empty(size), np.empty(size)
    order, ranks = np.empty(size, np.int64), np.empty(size, np.int64)
    grades, ideal, first_ranks = np.empty(size), np.empty(size), np.arange(1, size + 1)
    for t in range(len(offsets) - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        relevant, p = 0, 0
        # From 0 on, loops become vector instructions.
        for i in range(n):
            x[i], y[i] = scores[first + i], relevance[first + i]
            relevant += y[i] > 0.0
        if relevant <= MOST_COUNTED:
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
            kind, rel = int(formulas[m, 0]), formulas[m, 1]
            gain, discount, cutoff = int(formulas[m, 2]), int(formulas[m, 3]), int(formulas[m, 4])
            normalised = formulas[m, 5] > 0.0
            if kind == DCG:
                table = tables[discount]
                values[m, t] = _of_dcg(grades, ranks, p, gain, table, cutoff, normalised, ideal, order, first_ranks)
            elif kind == RBP:
                values[m, t] = _of_persistence(grades, ranks, p, rel, formulas[m, 6], normalised)
            else:
                values[m, t] = _of_relevant(kind, grades, ranks, p, rel, cutoff)
    return n_tied
