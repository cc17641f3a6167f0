"""Sorts that compile in a moment; NumPy's take seconds."""

import numpy as np

from rankbound.fused.compiler import part

# Whole numbers below this are sorted by counting.
FEW_GRADES = 32
# From this many values on, the sort by digits is faster.
MANY = 2_000
BITS_OF_DIGIT = 11
DIGITS = 1 << BITS_OF_DIGIT
# Behind the 32 bits of a number in single precision, an index of 31 bits fits into an integer from 0.
BITS_OF_INDEX = 31
INDEX = (1 << BITS_OF_INDEX) - 1
SHIFTS = (31, 42, 53)


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
