"""Metrics of a run and its qrels, which scores and grades alone do not determine: retrieved sets and judged shares."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Metric, Thresholded, Unjudged, ratio, require_cutoff

# The squares of smaller numbers are finite.
LARGEST_BETA = 1e150


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


@dataclass(frozen=True, kw_only=True)
class SetMetric(Thresholded, RunMetric):
    """A metric of the numbers of retrieved items, relevant items and those that are both."""

    def of_run(self, run: JudgedRun) -> Tensor:
        relevant, count = self.relevant(run.relevance), run.lists.sum
        return self.of_counts(count(relevant & run.retrieved), count(run.retrieved), count(relevant))

    @abstractmethod
    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        """Return the value of runs with `found` of `relevant` items among `retrieved`; float64 `(n_lists,)`."""


@dataclass(frozen=True, kw_only=True)
class SetPrecision(SetMetric):
    """Precision of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.1).

    The relevant retrieved items over the retrieved ones; 0 if nothing is retrieved.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "SetP").means()
    {'SetP': 0.5}
    """

    name: ClassVar[str] = "SetP"

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        return found / retrieved.clamp(min=1)


@dataclass(frozen=True, kw_only=True)
class SetRecall(SetMetric):
    """Recall of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.2).

    The relevant retrieved items over the relevant ones; NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "SetR").means()
    {'SetR': 1.0}
    """

    name: ClassVar[str] = "SetR"

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        return ratio(found, relevant)


@dataclass(frozen=True, kw_only=True)
class SetF(SetMetric):
    r"""F-measure of the retrieved set (Manning, Raghavan and Schütze 2008, eq. 8.5), from SetP and SetR.

    $$F_\beta = \frac{(1 + \beta^2)\, \mathrm{SetP}\, \mathrm{SetR}}{\beta^2\, \mathrm{SetP} + \mathrm{SetR}}$$

    0 if no relevant item is retrieved; NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        beta: $\beta > 0$; values above 1 emphasise recall. The parameter of trec_eval and of ir_measures is $\beta^2$.

    Raises:
        ValueError: for `rel` below 1 or `beta` out of range, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0, "c": 0.5}}, {"q": {"b": 1}}, "SetF").means()
    {'SetF': 0.5}
    """

    name: ClassVar[str] = "SetF"

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta < LARGEST_BETA:
            raise ValueError(
                f"metric {self.name}: found beta={self.beta}, expected a finite number above 0, below {LARGEST_BETA:g}"
            )

    def of_counts(self, found: Tensor, retrieved: Tensor, relevant: Tensor) -> Tensor:
        weight = self.beta**2
        return torch.where(relevant == 0, torch.nan, (1 + weight) * found / (weight * relevant + retrieved))


@dataclass(frozen=True, kw_only=True)
class Judged(RunMetric):
    r"""The share of judged items among the first k: how much of a value at k rests on judgements.

    $$\mathrm{Judged@}k = \frac{|\{i : i \text{ judged},\ R_i \le k\}|}{\min(k, n)}$$

    with n the number of retrieved items. NaN if nothing is retrieved. Items of negative relevance in the qrels are not
    judged (ir_measures counts them). In the mean over its orders, a block of ties counts by its judged items times the
    share of its ranks up to k.

    Args:
        cutoff: k; by default n.

    Raises:
        ValueError: for `cutoff` below 1, and when called with lists; use `rankbound.evaluate_run`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "Judged@10").means()
    {'Judged@10': 0.5}
    """

    name: ClassVar[str] = "Judged"

    cutoff: int | None = None

    def __post_init__(self) -> None:
        require_cutoff(self.name, self.cutoff)

    def of_run(self, run: JudgedRun) -> Tensor:
        blocks, depth = run.blocks, run.lists.sum(run.retrieved)
        if self.cutoff is not None:
            depth = depth.clamp(max=self.cutoff)
        places = torch.minimum(blocks.size, (blocks.lists.spread(depth) - blocks.first + 1).clamp(min=0))
        judged = blocks.sum((run.relevance >= 0) & run.retrieved)
        return ratio(blocks.lists.sum(judged * places / blocks.size), depth)
