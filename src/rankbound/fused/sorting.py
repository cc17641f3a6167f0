"""Sorts that compile in a moment; NumPy's take seconds."""

import numpy as np

from rankbound.fused.compiler import part

# Whole numbers below this are sorted by counting.
FEW_GRADES = 32


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
    keys = values[:n].copy()
    sort(keys, n, order)


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
