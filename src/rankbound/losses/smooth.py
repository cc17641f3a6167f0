"""The loss of a metric: the same function of ranks, over smooth ranks, bounded, and negated where higher is better."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rankbound.bounds.kinds import Bound, CumulativeDistribution, Distribution, Facts, Gain, Unbounded
from rankbound.bounds.kinds import bound as parse_bound
from rankbound.lists import Lists, as_tensor, require_grades
from rankbound.metrics import Metric, metric
from rankbound.ranks import Ranks
from rankbound.smooth_ranks import smooth_ranks_of


class Tables(Protocol):
    """Score distributions of one metric for many sizes (`rankbound.bounds.tables.DistributionTables`)."""

    def smooth_cdf(self, values: Tensor, n: Tensor, p: Tensor, gain: Gain = "distinct") -> Tensor: ...


class SmoothLoss(nn.Module):
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

    def forward(self, scores: Tensor, relevance: Tensor, offsets: Tensor) -> Tensor:
        """The loss of each list, `(n_lists,)`, to minimise; 0 without gradient where a list carries no information.

        Args:
            scores: `(n_items,)`, floating point and finite.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Raises:
            ValueError: for lists that don't fit, scores that are NaN or infinite, or relevance below 0.
        """
        grades = as_tensor(relevance, "relevance", len(as_tensor(scores, "scores")))
        require_grades(grades)
        if not scores.is_floating_point():
            raise ValueError(f"scores: found dtype {scores.dtype}, expected floating point")
        return self.of_lists(scores, grades, Lists.checked(offsets, len(scores), scores.device))

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """As a call, for lists that were checked before."""
        facts = Facts.of_lists(self.metric, relevance, lists)
        bounded = self._bounded(self.smooth_value(scores, relevance, lists), facts)
        loss = -bounded if self.metric.higher_is_better else bounded
        return torch.where(self.informative(facts), loss, 0.0)

    def informative(self, facts: Facts) -> Tensor:
        """Which lists can be ranked better or worse: some item is relevant and, if bounded, the orders differ."""
        some_relevant = facts.p > 0
        return some_relevant if isinstance(self.bound, Unbounded) else some_relevant & facts.orders_differ

    def smooth_value(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """The metric over smooth ranks, neither bounded nor negated; NaN where it is undefined."""
        mask = self.metric.relevant(relevance)
        targets = torch.nonzero(mask).squeeze(1)
        relevant = (mask.to(scores.dtype),) if self.metric.needs_relevant_ranks else ()
        ranks = smooth_ranks_of(
            scores,
            lists,
            (None, *relevant),
            targets=targets,
            temperature=self.temperature,
            method=self.method,
        ).unbind(1)
        among_relevant = ranks[1] if self.metric.needs_relevant_ranks else None
        return self.metric.of_ranks(
            Ranks(ranks[0], among_relevant, self.temperature), relevance.index_select(0, targets), lists.keep(mask)
        )

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

    def __call__(self, *arguments: Any, **keywords: Any) -> Tensor:
        loss: Tensor = super().__call__(*arguments, **keywords)
        return loss
