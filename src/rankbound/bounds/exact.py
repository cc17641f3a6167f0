"""Exact distributions of sums over the relevant items (`Sum`) of binary lists, under uniform or tilted random orders.

- All orders of a short list are enumerated (`enumerate_orders`).
- The nRBP loss, the Mann-Whitney U statistic, is a sum of integers, whose probabilities one FFT gives (`rank_sums`).
- Other long lists have Fourier coefficients of the characteristic function (`binned_distributions`). Let f(r, c; w) be
  the mean of exp(i w S) over the random orders of r items, c of them relevant, with S the unscaled score. The last of
  the r items is relevant with probability c / r and then adds increment(r, c):

      f(r, c) = (1 - c / r) f(r - 1, c) + (c / r) exp(i w increment(r, c)) f(r - 1, c - 1),      f(r, 0) = 1.

  The recursion doesn't depend on N and P: one pass up to the longest list yields f(N, P) of all shorter lists as well.
  All weights are at most 1, so errors don't grow. Only the states that the lists of the pass are likely to visit are
  kept (about 8 standard deviations of c at rank r). Unless orders are uniform, only the last r ranks are an order of r
  items under the same model, so that the pass adds ranks above the others, and every (N, P) needs its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import ceil, comb, floor, inf, log, log2, pi

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds.sums import EPSILON, LOG_OUTSIDE, PRIME, ULPS, Atoms, RandomOrders, Sum, merge, residues
from rankbound.kernels.formulas import Floats, Integers
from rankbound.metrics.pairs import RankSum

Complexes = NDArray[np.complex128]
LARGEST_ERROR = 1e-4
"""Largest error of a table's CDF (DESIGN, section 4)."""
BINS_PER_SD = 40
"""Linear interpolation inside bins of width sd / 40 has an error of 2e-5 for a normal CDF."""
FEWEST_BINS, MOST_BINS = 1024, 65536
EXACT_INTEGERS = 50_000_000
"""Numbers of wrongly ordered pairs have an exact distribution up to this one, 400 MB of probabilities."""
REVIVAL_FREE = 1e40
"""With at least this many orders, the characteristic function stays below 1e-20 once it has fallen below."""
NEGLIGIBLE, NEGLIGIBLE_TILTED = 1e-20, 1e-9
"""The characteristic function is cut after a stretch whose second half stays below this."""
WINDOW = 12.0
"""Distance from the mean, in standard deviations, beyond which a long list's U has less than 1e-30 of its mass."""
_FIRST_STRETCH = 128
TOLERANCE = 1e-6
"""Target CDF error of the truncated series; the extremes of 300,000 draws require it."""
MOST_COEFFICIENTS = 8192
TOLERATED_INSIDE = 4e-5
"""Bins are halved until the error of the CDF inside them is at most this."""
_PERIOD_RATIO, _DENSITY_RATIO = 1.3, 0.35
STATES = 400
"""Approximate number of states kept per rank of a long list."""
_LOG_UNVISITED = 25.0
"""States are dropped where the mass beyond them is below exp(-25) = 1e-11 (Bernstein's inequality)."""


