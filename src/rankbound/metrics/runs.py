"""Metrics of a run and its qrels, which scores and grades alone do not determine.

Retrieved sets and judged shares; `intents` has those of judgements by intent.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankbound.kernels.formulas import Floats, Integers, Mask
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Metric, Thresholded, ratio
from rankbound.metrics.precision import BETA


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
    """A run with its judgements in one batch of lists: retrieved items, and judged ones that the run lacks below them.

    The relevance of unjudged items is `POOLED` or `NOT_POOLED`, both negative. `intents` are there if the judgements
    have them.
    """

    topics: Sequence[str]
    scores: Floats
    relevance: Floats
    retrieved: Mask
    offsets: Integers
    intents: JudgedIntents | None = None

    def keep(self, items: Mask) -> "JudgedRun":
        """Return the lists, as many as before, of the items where the mask is true."""
        if items.all():
            return self
        scores, relevance, retrieved = self.scores[items], self.relevance[items], self.retrieved[items]
        offsets = np.concatenate(([0], items.cumsum()))[self.offsets]
        intents = None if self.intents is None else self.intents.of(torch.from_numpy(items))
        return JudgedRun(self.topics, scores, relevance, retrieved, offsets, intents)

    def count(self, items: Mask) -> Integers:
        """Return the number of items of each list where the mask is true."""
        return np.diff(np.concatenate(([0], items.cumsum()))[self.offsets])

    @cached_property
    def order(self) -> Integers:
        """The permutation that sorts each list by descending score; missing items are last, in their given order."""
        keys = np.where(self.retrieved, -self.scores, np.inf)
        order, sizes = np.arange(len(keys)), np.diff(self.offsets)
        rises = np.append(keys[1:] < keys[:-1], False)
        rises[self.offsets[1:] - 1] = False
        lists = np.flatnonzero(np.diff(np.append(0, rises.cumsum())[self.offsets]))
        # The rows of a matrix are sorted much faster than lists that are a second key.
        for size in np.unique(sizes[lists]).tolist():
            rows = self.offsets[lists[sizes[lists] == size], None] + np.arange(size)
            of_rows = keys[rows]
            places = np.argsort(of_rows, axis=1)
            ranked = np.take_along_axis(of_rows, places, axis=1)
            # The faster sort may turn equal keys around.
            tied = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
            places[tied] = np.argsort(of_rows[tied], axis=1, kind="stable")
            order[rows] = rows[:, :1] + places
        return order

    @cached_property
    def starts(self) -> Mask:
        """A mask of the items in this order whose score differs from the one above; that of a missing item does."""
        scores, starts = self.scores[self.order], ~self.retrieved[self.order]
        starts[1:] |= scores[1:] != scores[:-1]
        starts[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return starts

    @cached_property
    def lists(self) -> Lists:
        """The limits of the lists."""
        from rankbound.lists import Lists

        return Lists(torch.from_numpy(self.offsets))

    @cached_property
    def blocks(self) -> TieBlocks:
        """The blocks of tied items."""
        from rankbound.ranks import blocks_of

        return blocks_of(torch.from_numpy(self.order), torch.from_numpy(self.starts), self.lists)


class RunMetric(Metric):
    """A metric of which items a run retrieved and which of them are judged.

    In a list of scores and grades, every item is retrieved and judged: `rankbound.evaluate_run` computes these metrics,
    and all other uses (calls on lists, bounds, losses) raise `ValueError`.
    """

    unjudged = "marked"
    expected = "a run and qrels, which say what is retrieved and what is judged"

    @abstractmethod
    def of_run(self, run: JudgedRun) -> Floats:
        """Return the mean over all orders of the tied items of each list, `(n_lists,)`."""

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        raise self.refusal()

    def refusal(self) -> ValueError:
        """Return the error for a use other than the evaluation of a run."""
        return ValueError(
            f"metric {self}: found lists of scores and grades, expected {self.expected}: use rankbound.evaluate_run, "
            "or `rankbound evaluate`"
        )


class SetMetric(Thresholded, RunMetric):
    """A metric of the numbers of retrieved items, relevant items and those that are both."""

    def of_run(self, run: JudgedRun) -> Floats:
        relevant = run.relevance >= self.rel
        found = relevant & run.retrieved
        return self.of_counts(*(run.count(mask).astype(np.float64) for mask in (found, run.retrieved, relevant)))

    @abstractmethod
    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        """Return the value of runs with `found` of `relevant` items among `retrieved`, `(n_lists,)`."""


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

    name = "SetP"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        return ratio(found, retrieved.clip(1))


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

    name = "SetR"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        return ratio(found, relevant)


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

    name = "SetF"
    limits = BETA
    beta: float = 1.0

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        weight = self.beta**2
        return np.where(relevant == 0, np.nan, ratio((1 + weight) * found, weight * relevant + retrieved))


class SetAveragePrecision(SetMetric):
    """Average precision of the retrieved set, as trec_eval's `set_map`: SetP times SetR.

    All precisions are taken at the end of the set (Manning, Raghavan and Schütze 2008, eqs. 8.1 and 8.2). 0 if nothing
    is retrieved; NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: as `SetPrecision`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "c": 1, "d": 1}}, "SetAP").means()
    {'SetAP': 0.16666666666666666}
    """

    name = "SetAP"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        return ratio(found**2, retrieved.clip(1) * relevant)


class SetRelativePrecision(SetMetric):
    """Precision of the retrieved set over the best one of its size, as trec_eval's `set_relative_P`.

    It is the larger of SetP and SetR (Manning, Raghavan and Schütze 2008, eqs. 8.1 and 8.2). 0 if nothing is retrieved;
    NaN without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: as `SetPrecision`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "c": 1, "d": 1}}, "SetRelP").means()
    {'SetRelP': 0.5}
    """

    name = "SetRelP"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        return ratio(found, np.minimum(retrieved.clip(1), relevant))


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

    name = "Judged"
    cutoff: int | None = None

    def of_run(self, run: JudgedRun) -> Floats:
        blocks, retrieved = run.blocks, torch.from_numpy(run.retrieved)
        depth = run.lists.sum(retrieved)
        if self.cutoff is not None:
            depth = depth.clamp(max=self.cutoff)
        places = torch.minimum(blocks.size, (blocks.lists.spread(depth) - blocks.first + 1).clamp(min=0))
        judged = blocks.sum(torch.from_numpy((run.relevance >= 0) & run.retrieved))
        return ratio(blocks.lists.sum(judged * places / blocks.size), depth).numpy()
