r"""The formulas that compiled kernels know, by number, and their values in NumPy: the reference of evaluation.

The reference and the kernel (`kernels.evaluation`) read the same tables of gains and discounts, and add the
terms of a list in the order of its ranks, one by one. A list has the same value, to the last digit, by either of them,
whatever else is evaluated.

Of tied items, the values are means over their orders. The place $J_k$ of the k-th of $m$ relevant items among $n$ in
random order is negative hypergeometric: $P(J_k = j) = \binom{j-1}{k-1} \binom{n-j}{m-k} / \binom{n}{m}$. Metrics need
sums over j; many sums of different lengths are computed together, a bounded number of terms at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import factorial, log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Kernels of smooth ranks know the first three.
DCG, AP, RANK_SUM, RECIPROCAL_RANK, HIT, PRECISION, RECALL, RBP = range(8)
GAINS = ("exp2", "linear")
DISCOUNTS = ("log2(r+1)", "log2(r)", "constant")
METHODS = ("direct", "interpolated", "auto")
TARGETS = ("linear", "exp2", "one", "softmax")

# Chebyshev polynomials per box, and the distance in boxes beyond which gaps exceed 18 and the sigmoid is 1 to 1.5e-8.
ORDER = 10
BAND = 9

# Nanoseconds of smooth ranks on one core of an AMD EPYC (Zen 4): a pair by summation; an item and an occupied row of
# boxes by interpolation. `python -m benchmarks.costs` fits those of the kernels: on an Intel Xeon (Emerald Rapids) 2.5,
# 36 and 830. There, the choice by these here takes 1.00 times the better method's time (median of its cases), and at
# most 2.0 times. Those of the reference are of batches of many lists.
COSTS = PAIR_COST, ITEM_COST, ROW_COST = 1.8, 20.0, 1_400.0
COSTS_OF_REFERENCE = 50.0, 300.0, 2_000.0

# Pairs of different grades beyond which RankNet's interpolation, by the reference, is faster than its kernel: so many,
# and so many per item. A pair takes the kernel 4 ns, an item the interpolation 500 ns, and a call 1 to 3 ms.
PAIRS_WORTH_INTERPOLATION, PAIRS_OF_ITEM = 200_000, 125

# Shortest table of discounts; longer ones have a power of two as their length, so that batches share them.
TABLE_SIZE = 256

INFINITE_RANK = 1 << 62
"""The rank of a relevant item that a run lacks."""

# Number of terms in memory at once, about 200 bytes each.
TERMS_AT_ONCE = 500_000

# Places whose total probability is below this are omitted.
NEGLIGIBLE = 1e-18

# Harmonic numbers up to this one are in a table.
HARMONIC_SIZE = 32
HARMONIC = np.concatenate(([0.0], np.cumsum(1 / np.arange(1.0, HARMONIC_SIZE + 1))))
# The coefficients of the series of `harmonic_tail`.
SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A metric that kernels know, with the parameters of the metric of this name.

    `rel` is the lowest relevant grade, or 0: all above 0.
    """

    kind: int
    rel: float = 0.0
    gain: str = "linear"
    discount: str = "constant"
    cutoff: int | None = None
    normalised: bool = False
    persistence: float = 0.0

    @property
    def numbers(self) -> tuple[int, float, int, int, int, int]:
        """The formula as a kernel takes it, without the persistence."""
        gain, discount = GAINS.index(self.gain), DISCOUNTS.index(self.discount)
        return self.kind, float(self.rel), gain, discount, self.cutoff or 0, int(self.normalised)

    @property
    def table(self) -> tuple[str, float]:
        """The arguments of the table of its discounts."""
        return ("persistence", self.persistence) if self.kind == RBP else (self.discount, 0.0)

    def totals(self, size: int) -> Floats:
        """Return the sums of the discounts of the first 0 .. `size` ranks within the cut-off, and possibly of more."""
        return _totals(self.table, self.cutoff, table_size(size))


def discounts_of(table: tuple[str, float], size: int) -> Floats:
    """Return the discounts of `Formula.table` for the ranks 1 .. `size`, and possibly for further ones."""
    return _discounts(*table, table_size(size))