def enumerate_orders(of: Sum) -> Atoms:
    """Return the distinct scores of all C(N, P) orders, and their probabilities.

    Partial orders are extended by the next relevant item's rank, in every way that leaves room for the rest. Their sums
    are kept in two float64 each, whose error is that of the increments alone (Dekker 1971), with their residues.
    """
    n, p, ranks, is_uniform = of.n, of.p, np.arange(1, of.n + 1), of.orders.is_uniform
    tokens = residues(of.increment(ranks.astype(np.float64), np.ones(n)), of.counted)
    last, token = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    high, low, log_chance = np.zeros(1), np.zeros(1), np.zeros(1)
    for placed in range(1, p + 1):
        choices = n - (p - placed) - last
        first = np.cumsum(choices) - choices
        rank = np.repeat(last + 1 - first, choices) + np.arange(int(choices.sum()))
        added = of.increment(rank.astype(np.float64), np.float64(placed))  # type: ignore[arg-type]
        before = np.repeat(high, choices)
        high = before + added
        back = high - before
        low = np.repeat(low, choices) + ((before - (high - back)) + (added - back))
        token = np.repeat(token, choices) + (tokens * placed % PRIME if of.counted else tokens)[rank - 1]
        if not is_uniform:
            relevant, others = of.orders.weights(ranks, placed - 1)
            log_passed = np.log(np.where(others > 0, others / (relevant + others), 1.0))
            passed = np.concatenate([[0.0], np.cumsum(log_passed)])
            taken = np.log(relevant / (relevant + others))
            log_chance = np.repeat(log_chance - passed[last], choices) + (passed[rank - 1] + taken[rank - 1])
        last = rank
    atoms = merge((high + low) / of.scale, None if is_uniform else np.exp(log_chance), token % PRIME)
    # The extremes have closed forms; where these are coarser, the sums are right.
    ends, support = np.array(of.extremes), atoms.support.copy()
    near = np.abs(support[[0, -1]] - ends) <= 4 * ULPS * EPSILON * ends
    support[[0, -1]] = np.where(near, ends, support[[0, -1]])
    is_ascending = (np.diff(support[:2]) > 0).all() and (np.diff(support[-2:]) > 0).all()
    return atoms._replace(support=support) if is_ascending else atoms


