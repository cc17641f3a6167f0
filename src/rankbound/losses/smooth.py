"""The loss of a metric: its value at smooth ranks, bounded, and negated where higher is better; and its relatives.

ADR-MSE compares smooth ranks with those by relevance. TFMAP and CLiMF smooth average precision and reciprocal rank of
the relevant items alone, for data that have no others.
"""

import math
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from rankbound import smooth_ranks
from rankbound.bounds.base import Bound, Distribution, Unbounded
from rankbound.bounds.base import bound as parse_bound
from rankbound.bounds.extremes import Facts
from rankbound.bounds.tables import DistributionsOnDemand, DistributionTables
from rankbound.gradients import with_gradient
from rankbound.kernels import GpuKernel, Kernel
from rankbound.kernels.formulas import METHODS, RANK_SUM, Formula
from rankbound.lists import ArrayLike, Lists, as_tensor, may_read
from rankbound.losses.base import ItemSum, RankingLoss, Reduction, reduced, times
from rankbound.metrics import Metric, metric
from rankbound.metrics.base import formula_of
from rankbound.metrics.cumulative_gain import AdditiveMetric, largest_grade
from rankbound.metrics.runs import RunMetric
from rankbound.ranks import Ranks, tie_blocks
from rankbound.smooth_ranks import SIGMOID, SIGMOID_SLOPE, SOFTPLUS, kernel_sums, require_method, smooth_ranks_of
from rankbound.texts import require


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
            and cached, by `bounds.tables.DistributionsOnDemand(of)`; pass one to set its number of random orders.

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
        tables: DistributionTables | DistributionsOnDemand | None = None,
    ) -> None:
        super().__init__()
        require_method(method, temperature)
        self.metric, self.bound = metric(of), parse_bound(bound)
        if isinstance(self.metric, RunMetric):
            raise self.metric.refusal()
        self.temperature, self.method = temperature, method
        self._sign = -1.0 if self.metric.higher_is_better else 1.0
        if tables is not None and tables.metric != str(self.metric):
            raise ValueError(f"tables: found distributions of {tables.metric}, expected those of {self.metric}")
        tilt = self.bound.tilt
        if tables is not None and isinstance(self.bound, Distribution) and tables.tilt != tilt:
            raise ValueError(f"tables: found distributions of orders tilted by {tables.tilt:g}, expected by {tilt:g}")
        self._tables = DistributionsOnDemand(self.metric, tilt=tilt) if tables is None else tables

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, facts: Facts | None = None) -> Tensor:
        known = self.facts(relevance, lists) if facts is None else facts
        return self._loss(self.smooth_value(scores, relevance, lists), known).to(scores.dtype)

    def facts(self, relevance: Tensor, lists: Lists) -> Facts:
        compute = partial(Facts, self.metric, relevance, lists, self._tables.smooth)
        return compute() if may_read(relevance) else lists._known(("facts", self._number), compute, relevance)

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        """Return the kernel of the unbounded loss, or of the metric's value, which the bound maps."""
        formula = formula_of(self.metric)
        if formula is None or formula.kind > RANK_SUM:
            return None
        sign, undefined = (self._sign, 0.0) if isinstance(self.bound, Unbounded) else (1.0, math.nan)
        return _smooth_kernel(formula, self.temperature, self.method, dtype, sign, undefined)

    def _fused(
        self,
        scores: Tensor,
        relevance: ArrayLike,
        offsets: ArrayLike,
        reduction: Reduction = "none",
        facts: Facts | None = None,
        **options: Any,
    ) -> Tensor | None:
        if isinstance(self.bound, Unbounded):
            return super()._fused(scores, relevance, offsets, reduction)
        values = super()._fused(scores, relevance, offsets, reference=self.smooth_value, exact=True)
        if values is None:
            return None
        if facts is None:
            grades = as_tensor(relevance, "relevance").detach()
            facts = self.facts(grades, Lists(as_tensor(offsets, "offsets").to(torch.int64)))
        losses = reduced(self._loss(values, facts), reduction, lambda: self.bound.informative(facts))
        return losses.to(torch.promote_types(scores.dtype, torch.float32))

    def _gpu_kernel(self) -> GpuKernel | None:
        """Return the kernel of the metric's value, which the bound maps."""
        formula = formula_of(self.metric)
        if formula is None or formula.kind > RANK_SUM or self.method == "interpolated":
            return None
        from rankbound.kernels.gpu import LONGEST, smooth_metric

        def run(scores: Tensor, relevance: Tensor, lists: Lists, _: None) -> tuple[Tensor, Tensor]:
            if isinstance(self.metric, AdditiveMetric):
                self.metric.require_gains_that_fit(relevance, scores.dtype)
                gains = self.metric.gains(relevance)
            else:
                gains = self.metric.relevant(relevance)
            values: tuple[Tensor, Tensor] = smooth_metric(scores, gains, lists, formula, self.temperature)
            return values

        return run, LONGEST

    def _on_gpu(
        self,
        scores: Tensor,
        relevance: Tensor,
        lists: Lists,
        weights: Tensor | None = None,
        facts: Facts | None = None,
        **options: Any,
    ) -> Tensor | None:
        if weights is not None:
            relevance = self.metric.weighted(relevance, weights)
        values = super()._on_gpu(scores, relevance, lists, reference=self.smooth_value)
        if values is None:
            return None
        facts = self.facts(relevance, lists) if facts is None else facts
        return self._loss(values, facts).to(scores.dtype)

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
        relevant, targets, own, kept = self.metric.relevant(relevance), None, relevance, lists
        if may_read(relevance):
            targets = torch.nonzero(relevant).squeeze(1)
            own, kept = relevance.index_select(0, targets), lists.keep(relevant)
        weights = (None, *(weight.to(torch.float64) for weight in self.metric.rank_weights(relevance)))
        columns = smooth_ranks_of(
            scores, lists, weights, targets=targets, temperature=self.temperature, method=self.method
        )
        # The columns are 1 plus the weight above, which is the rank for weights of 1.
        position, *above = columns.unbind(1)
        ranks = Ranks(position, lists.sizes, tuple(column - 1 for column in above), self.temperature)
        return self.metric.of_ranks(ranks, own, kept).to(columns)

    def _loss(self, value: Tensor, facts: Facts) -> Tensor:
        """Return the bounded value, negated where higher is better; 0 for uninformative lists."""
        bounded = self.bound(value, facts)
        return torch.where(self.bound.informative(facts), self._sign * bounded, 0.0)

    def extra_repr(self) -> str:
        return f"{self.metric}, bound={self.bound}, temperature={self.temperature:g}"


