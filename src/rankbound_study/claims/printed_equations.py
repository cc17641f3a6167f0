"""The thesis' formulas for the extremes and expectations of a list of N items with P relevant ones, as printed.

Equations 3.2 and 3.8 are misprinted: 3.2 lacks the division by the ideal DCG, 3.8 has P instead of P/N. Corrected forms
are given beside both. Fractions are exact; formulas with logarithms give floats.
"""

import math
from fractions import Fraction
from math import comb


def worst_dcg(n: int, p: int) -> float:
    """Eq. 3.2 as printed."""
    return math.fsum(1 / math.log2(rank + 1) for rank in range(n - p + 1, n + 1))


def smallest_ndcg(n: int, p: int) -> float:
    """Eq. 3.2 divided by the ideal DCG."""
    return worst_dcg(n, p) / ideal_dcg(p)


def largest_nrbp(n: int, p: int) -> Fraction:
    """Eq. 3.3."""
    return Fraction(p * (2 * n - p - 1), 2) - Fraction(p * (p - 1), 2)


def smallest_ap(n: int, p: int) -> Fraction:
    """Eq. 3.4."""
    return sum((Fraction(i, n - p + i) for i in range(1, p + 1)), Fraction()) / p


def expected_ndcg_as_printed(n: int, p: int) -> float:
    """Eq. 3.8 as printed."""
    return p * math.fsum(1 / math.log2(rank + 1) for rank in range(1, n + 1)) / ideal_dcg(p)


def expected_ndcg(n: int, p: int) -> float:
    """Eq. 3.8 with P/N."""
    return expected_ndcg_as_printed(n, p) / n


def expected_nrbp(n: int, p: int) -> Fraction:
    """Eq. 3.9."""
    return Fraction(p * (n - p), 2)


def expected_ap(n: int, p: int) -> Fraction:
    """Eq. 3.10: the i-th relevant item is at rank r with i/r times the probability of i hits in r draws."""
    total = Fraction()
    for i in range(1, p + 1):
        for r in range(i, n - p + i + 1):
            total += Fraction(i, r) * Fraction(i, r) * Fraction(comb(p, i) * comb(n - p, r - i), comb(n, r))
    return total / p


def ideal_dcg(p: int) -> float:
    """Return the DCG of P relevant items on top."""
    return math.fsum(1 / math.log2(rank + 1) for rank in range(1, p + 1))
