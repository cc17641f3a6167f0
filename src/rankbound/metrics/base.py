"""The base class of metrics, a value with a text and one function of ranks, and the evaluation of lists by metrics."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from rankbound.kernels.formulas import GAINS, Floats, Formula, Integers, discounts_of, gains_of
from rankbound.kernels.ties import values_of_ranking
from rankbound.lazy import ArrayLike, Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.texts import LARGEST_EXACT, require_exact, text_of

# Number of orders of a list's ties over which a metric without a closed form is averaged.
TIE_BREAKS = 200

# Loading a compiled kernel takes as long as the evaluation of this many items without it.
WORTH_A_KERNEL = 1_000_000
_KERNEL = "rankbound.kernels.evaluation"
# Higher grades are evaluated without.
HIGHEST_GRADE = 100
GAINS_OF_GRADES = np.stack([gains_of(np.arange(HIGHEST_GRADE + 1.0), gain) for gain in GAINS])

# Ranks up to a cut-off over which a divisor is summed.
MOST_RANKS = 10_000_000

# The parameters of a formula, by a metric's attributes.
PARAMETERS = {name: name for name in ("rel", "gain", "discount", "cutoff", "normalised")} | {"persistence": "p"}

# How a metric takes the unjudged items of a run, as of `Metric.unjudged`.
Unjudged = Literal["not relevant", "left out", "marked"]

# The relevance of marked items: not judged though in the pool (-1 in TREC qrels), and not in the qrels at all.
POOLED, NOT_POOLED = -1.0, -2.0

Array = npt.NDArray[Any]
Values = TypeVar("Values", Tensor, Array)
"""Tensors in, tensors out, and the same of arrays."""


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A ranking metric, evaluated on each list of a batch.

    Subclasses are frozen dataclasses whose fields are the metric's parameters. `of_ranks` suffices for a metric, a
    bounded metric and a loss; the closed forms (`of_blocks`, `binary_extremes`, `binary_expectation`) are optional.

    In all methods, `relevance` `(n_items,)` are grades from 0 and `lists` the limits of the lists that have these
    items; `n` and `p` `(n_lists,)` are the numbers of items and of relevant items of lists with binary relevance. The
    results are tensors, or arrays for `n` and `p`: floating-point numbers or a mask, one per list or item.

    Attributes:
        name: the name that begins the metric's text.
        higher_is_better: false for errors, which a loss does not negate.
        uses_grades: false if only the set of relevant items counts.
        span: the smallest and the largest value that any order of any list can have; rounding is clipped to it.
        unjudged: the treatment of a run's unjudged items by `rankbound.evaluate_run`: they are `not relevant`,
            `left out` of the ranking, or `marked` by a negative relevance, which `relevant` must be false for.
        formula: the number of the formula by which compiled evaluation and losses know the metric, if any. It counts
            for the class that sets it alone: a subclass may change what it inherits.

    >>> ndcg = rb.metric("nDCG@10")
    >>> ndcg([0.3, 0.1, 0.2, 0.9], [0, 1, 0, 1], [0, 3, 4])
    array([0.5, 1. ])
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    uses_grades: ClassVar[bool] = True
    span: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    unjudged: ClassVar[Unjudged] = "not relevant"
    formula: ClassVar[int | None] = None

    @abstractmethod
    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the value of each list, NaN where undefined; differentiable where the ranks are smooth.

        The arguments describe the same items: all relevant ones of every list, and possibly others.

        Args:
            ranks: the items' ranks; `ranks.sizes` counts all items of each list.
        """

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        """Return weights `(n_items,)`, by default none; `ranks.above` has their sums over the items above each item."""
        return ()

    def relevant(self, relevance: Tensor) -> Tensor:
        """Return a mask of the items that the metric counts as relevant."""
        return relevance > 0

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the informative lists, whose value depends on the order; a loss uses only them.

        By default they are the lists with a relevant item. All items of the lists are given.
        """
        return lists.sum(self.relevant(relevance)) > 0

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the mean over all orders of the tied items, float64, NaN where undefined.

        By default it is that of the metric's `formula`; without one, it is exact for a list whose ties admit at most
        `TIE_BREAKS` distinct orders of grades, and otherwise the mean over that many random orders, which depend on the
        list's scores and grades alone.

        Args:
            blocks: the blocks of items with equal scores.
        """
        if formula := formula_of(self):

            def value(ranked: Array, block: Array, offsets: Array) -> Array:
                (mean,) = values_of_ranking([formula], ranked, np.diff(block, prepend=-1) > 0, offsets)
                return mean

            return by_arrays(value, relevance[blocks.order], blocks.block, lists.offsets)
        from rankbound.ranks import orders_of_ties

        mean = torch.zeros(len(lists), dtype=torch.float64, device=lists.device)
        for ranked, weight in orders_of_ties(blocks, relevance, lists, TIE_BREAKS):
            mean = mean + torch.where(weight > 0, weight * _of_ranking(self, ranked, lists), 0.0)
        return mean

    def in_range(self, value: Values) -> Values:
        """Return values of orders without what rounding adds beyond the metric's span, and without a negative zero.

        Args:
            value: `(n_lists,)`, a tensor or an array, NaN where undefined.
        """
        return value.clip(*self.span) + 0.0

    def require_gains_that_fit(self, relevance: Tensor, dtype: "torch.dtype") -> None:
        """Raise `ValueError` for grades whose gains, or sums of them, exceed a floating type; by default for none.

        Args:
            dtype: the type of the scores.
        """
        return

    @property
    def has_formula_for_ties(self) -> bool:
        """True if the metric has its own `of_blocks`, or a formula."""
        return type(self).of_blocks is not Metric.of_blocks or formula_of(self) is not None

    def binary_extremes(self, n: Integers, p: Integers) -> tuple[Floats, Floats] | None:
        """Return the minimum and the maximum over all orders, NaN where undefined; `None` without a closed form."""
        return None

    def binary_expectation(self, n: Integers, p: Integers) -> Floats | None:
        """Return the mean over all orders, NaN where undefined; `None` without a closed form."""
        return None

    def weighted(self, relevance: Tensor, weights: Tensor) -> Tensor:
        """Return grades whose gains are those of `relevance` times the items' weights, float64.

        Args:
            weights: `(n_items,)`, from 0.

        Raises:
            ValueError: for a metric without gains, other than nDCG, DCG and CG.
        """
        raise ValueError(
            f"weights: found weights of items for {self}, which has no gains that they could multiply; expected nDCG, "
            "DCG or CG"
        )

    def __call__(
        self,
        scores: ArrayLike,
        relevance: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        mask: Any = None,
        lengths: Any = None,
    ) -> Any:
        """Return the metric of each list, float64 `(n_lists,)`, NaN where undefined.

        Args:
            scores: `(n_items,)`, finite; higher is better. The metric is averaged over all orders of tied items.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits. Without them, flat arguments are one list, padded ones
                `(n_lists, longest)` have all their items, or those of `mask` or `lengths`, and sequences of sequences
                one for each list.
            weights: `(n_items,)`, from 0, which multiply the gains of nDCG, DCG and CG, also in the ideal order.
            mask: `(n_lists, longest)`, boolean, true at the items of padded `scores`, `relevance` and `weights`; or
            lengths: `(n_lists,)`, the number of items at the beginning of each of their rows.

        Returns:
            A numpy array, or a tensor if `scores` is one.

        Raises:
            ValueError: for arguments of different lengths, invalid offsets, scores that aren't finite, grades or
                weights that are negative, NaN or infinite, or weights for a metric without gains.
        """
        is_tensor = isinstance(scores, torch.Tensor)
        if offsets is None or mask is not None or lengths is not None:
            from rankbound.lists import laid_out

            offsets, flat = laid_out(offsets, mask, lengths, scores=scores, relevance=relevance, weights=weights)
            scores, relevance, weights = flat["scores"], flat["relevance"], flat["weights"]
        (value,) = values_of([self], scores, relevance, offsets, weights=weights).values()
        return value if is_tensor else value.numpy()

    def _value(
        self, scores: ArrayLike, offsets: ArrayLike, relevance: ArrayLike, weights: ArrayLike | None = None
    ) -> Tensor:
        return _values_of([self], scores, offsets, relevance, weights)[0]

    def __str__(self) -> str:
        return text_of(self)

    def __post_init__(self) -> None:
        if (cutoff := getattr(self, "cutoff", None)) is not None:
            found = f"metric {self.name}: found cut-off"
            if not isinstance(cutoff, Integral):
                raise ValueError(f"{found} {cutoff}, expected a whole number from 1")
            if cutoff < 1:
                raise ValueError(f"{found} {cutoff}, expected at least 1")
            require_exact(int(cutoff), found)

    def _require(self, parameter: str, valid: bool, expected: str) -> None:
        """Raise `ValueError` for a parameter that is not valid."""
        if not valid:
            raise ValueError(f"metric {self.name}: found {parameter}={getattr(self, parameter)}, expected {expected}")

    def _require_summed(self) -> None:
        """Raise `ValueError` for a cut-off with too many ranks for a sum over them."""
        if (cutoff := getattr(self, "cutoff", None) or 0) > MOST_RANKS:
            raise ValueError(
                f"metric {self.name}: found cut-off {cutoff}, expected at most {MOST_RANKS}, over whose ranks the "
                "divisor is summed"
            )


