"""What a metric is: a value object whose text is its name everywhere, and one function of ranks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, require_finite, require_grades
from rankbound.ranks import Ranks, TieBlocks, hard_ranks, tie_blocks
from rankbound.texts import text_of

# Random orders of each tie block that a metric without a closed form is averaged over.
TIE_BREAKS = 200


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A ranking metric of each list of a batch.

    Subclasses are frozen dataclasses whose fields are the metric's parameters; `of_ranks` alone makes a metric, a
    bounded metric and a loss. Closed forms (`of_blocks`, `binary_extremes`, `binary_expectation`) are optional.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    uses_grades: ClassVar[bool] = True

    @abstractmethod
    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        """The value per list `(n_lists,)`, NaN where undefined; differentiable where the ranks are smooth.

        `ranks`, `relevance` and `lists` describe the same items, at least all relevant ones of every list;
        `ranks.sizes` counts all items of each list.
        """

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        """Weights `(n_items,)` whose sums over the items above each item the metric reads as `ranks.above`."""
        return ()

    def relevant(self, relevance: Tensor) -> Tensor:
        """Which items the metric counts as relevant, a boolean mask."""
        return relevance > 0

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        """The mean over all orders of the tied items; here over `TIE_BREAKS` random ones, from a fixed seed."""
        generator = torch.Generator(device="cpu").manual_seed(0)
        orders = [blocks.order]
        if blocks.has_ties:
            orders = [_break_ties(blocks, generator) for _ in range(TIE_BREAKS)]
        weights = self.rank_weights(relevance)
        values = [self.of_ranks(hard_ranks(order, lists, weights), relevance, lists) for order in orders]
        return torch.stack(values).mean(0)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor] | None:
        """Smallest and largest value over all orders of `n` items of which `p` are relevant, if there is a formula."""
        return None

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor | None:
        """Mean over all orders of `n` items of which `p` are relevant, if there is a formula."""
        return None

    def __call__(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Any:
        """The metric of each list, float64 `(n_lists,)`, NaN where undefined.

        Args:
            scores: `(n_items,)`, finite; higher stands above. Tied items count by their mean over all orders.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Returns:
            A numpy array, or a tensor if `scores` is one.
        """
        value = evaluate([self], scores, relevance, offsets)[str(self)]
        return value if isinstance(scores, Tensor) else value.numpy()

    def __str__(self) -> str:
        return text_of(self)


def evaluate(
    metrics: Iterable[Metric], scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike
) -> dict[str, Tensor]:
    """Several metrics of the same lists from one sort: text of the metric to float64 values `(n_lists,)`."""
    flat = as_tensor(scores, "scores").detach()
    grades = as_tensor(relevance, "relevance", len(flat)).to(flat.device)
    lists = Lists.checked(offsets, len(flat), flat.device)
    require_finite(as_floating(flat))
    require_grades(grades)
    blocks = tie_blocks(flat, lists)
    return {str(metric): metric.of_blocks(blocks, grades, lists) for metric in metrics}


def _break_ties(blocks: TieBlocks, generator: torch.Generator) -> Tensor:
    shuffled = torch.randperm(len(blocks.order), generator=generator).to(blocks.order.device)
    return blocks.order[shuffled[torch.argsort(blocks.block[shuffled], stable=True)]]
