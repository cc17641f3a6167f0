"""The base class of metrics, a value with a text and one function of ranks, and the evaluation of lists by metrics."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

import numpy as np

from rankbound.kernels import formulas, usable
from rankbound.kernels.formulas import Array, Floats, Formula, Integers
from rankbound.lazy import ArrayLike, Lists, Ranks, Tensor, TieBlocks, torch
from rankbound.texts import LARGEST_EXACT, text_of

# Number of orders of a list's ties over which a metric without a closed form is averaged.
TIE_BREAKS = 200

# Loading a compiled kernel takes as long as the evaluation of this many items without it.
WORTH_A_KERNEL = 1_000_000
_KERNEL = "rankbound.kernels.evaluation"
# Higher grades are evaluated without.
HIGHEST_GRADE = 100
GAINS_OF_GRADES = np.stack([formulas.gains_of(np.arange(HIGHEST_GRADE + 1.0), gain) for gain in formulas.GAINS])

# Ranks up to a cut-off over which a divisor is summed.
MOST_RANKS = 10_000_000

Limits = dict[str, tuple[Callable[[Any], bool], str]]
"""Conditions of parameters by their names, each with what it expects."""

PERSISTENCE: Limits = {"p": (lambda p: 0 <= p < 1, "a persistence in [0, 1)")}


def cutoff_to(most: int, expected: str) -> Limits:
    """Return the limit of a cut-off, if there is one."""
    return {"cutoff": (lambda k: k is None or (isinstance(k, int | np.integer) and 1 <= int(k) <= most), expected)}


def scale_to(largest: int) -> Limits:
    """Return the limit of the highest grade of a scale."""
    return {"max": (lambda top: 1 <= top <= largest, f"the highest grade, 1 to {largest}")}


def one_of(parameter: str, *known: str) -> Limits:
    """Return the limit of a parameter that is one of the known texts."""
    return {parameter: (lambda value: value in known, f"one of {', '.join(known)}")}


SUMMED_RANKS = cutoff_to(MOST_RANKS, f"1 to {MOST_RANKS}, over whose ranks the divisor is summed")

# The parameters of a formula, by a metric's attributes.
PARAMETERS = {name: name for name in ("rel", "gain", "discount", "cutoff", "normalised")} | {"persistence": "p"}

# How a metric takes the unjudged items of a run, as of `Metric.unjudged`.
Unjudged = Literal["not relevant", "left out", "marked"]

# The relevance of marked items: not judged though in the pool (-1 in TREC qrels), and not in the qrels at all.
POOLED, NOT_POOLED = -1.0, -2.0

Values = TypeVar("Values", Tensor, Array)
"""Tensors in, tensors out, and the same of arrays."""


def _refuse(metric: "Metric", name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Metric(ABC):
    """A ranking metric, evaluated on each list of a batch.

    Subclasses become frozen dataclasses, whose fields are the metric's parameters. `of_ranks` suffices for a metric, a
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
        limits: a condition and what it expects, by parameter; those of a class are added to those that it inherits.
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
    limits: ClassVar[Limits] = cutoff_to(LARGEST_EXACT, f"a whole number from 1 to 2^53 ({LARGEST_EXACT})")
    formula: ClassVar[int | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        kinds = (kind for kind in (*reversed(cls.__bases__), cls) if issubclass(kind, Metric))
        cls.limits = {parameter: limit for kind in kinds for parameter, limit in kind.limits.items()}
        dataclass(frozen=True, kw_only=True)(cls)
        # `_refuse` stands in for them; with them, a class that has the decorator as well would be refused.
        for name in ("__setattr__", "__delattr__"):
            delattr(cls, name)

    __setattr__ = __delattr__ = _refuse

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
                (mean,) = formulas.values_of_ranking([formula], ranked, np.diff(block, prepend=-1) > 0, offsets)
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
        from rankbound.lists import laid_out

        is_tensor = isinstance(scores, torch.Tensor)
        offsets, flat = laid_out(offsets, mask, lengths, scores=scores, relevance=relevance, weights=weights)
        (value,) = values_of([self], flat["scores"], flat["relevance"], offsets, weights=flat["weights"]).values()
        return value if is_tensor else value.numpy()

    def _value(
        self, scores: ArrayLike, offsets: ArrayLike, relevance: ArrayLike, weights: ArrayLike | None = None
    ) -> Tensor:
        return _values_of([self], scores, offsets, relevance, weights)[0]

    def __str__(self) -> str:
        return text_of(self)

    def __post_init__(self) -> None:
        for parameter, (is_valid, expected) in self.limits.items():
            if not is_valid(value := getattr(self, parameter, None)):
                found = f"cut-off {value}" if parameter == "cutoff" else f"{parameter}={value}"
                raise ValueError(f"metric {self.name}: found {found}, expected {expected}")


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
    from rankbound.ranks import block_starts, descending_order

    flat = checks.as_tensor(scores, "scores").detach()
    grades = checks.as_tensor(relevance, "relevance", len(flat), flat.device).detach()
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
        (one.kind, one.rel, one.numbers[2], tables.index(one.table), one.cutoff or math.inf, one.normalised)
        for one in known.values()
    ]
    longest = int(lists.sizes.max()) if len(lists) else 0
    discounts = np.stack([formulas.discounts_of(table, longest) for table in tables])
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
            sorted_lists = SortedLists(ranked, starts, lists)
            found = {metric: sorted_lists.value(metric, formula) for metric, formula in known.items()}
        else:
            arrays = (tensor.numpy() for tensor in (ranked, starts, lists.offsets))
            of_formulas = zip(known, formulas.values_of_ranking(list(known.values()), *arrays), strict=True)
            found = {metric: torch.from_numpy(value) for metric, value in of_formulas}
        others = [metric for metric in metrics if metric not in known]
        return found | (values_in_order(others, order, starts, grades, lists) if others else {})
    shared = ~starts
    shared[:-1] |= ~starts[1:]
    shared &= ranked != 0
    tied = lists.sum(shared) > 0
    if not bool(tied.any()):
        return {metric: _of_ranking(metric, ranked, lists).to(torch.float64) for metric in metrics}
    values = torch.empty(len(metrics), len(lists), dtype=torch.float64, device=lists.device)
    for chosen in (tied, ~tied):
        if not bool(chosen.any()):
            continue
        items, rest = _items_of(chosen, lists)
        if chosen is tied:
            # The places of the tied lists' items among all items, and among theirs.
            moved = rest.spread(lists.offsets[:-1][tied] - rest.offsets[:-1])
            blocks = blocks_of(order.index_select(0, items) - moved, starts.index_select(0, items), rest)
            own = grades.index_select(0, items)
            of_metrics = [metric.of_blocks(blocks, own, rest) for metric in metrics]
        else:
            own = ranked.index_select(0, items)
            of_metrics = [_of_ranking(metric, own, rest) for metric in metrics]
        values[:, chosen] = torch.stack([one.to(values) for one in of_metrics])
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


