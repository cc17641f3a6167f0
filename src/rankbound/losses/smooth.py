"""The loss of a metric: its value at smooth ranks, bounded, and negated where higher is better."""

import math
from typing import Protocol

import torch
from torch import Tensor

from rankbound.bounds.distribution import Gain
from rankbound.bounds.kinds import Bound, Facts
from rankbound.bounds.kinds import bound as parse_bound
from rankbound.bounds.kinds.affine import Unbounded
from rankbound.bounds.kinds.distribution import Distribution, tilt_of
from rankbound.bounds.profiles import Profiles
from rankbound.kernels import Kernel
from rankbound.lists import ArrayLike, Lists, Weights, as_tensor
from rankbound.losses._by_kernel import Reduction, by_kernel, may_use_kernel
from rankbound.losses._smooth_kernel import smooth_kernel
from rankbound.losses.base import RankingLoss
from rankbound.metrics import Metric, metric
from rankbound.metrics.additive import AdditiveMetric
from rankbound.metrics.run_metric import RunMetric
from rankbound.ranks import Ranks
from rankbound.smooth_ranks import require_method, smooth_ranks_of


class SmoothTables(Protocol):
    """Score distributions of one metric: `bounds.tables.DistributionTables` or `on_demand.DistributionsOnDemand`."""

    @property
    def metric(self) -> str: ...

    @property
    def tilt(self) -> float: ...

    def smooth(self, values: Tensor, profiles: Profiles, gain: Gain = "distinct") -> Tensor: ...


