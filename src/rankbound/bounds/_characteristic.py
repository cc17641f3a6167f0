"""The characteristic functions of scores for many (N, P), computed together by one recursion over the ranks.

Let f(r, c; w) be the mean of exp(i w S) over the random orders of r items, c of them relevant, with S the unscaled
score. The last of the r items is relevant with probability c / r and then adds increment(r, c):

    f(r, c) = (1 - c / r) f(r - 1, c) + (c / r) exp(i w increment(r, c)) f(r - 1, c - 1),      f(r, 0) = 1.

The recursion doesn't depend on N and P: one pass up to the longest list yields f(N, P) of all shorter lists as well.
All weights are at most 1, so errors don't grow. Only the states that the lists of the pass are likely to visit are kept
(about 8 standard deviations of c at rank r).
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._scores import Floats, Score

Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]
_LOG_OUTSIDE = 25.0
"""States are dropped where the mass beyond them is below exp(-25) = 1e-11 (Bernstein's inequality)."""


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
    turn = Turn(score, step, count)
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

    def __init__(self, score: Score, step: float, count: int, first: int = 1) -> None:
        self._score, self._count = score, count
        size = max(1, round(count**0.5))
        self._first = 1j * step * np.arange(first, size + first)[:, None]
        self._second = 1j * step * np.arange(0, count, size)[:, None]

    def __call__(self, rank: int, so_far: Floats) -> Complexes:
        states = so_far if self._score.counted else so_far[:1]
        added = np.broadcast_to(self._score.increment(np.float64(rank), states), states.shape)  # type: ignore[arg-type]
        turns = np.exp(self._second * added)[:, None, :] * np.exp(self._first * added)[None, :, :]
        return turns.reshape(-1, len(states))[: self._count]


def _kept_states(pairs: Sequence[tuple[int, int]], longest: int) -> tuple[Ints, Ints]:
    """Return the smallest and largest c (from 1) needed at each rank 0 .. longest; none where smallest > largest.

    For one list, c at rank r is hypergeometric with mean r P / N; the pass needs the union over its lists.
    """
    lowest = np.full(longest + 1, np.iinfo(np.int64).max)
    highest = np.zeros(longest + 1, dtype=np.int64)
    for n, p in pairs:
        rank = np.arange(n + 1)
        mean = rank * (p / n)
        variance = mean * (1 - p / n) * (n - rank) / max(n - 1, 1)
        reach = _LOG_OUTSIDE / 3 + np.sqrt((_LOG_OUTSIDE / 3) ** 2 + 2 * _LOG_OUTSIDE * variance)
        low = np.maximum(np.floor(mean - reach), p - (n - rank)).astype(np.int64)
        high = np.minimum(np.ceil(mean + reach), np.minimum(p, rank)).astype(np.int64)
        lowest[: n + 1] = np.minimum(lowest[: n + 1], np.maximum(low, 1))
        highest[: n + 1] = np.maximum(highest[: n + 1], high)
    return lowest, highest
