"""The loss of a metric: the same function of ranks, over smooth ranks, bounded, and negated where higher is better."""

from typing import Protocol

import torch
from torch import Tensor

from rankbound.bounds.kinds import Bound, CumulativeDistribution, Distribution, Facts, Gain, Unbounded
from rankbound.bounds.kinds import bound as parse_bound
from rankbound.lists import Lists
from rankbound.losses.base import RankingLoss
from rankbound.metrics import Metric, metric
from rankbound.ranks import Ranks
from rankbound.smooth_ranks import smooth_ranks_of


class Tables(Protocol):
    """Score distributions of one metric for many sizes (`rankbound.bounds.tables.DistributionTables`)."""

    def smooth_cdf(self, values: Tensor, n: Tensor, p: Tensor, gain: Gain = "distinct") -> Tensor: ...


class SmoothLoss(RankingLoss):
    r"""Smooth, bounded loss of a ranking metric (thesis eqs. 2.10 to 2.12 with 3.1, 3.6, 3.11 or 3.12).

    $$L_t = \mp B_t(\tilde M_t), \qquad \tilde M_t = M(\tilde R),\quad
      \tilde R_i = 1 + \sum_{j \ne i} \sigma\!\left(\frac{s_j - s_i}{\tau}\right)$$

    negative where higher values of the metric are better.

    Args:
        of: the metric or its text: `nDCG`, `nDCG@10`, `AP`, `RR`, `nRBP` (the loss of eq. 2.12), ...
        bound: `none`, `min-max`, `expectation`, `expectation-max`, `distribution`, `distribution(gain=sd)`.
        temperature: $\tau$, in units of the scores.
        method: how smooth ranks are summed, as in `smooth_rank`.
        tables: score distributions for the distribution bound; computed and kept on first sight if not given.
    """

    def __init__(
        self,
        of: str | Metric,
        bound: str | Bound = "none",
        *,
        temperature: float = 1.0,
        method: str = "auto",
        tables: Tables | None = None,
    ) -> None:
        super().__init__()
        self.metric, self.bound = metric(of), parse_bound(bound)
        self.temperature, self.method = temperature, method
        self._tables = tables

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        facts = Facts.of_lists(self.metric, relevance, lists)
        bounded = self._bounded(self.smooth_value(scores, relevance, lists), facts)
        loss = -bounded if self.metric.higher_is_better else bounded
        return torch.where(self._informative(facts), loss, 0.0)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Which lists can be ranked better or worse: some item is relevant and, if bounded, the orders differ."""
        return self._informative(Facts.of_lists(self.metric, relevance, lists))

    @property
    def text(self) -> str:
        """The metric's text; the bound has one of its own."""
        return str(self.metric)

    def _informative(self, facts: Facts) -> Tensor:
        some_relevant = facts.p > 0
        return some_relevant if isinstance(self.bound, Unbounded) else some_relevant & facts.orders_differ

    def smooth_value(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """The metric over smooth ranks, neither bounded nor negated; NaN where it is undefined."""
        mask = self.metric.relevant(relevance)
        targets = torch.nonzero(mask).squeeze(1)
        weights = tuple(weight.to(scores.dtype) for weight in self.metric.rank_weights(relevance))
        position, *above = smooth_ranks_of(
            scores, lists, (None, *weights), targets=targets, temperature=self.temperature, method=self.method
        ).unbind(1)
        # The operator gives 1 and the weight above, so that with weights of 1 it is the rank.
        ranks = Ranks(position, lists.sizes, tuple(column - 1 for column in above), self.temperature)
        return self.metric.of_ranks(ranks, relevance.index_select(0, targets), lists.keep(mask))

    def _bounded(self, value: Tensor, facts: Facts) -> Tensor:
        if isinstance(self.bound, Distribution):
            return self.bound.through(self._smooth_cdf(self.bound), value, facts)
        return self.bound(value, facts)

    def _smooth_cdf(self, bound: Distribution) -> CumulativeDistribution:
        def cdf(values: Tensor, n: Tensor, p: Tensor) -> Tensor:
            if self._tables is None:
                from rankbound.bounds.on_demand import TablesOnDemand

                self._tables = TablesOnDemand(str(self.metric))
            return self._tables.smooth_cdf(values, n, p, gain=bound.gain)

        return cdf

    def extra_repr(self) -> str:
        return f"{self.metric}, bound={self.bound}, temperature={self.temperature:g}"
