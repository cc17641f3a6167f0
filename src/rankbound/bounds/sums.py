"""Scores that are sums over the relevant items of a list, and random orders of the list (section 4.3).

A score is `sum over relevant items of increment(r, c) / scale`, with r the item's rank and c the number of relevant
items up to it, itself included:

    nDCG        1 / log2(r + 1)      scale = IDCG = sum_{r <= P} 1 / log2(r + 1)
    AP          c / r                scale = P
    nRBP loss   r - c                scale = 1     (thesis eq. 2.12: integers 0 .. P(N - P), lower is better)

Any other sum of gain times discount without a cut-off is like nDCG, by the metric's discount and normaliser.

Scores are float64 numbers, and those of two orders may differ by rounding alone. Scores within a few units in the last
place are therefore one atom (`merge`). Where different scores lie that near to each other, as those of RBP(p=0.5) do,
whose terms span more digits than a float64 has, the atom holds them all and the distribution's error says how much of
its mass is theirs. Sums are told apart by what is summed (`residues`): AP, a sum of fractions, by its residue modulo a
prime; other sums by the multiset of their terms. Scores of other metrics count as different unless they are the same
float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch

from rankbound.kernels import usable
from rankbound.kernels.formulas import Floats, Integers, Mask, table_size
from rankbound.lists import on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import AveragePrecision
from rankbound.texts import require

UNIFORM = 1.0
"""The tilt of uniform orders."""
EPSILON = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float64."""
ULPS = 4.0
"""Scores within so many epsilons of their size are one atom. A sum without rounding errors of its own, of terms that
are exact to half an epsilon each, is exact to one."""
PRIME = 2**31 - 1
"""Residues modulo this prime multiply within 64 bits; those of two different sums agree with a probability of 5e-10."""
_LARGEST_DENOMINATOR = 16
_BASES = 128
"""Number of terms, from the largest, that others are compared with."""
DECREASING_UNTIL = 4096
"""Number of ranks for which a discount is verified not to increase."""
UNREPEATED_ORDERS = 10**12
"""With this many orders or more, fewer than one repetition is expected among 300,000 draws of nDCG or AP."""
REPEAT_SAMPLES = 50_000
LOG_OUTSIDE = log(1e9)
"""A window excludes less than 2e-9 of the mass (the inequalities of Bernstein and Chernoff)."""
_REACHES = np.geomspace(0.05, 3.0, 24)
"""Parameters tried in Chernoff's inequality, in units of the optimal one for a normal distribution."""
_UNVISITED = 1e-14
"""A walk omits states beyond which the mass is at most this."""
CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once (16 MB of scores)."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The step of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""


class Atoms(NamedTuple):
    """Scores, ascending, and their probabilities; `lost` is the error of the CDF by scores that are no atoms.

    With a `width`, the middles of adjacent bins and their mass, which is spread evenly inside a bin.
    """

    support: Floats
    probability: Floats
    lost: float = 0.0
    width: float = 0.0


