"""Scores that are sums over the relevant items of a list; their distributions are computed rank by rank.

A score is `sum over relevant items of increment(r, c) / scale`, with r the item's rank and c the number of relevant
items up to it, itself included. One recursion over (r, c) serves all of them:

    nDCG        1 / log2(r + 1)      scale = IDCG = sum_{r <= P} 1 / log2(r + 1)
    AP          c / r                scale = P
    nRBP loss   r - c                scale = 1     (thesis eq. 2.12: integers 0 .. P(N - P), lower is better)

Any other sum of gain times discount without a cut-off is defined by the metric's discount and normaliser. The moments
are over uniformly random orders of N items, P of them relevant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from rankbound.lists import on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.cumulative_gain import NDCG, AdditiveMetric
from rankbound.metrics.pairs import RankSum

Floats = NDArray[np.float64]

DECREASING_UNTIL = 4096
"""Number of ranks for which a discount is verified not to increase."""


@dataclass(frozen=True)
class Score:
    """An additive score: its increments and, in closed form, its scale, extremes, mean and variance."""

    name: str
    increment: Callable[[Floats, Floats], Floats]
    """Maps ranks and numbers of relevant items so far to a relevant item's increments; arrays that broadcast."""
    counted: bool
    """True if the increment depends on the number of relevant items so far."""
    scale: Callable[[int], float]
    minimum: Callable[[int, int], float]
    maximum: Callable[[int, int], float]
    mean: Callable[[int, int], float]
    variance: Callable[[int, int], float]


def score(name: str) -> Score:
    """Return the score named nDCG, AP or nRBP (the loss of eq. 2.12)."""
    return _SCORES[name]


def score_of(metric: Metric) -> Score | None:
    """Return the metric as a score of binary lists; `None` if it isn't such a sum."""
    if type(metric) is RankSum:
        return score("nRBP")
    if getattr(metric, "cutoff", None) is not None:
        return None
    if type(metric) is AveragePrecision:
        return score("AP")
    if type(metric) is NDCG and metric.discount == NDCG.discount:
        return score("nDCG")
    return _additive(metric) if isinstance(metric, AdditiveMetric) else None


def is_of_thesis(score: Score) -> bool:
    """Return true for nDCG, AP and the nRBP loss."""
    return _SCORES.get(score.name) is score


def rank_discounts(metric: AdditiveMetric, n: int) -> Floats:
    """Return the metric's discounts of the ranks 1 .. n, 0 beyond the cut-off."""
    at = _discounts_at(metric, np.arange(1.0, n + 1.0))
    at[getattr(metric, "cutoff", None) or n :] = 0.0
    return at


def discounts(n: int) -> Floats:
    """Return 1 / log2(r + 1) for the ranks r = 1 .. n."""
    return np.asarray(1.0 / np.log2(np.arange(2.0, n + 2.0)))


def _ndcg_minimum(n: int, p: int) -> float:
    """Return thesis eq. 3.2 divided by IDCG, which the thesis omits."""
    return float(discounts(n)[n - p :].sum()) / _idcg(p)


def _ndcg_mean(n: int, p: int) -> float:
    return p / n * float(discounts(n).sum()) / _idcg(p)


def _ndcg_variance(n: int, p: int) -> float:
    """Return the variance of a sum of P of N numbers drawn without replacement: P (N - P) / (N - 1) times theirs."""
    return p * (n - p) / max(n - 1, 1) * float(discounts(n).var()) / _idcg(p) ** 2


def _idcg(p: int) -> float:
    return float(discounts(p).sum())


def _ap_minimum(n: int, p: int) -> float:
    """Return thesis eq. 3.4."""
    so_far = np.arange(1.0, p + 1.0)
    return float((so_far / (n - p + so_far)).sum()) / p


def _ap_mean(n: int, p: int) -> float:
    harmonic = float((1.0 / np.arange(1.0, n + 1.0)).sum())
    return ((p - 1) / max(n - 1, 1) * (n - harmonic) + harmonic) / n


def _ap_variance(n: int, p: int) -> float:
    """Return the variance of AP in O(N).

    P * AP = sum_r y_r (1 + c_{r-1}) / r, and products of k different y have the mean e_k = (P)_k / (N)_k. The mean of
    the square is sum_r E[y_r (1 + c_{r-1})^2] / r^2 plus twice the sum over q < r of
    E[y_q (1 + c_{q-1}) y_r (1 + c_{r-1})] / (q r). Each term expands into e_1 .. e_4, the inner sum over q into
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
            increment=lambda rank, so_far: 1.0 / np.log2(rank + 1.0),
            counted=False,
            scale=_idcg,
            minimum=_ndcg_minimum,
            maximum=lambda n, p: 1.0,
            mean=_ndcg_mean,
            variance=_ndcg_variance,
        ),
        Score(
            name="AP",
            increment=lambda rank, so_far: so_far / rank,
            counted=True,
            scale=float,
            minimum=_ap_minimum,
            maximum=lambda n, p: 1.0,
            mean=_ap_mean,
            variance=_ap_variance,
        ),
        Score(
            name="nRBP",
            increment=lambda rank, so_far: rank - so_far,
            counted=True,
            scale=lambda p: 1.0,
            minimum=lambda n, p: 0.0,
            maximum=lambda n, p: float(p * (n - p)),
            mean=lambda n, p: p * (n - p) / 2,
            variance=lambda n, p: p * (n - p) * (n + 1) / 12,
        ),
    )
}


@lru_cache(maxsize=64)
@on_cpu
def _additive(metric: AdditiveMetric) -> Score | None:
    """Return the metric's score in units of the first discount, so that increments are at most 1; `None` otherwise."""
    seen = _discounts_at(metric, np.arange(1.0, DECREASING_UNTIL))
    first = float(seen[0])
    if not (first > 0 and (np.diff(seen) <= 0).all()):
        return None

    def scale(p: int) -> float:
        return float(metric.binary_normaliser(np.array([p]))[0]) / first

    def closed(form: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats]) -> Callable[[int, int], float]:
        return lambda n, p: float(form(np.array([n]), np.array([p]))[0])

    return Score(
        name=str(metric),
        increment=lambda rank, so_far: _discounts_at(metric, np.asarray(rank)) / first,
        counted=False,
        scale=scale,
        minimum=closed(lambda n, p: metric.binary_extremes(n, p)[0]),
        maximum=closed(lambda n, p: metric.binary_extremes(n, p)[1]),
        mean=closed(metric.binary_expectation),
        variance=lambda n, p: (
            p * (n - p) / max(n - 1, 1) * float(rank_discounts(metric, n).var()) / (first * scale(p)) ** 2
        ),
    )


def _discounts_at(metric: AdditiveMetric, ranks: Floats) -> Floats:
    return np.array(metric.discount_at(torch.from_numpy(np.asarray(ranks, dtype=np.float64))).numpy())
