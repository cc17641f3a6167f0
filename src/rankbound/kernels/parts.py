r"""Parts of several kernels: checks of the input, sorts, exponentials, logarithms, gains and discounts.

NumPy's sorts take seconds to compile, these a moment. The C library's exponentials and logarithms are no vector
instructions, these are loops that compilers turn into some:

With $k = \lfloor x / \ln 2 + 1/2 \rfloor$ and $r = x - k \ln 2$, $|r| \le \ln(2)/2$, $e^x = 2^k e^r$: a Taylor
polynomial, and an exponent that is put together as an integer. The relative error is at most 4e-16.

With $v = 1 + q = 2^k m$, $\sqrt{1/2} \le m < \sqrt 2$, and $z = (m - 1)/(m + 1)$,
$\ln v = k \ln 2 + 2 (z + z^3/3 + z^5/5 + \dots)$; $(q - (v - 1))/v$ are the digits that $v$ lost. The relative error
is below 1e-15.
"""

import math

import numpy as np

from rankbound.kernels import ordered_part, part
from rankbound.kernels.formulas import AP, DISCOUNTS, GAINS, RANK_SUM

LARGEST = np.finfo(np.float64).max

# Lists from which on it pays to keep several maxima.
LONG = 32

# Whole numbers below this are sorted by counting.
FEW_GRADES = 32
# From this many values on, the sort by digits is faster.
MANY = 128
BITS_OF_DIGIT = 11
DIGITS = 1 << BITS_OF_DIGIT
# Behind the 32 bits of a number in single precision, an index of 31 bits fits into an integer from 0.
BITS_OF_INDEX = 31
INDEX = (1 << BITS_OF_INDEX) - 1
SHIFTS = (31, 42, 53)

# The digits of ln 2 that a product with k keeps, and the rest.
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
LOWEST = -708.0
COEFFICIENTS = tuple(1 / math.factorial(degree) for degree in range(14))
# The exponent of 1, and the place of the exponent in the bits of a float.
BIAS = 1023
MANTISSA_BITS = np.int64(52)
# A sum with a small integer ends in that integer's bits. Instructions that convert whole vectors are rare: AVX-512.
AS_BITS = np.float64(1.5 * 2**52 + BIAS)
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = COEFFICIENTS[2:]

LN2 = math.log(2.0)
# The bits of 1 and of the root of 1/2: their difference moves the mantissa from 1 .. 2 to the range of m.
ONE = np.int64(np.float64(1.0).view(np.int64))
ROOT = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
MANTISSA = np.int64((1 << 52) - 1)

GAIN_EXP2 = GAINS.index("exp2")
LOG2_OF_NEXT, LOG2, CONSTANT = map(DISCOUNTS.index, ("log2(r+1)", "log2(r)", "constant"))

# Score gaps, in units of the temperature, whose exponentials are far from overflow.
WIDEST = 600.0


@part
def is_valid(scores, relevance, offsets, largest):
    """Return true for lists that are whole, finite scores, and finite relevance from 0 to `largest`."""
    n = len(scores)
    if len(relevance) != n or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        return False
    for t in range(len(offsets) - 1):
        if offsets[t + 1] < offsets[t]:
            return False
    total, fits, largest = 0.0, True, min(largest, LARGEST)
    for i in range(n):
        # Infinities and NaN make the product NaN.
        total += scores[i] * 0.0
        fits &= (relevance[i] >= 0.0) & (relevance[i] <= largest)
    return fits and not np.isnan(total)


@part
def longest(offsets):
    """Return the number of items of the longest list."""
    most = 0
    for t in range(len(offsets) - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    return most


@part
def highest(values, first, n):
    """Return the largest of the n values from `first`; minus infinity without values."""
    # Four maxima in long lists, since each has to wait for the one before.
    a = b = c = d = -np.inf
    stop = first + (n - n % 4 if n >= LONG else 0)
    for i in range(first, stop, 4):
        a, b, c, d = max(a, values[i]), max(b, values[i + 1]), max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(stop, first + n):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))


@part
def sort(keys, n, order):
    """Sort the first n keys in ascending order, and write their indices, equal ones in any order (Shell's sort)."""
    for i in range(n):
        order[i] = i
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key, moved = keys[i], order[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j], order[j] = keys[j - gap], order[j - gap]
                j -= gap
            keys[j], order[j] = key, moved
        gap //= 3


@part
def ascending(values, n, order):
    """Write the indices of the first n values in ascending order, equal ones in any order."""
    if n < MANY or n > INDEX or not _by_digits(values, n, order):
        keys = values[:n].copy()
        sort(keys, n, order)


