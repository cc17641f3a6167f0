r"""Metrics that are sums over items of gain times discount: nDCG, DCG, P@k, RBP and more.

$$M = \frac{\sum_i g(y_i)\, d(R_i)}{Z}$$

In the mean over ties, an item has the mean discount of its block's ranks: a difference of running totals
$D(r) = d(1) + \dots + d(r)$. The extremes and the mean over all orders are differences of $D$ as well.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.fused import formulas
from rankbound.fused.formulas import Formula, RankedItems, normaliser, table_size
from rankbound.lists import Lists
from rankbound.metrics.base import Metric, exp2, formula_of, ratio, require_cutoff
from rankbound.ranks import Ranks, TieBlocks, descending_order

GAINS = ("exp2", "linear")

DISCOUNTS = ("log2(r+1)", "log2(r)")

# Powers of 2 between the largest gain and the largest number of a dtype: sums of a million gains don't overflow.
ROOM_FOR_SUMS = 20

# Up to this grade, the ideal DCG is computed from the number of items of each grade, without a sort.
MOST_COUNTED_GRADES = 16


@dataclass(frozen=True, kw_only=True)
class AdditiveMetric(Metric):
    """A metric that is a sum over items; subclasses define gain, discount and normaliser."""

    @abstractmethod
    def gains(self, relevance: Tensor) -> Tensor:
        """Return the gain of each item, at least 0, float64 unless the relevance has another floating type."""

    @abstractmethod
    def discount_at(self, position: Tensor) -> Tensor:
        """Return the discount of each rank; `position` may be fractional."""

    @abstractmethod
    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the divisor of each list's sum; NaN or 0 where the metric is undefined."""

    @abstractmethod
    def binary_normaliser(self, p: Tensor) -> Tensor:
        """Return the normaliser of lists with `p` relevant items of grade 1."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        self.require_gains_that_fit(relevance, ranks.position.dtype)
        terms = self.gains(relevance).to(ranks.position) * self.discount_at(ranks.position)
        if self._cutoff is not None:
            terms = terms * ranks.within(self._cutoff)
        return ratio(lists.sum(terms), self.normaliser(relevance, lists))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        self.require_gains_that_fit(relevance, torch.float64)
        totals = self._running_discounts(int(lists.sizes.max()) if len(lists) else 0, lists.device)
        ends = blocks.first - 1 + blocks.size
        mean_discount = (totals.index_select(0, ends) - totals.index_select(0, blocks.first - 1)) / blocks.size
        gains = blocks.sum(self.gains(relevance).to(torch.float64))
        formula = formula_of(self) if relevance.is_cpu else None
        if formula is None:
            divisor = self.normaliser(relevance, lists)
        else:
            # That of evaluation, which does not depend on the other lists.
            items = RankedItems.of(relevance.numpy(), lists.offsets.numpy())
            divisor = torch.from_numpy(normaliser(formula, items))
        return ratio(blocks.lists.sum(gains * mean_discount), divisor)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        bottom, top = totals.index_select(0, n) - totals.index_select(0, n - p), totals.index_select(0, p)
        values = [ratio(total, self.binary_normaliser(p.to(torch.float64))) for total in (bottom, top)]
        return torch.minimum(*values), torch.maximum(*values)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        return ratio(totals.index_select(0, n) * p / n, self.binary_normaliser(p.to(torch.float64)))

    @property
    def _cutoff(self) -> int | None:
        return getattr(self, "cutoff", None)

    def _running_discounts(self, size: int, device: torch.device) -> Tensor:
        """Return D(0) .. D(size), possibly further; discounts beyond the cut-off are 0."""
        return _running_discounts(self, table_size(size), device)


@dataclass(frozen=True, kw_only=True)
class GainMetric(AdditiveMetric):
    """A sum over items of the gain of the grade, `exp2` ($2^y - 1$) or `linear` ($y$)."""

    gain: str

    def __post_init__(self) -> None:
        if self.gain not in GAINS:
            raise ValueError(f"metric {self.name}: found gain={self.gain}, expected one of {', '.join(GAINS)}")
        require_cutoff(self.name, self._cutoff)

    def gains(self, relevance: Tensor) -> Tensor:
        grades = relevance.to(torch.float64)
        if self.gain == "linear":
            return grades
        if not relevance.is_floating_point():
            return torch.exp2(grades) - 1
        gains = exp2(grades) - 1
        # Small gains, which weights make, would lose their digits.
        return torch.where(grades < 1, torch.expm1(grades * math.log(2)), gains)

    def weighted(self, relevance: Tensor, weights: Tensor) -> Tensor:
        self.require_gains_that_fit(relevance, torch.float64)
        gains = self.gains(relevance) * weights.to(torch.float64)
        return torch.log1p(gains) / math.log(2) if self.gain == "exp2" else gains

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.ones(len(lists), dtype=torch.float64, device=lists.device)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.ones_like(p)

    def require_gains_that_fit(self, relevance: Tensor, dtype: torch.dtype) -> None:
        if self.gain == "exp2":
            require_gains_that_fit(relevance, dtype, str(self))
        elif len(relevance) and float(relevance.max()) > (limit := torch.finfo(dtype).max * 2.0**-ROOM_FOR_SUMS):
            raise ValueError(
                f"relevance: found {float(relevance.max()):g}, whose sums are too large for {dtype} scores; expected "
                f"grades up to {limit:.2g} for {self}"
            )


@dataclass(frozen=True, kw_only=True)
class CG(GainMetric):
    r"""Cumulative gain at k (Järvelin and Kekäläinen, TOIS 2002; David's Wiki).

    $$\mathrm{CG@}k = \sum_{i: R_i \le k} g(y_i)$$

    Args:
        gain: `linear` is $y$; `exp2` is $2^y - 1$, for grades up to about 1,000 (100 with smooth ranks in single
            precision).
        cutoff: k, required, since without one all orders have the same value.

    Raises:
        ValueError: for an unknown gain or `cutoff` below 1, and when called with grades whose gains are too large.

    >>> rb.metric("CG@2")([0.9, 0.5, 0.1], [2, 0, 1], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "CG"
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)

    gain: str = "linear"
    cutoff: int

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def formula(self) -> Formula:
        return Formula(kind=formulas.DCG, gain=self.gain, cutoff=self.cutoff)


@dataclass(frozen=True, kw_only=True)
class DCG(GainMetric):
    r"""Discounted cumulative gain (thesis sec. 2.3; Murphy 2012, eqs. 9.128, 9.129).

    $$\mathrm{DCG@}k = \sum_{i: R_i \le k} \frac{g(y_i)}{d(R_i)}$$

    Args:
        gain: `exp2` is $2^y - 1$, for grades up to about 1,000 (100 with smooth ranks in single precision); `linear` is
            $y$.
        discount: `log2(r+1)`, or `log2(r)`, the original $\max(1, \log_2 r)$ (Järvelin and Kekäläinen, TOIS 2002),
            which leaves the second rank undiscounted.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for an unknown gain or discount or `cutoff` below 1, and when called with grades whose gains are too
            large.

    >>> rb.metric("DCG(gain=linear)")([0.9, 0.5, 0.1], [2, 0, 1], [0, 3])
    array([2.5])
    """

    name: ClassVar[str] = "DCG"
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)

    gain: str = "exp2"
    discount: str = "log2(r+1)"
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount not in DISCOUNTS:
            raise ValueError(
                f"metric {self.name}: found discount={self.discount}, expected one of {', '.join(DISCOUNTS)}"
            )

    def discount_at(self, position: Tensor) -> Tensor:
        if self.discount == "log2(r)":
            return 1 / torch.log2(position.clamp(min=2))
        return 1 / torch.log2(position + 1)

    def formula(self) -> Formula:
        return Formula(kind=formulas.DCG, gain=self.gain, discount=self.discount, cutoff=self.cutoff)


