"""Score distributions from random orders (thesis section 4.3)."""

from functools import cache
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._atoms import EPSILON, PRIME, Atoms, merge, residues
from rankbound.bounds._scores import Floats, Score
from rankbound.kernels import usable

_CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once (16 MB of scores)."""
UNREPEATED_ORDERS = 10**12
"""With this many orders or more, fewer than one repetition is expected among 300,000 draws of nDCG or AP."""
REPEAT_SAMPLES = 50_000
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The step of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""


def sample_orders(score: Score, n: int, p: int, samples: int, seed: int) -> Atoms:
    """Return the distinct scores, ascending, of `samples` random orders, and their frequencies, which sum to 1.

    An order is drawn as the set of ranks of the relevant items, uniform among the sets of size p. The same
    (n, p, samples, seed) gives the same orders for every metric.
    """
    fixed, counted = _linear(score, n)
    sums = sums_of_orders(fixed, counted, p, samples, seed)
    keys = np.zeros(samples)
    if is_finer_than_its_sums(score, n, p):
        # Sums of integers are exact below 2^53.
        keys = sums_of_orders(residues(fixed).astype(np.float64), None, p, samples, seed) % PRIME
    return merge(sums / score.scale(p), None, keys, ulps=ulps_of_sum(p))


def ulps_of_sum(terms: int) -> float:
    """Return the rounding error of a plain sum of positive terms, in epsilons of the sum; random errors add up so."""
    return 8.0 + 2.0 * sqrt(terms)


def is_finer_than_its_sums(score: Score, n: int, p: int) -> bool:
    """Return true if two ranks' different increments can be lost in the rounding of a sum; those of AP never are."""
    if score.counted:
        return False
    terms = np.unique(np.broadcast_to(score.increment(np.arange(1.0, n + 1.0), np.ones(n)), n))
    return bool((np.diff(terms) <= ulps_of_sum(p) * EPSILON * p * terms[-1]).any())


def sums_of_orders(fixed: Floats, counted: Floats | None, p: int, samples: int, seed: int) -> Floats:
    """Return the sum over p relevant items of `fixed[r] + counted[r] * c` for each of some random orders, `(samples,)`.

    Here r is the rank of an item, from 0, and c the number of relevant items up to it. The ranks are drawn one by one
    from those that are left (Fisher and Yates 1938), with the numbers of SplitMix64.
    """
    state, sums = _state(seed, len(fixed), p), np.empty(samples)
    if usable():
        from rankbound.kernels.evaluation import sums_of_counts, sums_of_ranks

        if counted is None:
            sums_of_ranks(state, p, fixed, sums)
        else:
            sums_of_counts(state, p, fixed, counted, sums)
        return sums
    rows = max(1, _CHUNK_ITEMS // len(fixed))
    for start in range(0, samples, rows):
        relevant = _sets(state, start, min(rows, samples - start), len(fixed), p)
        sums[start : start + rows] = _sums_of_sets(fixed, counted, relevant)
    return sums


def _linear(score: Score, n: int) -> tuple[Floats, Floats | None]:
    """Return the parts of a score's increments that are fixed at each rank, and that count relevant items so far."""
    rank, one = np.arange(1.0, n + 1.0), np.ones(n)
    first = np.broadcast_to(score.increment(rank, one), n)
    if not score.counted:
        return np.array(first), None
    slope = np.broadcast_to(score.increment(rank, 2 * one), n) - first
    return np.ascontiguousarray(first - slope), np.ascontiguousarray(slope)


def _state(*numbers: int) -> np.uint64:
    """Return a state of the generator that these numbers decide."""
    return np.uint64(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _sets(state: np.uint64, start: int, rows: int, n: int, p: int) -> NDArray[np.bool_]:
    """Return rows of n flags, p of them set: the relevant items of random orders from `start` on."""
    flags, row = np.zeros((rows, n), dtype=np.bool_), np.arange(rows)
    ranks = np.tile(np.arange(n, dtype=np.int32), (rows, 1))
    drawn = np.arange(start, start + rows, dtype=np.uint64) * np.uint64(p)
    for place in range(p):
        number = _mixed(state + (drawn + np.uint64(place + 1)) * _GAMMA) >> np.uint64(32)
        other = place + (number * np.uint64(n - place) >> np.uint64(32)).astype(np.int64)
        flags[row, ranks[row, other]] = True
        ranks[row, other] = ranks[:, place]
    return flags


def _sums_of_sets(fixed: Floats, counted: Floats | None, relevant: NDArray[np.bool_]) -> Floats:
    if counted is None:
        return np.asarray(relevant @ fixed)
    so_far = np.cumsum(relevant, axis=1, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", relevant, fixed + counted * so_far))


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))


@cache
def repeat_probability(score: Score, n: int, p: int) -> float:
    """Return the probability that two random orders have the same score.

    It is 1 / C(N, P) for nDCG and RBP, of which different orders practically never have the same value. For AP, a sum
    of fractions, it is about ten times that; unless negligible, it is estimated from the pairs within a seeded sample.
    """
    orders = comb(n, p)
    single = 1 / orders if orders < UNREPEATED_ORDERS else 0.0
    if score.name != "AP" or single == 0:
        return single
    counts = np.rint(sample_orders(score, n, p, REPEAT_SAMPLES, seed=0).probability * REPEAT_SAMPLES)
    return max(single, float((counts * (counts - 1)).sum()) / (REPEAT_SAMPLES * (REPEAT_SAMPLES - 1)))


def random_sets(generator: np.random.Generator, rows: int, n: int, p: int) -> NDArray[np.bool_]:
    """Return rows of n flags, p of them set, each uniform among all such rows."""
    flags = np.zeros((rows, n), dtype=np.bool_)
    flags[:, :p] = True
    return generator.permuted(flags, axis=1, out=flags)


def scores_of_sets(score: Score, n: int, p: int, relevant: NDArray[np.bool_]) -> Floats:
    """Return the score of each row of flags (ranks 1 .. n from left to right), shape `(rows,)`."""
    rank = np.arange(1.0, n + 1.0)
    if score.counted:
        added = score.increment(rank, np.cumsum(relevant, axis=1, dtype=np.float64))
        return np.asarray(np.einsum("ij,ij->i", relevant, added)) / score.scale(p)
    return np.asarray(relevant @ score.increment(rank, rank)) / score.scale(p)