def rank_sums(orders: RandomOrders) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss (eq. 2.12), shape `(P(N - P) + 1,)`, sum 1.

    The characteristic function at 2 pi (k + 1/2) / M gives those in a window of at most M integers. For uniform orders,
    the generating function is the Gaussian binomial, prod_{j <= P} (1 - q^(N-P+j)) / (1 - q^j) / C(N, P). On the unit
    circle, centred on the mean, it is real: prod_j sin((N - P + j) w / 2) / sin(j w / 2) / C(N, P). With M a power of
    two, no sine vanishes. Tilted items aren't exchangeable, and need a walk.
    Source: Mann & Whitney, Ann. Math. Statist. 18 (1947); thesis eq. 2.12.
    """
    of, largest = Sum(RankSum(), orders), orders.p * (orders.n - orders.p)
    start, stop, centre, negligible = 0, largest, largest / 2, 0.0
    if not orders.is_uniform:
        low, high = of.window
        start, stop, centre, negligible = max(0, floor(low)), min(largest, ceil(high)), 0.0, NEGLIGIBLE_TILTED
    elif comb(orders.n, orders.p) >= REVIVAL_FREE:
        length, negligible = min(largest + 1, ceil(2 * WINDOW * of.moments[1] ** 0.5) + 2), NEGLIGIBLE
        start = (largest + 1 - length) // 2
        stop = start + length - 1
    needed = stop + 1 - start
    period = 2 ** max(1, ceil(log2(needed))) if orders.is_uniform else needed + needed % 2
    blocks: list[Complexes] = []
    known, length = 0, _FIRST_STRETCH
    while known < period // 2:
        length = min(length, period // 2 - known)
        if orders.is_uniform:
            blocks.append(_of_uniform_rank_sums(orders, pi * (np.arange(known, known + length) + 0.5) / period))
        else:
            blocks.append(characteristic_functions([of], 2 * pi / period, length, known + 0.5)[0])
        known, length = known + length, 2 * length
        if np.abs(blocks[-1][len(blocks[-1]) // 2 :]).max() < negligible:
            break
    frequencies = 2 * pi * (np.arange(known) + 0.5) / period
    spectrum = np.zeros(period, dtype=np.complex128)
    spectrum[:known] = np.concatenate(blocks) * np.exp(1j * frequencies * (centre - start))
    waves = np.fft.fft(spectrum)[:needed]
    probability = np.zeros(largest + 1)
    mass = 2 / period * (waves * np.exp(-1j * pi * np.arange(needed) / period)).real
    probability[start : stop + 1] = np.maximum(mass, 0.0)
    if orders.is_uniform:
        probability = (probability + probability[::-1]) / 2  # U and P(N - P) - U are equally likely
    return np.asarray(probability / probability.sum())


def _of_uniform_rank_sums(orders: RandomOrders, half: Floats) -> Complexes:
    """Return the centred characteristic function of rank sums, at twice these frequencies."""
    small, large = sorted((orders.p, orders.n - orders.p))
    factor = np.arange(1.0, small + 1.0)[:, None]
    above, below = np.sin((large + factor) * half), np.sin(factor * half)
    size = np.exp(np.log(np.abs(above)).sum(0) - np.log(np.abs(below)).sum(0) - log(comb(orders.n, orders.p)))
    is_odd = (np.signbit(above) ^ np.signbit(below)).sum(0) % 2 == 1
    return np.asarray(np.where(is_odd, -size, size), dtype=np.complex128)


def binned_distributions(
    sums: Iterable[Sum],
    done: Callable[[int], object] = lambda count: None,
    work: float = inf,
    tolerance: float = LARGEST_ERROR,
) -> dict[tuple[int, int], Atoms]:
    """Return the binned distributions of one metric over its exact range, by the lists' (N, P).

    Lists of uniform orders with similar windows and densities P / N share one pass of the recursion. If a list's series
    has not converged, it is computed again with twice the coefficients. The result omits lists whose series with
    `MOST_COEFFICIENTS` coefficients, or within `work`, the product of coefficients, ranks and states, has a larger
    error than `tolerance`. `done(k)` is called whenever k more lists are ready.

    Single orders of a short tilted list can be likelier than `LARGEST_ERROR`, too likely for bins of that error.
    """
    result: dict[tuple[int, int], Atoms] = {}
    waiting = dict.fromkeys(sums, 1.0)
    known: dict[Sum, Complexes] = {}
    while waiting:
        for group, period, count in _groups(waiting):
            first = known.get(group[0], np.empty((len(group), 0)))
            more = characteristic_functions(group, 2 * pi / period, count - first.shape[1], first.shape[1] + 1)
            functions = np.concatenate([first, more], axis=1)
            for of, coefficients in zip(group, functions, strict=True):
                is_last = count >= min(MOST_COEFFICIENTS, work / (of.n * min(of.p, STATES)))
                bins = _bins_of_series(of, period, coefficients, is_last)
                if bins is None:
                    waiting[of] *= 2
                    if not of.orders.is_uniform:
                        known[of] = functions
                    continue
                del waiting[of]
                if bins.lost <= tolerance:
                    result[of.n, of.p] = bins
                    done(1)
    return result


def _groups(waiting: dict[Sum, float]) -> list[tuple[list[Sum], float, int]]:
    """Group lists that share a pass, with the period of their series (unscaled score) and the coefficients' number."""
    groups: dict[tuple[float, int, float, tuple[int, ...]], list[Sum]] = defaultdict(list)
    for of, effort in waiting.items():
        low, high = _interval(of)
        own: tuple[int, ...] = (of.n, of.p)
        period = (high - low) * of.scale
        if of.orders.is_uniform:
            period, own = _PERIOD_RATIO ** ceil(log(period) / log(_PERIOD_RATIO)), ()
        groups[period, round(log(of.p / (of.n - of.p)) / _DENSITY_RATIO), effort, own].append(of)
    shared = []
    for (period, _, effort, _), group in sorted(groups.items(), key=lambda item: item[0]):
        # At half of these frequencies a normal characteristic function is below exp(-20).
        count = 8 * ceil(effort * 2 * period / min(of.moments[1] ** 0.5 * of.scale for of in group) / 8)
        shared.append((group, period, min(count, MOST_COEFFICIENTS)))
    return shared


