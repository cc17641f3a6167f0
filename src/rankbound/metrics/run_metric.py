"""Metrics of a run and its qrels, which scores and grades alone do not determine."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics.base import Metric, Unjudged
from rankbound.ranks import Ranks, TieBlocks


@dataclass(frozen=True)
class JudgedIntents:
    """The relevance of items to the intents of their topics.

    `item`, `intent` and `relevance` `(n_rows,)`: the index of an item, the number of an intent of its topic, and how
    relevant the item is to it. `precedence` `(n_items,)` is descending by name: of items with equal gain, an ideal
    order has the first, as in ndeval.
    """

    item: Tensor
    intent: Tensor
    relevance: Tensor
    precedence: Tensor

    def rows(self, kept: Tensor) -> "JudgedIntents":
        """Return the rows where the mask `kept` is true."""
        return JudgedIntents(self.item[kept], self.intent[kept], self.relevance[kept], self.precedence)

    def of(self, items: Tensor) -> "JudgedIntents":
        """Return the rows of the items where the mask `items` is true, numbered without the others."""
        place = items.cumsum(0) - 1
        rows = self.rows(items[self.item])
        return JudgedIntents(place[rows.item], rows.intent, rows.relevance, self.precedence[items])


@dataclass(frozen=True)
class JudgedRun:
    """A run with its judgements: the retrieved items, and below them those of the relevant ones that it lacks.

    `relevance` and the mask `retrieved` `(n_items,)` are those of the items of `lists`, which `blocks` orders. Unjudged
    items have negative relevance. `intents` are there if the judgements have them.
    """

    blocks: TieBlocks
    relevance: Tensor
    retrieved: Tensor
    lists: Lists
    intents: JudgedIntents | None = None


@dataclass(frozen=True, kw_only=True)
class RunMetric(Metric):
    """A metric of which items a run retrieved and which of them are judged.

    In a list of scores and grades, every item is retrieved and judged: `rankbound.evaluate_run` computes these metrics,
    and all other uses (calls on lists, bounds, losses) raise `ValueError`.
    """

    unjudged: ClassVar[Unjudged] = "marked"

    @abstractmethod
    def of_run(self, run: JudgedRun) -> Tensor:
        """Return the mean over all orders of the tied items of each list, float64 `(n_lists,)`."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        raise self.refusal()

    def refusal(self) -> ValueError:
        """Return the error for a use other than the evaluation of a run."""
        return ValueError(
            f"metric {self}: found lists of scores and grades, expected a run and qrels, which say what is retrieved "
            "and what is judged: use rankbound.evaluate_run, or `rankbound evaluate`"
        )
