"""The base class of metrics: a metric is a value with a text and one function of ranks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from rankbound.fractions import are_fractions, warn_of_fractions
from rankbound.fused import usable
from rankbound.fused.formulas import Formula
from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, beside, require_finite, require_grades, weights_of
from rankbound.ranks import Ranks, TieBlocks, block_starts, blocks_of, descending_order, ranks_in_order
from rankbound.texts import text_of
from rankbound.tie_orders import orders_of_ties

# Number of orders of a list's ties over which a metric without a closed form is averaged.
TIE_BREAKS = 200

# Loading a compiled kernel takes as long as the evaluation of this many items without it.
WORTH_A_KERNEL = 1_000_000
# Higher grades are evaluated without.
HIGHEST_GRADE = 100.0

# How a metric takes the unjudged items of a run, as of `Metric.unjudged`.
Unjudged = Literal["not relevant", "left out", "marked"]

# The relevance of marked items: not judged though in the pool (-1 in TREC qrels), and not in the qrels at all.
POOLED, NOT_POOLED = -1.0, -2.0


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A ranking metric, evaluated on each list of a batch.

    Subclasses are frozen dataclasses whose fields are the metric's parameters. `of_ranks` suffices for a metric, a
    bounded metric and a loss; the closed forms (`of_blocks`, `binary_extremes`, `binary_expectation`) are optional.

    Attributes:
        name: the name that begins the metric's text.
        higher_is_better: false for errors, which a loss does not negate.
        uses_grades: false if only the set of relevant items counts.
        span: the smallest and the largest value that any order of any list can have; rounding is clipped to it.
        unjudged: the treatment of a run's unjudged items by `rankbound.evaluate_run`: they are `not relevant`,
            `left out` of the ranking, or `marked` by a negative relevance, which `relevant` must be false for.

    >>> ndcg = rb.metric("nDCG@10")
    >>> ndcg([0.3, 0.1, 0.2, 0.9], [0, 1, 0, 1], [0, 3, 4])
    array([0.5, 1. ])
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    uses_grades: ClassVar[bool] = True
    span: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unjudged: ClassVar[Unjudged] = "not relevant"

    @abstractmethod
    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the value of each list `(n_lists,)`, NaN where undefined; differentiable where the ranks are smooth.

        The arguments describe the same items: all relevant ones of every list, and possibly others.

        Args:
            ranks: the items' ranks; `ranks.sizes` counts all items of each list.
            relevance: `(n_items,)`, grades from 0.
            lists: the lists' limits.

        Returns:
            A floating-point tensor `(n_lists,)`.
        """

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        """Return the weights of items whose sums over the items above each item `ranks.above` holds; none by default.

        Args:
            relevance: `(n_items,)`, grades from 0.

        Returns:
            Any number of tensors `(n_items,)`.
        """
        return ()

    def relevant(self, relevance: Tensor) -> Tensor:
        """Return a mask of the items that the metric counts as relevant.

        Args:
            relevance: `(n_items,)`, grades from 0.

        Returns:
            A boolean tensor `(n_items,)`.
        """
        return relevance > 0

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the informative lists, whose value depends on the order; a loss uses only them.

        By default they are the lists with a relevant item.

        Args:
            relevance: `(n_items,)`, grades of all items.
            lists: the limits of the lists of all items.

        Returns:
            A boolean tensor `(n_lists,)`.
        """
        return lists.sum(self.relevant(relevance)) > 0

    def of_order(self, ranked: Tensor, lists: Lists) -> Tensor:
        """Return the value of each list, given the relevance of its items from rank 1 down.

        Args:
            ranked: `(n_items,)`, grades from 0.
            lists: the lists' limits.

        Returns:
            A tensor `(n_lists,)`, NaN where undefined.
        """
        return self.of_ranks(ranks_in_order(lists, self.rank_weights(ranked)), ranked, lists)

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the mean over all orders of the tied items.

        By default it is exact for a list whose ties admit at most `TIE_BREAKS` distinct orders of grades; otherwise it
        is the mean over that many random orders, which depend on the list's scores and grades alone.

        Args:
            blocks: the blocks of items with equal scores.
            relevance: `(n_items,)`, grades from 0.
            lists: the lists' limits.

        Returns:
            A float64 tensor `(n_lists,)`, NaN where undefined.
        """
        mean = torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        for ranked, weight in orders_of_ties(blocks, relevance, lists, TIE_BREAKS):
            values = self.of_order(ranked, lists)
            mean = mean + torch.where(weight > 0, weight * values, 0.0)
        return mean

    def in_range(self, value: Tensor) -> Tensor:
        """Return values of orders without what rounding adds beyond the metric's span, and without a negative zero.

        Args:
            value: `(n_lists,)`, NaN where undefined.

        Returns:
            A tensor `(n_lists,)`.
        """
        return value.clamp(*self.span) + 0.0

    def formula(self) -> Formula | None:
        """Return the formula by which compiled kernels know the metric, by default none.

        It counts for the class that defines it alone: a subclass may change what it inherits.
        """
        return None

    @property
    def has_formula_for_ties(self) -> bool:
        """True if the metric has its own `of_blocks`."""
        return type(self).of_blocks is not Metric.of_blocks

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the extremes over all orders of a list with binary relevance; `None` without a closed form.

        Args:
            n: `(n_lists,)`, the number of items.
            p: `(n_lists,)`, the number of relevant items.

        Returns:
            The minimum and the maximum, each `(n_lists,)`, float64; NaN where undefined.
        """
        return None

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor | None:
        """Return the mean over all orders of a list with binary relevance; `None` without a closed form.

        Args:
            n: `(n_lists,)`, the number of items.
            p: `(n_lists,)`, the number of relevant items.

        Returns:
            A float64 tensor `(n_lists,)`, NaN where undefined.
        """
        return None

    def weighted(self, relevance: Tensor, weights: Tensor) -> Tensor:
        """Return grades whose gains are those of `relevance` times the items' weights; refused without gains.

        Args:
            relevance: `(n_items,)`, grades from 0.
            weights: `(n_items,)`, from 0.

        Returns:
            A float64 tensor `(n_items,)`.

        Raises:
            ValueError: for a metric other than nDCG, DCG and CG.
        """
        raise ValueError(
            f"weights: found weights of items for {self}, which has no gains that they could multiply; expected nDCG, "
            "DCG or CG"
        )

    def __call__(
        self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike, *, weights: ArrayLike | None = None
    ) -> Any:
        """Return the metric of each list, float64 `(n_lists,)`, NaN where undefined.

        Args:
            scores: `(n_items,)`, finite; higher is better. The metric is averaged over all orders of tied items.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.
            weights: `(n_items,)`, from 0, which multiply the gains of nDCG, DCG and CG, also in the ideal order.

        Returns:
            A numpy array, or a tensor if `scores` is one.

        Raises:
            ValueError: for arguments of different lengths, invalid offsets, scores that aren't finite, grades or
                weights that are negative, NaN or infinite, or weights for a metric without gains.
        """
        if weights is not None:
            grades = beside(as_tensor(scores, "scores"), relevance, "relevance")
            require_grades(grades)
            exact = grades.to(torch.float64)
            relevance = self.weighted(grades, weights_of(weights, "weights", len(exact), exact))
        # Kernels compute gains of whole grades without loss, but not the small ones that weights make.
        by_kernel = None if weights is None else False
        value = values_of([self], scores, relevance, offsets, by_kernel=by_kernel)[str(self)]
        return value if isinstance(scores, Tensor) else value.numpy()

    def __str__(self) -> str:
        return text_of(self)


def values_of(
    metrics: Iterable[Metric],
    scores: ArrayLike,
    relevance: ArrayLike,
    offsets: ArrayLike,
    *,
    by_kernel: bool | None = None,
) -> dict[str, Tensor]:
    """Return the values of each list, float64 `(n_lists,)`, by the metrics' texts.

    `by_kernel` says whether a compiled kernel may be used, by default for many items; the last digits depend on it.
    """
    chosen, flat = list(metrics), as_tensor(scores, "scores").detach()
    grades = beside(flat, relevance, "relevance")
    lists = Lists.checked(offsets, len(flat), flat.device)
    require_finite(as_floating(flat))
    require_grades(grades)
    if are_fractions(grades):
        for metric in chosen:
            warn_of_fractions(str(metric), grades, metric.relevant)
    worth = len(flat) >= WORTH_A_KERNEL if by_kernel is None else by_kernel
    may = worth and flat.device.type == "cpu" and usable()
    known = [metric for metric in chosen if may and formula_of(metric) is not None]
    values = _by_kernel(known, flat, grades, lists) if known else {}
    if others := [metric for metric in chosen if str(metric) not in values]:
        values |= _by_sorting(others, flat, grades, lists)
    return {str(metric): metric.in_range(values[str(metric)]) for metric in chosen}


def formula_of(metric: Metric) -> Formula | None:
    """Return the formula of a metric whose own class defines it."""
    return metric.formula() if "formula" in vars(type(metric)) else None


def _by_kernel(metrics: Sequence[Metric], scores: Tensor, grades: Tensor, lists: Lists) -> dict[str, Tensor]:
    """Return the values of metrics with formulas, those of tied lists by their blocks; none for extreme grades."""
    from rankbound.fused.evaluation import of_untied_lists

    known = [formula for metric in metrics if (formula := formula_of(metric))]
    numbers = np.array([(*formula.numbers, formula.persistence) for formula in known], dtype=np.float64)
    values = torch.empty(len(metrics), len(lists), dtype=torch.float64)
    tied = torch.empty(len(lists), dtype=torch.bool)
    inputs = scores.to(torch.float64), grades.to(torch.float64), lists.offsets
    x, y, offsets = (tensor.contiguous().numpy() for tensor in inputs)
    n_tied = of_untied_lists(x, y, offsets, numbers, HIGHEST_GRADE, tied.numpy(), values.numpy())
    if n_tied < 0:
        return {}
    if n_tied:
        items = lists.spread(tied)
        rest = Lists.of_sizes(lists.sizes[tied])
        of_tied = _by_sorting(metrics, scores[items], grades[items], rest)
        for place, metric in enumerate(metrics):
            values[place, tied] = of_tied[str(metric)]
    return {str(metric): row for metric, row in zip(metrics, values, strict=True)}


def _by_sorting(metrics: Sequence[Metric], flat: Tensor, grades: Tensor, lists: Lists) -> dict[str, Tensor]:
    order = descending_order(flat, lists)
    starts = block_starts(flat.index_select(0, order), lists)
    if bool(starts.all()):
        ranked = grades.index_select(0, order)
        return {str(metric): metric.of_order(ranked, lists) for metric in metrics}
    blocks = blocks_of(order, starts, lists)
    return {str(metric): metric.of_blocks(blocks, grades, lists) for metric in metrics}


def value_of_blocks(metric: Metric, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
    """Return the value of each list `(n_lists,)`, the mean over the orders of tied items if there are any."""
    if blocks.has_ties:
        return metric.of_blocks(blocks, relevance, lists)
    return metric.of_order(relevance.index_select(0, blocks.order), lists)


@dataclass(frozen=True, kw_only=True)
class Thresholded(Metric):
    """A metric of binary relevance: items of at least grade `rel` are relevant."""

    uses_grades: ClassVar[bool] = False

    rel: int = 1

    def __post_init__(self) -> None:
        if self.rel < 1:
            raise ValueError(f"metric {self.name}: found rel={self.rel}, expected a grade from 1")
        require_cutoff(self.name, getattr(self, "cutoff", None))

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel


def require_cutoff(name: str, cutoff: int | None) -> None:
    """Raise `ValueError` for a cut-off below 1 or between two ranks."""
    if cutoff is not None and not isinstance(cutoff, Integral):
        raise ValueError(f"metric {name}: found cut-off {cutoff}, expected a whole number from 1")
    if cutoff is not None and cutoff < 1:
        raise ValueError(f"metric {name}: found cut-off {cutoff}, expected at least 1")


def ratio(values: Tensor, divisor: Tensor) -> Tensor:
    """Return `values / divisor`; NaN, without a gradient, where the divisor is 0 or NaN."""
    divisor = torch.nan_to_num(divisor).to(values)
    return torch.where(divisor == 0, torch.nan, values / torch.where(divisor == 0, 1.0, divisor))