def _interval(of: Sum) -> tuple[float, float]:
    """Return the part of the window that scores reach, with a margin of 2 % that keeps its ends apart."""
    (low, high), (start, stop) = of.extremes, of.window
    margin = 0.02 * (high - low)
    return max(low - margin, start), min(high + margin, stop)


def _bins_of_series(of: Sum, period: float, coefficients: Complexes, is_last: bool) -> Atoms | None:
    """Return the bins of a Fourier series; `None` if more coefficients, unless these are the last, make them better.

    Their error is the sum of three: of the series, outside its window, and inside a bin.

    The omitted terms of the series sum to no more than its second half if the coefficients decrease, or if they stay as
    large with random phases (as those of any list do in the end, at 1 / sqrt(C(N, P))): the sums of 1 / k^2 over k > K
    and over K / 2 < k <= K are equal. The error is twice the largest change that this half makes to the CDF. The
    absolute sum of the half is tried first, since it is cheap.

    Inside a bin (or the series' resolution), a smooth CDF deviates from its chord by an eighth of the change in mass
    between bins. The true CDF has steps: m single scores of mass q, scattered over a bin, deviate by about
    sqrt(m) q / 2 = sqrt(m q * q) / 2, where q, the mean mass of a random order's score, is the probability of a
    repetition; the stated error is twice that.
    """
    (start, stop), count = of.extremes, len(coefficients)
    half = count // 2
    truncated = 4 * float((np.abs(coefficients[half:]) / (pi * np.arange(half + 1, count + 1))).sum())
    if truncated > TOLERANCE:
        edges = np.linspace(start, stop, 4 * FEWEST_BINS + 1)
        whole, part = (_cdf_at(edges, of, period, known) for known in (coefficients, coefficients[:half]))
        truncated = 2 * float(np.abs(whole - part).max())
    if truncated > TOLERANCE and not is_last:
        return None
    span, bins = stop - start, number_of_bins(stop - start, of.moments[1] ** 0.5)
    while True:
        probability = np.diff(_cdf_at(np.linspace(start, stop, bins + 1), of, period, coefficients))
        bent = float(np.abs(np.diff(probability)).max()) / 8
        scattered = (float(probability.max()) * of.repeated) ** 0.5
        if bent + scattered <= TOLERATED_INSIDE or 2 * bins > MOST_BINS:
            break
        bins *= 2
    width = span / bins
    resolution = period / of.scale / (2 * count) / width
    scattered *= max(1.0, resolution) ** 0.5
    error = truncated + 4 * float(np.exp(-LOG_OUTSIDE)) + bent + scattered
    if error > LARGEST_ERROR / 2 and not is_last:
        return None
    middles = np.asarray(start + width * (np.arange(bins) + 0.5), np.float64)
    return Atoms(middles, probability / probability.sum(), error, width)


def _cdf_at(edges: Floats, of: Sum, period: float, coefficients: Complexes) -> Floats:
    """Return the CDF of a Fourier series at uniform edges: 0 at the first, 1 at the last, never decreasing.

    Inside the window [a, a + T], with d = 2 pi / T:
    F(x) - F(a) = (x - a) / T + sum_k Re[f_k (exp(-i k d a) - exp(-i k d x)) / (i pi k)].
    """
    low, high = (edge * of.scale for edge in _interval(of))
    start = (low + high - period) / 2
    x = edges * of.scale - start
    order, step = np.arange(1, len(coefficients) + 1), 2 * pi / period
    weights = coefficients * np.exp(-1j * step * order * start) / (1j * pi * order)
    cdf = x / period + (weights.sum() - _sum_of_waves(weights, step, x)).real
    cdf = np.where(x <= 0, 0.0, np.where(x >= period, 1.0, cdf))
    cdf = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0))
    cdf[0], cdf[-1] = 0.0, 1.0
    return np.asarray(cdf)


def number_of_bins(span: float, sd: float) -> int:
    """Return about 40 bins per standard deviation, between `FEWEST_BINS` and `MOST_BINS`."""
    return min(max(ceil(BINS_PER_SD * span / sd), FEWEST_BINS), MOST_BINS)