def values_of(
    metrics: Iterable[Metric],
    scores: ArrayLike,
    relevance: ArrayLike,
    offsets: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    by_kernel: bool | None = None,
) -> dict[str, Tensor]:
    """Return the values of each list, float64 `(n_lists,)`, by the metrics' texts.

    `by_kernel` says whether a compiled kernel may be used, by default for many items or once it is loaded; it decides
    the time that the evaluation takes, and no digit of the values. Under the transforms of PyTorch, they are constants.
    """
    from rankbound.gradients import through_transforms
    from rankbound.lists import as_tensor, is_transformed

    chosen = list(metrics)
    if is_transformed():
        flat = as_tensor(scores, "scores")
        values = [through_transforms(one._value, flat, offsets, relevance, weights) for one in chosen]
    else:
        values = _values_of(chosen, scores, offsets, relevance, weights, by_kernel)
    return dict(zip(map(str, chosen), values, strict=True))


def _values_of(
    chosen: Sequence[Metric],
    scores: ArrayLike,
    offsets: ArrayLike,
    relevance: ArrayLike,
    weights: ArrayLike | None = None,
    by_kernel: bool | None = None,
) -> list[Tensor]:
    from rankbound import lists as checks
    from rankbound.kernels import usable
    from rankbound.ranks import block_starts, descending_order

    flat = checks.as_tensor(scores, "scores").detach()
    if flat.is_meta:
        raise ValueError("scores: found a tensor on meta, which holds no numbers; expected one on another device")
    grades = checks.beside(flat, relevance, "relevance")
    if weights is not None:
        checks.require_grades(grades)
        exact = grades.to(torch.float64)
        grades = chosen[0].weighted(grades, checks.weights_of(weights, "weights", len(exact), exact))
    lists = checks.Lists.checked(offsets, len(flat), flat.device)
    checks.require_finite(checks.as_floating(flat))
    checks.require_grades(grades)
    # Narrow types hold neither a threshold above their range nor sums.
    grades = grades.to(torch.float64 if grades.is_floating_point() else torch.int64)
    fractions = checks.are_fractions(grades)
    for metric in chosen:
        metric.require_gains_that_fit(grades, torch.float64)
        if fractions:
            checks.warn_of_fractions(str(metric), grades, metric.relevant)
    if by_kernel is None:
        by_kernel = len(flat) >= WORTH_A_KERNEL or _KERNEL in sys.modules
    values: dict[Metric, Tensor] = {}
    # Kernels compare scores in double precision, in which larger whole numbers are not exact.
    if by_kernel and flat.is_cpu and usable() and (flat.is_floating_point() or _are_exact(flat)):
        values = _by_kernel(chosen, flat, grades, lists)
    if others := [metric for metric in chosen if metric not in values]:
        order = descending_order(flat, lists)
        starts = block_starts(flat.index_select(0, order), lists)
        values |= values_in_order(others, order, starts, grades, lists)
    return [metric.in_range(values[metric]) for metric in chosen]


