"""Sorts that compile in a moment; NumPy's take seconds."""

import numpy as np

from rankbound.fused.compiler import part

# Whole numbers below this are sorted by counting.
FEW_GRADES = 32
# From this many values on, the sort by digits is faster.
MANY = 2_000
BITS_OF_DIGIT = 11
DIGITS = 1 << BITS_OF_DIGIT
LOWEST = -(2**63)


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
    if n < MANY:
        keys = values[:n].copy()
        sort(keys, n, order)
    else:
        _by_digits(values, n, order)


@part
def _by_digits(values, n, order):
    """Write what `ascending` writes, in linear time: sort by a few binary digits at a time, from the lowest ones."""
    # The bits of a float, read as an integer, ascend with it once negatives are inverted.
    keys = values[:n].copy().view(np.int64)
    varying = 0
    for i in range(n):
        keys[i] = ~keys[i] if keys[i] < 0 else keys[i] ^ LOWEST
        varying |= keys[i] ^ keys[0]
        order[i] = i
    moved_keys, moved_order, start = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(DIGITS + 1, np.int64)
    for shift in range(0, 64, BITS_OF_DIGIT):
        if (varying >> shift) & (DIGITS - 1) == 0:
            continue
        for digit in range(DIGITS + 1):
            start[digit] = 0
        for i in range(n):
            start[((keys[i] >> shift) & (DIGITS - 1)) + 1] += 1
        for digit in range(DIGITS):
            start[digit + 1] += start[digit]
        for i in range(n):
            digit = (keys[i] >> shift) & (DIGITS - 1)
            moved_keys[start[digit]], moved_order[start[digit]] = keys[i], order[i]
            start[digit] += 1
        for i in range(n):
            keys[i], order[i] = moved_keys[i], moved_order[i]


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