@dataclass(frozen=True, kw_only=True)
class NDCG(DCG):
    r"""DCG over the DCG of the ideal order, cut off alike (thesis eqs. 2.2, 2.3, 2.7).

    $$\mathrm{nDCG@}k = \frac{\mathrm{DCG@}k}{\max_\pi \mathrm{DCG@}k(\pi)}$$

    NaN without relevant items.

    Args:
        gain: `exp2` or `linear`, as in `DCG`.
        discount: `log2(r+1)` or `log2(r)`, as in `DCG`.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: as `DCG`.

    >>> rb.metric("nDCG@10")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.63092975])
    """

    name: ClassVar[str] = "nDCG"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        if len(relevance) == 0:
            return torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        highest = math.inf if relevance.is_floating_point() else int(relevance.max())
        if highest <= 1:
            return self.binary_normaliser(lists.sum(relevance))
        if highest <= MOST_COUNTED_GRADES:
            return self._ideal_of_counts(_counts_from(relevance, int(highest), lists), lists)
        gains = self.gains(relevance)
        ideal = gains[descending_order(gains, lists)]
        discounts = self._running_discounts(int(lists.sizes.max()), lists.device).diff()
        return lists.sum(ideal * discounts[lists.position])

    def _ideal_of_counts(self, at_least: Tensor, lists: Lists) -> Tensor:
        """Return the DCG of the ideal order; `at_least[t, g]` items of list t have a grade above g, from 0."""
        totals = self._running_discounts(int(lists.sizes.max()), lists.device)
        steps = self.gains(torch.arange(at_least.shape[1] + 1, device=lists.device)).diff()
        return (totals[at_least] * steps).sum(1)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        counts = p.to(torch.int64)
        return self._running_discounts(int(counts.max()) if len(counts) else 0, p.device).index_select(0, counts)

    def formula(self) -> Formula:
        return replace(super().formula(), normalised=True)


