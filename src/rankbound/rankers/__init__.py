"""Rankers that are fitted without gradients of a loss, and what they share: columns, metrics of many scores, selection.

Features are held as `(n_features, n_items)`, since a weak ranker, a coordinate and a threshold are of one feature each.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rankbound.bounds.base import Bound, BoundedMetric, Unbounded
from rankbound.kernels import formulas, usable
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics.base import formula_of, values_of

ITEMS_AT_ONCE = 2**13
"""The number of items whose features are converted to double precision at once."""

ITEMS_WORTH_THREADS = 50_000
"""The number of items from which the lists are evaluated in several threads."""

BITS = 40
"""Binary digits of the largest score that decide the order; rounding errors are of the 53rd."""

Model = dict[str, npt.NDArray[Any]]
"""The tensors of a model by name."""

Report = Callable[[int, float, float | None], None]
"""Called after each epoch with its number, the training loss and the validation metric, if there is one."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Judged lists with a row per feature.

    Args:
        values: `(n_features, n_items)`, float32.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.
        shares: `(n_lists,)`, the lists' weights, whose sum is 1.
    """

    values: npt.NDArray[np.float32]
    relevance: Floats
    offsets: Integers
    shares: Floats

    def weighted_sum(self, weights: Floats) -> Floats:
        """Return the scores `(n_items,)` of a weight per feature, in double precision."""
        scores = np.empty(self.values.shape[1])
        if usable():
            from rankbound.kernels.rankers import weighted_sum

            weighted_sum(self.values, np.ascontiguousarray(weights), scores)
            return scores
        for block in self._blocks():
            scores[block] = weights @ self.values[:, block].astype(np.float64)
        return scores

    def products(self, values: Floats) -> Floats:
        """Return the product of each feature and a number per item, in double precision."""
        products = np.zeros(len(self.values))
        if usable():
            from rankbound.kernels.rankers import column_products

            column_products(self.values, values, products)
            return products
        for block in self._blocks():
            products += self.values[:, block].astype(np.float64) @ values[block]
        return products

    def _blocks(self) -> list[slice]:
        return [slice(first, first + ITEMS_AT_ONCE) for first in range(0, self.values.shape[1], ITEMS_AT_ONCE)]


class Performance:
    """A bounded metric of lists, at many scores, which are rounded: to single precision, as those of a ranker are.

    Scores that are equal but for rounding errors, which are small beside the largest of all, thus tie: what is left of
    a feature whose weight became 0 decides no order. A list's value is the mean over all orders of tied items.

    Metrics with a formula are computed by a compiled kernel, others one by one.
    """

    def __init__(self, of: Metric, bound: Bound, relevance: Floats, offsets: Integers) -> None:
        self._metric, self._relevance, self._offsets = of, torch.from_numpy(relevance), torch.from_numpy(offsets)
        self._bounded, formula = BoundedMetric(of, bound), formula_of(of)
        self._facts = self._bounded.facts(self._relevance, Lists(self._offsets))
        self._formula: tuple[Any, ...] | None = None
        if formula is not None and formula.kind != formulas.RANK_SUM and usable():
            kind, longest = formula.kind, int(np.diff(offsets).max(initial=0))
            relevant = (relevance > 0) & (relevance >= formula.rel)
            gain = formulas.gains_of(relevance, formula.gain) if kind == formulas.DCG else np.ones_like(relevance)
            ranks, of_first = np.arange(1.0, longest + 1.0), kind in (formulas.RECIPROCAL_RANK, formulas.HIT)
            if kind == formulas.RECIPROCAL_RANK:
                table = 1 / ranks
            else:
                table = formulas.discounts_of(formula.table, longest)[:longest]
            table = np.where(ranks <= (formula.cutoff or np.inf), table, 0.0)
            ranked = formulas.RankedItems.of(np.where(relevant, relevance, 0.0), offsets)
            divisors = ranked.counts.astype(np.float64) if kind == formulas.AP else formulas.normaliser(formula, ranked)
            if of_first:
                divisors = np.where((ranked.counts > 0) | (kind == formulas.HIT), 1.0, np.nan)
            divisors = np.where((divisors > 0) | (kind == formulas.PRECISION), divisors, np.nan)
            # Kernels' numbers of kinds: FIRST, PRECISIONS, SUM.
            kernel = 1 if of_first else 2 if kind == formulas.AP else 0
            self._formula = (np.where(relevant, gain, 0.0), offsets, kernel, table, divisors)
        # Lists for each thread, about the same number of items.
        threads = torch.get_num_threads() if len(relevance) >= ITEMS_WORTH_THREADS else 1
        ends = np.searchsorted(offsets, np.arange(threads + 1) * len(relevance) // threads)
        self._parts = [(int(first), int(last)) for first, last in pairwise(ends.tolist()) if last > first]

    @property
    def largest(self) -> float:
        """The largest absolute value of any order of any list."""
        ends = (self._bounded.of_value(value, self._facts) for value in (self._facts.minimum, self._facts.maximum))
        return max(float(end.abs().nan_to_num(nan=0.0).max()) for end in ends)

    def of_steps(self, scores: Floats, column: npt.NDArray[np.float32], steps: Floats) -> npt.NDArray[Any]:
        """Return the values `(n_steps, n_lists)` at the scores plus each step times a column; NaN where undefined."""
        values = np.empty((len(steps), len(self._offsets) - 1))
        largest = np.abs(scores).max(initial=0.0) + np.abs(steps).max(initial=0.0) * np.abs(column).max(initial=0.0)
        quantum = 2.0 ** (np.ceil(np.log2(largest)) - BITS) if largest > 0 else 1.0
        if self._formula is not None:
            from rankbound.kernels.rankers import values_of_steps

            gains, offsets, kind, table, divisors = self._formula

            def write(part: tuple[int, int]) -> None:
                first, last = part
                rows = slice(offsets[first], offsets[last])
                own = np.empty((len(steps), last - first))
                limits = offsets[first : last + 1] - offsets[first]
                numbers = scores[rows], column[rows], steps, quantum, gains[rows], limits
                values_of_steps(*numbers, kind, table, divisors[first:last], own)
                values[:, first:last] = own

            column = np.ascontiguousarray(column)
            if len(self._parts) == 1:
                write(self._parts[0])
            else:
                with ThreadPoolExecutor(len(self._parts)) as threads:
                    list(threads.map(write, self._parts))
            values = self._metric.in_range(values)
        else:
            lists = self._relevance, self._offsets
            for row, step in zip(values, steps, strict=True):
                moved = np.rint((scores + step * column) / quantum) * quantum
                (row[:],) = values_of([self._metric], torch.from_numpy(moved.astype(np.float32)), *lists).values()
        return self._bounded.of_value(torch.from_numpy(values), self._facts).numpy()

    def of(self, scores: Floats) -> Floats:
        """Return the values `(n_lists,)` at these scores."""
        (values,) = self.of_steps(scores, np.zeros(len(scores), np.float32), np.zeros(1))
        return np.asarray(values)


class Selection:
    """Keeps the model of the best epoch: that of the highest validation metric, the first on ties.

    Without validation lists, it is the one of the lowest training loss, the last on ties.
    """

    def __init__(self, held_out: Columns | None, criterion: Metric, report: Report) -> None:
        self.held_out, self._report = held_out, report
        self.epoch, self.validation, self.model, self._loss = 0, -np.inf, Model(), np.inf
        if held_out is not None:
            self._performance = Performance(criterion, Unbounded(), held_out.relevance, held_out.offsets)

    def offer_weights(self, epoch: int, loss: float, weights: Floats) -> None:
        """Keep the weights of the features after an epoch, if they are the best."""
        scores = None if self.held_out is None else self.held_out.weighted_sum(weights)
        self.offer(epoch, loss, scores, lambda: {"weights": weights.copy()})

    def offer(self, epoch: int, loss: float, scores: Floats | None, model: Callable[[], Model]) -> None:
        """Keep the model after an epoch, if it is the best; `scores` are those of the validation lists."""
        mean = None if scores is None else float(np.nanmean(self._performance.of(scores)))
        if loss <= self._loss if mean is None else mean > self.validation:
            self.epoch, self.model, self._loss = epoch, model(), loss
            self.validation = self.validation if mean is None else mean
        self._report(epoch, loss, mean)
