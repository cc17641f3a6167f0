"""Binned distributions of sums over ranks of long lists, from Fourier coefficients of the characteristic function."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, log, pi

import numpy as np

from rankbound.bounds._binning import FEWEST_BINS, LARGEST_ERROR, MOST_BINS, Binned, number_of_bins
from rankbound.bounds._characteristic import Complexes, characteristic_functions
from rankbound.bounds._sampled import repeat_probability
from rankbound.bounds._scores import Floats, Score

Pair = tuple[int, int]

TOLERANCE = 1e-6
"""Target CDF error of the truncated series; the extremes of 300,000 draws require it."""
MOST_COEFFICIENTS = 8192
TOLERATED_INSIDE = 4e-5
"""Bins are halved until the error of the CDF inside them is at most this."""
_LOG_OUTSIDE = log(1e9)
"""The window of the series excludes less than 2e-9 of the mass (Bernstein's inequality)."""
_PERIOD_RATIO, _DENSITY_RATIO = 1.3, 0.35
STATES = 400
"""Approximate number of states kept per rank of a long list."""


@dataclass(frozen=True)
class SeriesFacts:
    """The properties of a score that the inversion of its Fourier coefficients needs.

    Attributes:
        minimum, maximum, window, sd: its range, an interval with nearly all of its mass, and its standard deviation.
        scale: the coefficients belong to `scale` times the score.
        repeated: the probability that two orders have the same score.
    """

    minimum: float
    maximum: float
    window: tuple[float, float]
    sd: float
    scale: float
    repeated: Callable[[], float]

    @classmethod
    def of(cls, score: Score, n: int, p: int) -> "SeriesFacts":
        """Return the facts for random orders."""
        return cls(
            score.minimum(n, p),
            score.maximum(n, p),
            _window(score, n, p),
            score.variance(n, p) ** 0.5,
            score.scale(p),
            lambda: repeat_probability(score, n, p),
        )


def binned_distributions(
    score: Score, pairs: Sequence[Pair], done: Callable[[int], object] = lambda count: None, work: float = inf
) -> dict[Pair, Binned]:
    """Return the binned distributions of the score for all pairs (N, P), 0 < P < N, over its exact range.

    Lists with similar windows and densities P / N share one pass of the recursion. If a list's series has not
    converged, it is computed again with twice the coefficients. The result omits lists whose series doesn't converge
    with `MOST_COEFFICIENTS` coefficients or within `work`, the product of coefficients, ranks and states. `done(k)` is
    called whenever k more pairs are ready.
    """
    result: dict[Pair, Binned] = {}
    waiting = dict.fromkeys(pairs, 1.0)
    while waiting:
        for group, period, count in _groups(score, waiting):
            functions = characteristic_functions(score, group, 2 * pi / period, count)
            for pair, coefficients in zip(group, functions, strict=True):
                more = count < min(MOST_COEFFICIENTS, work / (pair[0] * min(pair[1], STATES)))
                facts = SeriesFacts.of(score, *pair)
                truncated = truncation_error(facts, period, coefficients)
                if truncated > TOLERANCE and more:
                    waiting[pair] *= 2
                    continue
                binned = invert(facts, period, coefficients, truncated)
                if binned.error > LARGEST_ERROR / 2 and more:
                    waiting[pair] *= 2
                    continue
                del waiting[pair]
                if binned.error <= LARGEST_ERROR:
                    result[pair] = binned
                    done(1)
    return result


def _groups(score: Score, waiting: dict[Pair, float]) -> list[tuple[list[Pair], float, int]]:
    """Group lists that share a pass, with the period of their series (unscaled score) and the coefficients' number."""
    groups: dict[tuple[int, int, float], list[Pair]] = defaultdict(list)
    for pair, effort in waiting.items():
        n, p = pair
        low, high = _window(score, n, p)
        period_class = ceil(log((high - low) * score.scale(p)) / log(_PERIOD_RATIO))
        density_class = round(log(p / (n - p)) / _DENSITY_RATIO)
        groups[period_class, density_class, effort].append(pair)
    shared = []
    for (period_class, _, effort), group in sorted(groups.items()):
        period = _PERIOD_RATIO**period_class
        spread = min(score.variance(n, p) ** 0.5 * score.scale(p) for n, p in group)
        # At half of these frequencies a normal characteristic function is below exp(-20).
        count = 8 * ceil(effort * 2 * period / spread / 8)
        shared.append((group, period, min(count, MOST_COEFFICIENTS)))
    return shared


def _window(score: Score, n: int, p: int) -> tuple[float, float]:
    """Return an interval that holds all but 2e-9 of the mass, with a margin of 2 % that keeps its ends apart.

    It follows from Bernstein's inequality for the scores of min(P, N - P) items drawn without replacement (Hoeffding,
    J. Am. Statist. Assoc. 58 (1963), section 6), with the largest change that one rank can make; for AP, where that
    change depends on the other ranks, with the change made by rank 1.
    """
    low, high = score.minimum(n, p), score.maximum(n, p)
    mean = score.mean(n, p)
    variance = score.variance(n, p) * (n - 1) / max(p, n - p)
    jump = (1.0 + (p - 1) / (n - 1) * (log(n) + 1.0)) / p if score.counted else 1.0 / score.scale(p)
    reach = _LOG_OUTSIDE * jump / 3 + ((_LOG_OUTSIDE * jump / 3) ** 2 + 2 * _LOG_OUTSIDE * variance) ** 0.5
    margin = 0.02 * (high - low)
    return max(low - margin, mean - reach), min(high + margin, mean + reach)


def truncation_error(of: SeriesFacts, period: float, coefficients: Complexes) -> float:
    """Estimate the CDF error of truncating the series: twice the largest change that its second half makes.

    The omitted terms sum to no more than that half if the coefficients decrease, or if they stay as large with random
    phases (as those of any list do in the end, at 1 / sqrt(C(N, P))): the sums of 1 / k^2 over k > K and over
    K / 2 < k <= K are equal. The absolute sum of the half is tried first, since it is cheap.
    """
    half = len(coefficients) // 2
    size = np.abs(coefficients[half:]) / (pi * np.arange(half + 1, len(coefficients) + 1))
    bound = 4 * float(size.sum())
    if bound <= TOLERANCE:
        return bound
    edges = np.linspace(of.minimum, of.maximum, 4 * FEWEST_BINS + 1)
    whole = _cdf_at(of, period, coefficients, edges)
    return 2 * float(np.abs(whole - _cdf_at(of, period, coefficients[:half], edges)).max())


def invert(of: SeriesFacts, period: float, coefficients: Complexes, truncated: float) -> Binned:
    """Return the bins, with the sum of three errors: of the series, outside its window, and inside a bin.

    Inside a bin (or the series' resolution), a smooth CDF deviates from its chord by an eighth of the change in mass
    between bins. The true CDF has steps: m single scores of mass q, scattered over a bin, deviate by about
    sqrt(m) q / 2 = sqrt(m q * q) / 2, where q, the mean mass of a random order's score, is the probability of a
    repetition; the stated error is twice that.
    """
    repeated = of.repeated()
    start, stop = of.minimum, of.maximum
    bins = number_of_bins(stop - start, of.sd)
    while True:
        edges = np.linspace(start, stop, bins + 1)
        cdf = _cdf_at(of, period, coefficients, edges)
        probability = np.diff(cdf)
        bent = float(np.abs(np.diff(probability)).max()) / 8
        scattered = (float(probability.max()) * repeated) ** 0.5
        if bent + scattered <= TOLERATED_INSIDE or 2 * bins > MOST_BINS:
            break
        bins *= 2
    resolution = period / of.scale / (2 * len(coefficients)) / ((stop - start) / bins)
    scattered *= max(1.0, resolution) ** 0.5
    error = truncated + 4 * float(np.exp(-_LOG_OUTSIDE)) + bent + scattered
    return Binned(start, (stop - start) / bins, probability / probability.sum(), error)


def _cdf_at(of: SeriesFacts, period: float, coefficients: Complexes, edges: Floats) -> Floats:
    """Return the CDF at uniform edges: 0 at the first, 1 at the last, never decreasing.

    Inside the window [a, a + T], with d = 2 pi / T:
    F(x) - F(a) = (x - a) / T + sum_k Re[f_k (exp(-i k d a) - exp(-i k d x)) / (i pi k)].
    """
    low, high = (edge * of.scale for edge in of.window)
    start = (low + high - period) / 2
    x = edges * of.scale - start
    order = np.arange(1, len(coefficients) + 1)
    step = 2 * pi / period
    weights = coefficients * np.exp(-1j * step * order * start) / (1j * pi * order)
    cdf = x / period + (weights.sum() - _series(weights, step, x)).real
    cdf = np.where(x <= 0, 0.0, np.where(x >= period, 1.0, cdf))
    cdf = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0))
    cdf[0], cdf[-1] = 0.0, 1.0
    return np.asarray(cdf)


def _series(weights: Complexes, step: float, x: Floats) -> Complexes:
    """Return sum_k weights_k exp(-i k step x) at uniformly spaced x = coarse + fine, by one matrix product."""
    size = ceil(len(x) ** 0.5)
    spacing = (x[-1] - x[0]) / (len(x) - 1)
    frequencies = step * np.arange(1, len(weights) + 1)
    coarse = x[0] + spacing * size * np.arange(ceil(len(x) / size))
    fine = spacing * np.arange(size)
    left = np.exp(-1j * np.outer(coarse, frequencies)) * weights
    right = np.exp(-1j * np.outer(frequencies, fine))
    return np.asarray((left @ right).reshape(-1)[: len(x)])
