"""Tilted random orders, which are biased towards ranking relevant items first, and closed forms of distributions.

Ranks are filled from the top by draws without replacement, with weight t (the tilt) for a relevant item and 1 for any
other: a Plackett-Luce model with two weights. With c of P relevant items among the first r - 1 of N ranks,

    P(rank r is relevant) = t (P - c) / (t (P - c) + (N - r + 1) - (P - c)).

t = 1 gives uniform orders. Source: Luce, Individual Choice Behavior (1959); Plackett, Applied Statistics 24 (1975).
Unless t = 1, the first r ranks aren't an order of r items under the same model, so every (N, P) needs its own walk.
Metrics that take few values on binary lists, or that count pairs, have closed forms for both kinds of orders.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from math import ceil, floor, inf, log, pi

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds.exact import (
    LARGEST_ERROR,
    MOST_COEFFICIENTS,
    STATES,
    TOLERANCE,
    Binned,
    Complexes,
    ExactSums,
    SeriesFacts,
    Turn,
    invert,
    rank_sum_distribution,
    truncation_error,
)
from rankbound.bounds.sampled import (
    PRIME,
    REPEAT_SAMPLES,
    UNREPEATED_ORDERS,
    Atoms,
    Floats,
    Score,
    is_finer_than_its_sums,
    merge,
    rank_discounts,
    residues,
    score,
    scores_of_sets,
    ulps_of_sum,
)
from rankbound.metrics import Metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.pairs import RankedPairs
from rankbound.metrics.precision import Precision, RPrecision

Flags = NDArray[np.bool_]
UNIFORM = 1.0
"""The tilt of uniform orders."""
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
_CHUNK_ITEMS = 2_000_000


@dataclass(frozen=True)
class TiltedOrders:
    """Random orders of `n` items, `p` of them relevant, with a tilt."""

    n: int
    p: int
    tilt: float

    def __post_init__(self) -> None:
        if not 0 < self.tilt < inf:
            raise ValueError(f"tilt: found {self.tilt:g}, expected a number above 0")

    def chance(self, rank: int, before: NDArray[np.int64]) -> Floats:
        """Return the probability that the item at a rank (from 1) is relevant, given the relevant items before it."""
        relevant = self.p - before
        others = np.maximum(self.n - rank + 1 - relevant, 0)
        return np.asarray(self.tilt * relevant / (self.tilt * relevant + others))

    def chances_before(self) -> Iterator[Floats]:
        """Yield, for the ranks 1 .. n + 1, the probabilities of 0 .. p relevant items before it, `(p + 1,)`."""
        before, counts = np.zeros(self.p + 1), np.arange(self.p + 1)
        before[0] = 1.0
        for rank in range(1, self.n + 1):
            yield before
            relevant = self.chance(rank, counts) * before
            before = before - relevant
            before[1:] += relevant[:-1]
        yield before

    def chances_of_hits(self, k: int) -> Floats:
        """Return the probabilities of 0 .. p relevant items among the first k ranks."""
        return next(islice(self.chances_before(), k, None))

    def chances_of_first(self) -> Floats:
        """Return the probabilities that the first relevant item has rank 1 .. N - P + 1."""
        rank = np.arange(1, self.n - self.p + 2)
        others = self.n - self.p - rank + 1
        chance = self.tilt * self.p / (self.tilt * self.p + others)
        return np.asarray(chance * np.concatenate([[1.0], np.cumprod(1.0 - chance[:-1])]))

    def log_chances(self, relevant: Flags) -> Floats:
        """Return the log-probability of each row of flags, the first ranks of an order; `(rows,)`."""
        before: NDArray[np.int64] = np.cumsum(relevant, axis=1) - relevant
        rank = np.arange(1, relevant.shape[1] + 1)
        left = self.p - before
        others = np.maximum(self.n - rank + 1 - left, 0)
        taken = np.where(relevant, self.tilt * left, others)
        with np.errstate(divide="ignore"):
            return np.asarray((np.log(taken) - np.log(self.tilt * left + others)).sum(axis=1))

    def draw(self, generator: np.random.Generator, rows: int) -> Flags:
        """Return rows of n flags, the relevant ranks of random orders."""
        flags = np.empty((rows, self.n), dtype=np.bool_)
        before = np.zeros(rows, dtype=np.int64)
        for rank in range(1, self.n + 1):
            flags[:, rank - 1] = generator.random(rows) < self.chance(rank, before)
            before += flags[:, rank - 1]
        return flags

    def drawn(self, samples: int, seed: int) -> Iterator[Flags]:
        """Yield `samples` random orders in chunks; they depend on the list, the tilt and the seed alone."""
        generator = np.random.default_rng((seed, self.n, self.p, int(np.array(self.tilt, np.float64).view(np.uint64))))
        rows = max(1, _CHUNK_ITEMS // self.n)
        for start in range(0, samples, rows):
            yield self.draw(generator, min(rows, samples - start))


class TiltedScore:
    """A score (`Score`) of tilted orders: its moments, window and Fourier coefficients.

    They are computed by walks from the last rank to the first: the sum from rank r on depends on the order above only
    through the number of relevant items there.
    """

    def __init__(self, score: Score, orders: TiltedOrders) -> None:
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

    @cached_property
    def repeated_order(self) -> float:
        """The probability that two orders have the relevant items at the same ranks."""
        same = np.ones(self.orders.p + 1)
        for _, chance, _ in self._ranks():
            same[:-1] = chance**2 * same[1:] + (1 - chance) ** 2 * same[:-1]
        return float(same[0])

    def coefficients(self, step: float, count: int, first: int = 1) -> Complexes:
        """Return the mean of exp(i k step S), k = first .. first + count - 1, S the unscaled score; `(count,)`."""
        turn = Turn(self.score, step, count, first)
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
        so_far = self._before + 1.0
        for rank in range(self.orders.n, 0, -1):
            added = self.score.increment(np.float64(rank), so_far)  # type: ignore[arg-type]
            yield rank, self.orders.chance(rank, self._before), np.broadcast_to(added, so_far.shape)


def enumerate_tilted(score: Score, orders: TiltedOrders) -> Atoms:
    """Return the distinct scores, ascending, of all C(N, P) orders, and their probabilities; as `enumerate_orders`."""
    n, p = orders.n, orders.p
    rank = np.arange(1, n + 1)
    last, log_chance, sums = np.zeros(1, dtype=np.int64), np.zeros(1), ExactSums(score, n, p)
    for placed in range(1, p + 1):
        left = p - placed + 1
        others = np.maximum(n - rank + 1 - left, 0)
        whole = orders.tilt * left + others
        with np.errstate(divide="ignore"):
            passed = np.concatenate([[0.0], np.cumsum(np.where(others > 0, np.log(others / whole), 0.0))])
        choices = n - (p - placed) - last
        first = np.cumsum(choices) - choices
        step = np.arange(int(choices.sum())) - np.repeat(first, choices)
        log_chance = np.repeat(log_chance - passed[last], choices)
        last = np.repeat(last, choices) + 1 + step
        log_chance += passed[last - 1] + np.log(orders.tilt * left / whole)[last - 1]
        sums.extend(choices, last, placed)
    return sums.atoms(np.exp(log_chance))


def sample_tilted(score: Score, orders: TiltedOrders, samples: int, seed: int) -> Atoms:
    """Return the distinct scores, ascending, of `samples` tilted orders, and their frequencies; as `sample_orders`."""
    n, p = orders.n, orders.p
    own = np.zeros(n)
    if is_finer_than_its_sums(score, n, p):
        own = residues(score.increment(np.arange(1.0, n + 1.0), np.ones(n))).astype(np.float64)
    parts = [(scores_of_sets(score, n, p, flags), flags @ own % PRIME) for flags in orders.drawn(samples, seed)]
    scores, keys = (np.concatenate(part) for part in zip(*parts, strict=True))
    return merge(scores, None, keys, ulps=ulps_of_sum(p))


@cache
def repeated_score(score: Score, orders: TiltedOrders) -> float:
    """Return the probability that two orders have the same score; as `repeat_probability`."""
    single = TiltedScore(score, orders).repeated_order
    if score.name != "AP" or single < 1 / UNREPEATED_ORDERS:
        return single
    counts = np.rint(sample_tilted(score, orders, REPEAT_SAMPLES, seed=0).probability * REPEAT_SAMPLES)
    return max(single, float((counts * (counts - 1)).sum()) / (REPEAT_SAMPLES * (REPEAT_SAMPLES - 1)))


def binned_tilted(
    score: Score, orders: TiltedOrders, work: float = inf, tolerance: float = LARGEST_ERROR
) -> Binned | None:
    """Return the binned distribution over the score's range, with as many coefficients as its series needs.

    Single orders of a short list can be likelier than `LARGEST_ERROR`, too likely for bins of that error. If the error
    with `MOST_COEFFICIENTS`, or as many as `work` allows, is larger, up to `tolerance` is accepted; otherwise the
    result is `None`.
    """
    of = TiltedScore(score, orders)
    facts = _facts(score, of)
    low, high = (edge * facts.scale for edge in facts.window)
    count = 8 * ceil(2 * (high - low) / of.moments[1] ** 0.5 / 8)
    most = min(MOST_COEFFICIENTS, work / (orders.n * min(orders.p, STATES)))
    coefficients = of.coefficients(2 * pi / (high - low), count)
    while True:
        truncated = truncation_error(facts, high - low, coefficients)
        if truncated <= TOLERANCE or count >= most:
            binned = invert(facts, high - low, coefficients, truncated)
            if binned.error <= LARGEST_ERROR / 2 or count >= most:
                return binned if binned.error <= tolerance else None
        more = of.coefficients(2 * pi / (high - low), min(count, MOST_COEFFICIENTS - count), count + 1)
        coefficients = np.concatenate([coefficients, more])
        count = len(coefficients)


def _facts(score: Score, of: TiltedScore) -> SeriesFacts:
    n, p = of.orders.n, of.orders.p
    scale, low, high = score.scale(p), score.minimum(n, p), score.maximum(n, p)
    margin = 0.02 * (high - low)
    window = max(of.window[0] / scale, low) - margin, min(of.window[1] / scale, high) + margin
    return SeriesFacts(low, high, window, of.moments[1] ** 0.5 / scale, scale, lambda: repeated_score(score, of.orders))


def rank_sums(n: int, p: int, tilt: float = UNIFORM) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss, shape `(P(N - P) + 1,)`, sum 1."""
    return rank_sum_distribution(n, p) if tilt == UNIFORM else _tilted_rank_sums(TiltedOrders(n, p, tilt))


def _tilted_rank_sums(orders: TiltedOrders) -> Floats:
    """Return the probabilities by one FFT of the characteristic function at 2 pi k / M, in a window of M integers.

    Tilted items aren't exchangeable, so the closed form of the Mann-Whitney U doesn't apply; a walk gives the
    characteristic function.
    """
    of = TiltedScore(score("nRBP"), orders)
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
