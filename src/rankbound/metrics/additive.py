r"""Metrics that are sums over items of gain times discount: nDCG, DCG, P@k, RBP and nRBP.

$$M = \frac{\sum_i g(y_i)\, d(R_i)}{Z}$$

A sum is as easy with ties as without: a tied item counts with the mean discount of its block's ranks, a difference of
running totals $D(r) = d(1) + \dots + d(r)$. The extremes and the mean over all orders are differences of $D$ as well.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric
from rankbound.ranks import Ranks, TieBlocks, descending_order

# Least length of a table of running totals, so that batches of short lists share one.
TABLE_SIZE = 256

GAINS = ("exp2", "linear")
DISCOUNTS = ("log2(r+1)", "log2(r)")


@dataclass(frozen=True, kw_only=True)
class AdditiveMetric(Metric):
    """A metric whose items' terms add up. Subclasses say what an item is worth, where, and out of how much."""

    @abstractmethod
    def gains(self, relevance: Tensor) -> Tensor:
        """What each item is worth, from 0, float64 unless the relevance has another floating type."""

    @abstractmethod
    def discount_at(self, position: Tensor) -> Tensor:
        """The weight of each rank; `position` may lie between two ranks."""

    @abstractmethod
    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        """What the sum of each list is divided by; NaN or 0 where the metric is undefined."""

    @abstractmethod
    def binary_normaliser(self, p: Tensor) -> Tensor:
        """The normaliser of lists with `p` relevant items of grade 1."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        terms = self.gains(relevance).to(ranks.position) * self.discount_at(ranks.position)
        if self._cutoff is not None:
            terms = terms * ranks.within(self._cutoff)
        return self._of_sums(lists.sum(terms), relevance, lists)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        totals = self._running_discounts(int(lists.sizes.max()) if len(lists) else 0, lists.device)
        ends = blocks.first - 1 + blocks.size
        mean_discount = (totals.index_select(0, ends) - totals.index_select(0, blocks.first - 1)) / blocks.size
        gains = blocks.sum(self.gains(relevance).to(torch.float64))
        return self._of_sums(blocks.lists.sum(gains * mean_discount), relevance, lists)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        bottom, top = totals.index_select(0, n) - totals.index_select(0, n - p), totals.index_select(0, p)
        values = [self._of_binary_sums(total, p) for total in (bottom, top)]
        return torch.minimum(*values), torch.maximum(*values)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        totals = self._running_discounts(int(n.max()) if len(n) else 0, n.device)
        return self._of_binary_sums(totals.index_select(0, n) * p / n, p)

    @property
    def _cutoff(self) -> int | None:
        return getattr(self, "cutoff", None)

    def _of_sums(self, sums: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return _ratio(sums, self.normaliser(relevance, lists))

    def _of_binary_sums(self, sums: Tensor, p: Tensor) -> Tensor:
        return _ratio(sums, self.binary_normaliser(p.to(torch.float64)))

    def _running_discounts(self, size: int, device: torch.device) -> Tensor:
        """D(0) .. D(size) and perhaps further, with 0 beyond the cut-off."""
        return _running_discounts(self, max(TABLE_SIZE, 1 << (size - 1).bit_length()), device)


@lru_cache(maxsize=64)
def _running_discounts(metric: AdditiveMetric, size: int, device: torch.device) -> Tensor:
    positions = torch.arange(1, size + 1, dtype=torch.float64, device=device)
    discounts = metric.discount_at(positions) * Ranks(positions, positions.new_tensor([size])).within(metric._cutoff)
    return torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])


def _ratio(sums: Tensor, normaliser: Tensor) -> Tensor:
    return sums / torch.where(normaliser == 0, torch.nan, normaliser).to(sums)


def _require_positive_cutoff(name: str, cutoff: int | None) -> None:
    if cutoff is not None and cutoff < 1:
        raise ValueError(f"metric {name}: found cut-off {cutoff}, expected at least 1")


@dataclass(frozen=True, kw_only=True)
class DCG(AdditiveMetric):
    r"""Discounted cumulative gain (thesis sec. 2.3; Murphy eqs. 9.128, 9.129).

    $$\mathrm{DCG@}k = \sum_{i: R_i \le k} \frac{g(y_i)}{d(R_i)}$$

    `gain`: `exp2` is $2^y - 1$, `linear` is $y$. `discount`: `log2(r+1)`, or `log2(r)`, the original
    $\max(1, \log_2 r)$ that leaves the first two ranks alike. `cutoff`: k, none if not given.
    """

    name: ClassVar[str] = "DCG"

    gain: str = "exp2"
    discount: str = "log2(r+1)"
    cutoff: int | None = None

    def __post_init__(self) -> None:
        if self.gain not in GAINS:
            raise ValueError(f"metric {self.name}: found gain={self.gain}, expected one of {', '.join(GAINS)}")
        if self.discount not in DISCOUNTS:
            raise ValueError(
                f"metric {self.name}: found discount={self.discount}, expected one of {', '.join(DISCOUNTS)}"
            )
        _require_positive_cutoff(self.name, self.cutoff)

    def gains(self, relevance: Tensor) -> Tensor:
        grades = relevance if relevance.is_floating_point() else relevance.to(torch.float64)
        return torch.exp2(grades) - 1 if self.gain == "exp2" else grades

    def discount_at(self, position: Tensor) -> Tensor:
        if self.discount == "log2(r)":
            return 1 / torch.log2(position.clamp(min=2))
        return 1 / torch.log2(position + 1)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.ones(len(lists), dtype=torch.float64, device=lists.device)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.ones_like(p)


@dataclass(frozen=True, kw_only=True)
class NDCG(DCG):
    """DCG over the DCG of the ideal order, cut off alike (thesis eqs. 2.2, 2.3, 2.7); NaN without relevant items."""

    name: ClassVar[str] = "nDCG"

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        gains = self.gains(relevance)
        if len(gains) == 0:
            return torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        if bool(((gains == 0) | (gains == 1)).all()):  # binary relevance needs no sort
            return self.binary_normaliser(lists.sum(gains.to(torch.float64)))
        ideal = gains[descending_order(gains, lists)].to(torch.float64)
        discounts = self._running_discounts(int(lists.sizes.max()), lists.device).diff()
        return lists.sum(ideal * discounts[lists.position])

    def binary_normaliser(self, p: Tensor) -> Tensor:
        counts = p.to(torch.int64)
        return self._running_discounts(int(counts.max()) if len(counts) else 0, p.device).index_select(0, counts)


@dataclass(frozen=True, kw_only=True)
class Thresholded(AdditiveMetric):
    """A metric of binary relevance: items of at least grade `rel` are relevant."""

    uses_grades: ClassVar[bool] = False

    rel: int = 1

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel

    def gains(self, relevance: Tensor) -> Tensor:
        return self.relevant(relevance).to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return self.binary_normaliser(lists.sum(self.gains(relevance)))


@dataclass(frozen=True, kw_only=True)
class Precision(Thresholded):
    r"""Precision at k (Murphy eq. 9.126): the share of relevant items among the first k ranks, $k$ even if $N < k$."""

    name: ClassVar[str] = "P"

    cutoff: int

    def __post_init__(self) -> None:
        _require_positive_cutoff(self.name, self.cutoff)

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.full_like(p, float(self.cutoff))


@dataclass(frozen=True, kw_only=True)
class RBP(Thresholded):
    r"""Rank-biased precision (thesis eq. 2.4): $(1 - p) \sum_i y_i\, p^{R_i - 1}$, persistence $0 \le p < 1$."""

    name: ClassVar[str] = "RBP"

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"metric {self.name}: found p={self.p}, expected a persistence in [0, 1)")

    def discount_at(self, position: Tensor) -> Tensor:
        return (1 - self.p) * self.p ** (position - 1)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.ones_like(p)


@dataclass(frozen=True, kw_only=True)
class NormalizedRBP(RBP):
    r"""RBP over the largest RBP that $P$ relevant items allow (thesis eq. 2.5): $\mathrm{RBP} / (1 - p^P)$."""

    name: ClassVar[str] = "nRBP"

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return 1 - self.p**p


@dataclass(frozen=True, kw_only=True)
class RankSum(Thresholded):
    r"""The nRBP loss (thesis eq. 2.12): $\sum_i y_i (R_i - 1) - P(P-1)/2$, from 0 (ideal) to $P(N - P)$.

    Lower is better. With hard ranks it counts the wrongly ordered (relevant, other) pairs: Mann and Whitney's U.
    """

    name: ClassVar[str] = "nRBP"
    higher_is_better: ClassVar[bool] = False

    def discount_at(self, position: Tensor) -> Tensor:
        return position - 1

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return (p > 0).to(p)

    def _of_sums(self, sums: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        p = lists.sum(self.relevant(relevance))
        return super()._of_sums(sums, relevance, lists) - (p * (p - 1) / 2).to(sums)

    def _of_binary_sums(self, sums: Tensor, p: Tensor) -> Tensor:
        return super()._of_binary_sums(sums, p) - p * (p - 1) / 2
