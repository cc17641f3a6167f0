"""Interpolated precision at a level of recall."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Thresholded
from rankbound.ranks import Ranks

# Relative error of a product such as 0.1 * 30 = 3.0000000000000004, which must need 3 relevant items, not 4.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class InterpolatedPrecision(Thresholded):
    r"""Interpolated precision at recall r (Manning, Raghavan and Schütze 2008, eq. 8.7).

    It is the largest precision at any rank whose recall is at least `recall`. With $A_i$ the rank of item i among the P
    relevant items,

    $$\mathrm{IPrec}(r) = \max \left\{ \frac{A_i}{R_i} : y_i \ge \mathrm{rel},\ A_i \ge \lceil r P \rceil \right\}$$

    NaN without relevant items. The mean over the orders of tied items is exact for up to 200 distinct orders of grades
    in a list, otherwise the mean over 200 random ones. With smooth ranks, a term counts by
    $\sigma((A_i + \frac12 - \lceil r P \rceil)/\tau)$.

    trec_eval requires $\lfloor r P + 0.9 \rfloor$ items, one fewer where $r P$ exceeds a whole number by less than 0.1,
    or by 0.1 if that rounds down: at recall 0.7, it requires two of three relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        recall: r, from 0 to 1.

    Raises:
        ValueError: for `rel` below 1 or a recall out of range.

    >>> rb.metric("IPrec(recall=0.5)")([0.9, 0.5, 0.1], [0, 1, 1], [0, 3])
    array([0.66666667])
    """

    name: ClassVar[str] = "IPrec"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    recall: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.recall <= 1:
            raise ValueError(f"metric {self.name}: found recall={self.recall}, expected a recall from 0 to 1")

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (self.relevant(relevance),)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        relevant = self.relevant(relevance)
        needed = torch.ceil(self.recall * (1 - ROUNDING) * lists.sum(relevant.to(torch.float64)))
        found = 1 + ranks.above[0]
        # Membership of the ranks from `needed` down, by that of the ranks up to `needed` turned around.
        reached = Ranks(-found, ranks.sizes, temperature=ranks.temperature).within(-lists.spread(needed).to(found))
        largest = lists.max(torch.where(relevant, reached * found / ranks.position, -1.0))
        return torch.where(largest >= 0, largest, torch.nan)
