"""Precision and recall at k and rank-biased precision: sums over the relevant items of a weight per rank."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.additive import AdditiveMetric
from rankbound.metrics.base import Thresholded


@dataclass(frozen=True, kw_only=True)
class BinaryAdditiveMetric(Thresholded, AdditiveMetric):
    """An additive metric with gain 1 for relevant items (at least grade `rel`) and 0 for others."""

    def gains(self, relevance: Tensor) -> Tensor:
        return self.relevant(relevance).to(torch.float64)

    def normaliser(self, relevance: Tensor, lists: Lists) -> Tensor:
        return self.binary_normaliser(lists.sum(self.gains(relevance)))


@dataclass(frozen=True, kw_only=True)
class Precision(BinaryAdditiveMetric):
    r"""Precision at k (Murphy eq. 9.126): the relevant items among the first k ranks over $k$, even if $N < k$."""

    name: ClassVar[str] = "P"

    cutoff: int

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return torch.full_like(p, float(self.cutoff))


@dataclass(frozen=True, kw_only=True)
class Recall(BinaryAdditiveMetric):
    """Recall at k (thesis sec. 3.4): the share of the relevant items in the first k ranks.

    NaN without relevant items. Some authors call `Hit@k` recall.
    """

    name: ClassVar[str] = "Recall"

    cutoff: int

    def discount_at(self, position: Tensor) -> Tensor:
        return torch.ones_like(position)

    def binary_normaliser(self, p: Tensor) -> Tensor:
        return p


@dataclass(frozen=True, kw_only=True)
class RBP(BinaryAdditiveMetric):
    r"""Rank-biased precision (thesis eq. 2.4): $(1 - p) \sum_i y_i\, p^{R_i - 1}$, persistence $0 \le p < 1$."""

    name: ClassVar[str] = "RBP"

    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
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
