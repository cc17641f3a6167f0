"""Exact distributions of sums over the relevant items (`Score`) of binary lists, under uniformly random orders.

- All orders of a short list are enumerated (`enumerate_orders`).
- The nRBP loss, the Mann-Whitney U statistic, has a product of sines and one FFT (`rank_sum_distribution`).
- Other long lists have Fourier coefficients of the characteristic function (`binned_distributions`). Let f(r, c; w) be
  the mean of exp(i w S) over the random orders of r items, c of them relevant, with S the unscaled score. The last of
  the r items is relevant with probability c / r and then adds increment(r, c):

      f(r, c) = (1 - c / r) f(r - 1, c) + (c / r) exp(i w increment(r, c)) f(r - 1, c - 1),      f(r, 0) = 1.

  The recursion doesn't depend on N and P: one pass up to the longest list yields f(N, P) of all shorter lists as well.
  All weights are at most 1, so errors don't grow. Only the states that the lists of the pass are likely to visit are
  kept (about 8 standard deviations of c at rank r).

Distributions of many scores are stored in bins of equal width, with the resulting error of the CDF
(`bin_scores`); `smooth_cdf` is algorithm 2 of the thesis for single scores and for bins.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, comb, inf, log, log2, pi

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds.sampled import (
    EPSILON,
    PRIME,
    ULPS,
    Atoms,
    Floats,
    Integers,
    RandomOrders,
    Score,
    merge,
    repeat_probability,
    residues,
)

Pair = tuple[int, int]
Complexes = NDArray[np.complex128]
FINE_GAIN = 1.0
"""Up to this gain, integers blur into a continuum (to 1e-7 of one score's mass); above, they are separate steps."""
_CHUNK_SCORES = 2_000_000
LARGEST_ERROR = 1e-4
"""Largest error of a table's CDF (DESIGN, section 4)."""
BINS_PER_SD = 40
"""Linear interpolation inside bins of width sd / 40 has an error of 2e-5 for a normal CDF."""
FEWEST_BINS, MOST_BINS = 1024, 65536
REVIVAL_FREE = 1e40
"""With at least this many orders, the characteristic function stays below 1e-20 once it has fallen below."""
NEGLIGIBLE = 1e-20
WINDOW = 12.0
"""Distance from the mean, in standard deviations, beyond which a long list's U has less than 1e-30 of its mass."""
_FIRST_BLOCK = 128
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
_LOG_UNVISITED = 25.0
"""States are dropped where the mass beyond them is below exp(-25) = 1e-11 (Bernstein's inequality)."""


def enumerate_orders(score: Score, orders: RandomOrders) -> Atoms:
    """Return the distinct scores of all C(N, P) orders, and their probabilities.

    Partial orders are extended by the next relevant item's rank, in every way that leaves room for the rest. Their sums
    are kept in two float64 each, whose error is that of the increments alone (Dekker 1971), with their residues.
    """
    n, p, ranks = orders.n, orders.p, np.arange(1, orders.n + 1)
    tokens = residues(score.increment(ranks.astype(np.float64), np.ones(n)), score.counted)
    last, token = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    high, low, log_chance = np.zeros(1), np.zeros(1), np.zeros(1)
    for placed in range(1, p + 1):
        choices = n - (p - placed) - last
        first = np.cumsum(choices) - choices
        rank = np.repeat(last + 1 - first, choices) + np.arange(int(choices.sum()))
        added = score.increment(rank.astype(np.float64), np.float64(placed))  # type: ignore[arg-type]
        before = np.repeat(high, choices)
        high = before + added
        back = high - before
        low = np.repeat(low, choices) + ((before - (high - back)) + (added - back))
        token = np.repeat(token, choices) + (tokens * placed % PRIME if score.counted else tokens)[rank - 1]
        if not orders.is_uniform:
            weight, others = orders.tilt * (p - placed + 1), np.maximum(n - ranks - (p - placed), 0)
            log_passed = np.log(np.where(others > 0, others, 1) / np.where(others > 0, weight + others, 1))
            passed = np.concatenate([[0.0], np.cumsum(log_passed)])
            taken = np.log(weight / (weight + others))
            log_chance = np.repeat(log_chance - passed[last], choices) + (passed[rank - 1] + taken[rank - 1])
        last = rank
    atoms = merge((high + low) / score.scale(p), None if orders.is_uniform else np.exp(log_chance), token % PRIME)
    # The extremes have closed forms; where these are coarser, the sums are right.
    ends, support = np.array([score.minimum(n, p), score.maximum(n, p)]), atoms.support.copy()
    near = np.abs(support[[0, -1]] - ends) <= 4 * ULPS * EPSILON * ends
    support[[0, -1]] = np.where(near, ends, support[[0, -1]])
    is_ascending = (np.diff(support[:2]) > 0).all() and (np.diff(support[-2:]) > 0).all()
    return atoms._replace(support=support) if is_ascending else atoms


def rank_sum_distribution(n: int, p: int) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss (eq. 2.12), shape `(P(N - P) + 1,)`, sum 1.

    The generating function is the Gaussian binomial, prod_{j <= P} (1 - q^(N-P+j)) / (1 - q^j) / C(N, P). On the unit
    circle, centred on the mean, it is real: prod_j sin((N - P + j) w / 2) / sin(j w / 2) / C(N, P). At the frequencies
    2 pi (k + 1/2) / M, with M a power of two, no sine vanishes.
    Source: Mann & Whitney, Ann. Math. Statist. 18 (1947); thesis eq. 2.12.
    """
    count = p * (n - p) + 1
    orders = comb(n, p)
    spread = (p * (n - p) * (n + 1) / 12) ** 0.5
    full_period = orders < REVIVAL_FREE
    needed = count if full_period else min(count, ceil(2 * WINDOW * spread) + 2)
    period = 2 ** max(1, ceil(log2(needed)))
    coefficients = _characteristic(n, p, period, stop_early=not full_period)

    start = 0 if needed == count else max(0, (count - needed) // 2)
    scores = np.arange(start, start + needed)
    frequencies = 2 * pi * (np.arange(len(coefficients)) + 0.5) / period
    spectrum = np.zeros(period, dtype=np.complex128)
    spectrum[: len(coefficients)] = coefficients * np.exp(1j * frequencies * (p * (n - p) / 2 - start))
    waves = np.fft.fft(spectrum)[:needed]
    mass = 2 / period * (waves * np.exp(-1j * pi * (scores - start) / period)).real

    probability = np.zeros(count)
    probability[scores] = np.maximum(mass, 0.0)
    probability = (probability + probability[::-1]) / 2  # U and P(N - P) - U are equally likely
    return np.asarray(probability / probability.sum())


def _characteristic(n: int, p: int, period: int, *, stop_early: bool) -> Floats:
    """Return the centred characteristic function at 2 pi (k + 1/2) / period, k < period / 2 or until negligible."""
    small, large = min(p, n - p), max(p, n - p)
    log_orders = log(comb(n, p))
    factor = np.arange(1.0, small + 1.0)[:, None]
    blocks: list[Floats] = []
    start, stop = 0, _FIRST_BLOCK
    while start < period // 2:
        half = pi * (np.arange(start, min(stop, period // 2)) + 0.5) / period
        above, below = np.sin((large + factor) * half), np.sin(factor * half)
        size = np.exp(np.log(np.abs(above)).sum(0) - np.log(np.abs(below)).sum(0) - log_orders)
        odd = (np.signbit(above) ^ np.signbit(below)).sum(0) % 2
        blocks.append(np.where(odd == 1, -size, size))
        if stop_early and size.max() < NEGLIGIBLE:
            break
        start, stop = stop, 2 * stop
    return np.concatenate(blocks)


@dataclass(frozen=True)
class Binned:
    """The mass of each bin of equal width from `start`, and a bound on the error of the piecewise linear CDF."""

    start: float
    width: float
    probability: Floats
    error: float

    @property
    def middles(self) -> Floats:
        return np.asarray(self.start + self.width * (np.arange(len(self.probability)) + 0.5))

    @property
    def edges(self) -> Floats:
        return np.asarray(self.start + self.width * np.arange(len(self.probability) + 1))


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
                sd = score.variance(*pair) ** 0.5
                series = Series(score, RandomOrders(*pair), _window(score, *pair), sd, period, coefficients)
                if more and series.truncation_error > TOLERANCE:
                    waiting[pair] *= 2
                    continue
                binned = series.binned()
                if more and binned.error > LARGEST_ERROR / 2:
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


class Series:
    """The Fourier series of a score's distribution, with `coefficients` of the unscaled score in a `period`.

    Nearly all of the mass is in the `window`; `sd` is the standard deviation.
    """

    def __init__(
        self,
        score: Score,
        orders: RandomOrders,
        window: tuple[float, float],
        sd: float,
        period: float,
        coefficients: Complexes,
    ) -> None:
        self._window, self._sd, self._period, self._coefficients = window, sd, period, coefficients
        self._start, self._stop = score.minimum(orders.n, orders.p), score.maximum(orders.n, orders.p)
        self._scale = score.scale(orders.p)
        self._repeated = partial(repeat_probability, score, orders)

    @cached_property
    def truncation_error(self) -> float:
        """The estimated CDF error of truncating the series: twice the largest change that its second half makes.

        The omitted terms sum to no more than that half if the coefficients decrease, or if they stay as large with
        random phases (as those of any list do in the end, at 1 / sqrt(C(N, P))): the sums of 1 / k^2 over k > K and
        over K / 2 < k <= K are equal. The absolute sum of the half is tried first, since it is cheap.
        """
        count = len(self._coefficients)
        half = count // 2
        bound = 4 * float((np.abs(self._coefficients[half:]) / (pi * np.arange(half + 1, count + 1))).sum())
        if bound <= TOLERANCE:
            return bound
        edges = np.linspace(self._start, self._stop, 4 * FEWEST_BINS + 1)
        return 2 * float(np.abs(self._cdf_at(edges, count) - self._cdf_at(edges, half)).max())

    def binned(self) -> Binned:
        """Return the bins, with the sum of three errors: of the series, outside its window, and inside a bin.

        Inside a bin (or the series' resolution), a smooth CDF deviates from its chord by an eighth of the change in
        mass between bins. The true CDF has steps: m single scores of mass q, scattered over a bin, deviate by about
        sqrt(m) q / 2 = sqrt(m q * q) / 2, where q, the mean mass of a random order's score, is the probability of a
        repetition; the stated error is twice that.
        """
        repeated, span, count = self._repeated(), self._stop - self._start, len(self._coefficients)
        bins = number_of_bins(span, self._sd)
        while True:
            probability = np.diff(self._cdf_at(np.linspace(self._start, self._stop, bins + 1), count))
            bent = float(np.abs(np.diff(probability)).max()) / 8
            scattered = (float(probability.max()) * repeated) ** 0.5
            if bent + scattered <= TOLERATED_INSIDE or 2 * bins > MOST_BINS:
                break
            bins *= 2
        resolution = self._period / self._scale / (2 * count) / (span / bins)
        scattered *= max(1.0, resolution) ** 0.5
        error = self.truncation_error + 4 * float(np.exp(-_LOG_OUTSIDE)) + bent + scattered
        return Binned(self._start, span / bins, probability / probability.sum(), error)

    def _cdf_at(self, edges: Floats, count: int) -> Floats:
        """Return the CDF of `count` coefficients at uniform edges: 0 at the first, 1 at the last, never decreasing.

        Inside the window [a, a + T], with d = 2 pi / T:
        F(x) - F(a) = (x - a) / T + sum_k Re[f_k (exp(-i k d a) - exp(-i k d x)) / (i pi k)].
        """
        low, high = (edge * self._scale for edge in self._window)
        start = (low + high - self._period) / 2
        x = edges * self._scale - start
        order = np.arange(1, count + 1)
        step = 2 * pi / self._period
        weights = self._coefficients[:count] * np.exp(-1j * step * order * start) / (1j * pi * order)
        cdf = x / self._period + (weights.sum() - _sum_of_waves(weights, step, x)).real
        cdf = np.where(x <= 0, 0.0, np.where(x >= self._period, 1.0, cdf))
        cdf = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0))
        cdf[0], cdf[-1] = 0.0, 1.0
        return np.asarray(cdf)


def _sum_of_waves(weights: Complexes, step: float, x: Floats) -> Complexes:
    """Return sum_k weights_k exp(-i k step x) at uniformly spaced x = coarse + fine, by one matrix product."""
    size = ceil(len(x) ** 0.5)
    spacing = (x[-1] - x[0]) / (len(x) - 1)
    frequencies = step * np.arange(1, len(weights) + 1)
    coarse = x[0] + spacing * size * np.arange(ceil(len(x) / size))
    fine = spacing * np.arange(size)
    left = np.exp(-1j * np.outer(coarse, frequencies)) * weights
    right = np.exp(-1j * np.outer(frequencies, fine))
    return np.asarray((left @ right).reshape(-1)[: len(x)])


def characteristic_functions(score: Score, pairs: Sequence[tuple[int, int]], step: float, count: int) -> Complexes:
    """Return the mean of exp(i k step S), k = 1 .. count, S the unscaled score of a random order of each (N, P).

    Shape `(len(pairs), count)`. The time is O(longest N x states kept x count), independent of the number of pairs.
    """
    longest, most = max(n for n, _ in pairs), max(p for _, p in pairs)
    lowest, highest = _kept_states(pairs, longest)
    wanted: dict[int, list[int]] = defaultdict(list)
    for index, (n, _) in enumerate(pairs):
        wanted[n].append(index)

    result = np.empty((len(pairs), count), dtype=np.complex128)
    turn = Turn(score, longest, step, count)
    values = np.zeros((count, most + 1), dtype=np.complex128)
    values[:, 0] = 1.0
    for rank in range(1, longest + 1):
        low, high = int(lowest[rank]), int(highest[rank])
        if low <= high:
            so_far = np.arange(low, high + 1, dtype=np.float64)
            share = so_far / rank
            relevant = turn(rank, so_far) * values[:, low - 1 : high]
            relevant *= share
            values[:, low : high + 1] *= 1.0 - share
            values[:, low : high + 1] += relevant
        for index in wanted.get(rank, ()):
            result[index] = values[:, pairs[index][1]]
    return result


class Turn:
    """Compute exp(i k step increment) for `count` integers k from `first`, for the states of one rank.

    The result has shape `(count, states)`, or `(count, 1)` if the increment doesn't depend on the state. With k split
    into a coarse and a fine part, about 2 sqrt(count) exponentials and one product suffice.
    """

    def __init__(self, score: Score, longest: int, step: float, count: int, first: int = 1) -> None:
        self._increment, self._count = score.increment, count
        self._fixed = None if score.counted else score.increment(np.arange(1.0, longest + 1.0), np.ones(1))
        size = max(1, round(count**0.5))
        self._first = 1j * step * np.arange(first, size + first)[:, None]
        self._second = 1j * step * np.arange(0, count, size)[:, None]

    def __call__(self, rank: int, so_far: Floats) -> Complexes:
        fixed = self._fixed
        added = self._increment(np.float64(rank), so_far) if fixed is None else fixed[rank - 1 : rank]  # type: ignore[arg-type]
        turns = np.exp(self._second * added)[:, None, :] * np.exp(self._first * added)[None, :, :]
        return turns.reshape(-1, len(added))[: self._count]


def _kept_states(pairs: Sequence[tuple[int, int]], longest: int) -> tuple[Integers, Integers]:
    """Return the smallest and largest c (from 1) needed at each rank 0 .. longest; none where smallest > largest.

    For one list, c at rank r is hypergeometric with mean r P / N; the pass needs the union over its lists.
    """
    lowest = np.full(longest + 1, np.iinfo(np.int64).max)
    highest = np.zeros(longest + 1, dtype=np.int64)
    for n, p in pairs:
        rank = np.arange(n + 1)
        mean = rank * (p / n)
        variance = mean * (1 - p / n) * (n - rank) / max(n - 1, 1)
        reach = _LOG_UNVISITED / 3 + np.sqrt((_LOG_UNVISITED / 3) ** 2 + 2 * _LOG_UNVISITED * variance)
        low = np.maximum(np.floor(mean - reach), p - (n - rank)).astype(np.int64)
        high = np.minimum(np.ceil(mean + reach), np.minimum(p, rank)).astype(np.int64)
        lowest[: n + 1] = np.minimum(lowest[: n + 1], np.maximum(low, 1))
        highest[: n + 1] = np.maximum(highest[: n + 1], high)
    return lowest, highest


def bin_scores(
    support: Floats,
    probability: Floats,
    extremes: tuple[float, float],
    sd: float,
    *,
    integers: bool,
    tolerance: float = LARGEST_ERROR,
) -> Binned | None:
    """Bin single scores between the smallest and largest possible score; return `None` if no bins meet the tolerance.

    With `integers`, a bin holds a whole number of integers and ends halfway between two. The error is exact: the step
    CDF and the piecewise linear one differ most at a score, on one side of it (with integers, half a unit above it,
    where the bins' CDF is evaluated).
    """
    start, stop = extremes
    bins, steps = number_of_bins(stop - start, sd), np.concatenate([[0.0], np.cumsum(probability)])
    while bins <= min(MOST_BINS, len(support)):
        if integers:
            width = max(1.0, (stop - start) // bins)
            start, count = extremes[0] - 0.5, ceil((stop - extremes[0] + 1) / width)
        else:
            width, count = (stop - start) / bins, bins
        index = np.clip(((support - start) / width).astype(np.int64), 0, count - 1)
        mass: Floats = np.bincount(index, probability, minlength=count).astype(np.float64)
        binned = Binned(start, width, mass, 0.0)
        below = np.concatenate([[0.0], np.cumsum(mass)])
        linear = np.interp(support + (0.5 if integers else 0.0), binned.edges, below)
        error = float(np.abs(linear - steps[1:]).max())
        if not integers:
            error = max(error, float(np.abs(linear - steps[:-1]).max()))
        if error <= tolerance:
            return replace(binned, error=error)
        bins *= 2
    return None


def number_of_bins(span: float, sd: float) -> int:
    """Return about 40 bins per standard deviation, between `FEWEST_BINS` and `MOST_BINS`."""
    return min(max(ceil(BINS_PER_SD * span / sd), FEWEST_BINS), MOST_BINS)


def smooth_cdf(x: Floats, support: Floats, probability: Floats, width: float, gain: float) -> Floats:
    """Return sum_k probability_k kernel(gain (x - support_k)) for every x, in the shape of `x`.

    The kernel of a single score is the sigmoid; that of a bin from l to l + width is the sigmoid's mean over it,
    (softplus(a (x - l)) - softplus(a (x - l - width))) / (a width). For bins, the sum is the convolution of the
    sigmoid's density with the piecewise linear CDF.
    """
    flat = x.reshape(-1)
    rows = max(1, _CHUNK_SCORES // len(support))
    parts = [
        _kernel(gain * (flat[start : start + rows, None] - support), gain * width) @ probability
        for start in range(0, len(flat), rows)
    ]
    return np.concatenate(parts).reshape(x.shape) if parts else np.empty(x.shape)


def _kernel(distance: Floats, width: float) -> Floats:
    """Return the smoothed step at `distance` (in units of 1 / gain) from a bin's middle."""
    if width == 0:
        return 0.5 * (1.0 + np.tanh(0.5 * distance))
    left, right = distance + width / 2, distance - width / 2
    # softplus(u) = max(u, 0) + log1p(exp(-|u|)); the difference of the first terms is the linear step.
    step = np.clip(left, 0.0, width)
    return np.asarray((step + np.log1p(np.exp(-np.abs(left))) - np.log1p(np.exp(-np.abs(right)))) / width)


def integers_of_bins(support: Floats, probability: Floats, width: float) -> tuple[Floats, Floats]:
    """Split bins into their integers, with equal shares of the bin's mass."""
    size = int(width)
    middle = np.repeat(support, size) + np.tile(np.arange(size) - (size - 1) / 2, len(support))
    return middle, np.repeat(probability / size, size)
