"""Scores that are sums over the relevant items of a list, and their distributions over random orders (section 4.3).

A score is `sum over relevant items of increment(r, c) / scale`, with r the item's rank and c the number of relevant
items up to it, itself included. One recursion over (r, c) serves all of them:

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
from functools import cache, lru_cache
from itertools import islice
from math import comb, inf, sqrt
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankbound.kernels import usable
from rankbound.kernels.formulas import table_size
from rankbound.lists import on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.pairs import RankSum

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
UNIFORM = 1.0
"""The tilt of uniform orders."""
EPSILON = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float64."""
ULPS = 4.0
"""Scores within so many epsilons of their size are one atom. A sum without rounding errors of its own, of terms that
are exact to half an epsilon each, is exact to one."""
SAME_SCORE = 1e-11
"""A score that a caller computes, or rounds to 12 digits, equals the nearest atom if it is this close, relative to its
size."""
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
CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once (16 MB of scores)."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The step of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""


class Atoms(NamedTuple):
    """Scores, ascending, and their probabilities; `lost` is the error of the CDF by scores that are no atoms."""

    support: Floats
    probability: Floats
    lost: float = 0.0


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
        if not 0 < self.tilt < inf:
            raise ValueError(f"tilt: found {self.tilt:g}, expected a number above 0")

    @property
    def is_uniform(self) -> bool:
        """True without a tilt, where formulas replace walks over the ranks."""
        return self.tilt == UNIFORM

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

    def chances_of_hits(self, k: int, hits: Integers) -> Floats:
        """Return the probabilities of all possible numbers of relevant items among the first k ranks."""
        if not self.is_uniform:
            return next(islice(self.chances_before(), k, None))[hits]
        fewer = hits[:-1]
        taken, left = (k - fewer) * (self.p - fewer), (fewer + 1) * (self.n - k - self.p + fewer + 1)
        return _chances(np.log(taken) - np.log(left))

    def chances_of_first(self) -> Floats:
        """Return the probabilities that the first relevant item has rank 1 .. N - P + 1."""
        if self.is_uniform:
            rank = np.arange(1.0, self.n - self.p + 1.0)
            return _chances(np.log(self.n - rank - self.p + 1) - np.log(self.n - rank))
        chance = self.tilt * self.p / (self.tilt * self.p + np.arange(self.n - self.p, -1, -1))
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

    def drawn(self, samples: int, seed: int) -> Iterator[Flags]:
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


def _chances(log_ratios: Floats) -> Floats:
    """Return probabilities, given the logarithms of the ratio of each to the one before."""
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    sizes = np.exp(logs - logs.max())
    return np.asarray(sizes / sizes.sum())


@dataclass(frozen=True)
class Score:
    """A metric of binary lists, one of the sums above, without a cut-off.

    The increments are in units of the first discount, so that they are at most 1 unless they count ranks. `minimum`,
    `maximum`, `mean` and `variance` are of the score of random orders of `n` items, `p` of them relevant.
    """

    metric: Metric

    @property
    def counts_pairs(self) -> bool:
        """True for the nRBP loss, whose scores are integers."""
        return isinstance(self.metric, RankSum)

    @property
    def sums_fractions(self) -> bool:
        """True for AP."""
        return isinstance(self.metric, AveragePrecision)

    @property
    def counted(self) -> bool:
        """True if the increment depends on the number of relevant items so far."""
        return self.counts_pairs or self.sums_fractions

    def increment(self, rank: Floats, so_far: Floats) -> Floats:
        """Return the increments at ranks, given the numbers of relevant items up to them; arrays that broadcast."""
        if self.counts_pairs:
            return rank - so_far
        if self.sums_fractions:
            return so_far / rank
        discounts, place = _table(self.metric, int(np.max(rank))), np.asarray(rank, np.int64) - 1
        return np.asarray(discounts[place] / discounts[0])

    def scale(self, p: int) -> float:
        if self.counted:
            return 1.0 if self.counts_pairs else float(p)
        assert isinstance(self.metric, AdditiveMetric)
        return float(self.metric.binary_normaliser(np.array([p]))[0] / _table(self.metric, 1)[0])

    def minimum(self, n: int, p: int) -> float:
        if self.counted:
            return float(_extremes(self.metric, n, p)[0][0])
        # A difference of running totals, as of the extremes of many lists, has fewer digits for few relevant items.
        discounts = _table(self.metric, n)
        return float(discounts[n - p : n].sum() / discounts[0]) / self.scale(p)

    def maximum(self, n: int, p: int) -> float:
        return float(_extremes(self.metric, n, p)[1][0])

    def mean(self, n: int, p: int) -> float:
        mean = self.metric.binary_expectation(np.array([n]), np.array([p]))
        assert mean is not None
        return float(mean[0])

    def variance(self, n: int, p: int) -> float:
        if self.counts_pairs:
            return p * (n - p) * (n + 1) / 12
        if self.sums_fractions:
            return _ap_variance(n, p, self.mean(n, p))
        # Of a sum of P of N numbers drawn without replacement: P (N - P) / (N - 1) times their variance.
        discounts = _table(self.metric, n)[:n]
        spread = float((discounts / discounts[0]).var())
        return p * (n - p) / max(n - 1, 1) * spread / self.scale(p) ** 2


