"""Bootstrap draws as counts of each unit: the resampled means are one matrix product.

`draws @ values / n` is the mean of every resample, for any values of the same n units.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rankbound.compare.scores import Floats

_Counts = npt.NDArray[np.uint8]

_NUMBERS_AT_ONCE = 2**18
_KEPT_NUMBERS = 2**26
"""Draws of up to this many counts (a byte each) are cached for other values of the same number of units."""


def draws(random: np.random.Generator, n: int, resamples: int) -> Floats:
    """Return how often each of n units is drawn when n are drawn with replacement, `(resamples, n)`."""
    drawn = random.integers(0, n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


def drawn_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Return the resampled means `([k,] resamples)` of values `([k,] n)`; the same seed gives the same draws."""
    n = values.shape[-1]
    means: Floats = np.concatenate([counts @ values.T for counts in _counts(n, resamples, seed)]).T / n
    return means


def _counts(n: int, resamples: int, seed: int) -> Iterable[_Counts]:
    fits = n * resamples <= _KEPT_NUMBERS
    return _kept_counts(n, resamples, seed) if fits else _new_counts(n, resamples, seed)


@lru_cache(maxsize=2)
def _kept_counts(n: int, resamples: int, seed: int) -> tuple[_Counts, ...]:
    return tuple(_new_counts(n, resamples, seed))


def _new_counts(n: int, resamples: int, seed: int) -> Iterator[_Counts]:
    """Yield draws as bytes; the probability that a unit is drawn more than 255 times is below 1e-500."""
    random, batch = np.random.default_rng(seed), max(1, _NUMBERS_AT_ONCE // n)
    for start in range(0, resamples, batch):
        yield draws(random, n, min(batch, resamples - start)).astype(np.uint8)