@lru_cache(maxsize=64)
def _running_discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    positions = torch.arange(1, size + 1, dtype=torch.float64, device="cpu")
    formula = formula_of(metric)
    discounts = metric.discount_at(positions) if formula is None else torch.from_numpy(formula.discounts(size).copy())
    discounts = discounts * Ranks(positions, positions.new_tensor([size])).within(metric._cutoff)
    return torch.cat([discounts.new_zeros(1), discounts.cumsum(0)]).to(device)


def require_gains_that_fit(relevance: Tensor, dtype: torch.dtype, what: str, power: int = 1) -> None:
    """Raise `ValueError` for grades whose gains $2^y - 1$ to a power, or sums of these, exceed the range of `dtype`."""
    largest = float(relevance.max()) if len(relevance) else 0.0
    limit = largest_grade(dtype, power)
    if largest > limit:
        raise ValueError(
            f"relevance: found grade {largest:g}, whose gain 2^y - 1 is too large for {dtype} scores; "
            f"expected grades up to {limit} for {what}, or gain=linear"
        )


def largest_grade(dtype: torch.dtype, power: int = 1) -> int:
    """Return the highest grade of which sums of gains $2^y - 1$ to a power stay within the range of `dtype`."""
    exponent = math.frexp(torch.finfo(dtype).max)[1]
    return max(exponent - ROOM_FOR_SUMS, exponent // 2) // power


def _counts_from(grades: Tensor, highest: int, lists: Lists) -> Tensor:
    """Return the number of items of each list with a grade above g = 0 .. highest - 1: `(n_lists, highest)`."""
    width = highest + 1
    counts = torch.bincount(lists.segment * width + grades, minlength=len(lists) * width).view(-1, width)
    return counts.flip(1).cumsum(1).flip(1)[:, 1:]
