"""Distributions over the orders of a list: of any metric, and of sums over the relevant items of long binary lists.

They depend on a list's *profile*, the number of items of each grade: for binary relevance the pair (N, P), for graded
relevance the sorted grades. For any metric, scores are computed from its function of ranks alone: those of all distinct
orders if they are few, of all patterns of the first k ranks if the metric has a cut-off and they are few, or of random
orders. Metrics that take few values on binary lists, or that count pairs, have closed forms (`closed_form`).

Sums over the relevant items (`Sum`) of binary lists, under uniform or tilted random orders, have three ways:

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from math import ceil, comb, floor, inf, log, log2, pi
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankbound.bounds.sums import (
    CHUNK_ITEMS,
    EPSILON,
    LOG_OUTSIDE,
    PRIME,
    ULPS,
    UNIFORM,
    Atoms,
    RandomOrders,
    Sum,
    discounts_of,
    merge,
    residues,
    ulps_of_sum,
)
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lists import Lists, on_cpu
from rankbound.metrics import Metric, precision
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.pairs import RankedPairs, RankSum
from rankbound.ranks import hard_ranks, n_orders

Kinds = Tensor
"""The index of the grade at each rank, among the list's distinct grades in descending order: (n_orders, n_ranks)."""
FEW_ORDERS = 200_000
"""Up to this many orders, or patterns of the first ranks, are enumerated."""
FEW_ITEMS = 20_000_000
"""Orders are enumerated only if they have at most this many items in total."""
MEAN_SAMPLES = 20_000
"""Random orders for the mean of a metric without a closed form; the standard error is sd / 141."""
OF_FRACTIONS = (
    precision.AveragePrecision,
    precision.BinaryPreference,
    precision.InferredAveragePrecision,
    precision.InterpolatedPrecision,
)
"""Metrics whose different values differ by more than rounding: sums of fractions of ranks."""
# Upper limit of the search for the lowest grade that a metric counts as relevant.
_MOST_GRADES = 256
# Multipliers of Stafford's 64-bit mix, written as signed integers.
_SCATTER = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_GRADED = torch.iinfo(torch.int64).min
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


@dataclass(frozen=True)
class Profile:
    """The profile of a list: `n` items, `p` of them relevant; `grades`, descending, if the relevance is graded."""

    n: int
    p: int
    grades: tuple[float, ...] | None = None

    def relevance(self, metric: Metric) -> Tensor:
        """Return the list's grades, descending; a binary list has the lowest grade that the metric counts, and 0."""
        if self.grades is None:
            return counted_grade(metric) * (torch.arange(self.n) < self.p).to(torch.int64)
        grades = torch.tensor(self.grades, dtype=torch.float64)
        return grades.to(torch.int64) if bool((grades == grades.trunc()).all()) else grades

    @property
    def key(self) -> int:
        """An integer that identifies the profile; at least 0 and ascending with (n, p) for a binary one."""
        return int(self.n) << 32 | int(self.p) if self.grades is None else _graded_key(self.grades)

    def __str__(self) -> str:
        if self.grades is None:
            return f"{self.n} items with {self.p} relevant"
        kinds, counts = np.unique(self.grades, return_counts=True)
        return f"{self.n} items with " + ", ".join(
            f"{count} of grade {kind:g}" for kind, count in zip(kinds[::-1], counts[::-1], strict=True)
        )


@lru_cache(maxsize=256)
@on_cpu
def counted_grade(metric: Metric) -> int:
    """Return the lowest grade that the metric counts as relevant."""
    return int(metric.relevant(torch.arange(1, _MOST_GRADES)).to(torch.int8).argmax()) + 1


@lru_cache(maxsize=4096)
@on_cpu
def _graded_key(grades: tuple[float, ...]) -> int:
    lists = Lists(torch.tensor([0, len(grades)]))
    return int(graded_keys(torch.tensor(grades, dtype=torch.float64), lists)[0])


def graded_keys(relevance: Tensor, lists: Lists) -> Tensor:
    """Return a negative hash of each list's grades, independent of their order: the hashed sum of hashed grades.

    The probability of a collision among a million different lists is 1e-7.
    """
    # Adding 0 turns -0.0 into 0.0.
    bits = (relevance.to(torch.float64) + 0.0).view(torch.int64)
    total = torch.zeros_like(lists.sizes).index_add(0, lists.segment, _scattered(bits))
    return _scattered(total + lists.sizes) | _GRADED


def _scattered(bits: Tensor) -> Tensor:
    for odd in _SCATTER:
        bits = (bits ^ (bits >> 30)) * odd
    return bits ^ (bits >> 31)


