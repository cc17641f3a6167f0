"""Metrics that count the correctly ordered pairs of a list: pair accuracy and Kendall's statistic."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric, ratio
from rankbound.metrics.grade_pairs import unequal_pairs, wrong_pairs
from rankbound.metrics.linear import PairError
from rankbound.ranks import Ranks, TieBlocks

WEIGHTS = ("uniform", "difference")


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A function of the number of pairs of different grade, and of those in the wrong order (ties count half).

    With smooth ranks, it takes one sum over the items per positive grade that occurs.
    """

    @abstractmethod
    def of_pairs(self, wrong: Tensor, unequal: Tensor, sizes: Tensor) -> Tensor:
        """Return the value of lists of `sizes` items with `wrong` of their `unequal` pairs in the wrong order."""

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        """Return masks of the items below each positive grade but the largest, for which ranks suffice."""
        return tuple(relevance < grade for grade in _positive_grades(relevance)[:-1])

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        grades = _positive_grades(relevance)
        unequal = unequal_pairs(relevance, lists, ranks.sizes)
        if len(grades) == 0:
            return self.of_pairs(torch.zeros_like(unequal).to(ranks.position), unequal, ranks.sizes)
        lower = torch.stack([*ranks.above, ranks.position - 1])
        own = lower.gather(0, torch.searchsorted(grades, relevance.to(grades)).unsqueeze(0)).squeeze(0)
        top = lists.sum((relevance == grades[-1]).to(ranks.position))
        wrong = lists.sum(torch.where(relevance > 0, own, 0.0)) - top * (top - 1) / 2
        return self.of_pairs(wrong, unequal, ranks.sizes)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        unequal = unequal_pairs(relevance, lists, lists.sizes)
        return self.of_pairs(wrong_pairs(blocks, relevance, lists), unequal, lists.sizes)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        unequal = (p * (n - p)).to(torch.float64)
        return self.of_pairs(unequal, unequal, n), self.of_pairs(torch.zeros_like(unequal), unequal, n)

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor:
        unequal = (p * (n - p)).to(torch.float64)
        return self.of_pairs(unequal / 2, unequal, n)


@dataclass(frozen=True, kw_only=True)
class PairAccuracy(PairMetric):
    r"""The share of correctly ordered pairs among those of different grade; a tie counts half.

    $$\frac{\sum_{y_i > y_j} \left(1[s_i > s_j] + \tfrac12\, 1[s_i = s_j]\right)}{|\{(i, j) : y_i > y_j\}|}$$

    For binary relevance this is the area under the ROC curve (Hanley and McNeil, Radiology 1982), $1 - U / (P(N - P))$
    with the Mann-Whitney statistic U, the nRBP loss. NaN without such a pair. The accuracy of Li and Wu (sec. 4.2)
    differs: it counts a tie as wrong.

    >>> rb.metric("PairAccuracy")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.66666667])
    """

    name: ClassVar[str] = "PairAccuracy"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        return unequal_pairs(relevance, lists, lists.sizes) > 0

    def of_pairs(self, wrong: Tensor, unequal: Tensor, sizes: Tensor) -> Tensor:
        return 1 - ratio(wrong, unequal)


@dataclass(frozen=True, kw_only=True)
class Kendall(PairMetric):
    r"""Weighted Kendall statistic against the order by relevance (Murphy 2012, eq. 9.130), in [0, 1], 1 for agreement.

    $$\tau = \frac{\sum_{u<v} w_{uv} [1 + \mathrm{sgn}(s_u - s_v)\, \mathrm{sgn}(y_u - y_v)]}{2 \sum_{u<v} w_{uv}}$$

    A pair that ties in scores or in relevance counts half. NaN where the weights sum to 0: with fewer than two items
    or, for `difference`, only one grade.

    Args:
        weight: with `uniform`, $w_{uv} = 1$, $2\tau - 1$ is Kendall's tau-a, and lists with many equal grades stay near
            1/2; with `difference`, $w_{uv} = |y_u - y_v|$ and $1 - \tau$ is the multipartite error over its largest
            value.

    Raises:
        ValueError: for an unknown weight.

    >>> rb.metric("Kendall(weight=difference)")([0.9, 0.5, 0.1], [1, 2, 0], [0, 3])
    array([0.75])
    """

    name: ClassVar[str] = "Kendall"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    weight: str = "uniform"

    def __post_init__(self) -> None:
        if self.weight not in WEIGHTS:
            raise ValueError(f"metric {self.name}: found weight={self.weight}, expected one of {', '.join(WEIGHTS)}")

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        return unequal_pairs(relevance, lists, lists.sizes) > 0

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return super().rank_weights(relevance) if self.weight == "uniform" else ()

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        if self.weight == "difference":
            return 1 - PairError(norm="max").of_ranks(ranks, relevance, lists)
        return super().of_ranks(ranks, relevance, lists)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        if self.weight == "difference":
            return 1 - PairError(norm="max").of_blocks(blocks, relevance, lists)
        return super().of_blocks(blocks, relevance, lists)

    def of_pairs(self, wrong: Tensor, unequal: Tensor, sizes: Tensor) -> Tensor:
        if self.weight == "difference":  # binary relevance: every difference is 1
            return 1 - ratio(wrong, unequal)
        n = sizes.to(torch.float64)
        return ratio((unequal / 2).to(wrong) - wrong, n * (n - 1) / 2) + 0.5


def _positive_grades(relevance: Tensor) -> Tensor:
    """Return the grades above 0 that occur, ascending, in a dtype that `searchsorted` supports."""
    grades = relevance[relevance > 0]
    levels: Tensor = torch.unique(grades if grades.is_floating_point() else grades.to(torch.int64))
    return levels
