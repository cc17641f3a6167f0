r"""Metrics of novelty and diversity, of runs and judgements by intent, as ndeval computes them.

$$G = \sum_{i: R_i \le k} d(R_i) \sum_{t: y_{it} \ge \mathrm{rel}} (1 - \alpha)^{A_{it}}$$

is the gain of a list, with $A_{it}$ the number of items above item i that are relevant to intent t. A metric is G over
its value for a list whose items serve all T intents of the topic, $T \sum_{r \le k} (1 - \alpha)^{r-1} d(r)$, or over
$G^*$, its value for an ideal order of the judged items; NaN without relevant items. Only intents with a relevant item
count, each alike.

| metric | $d(r)$ | over | source |
|---|---|---|---|
| `alpha_nDCG`, `alpha_DCG` | $1 / \log_2(1 + r)$ | $G^*$, all intents | Clarke et al., SIGIR 2008 |
| `nERR_IA`, `ERR_IA` | $1 / r$ | $G^*$, all intents | Chapelle et al., CIKM 2009 |
| `novelty_nRBP`, `novelty_RBP` | $\beta^{r-1}$ | $G^*$, all intents | Clarke, Kolla and Vechtomova, ICTIR 2009 |
| `P_IA` | 1, with $\alpha = 0$ | all intents | Agrawal et al., WSDM 2009 |
| `StRecall` | 1, with $\alpha = 1$ | all intents | Zhai, Cohen and Lafferty, SIGIR 2003 |

ndeval stops at rank 20, and its `ERR-IA@1` and `alpha-DCG@1` lack the divisor.
"""

import math
import warnings
from abc import abstractmethod
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rankbound.kernels.formulas import Floats, mean_discount, precision_terms
from rankbound.lazy import Lists, Tensor, torch
from rankbound.metrics.base import PERSISTENCE, SUMMED_RANKS, Limits, Thresholded, by_arrays, ratio
from rankbound.metrics.runs import JudgedIntents, JudgedRun, RunMetric


class IntentMetric(Thresholded, RunMetric):
    """A metric of judgements by intent."""

    expected = "a run and judgements by intent"

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


class _Pairs:
    """The pairs of an intent and a block of ties with relevant items; they ascend by intent, then from the top.

    `intent`, `block`, `relevant` and `above` `(n_pairs,)`: the pair's number of relevant items, and that of the blocks
    above it.
    """

    def __init__(self, run: JudgedRun, intents: JudgedIntents) -> None:
        from rankbound.lists import Lists

        blocks = run.blocks
        block_of = torch.empty_like(blocks.block).index_copy_(0, blocks.order, blocks.block)
        found = torch.from_numpy(run.retrieved).index_select(0, intents.item)
        n_blocks = max(len(blocks.first), 1)
        pair, self.relevant = torch.unique(
            intents.intent[found] * n_blocks + block_of[intents.item[found]], return_counts=True
        )
        self.intent, self.block = pair // n_blocks, pair % n_blocks
        of_one_intent = Lists.of_sizes(torch.unique_consecutive(self.intent, return_counts=True)[1])
        self.above = of_one_intent.running_sum(self.relevant) - self.relevant
        self.before, self.size = blocks.first[self.block] - 1, blocks.size[self.block]
        self._blocks = blocks

    def sum(self, terms: Tensor) -> Tensor:
        """Return the sum of the pairs' terms of each list."""
        totals = torch.zeros(len(self._blocks.first), dtype=torch.float64).index_add_(0, self.block, terms)
        return self._blocks.lists.sum(totals)


