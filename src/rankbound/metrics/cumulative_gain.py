r"""Metrics that are sums over items of gain times discount: nDCG, DCG, P@k, RBP and more.

$$M = \frac{\sum_i g(y_i)\, d(R_i)}{Z}$$

In the mean over ties, an item has the mean discount of its block's ranks: a difference of running totals
$D(r) = d(1) + \dots + d(r)$. The extremes and the mean over all orders are differences of $D$ as well.
"""

import math
from abc import abstractmethod
from functools import cache, lru_cache

import numpy as np

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Array, Floats, Integers, table_size
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import SUMMED_RANKS, Metric, Scaled, exp2, formula_of, has_numbers, one_of, ratio, table_on

# Powers of 2 between the largest gain and the largest number of a dtype: sums of a million gains don't overflow.
ROOM_FOR_SUMS = 20

# Up to this grade, the ideal DCG is computed from the number of items of each grade, without a sort.
MOST_COUNTED_GRADES = 16


class AdditiveMetric(Metric):
    """A metric that is a sum over items; subclasses define the gain, and a discount and a normaliser other than 1."""

    @abstractmethod
    def gains(self, relevance: Tensor) -> Tensor:
        """Return the gain of each item, at least 0, float64 unless the relevance has another floating type."""

    def discount_at(self, position: Tensor) -> Tensor:
        """Return the discount of each rank; `position` may be fractional."""
        return torch.ones_like(position)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the divisor of each list's sum; NaN or 0 where the metric is undefined."""
        return torch.ones(len(lists), dtype=torch.float64, device=lists.device)

    def binary_normaliser(self, p: Array) -> Array:
        """Return the normaliser of lists of `p` items of grade 1; without a formula, the one of these lists."""
        from rankbound.lists import Lists

        lists = Lists.of_sizes(torch.from_numpy(p.copy()))
        return self.normaliser(torch.ones(lists.n_items, dtype=torch.int64, device="cpu"), lists).numpy()

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        self.require_gains_that_fit(relevance, ranks.position.dtype)
        terms = self.gains(relevance).to(ranks.position) * self.discount_at(ranks.position)
        return ratio(lists.sum(terms * ranks.within(getattr(self, "cutoff", None))), self.normaliser(relevance, lists))

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        if relevance.is_cpu and formula_of(self):
            return super().of_blocks(blocks, relevance, lists)
        self.require_gains_that_fit(relevance, torch.float64)
        totals = self._totals(lists)
        ends = blocks.first - 1 + blocks.size
        mean_discount = (totals.index_select(0, ends) - totals.index_select(0, blocks.first - 1)) / blocks.size
        gains = blocks.sum(self.gains(relevance).to(torch.float64))
        return ratio(blocks.lists.sum(gains * mean_discount), self.normaliser(relevance, lists))

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats]:
        totals = _totals_of(self, table_size(int(n.max(initial=0))))
        values = [ratio(total, self.binary_normaliser(p)) for total in (totals[n] - totals[n - p], totals[p])]
        return np.minimum(*values), np.maximum(*values)

    def binary_expectation(self, n: Integers, p: Integers) -> Floats:
        return ratio(_totals_of(self, table_size(int(n.max(initial=0))))[n] * p / n, self.binary_normaliser(p))

    def _totals(self, lists: Lists) -> Tensor:
        return table_on(lists.device, _totals_of, self, table_size(lists.longest))