class ADRMSELoss(ItemSum):
    r"""Approximate discounted rank MSE (Schlatt et al. 2024): squared errors of smooth ranks, by discount.

    $$L = \frac1N \sum_i \frac{(\tilde R_i - r_i)^2}{\log_2(r_i + 1)}$$

    $r_i$ is the rank by relevance, the mean of the possible ranks for items of one grade, and $\tilde R_i$ the smooth
    rank by score. Time and memory are linear in $N$, except for a sort by relevance. The loss is 0 for a list whose
    items have one grade.

    Args:
        temperature: $\tau$ of the smooth ranks, in units of the scores.
        method: as in `rankbound.smooth_rank`.

    Raises:
        ValueError: for a temperature that isn't above 0, or an unknown method.

    >>> rb.loss("ADR-MSE")(torch.tensor([9.0, 3.0, -9.0]), [2, 1, 0], [0, 3])
    tensor([3.3174e-06])
    """

    name = "ADR-MSE"

    def __init__(self, *, temperature: float = 1.0, method: str = "auto") -> None:
        super().__init__()
        require_method(method, temperature)
        self.temperature, self.method = temperature, method

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        # The mean rank by relevance over the orders of items of one grade.
        expected = tie_blocks(relevance.to(torch.float64), lists).mean_ranks(lists).position
        ranks = smooth_ranks_of(scores, lists, (None,), temperature=self.temperature, method=self.method)
        errors = (ranks.squeeze(1) - expected).square() / torch.log2(expected + 1)
        mean = lists.sum(times(errors, weights)) / lists.sizes.clamp(min=1)
        return torch.where(self.informative(relevance, lists), mean, 0.0).to(scores.dtype)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with two items of different grades."""
        grades = relevance.to(torch.float64)
        return lists.max(grades) > lists.min(grades)


class RelevantItemsLoss(RankingLoss):
    """A loss of the relevant items alone, those of grades from `rel` on."""

    def __init__(self, *, rel: float = 1) -> None:
        super().__init__()
        require("rel", rel, rel > 0, "a grade above 0")
        self.rel = rel

    def relevant(
        self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None = None
    ) -> tuple[Tensor, Lists, Tensor | None, Tensor | None]:
        """Return the scores of the relevant items, in double precision, their lists, and two kinds of weights.

        The weights are a mask and those given, or None for ones: where a GPU isn't waited for to learn the number of
        relevant items, all items are returned, and the weights of irrelevant ones are 0.
        """
        relevant, exact = relevance >= self.rel, scores.to(torch.float64)
        weights = None if weights is None else weights.to(torch.float64)
        if may_read(relevance):
            return exact[relevant], lists.keep(relevant), None, None if weights is None else weights[relevant]
        mask = relevant.to(torch.float64)
        return exact, lists, mask, times(mask, weights)

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the lists with a relevant item."""
        return lists.keep(relevance >= self.rel).sizes > 0


