"""The base of bounds: maps of a metric's value that depend on the list's size (thesis chapter 3).

A bound is applied to the metric itself; a loss is negated afterwards where higher is better. To add a bound, define a
class with a `name` in a module of this package.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds.extremes import (
    Counts,
    binary_expectation,
    binary_extremes,
    checked_counts,
    differ,
    list_expectation,
    list_extremes,
)
from rankbound.bounds.profiles import Profiles
from rankbound.bounds.sampled import UNIFORM
from rankbound.bounds.score_distribution import Gain
from rankbound.bounds.tables import DistributionsOnDemand
from rankbound.gradients import through_transforms
from rankbound.kernels.formulas import Floats, Integers
from rankbound.lists import ArrayLike, Lists, as_tensor, is_transformed
from rankbound.metrics import Metric, metric
from rankbound.texts import build, named_kinds, split_text, text_of, unknown_name

CumulativeDistribution = Callable[[Tensor, Profiles, Gain], Tensor]
"""The step or smooth CDF of a metric: maps each list's value to the share of random orders with at most that score,
`(n_lists,)`. The gain applies to the smooth CDF only."""


class Facts:
    """The facts about each list that bounds use: extremes, mean and distribution of the metric, each `(n_lists,)`.

    `distribution` is used by the distribution bound only, for lists whose orders differ in score.
    """

    def __init__(
        self,
        metric: Metric,
        profiles: Callable[[], Profiles],
        informative: Tensor,
        distribution: CumulativeDistribution,
    ) -> None:
        self.metric, self._profiles_when_asked = metric, profiles
        self.informative, self.distribution = informative, distribution

    @classmethod
    def of_lists(cls, metric: Metric, relevance: Tensor, lists: Lists, distribution: CumulativeDistribution) -> "Facts":
        informative = metric.informative(relevance, lists)
        return cls(metric, lambda: Profiles.of_lists(metric, relevance, lists), informative, distribution)

    @classmethod
    def of_counts(cls, metric: Metric, n: Tensor, p: Tensor, distribution: CumulativeDistribution) -> "Facts":
        return cls(metric, lambda: Profiles(n, p), p > 0, distribution)

    def select(self, index: Tensor) -> "Facts":
        """Return the facts about some of the lists, taken from these, which are computed once."""
        return _SelectedFacts(self, index)

    @cached_property
    def profiles(self) -> Profiles:
        """The profiles of the lists; the unbounded loss never computes them."""
        return self._profiles_when_asked()

    @cached_property
    def _extremes(self) -> tuple[Tensor, Tensor]:
        if self.profiles.graded is not None:
            return list_extremes(self.metric, *self.profiles.graded)
        low, high = binary_extremes(self.metric, *self._counts(), device=self.profiles.n.device)
        return self._on_device(low), self._on_device(high)

    @property
    def minimum(self) -> Tensor:
        return self._extremes[0]

    @property
    def maximum(self) -> Tensor:
        return self._extremes[1]

    @cached_property
    def expectation(self) -> Tensor:
        if self.profiles.graded is not None:
            return list_expectation(self.metric, *self.profiles.graded, self._extremes)
        n, p = self._counts()
        low, high = (end.cpu().numpy() for end in self._extremes)
        device = self.profiles.n.device
        return self._on_device(binary_expectation(self.metric, n.clip(min=1), p, (low, high), device))

    @cached_property
    def orders_differ(self) -> Tensor:
        """A mask of the lists whose score depends on the order; P@10 of five items, for example, doesn't."""
        differs: Tensor = differ(self.minimum, self.maximum)
        return differs

    def _counts(self) -> tuple[Integers, Integers]:
        return self.profiles.n.cpu().numpy(), self.profiles.p.cpu().numpy()

    def _on_device(self, values: Floats) -> Tensor:
        return torch.from_numpy(values).to(self.profiles.n.device)


class _SelectedFacts(Facts):
    """The facts about some lists of a batch, whose facts are known."""

    def __init__(self, whole: Facts, index: Tensor) -> None:
        informative = whole.informative.index_select(0, index)
        super().__init__(whole.metric, lambda: whole.profiles.select(index), informative, whole.distribution)
        self._whole, self._index = whole, index

    @cached_property
    def _extremes(self) -> tuple[Tensor, Tensor]:
        return self._whole.minimum.index_select(0, self._index), self._whole.maximum.index_select(0, self._index)

    @cached_property
    def expectation(self) -> Tensor:
        return self._whole.expectation.index_select(0, self._index)

    @cached_property
    def orders_differ(self) -> Tensor:
        return self._whole.orders_differ.index_select(0, self._index)


class Bound(ABC):
    """A map from a metric's value and facts about the list to the bounded value; a value object with a text.

    Attributes:
        name: the name that begins the bound's text.
    """

    name: ClassVar[str]

    @property
    def tilt(self) -> float:
        """The tilt of the orders whose distribution the bound uses; 1 without one."""
        return UNIFORM

    @abstractmethod
    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        """Return the bounded value of each list, not negated; NaN where the bound is undefined."""

    def informative(self, facts: Facts) -> Tensor:
        """Return a mask `(n_lists,)` of the informative lists: those whose bounded value depends on the order."""
        return facts.informative & facts.orders_differ

    def __str__(self) -> str:
        return text_of(self)


