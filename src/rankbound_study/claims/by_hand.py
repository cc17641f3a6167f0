"""Metrics of one order in plain Python, as the sources define them, with which claims compare the library.

Nothing is imported from the rest of the package. An order is a tuple of grades from rank 1 down. Values are exact
fractions, except for floats from logarithms.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

Order = tuple[int, ...]


def precision(order: Sequence[int], k: int) -> Fraction:
    """Murphy eq. 9.126."""
    return Fraction(sum(grade > 0 for grade in order[:k]), k)


def average_precision(order: Sequence[int]) -> Fraction:
    """Murphy eq. 9.127, thesis eq. 2.6: the mean precision at the relevant ranks."""
    ranks = [rank for rank, grade in enumerate(order, start=1) if grade > 0]
    return sum((Fraction(count, rank) for count, rank in enumerate(ranks, start=1)), Fraction()) / len(ranks)


def reciprocal_rank(order: Sequence[int]) -> Fraction:
    """Wiki page: one over the rank of the first relevant item."""
    return Fraction(1, next(rank for rank, grade in enumerate(order, start=1) if grade > 0))


def cumulative_gain(order: Sequence[int], k: int) -> int:
    """Wiki page: the sum of the first k grades."""
    return sum(order[:k])


def dcg_from_rank_two(order: Sequence[int], k: int | None = None) -> float:
    """Murphy eq. 9.128: the first grade in full, the others over log2(i)."""
    return math.fsum(grade / max(1.0, math.log2(rank)) for rank, grade in enumerate(order[:k], start=1))


def dcg(order: Sequence[int], k: int | None = None) -> float:
    """Murphy eq. 9.129, thesis eq. 2.3: gain 2^r - 1 over log2(1 + i)."""
    return math.fsum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(order[:k], start=1))


def dcg_of_grades(order: Sequence[int], k: int | None = None) -> float:
    """Wiki page: the grades over log2(i + 1)."""
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(order[:k], start=1))


def ndcg(order: Sequence[int]) -> float:
    """`dcg` over that of the ideal order: thesis eq. 2.2."""
    return dcg(order) / dcg(sorted(order, reverse=True))


def wrong_pairs(order: Sequence[int]) -> int:
    """Pairs in the wrong order, each with the difference of its grades: Jin and Geng eq. 4; binary: thesis eq. 2.12."""
    return sum(below - above for above, below in combinations(order, 2) if above < below)


def linear_dcg(order: Sequence[int]) -> int:
    """Jin and Geng eq. 1: the grade at rank i of N times N - i."""
    return sum(grade * (len(order) - rank) for rank, grade in enumerate(order, start=1))


def kendall(order: Sequence[int], *, by_difference: bool = False) -> Fraction:
    """Murphy eq. 9.130 relative to the order by grades, with pairs of weight 1 or of the difference of their grades."""
    agreement = total = 0
    for above, below in combinations(order, 2):
        weight = abs(above - below) if by_difference else 1
        agreement += weight * (1 + (above > below) - (above < below))
        total += 2 * weight
    return Fraction(agreement, total)
