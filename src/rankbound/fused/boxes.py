"""Sums of the sigmoid and its slope over a list in linear time: `rankbound.interpolation`, one list at a time.

Row r holds the box r - BAND boxes above the list's lowest one;
BAND empty rows lie below and above, and gaps between occupied boxes are shortened to BAND + 1 rows if there are many.
"""

import numpy as np

from rankbound.fused.compiler import exact_part, part
from rankbound.fused.formulas import BAND, ITEM_COST, ORDER, PAIR_COST, ROW_COST
from rankbound.fused.parts import ascending

# Lists whose boxes span more rows than this and this times their items leave rows of empty boxes out.
DENSE_ROWS = 1_000
DENSE_ROWS_PER_ITEM = 2


@exact_part
def pays(n_targets, n, lowest, n_fields):
    """Return true if interpolation of this many kinds of sums is faster in a list of n items down to `lowest`.

    The reference makes the same choice for scores in double precision (`rankbound.smooth_ranks`).
    """
    rows = min(float(n), 1.0 - lowest / 2.0)
    return n_targets * n * PAIR_COST > n_fields * (n * ITEM_COST + rows * ROW_COST)


@exact_part
def place(scores, n, temperature, row, local):
    """Write each item's row and its coordinate in the box, -1 to 1; return the number of rows.

    The boxes are those of `rankbound.interpolation`, to the last digit of a score on the limit of two.
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
    ascending(box, n, order)
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
def at(field, row, local, i):
    """Return the expansion of item i's row at the item."""
    v, f = local[i], field[row[i]]
    before, now = 1.0, v
    total = f[0] + f[1] * v
    for k in range(2, ORDER):
        before, now = now, 2.0 * v * now - before
        total += f[k] * now
    return total
