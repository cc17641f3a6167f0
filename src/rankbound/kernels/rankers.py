"""What rankers without gradients repeat: metrics of many steps, sums over pairs and by threshold, perceptron steps."""

import numpy as np

from rankbound.kernels import compiled, part
from rankbound.kernels.parts import ascending, longest

# A metric is a sum over the relevant items, a function of the first one's rank, or AP.
SUM, FIRST, PRECISIONS = range(3)

# Lists of at most this many relevant items are ranked by counting the items above each, others by sorting.
MOST_COUNTED = 160
# With at most this many ranks that count, only items that may have one are counted.
MOST_RANKS = 64
LOWEST = np.float32(-np.inf)
# Counts of the type of the scores fill a processor's vectors; they are exact up to this number.
LONGEST_COUNTED = 1 << 24
ZERO, ONE = np.float32(0.0), np.float32(1.0)
# Items whose scores stay in a processor's cache while all features are added to them.
ITEMS_AT_ONCE = 2048


@part
def _threshold(x, n, reach, top):
    """Return the score that an item needs for one of the first ranks, so many of them."""
    for k in range(reach):
        top[k] = LOWEST
    for i in range(n):
        if x[i] > top[reach - 1]:
            k = reach - 1
            while k > 0 and top[k - 1] < x[i]:
                top[k] = top[k - 1]
                k -= 1
            top[k] = x[i]
    return top[reach - 1]


@part
def _count(x, n, relevant, gains, p, least, blocks):
    """Add the relevant items to the blocks of their scores, by the number of items above each, unless below `least`."""
    for q in range(p):
        own, higher, reached = x[relevant[q]], ZERO, ZERO
        if own < least:
            continue
        for j in range(n):
            higher += ONE if x[j] > own else ZERO
            reached += ONE if x[j] >= own else ZERO
        above = int(higher)
        blocks[0, above] = reached - higher
        blocks[1, above] += 1.0
        blocks[2, above] += gains[relevant[q]]


@part
def _sort(x, n, gains, order, blocks):
    """Add what `_count` adds, for lists of any size."""
    ascending(x, n, order)
    above, start = 0, n - 1
    for k in range(n - 1, -1, -1):
        i = order[k]
        if x[i] != x[order[start]]:
            above, start = n - 1 - k, k
        if gains[i] > 0.0:
            blocks[1, above] += 1.0
            blocks[2, above] += gains[i]
        blocks[0, above] = start - k + 1


@part
def _first(table, a, m, r):
    """Return the mean of the table over the ranks of the first of r relevant items among m tied ones below a others."""
    total, chance = 0.0, r / m
    for k in range(1, m - r + 2):
        total += chance * table[a + k - 1]
        chance *= (m - r + 1.0 - k) / (m - k) if m > k else 0.0
    return total


@part
def _precisions(table, a, m, higher, r):
    """Return the mean sum of the precisions of r relevant items among m tied ones; `higher` are above, of a items."""
    total = 0.0
    for k in range(m):
        more = k * (r - 1.0) / (m - 1.0) if m > 1 else 0.0
        total += table[a + k] * (higher + 1.0 + more) / (a + k + 1.0)
    return total * r / m


@compiled("void(f8[::1],f4[::1],f8[::1],f8,f8[::1],i8[::1],i8,f8[::1],f8[::1],f8[:,::1])")
def values_of_steps(scores, column, steps, quantum, gains, offsets, kind, table, divisors, values):
    """Write a metric of each list `(n_steps, n_lists)` at the scores plus each step times the column.

    Scores are rounded to multiples of the quantum, then to single precision. Metrics are means over the orders of tied
    items. `gains` are above 0 for relevant items, `table` the ranks' discounts
    `(longest,)`; `divisors` of the lists are NaN where the metric is undefined.
    """
    size, reach = longest(offsets), len(table)
    x, top, own, sums = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size), np.zeros(size + 1)
    relevant, order = np.empty(size, np.int64), np.empty(size, np.int64)
    # By the number of items above: how many items tie, how many of them are relevant, and their gains.
    blocks = np.zeros((3, size))
    while reach > 1 and table[reach - 1] == 0.0:
        reach -= 1
    for rank in range(size):
        sums[rank + 1] = sums[rank] + table[rank]
    for t in range(len(offsets) - 1):
        first, n, p = offsets[t], offsets[t + 1] - offsets[t], 0
        for i in range(n):
            own[i] = gains[first + i]
            if own[i] > 0.0:
                relevant[p] = i
                p += 1
        for c in range(len(steps)):
            for i in range(n):
                x[i] = np.float32(np.rint((scores[first + i] + steps[c] * column[first + i]) / quantum) * quantum)
            if p > MOST_COUNTED or n > LONGEST_COUNTED:
                _sort(x, n, own, order, blocks)
            else:
                least = _threshold(x, n, reach, top) if reach < n and reach <= MOST_RANKS else LOWEST
                _count(x, n, relevant, own, p, least, blocks)
            total, higher = 0.0, 0.0
            for a in range(n):
                r = blocks[1, a]
                if r > 0.0:
                    m = int(blocks[0, a])
                    if kind == SUM:
                        total += blocks[2, a] * (table[a] if m == 1 else (sums[a + m] - sums[a]) / m)
                    elif kind == PRECISIONS:
                        total += _precisions(table, a, m, higher, r)
                    elif higher == 0.0:
                        total = _first(table, a, m, int(r))
                    higher += r
                    blocks[1, a], blocks[2, a] = 0.0, 0.0
            values[c, t] = total / divisors[t]


