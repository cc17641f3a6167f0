"""Metrics of a run and its qrels, which scores and grades alone do not determine."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric, Unjudged
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True, kw_only=True)
class RunMetric(Metric):
    """A metric of which items a run retrieved and which of them are judged.

    In a list of scores and grades, every item is retrieved and judged: `rankbound.evaluate_run` computes these metrics,
    and all other uses (calls on lists, bounds, losses) raise `ValueError`.
    """

    unjudged: ClassVar[Unjudged] = "marked"

    @abstractmethod
    def of_run(self, blocks: TieBlocks, relevance: Tensor, retrieved: Tensor, lists: Lists) -> Tensor:
        """Return the mean over all orders of the tied items of each list, float64 `(n_lists,)`.

        `relevance` and the mask `retrieved` `(n_items,)` describe the retrieved items and the relevant ones that the
        run lacks, which are below. Unjudged items have negative relevance.
        """

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        raise self.refusal()

    def refusal(self) -> ValueError:
        """Return the error for a use other than the evaluation of a run."""
        return ValueError(
            f"metric {self}: found lists of scores and grades, expected a run and qrels, which say what is retrieved "
            "and what is judged: use rankbound.evaluate_run, or `rankbound evaluate`"
        )
