r"""Intervals and tests of mean scores: by bootstrap over topics, by a variance that knows shared faces for pairs.

Both kinds of means answer the same questions: the interval of a method, and the difference of two methods on the same
lists with its interval and p-value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CONFIDENCE = 0.95
RESAMPLES = 4999
FLIPS = 9999

_BATCH = 64
_FLIPS_AT_ONCE = 1000
_SEED = 0
_NORMAL = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""


class Means(Protocol):
    """Mean scores of some methods on the same lists."""

    @property
    def means(self) -> Floats:
        """Of each method."""

    def interval(self, method: int) -> tuple[float, float]:
        """The 95 % interval of a method's mean."""

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """The mean difference of two methods, with its 95 % interval."""

    def p_value(self, method: int, other: int) -> float:
        """Two-sided, that the two methods have the same mean."""

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """The weighted sum of all methods' means, with its 95 % interval and the two-sided p-value that it is 0."""


@dataclass(frozen=True)
class TopicMeans:
    """Means over topics: `values` `(n_methods, n_topics)`, NaN where undefined; resampled `(n_methods, RESAMPLES)`.

    All methods are resampled together, so that differences are paired. p-values are of sign flips.
    """

    values: Floats
    means: Floats
    resamples: Floats

    @classmethod
    def of(cls, values: Floats) -> "TopicMeans":
        """Resample the topics with replacement."""
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0)

        def means(drawn: Integers, axis: int = -1) -> Floats:
            return _ratio(filled[:, drawn].sum(axis), known[:, drawn].sum(axis))

        return cls(values, *_resampled(values.shape[1], means, len(values)))

    def interval(self, method: int) -> tuple[float, float]:
        """The percentile interval of the bootstrap."""
        return _percentiles(self.resamples[method])

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """The mean difference, with the percentile interval of the bootstrap."""
        found = float(self.means[method] - self.means[other])
        return found, *_percentiles(self.resamples[method] - self.resamples[other])

    def p_value(self, method: int, other: int) -> float:
        """By flipping the signs of the topics' differences."""
        return sign_flip(self.values[method] - self.values[other])

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """The sum with the percentile interval of the bootstrap; the p-value is of flipping its topics' signs."""
        used = np.flatnonzero(weights)
        sums, resamples, values = (weights[used] @ each[used] for each in (self.means, self.resamples, self.values))
        return float(sums), *_percentiles(resamples), sign_flip(values)


@dataclass(frozen=True)
class PairMeans:
    r"""Means over pairs of faces: `values` `(n_methods, n_pairs)`, `faces` `(n_pairs, 2)`, any numbers of faces.

    A face is in several pairs, so pairs are no independent draws. With the residuals $r_p$ of the $n$ pairs the
    variance of a mean is taken as

    $$\frac1{n^2} \sum_{p, q \text{ share a face}} r_p r_q = \frac1{n^2} \Big(\sum_i \big(\sum_{p \ni i} r_p\big)^2
    - \sum_p r_p^2\Big),$$

    the dyadic cluster-robust estimate (Fafchamps and Gubert 2007; Aronow, Samii and Assenova 2015), or as that of
    independent pairs where that is larger. Intervals and p-values are of the normal distribution. Resampling faces
    (a pair counts as often as both were drawn) would triple the variance of pairs that share nothing.
    """

    values: Floats
    faces: Integers

    @property
    def means(self) -> Floats:
        """Of each method."""
        found: Floats = self.values.mean(1) if self.values.shape[1] else np.full(len(self.values), np.nan)
        return found

    def interval(self, method: int) -> tuple[float, float]:
        """Mean plus or minus 1.96 standard errors, inside 0 .. 1."""
        _, low, high = self._around(self.values[method])
        return max(low, 0.0), min(high, 1.0)

    def difference(self, method: int, other: int) -> tuple[float, float, float]:
        """The mean difference plus or minus 1.96 standard errors."""
        return self._around(self.values[method] - self.values[other])

    def p_value(self, method: int, other: int) -> float:
        """Of the mean difference over its standard error."""
        return self._p_value(self.values[method] - self.values[other])

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """The sum plus or minus 1.96 standard errors, and the p-value of it over its standard error."""
        values = weights @ self.values
        return *self._around(values), self._p_value(values)

    def _p_value(self, values: Floats) -> float:
        mean, error = float(values.mean()), self._error(values)
        if error == 0:
            return float(mean == 0)
        return math.erfc(abs(mean / error) / math.sqrt(2))

    def _around(self, values: Floats) -> tuple[float, float, float]:
        if not len(values):
            return math.nan, math.nan, math.nan
        mean, reach = float(values.mean()), _NORMAL * self._error(values)
        return mean, mean - reach, mean + reach

    def _error(self, values: Floats) -> float:
        residuals = values - values.mean()
        _, place = np.unique(self.faces, return_inverse=True)
        per_face = np.bincount(place.reshape(-1), weights=np.repeat(residuals, 2))
        own = float((residuals**2).sum())
        return math.sqrt(max(float((per_face**2).sum()) - own, own)) / len(values)


def r_squared(predicted: Floats, true: Floats) -> tuple[Floats, list[tuple[float, float]]]:
    """Share of the variance of `true` `(n,)` that `predicted` `(n_methods, n)` explain, with bootstrap intervals."""
    squares = (true - predicted) ** 2

    def shares(drawn: Integers, axis: int = -1) -> Floats:
        spread = ((true[drawn] - true[drawn].mean(axis, keepdims=True)) ** 2).sum(axis)
        missed = squares[:, drawn].sum(axis)
        return 1 - _ratio(missed, np.broadcast_to(spread, missed.shape))

    found, resamples = _resampled(len(true), shares, len(predicted))
    return found, [_percentiles(row) for row in resamples]


def sign_flip(differences: Floats) -> float:
    """Two-sided p-value of a mean difference: how often random signs of the paired differences give as large a mean.

    The share is of FLIPS random signs and the observed ones together. NaN differences are left out. (As
    `scipy.stats.permutation_test` with one sample, by one product of matrices instead of a shuffle per resample.)
    """
    known = differences[np.isfinite(differences)]
    random = np.random.default_rng(_SEED)
    observed, reached = abs(known.sum()), 1
    # Sums of equal terms in another order differ by rounding.
    least = observed * (1 - 1e-9)
    for start in range(0, FLIPS, _FLIPS_AT_ONCE):
        signs = random.integers(0, 2, (min(_FLIPS_AT_ONCE, FLIPS - start), len(known)), dtype=np.int8)
        reached += int((np.abs((2.0 * signs - 1) @ known) >= least).sum())
    return reached / (FLIPS + 1)


def _resampled(count: int, statistic: Callable[..., Floats], methods: int) -> tuple[Floats, Floats]:
    """The statistic of all `count` units `(methods,)`, and of RESAMPLES draws of as many with replacement."""
    from scipy.stats import bootstrap

    every = np.arange(count)
    means = statistic(every) if count else np.full(methods, np.nan)
    if count < 2:
        return means, np.repeat(means[:, None], RESAMPLES, 1)
    found: Any = bootstrap(
        (every,),
        statistic,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return means, found.bootstrap_distribution


def _percentiles(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return math.nan, math.nan
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


def _ratio(sums: Any, counts: Any) -> Floats:
    """Sums over counts, NaN where there is nothing."""
    ratio: Floats = np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=np.asarray(counts) > 0)
    return ratio
