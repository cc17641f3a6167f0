"""The oracle of the theorems: metrics by hand, their values over every order of short lists, the printed equations.

Metrics of one order are plain Python, as the sources define them; the library's values are compared with them. An order
is a tuple of grades from rank 1 down. Values are exact fractions, except for floats from logarithms. Many claims are
about the library's formulas, so short lists never use them: all their orders are enumerated.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

import rankbound as rb
from rankbound_study.claims.verdict import Ruling, entering

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Order = tuple[int, ...]
Value = Fraction | float | int
ByHand = Callable[[Sequence[int]], Value]
OfOrders = Callable[[Sequence[Value]], Value]
"""A value over the metric of all orders: `min`, `max` or `mean`."""
Formula = Callable[[int, int], Any]
"""A function of N and P."""

THEOREMS: dict[str, Callable[[], Ruling]] = {}
"""What proves or refutes each theorem: without results, so that it is checked once for each change of its code."""

theorem = entering(THEOREMS)
"""Enters the decorated function into `THEOREMS`."""


def precision(order: Sequence[int], k: int) -> Fraction:
    """Murphy eq. 9.126."""
    return Fraction(sum(grade > 0 for grade in order[:k]), k)


def average_precision(order: Sequence[int]) -> Fraction:
    """Murphy eq. 9.127, thesis eq. 2.6: the mean precision at the relevant ranks."""
    ranks = [rank for rank, grade in enumerate(order, start=1) if grade > 0]
    return sum((Fraction(count, rank) for count, rank in enumerate(ranks, start=1)), Fraction()) / len(ranks)


def dcg(order: Sequence[int], k: int | None = None, *, linear: bool = False, from_two: bool = False) -> float:
    """The gain 2^r - 1, or the grade (`linear`), over log2(1 + i), or over log2(i) `from_two` on."""
    return math.fsum(
        (grade if linear else 2**grade - 1) / (max(1.0, math.log2(rank)) if from_two else math.log2(rank + 1))
        for rank, grade in enumerate(order[:k], start=1)
    )


def ndcg(order: Sequence[int], **kind: bool) -> float:
    """`dcg` over that of the ideal order: thesis eq. 2.2."""
    return dcg(order, **kind) / dcg(sorted(order, reverse=True), **kind)


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


CUTOFF = 5

MURPHY: dict[str, ByHand] = {
    # Eqs. 9.126 to 9.129; the first grade in full, where the discount is log2(i).
    **{f"P@{k}": partial(precision, k=k) for k in range(1, CUTOFF + 1)},
    "AP": average_precision,
    "DCG": dcg,
    "DCG(gain=linear,discount=log2(r))": partial(dcg, linear=True, from_two=True),
    f"DCG@{CUTOFF}": partial(dcg, k=CUTOFF),
    f"DCG(gain=linear,discount=log2(r))@{CUTOFF}": partial(dcg, k=CUTOFF, linear=True, from_two=True),
    "nDCG": ndcg,
    "nDCG(gain=linear,discount=log2(r))": partial(ndcg, linear=True, from_two=True),
}
"""Murphy's metrics: the library's name of each, and its definition."""

WIKI: dict[str, ByHand] = {
    f"CG@{CUTOFF}": lambda order: sum(order[:CUTOFF]),
    "DCG(gain=linear)": partial(dcg, linear=True),
    "nDCG(gain=linear)": partial(ndcg, linear=True),
    "RR": lambda order: Fraction(1, next(rank for rank, grade in enumerate(order, start=1) if grade > 0)),
}
"""The metrics of the wiki page, likewise."""

KENDALL: dict[str, ByHand] = {"Kendall": kendall, "Kendall(weight=difference)": partial(kendall, by_difference=True)}

_BY_HAND: dict[str, ByHand] = {**MURPHY, "nRBP": wrong_pairs, "LinearDCG": linear_dcg}

METRICS = ("nDCG", "AP", "nRBP")  # that the thesis bounds
LOSS_ONLY = "nRBP"  # the metric that is already a loss; the losses of the others are their negated values
SHORT = 9  # items of the longest lists whose orders are all enumerated
LISTS = tuple((n, p) for n in range(2, SHORT + 1) for p in range(1, n + 1))  # N items with P relevant ones
MIXED = tuple((n, p) for n, p in LISTS if p < n)  # those whose orders differ
RATIOS = (1, 2, 3)  # sampled negatives per relevant item in the thesis
SAME = 1e-9  # largest difference of values that count as equal


def binary_orders(n: int, p: int) -> list[Order]:
    """Return all orders of `n` items, `p` of them relevant; each is equally likely."""
    return [tuple(int(rank in held) for rank in range(n)) for held in map(set, combinations(range(n), p))]


@cache
def values(metric: str, n: int, p: int) -> tuple[Value, ...]:
    """Return the metric of every order."""
    return tuple(map(_BY_HAND[metric], binary_orders(n, p)))


def mean(known: Sequence[Value]) -> Value:
    """Return the mean, an exact fraction except of floats."""
    return sum(known, Fraction()) / len(known)


def agree(found: Iterable[Value], expected: Iterable[Value]) -> int:
    """Count the values that are equal."""
    pairs = zip(found, expected, strict=True)
    return sum(abs(float(one) - float(other)) <= SAME * max(1.0, abs(float(other))) for one, other in pairs)


def right_for(metric: str, of_orders: OfOrders, formula: Formula, lists: Sequence[tuple[int, int]] = LISTS) -> int:
    """Count the lists for which a formula gives the metric's `min`, `max` or `mean` over all orders."""
    return agree((formula(n, p) for n, p in lists), (of_orders(values(metric, n, p)) for n, p in lists))


