"""Novelty and diversity: alpha-nDCG and intent-aware ERR, of judgements by intent."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankbound.kernels.formulas import Floats
from rankbound.lazy import Lists, Tensor, torch
from rankbound.metrics.base import Thresholded, ratio
from rankbound.metrics.first_relevant import mean_discount
from rankbound.metrics.sets import JudgedIntents, JudgedRun, RunMetric

# Ranks over which the divisor of ERR-IA is summed.
MOST_RANKS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class IntentMetric(Thresholded, RunMetric):
    r"""A metric whose gain at an item decays with the number of items above that serve the same intents.

    $$G = \sum_{i: R_i \le k} d(R_i) \sum_{t: y_{it} \ge \mathrm{rel}} (1 - \alpha)^{A_{it}}$$

    with $A_{it}$ the number of items above item i that are relevant to intent t. In a block of ties, the l-th of the m
    items that are relevant to t is at a place $J_l$ that is independent of the other intents, so the mean over the
    block's orders is exact.
    """

    expected: ClassVar[str] = "a run and judgements by intent"
    # An order that is better than the greedy one exceeds 1.
    span: ClassVar[tuple[float, float]] = (0.0, math.inf)

    alpha: float = 0.5
    cutoff: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"metric {self.name}: found alpha={self.alpha}, expected 0 to 1")

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

    def mean_gain(self, run: JudgedRun, intents: JudgedIntents, discount: Callable[[Tensor], Tensor]) -> Tensor:
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
        place = mean_discount(size[of], relevant[of], which, first[of], self.cutoff, discount)
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

    name: ClassVar[str] = "alpha_nDCG"

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
            total += best.clamp(min=0) * _discount(torch.tensor(rank, dtype=torch.float64))
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

    name: ClassVar[str] = "ERR_IA"

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
        return ratio(self.mean_gain(run, intents, torch.reciprocal), _number_of_intents(run.lists, intents) * best)


def _discount(rank: Tensor) -> Tensor:
    return 1 / torch.log2(1 + rank)


def _number_of_intents(lists: Lists, intents: JudgedIntents) -> Tensor:
    """Return the number of intents of each list that have rows."""
    n_lists = max(len(lists), 1)
    pairs = torch.unique(intents.intent * n_lists + lists.segment[intents.item])
    return torch.bincount(pairs % n_lists, minlength=len(lists))