class SmoothLoss(RankingLoss):
    r"""The smooth, bounded loss of a ranking metric (thesis eqs. 2.10 to 2.12 with 3.1, 3.6, 3.11 or 3.12).

    $$L_t = \mp B_t(\tilde M_t), \qquad \tilde M_t = M(\tilde R),\quad
      \tilde R_i = 1 + \sum_{j \ne i} \sigma\!\left(\frac{s_j - s_i}{\tau}\right)$$

    with a minus sign where higher values of the metric are better; $\sigma$ is the logistic function. Weights of
    items multiply the gains of nDCG, DCG and CG, also in the ideal order and the bounds (`Metric.weighted`).

    Args:
        of: the metric or its text: `nDCG`, `nDCG@10`, `AP`, `RR`, `nRBP` (the loss of eq. 2.12), ...
        bound: `none`, `min-max`, `expectation`, `expectation-max`, `distribution`, `distribution(gain=sd)`,
            `distribution(tilt=4)`.
        temperature: $\tau$, in units of the scores.
        method: the summation of smooth ranks, as in `smooth_rank`.
        tables: score distributions for the distribution bound. By default they are computed when a list first occurs,
            and cached, by `bounds.on_demand.DistributionsOnDemand(of)`; pass one to set its number of random orders.

    Raises:
        ValueError: for a text that names no metric or bound, a temperature that isn't above 0, an unknown
            method, tables of another metric or tilt, or a metric that needs a run.

    >>> loss = rb.SmoothLoss("nDCG@10", bound="min-max", temperature=0.1)
    >>> loss(torch.tensor([0.9, 0.5, 0.1]), [0, 1, 0], [0, 3])
    tensor([-0.2619])
    """

    def __init__(
        self,
        of: str | Metric,
        bound: str | Bound = "none",
        *,
        temperature: float = 1.0,
        method: str = "auto",
        tables: SmoothTables | None = None,
    ) -> None:
        super().__init__()
        require_method(method, temperature)
        self.metric, self.bound = metric(of), parse_bound(bound)
        if isinstance(self.metric, RunMetric):
            raise self.metric.refusal()
        self.temperature, self.method = temperature, method
        if tables is not None and tables.metric != str(self.metric):
            raise ValueError(f"tables: found distributions of {tables.metric}, expected those of {self.metric}")
        tilt = tilt_of(self.bound)
        if tables is not None and isinstance(self.bound, Distribution) and tables.tilt != tilt:
            raise ValueError(f"tables: found distributions of orders tilted by {tables.tilt:g}, expected by {tilt:g}")
        self._tables = tables

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return self._loss(self.smooth_value(scores, relevance, lists), self.facts(relevance, lists)).to(scores.dtype)

    def facts(self, relevance: Tensor, lists: Lists) -> Facts:
        return Facts.of_lists(self.metric, relevance, lists, self._smooth_distribution)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        """Return the kernel of the unbounded loss, if the metric has a formula."""
        return self._value_kernel(dtype, sign=self._sign)

    def _value_kernel(self, dtype: torch.dtype, **signs: float) -> Kernel | None:
        return smooth_kernel(self.metric, self.temperature, self.method, dtype, **signs)

    def _fused(
        self,
        scores: Tensor,
        relevance: ArrayLike,
        offsets: ArrayLike,
        reduction: Reduction = "none",
        facts: Facts | None = None,
    ) -> Tensor | None:
        if isinstance(self.bound, Unbounded):
            return super()._fused(scores, relevance, offsets, reduction)
        if not may_use_kernel(self, scores):
            return None
        kernel = self._value_kernel(scores.dtype, undefined=math.nan)
        if kernel is None:
            return None
        values = by_kernel(kernel, scores, relevance, offsets, self.smooth_value, exact=True)
        if values is None:
            return None
        if facts is None:
            grades = as_tensor(relevance, "relevance").detach()
            facts = self.facts(grades, Lists(as_tensor(offsets, "offsets").to(torch.int64)))
        losses = self._loss(values, facts)
        if reduction != "none":
            losses = losses.sum()
        if reduction == "mean":
            losses = losses / self.bound.informative(facts).sum().clamp(min=1)
        return losses.to(torch.promote_types(scores.dtype, torch.float32))

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        return self.of_lists(scores, self.metric.weighted(relevance, weights), lists)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a relevant item and, if bounded, orders that differ in the metric."""
        return self.informative_by(None, relevance, lists)

    def informative_by(self, facts: Facts | None, relevance: Tensor, lists: Lists) -> Tensor:
        return self.bound.informative(self.facts(relevance, lists) if facts is None else facts)

    @property
    def text(self) -> str:
        """The metric's text, without the bound."""
        return str(self.metric)

    def smooth_value(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the metric at smooth ranks, neither bounded nor negated.

        Args:
            scores: `(n_items,)`, in single or double precision.
            relevance: `(n_items,)`, grades from 0.
            lists: the lists' limits.

        Returns:
            A float64 tensor `(n_lists,)`, NaN where the metric is undefined.
        """
        if isinstance(self.metric, AdditiveMetric):
            self.metric.require_gains_that_fit(relevance, scores.dtype)
        targets = self._targets(relevance)
        columns = self._columns(scores, lists, (None, *self._rank_weights(relevance)), targets)
        kept = lists.keep(self.metric.relevant(relevance))
        return self._of_columns(columns, relevance.index_select(0, targets), kept, lists.sizes)

    def _targets(self, relevance: Tensor) -> Tensor:
        """Return the indices of the relevant items, whose ranks the metric uses."""
        return torch.nonzero(self.metric.relevant(relevance)).squeeze(1)

    def _rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return tuple(weight.to(torch.float64) for weight in self.metric.rank_weights(relevance))

    def _columns(self, scores: Tensor, lists: Lists, weights: Weights, targets: Tensor) -> Tensor:
        temperature, method = self.temperature, self.method
        return smooth_ranks_of(scores, lists, weights, targets=targets, temperature=temperature, method=method)

    def _of_columns(self, columns: Tensor, grades: Tensor, kept: Lists, sizes: Tensor) -> Tensor:
        position, *above = columns.unbind(1)
        # The columns are 1 plus the weight above, which is the rank for weights of 1.
        ranks = Ranks(position, sizes, tuple(column - 1 for column in above), self.temperature)
        return self.metric.of_ranks(ranks, grades, kept).to(columns)

    def _loss(self, value: Tensor, facts: Facts) -> Tensor:
        """Return the bounded value, negated where higher is better; 0 for uninformative lists."""
        bounded = self.bound(value, facts)
        return torch.where(self.bound.informative(facts), self._sign * bounded, 0.0)

    @property
    def _sign(self) -> float:
        return -1.0 if self.metric.higher_is_better else 1.0

    def _smooth_distribution(self, values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
        if self._tables is None:
            from rankbound.bounds.on_demand import DistributionsOnDemand

            self._tables = DistributionsOnDemand(self.metric, tilt=tilt_of(self.bound))
        return self._tables.smooth(values, profiles, gain)

    def extra_repr(self) -> str:
        return f"{self.metric}, bound={self.bound}, temperature={self.temperature:g}"
