r"""Means over the orders of tied items, in NumPy: the reference of evaluation, as `kernels.formulas` is without ties.

The place $J_k$ of the k-th of $m$ relevant items among $n$ in random order is negative hypergeometric:
$P(J_k = j) = \binom{j-1}{k-1} \binom{n-j}{m-k} / \binom{n}{m}$. Metrics need sums over j; many sums of different
lengths are computed together, a bounded number of terms at a time.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import factorial, log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.kernels.formulas import (
    AP,
    DCG,
    HIT,
    RANK_SUM,
    RECIPROCAL_RANK,
    TABLE_SIZE,
    Floats,
    Formula,
    Integers,
    RankedItems,
    gains_of,
    normaliser,
    quotient,
    table_size,
    values_of,
)

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Terms = Callable[[Integers, Integers], Floats]

# Number of terms in memory at once, about 200 bytes each.
TERMS_AT_ONCE = 500_000

# Places whose total probability is below this are omitted.
NEGLIGIBLE = 1e-18

# Harmonic numbers up to this one are in a table.
HARMONIC_SIZE = 32
HARMONIC = np.concatenate(([0.0], np.cumsum(1 / np.arange(1.0, HARMONIC_SIZE + 1))))
# The coefficients of the series of `harmonic_tail`.
SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


def values_of_ranking(
    formulas: Sequence[Formula], ranked: Array, starts: Mask, offsets: Integers, missing: Mask | None = None
) -> list[Floats]:
    """Return the values of each formula `(n_lists,)`, NaN where undefined: means over the orders of tied items.

    Args:
        ranked: `(n_items,)`, the grades of each list by descending score.
        starts: `(n_items,)`, true where the score differs from the one above, or a list begins.
        missing: `(n_items,)`, true where an item has no rank.
    """
    values = values_of(formulas, RankedItems.of(ranked, offsets, missing))
    shared = ~starts
    shared[:-1] |= ~starts[1:]
    lists = np.searchsorted(offsets, np.flatnonzero(shared & (ranked > 0)), side="right") - 1
    if len(lists) == 0:
        return values
    tied = np.zeros(len(offsets) - 1, dtype=np.bool_)
    tied[lists] = True
    blocks = _Blocks.of(ranked, starts, offsets, tied, missing)
    return [np.where(tied, blocks.value(one), value) for one, value in zip(formulas, values, strict=True)]


class _Blocks:
    """The blocks of equal scores in which some lists have items of positive grade, list by list from the top down.

    `lists`, `above` and `size` `(n_blocks,)` are each block's list, the items above it and those in it; `block`
    `(n_relevant,)` is the block of each of the relevant `items`, whose ranks are those of a block's first item.
    """

    def __init__(self, items: RankedItems, block: Integers, size: Integers, has_rank: Mask) -> None:
        first = np.flatnonzero(np.diff(block, prepend=-1))
        self.items, self.block, self.size, self.has_rank = items, block, size, has_rank
        self.lists, self.above = items.lists[first], items.ranks[first] - 1

    @classmethod
    def of(cls, ranked: Array, starts: Mask, offsets: Integers, chosen: Mask, missing: Mask | None) -> "_Blocks":
        """Return the blocks of the chosen lists."""
        place = np.flatnonzero(ranked > 0)
        lists = np.searchsorted(offsets, place, side="right") - 1
        place, lists = place[chosen[lists]], lists[chosen[lists]]
        begins = np.append(np.flatnonzero(starts), len(starts))
        block = np.searchsorted(begins, place, side="right") - 1
        grades = ranked[place].astype(np.float64)
        # A block's items by grade, so that no sum depends on their order in the data.
        by_grade = np.lexsort((-grades, block))
        lists, block, grades = lists[by_grade], block[by_grade], grades[by_grade]
        used, of_items = np.unique(block, return_inverse=True)
        first = begins[used]
        has_rank = np.ones(len(used), dtype=np.bool_) if missing is None else ~missing[first]
        sizes = np.diff(offsets)
        ranks = first[of_items] - offsets[lists] + 1
        items = RankedItems(lists, ranks, grades, len(sizes), int(sizes.max(initial=0)))
        return cls(items, of_items, (begins[used + 1] - first), has_rank)

    def value(self, formula: Formula) -> Floats:
        """Return the formula's mean over the orders of the blocks for each list; NaN for other lists."""
        counted = self.items.grades >= formula.rel
        inside = np.bincount(self.block[counted], minlength=len(self.size))
        p = self._sum(inside)
        if formula.kind in (HIT, RECIPROCAL_RANK):
            value = np.where(p > 0, 0.0, 0.0 if formula.kind == HIT else np.nan)
            some = np.flatnonzero(inside > 0)
            some = some[np.diff(self.lists[some], prepend=-1) > 0]
            some = some[self.has_rank[some]]
            mean = chance_of_hit if formula.kind == HIT else mean_reciprocal_rank
            value[self.lists[some]] = mean(self.size[some], inside[some], self.above[some], formula.cutoff)
            return value
        if formula.kind == RANK_SUM:
            total = self._sum(inside * (self.above + (self.size + 1.0) / 2.0))
            return np.where(p > 0, total - p * (p + 1.0) / 2.0, np.nan)
        if formula.kind == AP:
            before = np.cumsum(inside) - inside
            before -= before[np.searchsorted(self.lists, self.lists)]
            terms, divisor = precision_terms(self.above, self.size, inside, before, formula.cutoff), p
        else:
            totals = formula.totals(self.items.longest)
            gains = gains_of(self.items.grades, formula.gain) if formula.kind == DCG else counted.astype(np.float64)
            above = np.where(self.has_rank, self.above, 0)
            held = np.bincount(self.block, weights=gains * counted, minlength=len(self.size))
            terms = held * ((totals[above + self.size] - totals[above]) / self.size)
            divisor = normaliser(formula, self.items)
        return quotient(self._sum(np.where(self.has_rank, terms, 0.0)), divisor)

    def _sum(self, terms: Array) -> Floats:
        """Return the sum of the blocks' terms of each list, added from the top down."""
        return np.bincount(self.lists, weights=terms, minlength=self.items.n_lists).astype(np.float64, copy=False)


