"""The randomisation test of a mean difference, and the combination of a family's p-values."""

import math
from collections.abc import Sequence

import numpy as np

from rankbound.compare.scores import Floats

FLIPS = 9999
"""Number of random sign vectors: p-values are multiples of 1 / (FLIPS + 1)."""

_EXACT_UNITS = 13
"""All signs are enumerated for up to this many nonzero differences: 2^13 is less than FLIPS."""

_SIGNS_AT_ONCE = 2**22

_ROUNDING = 1e-9
"""Sums of the same terms in another order differ by less than this share of the sum of their absolute values."""


def sign_flip(differences: Floats, flips: int = FLIPS, seed: int = 0) -> float:
    r"""Return the two-sided p-value of a mean difference, by random sign flips of the differences `(n_units,)`.

    If the two systems are exchangeable, each $d_u$ could as well have been $-d_u$:

    $$p = \frac{1 + \#\{f : |\sum_u s_{fu} d_u| \ge |\sum_u d_u|\}}{1 + F}, \qquad s_{fu} = \pm 1$$

    over $F$ = `flips` random sign vectors and the observed one. With at most 13 nonzero differences, it is the exact
    share over all sign vectors. `scipy.stats.permutation_test` gives the same, more slowly. The p-value does not
    depend on the order of units or on the sign of all differences, to the last digit. NaNs are ignored; NaN without
    differences.

    Source: Smucker, Allan and Carterette 2007, "A comparison of statistical significance tests for information
    retrieval evaluation".
    """
    known = differences[np.isfinite(differences)]
    if not len(known):
        return math.nan
    # The null distribution depends on the absolute values alone; sorting makes it independent of their order.
    sizes = np.sort(np.abs(known))
    sizes = sizes[sizes > 0]
    least = abs(math.fsum(known.tolist())) - _ROUNDING * sizes.sum()
    if len(sizes) <= _EXACT_UNITS:
        positive = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float((np.abs((2.0 * positive - 1) @ sizes) >= least).mean())
    random = np.random.default_rng(seed)
    reached, batch = 1, max(1, _SIGNS_AT_ONCE // len(sizes))
    for start in range(0, flips, batch):
        shape = (min(batch, flips - start), -(-len(sizes) // 8))
        signs = np.unpackbits(random.integers(0, 256, shape, dtype=np.uint8), axis=1, count=len(sizes))
        reached += int((np.abs(2.0 * (signs @ sizes) - sizes.sum()) >= least).sum())
    return reached / (flips + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Return Holm's adjusted p-values, in the order of the input; they control the family-wise error rate.

    $$\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})$$

    NaNs, of tests that were not made, stay NaN and do not count in the number $m$ of tests.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = [index for index, p_value in enumerate(p_values) if not math.isnan(p_value)]
    adjusted, largest = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(sorted(tested, key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(tested) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def holm_within(p_values: Sequence[float], families: Sequence[str]) -> list[float]:
    """Return Holm's adjusted p-values within each family; `families` has the family's name of each test."""
    adjusted = [math.nan] * len(p_values)
    for family in sorted(set(families)):
        places = [place for place, name in enumerate(families) if name == family]
        for place, value in zip(places, holm([p_values[place] for place in places]), strict=True):
            adjusted[place] = value
    return adjusted


def partial_conjunction(p_values: Sequence[float], count: int) -> float:
    r"""Return the p-value of "fewer than `count` of these null hypotheses are false".

    A small value shows that at least `count` of the $n$ effects exist. With the p-values in ascending order,

    $$p = \min(1, (n - r + 1) p_{(r)}), \qquad r = \text{count}$$

    which is valid whatever the dependence between the tests: the cells of one table share topics, models and baselines.
    For r = 1 it is Bonferroni's test that any effect exists, for r = n the intersection-union test that all do.

    Source: Benjamini and Heller 2008, "Screening for partial conjunction hypotheses".

    Raises:
        ValueError: `count` is not between 1 and the number of p-values.

    >>> partial_conjunction([0.001, 0.002, 0.9], 2)
    0.004
    """
    if not 1 <= count <= len(p_values):
        raise ValueError(f"count: found {count}, expected a number from 1 to {len(p_values)}, that of the p-values")
    return min(1.0, (len(p_values) - count + 1) * sorted(p_values)[count - 1])