class TFMAPLoss(RelevantItemsLoss):
    r"""TFMAP (Shi et al., SIGIR 2012): average precision with a smooth reciprocal rank of each item's own score.

    $$L = -\frac1P \sum_{i: y_i \ge \mathrm{rel}} \sigma(s_i) \sum_{j: y_j \ge \mathrm{rel}} \sigma(s_j - s_i)$$

    over the $P$ relevant items, $j = i$ among them: $\sigma(s_i)$ stands for the reciprocal of the rank of item $i$.
    Irrelevant items don't occur, so that the loss needs none. Without them, the scores grow without end: stop early.
    The time is near-linear in $P$. `AP` is the loss of the metric itself, with smooth ranks.

    Args:
        rel: the lowest grade that counts as relevant.

    Raises:
        ValueError: for a `rel` that isn't above 0.

    >>> rb.loss("TFMAP")(torch.tensor([0.5, 1.0, 0.0]), [0, 1, 1], [0, 3])
    tensor([-0.5888])
    """

    name = "TFMAP"

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        own, kept, mask, _ = self.relevant(scores, relevance, lists)
        # A smooth rank is 1 and the sum over the others.
        found = smooth_ranks_of(own, kept, (mask,)).squeeze(1) - 0.5
        p = lists.keep(relevance >= self.rel).sizes.clamp(min=1)
        return (kept.sum(times(-torch.sigmoid(own) * found, mask)) / p).to(scores.dtype)


class CLiMFLoss(RelevantItemsLoss, ItemSum):
    r"""CLiMF (Shi et al., RecSys 2012): a lower bound of the smoothed reciprocal rank, negated.

    $$L = -\sum_{i: y_i \ge \mathrm{rel}} \left( \log \sigma(s_i)
      + \sum_{j: y_j \ge \mathrm{rel}} \log\left(1 - \sigma(s_j - s_i)\right) \right)$$

    It raises the scores of the relevant items, and keeps them apart from each other: a few of them come first for sure,
    instead of all perhaps. Irrelevant items don't occur. The time is near-linear in the number of relevant items.

    Args:
        rel: the lowest grade that counts as relevant.

    Raises:
        ValueError: for a `rel` that isn't above 0.

    >>> rb.loss("CLiMF")(torch.tensor([0.5, 1.0, 0.0]), [0, 1, 1], [0, 3])
    tensor([4.0192])
    """

    name = "CLiMF"

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        own, kept, mask, known = self.relevant(scores, relevance, lists, weights)
        x = own.detach()
        w = torch.ones_like(x) if known is None else known
        with torch.no_grad():
            losses = kept.sum(w * (smooth_ranks.softplus(-x) + kernel_sums(x, kept, (mask,), SOFTPLUS).squeeze(1)))
            above, weighted = kernel_sums(x, kept, (mask, w), SIGMOID).unbind(1)
            # The chances of a pair's two orders add up to 1.
            slopes = times(kept.spread(kept.sum(w)) - weighted, mask) - w * (above + torch.sigmoid(-x))

        def hessian_product(direction: Tensor) -> Tensor:
            v = times(direction.to(x), mask)
            alike, of_w, of_v, of_wv = kernel_sums(x, kept, (mask, w, v, w * v), SIGMOID_SLOPE).unbind(1)
            return v * (w * (smooth_ranks.sigmoid_slope(x) + alike) + of_w) - times(of_wv, mask) - w * of_v

        return with_gradient(own, losses, slopes, kept, hessian_product).to(scores.dtype)


@lru_cache(maxsize=256)
def _smooth_kernel(
    formula: Formula, temperature: float, method: str, dtype: torch.dtype, sign: float, undefined: float
) -> Kernel:
    """Return the kernel of `sign` times a metric at smooth ranks, `undefined` in lists without relevant items."""
    from rankbound.kernels.smooth import smooth_metric

    # The largest grade whose gain is finite in the scores' precision, at least single.
    largest = torch.finfo(torch.float64).max
    if formula.gain == "exp2":
        largest = float(largest_grade(torch.promote_types(dtype, torch.float32)))
    matrices = tuple(smooth_ranks.kernel_matrix(one, torch.device("cpu")).numpy() for one in (SIGMOID, SIGMOID_SLOPE))
    return smooth_metric, formula.numbers, largest, float(temperature), METHODS.index(method), matrices, sign, undefined
