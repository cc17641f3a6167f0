"""The formulas that compiled kernels know, by number, and their values in NumPy: the reference of evaluation.

The reference and the kernel (`kernels.evaluation`) read the same tables of gains and discounts, and add the
terms of a list in the order of its ranks, one by one. A list has the same value, to the last digit, by either of them,
whatever else is evaluated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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

    def discounts(self, size: int) -> Floats:
        """Return the discounts of the ranks 1 .. `size`, and possibly of further ones; the cut-off is left out."""
        return discounts_of(self.table, size)

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
    def of(
        cls, ranked: npt.NDArray[Any], offsets: Integers, missing: npt.NDArray[np.bool_] | None = None
    ) -> "RankedItems":
        """Return the items of positive grade; `ranked` `(n_items,)` are grades by rank, `missing` has no rank."""
        sizes = np.diff(offsets)
        place = np.flatnonzero(ranked > 0)
        lists = np.repeat(np.arange(len(sizes)), sizes)[place]
        ranks = place - offsets[lists] + 1
        if missing is not None:
            ranks[missing[place]] = INFINITE_RANK
        return cls(lists, ranks, ranked[place].astype(np.float64), len(sizes), int(sizes.max(initial=0)))

    def where(self, kept: npt.NDArray[np.bool_]) -> "RankedItems":
        """Return the items where the mask is true."""
        if kept.all():
            return self
        return RankedItems(self.lists[kept], self.ranks[kept], self.grades[kept], self.n_lists, self.longest)

    def reached(self, cutoff: int | None) -> npt.NDArray[np.bool_]:
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


def values_of(formulas: Sequence[Formula], items: RankedItems) -> list[Floats]:
    """Return the values of each formula `(n_lists,)`, NaN where undefined."""
    relevant = {rel: items.where(items.grades >= rel) for rel in {formula.rel for formula in formulas}}
    return [_value(formula, relevant[formula.rel]) for formula in formulas]


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
        return np.where(
            counts > 0, relevant.sum(relevant.ranks.astype(np.float64)) - counts * (counts + 1.0) / 2.0, np.nan
        )
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


def quotient(total: Floats, divisor: Floats) -> Floats:
    """Return sums over their divisors; NaN where these are 0."""
    value = np.full(len(total), np.nan)
    np.divide(total, divisor, out=value, where=divisor != 0)
    return value


def _discounted_sum(formula: Formula, items: RankedItems) -> Floats:
    gains = gains_of(items.grades, formula.gain) if formula.kind == DCG else np.ones(len(items.grades))
    return items.sum(gains * formula.discounts(items.longest)[items.ranks - 1])