@part
def _by_digits(values, n, order):
    """Write what `ascending` writes, or return false if many values differ only in double precision.

    Values rounded to single precision are sorted by a few binary digits at a time, from the lowest ones, then values
    that round alike.
    """
    keys, counts = np.empty(n, np.int64), np.zeros((len(SHIFTS), DIGITS), np.int64)
    # The bits of a float, read as an integer, ascend with it once negatives are inverted.
    for i in range(n):
        bits = np.int64(np.float32(values[i]).view(np.int32))
        keys[i] = ((~bits if bits < 0 else bits + (1 << 31)) << BITS_OF_INDEX) | i
        for place in range(len(SHIFTS)):
            counts[place, (keys[i] >> SHIFTS[place]) & (DIGITS - 1)] += 1
    moved = np.empty(n, np.int64)
    for place in range(len(SHIFTS)):
        shift, start, total = SHIFTS[place], counts[place], 0
        if start[(keys[0] >> shift) & (DIGITS - 1)] == n:
            continue
        for digit in range(DIGITS):
            start[digit], total = total, total + start[digit]
        for i in range(n):
            digit = (keys[i] >> shift) & (DIGITS - 1)
            moved[start[digit]] = keys[i]
            start[digit] += 1
        keys, moved = moved, keys
    swaps = 0
    for k in range(n):
        i, rounded, place = keys[k] & INDEX, keys[k] >> BITS_OF_INDEX, k
        order[k] = i
        while place > 0 and keys[place - 1] >> BITS_OF_INDEX == rounded and values[order[place - 1]] > values[i]:
            order[place] = order[place - 1]
            place -= 1
            swaps += 1
        order[place] = i
        if swaps > n:
            return False
    return True


@part
def by_grade(grades, n, order):
    """Write the indices of the first n grades in ascending order, equal ones in any order."""
    few = True
    for i in range(n):
        few &= grades[i] < FEW_GRADES and grades[i] == np.floor(grades[i])
    if not few:
        ascending(grades, n, order)
        return
    place = np.zeros(FEW_GRADES + 1, np.int64)
    for i in range(n):
        place[int(grades[i]) + 1] += 1
    for grade in range(FEW_GRADES):
        place[grade + 1] += place[grade]
    for i in range(n):
        grade = int(grades[i])
        order[place[grade]] = i
        place[grade] += 1


@part
def sorted_list(scores, keys, first, n, temperature, order, key, x):
    """Sort a list by ascending keys; write order, keys and scores over the temperature; return the lowest score.

    The highest is 0.
    """
    top, bottom = -np.inf, np.inf
    for i in range(n):
        key[i] = keys[first + i]
        top, bottom = max(top, scores[first + i]), min(bottom, scores[first + i])
    by_grade(key, n, order)
    for k in range(n):
        key[k] = keys[first + order[k]]
        x[k] = (scores[first + order[k]] - top) / temperature
    return (bottom - top) / temperature


@ordered_part
def exponentials(values, n, powers):
    """Write the exponentials of the first n numbers, which are at most 700; below -708 they are that of -708."""
    for i in range(n):
        x = max(values[i], LOWEST)
        k = np.floor(x * (1.0 / math.log(2.0)) + 0.5)
        r = (x - k * LN2_HIGH) - k * LN2_LOW
        high = C8 + r * (C9 + r * (C10 + r * (C11 + r * (C12 + r * C13))))
        low = C2 + r * (C3 + r * (C4 + r * (C5 + r * (C6 + r * (C7 + r * high)))))
        # Bits of single numbers: those of an array, read back from memory, cost short lists more than the arithmetic.
        two_to_k = np.int64(np.float64(k + AS_BITS).view(np.int64) << MANTISSA_BITS).view(np.float64)
        powers[i] = (1.0 + r + r * r * low) * two_to_k


@ordered_part
def logarithms_of_next(q, n, logs):
    """Write log(1 + q) of the first n numbers, at least 0 and at most 1e300."""
    for i in range(n):
        v = 1.0 + q[i]
        bits = np.float64(v).view(np.int64) + (ONE - ROOT)
        k = float((bits >> 52) - 1023)
        m = np.int64((bits & MANTISSA) + ROOT).view(np.float64)
        z = (m - 1.0) / (m + 1.0)
        w = z * z
        high = 1 / 11 + w * (1 / 13 + w * (1 / 15 + w * (1 / 17 + w * (1 / 19))))
        tail = w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w * high))))
        logs[i] = k * LN2 + (2.0 * (z + z * tail) + (q[i] - (v - 1.0)) / v)


@part
def gain_of_grade(y, gain):
    return 2.0**y - 1.0 if gain == GAIN_EXP2 else y


@part
def discount_of_rank(rank, discount):
    """Return the discount of a rank and its derivative."""
    if discount == CONSTANT:
        return 1.0, 0.0
    shifted = rank + 1.0 if discount == LOG2_OF_NEXT else rank
    # At its kink, the slope is that of the ranks below.
    if shifted < 2.0 and discount == LOG2:
        return 1.0, 0.0
    log = math.log(shifted)
    value = math.log(2.0) / log
    return value, -value / (log * shifted)


@part
def normaliser(formula, gains, p):
    """Return the divisor of a list with these gains of its relevant items."""
    kind, _, _, discount, cutoff, normalised = formula
    if kind == AP:
        return float(p)
    if kind == RANK_SUM or not normalised:
        return 1.0
    ranked = gains[:p]
    for i in range(1, p):
        if ranked[i] != ranked[0]:
            ranked = np.empty(p)
            order = np.empty(p, np.int64)
            ascending(gains, p, order)
            for k in range(p):
                ranked[k] = gains[order[p - 1 - k]]
            break
    total = 0.0
    for i in range(p if cutoff == 0 else min(p, cutoff)):
        total += ranked[i] * discount_of_rank(i + 1.0, discount)[0]
    return total
