"""Score distributions of single scores: which scores are equal, and all orders of short lists by enumeration.

Scores are float64 numbers, and those of two orders may differ by rounding alone. Scores within a few units in the last
place are therefore one atom. Where different scores lie that near to each other, as those of RBP(p=0.5) do, whose terms
span more digits than a float64 has, the atom holds them all and the distribution's error says how much of its mass is
theirs. Sums are told apart by what is summed: AP, a sum of fractions, by its residue modulo a prime; other sums by the
multiset of their terms. Scores of other metrics count as different unless they are the same float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._scores import Floats, Score

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

Integers = NDArray[np.int64]


class Atoms(NamedTuple):
    """Scores, ascending, and their probabilities; `lost` is the error of the CDF by scores that are no atoms."""

    support: Floats
    probability: Floats
    lost: float = 0.0


def enumerate_orders(score: Score, n: int, p: int) -> Atoms:
    """Return the distinct scores of all C(N, P) equally likely orders, and their probabilities.

    Partial orders are extended by the next relevant item's rank, in every way that leaves room for the rest.
    """
    last, sums = np.zeros(1, dtype=np.int64), ExactSums(score, n, p)
    for placed in range(1, p + 1):
        choices = n - (p - placed) - last
        first = np.cumsum(choices) - choices
        step = np.arange(int(choices.sum())) - np.repeat(first, choices)
        last = np.repeat(last, choices) + 1 + step
        sums.extend(choices, last, placed)
    return sums.atoms()


class ExactSums:
    """The sums of a score's increments over the ranks of relevant items, one row an order, placed from the top.

    The sums are kept in two float64 each, whose error is that of the increments alone (Dekker 1971), with their
    residues.
    """

    def __init__(self, score: Score, n: int, p: int) -> None:
        self._score, self._n, self._p = score, n, p
        self._high, self._low = np.zeros(1), np.zeros(1)
        self._residues = np.zeros(1, dtype=np.int64)
        self._of_ranks = residues(score.increment(np.arange(1.0, n + 1.0), np.ones(n)), score.counted)

    def extend(self, times: Integers, rank: Integers, placed: int) -> None:
        """Repeat the rows and add the `placed`-th relevant item of each at its rank, from 1."""
        added = self._score.increment(rank.astype(np.float64), np.float64(placed))  # type: ignore[arg-type]
        high = np.repeat(self._high, times)
        total = high + added
        back = total - high
        self._low = np.repeat(self._low, times) + ((high - (total - back)) + (added - back))
        self._high = total
        of_ranks = self._of_ranks * placed % PRIME if self._score.counted else self._of_ranks
        self._residues = np.repeat(self._residues, times) + of_ranks[rank - 1]

    def atoms(self, chances: Floats | None = None) -> Atoms:
        """Return the distinct scores with the sums of the orders' chances, which are equal by default."""
        scores = (self._high + self._low) / self._score.scale(self._p)
        atoms = merge(scores, chances, self._residues % PRIME)
        # The extremes have closed forms; where these are coarser, the sums are right.
        ends = np.array([form(self._n, self._p) for form in (self._score.minimum, self._score.maximum)])
        support = atoms.support.copy()
        support[[0, -1]] = np.where(
            np.abs(support[[0, -1]] - ends) <= 4 * ULPS * EPSILON * ends, ends, support[[0, -1]]
        )
        is_ascending = (np.diff(support[:2]) > 0).all() and (np.diff(support[-2:]) > 0).all()
        return atoms._replace(support=support) if is_ascending else atoms


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
