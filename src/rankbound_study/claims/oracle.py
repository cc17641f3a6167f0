"""The oracle of the theorems: metrics by hand, their values over every order of short lists, the printed equations.

Metrics of one order are plain Python, as the sources define them; the library's values are compared with them. An order
is a tuple of grades from rank 1 down. Values are exact fractions, except for floats from logarithms. Many claims are
about the library's formulas, so short lists never use them: all their orders are enumerated.

The equations are those of the thesis for the extremes and expectations of a list of N items with P relevant ones.
Equations 3.2 and 3.8 are misprinted: 3.2 lacks the division by the ideal DCG, 3.8 has P instead of P/N. Corrected forms
are given beside both.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

import rankbound as rb
from rankbound_study.claims.verdict import Ruling

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


METRICS = ("nDCG", "AP", "nRBP")
"""The metrics that the thesis bounds."""

LOSS_ONLY = "nRBP"
"""The metric that is already a loss; the losses of the others are their negated values."""

SHORT = 9
"""Largest number of items for which all orders of a list are enumerated."""

LISTS = tuple((n, p) for n in range(2, SHORT + 1) for p in range(1, n + 1))
"""The short lists: N items with P relevant ones."""

MIXED = tuple((n, p) for n, p in LISTS if p < n)
"""The short lists whose orders differ."""

RATIOS = (1, 2, 3)
"""Sampled negatives per relevant item in the thesis."""

SAME = 1e-9
"""Largest difference of values that count as equal."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Value = Fraction | float | int
OfOrders = Callable[[Sequence[Value]], Value]
"""A value over the metric of all orders: `min`, `max` or `mean`."""
Formula = Callable[[int, int], Any]
"""A function of N and P."""

THEOREMS: dict[str, Callable[[], Ruling]] = {}
"""What proves or refutes each theorem: without results, so that it is checked once for each change of its code."""


def theorem(claim: str) -> Callable[[Callable[[], Ruling]], Callable[[], Ruling]]:
    """Enter the decorated function into `THEOREMS`."""

    def enter(ruling: Callable[[], Ruling]) -> Callable[[], Ruling]:
        if claim in THEOREMS:
            raise ValueError(f"{claim} is decided twice: by {THEOREMS[claim]} and by {ruling}")
        THEOREMS[claim] = ruling
        return ruling

    return enter


_BY_HAND: dict[str, Callable[[Order], Value]] = {"nDCG": ndcg, "AP": average_precision, "nRBP": wrong_pairs}


def binary_orders(n: int, p: int) -> list[Order]:
    """Return all orders of `n` items, `p` of them relevant; each is equally likely."""
    return [tuple(int(rank in held) for rank in range(n)) for held in map(set, combinations(range(n), p))]


@cache
def values(metric: str, n: int, p: int) -> tuple[Value, ...]:
    """Return the metric of every order."""
    return tuple(_BY_HAND[metric](order) for order in binary_orders(n, p))


def mean(known: Sequence[Value]) -> Value:
    """Return the mean, an exact fraction except of floats."""
    return sum(known, Fraction()) / len(known)


def right_for(formula: Formula, metric: str, of_orders: OfOrders) -> int:
    """Count the short lists for which a formula gives the metric's `min`, `max` or `mean` over all orders."""
    return agree((formula(n, p) for n, p in LISTS), (of_orders(values(metric, n, p)) for n, p in LISTS))


def smallest(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the smallest value over all orders of each list."""
    return _by_orders(min, metric, rb.minimum(metric, n, p), n, p)


def expected(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the mean value over all orders of each list."""
    return _by_orders(mean, metric, rb.expectation(metric, n, p), n, p)


def expected_loss(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the mean loss over all orders of each list."""
    return as_loss(metric, expected(metric, n, p))


def as_loss(metric: str, value: Floats) -> Floats:
    """Turn a metric's value into its loss; lower is better."""
    return value if metric == LOSS_ONLY else -value


def at_ratio(ratio: int, most: int, fewest: int = 1) -> tuple[Integers, Integers]:
    """Return N and P of lists with `fewest` to `most` relevant items and `ratio` others per relevant one."""
    p = np.arange(fewest, most + 1)
    return p * (1 + ratio), p


def values_of_library(metric: Callable[..., Floats], orders: Sequence[Order]) -> Floats:
    """Return the library's values for lists whose items are in these orders."""
    offsets = np.cumsum([0, *map(len, orders)])
    ranks = np.concatenate([np.arange(len(order)) for order in orders])
    return metric(-ranks.astype(np.float64), np.concatenate([np.array(order) for order in orders]), offsets)


def agree(found: Iterable[Value], expected: Iterable[Value]) -> int:
    """Count the values that are equal."""
    pairs = zip(found, expected, strict=True)
    return sum(abs(float(one) - float(other)) <= SAME * max(1.0, abs(float(other))) for one, other in pairs)


def _by_orders(of_orders: OfOrders, metric: str, formula: Floats, n: Integers, p: Integers) -> Floats:
    """Return the formula's values, with those of short lists replaced."""
    result = np.array(formula, dtype=np.float64)
    for index in np.flatnonzero(n <= SHORT):
        result[index] = float(of_orders(values(metric, int(n[index]), int(p[index]))))
    return result


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