class GainMetric(AdditiveMetric):
    """A sum over items of the gain of the grade, `exp2` ($2^y - 1$) or `linear` ($y$)."""

    limits = one_of("gain", "exp2", "linear")
    gain: str

    def gains(self, relevance: Tensor) -> Tensor:
        grades = relevance.to(torch.float64)
        if self.gain == "linear":
            return grades
        if not relevance.is_floating_point():
            return torch.exp2(grades) - 1
        # Small gains, which weights make, would lose their digits.
        return torch.where(grades < 1, torch.expm1(grades * math.log(2)), exp2(grades) - 1)

    def weighted(self, relevance: Tensor, weights: Tensor) -> Tensor:
        self.require_gains_that_fit(relevance, torch.float64)
        gains = self.gains(relevance) * weights.to(torch.float64)
        return torch.log1p(gains) / math.log(2) if self.gain == "exp2" else gains

    def binary_normaliser(self, p: Array) -> Array:
        return np.ones(p.shape)

    def require_gains_that_fit(self, relevance: Tensor, dtype: "torch.dtype") -> None:
        if self.gain == "exp2":
            require_gains_that_fit(relevance, dtype, self)
        elif has_numbers(relevance) and float(relevance.max()) > (
            limit := torch.finfo(dtype).max * 2.0**-ROOM_FOR_SUMS
        ):
            raise ValueError(
                f"relevance: found {float(relevance.max()):g}, whose sums are too large for {dtype} scores; expected "
                f"grades up to {limit:.2g} for {self}"
            )


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

    name = "CG"
    span = (0.0, math.inf)
    formula = formulas.DCG
    gain: str = "linear"
    cutoff: int


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

    name = "DCG"
    span = (0.0, math.inf)
    formula = formulas.DCG
    limits = one_of("discount", "log2(r+1)", "log2(r)")
    gain: str = "exp2"
    discount: str = "log2(r+1)"
    cutoff: int | None = None

    def discount_at(self, position: Tensor) -> Tensor:
        return 1 / torch.log2(position + 1 if self.discount == "log2(r+1)" else position.clamp(min=2))


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

    name = "nDCG"
    span = (0.0, 1.0)
    formula = formulas.DCG
    normalised = True

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        if len(relevance) == 0:
            return torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        counted = has_numbers(relevance) and not relevance.is_floating_point()
        highest = int(relevance.max()) if counted else math.inf
        totals = self._totals(lists)
        if highest <= MOST_COUNTED_GRADES:
            width = int(highest) + 1
            counts = torch.bincount(lists.segment * width + relevance, minlength=len(lists) * width).view(-1, width)
            # The numbers of items with a grade above 0, 1, ...; each adds a step of the gains.
            above = counts.flip(1).cumsum(1).flip(1)[:, 1:]
            return (totals[above] * self.gains(torch.arange(width, device=lists.device)).diff()).sum(1)
        from rankbound.ranks import descending_order

        gains = self.gains(relevance)
        return lists.sum(gains[descending_order(gains, lists)] * totals.diff()[lists.position])

    def binary_normaliser(self, p: Array) -> Array:
        return _totals_of(self, table_size(int(p.max(initial=0))))[p]


class ScaledGain(Scaled, AdditiveMetric):
    """A sum of discounted grades over that of a list whose items all have the highest grade of the scale."""

    @abstractmethod
    def of_best(self) -> float:
        """Return the sum of the discounts of the ranks that count."""

    def gains(self, relevance: Tensor) -> Tensor:
        return relevance.to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.full((len(lists),), self.max * _of_best(self), dtype=torch.float64, device=lists.device)

    def binary_normaliser(self, p: Array) -> Array:
        return np.full(p.shape, self.max * _of_best(self))


class ScaledDCG(ScaledGain):
    r"""Scaled DCG at k: linear DCG over that of k items of the highest grade (Moffat and Zobel, TOIS 2008, sec. 2).

    $$\mathrm{SDCG@}k = \frac{\sum_{i: R_i \le k} y_i / \log_2(1 + R_i)}{\mathrm{max} \sum_{r=1}^k 1 / \log_2(1 + r)}$$

    Unlike nDCG, it does not depend on the relevant items of a list that are not found. 0 without relevant items.

    Args:
        max: the highest grade of the scale, whether it occurs or not.
        cutoff: k.

    Raises:
        ValueError: for `max` or `cutoff` below 1, a cut-off above 10,000,000, and when called with a grade above `max`.

    >>> rb.metric("SDCG(max=2)@1")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.5])
    """

    name = "SDCG"
    limits = SUMMED_RANKS
    cutoff: int

    def discount_at(self, position: Tensor) -> Tensor:
        return 1 / torch.log2(position + 1)

    def of_best(self) -> float:
        return float((1 / np.log2(np.arange(2.0, self.cutoff + 2))).sum())


@cache
def _of_best(metric: ScaledGain) -> float:
    return metric.of_best()


@lru_cache(maxsize=64)
def _totals_of(metric: AdditiveMetric, size: int) -> Floats:
    """Return D(0) .. D(size); discounts beyond the cut-off are 0."""
    if formula := formula_of(metric):
        return formula.totals(size)
    ranks = np.arange(1.0, size + 1)
    within = ranks <= (getattr(metric, "cutoff", None) or size)
    return np.concatenate(([0.0], np.cumsum(metric.discount_at(torch.from_numpy(ranks)).numpy() * within)))


def require_gains_that_fit(relevance: Tensor, dtype: "torch.dtype", what: object, power: int = 1) -> None:
    """Raise `ValueError` for grades whose gains $2^y - 1$ to a power, or sums of these, exceed the range of `dtype`."""
    largest = float(relevance.max()) if has_numbers(relevance) else 0.0
    limit = largest_grade(dtype, power)
    if largest > limit:
        raise ValueError(
            f"relevance: found grade {largest:g}, whose gain 2^y - 1 is too large for {dtype} scores; "
            f"expected grades up to {limit} for {what}, or gain=linear"
        )


def largest_grade(dtype: "torch.dtype", power: int = 1) -> int:
    """Return the highest grade of which sums of gains $2^y - 1$ to a power stay within the range of `dtype`."""
    exponent = math.frexp(torch.finfo(dtype).max)[1]
    return max(exponent - ROOM_FOR_SUMS, exponent // 2) // power
