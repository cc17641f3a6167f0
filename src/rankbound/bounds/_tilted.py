"""Tilted random orders, which are biased towards ranking relevant items first.

Ranks are filled from the top by draws without replacement, with weight t (the tilt) for a relevant item and 1 for any
other: a Plackett-Luce model with two weights. With c of P relevant items among the first r - 1 of N ranks,

    P(rank r is relevant) = t (P - c) / (t (P - c) + (N - r + 1) - (P - c)).

t = 1 gives uniform orders. Source: Luce, Individual Choice Behavior (1959); Plackett, Applied Statistics 24 (1975).
Unless t = 1, the first r ranks aren't an order of r items under the same model, so every (N, P) needs its own walk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._atoms import PRIME, Atoms, ExactSums, merge, residues
from rankbound.bounds._characteristic import Complexes, Turn
from rankbound.bounds._sampled import (
    REPEAT_SAMPLES,
    UNREPEATED_ORDERS,
    is_finer_than_its_sums,
    scores_of_sets,
    ulps_of_sum,
)
from rankbound.bounds._scores import Floats, Score

UNIFORM = 1.0
"""The tilt of uniform orders."""
UNSEEN = 1e-14
"""A walk omits states beyond which the mass is at most this."""
_LOG_OUTSIDE = log(1e9)
"""The window of a score excludes less than 2e-9 of the mass (Chernoff's inequality)."""
_REACHES = np.geomspace(0.05, 3.0, 24)
"""Parameters tried in Chernoff's inequality, in units of the optimal one for a normal distribution."""
_CHUNK_ITEMS = 2_000_000

Flags = NDArray[np.bool_]


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