class NoveltyMetric(IntentMetric):
    """A metric that is G, whose gain at an item decays with the items above that serve the same intents, over a best G.

    In a block of ties, the l-th of the m items that are relevant to an intent is at a place $J_l$ that is independent
    of the other intents, so the mean over the block's orders is exact.
    """

    over_ideal: ClassVar[bool] = False
    limits: ClassVar[Limits] = {"alpha": (lambda alpha: 0 <= alpha <= 1, "0 to 1")}

    alpha: float = 0.5
    cutoff: int | None = None

    @abstractmethod
    def discount(self, rank: Any) -> Any:
        """Return d(r) of ranks, numbers or an array."""

    def of_intents(self, run: JudgedRun, intents: JudgedIntents) -> Tensor:
        if self.over_ideal:
            return ratio(self._mean_gain(_Pairs(run, intents)), self._ideal(run.lists, intents))
        best = _number_of_intents(run.lists, intents).to(torch.float64) * self._of_all_intents()
        return ratio(self._mean_gain(_Pairs(run, intents)), best)

    def _of_all_intents(self) -> float:
        """Return the G of a list whose items serve one intent each, the same."""
        rank = np.arange(1.0, (self.cutoff or 0) + 1)
        return float((self._decay(rank - 1) * self.discount(rank)).sum())

    def _mean_gain(self, pairs: _Pairs) -> Tensor:
        """Return G of each list, the mean over the orders of tied items."""
        from rankbound.lists import Lists

        depth = pairs.relevant
        if self.cutoff is not None:
            depth = torch.minimum(depth, (self.cutoff - pairs.before).clamp(min=0))
        case = Lists.of_sizes(depth)
        of, which = case.segment, case.position + 1
        mean = partial(mean_discount, cutoff=self.cutoff, discount=self.discount)
        place = by_arrays(mean, pairs.size[of], pairs.relevant[of], which, pairs.before[of])
        return pairs.sum(case.sum(place * by_arrays(self._decay, pairs.above[of] + which - 1)))

    def _ideal(self, lists: Lists, intents: JudgedIntents) -> Tensor:
        """Return the G of an order of each list's judged items that is built greedily (the best order is NP-hard).

        The item of highest gain is next, of equal ones the last by name.
        """
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
            total += best.clamp(min=0) * float(self.discount(np.float64(rank)))
            left[intents.intent[chosen[row]]] *= 1 - self.alpha
            is_open &= ~chosen
        return total

    def _decay(self, above: Any) -> Floats:
        # PyTorch's power of a number depends on its place in the tensor.
        return np.power(1.0 - self.alpha, np.asarray(above, np.float64))