def table_size(size: int) -> int:
    """Return the length of a table for so many ranks."""
    return max(TABLE_SIZE, 1 << max(size - 1, 0).bit_length())


@lru_cache(maxsize=64)
def _discounts(discount: str, persistence: float, size: int) -> Floats:
    ranks = np.arange(1.0, size + 1.0)
    if discount == "persistence":
        table = (1.0 - persistence) * persistence ** (ranks - 1.0)
    elif discount == "constant":
        table = np.ones(size)
    else:
        table = 1.0 / np.log2(ranks + 1.0 if discount == "log2(r+1)" else np.maximum(ranks, 2.0))
    table.flags.writeable = False
    return table


@lru_cache(maxsize=64)
def _totals(table: tuple[str, float], cutoff: int | None, size: int) -> Floats:
    discounts = discounts_of(table, size)
    within = np.arange(len(discounts)) < (len(discounts) if cutoff is None else cutoff)
    return np.concatenate(([0.0], np.cumsum(discounts * within)))


def gains_of(grades: Floats, gain: str) -> Floats:
    """Return the gains of grades: $2^y - 1$ (`exp2`), to the last digits of small ones, or $y$ (`linear`)."""
    if gain == "linear":
        return grades
    gains = np.exp2(grades) - 1.0
    small = grades < 1
    if small.any():
        # Small gains, which weights make, would lose their digits.
        gains[small] = np.expm1(grades[small] * log(2.0))
    return gains


