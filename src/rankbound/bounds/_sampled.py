"""Score distributions from random orders (thesis section 4.3)."""

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._atoms import merge_equal
from rankbound.bounds._scores import Floats, Score

_CHUNK_ITEMS = 2_000_000
"""Number of items of all orders in memory at once (16 MB of scores)."""
UNREPEATED_ORDERS = 10**12
"""With this many orders or more, fewer than one repetition is expected among 300,000 draws of nDCG or AP."""
REPEAT_SAMPLES = 50_000


def sample_orders(score: Score, n: int, p: int, samples: int, seed: int) -> tuple[Floats, Floats]:
    """Return the distinct scores, ascending, of `samples` random orders, and their frequencies, which sum to 1.

    An order is drawn as the set of ranks of the relevant items, uniform among the sets of size p. The same
    (n, p, samples, seed) gives the same orders for every metric.
    """
    generator = np.random.default_rng((seed, n, p))
    chunk = max(1, _CHUNK_ITEMS // n)
    parts = [
        scores_of_sets(score, n, p, random_sets(generator, min(chunk, samples - start), n, p))
        for start in range(0, samples, chunk)
    ]
    scores, counts = merge_equal(np.concatenate(parts))
    return scores, counts / samples


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
    _, frequencies = sample_orders(score, n, p, REPEAT_SAMPLES, seed=0)
    counts = np.rint(frequencies * REPEAT_SAMPLES)
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