class AlphaNDCG(NoveltyMetric):
    r"""Alpha-nDCG (Clarke et al., SIGIR 2008), of judgements by intent, as in ndeval.

    $$\alpha\mathrm{nDCG@}k = \frac{G}{G^*}, \qquad d(r) = \frac{1}{\log_2(1 + r)}$$

    with G of the run as in `rankbound.metrics.intents` and $G^*$ that of an ideal order of the judged items, which is
    built greedily from the top: the item of highest gain is next, of equal ones the last by name. NaN without relevant
    items.

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
    over_ideal = True
    # An order that is better than the greedy one exceeds 1.
    span = (0.0, math.inf)

    def discount(self, rank: Any) -> Any:
        return 1 / np.log2(1 + rank)


class AlphaDCG(AlphaNDCG):
    """Alpha-DCG (Clarke et al., SIGIR 2008) over that of a list whose items serve all intents, as in ndeval.

    The paper's alpha-DCG is the numerator alone.

    Args:
        rel, alpha, cutoff: as in `AlphaNDCG`; the cut-off is needed.

    Raises:
        ValueError: as `AlphaNDCG`, and for a cut-off above 10,000,000.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "alpha_DCG@2").means()
    {'alpha_DCG@2': 0.6199062332840657}
    """

    name = "alpha_DCG"
    over_ideal = False
    span = (0.0, 1.0)
    limits = SUMMED_RANKS
    cutoff: int = field()


class NormalizedIntentAwareERR(NoveltyMetric):
    """Intent-aware expected reciprocal rank (Chapelle et al., CIKM 2009) over that of an ideal order, as in ndeval.

    The ideal order is that of `AlphaNDCG`.

    Args:
        rel: the lowest relevant grade, from 1.
        alpha: 0 to 1, the probability that a user stops at a relevant item.
        cutoff: k; by default all ranks count.

    Raises:
        ValueError: as `AlphaNDCG`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "nERR_IA@2").means()
    {'nERR_IA@2': 1.0}
    """

    name = "nERR_IA"
    over_ideal = True
    span = (0.0, math.inf)

    def discount(self, rank: Any) -> Any:
        return np.reciprocal(rank)


class IntentAwareERR(NormalizedIntentAwareERR):
    r"""Intent-aware expected reciprocal rank (Chapelle et al., CIKM 2009), of judgements by intent, as in ndeval.

    $$\mathrm{ERR\text{-}IA@}k = \frac{G}{T \sum_{r=1}^k (1 - \alpha)^{r-1} / r}, \qquad d(r) = \frac{1}{r}$$

    with G as in `rankbound.metrics.intents` and T the number of intents with a relevant item: the value of a list whose
    items serve all intents is 1. Each intent has the same weight. ndeval's value at k = 1 lacks the divisor. NaN
    without relevant items.

    Args:
        rel, alpha: as in `NormalizedIntentAwareERR`.
        cutoff: k.

    Raises:
        ValueError: as `AlphaNDCG`, and for a cut-off above 10,000,000.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "ERR_IA@1").means()
    {'ERR_IA@1': 0.5}
    """

    name = "ERR_IA"
    over_ideal = False
    span = (0.0, 1.0)
    limits = SUMMED_RANKS
    cutoff: int = field()


class NoveltyRBP(NoveltyMetric):
    r"""Novelty- and rank-biased precision, NRBP (Clarke, Kolla and Vechtomova, ICTIR 2009), as in ndeval.

    $$\mathrm{NRBP} = \frac{1 - (1 - \alpha)\beta}{T}\, G, \qquad d(r) = \beta^{r-1}$$

    with G and T as in `rankbound.metrics.intents`: 1 for an endless list whose items serve all intents. NaN without
    relevant items. It is another metric than `nRBP`, RBP over its largest value, of which it has the name elsewhere.

    Args:
        rel: the lowest relevant grade, from 1.
        alpha: $\alpha$, 0 to 1, the share of an intent's gain that each item serving it takes from the items below.
        beta: $\beta$, the persistence, $0 \le \beta < 1$.

    Raises:
        ValueError: for `rel` below 1, `alpha` or `beta` out of range, and when called with lists or judgements without
            intents.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "novelty_RBP").means()
    {'novelty_RBP': 0.5625}
    """

    name = "novelty_RBP"
    cutoff: ClassVar[None] = None  # type: ignore[misc]
    limits: ClassVar[Limits] = {"beta": PERSISTENCE["p"]}
    beta: float = 0.5

    def discount(self, rank: Any) -> Any:
        return np.power(self.beta, rank - 1)

    def _of_all_intents(self) -> float:
        return 1 / (1 - (1 - self.alpha) * self.beta)


class NormalizedNoveltyRBP(NoveltyRBP):
    """Novelty- and rank-biased precision (Clarke et al., ICTIR 2009) over that of an ideal order, ndeval's nNRBP.

    The ideal order is that of `AlphaNDCG`.

    Args:
        rel, alpha, beta: as in `NoveltyRBP`.

    Raises:
        ValueError: as `NoveltyRBP`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "novelty_nRBP").means()
    {'novelty_nRBP': 1.0}
    """

    name = "novelty_nRBP"
    over_ideal = True
    span = (0.0, math.inf)


class IntentAwarePrecision(NoveltyMetric):
    """Intent-aware precision at k (Agrawal et al., WSDM 2009): the mean of P@k over the intents.

    Args:
        rel: the lowest relevant grade, from 1.
        cutoff: k.

    Raises:
        ValueError: as `AlphaNDCG`, and for a cut-off above 10,000,000.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "P_IA@1").means()
    {'P_IA@1': 0.5}
    """

    name = "P_IA"
    limits = SUMMED_RANKS
    alpha: ClassVar[float] = 0.0  # type: ignore[misc]
    cutoff: int = field()

    def discount(self, rank: Any) -> Any:
        return np.ones_like(rank)


class IntentRecall(IntentAwarePrecision):
    """Subtopic recall at k (Zhai, Cohen and Lafferty, SIGIR 2003): the share of the intents that an item to k serves.

    Args:
        rel, cutoff: as in `IntentAwarePrecision`.

    Raises:
        ValueError: as `IntentAwarePrecision`.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "StRecall@1").means()
    {'StRecall@1': 0.5}
    """

    name = "StRecall"
    alpha: ClassVar[float] = 1.0  # type: ignore[misc]


class IntentAwareAP(IntentMetric):
    """Intent-aware average precision (Agrawal et al., WSDM 2009): the mean of AP over the intents.

    Args:
        rel: the lowest relevant grade, from 1.

    Raises:
        ValueError: for `rel` below 1, and when called with lists or judgements without intents.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"1": {"a": 1}, "2": {"b": 1}}}, "AP_IA").means()
    {'AP_IA': 0.75}
    """

    name = "AP_IA"

    def of_intents(self, run: JudgedRun, intents: JudgedIntents) -> Tensor:
        pairs = _Pairs(run, intents)
        numbers = pairs.before, pairs.size, pairs.relevant, pairs.above
        terms = by_arrays(partial(precision_terms, cutoff=None), *numbers)
        relevant = torch.bincount(intents.intent, minlength=1)
        return ratio(pairs.sum(terms / relevant[pairs.intent]), _number_of_intents(run.lists, intents))


def _number_of_intents(lists: Lists, intents: JudgedIntents) -> Tensor:
    """Return the number of intents of each list that have rows."""
    n_lists = max(len(lists), 1)
    pairs = torch.unique(intents.intent * n_lists + lists.segment[intents.item])
    return torch.bincount(pairs % n_lists, minlength=len(lists))