def _are_exact(whole: Tensor) -> bool:
    return not len(whole) or -LARGEST_EXACT <= int(whole.min()) <= int(whole.max()) <= LARGEST_EXACT


def formula_of(metric: Metric) -> Formula | None:
    """Return the formula of a metric whose own class has one, with the metric's parameters."""
    kind = vars(type(metric)).get("formula")
    # The formula of AP divides by the number of all relevant items.
    if kind is None or getattr(metric, "divisor", "relevant") != "relevant":
        return None
    parameters = {theirs: getattr(metric, ours) for theirs, ours in PARAMETERS.items() if hasattr(metric, ours)}
    return Formula(kind=kind, **parameters)


def _formulas_of(metrics: Iterable[Metric]) -> dict[Metric, Formula]:
    return {metric: formula for metric in metrics if (formula := formula_of(metric))}


def _by_kernel(metrics: Sequence[Metric], scores: Tensor, grades: Tensor, lists: Lists) -> dict[Metric, Tensor]:
    """Return the values of metrics with formulas, those of tied lists by their blocks; none for other grades."""
    from rankbound.ranks import block_starts, descending_order

    if not (known := _formulas_of(metrics)):
        return {}
    tables = list(dict.fromkeys(formula.table for formula in known.values()))
    numbers = [
        (one.kind, one.rel, GAINS.index(one.gain), tables.index(one.table), one.cutoff or math.inf, one.normalised)
        for one in known.values()
    ]
    discounts = np.stack([discounts_of(table, int(lists.sizes.max()) if len(lists) else 0) for table in tables])
    values = torch.empty(len(known), len(lists), dtype=torch.float64, device=lists.device)
    tied = torch.empty(len(lists), dtype=torch.bool, device=lists.device)
    inputs = scores.to(torch.float64), grades.to(torch.float64), lists.offsets
    n_tied = import_module(_KERNEL).of_untied_lists(
        *(tensor.contiguous().numpy() for tensor in inputs),
        np.array(numbers, dtype=np.float64),
        discounts,
        GAINS_OF_GRADES,
        tied.numpy(),
        values.numpy(),
    )
    if n_tied < 0:
        return {}
    if n_tied:
        items, rest = _items_of(tied, lists)
        own = scores.index_select(0, items)
        order = descending_order(own, rest)
        starts = block_starts(own.index_select(0, order), rest)
        of_tied = values_in_order(list(known), order, starts, grades.index_select(0, items), rest)
        values[:, tied] = torch.stack(list(of_tied.values()))
    return dict(zip(known, values, strict=True))