def bound(text: str | Bound) -> Bound:
    """Return the bound that `text` names: none, min-max, expectation, expectation-max, distribution(gain=sd), ...

    Args:
        text: the text, or a bound, which is returned unchanged.

    Returns:
        The bound; `str` gives its text.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), gain or parameter, or a tilt that isn't
            above 0.

    >>> str(rb.bound("distribution(gain=sd)"))
    'distribution(gain=sd)'
    """
    if isinstance(text, Bound):
        return text
    name, parameters, cutoff = split_text(text, "bound")
    if name not in kinds():
        raise unknown_name("bound", text, name, kinds())
    return build(kinds()[name], text, parameters, cutoff, "bound")


@cache
def kinds() -> dict[str, type[Bound]]:
    """Return the bounds by name: the named classes in the modules of this package, which are imported."""
    return dict(named_kinds("rankbound.bounds", Bound))


@dataclass(frozen=True)
class BoundedMetric:
    """A metric with a bound, called like a metric (thesis chapter 3).

    $$B_t(M_t)$$

    with $M_t$ the metric's value and $B_t$ the bound of list t. It is not negated: for the nRBP loss, lower is better.

    Args:
        metric: the metric.
        bound: the bound.

    >>> rb.BoundedMetric(rb.metric("RR"), rb.bound("min-max"))([0.2, 0.3, 0.1], [1, 0, 0], [0, 3])
    array([0.25])
    """

    metric: Metric
    bound: Bound

    def __call__(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Any:
        """Return the bounded metric of each list, float64 `(n_lists,)`; NaN where metric or bound is undefined.

        Args:
            scores: `(n_items,)`, finite; higher is better. The metric is averaged over all orders of tied items, then
                bounded.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Returns:
            A numpy array, or a tensor if `scores` is one.

        Raises:
            ValueError: as `Metric.__call__`.
        """
        if is_transformed():
            bounded = through_transforms(self._value, as_tensor(scores, "scores"), offsets, relevance)
        else:
            bounded = self._value(scores, offsets, relevance)
        return bounded if isinstance(scores, Tensor) else bounded.numpy()

    def _value(self, scores: ArrayLike, offsets: ArrayLike, relevance: ArrayLike) -> Tensor:
        value = self.metric._value(scores, offsets, relevance)
        grades = as_tensor(relevance, "relevance").detach().contiguous()
        facts = Facts.of_lists(self.metric, grades, Lists.checked(offsets, len(grades)), self._cdf)
        return self._bound(value, facts)

    def from_value(self, value: ArrayLike | float, n: Counts, p: Counts) -> npt.NDArray[np.float64]:
        """Bound the metric's value for lists of binary relevance; the arguments are broadcast.

        Args:
            value: the metric's value, of any shape.
            n: the number of items.
            p: the number of relevant items.

        Returns:
            The bounded values, in the common shape; NaN where undefined.

        Raises:
            ValueError: unless `n` and `p` are integers, 0 <= p <= n and n >= 1.
        """
        arrays = np.broadcast_arrays(np.asarray(value, np.float64), *checked_counts(self.metric, n, p))
        values, sizes, counts = (torch.from_numpy(np.ascontiguousarray(array).ravel()) for array in arrays)
        facts = Facts.of_counts(self.metric, sizes, counts, self._cdf)
        bounded: npt.NDArray[np.float64] = self._bound(values, facts).numpy()
        return bounded.reshape(arrays[0].shape)

    def _bound(self, value: Tensor, facts: Facts) -> Tensor:
        """Bound the value, which rounding must not carry beyond the extremes: min-max is from 0 to 1."""
        if self.bound.name == "none":
            return value
        low, high = facts.minimum, facts.maximum
        value = torch.where((value < low) & ~differ(value, low), low, value)
        value = torch.where((value > high) & ~differ(high, value), high, value)
        return self.bound(value, facts)

    def _cdf(self, values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
        """Return the step CDF (thesis algorithm 1), which has no gain."""
        known, which = DistributionsOnDemand(self.metric, tilt=self.bound.tilt).of(profiles)
        result = torch.empty_like(values)
        for index, distribution in enumerate(known):
            own = which == index
            result[own] = torch.from_numpy(distribution.cdf(values[own].cpu().numpy())).to(values)
        return result

    def __str__(self) -> str:
        return f"{self.metric} {self.bound}"


def bounded(of: str | Metric, by: str | Bound) -> BoundedMetric:
    """Return the metric `of` with the bound `by`: `bounded("nDCG", "min-max")` (thesis chapter 3).

    Args:
        of: the metric or its text.
        by: the bound or its text.

    Returns:
        The bounded metric, which is called like a metric.

    Raises:
        ValueError: for a text that names no metric or bound.

    >>> rb.bounded("RR", "min-max")([0.2, 0.3, 0.1], [1, 0, 0], [0, 3])
    array([0.25])
    """
    return BoundedMetric(metric(of), bound(by))
