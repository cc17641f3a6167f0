"""Randomisation tests of a mean difference, and Holm's correction of a family of p-values."""

import math
from collections.abc import Sequence

import numpy as np

from rankbound.compare.scores import Floats

FLIPS = 9999
"""Random signs: p-values come in steps of 1 / (FLIPS + 1)."""

_EXACT_UNITS = 13
"""Up to so many units that differ, all signs are tried: 2^13 is fewer than FLIPS."""

_SIGNS_AT_ONCE = 2**22

_ROUNDING = 1e-9
"""Sums of equal terms in another order differ by less, relative to the sum of their sizes."""


def sign_flip(differences: Floats, flips: int = FLIPS, seed: int = 0) -> float:
    r"""Two-sided p-value of a mean difference: how often random signs give as large a mean.

    If it does not matter which system a unit's two scores came from, each $d_u$ could as well have been $-d_u$:

    $$p = \frac{1 + \#\{f : |\sum_u s_{fu} d_u| \ge |\sum_u d_u|\}}{1 + F}, \qquad s_{fu} = \pm 1$$

    over `flips` random signs and the observed ones; where at most 13 differences are not zero, the exact share over all
    signs. (`scipy.stats.permutation_test` of one sample gives the same, slower.) The order of the units and the sign of
    all differences change nothing, not even the last digit. NaN for no differences at all; NaNs are left out.
    """
    known = differences[np.isfinite(differences)]
    if not len(known):
        return math.nan
    # What signs can make of the differences depends on their sizes alone; sorted, it depends on no order either.
    sizes = np.sort(np.abs(known))
    sizes = sizes[sizes > 0]
    least = abs(math.fsum(known.tolist())) - _ROUNDING * sizes.sum()
    if len(sizes) <= _EXACT_UNITS:
        every = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float((np.abs((2.0 * every - 1) @ sizes) >= least).mean())
    random = np.random.default_rng(seed)
    reached, batch = 1, max(1, _SIGNS_AT_ONCE // len(sizes))
    for start in range(0, flips, batch):
        shape = (min(batch, flips - start), -(-len(sizes) // 8))
        signs = np.unpackbits(random.integers(0, 256, shape, dtype=np.uint8), axis=1, count=len(sizes))
        reached += int((np.abs(2.0 * (signs @ sizes) - sizes.sum()) >= least).sum())
    return reached / (flips + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: the chance of any false claim in the family stays at the level.

    NaNs, which stand for tests that were not made, stay NaN and don't count in the family.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    made = [index for index, p_value in enumerate(p_values) if not math.isnan(p_value)]
    adjusted, largest = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(sorted(made, key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(made) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def holm_within(p_values: Sequence[float], families: Sequence[str]) -> list[float]:
    """Holm's adjusted p-values, each family of tests (they are named, one name per test) by itself."""
    adjusted = [math.nan] * len(p_values)
    for family in sorted(set(families)):
        places = [place for place, name in enumerate(families) if name == family]
        for place, value in zip(places, holm([p_values[place] for place in places]), strict=True):
            adjusted[place] = value
    return adjusted
