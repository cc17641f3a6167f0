"""Values of metrics over every order of short lists; for long lists, by the library's formulas.

Many claims are about these formulas, so short lists never use them: all their orders are enumerated.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

import rankbound as rb
from rankbound_study.claims.by_hand import Order, average_precision, ndcg, wrong_pairs

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