def values_in_order(
    metrics: Sequence[Metric], order: Tensor, starts: Tensor, grades: Tensor, lists: Lists
) -> dict[Metric, Tensor]:
    """Return the values of lists that `order` sorts into blocks of equal scores, which begin where `starts` is true.

    Each list is evaluated as if it were alone: as one order, unless a tie leaves open where an item of a grade other
    than 0 counts.
    """
    from rankbound.ranks import blocks_of

    ranked = grades.index_select(0, order)
    together = _computed_together(grades) and len(grades) > 0
    if (together or grades.is_cpu) and (known := _formulas_of(metrics)):
        if together:
            from rankbound.metrics._on_gpu import values_together

            found = values_together(known, ranked, starts, lists)
        else:
            arrays = (tensor.numpy() for tensor in (ranked, starts, lists.offsets))
            of_formulas = zip(known, values_of_ranking(list(known.values()), *arrays), strict=True)
            found = {metric: torch.from_numpy(value) for metric, value in of_formulas}
        others = [metric for metric in metrics if metric not in known]
        return found | (values_in_order(others, order, starts, grades, lists) if others else {})
    shared = ~starts
    shared[:-1] |= ~starts[1:]
    shared &= ranked != 0
    tied = lists.sum(shared) > 0
    if bool(tied.all()):
        blocks = blocks_of(order, starts, lists)
        return {metric: metric.of_blocks(blocks, grades, lists) for metric in metrics}
    if not bool(tied.any()):
        return {metric: _of_ranking(metric, ranked, lists).to(torch.float64) for metric in metrics}
    values = torch.empty(len(metrics), len(lists), dtype=torch.float64, device=lists.device)
    items, rest = _items_of(~tied, lists)
    of_untied = ranked.index_select(0, items)
    values[:, ~tied] = torch.stack([_of_ranking(metric, of_untied, rest).to(values) for metric in metrics])
    items, rest = _items_of(tied, lists)
    # The places of the tied lists' items among all items, and among theirs.
    moved = rest.spread(lists.offsets[:-1][tied] - rest.offsets[:-1])
    blocks = blocks_of(order.index_select(0, items) - moved, starts.index_select(0, items), rest)
    own = grades.index_select(0, items)
    values[:, tied] = torch.stack([metric.of_blocks(blocks, own, rest).to(values) for metric in metrics])
    return dict(zip(metrics, values, strict=True))