def smallest(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the smallest value over all orders of each list."""
    return _by_orders(min, metric, rb.minimum(metric, n, p), n, p)


def expected_loss(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the mean loss over all orders of each list."""
    return as_loss(metric, _by_orders(mean, metric, rb.expectation(metric, n, p), n, p))


def _by_orders(of_orders: OfOrders, metric: str, formula: Floats, n: Integers, p: Integers) -> Floats:
    """Return the formula's values, with those of short lists replaced."""
    result = np.array(formula, dtype=np.float64)
    for index in np.flatnonzero(n <= SHORT):
        result[index] = float(of_orders(values(metric, int(n[index]), int(p[index]))))
    return result


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


def _discounts(first: int, last: int) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in range(first, last + 1))


def _expected_ap(n: int, p: int) -> Fraction:
    """The i-th relevant item is at rank r with i/r times the probability of i hits in r draws."""
    chances = (
        Fraction(i * i * comb(p, i) * comb(n - p, r - i), r * r * comb(n, r))
        for i in range(1, p + 1)
        for r in range(i, n - p + i + 1)
    )
    return sum(chances, Fraction()) / p


EQUATIONS: dict[str, Formula] = {
    "3.2 as printed": lambda n, p: _discounts(n - p + 1, n),
    "3.2": lambda n, p: _discounts(n - p + 1, n) / _discounts(1, p),
    "3.3": lambda n, p: Fraction(p * (2 * n - p - 1), 2) - Fraction(p * (p - 1), 2),
    "3.4": lambda n, p: sum((Fraction(i, n - p + i) for i in range(1, p + 1)), Fraction()) / p,
    "3.8 as printed": lambda n, p: p * _discounts(1, n) / _discounts(1, p),
    "3.8": lambda n, p: p / n * _discounts(1, n) / _discounts(1, p),
    "3.9": lambda n, p: Fraction(p * (n - p), 2),
    "3.10": _expected_ap,
}
"""The thesis' extremes and expectations of a list of N items with P relevant ones, by equation.

3.2 lacks the division by the ideal DCG and 3.8 has P instead of P/N: corrected forms stand beside both.
"""
