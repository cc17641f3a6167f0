"""Metrics that take few values on a list of binary relevance, or that count pairs: their distributions by formula."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rankbound.bounds._mann_whitney import rank_sum_distribution
from rankbound.bounds._scores import Floats, rank_discounts
from rankbound.metrics import Hit, Metric, ReciprocalRank
from rankbound.metrics.additive import AdditiveMetric
from rankbound.metrics.linear import LinearMetric
from rankbound.metrics.pairs import PairMetric

Atoms = tuple[Floats, Floats]
"""Scores, ascending, and their probabilities."""


def closed_form(metric: Metric, n: int, p: int) -> Atoms | None:
    """The distribution over random orders of N items, P of them relevant, 0 < P < N; None if there is no formula."""
    size, relevant = (torch.tensor(float(count), dtype=torch.float64) for count in (n, p))
    if isinstance(metric, LinearMetric):
        return _of_wrong_pairs(lambda wrong: metric.of_rank_sums(wrong + p * (p + 1) / 2, size, relevant), n, p)
    if isinstance(metric, PairMetric):
        return _of_wrong_pairs(lambda wrong: metric.of_pairs(wrong, relevant * (size - relevant), size), n, p)
    if isinstance(metric, AdditiveMetric):
        return _of_hits(metric, n, p)
    if type(metric) is ReciprocalRank:
        return _reciprocal_rank(n, p, metric.cutoff)
    if type(metric) is Hit:
        missed = _chances(_log_ratios_of_first(n, p))[metric.cutoff :].sum()
        return (np.array([0.0, 1.0]), np.array([missed, 1.0 - missed])) if missed else (np.ones(1), np.ones(1))
    return None


def _of_wrong_pairs(values_of: Callable[[Tensor], Tensor], n: int, p: int) -> Atoms:
    """A function of the number of wrongly ordered pairs, which is Mann and Whitney's U, and with it rises or falls."""
    probability = rank_sum_distribution(n, p)
    values = values_of(torch.arange(len(probability), dtype=torch.float64)).numpy()
    return (values, probability) if values[0] <= values[-1] else (values[::-1].copy(), probability[::-1].copy())


def _of_hits(metric: AdditiveMetric, n: int, p: int) -> Atoms | None:
    """Hypergeometric, where the first k ranks count alike and others not at all, as for P@k, recall@k and CG@k."""
    discounts = rank_discounts(metric, n)
    k = int(np.count_nonzero(discounts == discounts[0]))
    if discounts[0] == 0 or discounts[k:].any():
        return None
    hits = np.arange(max(0, k - (n - p)), min(k, p) + 1)
    fewer = hits[:-1]
    log_ratios = np.log((k - fewer) * (p - fewer)) - np.log((fewer + 1) * (n - k - p + fewer + 1))
    normaliser = float(metric.binary_normaliser(torch.tensor([float(p)], dtype=torch.float64)))
    return hits * discounts[0] / normaliser, _chances(log_ratios)


def _reciprocal_rank(n: int, p: int, cutoff: int | None) -> Atoms:
    chances = _chances(_log_ratios_of_first(n, p))
    last = min(cutoff or n, len(chances))
    values, beyond = 1.0 / np.arange(1.0, last + 1.0), float(chances[last:].sum())
    ascending, own = values[::-1].copy(), chances[:last][::-1].copy()
    if last == len(chances):
        return ascending, own
    return np.concatenate([[0.0], ascending]), np.concatenate([[beyond], own])


def _log_ratios_of_first(n: int, p: int) -> Floats:
    """Logarithms of P(J = j + 1) / P(J = j) for the rank J of the first relevant item, j = 1 .. N - P."""
    rank = np.arange(1.0, n - p + 1.0)
    return np.asarray(np.log(n - rank - p + 1) - np.log(n - rank))


def _chances(log_ratios: Floats) -> Floats:
    """Probabilities from the logarithms of the ratio of each to the one before."""
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    sizes = np.exp(logs - logs.max())
    return np.asarray(sizes / sizes.sum())