@dataclass(frozen=True)
class RandomOrders:
    """Random orders of `n` items, `p` of them relevant: uniform, or with a `tilt` towards relevant items first.

    Ranks are filled from the top by draws without replacement, with weight t (the tilt) for a relevant item and 1 for
    any other: a Plackett-Luce model with two weights. With c of P relevant items among the first r - 1 of N ranks,

        P(rank r is relevant) = t (P - c) / (t (P - c) + (N - r + 1) - (P - c)).

    Source: Luce, Individual Choice Behavior (1959); Plackett, Applied Statistics 24 (1975).
    """

    n: int
    p: int
    tilt: float = UNIFORM

    def __post_init__(self) -> None:
        require("tilt", f"{self.tilt:g}", 0 < self.tilt < inf, "a number above 0")

    @property
    def is_uniform(self) -> bool:
        """True without a tilt, where formulas replace walks over the ranks."""
        return self.tilt == UNIFORM

    def weights(self, rank: Any, before: Any) -> tuple[Any, Any]:
        """Return the weights of all relevant and of all other items that are left at a rank, given those before it."""
        relevant = self.p - before
        return self.tilt * relevant, np.maximum(self.n - rank + 1 - relevant, 0)

    def chance(self, rank: int, before: Integers) -> Floats:
        """Return the probability that the item at a rank (from 1) is relevant, given the relevant items before it."""
        relevant, others = self.weights(rank, before)
        return np.asarray(relevant / (relevant + others))

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

    def drawn(self, samples: int, seed: int) -> Iterator[Mask]:
        """Yield flags `(rows, n)` of the relevant ranks of `samples` random orders, which the numbers alone decide."""
        own = () if self.is_uniform else (int(np.array(self.tilt, np.float64).view(np.uint64)),)
        generator = np.random.default_rng((seed, self.n, self.p, *own))
        most = max(1, CHUNK_ITEMS // self.n)
        for start in range(0, samples, most):
            rows = min(most, samples - start)
            flags = np.zeros((rows, self.n), dtype=np.bool_)
            if self.is_uniform:
                flags[:, : self.p] = True
                yield generator.permuted(flags, axis=1, out=flags)
                continue
            before = np.zeros(rows, dtype=np.int64)
            for rank in range(1, self.n + 1):
                flags[:, rank - 1] = generator.random(rows) < self.chance(rank, before)
                before += flags[:, rank - 1]
            yield flags

    def repeated(self) -> float:
        """Return the probability that two orders have the relevant items at the same ranks; 0 if it is negligible."""
        if self.is_uniform:
            return 1 / orders if (orders := comb(self.n, self.p)) < UNREPEATED_ORDERS else 0.0
        same, before = np.ones(self.p + 1), np.arange(self.p)
        for rank in range(self.n, 0, -1):
            chance = self.chance(rank, before)
            same[:-1] = chance**2 * same[1:] + (1 - chance) ** 2 * same[:-1]
        return float(same[0])


@lru_cache(maxsize=64)
def is_sum(metric: Metric) -> bool:
    """Return true if the metric of binary lists is one of the sums above, without a cut-off."""
    if getattr(metric, "cutoff", None) is not None:
        return False
    if type(metric) in (RankSum, AveragePrecision):
        return True
    if not isinstance(metric, AdditiveMetric):
        return False
    discounts = discounts_of(metric, DECREASING_UNTIL)
    return bool(discounts[0] > 0 and (np.diff(discounts) <= 0).all())


class Sum:
    """A sum (`is_sum`) over the relevant items of random orders of one list, 0 < P < N.

    The increments are in units of the first discount, so that they are at most 1 unless they count ranks. `counted` is
    true if they depend on the number of relevant items so far: those of AP, and of the nRBP loss, which are integers.
    """

    def __init__(self, metric: Metric, orders: RandomOrders) -> None:
        self.metric, self.orders, self.n, self.p = metric, orders, orders.n, orders.p
        self.counts_pairs = isinstance(metric, RankSum)
        self.counted = self.counts_pairs or isinstance(metric, AveragePrecision)

    @cached_property
    def _discounts(self) -> Floats:
        return discounts_of(self.metric, self.n)  # type: ignore[arg-type]

    @cached_property
    def _fixed(self) -> Floats:
        return np.asarray(self._discounts / self._discounts[0])

    def increment(self, rank: Floats, so_far: Floats) -> Floats:
        """Return the increments at ranks, given the numbers of relevant items up to them; arrays that broadcast."""
        if self.counted:
            return rank - so_far if self.counts_pairs else so_far / rank
        return self._fixed[np.asarray(rank, np.int64) - 1]

    @cached_property
    def scale(self) -> float:
        if self.counted:
            return 1.0 if self.counts_pairs else float(self.p)
        assert isinstance(self.metric, AdditiveMetric)
        return float(self.metric.binary_normaliser(np.array([self.p]))[0] / self._discounts[0])

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest score of any order."""
        low, high = (float(end[0]) for end in self.metric.binary_extremes(np.array([self.n]), np.array([self.p])))  # type: ignore[union-attr]
        if self.counted:
            return low, high
        # A difference of running totals, as of the extremes of many lists, has fewer digits for few relevant items.
        return float(self._discounts[self.n - self.p :].sum() / self._discounts[0]) / self.scale, high

    @cached_property
    def moments(self) -> tuple[float, float]:
        """The mean and the variance of the score."""
        n, p = self.n, self.p
        if not self.orders.is_uniform:
            mean, variance = np.zeros(p + 1), np.zeros(p + 1)
            for _, chance, added in self.ranks():
                step = added + mean[1:] - mean[:-1]
                variance[:-1] += chance * (variance[1:] - variance[:-1]) + chance * (1 - chance) * step**2
                mean[:-1] += chance * step
            return float(mean[0]) / self.scale, float(variance[0]) / self.scale**2
        of_orders = float(self.metric.binary_expectation(np.array([n]), np.array([p]))[0])  # type: ignore[index]
        if self.counts_pairs:
            return of_orders, p * (n - p) * (n + 1) / 12
        if self.counted:
            return of_orders, _ap_variance(n, p, of_orders)
        # Of a sum of P of N numbers drawn without replacement: P (N - P) / (N - 1) times their variance.
        return of_orders, p * (n - p) / max(n - 1, 1) * float(self._fixed.var()) / self.scale**2

    def ranks(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield, from the last rank to the first, probability and increment of a relevant item after 0 .. p - 1.

        The sum from a rank on depends on the order above only through the number of relevant items there.
        """
        before = np.arange(self.p)
        for rank in range(self.n, 0, -1):
            yield rank, self.orders.chance(rank, before), self.increment(np.float64(rank), before + 1.0)  # type: ignore[arg-type]

    @cached_property
    def window(self) -> tuple[float, float]:
        """An interval of the score that holds all but 2e-9 of the mass.

        For uniform orders, it follows from Bernstein's inequality for the scores of min(P, N - P) items drawn without
        replacement (Hoeffding, J. Am. Statist. Assoc. 58 (1963), section 6), with the largest change that one rank can
        make; for AP, where that change depends on the other ranks, with the change made by rank 1. For other orders, it
        follows from Chernoff's: P(S - E S > x) <= exp(-a x) E exp(a (S - E S)) for every a > 0.
        """
        (mean, variance), n, p = self.moments, self.n, self.p
        if self.orders.is_uniform:
            variance = variance * (n - 1) / max(p, n - p)
            jump = (1.0 + (p - 1) / (n - 1) * (log(n) + 1.0)) / p if self.counted else 1.0 / self.scale
            reach = LOG_OUTSIDE * jump / 3 + ((LOG_OUTSIDE * jump / 3) ** 2 + 2 * LOG_OUTSIDE * variance) ** 0.5
            return mean - reach, mean + reach
        best = (2 * LOG_OUTSIDE / variance) ** 0.5 / self.scale
        parameters = np.concatenate([-best * _REACHES, best * _REACHES])[:, None]
        means, generating = np.zeros(p + 1), np.ones((len(parameters), p + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for _, chance, added in self.ranks():
                step = added + means[1:] - means[:-1]
                risen = chance * np.exp(parameters * (1 - chance) * step) * generating[:, 1:]
                generating[:, :-1] *= (1 - chance) * np.exp(-parameters * chance * step)
                generating[:, :-1] += risen
                means[:-1] += chance * step
            reaches = (np.log(generating[:, 0]) + LOG_OUTSIDE) / np.abs(parameters[:, 0]) / self.scale
        down, up = np.where(np.isfinite(reaches), reaches, np.inf).reshape(2, -1).min(axis=1)
        return mean - float(down), mean + float(up)

    @cached_property
    def visited(self) -> list[tuple[int, int]]:
        """The smallest and largest number of relevant items before rank 1 .. n + 1 that walks over the ranks need."""
        ends = []
        for before in self.orders.chances_before():
            needed = (np.cumsum(before) > _UNVISITED) & (np.cumsum(before[::-1])[::-1] > _UNVISITED)
            ends.append((int(np.argmax(needed)), self.p - int(np.argmax(needed[::-1]))))
        return ends

    @cached_property
    def repeated(self) -> float:
        """The probability that two random orders have the same score.

        It is that of the same order for nDCG and RBP, of which different orders practically never have the same value.
        For AP, a sum of fractions, it is about ten times that; unless negligible, it is estimated from the pairs within
        a seeded sample.
        """
        single = self.orders.repeated()
        if not self.counted or self.counts_pairs or single < 1 / UNREPEATED_ORDERS:
            return single
        counts = np.rint(self.draw(REPEAT_SAMPLES, seed=0).probability * REPEAT_SAMPLES)
        return max(single, float((counts * (counts - 1)).sum()) / (REPEAT_SAMPLES * (REPEAT_SAMPLES - 1)))

    def draw(self, samples: int, seed: int) -> Atoms:
        """Return the distinct scores, ascending, of `samples` random orders, and their frequencies, which sum to 1.

        A uniform order is drawn as the set of ranks of the relevant items, uniform among the sets of size p. The same
        numbers give the same orders for every metric.
        """
        p, rank, one = self.p, np.arange(1.0, self.n + 1.0), np.ones(self.n)
        fixed = self.increment(rank, one)
        slope = self.increment(rank, 2 * one) - fixed if self.counted else None
        terms = [(fixed if slope is None else fixed - slope, slope)]
        distinct = np.unique(fixed)
        # Two ranks' different increments can be lost in the rounding of a sum; those of AP never are.
        if not self.counted and (np.diff(distinct) <= ulps_of_sum(p) * EPSILON * p * distinct[-1]).any():
            terms.append((residues(fixed).astype(np.float64), None))
        if self.orders.is_uniform:
            parts = [[sums_of_orders(*of, p, samples, seed) for of in terms]]
        else:
            parts = [[_sums_of_sets(flags, *of) for of in terms] for flags in self.orders.drawn(samples, seed)]
        sums, *keys = (np.concatenate(part) for part in zip(*parts, strict=True))
        # Sums of integers are exact below 2^53.
        return merge(sums / self.scale, None, keys[0] % PRIME if keys else np.zeros(samples), ulps=ulps_of_sum(p))


def _ap_variance(n: int, p: int, mean: float) -> float:
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
    return max(float((squares + 2 * products).sum()) / p**2 - mean**2, 0.0)


def ulps_of_sum(terms: int) -> float:
    """Return the rounding error of a plain sum of positive terms, in epsilons of the sum; random errors add up so."""
    return 8.0 + 2.0 * sqrt(terms)


def _sums_of_sets(relevant: Mask, fixed: Floats, counted: Floats | None) -> Floats:
    """Return the sum of `sums_of_orders` for each row of flags."""
    if counted is None:
        return np.asarray(relevant @ fixed)
    so_far = np.cumsum(relevant, axis=1, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", relevant, fixed + counted * so_far))


def sums_of_orders(fixed: Floats, counted: Floats | None, p: int, samples: int, seed: int) -> Floats:
    """Return the sum over p relevant items of `fixed[r] + counted[r] * c` for each of some random orders, `(samples,)`.

    Here r is the rank of an item, from 0, and c the number of relevant items up to it. The ranks are drawn one by one
    from those that are left (Fisher and Yates 1938), with the numbers of SplitMix64.
    """
    n, sums = len(fixed), np.empty(samples)
    state = np.uint64(np.random.SeedSequence((seed, n, p)).generate_state(1, np.uint64)[0])
    if usable():
        from rankbound.kernels.evaluation import sums_of_counts, sums_of_ranks

        if counted is None:
            sums_of_ranks(state, p, fixed, sums)
        else:
            sums_of_counts(state, p, fixed, counted, sums)
        return sums
    rows = max(1, CHUNK_ITEMS // n)
    for start in range(0, samples, rows):
        row = np.arange(min(rows, samples - start))
        relevant = np.zeros((len(row), n), dtype=np.bool_)
        ranks = np.tile(np.arange(n, dtype=np.int32), (len(row), 1))
        drawn = (start + row).astype(np.uint64) * np.uint64(p)
        for place in range(p):
            number = state + (drawn + np.uint64(place + 1)) * _GAMMA
            number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            number = (number ^ (number >> np.uint64(31))) >> np.uint64(32)
            other = place + (number * np.uint64(n - place) >> np.uint64(32)).astype(np.int64)
            relevant[row, ranks[row, other]] = True
            ranks[row, other] = ranks[:, place]
        sums[start : start + rows] = _sums_of_sets(relevant, fixed, counted)
    return sums


def merge(
    values: Floats,
    weights: Floats | None = None,
    keys: Integers | Floats | None = None,
    *,
    ulps: float = ULPS,
    scale: float = 0.0,
) -> Atoms:
    """Return the distinct values with their shares of the weight, of which each value has 1 by default.

    Values within `ulps` epsilons of their own size or of `scale`, if that is larger, are one atom, at the largest of
    them. `keys` are equal for equal values; by default the values themselves are.
    """
    order = np.argsort(values, kind="stable")
    ordered, told = values[order], (values if keys is None else keys)[order]
    weights = np.ones(len(order)) if weights is None else weights[order]
    is_first = np.diff(ordered, prepend=-np.inf) > ulps * EPSILON * np.maximum(np.abs(ordered), scale)
    first = np.flatnonzero(is_first)
    size = np.diff(first, append=len(order))
    total, mass, lost = float(weights.sum()), np.add.reduceat(weights, first), 0.0
    is_mixed = np.diff(told, prepend=told[:1]).astype(bool) & ~is_first
    if is_mixed.any():
        # Only one key of an atom has its score: what the others weigh, at most, is lost.
        member = np.repeat(np.logical_or.reduceat(is_mixed, first), size)
        atom, told, own = (np.cumsum(is_first) - 1)[member], told[member], weights[member]
        by_key = np.lexsort((told, atom))
        atom, told = atom[by_key], told[by_key]
        starts = np.flatnonzero(np.concatenate([[True], (atom[1:] != atom[:-1]) | (told[1:] != told[:-1])]))
        smallest = np.full(len(first), np.inf)
        np.minimum.at(smallest, atom[starts], np.add.reduceat(own[by_key], starts))
        lost = float((mass - smallest).max()) / total
    return Atoms(ordered[first + size - 1], mass / total, lost)


def residues(terms: Floats, counted: bool = False) -> Integers:
    """Return an integer for each rank's term, such that sums of terms are equal where those of the integers are.

    Sums are compared modulo `PRIME`, where a fraction is an integer too. For AP (`counted`), the term of rank r is a
    multiple of 1 / r. Other terms are random integers, those in a simple ratio to a larger one, as 1 / log2(9) to
    1 / log2(3), that multiple of its integer.
    """
    if counted:
        return np.array([pow(rank, -1, PRIME) for rank in range(1, len(terms) + 1)], dtype=np.int64)
    distinct, which = np.unique(-np.asarray(terms), return_inverse=True)
    result = np.random.default_rng(0).integers(1, PRIME, len(distinct))
    result[distinct == 0] = 0
    known = distinct == 0
    for base in range(min(_BASES, len(distinct))):
        if known[base]:
            continue
        rest = slice(base + 1, None)
        ratios = distinct[rest] / distinct[base]
        for denominator in range(2, _LARGEST_DENOMINATOR):
            numerator = np.rint(ratios * denominator).astype(np.int64)
            simple = np.abs(ratios - numerator / denominator) <= EPSILON * ratios
            simple &= ~known[rest] & (numerator > 0)
            share = numerator * pow(denominator, -1, PRIME) % PRIME
            result[rest][simple] = share[simple] * int(result[base]) % PRIME
            known[rest] |= simple
    return np.asarray(result[which.reshape(-1)])


def discounts_of(metric: AdditiveMetric, n: int) -> Floats:
    """Return the metric's discounts of the ranks 1 .. n, 0 beyond the cut-off."""
    at = _discounts(metric, table_size(n))[:n].copy()
    at[getattr(metric, "cutoff", None) or n :] = 0.0
    return at


@lru_cache(maxsize=64)
@on_cpu
def _discounts(metric: AdditiveMetric, size: int) -> Floats:
    """Return the discounts of a table's ranks."""
    return np.array(metric.discount_at(torch.arange(1.0, size + 1.0, dtype=torch.float64)).numpy())
