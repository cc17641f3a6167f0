"""Closed-form distributions of metrics that take few values on binary lists, or that count pairs."""

import numpy as np

from rankbound.bounds._atoms import Atoms
from rankbound.bounds._rank_sums import rank_sums
from rankbound.bounds._scores import Floats, rank_discounts
from rankbound.bounds._tilted import UNIFORM, TiltedOrders
from rankbound.metrics import Metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.pairs import RankedPairs
from rankbound.metrics.precision import Precision, RPrecision

EXACT_INTEGERS = 50_000_000
"""Numbers of wrongly ordered pairs have an exact distribution up to this one, 400 MB of probabilities."""


def closed_form(metric: Metric, n: int, p: int, tilt: float = UNIFORM) -> Atoms | None:
    """Return the distribution over random orders of N items, P relevant, 0 < P < N; `None` without a formula.

    With a tilt, walks over the ranks replace the formulas.
    """
    if isinstance(metric, RankedPairs):
        return None if p * (n - p) > EXACT_INTEGERS else _of_wrong_pairs(metric, n, p, tilt)
    if isinstance(metric, AdditiveMetric):
        return _of_hits(metric, n, p, tilt)
    if type(metric) is RPrecision:
        return _of_hits(Precision(cutoff=p), n, p, tilt)
    if type(metric) is ReciprocalRank:
        return _reciprocal_rank(_of_first(n, p, tilt), n, metric.cutoff)
    if type(metric) is Hit:
        missed = _of_first(n, p, tilt)[metric.cutoff :].sum()
        return (
            Atoms(np.array([0.0, 1.0]), np.array([missed, 1.0 - missed])) if missed else Atoms(np.ones(1), np.ones(1))
        )
    return None


def _of_wrong_pairs(metric: RankedPairs, n: int, p: int, tilt: float) -> Atoms:
    """Return the distribution of a monotonic function of the number of wrongly ordered pairs (Mann-Whitney U)."""
    probability = rank_sums(n, p, tilt)
    wrong = np.arange(float(len(probability)))
    values = metric.of_wrong_pairs(wrong, np.full_like(wrong, n), np.full_like(wrong, p))
    ascending = slice(None) if values[0] <= values[-1] else slice(None, None, -1)
    return Atoms(values[ascending].copy(), probability[ascending].copy())


def _of_hits(metric: AdditiveMetric, n: int, p: int, tilt: float) -> Atoms | None:
    """Return the hypergeometric distribution of P@k, recall@k or CG@k, whose discount is a step; otherwise `None`."""
    discounts = rank_discounts(metric, n)
    k = int(np.count_nonzero(discounts == discounts[0]))
    if discounts[0] == 0 or discounts[k:].any():
        return None
    hits = np.arange(max(0, k - (n - p)), min(k, p) + 1)
    if tilt != UNIFORM:
        return Atoms(_scaled(metric, p, hits * discounts[0]), TiltedOrders(n, p, tilt).chances_of_hits(k)[hits])
    fewer = hits[:-1]
    log_ratios = np.log((k - fewer) * (p - fewer)) - np.log((fewer + 1) * (n - k - p + fewer + 1))
    return Atoms(_scaled(metric, p, hits * discounts[0]), _chances(log_ratios))


def _scaled(metric: AdditiveMetric, p: int, gains: Floats) -> Floats:
    return np.asarray(gains / float(metric.binary_normaliser(np.array([p]))[0]))


def _reciprocal_rank(chances: Floats, n: int, cutoff: int | None) -> Atoms:
    last = min(cutoff or n, len(chances))
    values, beyond = 1.0 / np.arange(1.0, last + 1.0), float(chances[last:].sum())
    ascending, own = values[::-1].copy(), chances[:last][::-1].copy()
    if last == len(chances):
        return Atoms(ascending, own)
    return Atoms(np.concatenate([[0.0], ascending]), np.concatenate([[beyond], own]))


def _of_first(n: int, p: int, tilt: float) -> Floats:
    """Return the probabilities that the first relevant item has rank 1 .. N - P + 1."""
    if tilt != UNIFORM:
        return TiltedOrders(n, p, tilt).chances_of_first()
    return _chances(_log_ratios_of_first(n, p))


def _log_ratios_of_first(n: int, p: int) -> Floats:
    """Return log(P(J = j + 1) / P(J = j)) for the rank J of the first relevant item, j = 1 .. N - P."""
    rank = np.arange(1.0, n - p + 1.0)
    return np.asarray(np.log(n - rank - p + 1) - np.log(n - rank))


def _chances(log_ratios: Floats) -> Floats:
    """Return probabilities, given the logarithms of the ratio of each to the one before."""
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    sizes = np.exp(logs - logs.max())
    return np.asarray(sizes / sizes.sum())
