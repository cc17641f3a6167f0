"""Metrics of a run and its qrels, which scores and grades alone do not determine.

Retrieved sets, judged shares, and novelty and diversity (alpha-nDCG and intent-aware ERR) of judgements by intent.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.kernels.formulas import Floats, Integers
from rankbound.kernels.ties import mean_discount
from rankbound.lazy import Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.metrics.base import Metric, Thresholded, by_arrays, ratio

Mask = npt.NDArray[np.bool_]

# The squares of smaller numbers are finite.
LARGEST_BETA = 1e150

# Ranks over which the divisor of ERR-IA is summed.
MOST_RANKS = 10_000_000


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
            order[rows] = np.take_along_axis(rows, places, axis=1)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class SetMetric(Thresholded, RunMetric):
    """A metric of the numbers of retrieved items, relevant items and those that are both."""

    def of_run(self, run: JudgedRun) -> Floats:
        relevant = run.relevance >= self.rel
        found = relevant & run.retrieved
        return self.of_counts(*(run.count(mask).astype(np.float64) for mask in (found, run.retrieved, relevant)))

    @abstractmethod
    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        """Return the value of runs with `found` of `relevant` items among `retrieved`, `(n_lists,)`."""


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

    name = "SetP"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        return ratio(found, retrieved.clip(1))


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

    name = "SetR"

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
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

    name = "SetF"
    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("beta", 0 < self.beta < LARGEST_BETA, f"a finite number above 0, below {LARGEST_BETA:g}")

    def of_counts(self, found: Floats, retrieved: Floats, relevant: Floats) -> Floats:
        weight = self.beta**2
        return np.where(relevant == 0, np.nan, ratio((1 + weight) * found, weight * relevant + retrieved))


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


@dataclass(frozen=True, kw_only=True)
class IntentMetric(Thresholded, RunMetric):
    r"""A metric whose gain at an item decays with the number of items above that serve the same intents.

    $$G = \sum_{i: R_i \le k} d(R_i) \sum_{t: y_{it} \ge \mathrm{rel}} (1 - \alpha)^{A_{it}}$$

    with $A_{it}$ the number of items above item i that are relevant to intent t. In a block of ties, the l-th of the m
    items that are relevant to t is at a place $J_l$ that is independent of the other intents, so the mean over the
    block's orders is exact.
    """

    expected = "a run and judgements by intent"
    # An order that is better than the greedy one exceeds 1.
    span = (0.0, math.inf)

    alpha: float = 0.5
    cutoff: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("alpha", 0 <= self.alpha <= 1, "0 to 1")

    @abstractmethod
    def of_intents(self, run: JudgedRun, intents: JudgedIntents) -> Tensor:
        """Return the value of each list, given the rows of `intents` that are relevant."""

    def of_run(self, run: JudgedRun) -> Floats:
        from rankbound.lists import on_cpu

        if run.intents is None:
            raise ValueError(
                f"metric {self}: found judgements without intents, expected relevance by intent: read the qrels with "
                "rankbound.read_qrels(..., intents=True)"
            )
        if len(run.intents.intent) and int(_number_of_intents(run.lists, run.intents).max()) <= 1:
            warnings.warn(
                f"metric {self}: found one intent in every topic; in TREC qrels, the second field names the intent",
                stacklevel=2,
            )
        return on_cpu(self.of_intents)(run, run.intents.rows(run.intents.relevance >= self.rel)).numpy()

    def mean_gain(self, run: JudgedRun, intents: JudgedIntents, discount: Callable[[Floats], Floats]) -> Tensor:
        """Return G of each list, the mean over the orders of tied items."""
        from rankbound.lists import Lists

        blocks = run.blocks
        block_of = torch.empty_like(blocks.block).index_copy_(0, blocks.order, blocks.block)
        found = torch.from_numpy(run.retrieved).index_select(0, intents.item)
        item, intent = intents.item[found], intents.intent[found]
        n_blocks = max(len(blocks.first), 1)
        # A pair of an intent and a block; pairs ascend by intent, then from the top of its list.
        pair, relevant = torch.unique(intent * n_blocks + block_of[item], return_counts=True)
        block = pair % n_blocks
        of_one_intent = Lists.of_sizes(torch.unique_consecutive(pair // n_blocks, return_counts=True)[1])
        above = of_one_intent.running_sum(relevant) - relevant
        first, size = blocks.first[block] - 1, blocks.size[block]
        depth = relevant if self.cutoff is None else torch.minimum(relevant, (self.cutoff - first).clamp(min=0))
        case = Lists.of_sizes(depth)
        of, which = case.segment, case.position + 1
        mean = partial(mean_discount, cutoff=self.cutoff, discount=discount)
        place = by_arrays(mean, size[of], relevant[of], which, first[of])
        gains = case.sum(place * self._decay(above[of] + which - 1))
        return blocks.lists.sum(torch.zeros(len(blocks.first), dtype=torch.float64).index_add_(0, block, gains))

    def _decay(self, above: Tensor) -> Tensor:
        # PyTorch's power of a number depends on its place in the tensor.
        return torch.from_numpy(np.power(1.0 - self.alpha, above.numpy().astype(np.float64)))


@dataclass(frozen=True, kw_only=True)
class AlphaNDCG(IntentMetric):
    r"""Alpha-nDCG (Clarke et al., SIGIR 2008), of judgements by intent, as in ndeval.

    $$\alpha\mathrm{nDCG@}k = \frac{G}{G^*}, \qquad d(r) = \frac{1}{\log_2(1 + r)}$$

    with G of the run as in `IntentMetric` and $G^*$ that of an ideal order of the judged items, which is built greedily
    from the top (the best order is NP-hard): the item of highest gain is next, of equal ones the last by name. NaN
    without relevant items.

    Args:
        rel: the lowest relevant grade, from 1.
        alpha: $\alpha$, 0 to 1, the share of an intent's gain that each item serving it takes from the items below.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: for `rel` or `cutoff` below 1 or `alpha` out of range, and when called with lists or judgements
            without intents.

    >>> judged = {"q": {"1": {"a": 1, "b": 1}, "2": {"b": 1}}}
    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, judged, "alpha_nDCG@1").means()
    {'alpha_nDCG@1': 0.5}
    """

    name = "alpha_nDCG"
    cutoff: int | None = None

    def of_intents(self, run: JudgedRun, intents: JudgedIntents) -> Tensor:
        return ratio(self.mean_gain(run, intents, _discount), self._ideal(run.lists, intents))

    def _ideal(self, lists: Lists, intents: JudgedIntents) -> Tensor:
        """Return the DCG of the greedy order of each list."""
        members = torch.unique(intents.item)
        order = torch.argsort(intents.precedence[members], stable=True)
        order = order[torch.argsort(lists.segment[members[order]], stable=True)]
        items = lists.keep(torch.zeros(lists.n_items, dtype=torch.bool).index_fill_(0, members, True))
        place = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order)))
        row = place[torch.searchsorted(members, intents.item)]
        left = torch.ones(int(intents.intent.max()) + 1 if len(intents.intent) else 0, dtype=torch.float64)
        is_open = torch.ones(len(members), dtype=torch.bool)
        total = torch.zeros(len(lists), dtype=torch.float64)
        deepest = int(items.sizes.max()) if len(lists) else 0
        for rank in range(1, min(deepest, self.cutoff or deepest) + 1):
            gain = torch.zeros(len(members), dtype=torch.float64).index_add_(0, row, left[intents.intent])
            gain = torch.where(is_open, gain, -1.0)
            best = items.max(gain)
            is_best = gain == items.spread(best)
            chosen = is_best & is_open & (items.running_sum(is_best.to(torch.int64)) == 1)
            total += best.clamp(min=0) * float(_discount(np.float64(rank)))
            left[intents.intent[chosen[row]]] *= 1 - self.alpha
            is_open &= ~chosen
        return total


@dataclass(frozen=True, kw_only=True)
class IntentAwareERR(IntentMetric):
    r"""Intent-aware expected reciprocal rank (Chapelle et al., CIKM 2009), of judgements by intent, as in ndeval.

    $$\mathrm{ERR\text{-}IA@}k = \frac{G}{T \sum_{r=1}^k (1 - \alpha)^{r-1} / r}, \qquad d(r) = \frac{1}{r}$$

    with G as in `IntentMetric` and T the number of intents with a relevant item: the value of a list whose items serve
    all intents is 1. Each intent has the same weight. ndeval's value at k = 1 lacks the divisor. NaN without relevant
    items.

    Args:
        rel: the lowest relevant grade, from 1.
        alpha: $\alpha$, 0 to 1, the probability that a user stops at a relevant item.
        cutoff: k.

    Raises:
        ValueError: for `rel` or `cutoff` below 1, a cut-off above 10,000,000, `alpha` out of range, and when
            called with lists or judgements without intents.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "ERR_IA@1").means()
    {'ERR_IA@1': 0.5}
    """

    name = "ERR_IA"
    cutoff: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff > MOST_RANKS:
            raise ValueError(
                f"metric {self.name}: found cut-off {self.cutoff}, expected at most {MOST_RANKS}, over whose ranks the "
                "divisor is summed"
            )

    def of_intents(self, run: JudgedRun, intents: JudgedIntents) -> Tensor:
        rank = torch.arange(1, self.cutoff + 1)
        best = (self._decay(rank - 1) / rank).sum()
        return ratio(self.mean_gain(run, intents, np.reciprocal), _number_of_intents(run.lists, intents) * best)


def _discount(rank: Any) -> Any:
    return 1 / np.log2(1 + rank)


def _number_of_intents(lists: Lists, intents: JudgedIntents) -> Tensor:
    """Return the number of intents of each list that have rows."""
    n_lists = max(len(lists), 1)
    pairs = torch.unique(intents.intent * n_lists + lists.segment[intents.item])
    return torch.bincount(pairs % n_lists, minlength=len(lists))