def edges_of(middles: Floats, width: float) -> Floats:
    """Return the edges of adjacent bins."""
    return np.asarray(middles[0] + width * (np.arange(len(middles) + 1) - 0.5))


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


def characteristic_functions(sums: Sequence[Sum], step: float, count: int, first: float = 1) -> Complexes:
    """Return the mean of exp(i k step S), k = first .. first + count - 1, S the unscaled score, `(len(sums), count)`.

    The time is O(longest N x states kept x count), independent of the number of lists, of which only one may be tilted.
    """
    longest, sizes = max(sums, key=lambda of: of.n), np.array([of.n for of in sums])
    n, p, from_the_top = longest.n, longest.p, longest.orders.is_uniform
    lowest, highest = _kept_states(sums, n)
    result = np.empty((len(sums), count), dtype=np.complex128)
    turn = _turns(longest, step, count, first)
    values = np.zeros((count, max(of.p for of in sums) + 1), dtype=np.complex128)
    values[:, 0] = 1.0
    for size in range(1, n + 1):
        low, high = int(lowest[size]), int(highest[size])
        if low <= high:
            relevant = np.arange(low, high + 1)
            share = longest.orders.chance(n - size + 1, p - relevant)
            turned = turn(size, relevant) if from_the_top else turn(n - size + 1, p - relevant + 1)
            risen = turned * values[:, low - 1 : high]
            risen *= share
            values[:, low : high + 1] *= 1.0 - share
            values[:, low : high + 1] += risen
        for index in np.flatnonzero(sizes == size).tolist():
            result[index] = values[:, sums[index].p]
    return result


def _turns(of: Sum, step: float, count: int, first: float) -> Callable[[int, Integers], Complexes]:
    """Return the function of exp(i k step increment), for `count` numbers k from `first` and the states of one rank.

    Its result has shape `(count, states)`, or `(count, 1)` if the increment doesn't depend on the state. With k split
    into a coarse and a fine part, about 2 sqrt(count) exponentials and one product suffice.
    """
    size = max(1, round(count**0.5))
    fine = 1j * step * np.arange(first, size + first)[:, None]
    coarse = 1j * step * np.arange(0, count, size)[:, None]

    def turn(rank: int, so_far: Integers) -> Complexes:
        added = np.atleast_1d(of.increment(np.float64(rank), so_far.astype(np.float64)))  # type: ignore[arg-type]
        turns = np.exp(coarse * added)[:, None, :] * np.exp(fine * added)[None, :, :]
        return turns.reshape(-1, len(added))[:count]

    return turn


def _kept_states(sums: Sequence[Sum], longest: int) -> tuple[Integers, Integers]:
    """Return the smallest and largest c (from 1) needed of 0 .. longest items; none where smallest > largest.

    For one list of uniform orders, c of r items is hypergeometric with mean r P / N; the pass needs the union over its
    lists.
    """
    lowest = np.full(longest + 1, np.iinfo(np.int64).max)
    highest = np.zeros(longest + 1, dtype=np.int64)
    for of in sums:
        n, p, size = of.n, of.p, np.arange(of.n + 1)
        if of.orders.is_uniform:
            mean = size * (p / n)
            variance = mean * (1 - p / n) * (n - size) / max(n - 1, 1)
            reach = _LOG_UNVISITED / 3 + np.sqrt((_LOG_UNVISITED / 3) ** 2 + 2 * _LOG_UNVISITED * variance)
            low = np.maximum(np.floor(mean - reach), p - (n - size)).astype(np.int64)
            high = np.minimum(np.ceil(mean + reach), np.minimum(p, size)).astype(np.int64)
        else:
            low, high = (p - np.array(of.visited)[::-1]).T[::-1]
        lowest[: n + 1] = np.minimum(lowest[: n + 1], np.maximum(low, 1))
        highest[: n + 1] = np.maximum(highest[: n + 1], high)
    return lowest, highest