@dataclass(frozen=True)
class RankedItems:
    """The relevant items of a batch of lists, all of a positive grade, list by list from the top down.

    `lists`, `ranks` and `grades` `(n_relevant,)` are the index of each item's list, its rank from 1 (or
    `INFINITE_RANK`) and its grade; `longest` is the number of items of the longest list.
    """

    lists: Integers
    ranks: Integers
    grades: Floats
    n_lists: int
    longest: int

    @classmethod
    def of(cls, ranked: Array, offsets: Integers, missing: Mask | None = None) -> "RankedItems":
        """Return the items of positive grade; `ranked` `(n_items,)` are grades by rank, `missing` has no rank."""
        sizes = np.diff(offsets)
        place = np.flatnonzero(ranked > 0)
        lists = np.repeat(np.arange(len(sizes)), sizes)[place]
        ranks = place - offsets[lists] + 1
        if missing is not None:
            ranks[missing[place]] = INFINITE_RANK
        return cls(lists, ranks, ranked[place].astype(np.float64), len(sizes), int(sizes.max(initial=0)))

    def where(self, kept: Mask) -> "RankedItems":
        """Return the items where the mask is true."""
        if kept.all():
            return self
        return RankedItems(self.lists[kept], self.ranks[kept], self.grades[kept], self.n_lists, self.longest)

    def reached(self, cutoff: int | None) -> Mask:
        """Return a mask of the items with a rank up to the cut-off."""
        return self.ranks <= (self.longest if cutoff is None else min(cutoff, self.longest))

    def sum(self, terms: Floats) -> Floats:
        """Return the sum of the items' terms of each list, added one by one from the top down."""
        # Unlike `np.add.reduceat`, which adds terms in pairs.
        # Without items, NumPy returns integers.
        return np.bincount(self.lists, weights=terms, minlength=self.n_lists).astype(np.float64, copy=False)

    @cached_property
    def counts(self) -> Integers:
        """The number of items of each list."""
        return np.bincount(self.lists, minlength=self.n_lists)

    @cached_property
    def first(self) -> Integers:
        """The index of each list's first item."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def places(self) -> Integers:
        """The place of each item among those of its list, from 1."""
        return np.arange(1, len(self.lists) + 1) - self.first[self.lists]

    @cached_property
    def ideal(self) -> "RankedItems":
        """The items in descending order of grade, on the first ranks."""
        highest = float(self.grades.max(initial=0.0))
        if self.n_lists * (highest + 1.0) < 2.0**53 and (self.grades == np.floor(self.grades)).all():
            # A number per item, list first: its sort is much faster than one by two keys.
            top = np.int64(highest)
            keys = np.sort(self.lists * (top + 1) + (top - self.grades.astype(np.int64)))
            grades = (top - keys % (top + 1)).astype(np.float64)
        else:
            grades = self.grades[np.lexsort((-self.grades, self.lists))]
        return RankedItems(self.lists, self.places, grades, self.n_lists, self.longest)


def normaliser(formula: Formula, items: RankedItems) -> Floats:
    """Return the divisor of the sum of gains times discounts of each list; 0 where the metric is undefined."""
    if formula.kind == PRECISION:
        return np.full(items.n_lists, float(formula.cutoff or 0))
    if not formula.normalised and formula.kind != RECALL:
        return np.ones(items.n_lists)
    relevant = items.where(items.grades >= formula.rel)
    if formula.kind == DCG:
        return _discounted_sum(formula, relevant.ideal.where(relevant.ideal.reached(formula.cutoff)))
    if formula.kind == RBP:
        return formula.totals(items.longest)[relevant.counts]
    return relevant.counts.astype(np.float64)


def _value(formula: Formula, relevant: RankedItems) -> Floats:
    within = relevant.reached(formula.cutoff)
    reached, counts = relevant.where(within), relevant.counts.astype(np.float64)
    if formula.kind == HIT:
        return np.minimum(reached.counts, 1).astype(np.float64)
    if formula.kind == RANK_SUM:
        total = relevant.sum(relevant.ranks.astype(np.float64))
        return np.where(counts > 0, total - counts * (counts + 1.0) / 2.0, np.nan)
    if formula.kind == RECIPROCAL_RANK:
        best = np.where(counts > 0, 0.0, np.nan)
        some = reached.counts > 0
        best[some] = 1.0 / reached.ranks[reached.first[some]]
        return best
    if formula.kind == AP:
        total, divisor = reached.sum(relevant.places[within] / reached.ranks), counts
    else:
        total, divisor = _discounted_sum(formula, reached), normaliser(formula, relevant)
    return quotient(total, divisor)


def quotient(total: Array, divisor: Array) -> Floats:
    """Return sums over their divisors; NaN where these are 0 or NaN."""
    return np.asarray(np.divide(total, divisor, out=np.full(total.shape, np.nan), where=divisor != 0))


def _discounted_sum(formula: Formula, items: RankedItems) -> Floats:
    gains = gains_of(items.grades, formula.gain) if formula.kind == DCG else np.ones(len(items.grades))
    return items.sum(gains * discounts_of(formula.table, items.longest)[items.ranks - 1])


def values_of_ranking(
    formulas: Sequence[Formula], ranked: Array, starts: Mask, offsets: Integers, missing: Mask | None = None
) -> list[Floats]:
    """Return the values of each formula `(n_lists,)`, NaN where undefined: means over the orders of tied items.

    Args:
        ranked: `(n_items,)`, the grades of each list by descending score.
        starts: `(n_items,)`, true where the score differs from the one above, or a list begins.
        missing: `(n_items,)`, true where an item has no rank.
    """
    items = RankedItems.of(ranked, offsets, missing)
    relevant = {rel: items.where(items.grades >= rel) for rel in {formula.rel for formula in formulas}}
    values = [_value(formula, relevant[formula.rel]) for formula in formulas]
    shared = ~starts
    shared[:-1] |= ~starts[1:]
    lists = np.searchsorted(offsets, np.flatnonzero(shared & (ranked > 0)), side="right") - 1
    if len(lists) == 0:
        return values
    tied = np.zeros(len(offsets) - 1, dtype=np.bool_)
    tied[lists] = True
    blocks = _Blocks(ranked, starts, offsets, tied, missing)
    return [np.where(tied, blocks.value(one), value) for one, value in zip(formulas, values, strict=True)]


class _Blocks:
    """The blocks of equal scores in which some lists have items of positive grade, list by list from the top down.

    `lists`, `above` and `size` `(n_blocks,)` are each block's list, the items above it and those in it; `block`
    `(n_relevant,)` is the block of each of the relevant `items`, whose ranks are those of a block's first item. The
    mask `chosen` `(n_lists,)` is true for these lists.
    """

    def __init__(self, ranked: Array, starts: Mask, offsets: Integers, chosen: Mask, missing: Mask | None) -> None:
        place = np.flatnonzero(ranked > 0)
        lists = np.searchsorted(offsets, place, side="right") - 1
        place, lists = place[chosen[lists]], lists[chosen[lists]]
        begins = np.append(np.flatnonzero(starts), len(starts))
        block = np.searchsorted(begins, place, side="right") - 1
        grades = ranked[place].astype(np.float64)
        # A block's items by grade, so that no sum depends on their order in the data.
        by_grade = np.lexsort((-grades, block))
        lists, block, grades = lists[by_grade], block[by_grade], grades[by_grade]
        used, self.block = np.unique(block, return_inverse=True)
        begin, sizes = begins[used], np.diff(offsets)
        self.size = begins[used + 1] - begin
        self.has_rank = np.ones(len(used), dtype=np.bool_) if missing is None else ~missing[begin]
        ranks = begin[self.block] - offsets[lists] + 1
        self.items = RankedItems(lists, ranks, grades, len(sizes), int(sizes.max(initial=0)))
        first = np.flatnonzero(np.diff(self.block, prepend=-1))
        self.lists, self.above = lists[first], ranks[first] - 1

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
    places = reached(above, size, cutoff)
    fewer, more = np.minimum(relevant, places), np.maximum(relevant, places)

    # That of none, which is symmetric in m and c, is the product of 1 - m / (n - i) over i < c.
    def terms(case: Integers, i: Integers) -> Floats:
        # If m + c > n, one factor is 0, and the factors after it, which would be negative, are clamped.
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p((-more[case] / (size[case] - i)).clip(-1)))

    return -np.expm1(ragged_sums(fewer, terms))


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
    # There are more than j - k others above if fewer than k of the first j items are relevant. Their mean number is
    # M = j m / n, so by Chernoff's bound the probability, below exp(-(M - k)^2 / (2 M)), is negligible from some j on.
    surprise, others = -log(NEGLIGIBLE), size - relevant
    mean = which + surprise + np.sqrt(surprise * (surprise + 2 * which))
    lengths = np.minimum(others, np.ceil(mean * size / relevant).astype(np.int64) - which) + 1
    if cutoff is not None:
        lengths = np.minimum(lengths, cutoff - above - which + 1).clip(0)
    log_orders = log_binomial(size, relevant)

    def terms(case: Integers, others_above: Integers) -> Floats:
        k, m, rest = which[case], relevant[case], others[case] - others_above
        log_ways = log_binomial(k - 1 + others_above, k - 1) + log_binomial(m - k + rest, m - k)
        rank = (above[case] + k + others_above).astype(np.float64)
        return np.asarray(np.exp(log_ways - log_orders[case]) * discount(rank))

    return ragged_sums(lengths, terms)


def log_binomial(n: Integers, k: Integers) -> Floats:
    """Return the logarithm of the binomial coefficient n over k, for integers 0 <= k <= n."""
    table = log_factorials(table_size(int(n.max(initial=0)) + 1))
    return np.asarray(table[n] - table[k] - table[n - k])


def ragged_sums(lengths: Integers, terms: Callable[[Integers, Integers], Floats]) -> Floats:
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


def harmonic_tail(half: Any) -> Any:
    """Return the series c of `harmonic_difference` in 1/half^2, half = x + 1/2; of an array, or of a tensor."""
    inverse, total = 1 / half**2, 0.0 * half
    for coefficient in reversed(SERIES):
        total = (total + coefficient) * inverse
    return total


@lru_cache(maxsize=8)
def log_factorials(size: int) -> Floats:
    """Return the logarithms of 0!, 1!, ..., (size - 1)!."""
    exact = [log(factorial(n)) for n in range(TABLE_SIZE)]
    n = np.arange(TABLE_SIZE, size, dtype=np.float64)
    # Stirling's series; the next term is below 1e-16 here.
    series = n * np.log(n) - n + np.log(2 * pi * n) / 2 + 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    return np.concatenate((exact, series))