def mean_reciprocal_rank(size: Integers, relevant: Integers, above: Integers, cutoff: int | None) -> Floats:
    """Return the mean of 1/rank, 0 beyond the cut-off, of the first relevant item in blocks below `above` items."""
    return mean_discount(size, relevant, np.ones_like(relevant), above, cutoff)


def chance_of_hit(size: Integers, relevant: Integers, above: Integers, cutoff: int | None) -> Floats:
    """Return the probability of a relevant item within the cut-off, in blocks below `above` items."""
    return -np.expm1(log_chance_of_none(size, relevant, reached(above, size, cutoff)))


def reached(above: Integers, size: Integers, cutoff: int | None) -> Integers:
    """Return how many of the `size` ranks after rank `above` are within the cut-off."""
    return size if cutoff is None else np.minimum(size, (cutoff - above).clip(0))


def precision_terms(above: Integers, size: Integers, inside: Array, before: Array, cutoff: int | None) -> Floats:
    """Return the means of the sums of precisions at the `inside` relevant items of blocks, `before` of them above."""
    counted = reached(above, size, cutoff)
    reciprocals = harmonic_difference(above, counted)
    others = (inside - 1) / (size - 1).clip(1)
    return np.asarray(inside / size * ((before + 1) * reciprocals + others * (counted - (above + 1) * reciprocals)))


def mean_discount(
    size: Integers,
    relevant: Integers,
    which: Integers,
    above: Integers,
    cutoff: int | None,
    discount: Callable[[Floats], Floats] = lambda rank: 1 / rank,
) -> Floats:
    """Return the mean of `discount(above + J)`, by default 1/(above + J), with terms beyond the cut-off 0.

    J is the place of the `which`-th of `relevant` items among `size`. All arguments are integers of shape `(n_cases,)`
    with 1 <= which <= relevant <= size.
    """
    others = size - relevant
    lengths = np.minimum(others, _likely_others(size, relevant, which)) + 1
    if cutoff is not None:
        lengths = np.minimum(lengths, cutoff - above - which + 1).clip(0)
    log_orders = log_binomial(size, relevant)

    def terms(case: Integers, others_above: Integers) -> Floats:
        k, m, rest = which[case], relevant[case], others[case] - others_above
        log_ways = log_binomial(k - 1 + others_above, k - 1) + log_binomial(m - k + rest, m - k)
        rank = (above[case] + k + others_above).astype(np.float64)
        return np.asarray(np.exp(log_ways - log_orders[case]) * discount(rank))

    return ragged_sums(lengths, terms)