class SortedLists:
    r"""Sorted items of lists on a GPU, of which metrics are sums, each with its block of tied scores.

    The values are means over the orders of tied items, as on a CPU (`rankbound.kernels.formulas`); nothing is copied
    there, and no number of an item is read. An item of a block of $n$ items, $m$ of them relevant, stands for two
    things: itself, which has each of the block's ranks with the same probability, and a place $j$ of the block, which
    the first of its relevant items has with probability $\binom{n-j}{m-1} / \binom{n}{m}$. It has the number of items
    `above` its block, the block's `size`, and its `place` therein.

    `ranked` `(n_items,)` is the relevance of each list by descending score; `starts` `(n_items,)` is true where a block
    of equal scores begins.
    """

    def __init__(self, ranked: Tensor, starts: Tensor, lists: Lists) -> None:
        self.ranked, self.lists = ranked, lists
        index = torch.arange(len(ranked), device=ranked.device)
        self._first = torch.where(starts, index, 0).cummax(0).values
        self._end = torch.where(starts.roll(-1), index, len(ranked)).flip(0).cummin(0).values.flip(0) + 1
        self._list = lists.spread(lists.offsets[:-1])
        self.above, self.size, self.place = self._first - self._list, self._end - self._first, index - self._first + 1
        self._counts = cache(self._counted)

    def _counted(self, rel: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the relevant items, their number in each item's block and above it, and in each list."""
        relevant = self.ranked >= rel if rel > 0 else self.ranked > 0
        total = torch.nn.functional.pad(relevant.cumsum(0), (1, 0))
        at_first = total.index_select(0, self._first)
        inside, before = total.index_select(0, self._end) - at_first, at_first - total.index_select(0, self._list)
        of_lists = total.index_select(0, self.lists.offsets)
        return relevant, inside, before, of_lists.diff().to(torch.float64)

    def value(self, metric: Any, formula: Formula) -> Tensor:
        """Return the values of a metric with a formula, float64 `(n_lists,)`, NaN where undefined."""
        if formula.kind not in (formulas.AP, formulas.RANK_SUM, formulas.RECIPROCAL_RANK, formulas.HIT):
            # A sum over items of gain times discount.
            totals = metric._totals(self.lists)
            mean = (totals.index_select(0, self.above + self.size) - totals.index_select(0, self.above)) / self.size
            terms: Tensor = metric.gains(self.ranked).to(torch.float64) * mean
            divisor: Tensor = metric.normaliser(self.ranked, self.lists)
            return ratio(self.lists.sum(terms), divisor)
        relevant, inside, before, p = self._counts(formula.rel)
        if formula.kind == formulas.AP:
            # The mean precision at a relevant item over the ranks of its block within the cut-off.
            counted = self.size
            if formula.cutoff is not None:
                counted = torch.minimum(self.size, (formula.cutoff - self.above).clamp(min=0))
            reciprocals = _harmonic_difference(self.above, counted)
            others = (inside - 1).to(torch.float64) / (self.size - 1).clamp(min=1)
            mean = (before + 1) * reciprocals + others * (counted - (self.above + 1) * reciprocals)
            return ratio(self.lists.sum(torch.where(relevant, mean / self.size, 0.0)), p)
        if formula.kind == formulas.RANK_SUM:
            mean = self.above + (self.size.to(torch.float64) + 1.0) / 2.0
            total = self.lists.sum(torch.where(relevant, mean, 0.0)) - p * (p + 1.0) / 2.0
            return torch.where(p > 0, total, torch.nan)
        rank = self.above + self.place
        counts = (inside > 0) & (before == 0) & (self.place <= self.size - inside + 1)
        if formula.cutoff is not None:
            counts &= rank <= formula.cutoff
        # The probability that a block's first relevant item has an item's place, where it can.
        table = table_on(self.ranked.device, formulas.log_factorials, formulas.table_size(self.lists.longest + 1))
        n, m, j = (torch.where(counts, one, 1) for one in (self.size, inside, self.place))

        def log_binomial(of: Tensor, k: Tensor) -> Tensor:
            return table.index_select(0, of) - table.index_select(0, k) - table.index_select(0, of - k)

        chance = torch.where(counts, (log_binomial(n - j, m - 1) - log_binomial(n, m)).exp(), 0.0)
        if formula.kind == formulas.HIT:
            return self.lists.sum(chance)
        return torch.where(p > 0, self.lists.sum(chance / rank), torch.nan)


def _harmonic_difference(start: Tensor, count: Tensor) -> Tensor:
    """Return what `harmonic_difference` of `rankbound.kernels.formulas` returns."""
    table, size, stop = _harmonic_on(start.device), formulas.HARMONIC_SIZE, start + count
    low = table.index_select(0, stop.clamp(max=size)) - table.index_select(0, start.clamp(max=size))
    large, beyond = (one.clamp(min=size).to(torch.float64) + 0.5 for one in (start, stop))
    logs = low + torch.log1p((beyond - large) / large)
    difference: Tensor = logs + formulas.harmonic_tail(beyond) - formulas.harmonic_tail(large)
    return difference


@cache
def _harmonic_on(device: "torch.device") -> Tensor:
    return torch.from_numpy(formulas.HARMONIC).to(device)


@lru_cache(maxsize=64)
def table_on(device: "torch.device", table: Callable[..., Floats], *arguments: Any) -> Tensor:
    """Return a table of numbers of these arguments, on a device."""
    return torch.from_numpy(table(*arguments)).to(device)


class Thresholded(Metric):
    """A metric of binary relevance: items of at least grade `rel` are relevant."""

    uses_grades: ClassVar[bool] = False
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    limits: ClassVar[Limits] = {"rel": (lambda rel: 1 <= rel <= LARGEST_EXACT, "a grade from 1 to 2^53")}

    rel: int = 1

    def relevant(self, relevance: Tensor) -> Tensor:
        return relevance >= self.rel


class Scaled(Metric):
    """A metric on a scale of grades from 0 to `max`."""

    span: ClassVar[tuple[float, float]] = (0.0, 1.0)
    limits = scale_to(LARGEST_EXACT)

    max: int

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
        return formulas.quotient(values, divisor)
    divisor = torch.nan_to_num(divisor).to(values)
    return torch.where(divisor == 0, torch.nan, values / torch.where(divisor == 0, 1.0, divisor))