@lru_cache(maxsize=16384)
@on_cpu
def mean_over_orders(metric: Metric, profile: Profile) -> float:
    """Return the mean over all orders if they are few, otherwise over `MEAN_SAMPLES` random ones; NaN if undefined."""
    orders = Orders(metric, profile)
    drawn = orders.beginning_with(profile.n)[0] if orders.are_few() else orders.random(MEAN_SAMPLES, seed=0)
    return float(np.concatenate([orders.of_kinds(kinds)[0] for kinds in drawn]).mean())


class Orders:
    """The orders of one list and their scores under a metric; equally likely, or (binary lists only) tilted."""

    def __init__(self, metric: Metric, profile: Profile, tilt: float = UNIFORM) -> None:
        self.metric, self.profile = metric, profile
        self._random = RandomOrders(profile.n, profile.p, tilt)
        self._relevance = profile.relevance(metric)
        grades, counts = torch.unique(self._relevance, return_counts=True)
        self._grades, self._counts = grades.flip(0), counts.flip(0).numpy()
        self.number = n_orders(self._counts.tolist())
        self._k = min(getattr(metric, "cutoff", None) or profile.n, profile.n)
        self._rows = max(1, CHUNK_ITEMS // max(profile.n, 1))

    def are_few(self, most: int = FEW_ORDERS) -> bool:
        """Return true if all orders can be enumerated and are at most `most`."""
        return self.number <= min(most, FEW_ORDERS) and self.number * self.profile.n <= FEW_ITEMS

    def exact_atoms(self, most: int = FEW_ORDERS) -> Atoms | None:
        """Return the distribution by a closed form, or over all orders or all patterns if these are at most `most`."""
        n, p, patterns = self.profile.n, self.profile.p, len(self._grades) ** self._k
        atoms = closed_form(self.metric, self._random) if self.profile.grades is None and 0 < p < n else None
        if atoms is not None:
            return atoms
        if self.are_few(most):
            return self.atoms(*self.beginning_with(n))
        has_few_patterns = patterns <= min(most, FEW_ORDERS) and patterns * n <= FEW_ITEMS
        return self.atoms(*self.beginning_with(self._k)) if self._k < n and has_few_patterns else None

    def beginning_with(self, k: int) -> tuple[Iterator[Kinds], Floats | None]:
        """Return one order for each pattern of the first k ranks, and the patterns' chances unless they are equal.

        Patterns are extended rank by rank, and followed by the remaining items in descending order of grade.
        """
        left, log_chance, levels = self._counts[None], np.zeros(1), []
        tilts = np.where(np.arange(left.shape[1]) == 0, self._random.tilt, 1.0)
        for _ in range(k):
            pattern, kind = np.nonzero(left)
            levels.append((pattern.astype(np.int32), kind.astype(np.int32)))
            weights = left * tilts
            log_chance = log_chance[pattern] + np.log(weights[pattern, kind] / weights.sum(1)[pattern])
            left = left[pattern]
            left[np.arange(len(left)), kind] -= 1
        is_equal = k == self.profile.n and self._random.is_uniform
        return self._completed(levels, left), None if is_equal else np.exp(log_chance)

    def _completed(self, levels: list[tuple[Any, Any]], left: Integers) -> Iterator[Kinds]:
        place = np.arange(self.profile.n - len(levels))
        for start in range(0, len(left), self._rows):
            rest = left[start : start + self._rows].cumsum(1)
            kinds = np.empty((len(rest), self.profile.n), dtype=np.int64)
            kinds[:, len(levels) :] = (place[None, :, None] >= rest[:, None, :]).sum(2)
            row = np.arange(start, start + len(rest))
            for rank in reversed(range(len(levels))):
                pattern, kind = levels[rank]
                kinds[:, rank], row = kind[row], pattern[row]
            yield torch.from_numpy(kinds)

    def random(self, samples: int, seed: int) -> Iterator[Kinds]:
        """Yield `samples` random orders, which depend on the list and the seed alone."""
        if self.profile.grades is None:
            for flags in self._random.drawn(samples, seed):
                yield torch.from_numpy(~flags).to(torch.int64)
            return
        generator = np.random.default_rng((seed, self.profile.n, self.profile.key % 2**64))
        kinds = np.repeat(np.arange(len(self._grades), dtype=np.int64), self._counts)
        for start in range(0, samples, self._rows):
            rows = min(self._rows, samples - start)
            yield torch.from_numpy(generator.permuted(np.tile(kinds, (rows, 1)), axis=1))

    def atoms(self, orders: Iterator[Kinds], chances: Floats | None = None) -> Atoms:
        """Return the distribution over orders, equally likely by default; NaN if the metric is undefined for one."""
        values, keys = (np.concatenate(part) for part in zip(*map(self.of_kinds, orders), strict=True))
        if np.isnan(values).any():
            return Atoms(np.array([np.nan]), np.ones(1))
        ulps, scale = ulps_of_sum(self._k), 0.0
        if not isinstance(self.metric, AdditiveMetric):
            # Sums of positive terms are exact relative to the sum, differences only relative to their terms.
            scale = float(np.abs(values).max())
            values = np.where(np.abs(values) <= ulps * EPSILON * scale, 0.0, values)
        return merge(values, chances, keys, ulps=ulps, scale=scale)

    def of_kinds(self, kinds: Kinds) -> tuple[Floats, Integers | Floats]:
        """Return the metric of each order, and keys that are equal where values are equal but for rounding."""
        # A metric of a user who may stop at each item, by its own class: a subclass may change what it inherits.
        if (stops := vars(type(self.metric)).get("stops")) is not None:
            stop = stops(self.metric, self._grades).to(torch.float64).numpy()
            of_stop = _residues_of(stop)
            value, going = np.zeros(len(kinds)), np.ones(len(kinds))
            residue, of_going = np.zeros(len(kinds), dtype=np.int64), np.ones(len(kinds), dtype=np.int64)
            for rank, kind in enumerate(kinds.numpy().T[: self._k], start=1):
                value += going * stop[kind] / rank
                going *= 1 - stop[kind]
                residue += of_going * of_stop[kind] % PRIME * pow(rank, -1, PRIME) % PRIME
                of_going = of_going * ((1 - of_stop[kind]) % PRIME) % PRIME
            return value, residue % PRIME
        if not isinstance(self.metric, AdditiveMetric):
            relevance, (rows, n) = self._grades[kinds].reshape(-1), kinds.shape
            lists, kept = Lists(torch.arange(rows + 1) * n), self.metric.relevant(relevance)
            ranks = hard_ranks(torch.arange(rows * n), lists, self.metric.rank_weights(relevance))
            above = tuple(weight[kept] for weight in ranks.above)
            of_kept = replace(ranks, position=ranks.position[kept], above=above)
            of_ranks = self.metric.of_ranks(of_kept, relevance[kept], lists.keep(kept))
            values = np.asarray(of_ranks.to(torch.float64).numpy())
            return values, np.zeros(len(values)) if type(self.metric) in OF_FRACTIONS else values
        terms, tokens = self._terms
        places = np.arange(self.profile.n)
        return terms.gather(0, kinds).sum(1).numpy(), tokens[kinds.numpy(), places].sum(axis=1) % PRIME

    @cached_property
    def _terms(self) -> tuple[Tensor, Integers]:
        """The term of an item of each kind at each rank `(n_kinds, n)`, and their residues."""
        assert isinstance(self.metric, AdditiveMetric)
        self.metric.require_gains_that_fit(self._grades, torch.float64)
        gains = self.metric.gains(self._grades).to(torch.float64)
        discounts = discounts_of(self.metric, self.profile.n)
        normaliser = self.metric.normaliser(self._relevance, Lists(torch.tensor([0, self.profile.n])))
        terms = gains[:, None] * torch.from_numpy(discounts) / torch.where(normaliser == 0, torch.nan, normaliser)
        return terms, _residues_of(gains.numpy())[:, None] * residues(discounts) % PRIME


def _residues_of(numbers: Floats) -> Integers:
    """Return numbers, which are fractions of whole numbers, modulo the prime."""
    ratios = [number.as_integer_ratio() for number in numbers.tolist()]
    return np.array([above * pow(below, -1, PRIME) % PRIME for above, below in ratios])


def closed_form(metric: Metric, orders: RandomOrders) -> Atoms | None:
    """Return the distribution over random orders of a list with 0 < P < N; `None` without a formula."""
    n, p = orders.n, orders.p
    if isinstance(metric, RankedPairs):
        # A monotonic function of the number of wrongly ordered pairs (Mann-Whitney U).
        if p * (n - p) > EXACT_INTEGERS:
            return None
        probability = rank_sums(orders)
        wrong = np.arange(float(len(probability)))
        values = metric.of_wrong_pairs(wrong, np.full_like(wrong, n), np.full_like(wrong, p))
        ascending = slice(None) if values[0] <= values[-1] else slice(None, None, -1)
        return Atoms(values[ascending].copy(), probability[ascending].copy())
    if type(metric) is precision.RPrecision:
        metric = precision.Precision(cutoff=p)
    if isinstance(metric, AdditiveMetric):
        # The hypergeometric distribution of P@k, recall@k or CG@k, whose discount is a step.
        discounts = discounts_of(metric, n)
        k = int(np.count_nonzero(discounts == discounts[0]))
        if discounts[0] == 0 or discounts[k:].any():
            return None
        hits = np.arange(max(0, k - (n - p)), min(k, p) + 1)
        values = hits * discounts[0] / float(metric.binary_normaliser(np.array([p]))[0])
        if not orders.is_uniform:
            return Atoms(values, next(islice(orders.chances_before(), k, None))[hits])
        taken, left = (k - hits[:-1]) * (p - hits[:-1]), hits[1:] * (n - k - p + hits[1:])
        logs = np.concatenate([[0.0], np.cumsum(np.log(taken) - np.log(left))])
        sizes = np.exp(logs - logs.max())
        return Atoms(values, sizes / sizes.sum())
    if type(metric) not in (precision.ReciprocalRank, precision.Hit):
        return None
    # Those of the ranks 1 .. N - P + 1 of the first relevant item.
    chance = orders.chance(np.arange(1, n - p + 2), np.zeros(1, dtype=np.int64))  # type: ignore[arg-type]
    chances = chance * np.concatenate([[1.0], np.cumprod(1.0 - chance[:-1])])
    last = min(getattr(metric, "cutoff", None) or n, len(chances))
    missed = chances[last:].sum()
    if type(metric) is precision.ReciprocalRank:
        values, own = 1.0 / np.arange(last, 0.0, -1.0), chances[:last][::-1]
    else:
        values, own = np.ones(1), np.array([1.0 - missed])
    if last == len(chances):
        return Atoms(values, own.copy())
    return Atoms(np.concatenate([[0.0], values]), np.concatenate([[missed], own]))


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
            # The centred function, by the logarithms of its sines at half the frequencies.
            half, large = pi * (np.arange(known, known + length) + 0.5) / period, max(orders.p, orders.n - orders.p)
            factor = np.arange(1.0, orders.n - large + 1.0)[:, None]
            above, below = np.sin((large + factor) * half), np.sin(factor * half)
            size = np.exp(np.log(np.abs(above)).sum(0) - np.log(np.abs(below)).sum(0) - log(comb(orders.n, orders.p)))
            is_odd = (np.signbit(above) ^ np.signbit(below)).sum(0) % 2 == 1
            blocks.append(np.where(is_odd, -size, size).astype(np.complex128))
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
    # The sum over k at x = coarse + fine, uniformly spaced, by one matrix product.
    size, spacing = ceil(len(x) ** 0.5), (x[-1] - x[0]) / (len(x) - 1)
    coarse, fine = x[0] + spacing * size * np.arange(ceil(len(x) / size)), spacing * np.arange(size)
    left, right = np.exp(-1j * np.outer(coarse, step * order)) * weights, np.exp(-1j * np.outer(step * order, fine))
    waves = (left @ right).reshape(-1)[: len(x)]
    cdf = x / period + (weights.sum() - waves).real
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


def characteristic_functions(sums: Sequence[Sum], step: float, count: int, first: float = 1) -> Complexes:
    """Return the mean of exp(i k step S), k = first .. first + count - 1, S the unscaled score, `(len(sums), count)`.

    The time is O(longest N x states kept x count), independent of the number of lists, of which only one may be tilted.
    """
    longest, sizes = max(sums, key=lambda of: of.n), np.array([of.n for of in sums])
    n, p, from_the_top = longest.n, longest.p, longest.orders.is_uniform
    lowest, highest = _kept_states(sums, n)
    result = np.empty((len(sums), count), dtype=np.complex128)
    # The numbers k in a coarse and a fine part: about 2 sqrt(count) exponentials and one product are a state's turns.
    size_of_part = max(1, round(count**0.5))
    fine = 1j * step * np.arange(first, size_of_part + first)[:, None]
    coarse = 1j * step * np.arange(0, count, size_of_part)[:, None]
    values = np.zeros((count, max(of.p for of in sums) + 1), dtype=np.complex128)
    values[:, 0] = 1.0
    for size in range(1, n + 1):
        low, high = int(lowest[size]), int(highest[size])
        if low <= high:
            relevant = np.arange(low, high + 1)
            share = longest.orders.chance(n - size + 1, p - relevant)
            rank, so_far = (size, relevant) if from_the_top else (n - size + 1, p - relevant + 1)
            # One for all states if it doesn't depend on them.
            added = np.atleast_1d(longest.increment(np.float64(rank), so_far.astype(np.float64)))  # type: ignore[arg-type]
            turns = np.exp(coarse * added)[:, None, :] * np.exp(fine * added)[None, :, :]
            risen = turns.reshape(-1, len(added))[:count] * values[:, low - 1 : high]
            risen *= share
            values[:, low : high + 1] *= 1.0 - share
            values[:, low : high + 1] += risen
        for index in np.flatnonzero(sizes == size).tolist():
            result[index] = values[:, sums[index].p]
    return result


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
