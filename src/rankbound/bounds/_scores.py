"""The scores whose distribution over random orders is known: sums over the relevant items of one list.

Each is `sum over relevant items of increment(r, c) / scale`, with r the item's rank and c the number of relevant
items down to it (itself included), so that one recursion over (r, c) serves them all:

    nDCG        1 / log2(r + 1)      scale = IDCG = sum_{r <= P} 1 / log2(r + 1)
    AP          c / r                scale = P
    nRBP loss   r - c                scale = 1     (thesis eq. 2.12: integers 0 .. P(N - P), lower is better)

Moments over a uniformly random order of N items, P of them relevant; each agrees with brute force (see the tests).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """One additive score: its increments and, in closed form, its scale, extremes, mean and standard deviation."""

    name: str
    increment: Callable[[Floats, Floats], Floats]
    """(ranks, relevant so far) -> what a relevant item adds; arrays that broadcast."""
    counted: bool
    """Whether the increment depends on the number of relevant items so far."""
    scale: Callable[[int], float]
    minimum: Callable[[int, int], float]
    maximum: Callable[[int, int], float]
    mean: Callable[[int, int], float]
    variance: Callable[[int, int], float]


def score(name: str) -> Score:
    """The score of that name ; `ValueError` names those that exist."""
    try:
        return _SCORES[str(name)]
    except KeyError:
        raise ValueError(
            f"metric {str(name)!r} has no score distribution: expected one of {', '.join(_SCORES)} "
            "('nRBP' is the loss of eq. 2.12, without a persistence)"
        ) from None


def discounts(n: int) -> Floats:
    """1 / log2(r + 1) for the ranks r = 1 .. n."""
    return np.asarray(1.0 / np.log2(np.arange(2.0, n + 2.0)))


def _ndcg_minimum(n: int, p: int) -> float:
    """Thesis eq. 3.2, with the IDCG that it forgets."""
    return float(discounts(n)[n - p :].sum()) / _idcg(p)


def _ndcg_mean(n: int, p: int) -> float:
    return p / n * float(discounts(n).sum()) / _idcg(p)


def _ndcg_variance(n: int, p: int) -> float:
    """P of N numbers drawn without replacement: P (N - P) / (N - 1) times their variance."""
    return p * (n - p) / max(n - 1, 1) * float(discounts(n).var()) / _idcg(p) ** 2


def _idcg(p: int) -> float:
    return float(discounts(p).sum())


def _ap_minimum(n: int, p: int) -> float:
    """Thesis eq. 3.4."""
    found = np.arange(1.0, p + 1.0)
    return float((found / (n - p + found)).sum()) / p


def _ap_mean(n: int, p: int) -> float:
    harmonic = float((1.0 / np.arange(1.0, n + 1.0)).sum())
    return ((p - 1) / max(n - 1, 1) * (n - harmonic) + harmonic) / n


def _ap_variance(n: int, p: int) -> float:
    """In O(N): P * AP = sum_r y_r (1 + c_{r-1}) / r; products of k different y have the mean e_k = (P)_k / (N)_k.

    The mean of the square is sum_r E[y_r (1 + c_{r-1})^2] / r^2 plus twice the sum over q < r of
    E[y_q (1 + c_{q-1}) y_r (1 + c_{r-1})] / (q r); each expands into e_1 .. e_4, the inner sum over q into
    harmonic numbers.
    """
    e1, e2, e3, e4 = np.cumprod([max(p - k, 0) / max(n - k, 1) for k in range(4)])
    rank = np.arange(1.0, n + 1.0)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / rank)[:-1]])
    squares = (e1 + 3 * (rank - 1) * e2 + (rank - 1) * (rank - 2) * e3) / rank**2
    products = (
        2 * e2 * harmonic + e3 * (3 * (rank - 1) + (rank - 5) * harmonic) + e4 * (rank - 3) * (rank - 1 - harmonic)
    ) / rank
    return max(float((squares + 2 * products).sum()) / p**2 - _ap_mean(n, p) ** 2, 0.0)


_SCORES = {
    entry.name: entry
    for entry in (
        Score(
            name="nDCG",
            increment=lambda rank, found: 1.0 / np.log2(rank + 1.0),
            counted=False,
            scale=_idcg,
            minimum=_ndcg_minimum,
            maximum=lambda n, p: 1.0,
            mean=_ndcg_mean,
            variance=_ndcg_variance,
        ),
        Score(
            name="AP",
            increment=lambda rank, found: found / rank,
            counted=True,
            scale=float,
            minimum=_ap_minimum,
            maximum=lambda n, p: 1.0,
            mean=_ap_mean,
            variance=_ap_variance,
        ),
        Score(
            name="nRBP",
            increment=lambda rank, found: rank - found,
            counted=True,
            scale=lambda p: 1.0,
            minimum=lambda n, p: 0.0,
            maximum=lambda n, p: float(p * (n - p)),
            mean=lambda n, p: p * (n - p) / 2,
            variance=lambda n, p: p * (n - p) * (n + 1) / 12,
        ),
    )
}