def log_chance_of_none(size: Integers, relevant: Integers, places: Integers) -> Floats:
    r"""Return the log-probability that none of `relevant` items among `size` is in the first `places`, `(n_cases,)`.

    $\binom{n-m}{c} / \binom{n}{c} = \prod_{i<c} (1 - \frac{m}{n-i})$, symmetric in m and c.
    """
    fewer, more = np.minimum(relevant, places), np.maximum(relevant, places)

    def terms(case: Integers, i: Integers) -> Floats:
        # If m + c > n, one factor is 0, and the factors after it, which would be negative, are clamped.
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p((-more[case] / (size[case] - i)).clip(-1)))

    return ragged_sums(fewer, terms)


def log_binomial(n: Integers, k: Integers) -> Floats:
    """Return the logarithm of the binomial coefficient n over k, for integers 0 <= k <= n."""
    table = log_factorials(table_size(int(n.max(initial=0)) + 1))
    return np.asarray(table[n] - table[k] - table[n - k])


def ragged_sums(lengths: Integers, terms: Terms) -> Floats:
    """Return the sum over place = 0 .. lengths[case] - 1 of `terms(case, place)`, `(n_cases,)`.

    `terms` takes the indices of cases and places, both `(n_terms,)`, and returns the terms.
    """
    sums = np.zeros(len(lengths))
    chunks = np.cumsum(lengths) // TERMS_AT_ONCE
    for cases in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(chunks)) + 1):
        case, place = cases_of(lengths[cases])
        sums[cases] = np.bincount(case, weights=terms(cases[case], place), minlength=len(cases))
    return sums


def cases_of(lengths: Integers) -> tuple[Integers, Integers]:
    """Return the case of each of so many terms, and its place among those of the case, from 0."""
    case = np.repeat(np.arange(len(lengths)), lengths)
    return case, np.arange(len(case)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def harmonic_difference(start: Integers, count: Integers) -> Floats:
    r"""Return the sum of 1/(start + j) over j = 1 .. count, for integers from 0, without cancellation.

    $H_b - H_a = \ln\frac{b + 1/2}{a + 1/2} + c(b) - c(a)$ with $c$ a series in $(x + 1/2)^{-2}$ that is exact in double
    precision for $x \ge 32$; smaller numbers come from a table.
    """
    low = HARMONIC[np.minimum(start + count, HARMONIC_SIZE)] - HARMONIC[np.minimum(start, HARMONIC_SIZE)]
    large: Floats = np.maximum(start, HARMONIC_SIZE) + 0.5
    beyond: Floats = np.maximum(start + count, HARMONIC_SIZE) + 0.5
    return np.asarray(low + np.log1p((beyond - large) / large) + harmonic_tail(beyond) - harmonic_tail(large))


def harmonic_tail(half: Floats) -> Floats:
    """Return the series c of `harmonic_difference` in 1/half^2, half = x + 1/2."""
    inverse, total = 1 / half**2, np.zeros_like(half)
    for coefficient in reversed(SERIES):
        total = (total + coefficient) * inverse
    return total


def _likely_others(size: Integers, relevant: Integers, which: Integers) -> Integers:
    """Return an upper limit of the other items above the `which`-th relevant one, up to a negligible probability.

    There are more than j - k if fewer than k of the first j items are relevant. Their mean number is M = j m / n, so by
    Chernoff's bound the probability is below exp(-(M - k)^2 / (2 M)).
    """
    surprise = -log(NEGLIGIBLE)
    mean = which + surprise + np.sqrt(surprise * (surprise + 2 * which))
    return np.asarray(np.ceil(mean * size / relevant).astype(np.int64) - which)


@lru_cache(maxsize=8)
def log_factorials(size: int) -> Floats:
    """Return the logarithms of 0!, 1!, ..., (size - 1)!."""
    exact = [log(factorial(n)) for n in range(TABLE_SIZE)]
    n = np.arange(TABLE_SIZE, size, dtype=np.float64)
    # Stirling's series; the next term is below 1e-16 here.
    series = n * np.log(n) - n + np.log(2 * pi * n) / 2 + 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    return np.concatenate((exact, series))