@lru_cache(maxsize=64)
@on_cpu
def score_of(metric: Metric) -> Score | None:
    """Return the metric as a score of binary lists; `None` if it isn't such a sum."""
    if getattr(metric, "cutoff", None) is not None:
        return None
    if type(metric) in (RankSum, AveragePrecision):
        return Score(metric)
    if not isinstance(metric, AdditiveMetric):
        return None
    discounts = _table(metric, DECREASING_UNTIL)
    return Score(metric) if discounts[0] > 0 and (np.diff(discounts) <= 0).all() else None


def _extremes(metric: Metric, n: int, p: int) -> tuple[Floats, Floats]:
    ends = metric.binary_extremes(np.array([n]), np.array([p]))
    assert ends is not None
    return ends


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


def sample_orders(score: Score, orders: RandomOrders, samples: int, seed: int) -> Atoms:
    """Return the distinct scores, ascending, of `samples` random orders, and their frequencies, which sum to 1.

    A uniform order is drawn as the set of ranks of the relevant items, uniform among the sets of size p. The same
    numbers give the same orders for every metric.
    """
    n, p = orders.n, orders.p
    rank, one = np.arange(1.0, n + 1.0), np.ones(n)
    fixed = np.broadcast_to(score.increment(rank, one), n).copy()
    tokens = residues(fixed).astype(np.float64) if _is_finer_than_its_sums(score, fixed, p) else np.zeros(n)
    if orders.is_uniform:
        slope = np.broadcast_to(score.increment(rank, 2 * one), n) - fixed if score.counted else None
        start = fixed if slope is None else fixed - slope
        sums = sums_of_orders(start, slope, p, samples, seed) / score.scale(p)
        # Sums of integers are exact below 2^53.
        keys = sums_of_orders(tokens, None, p, samples, seed) % PRIME if tokens.any() else np.zeros(samples)
        return merge(sums, None, keys, ulps=ulps_of_sum(p))
    parts = [(_scores_of_sets(score, flags), flags @ tokens % PRIME) for flags in orders.drawn(samples, seed)]
    scores, keys = (np.concatenate(part) for part in zip(*parts, strict=True))
    return merge(scores / score.scale(p), None, keys, ulps=ulps_of_sum(p))


def _is_finer_than_its_sums(score: Score, increments: Floats, p: int) -> bool:
    """Return true if two ranks' different increments can be lost in the rounding of a sum; those of AP never are."""
    terms = np.unique(increments)
    return not score.counted and bool((np.diff(terms) <= ulps_of_sum(p) * EPSILON * p * terms[-1]).any())


def ulps_of_sum(terms: int) -> float:
    """Return the rounding error of a plain sum of positive terms, in epsilons of the sum; random errors add up so."""
    return 8.0 + 2.0 * sqrt(terms)


def _scores_of_sets(score: Score, relevant: Flags) -> Floats:
    """Return the unscaled score of each row of flags (ranks 1 .. n from left to right), `(rows,)`."""
    rank = np.arange(1.0, relevant.shape[1] + 1.0)
    if not score.counted:
        return np.asarray(relevant @ score.increment(rank, rank))
    added = score.increment(rank, np.cumsum(relevant, axis=1, dtype=np.float64))
    return np.asarray(np.einsum("ij,ij->i", relevant, added))


