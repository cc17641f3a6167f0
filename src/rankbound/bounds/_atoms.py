"""Score distributions of short lists by enumeration of all orders, with equal scores merged."""

from math import comb

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._scores import Floats, Score

SAME_SCORE = 1e-12
"""Scores closer than this, relative to the largest, are equal; rounding errors are 1e-15, AP of short lists differ by
at least 1e-10."""


def enumerate_orders(score: Score, n: int, p: int) -> tuple[Floats, Floats]:
    """Return the distinct scores, ascending, of all C(N, P) equally likely orders, and their probabilities.

    Partial orders are extended by the next relevant item's rank, in every way that leaves room for the rest.
    """
    last, total = np.zeros(1, dtype=np.int64), np.zeros(1)
    for placed in range(1, p + 1):
        choices = n - (p - placed) - last
        first = np.cumsum(choices) - choices
        step = np.arange(int(choices.sum())) - np.repeat(first, choices)
        last = np.repeat(last, choices) + 1 + step
        total = np.repeat(total, choices)
        total += score.increment(last.astype(np.float64), np.float64(placed))  # type: ignore[arg-type]
    total /= score.scale(p)
    scores, counts = merge_equal(total)
    # Rounding must not exceed the closed forms of the extremes.
    return scores.clip(score.minimum(n, p), score.maximum(n, p)), counts / comb(n, p)


def merge_equal(values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the distinct values, ascending, and their counts; values within `SAME_SCORE` are equal."""
    ordered = np.sort(values)
    first = _first_of_equal(ordered)
    return ordered[first], np.diff(first, append=len(ordered))


def merge_weighted(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the distinct values, ascending, and the total weight of each."""
    order = np.argsort(values, kind="stable")
    first = _first_of_equal(values[order])
    return values[order][first], np.add.reduceat(weights[order], first)


def _first_of_equal(ordered: Floats) -> NDArray[np.int64]:
    tolerance = SAME_SCORE * max(1.0, float(np.abs(ordered[[0, -1]]).max()))
    return np.flatnonzero(np.diff(ordered, prepend=-np.inf) > tolerance)
