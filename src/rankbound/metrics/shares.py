"""Precision and recall at k and rank-biased precision: sums over the relevant items of a weight per rank."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.kernels import formulas
from rankbound.kernels.formulas import Formula
from rankbound.lists import Lists
from rankbound.metrics.additive import AdditiveMetric
from rankbound.metrics.base import Thresholded, ratio


@dataclass(frozen=True, kw_only=True)
class BinaryAdditiveMetric(Thresholded, AdditiveMetric):
    """An additive metric with gain 1 for relevant items (at least grade `rel`) and 0 for others."""

    def gains(self, relevance: Tensor) -> Tensor:
        return self.relevant(relevance).to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return self.binary_normaliser(lists.sum(self.gains(relevance)))


@dataclass(frozen=True, kw_only=True)
class Precision(BinaryAdditiveMetric):
    r"""Precision at k (Murphy 2012, eq. 9.126): the share of relevant items among the first k ranks.

    $$\mathrm{P@}k = \frac{1}{k} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le k\}\right|$$

    The divisor is $k$ even if $N < k$.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("P@2")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "P"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    cutoff: int

    def formula(self) -> Formula:
        return Formula(kind=formulas.PRECISION, rel=self.rel, cutoff=self.cutoff)

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.full_like(p, float(self.cutoff))


@dataclass(frozen=True, kw_only=True)
class Recall(BinaryAdditiveMetric):
    r"""Recall at k (thesis sec. 3.4): the share of the relevant items in the first k ranks.

    $$\mathrm{Recall@}k = \frac{1}{P} \left|\{i : y_i \ge \mathrm{rel},\ R_i \le k\}\right|$$

    NaN without relevant items. Some authors call `Hit@k` recall.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1.

    >>> rb.metric("Recall@1")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "Recall"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    cutoff: int

    def formula(self) -> Formula:
        return Formula(kind=formulas.RECALL, rel=self.rel, cutoff=self.cutoff)

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return p


@dataclass(frozen=True, kw_only=True)
class RBP(BinaryAdditiveMetric):
    r"""Rank-biased precision (thesis eq. 2.4; Moffat and Zobel, TOIS 2008).

    $$\mathrm{RBP} = (1 - p) \sum_i y_i\, p^{R_i - 1}$$

    Args:
        rel: the lowest relevant grade, from 1; $y_i$ is 1 from there, and 0 below.
        p: the persistence, $0 \le p < 1$.

    Raises:
        ValueError: for `rel` below 1 or a persistence out of range.

    >>> rb.metric("RBP(p=0.5)")([0.9, 0.5, 0.1], [1, 0, 1], [0, 3])
    array([0.625])
    """

    name: ClassVar[str] = "RBP"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.p < 1:
            raise ValueError(f"metric {self.name}: found p={self.p}, expected a persistence in [0, 1)")

    def formula(self) -> Formula:
        return Formula(kind=formulas.RBP, rel=self.rel, persistence=self.p)

    def discount_at(self, position: Tensor) -> Tensor:
        return (1 - self.p) * self.p ** (position - 1)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.ones_like(p)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        best = self._of_first(p)
        worst = torch.exp(torch.xlogy((n - p).to(torch.float64), self.p)) * best
        divisor = self.binary_normaliser(p.to(torch.float64))
        return ratio(worst, divisor), ratio(best, divisor)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        return ratio(self._of_first(n) * p / n, self.binary_normaliser(p.to(torch.float64)))

    def _of_first(self, ranks: Tensor) -> Tensor:
        """Return the sum of the discounts of the first ranks, 1 - p^ranks, without cancellation."""
        return -torch.expm1(torch.xlogy(ranks.to(torch.float64), self.p))


@dataclass(frozen=True, kw_only=True)
class NormalizedRBP(RBP):
    r"""RBP over the largest RBP that $P$ relevant items allow (thesis eq. 2.5).

    $$\mathrm{nRBP} = \frac{\mathrm{RBP}}{1 - p^P}$$

    NaN without relevant items. Without p, `nRBP` is the loss `RankSum`.

    Args:
        rel: the lowest relevant grade, from 1.
        p: the persistence, $0 \le p < 1$.

    Raises:
        ValueError: for `rel` below 1 or a persistence out of range.

    >>> rb.metric("nRBP(p=0.5)")([0.9, 0.5, 0.1], [1, 0, 0], [0, 3])
    array([1.])
    """

    name: ClassVar[str] = "nRBP"

    def formula(self) -> Formula:
        return replace(super().formula(), normalised=True)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return self._of_first(p)
