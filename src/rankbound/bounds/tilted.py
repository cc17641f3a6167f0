"""Sums over the relevant items under tilted orders, by walks over the ranks, and closed forms of other metrics.

Unless orders are uniform, the first r ranks aren't an order of r items under the same model, so every (N, P) needs its
own walk. Metrics that take few values on binary lists, or that count pairs, have closed forms for both kinds of orders.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from math import ceil, floor, inf, log, pi

import numpy as np

from rankbound.bounds.exact import (
    LARGEST_ERROR,
    MOST_COEFFICIENTS,
    STATES,
    TOLERANCE,
    Binned,
    Complexes,
    Series,
    Turn,
    rank_sum_distribution,
)
from rankbound.bounds.sampled import (
    Atoms,
    Floats,
    RandomOrders,
    Score,
    discounts_of,
)
from rankbound.metrics import Metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.pairs import RankedPairs, RankSum
from rankbound.metrics.precision import Precision, RPrecision

UNSEEN = 1e-14
"""A walk omits states beyond which the mass is at most this."""
EXACT_INTEGERS = 50_000_000
"""Numbers of wrongly ordered pairs have an exact distribution up to this one, 400 MB of probabilities."""
NEGLIGIBLE = 1e-9
"""The characteristic function is cut after a stretch whose second half stays below this."""
WALK_ERROR = 1e-8
"""Error of the CDF, including the mass outside the window."""
_LOG_OUTSIDE = log(1e9)
"""The window of a score excludes less than 2e-9 of the mass (Chernoff's inequality)."""
_REACHES = np.geomspace(0.05, 3.0, 24)
"""Parameters tried in Chernoff's inequality, in units of the optimal one for a normal distribution."""
_FIRST_STRETCH = 32


class TiltedScore:
    """A score (`Score`) of tilted orders: its moments, window and Fourier coefficients.

    They are computed by walks from the last rank to the first: the sum from rank r on depends on the order above only
    through the number of relevant items there.
    """

    def __init__(self, score: Score, orders: RandomOrders) -> None:
        self.score, self.orders = score, orders
        self._before = np.arange(orders.p)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """The mean and variance of the unscaled score."""
        mean, variance = np.zeros(self.orders.p + 1), np.zeros(self.orders.p + 1)
        for _, chance, added in self._ranks():
            step = added + mean[1:] - mean[:-1]
            variance[:-1] += chance * (variance[1:] - variance[:-1]) + chance * (1 - chance) * step**2
            mean[:-1] += chance * step
        return float(mean[0]), float(variance[0])

    @cached_property
    def window(self) -> tuple[float, float]:
        """An interval of the unscaled score that holds all but 2e-9 of the mass.

        It follows from Chernoff's inequality: P(S - E S > x) <= exp(-a x) E exp(a (S - E S)) for every a > 0.
        """
        centre, variance = self.moments
        best = (2 * _LOG_OUTSIDE / variance) ** 0.5
        parameters = np.concatenate([-best * _REACHES, best * _REACHES])[:, None]
        mean, generating = np.zeros(self.orders.p + 1), np.ones((len(parameters), self.orders.p + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for _, chance, added in self._ranks():
                step = added + mean[1:] - mean[:-1]
                risen = chance * np.exp(parameters * (1 - chance) * step) * generating[:, 1:]
                generating[:, :-1] *= (1 - chance) * np.exp(-parameters * chance * step)
                generating[:, :-1] += risen
                mean[:-1] += chance * step
            reach = (np.log(generating[:, 0]) + _LOG_OUTSIDE) / np.abs(parameters[:, 0])
        down, up = np.where(np.isfinite(reach), reach, np.inf).reshape(2, -1).min(axis=1)
        return centre - float(down), centre + float(up)

    def coefficients(self, step: float, count: int, first: int = 1) -> Complexes:
        """Return the mean of exp(i k step S), k = first .. first + count - 1, S the unscaled score; `(count,)`."""
        turn = Turn(self.score, self.orders.n, step, count, first)
        values = np.ones((count, self.orders.p + 1), dtype=np.complex128)
        for (rank, chance, _), (low, high) in zip(self._ranks(), reversed(self._visited), strict=True):
            stop = min(high, self.orders.p - 1) + 1
            if low >= stop:
                continue
            share = chance[low:stop]
            relevant = turn(rank, np.arange(low + 1.0, stop + 1.0)) * values[:, low + 1 : stop + 1]
            relevant *= share
            values[:, low:stop] *= 1.0 - share
            values[:, low:stop] += relevant
        return np.asarray(values[:, 0])

    @cached_property
    def _visited(self) -> list[tuple[int, int]]:
        """For each rank 1 .. n, the smallest and largest number of relevant items before it that the walks need."""
        visited = []
        for before in islice(self.orders.chances_before(), self.orders.n):
            below = np.cumsum(before)
            above = np.cumsum(before[::-1])[::-1]
            visited.append((int(np.argmax(below > UNSEEN)), int(len(above) - 1 - np.argmax(above[::-1] > UNSEEN))))
        return visited

    def _ranks(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield, from the last rank to the first, probability and increment of a relevant item after 0 .. p - 1."""
        so_far, ranks = self._before + 1.0, np.arange(1.0, self.orders.n + 1.0)
        fixed = None if self.score.counted else self.score.increment(ranks, np.ones(1))
        for rank in range(self.orders.n, 0, -1):
            added = self.score.increment(np.float64(rank), so_far) if fixed is None else fixed[rank - 1]  # type: ignore[arg-type]
            yield rank, self.orders.chance(rank, self._before), np.broadcast_to(added, so_far.shape)


def binned_tilted(
    score: Score, orders: RandomOrders, work: float = inf, tolerance: float = LARGEST_ERROR
) -> Binned | None:
    """Return the binned distribution over the score's range, with as many coefficients as its series needs.

    Single orders of a short list can be likelier than `LARGEST_ERROR`, too likely for bins of that error. If the error
    with `MOST_COEFFICIENTS`, or as many as `work` allows, is larger, up to `tolerance` is accepted; otherwise the
    result is `None`.
    """
    of, n, p = TiltedScore(score, orders), orders.n, orders.p
    scale, minimum, maximum = score.scale(p), score.minimum(n, p), score.maximum(n, p)
    margin = 0.02 * (maximum - minimum)
    window = max(of.window[0] / scale, minimum) - margin, min(of.window[1] / scale, maximum) + margin
    period = window[1] * scale - window[0] * scale
    count = 8 * ceil(2 * period / of.moments[1] ** 0.5 / 8)
    most = min(MOST_COEFFICIENTS, work / (n * min(p, STATES)))
    coefficients = of.coefficients(2 * pi / period, count)
    while True:
        series = Series(score, orders, window, of.moments[1] ** 0.5 / scale, period, coefficients)
        if series.truncation_error <= TOLERANCE or count >= most:
            binned = series.binned()
            if binned.error <= LARGEST_ERROR / 2 or count >= most:
                return binned if binned.error <= tolerance else None
        more = of.coefficients(2 * pi / period, min(count, MOST_COEFFICIENTS - count), count + 1)
        coefficients = np.concatenate([coefficients, more])
        count = len(coefficients)


def rank_sums(orders: RandomOrders) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss, shape `(P(N - P) + 1,)`, sum 1.

    Tilted items aren't exchangeable, so the closed form of the Mann-Whitney U doesn't apply: a walk gives the
    characteristic function at 2 pi k / M, in a window of M integers, and one FFT the probabilities.
    """
    if orders.is_uniform:
        return rank_sum_distribution(orders.n, orders.p)
    of = TiltedScore(Score(RankSum()), orders)
    largest = orders.p * (orders.n - orders.p)
    low, high = max(0, floor(of.window[0])), min(largest, ceil(of.window[1]))
    period = high - low + 1
    stretches, known, length = [np.ones(1, dtype=np.complex128)], 1, _FIRST_STRETCH
    while known <= period // 2:
        stretch = of.coefficients(2 * pi / period, min(length, period // 2 + 1 - known), known)
        stretches.append(stretch)
        known += len(stretch)
        length *= 2
        if np.abs(stretch[len(stretch) // 2 :]).max() < NEGLIGIBLE:
            break
    values = np.concatenate(stretches) * np.exp(-2j * pi / period * low * np.arange(known))
    spectrum = np.zeros(period // 2 + 1, dtype=np.complex128)
    spectrum[: len(values)] = values
    probability = np.zeros(largest + 1)
    # Conjugated, since a mass at m has the characteristic function exp(+ i w m).
    probability[low : high + 1] = np.maximum(np.fft.irfft(spectrum.conj(), period), 0.0)
    return np.asarray(probability / probability.sum())


def closed_form(metric: Metric, orders: RandomOrders) -> Atoms | None:
    """Return the distribution over random orders of a list with 0 < P < N; `None` without a formula."""
    if isinstance(metric, RankedPairs):
        return _of_wrong_pairs(metric, orders) if orders.p * (orders.n - orders.p) <= EXACT_INTEGERS else None
    if isinstance(metric, AdditiveMetric):
        return _of_hits(metric, orders)
    if type(metric) is RPrecision:
        return _of_hits(Precision(cutoff=orders.p), orders)
    if type(metric) is ReciprocalRank:
        return _reciprocal_rank(orders.chances_of_first(), metric.cutoff or orders.n)
    if type(metric) is Hit and (missed := orders.chances_of_first()[metric.cutoff :].sum()):
        return Atoms(np.array([0.0, 1.0]), np.array([missed, 1.0 - missed]))
    return Atoms(np.ones(1), np.ones(1)) if type(metric) is Hit else None


def _of_wrong_pairs(metric: RankedPairs, orders: RandomOrders) -> Atoms:
    """Return the distribution of a monotonic function of the number of wrongly ordered pairs (Mann-Whitney U)."""
    probability = rank_sums(orders)
    wrong = np.arange(float(len(probability)))
    values = metric.of_wrong_pairs(wrong, np.full_like(wrong, orders.n), np.full_like(wrong, orders.p))
    ascending = slice(None) if values[0] <= values[-1] else slice(None, None, -1)
    return Atoms(values[ascending].copy(), probability[ascending].copy())


def _of_hits(metric: AdditiveMetric, orders: RandomOrders) -> Atoms | None:
    """Return the hypergeometric distribution of P@k, recall@k or CG@k, whose discount is a step; otherwise `None`."""
    discounts = discounts_of(metric, orders.n)
    k = int(np.count_nonzero(discounts == discounts[0]))
    if discounts[0] == 0 or discounts[k:].any():
        return None
    hits = np.arange(max(0, k - (orders.n - orders.p)), min(k, orders.p) + 1)
    normaliser = float(metric.binary_normaliser(np.array([orders.p]))[0])
    return Atoms(hits * discounts[0] / normaliser, orders.chances_of_hits(k, hits))


def _reciprocal_rank(chances: Floats, cutoff: int) -> Atoms:
    """Return the distribution of RR, given the probabilities of the first relevant item's ranks."""
    last = min(cutoff, len(chances))
    ascending, own = 1.0 / np.arange(last, 0.0, -1.0), chances[:last][::-1].copy()
    if last == len(chances):
        return Atoms(ascending, own)
    return Atoms(np.concatenate([[0.0], ascending]), np.concatenate([[chances[last:].sum()], own]))