def _computed_together(grades: Tensor) -> bool:
    """Return true for grades on a GPU, where metrics with formulas are means over blocks of ties, all at once."""
    return not grades.is_cpu


def _items_of(chosen: Tensor, lists: Lists) -> tuple[Tensor, Lists]:
    """Return the places of the items of the lists where the mask is true, and these lists."""
    return torch.nonzero(lists.spread(chosen)).squeeze(1), lists.of_sizes(lists.sizes[chosen])


def _of_ranking(metric: Metric, ranked: Tensor, lists: Lists) -> Tensor:
    """Return a metric's values of lists, given the relevance of their items from rank 1 down."""
    from rankbound.ranks import ranks_in_order

    return metric.of_ranks(ranks_in_order(lists, metric.rank_weights(ranked)), ranked, lists)


@dataclass(frozen=True, kw_only=True)
class Thresholded(Metric):
    """A metric of binary relevance: items of at least grade `rel` are relevant."""

    uses_grades: ClassVar[bool] = False
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    rel: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("rel", self.rel >= 1, "a grade from 1")
        require_exact(self.rel, f"metric {self.name}: found rel")

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel


@dataclass(frozen=True, kw_only=True)
class Scaled(Metric):
    """A metric on a scale of grades from 0 to `max`."""

    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    largest_scale: ClassVar[int] = LARGEST_EXACT

    max: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("max", 1 <= self.max <= self.largest_scale, f"the highest grade, 1 to {self.largest_scale}")

    def require_gains_that_fit(self, relevance: Tensor, dtype: "torch.dtype") -> None:
        if (highest := float(relevance.max()) if has_numbers(relevance) else 0.0) > self.max:
            expected = f"grades up to {self.max}, the max of {self}"
            raise ValueError(f"relevance: found grade {highest:g}, expected {expected}")


def exp2(grades: Tensor) -> Tensor:
    """Return $2^y$ of grades from 0, float64, exact for whole ones; each by its own value alone.

    PyTorch's `exp2` of a fraction depends on its place in the tensor, by which it is computed with vector instructions
    or without.
    """
    whole = grades.floor()
    return torch.exp2(whole) * torch.exp((grades - whole) * math.log(2))


def has_numbers(relevance: Tensor) -> bool:
    """Return true for relevance with numbers that may be read."""
    from rankbound.lists import may_read

    return len(relevance) > 0 and may_read(relevance)


def by_arrays(function: Callable[..., Array], *tensors: Tensor) -> Tensor:
    """Return a function of arrays, given tensors, as a tensor on their device."""
    return torch.from_numpy(function(*(tensor.cpu().numpy() for tensor in tensors))).to(tensors[0].device)


def ratio(values: Values, divisor: Values) -> Values:
    """Return `values / divisor`; NaN, without a gradient, where the divisor is 0 or NaN."""
    if isinstance(values, np.ndarray):
        quotient: Array = np.full(values.shape, np.nan)
        return np.divide(values, divisor, out=quotient, where=np.nan_to_num(divisor) != 0)
    divisor = torch.nan_to_num(divisor).to(values)
    return torch.where(divisor == 0, torch.nan, values / torch.where(divisor == 0, 1.0, divisor))