def sums_of_orders(fixed: Floats, counted: Floats | None, p: int, samples: int, seed: int) -> Floats:
    """Return the sum over p relevant items of `fixed[r] + counted[r] * c` for each of some random orders, `(samples,)`.

    Here r is the rank of an item, from 0, and c the number of relevant items up to it. The ranks are drawn one by one
    from those that are left (Fisher and Yates 1938), with the numbers of SplitMix64.
    """
    state = np.uint64(np.random.SeedSequence((seed, len(fixed), p)).generate_state(1, np.uint64)[0])
    sums = np.empty(samples)
    if usable():
        from rankbound.kernels.evaluation import sums_of_counts, sums_of_ranks

        if counted is None:
            sums_of_ranks(state, p, fixed, sums)
        else:
            sums_of_counts(state, p, fixed, counted, sums)
        return sums
    rows = max(1, CHUNK_ITEMS // len(fixed))
    for start in range(0, samples, rows):
        relevant = _sets(state, start, min(rows, samples - start), len(fixed), p)
        if counted is None:
            sums[start : start + rows] = relevant @ fixed
        else:
            so_far = np.cumsum(relevant, axis=1, dtype=np.float64)
            sums[start : start + rows] = np.einsum("ij,ij->i", relevant, fixed + counted * so_far)
    return sums


def _sets(state: np.uint64, start: int, rows: int, n: int, p: int) -> Flags:
    """Return rows of n flags, p of them set: the relevant items of random orders from `start` on."""
    flags, row = np.zeros((rows, n), dtype=np.bool_), np.arange(rows)
    ranks = np.tile(np.arange(n, dtype=np.int32), (rows, 1))
    drawn = np.arange(start, start + rows, dtype=np.uint64) * np.uint64(p)
    for place in range(p):
        number = state + (drawn + np.uint64(place + 1)) * _GAMMA
        number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        number = (number ^ (number >> np.uint64(31))) >> np.uint64(32)
        other = place + (number * np.uint64(n - place) >> np.uint64(32)).astype(np.int64)
        flags[row, ranks[row, other]] = True
        ranks[row, other] = ranks[:, place]
    return flags


@cache
def repeat_probability(score: Score, orders: RandomOrders) -> float:
    """Return the probability that two random orders have the same score.

    It is that of the same order for nDCG and RBP, of which different orders practically never have the same value. For
    AP, a sum of fractions, it is about ten times that; unless negligible, it is estimated from the pairs within a
    seeded sample.
    """
    single = orders.repeated()
    if not score.sums_fractions or single < 1 / UNREPEATED_ORDERS:
        return single
    counts = np.rint(sample_orders(score, orders, REPEAT_SAMPLES, seed=0).probability * REPEAT_SAMPLES)
    return max(single, float((counts * (counts - 1)).sum()) / (REPEAT_SAMPLES * (REPEAT_SAMPLES - 1)))


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
    ordered = values[order]
    tolerance = ulps * EPSILON * np.maximum(np.abs(ordered), scale)
    first = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > tolerance)
    size = np.diff(first, append=len(ordered))
    if weights is None:
        total, mass = float(len(values)), size.astype(np.float64)
    else:
        weights = weights[order]
        total, mass = float(weights.sum()), np.add.reduceat(weights, first)
    told = ordered if keys is None else keys[order]
    mixed = np.zeros(len(ordered), dtype=np.bool_)
    mixed[1:] = told[1:] != told[:-1]
    mixed[first] = False
    lost = 0.0
    if mixed.any():
        atom = np.repeat(np.arange(len(first)), size)
        member = np.repeat(np.logical_or.reduceat(mixed, first), size)
        atom, told = atom[member], told[member]
        own = np.ones(len(atom)) if weights is None else weights[member]
        by_key = np.lexsort((told, atom))
        atom, told, own = atom[by_key], told[by_key], own[by_key]
        starts = np.flatnonzero(np.concatenate([[True], (atom[1:] != atom[:-1]) | (told[1:] != told[:-1])]))
        smallest = np.full(len(first), np.inf)
        np.minimum.at(smallest, atom[starts], np.add.reduceat(own, starts))
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
    random = np.random.default_rng(0).integers(1, PRIME, len(distinct))
    result, known = np.zeros(len(distinct), dtype=np.int64), distinct == 0
    for base in range(len(distinct)):
        if known[base]:
            continue
        known[base], result[base] = True, random[base]
        if base >= _BASES:
            continue
        rest = slice(base + 1, None)
        ratios = distinct[rest] / distinct[base]
        for denominator in range(2, _LARGEST_DENOMINATOR):
            numerator = np.rint(ratios * denominator).astype(np.int64)
            simple = np.abs(ratios - numerator / denominator) <= EPSILON * ratios
            simple &= ~known[rest] & (numerator > 0)
            share = numerator * pow(denominator, -1, PRIME) % PRIME
            result[rest][simple] = share[simple] * int(random[base]) % PRIME
            known[rest] |= simple
    return np.asarray(result[which.reshape(-1)])


def discounts_of(metric: AdditiveMetric, n: int) -> Floats:
    """Return the metric's discounts of the ranks 1 .. n, 0 beyond the cut-off."""
    at = _table(metric, n)[:n].copy()
    at[getattr(metric, "cutoff", None) or n :] = 0.0
    return at


def _table(metric: Metric, n: int) -> Floats:
    """Return the discounts of at least n ranks."""
    return _discounts(metric, table_size(n))


@lru_cache(maxsize=64)
@on_cpu
def _discounts(metric: AdditiveMetric, size: int) -> Floats:
    return np.array(metric.discount_at(torch.arange(1.0, size + 1.0, dtype=torch.float64)).numpy())