@part
def _add(tree, place, value):
    place += 1
    while place < len(tree):
        tree[place] += value
        place += place & -place


@part
def _sum_of(tree, count):
    """Return the sum over the first places of a binary indexed tree."""
    total = 0.0
    while count > 0:
        total += tree[count]
        count -= count & -count
    return total


@compiled("void(f8[::1],i8[::1],i8,i8[::1],i8[::1],f8[::1],f8[:,::1])")
def violators(scores, grades, n_grades, order, offsets, values, sums):
    """Write the sums of values over the pairs that violate a margin of 1; see `rankbound.rankers.linear.Pairs`."""
    counts, totals = np.zeros(n_grades + 1), np.zeros(n_grades + 1)
    for t in range(len(offsets) - 1):
        # From the top, for worse items; then from the bottom and the highest grade down, for better ones.
        for sign, row, first, last in ((1, 0, offsets[t], offsets[t + 1]), (-1, 2, offsets[t + 1] - 1, offsets[t] - 1)):
            counts[:], totals[:], end = 0.0, 0.0, first
            for k in range(first, last, sign):
                i = order[k]
                while end != last and sign * scores[order[end]] > sign * scores[i] - 1.0:
                    j = order[end]
                    grade = grades[j] if sign > 0 else n_grades - 1 - grades[j]
                    _add(counts, grade, 1.0)
                    _add(totals, grade, values[j])
                    end += sign
                grade = grades[i] if sign > 0 else n_grades - 1 - grades[i]
                sums[row, i], sums[row + 1, i] = _sum_of(counts, grade), _sum_of(totals, grade)


@compiled("void(f4[:,::1],f8[::1],f8[::1])")
def weighted_sum(columns, weights, scores):
    """Write the sum of the columns times their weights."""
    n = len(scores)
    for first in range(0, n, ITEMS_AT_ONCE):
        last = min(first + ITEMS_AT_ONCE, n)
        scores[first:last] = 0.0
        for k in range(len(weights)):
            weight, column = weights[k], columns[k]
            for i in range(first, last):
                scores[i] += weight * column[i]


@compiled("void(f4[:,::1],f8[::1],f8[::1])")
def column_products(columns, values, products):
    """Write the product of each column and the values."""
    n = len(values)
    products[:] = 0.0
    for first in range(0, n, ITEMS_AT_ONCE):
        last = min(first + ITEMS_AT_ONCE, n)
        for k in range(len(columns)):
            total, column = 0.0, columns[k]
            for i in range(first, last):
                total += values[i] * column[i]
            products[k] += total


@compiled("void(u1[:,::1],f8[::1],f8[:,::1])")
def sums_by_bin(bins, values, sums):
    """Write the sums of the values of each bin of each feature, `(d, 256)`."""
    parts = np.empty((4, sums.shape[1]))
    n = len(values)
    for k in range(len(bins)):
        own = bins[k]
        parts[:] = 0.0
        # Four sums, since each addition has to wait for the one before to the same bin.
        for i in range(0, n - n % 4, 4):
            parts[0, own[i]] += values[i]
            parts[1, own[i + 1]] += values[i + 1]
            parts[2, own[i + 2]] += values[i + 2]
            parts[3, own[i + 3]] += values[i + 3]
        for i in range(n - n % 4, n):
            parts[0, own[i]] += values[i]
        for b in range(sums.shape[1]):
            sums[k, b] = parts[0, b] + parts[1, b] + parts[2, b] + parts[3, b]


@compiled("void(f4[:,::1],i8[::1],i8[::1],f8[::1],f8[::1],f8[::1])")
def prank(rows, grades, order, weights, thresholds, totals):
    """Change weights and thresholds by each item in turn; see `rankbound.rankers.linear.pass_of_prank`."""
    for i in order:
        score, steps, above = 0.0, 0.0, 0
        for k in range(len(weights)):
            score += weights[k] * rows[i, k]
        for r in range(len(thresholds)):
            margin, sign = score - thresholds[r], 1.0 if r < grades[i] else -1.0
            if margin >= 0.0:
                above += 1
            if margin * sign <= 0.0:
                steps += sign
                thresholds[r] -= sign
                totals[1] += 1.0
        totals[0] += abs(above - grades[i])
        if steps != 0.0:
            for k in range(len(weights)):
                weights[k] += steps * rows[i, k]
