"""What a bound is, and what it may know of a list."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from rankbound.bounds._score_distribution import Gain
from rankbound.bounds.extremes import binary_expectation, binary_extremes, list_expectation, list_extremes
from rankbound.bounds.profiles import Profiles
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.texts import text_of

# Lists whose extremes lie closer than this have one score whatever the order.
NO_RANGE = 1e-12


class CumulativeDistribution(Protocol):
    """How a metric is distributed over the random orders of lists, the exact steps or smooth ones."""

    def __call__(self, values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
        """The share of random orders of each list that score at most its value, `(n_lists,)`; smooth ones of a gain."""


class Facts:
    """What a bound may know of each list: items, relevant items, and the metric over all orders, all `(n_lists,)`.

    `distribution` is asked by the distribution bound alone, of the lists whose orders differ.
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

    @cached_property
    def profiles(self) -> Profiles:
        """How many items of each grade the lists have; the unbounded loss never asks."""
        return self._profiles_when_asked()

    @cached_property
    def _extremes(self) -> tuple[Tensor, Tensor]:
        if self.profiles.graded is not None:
            return list_extremes(self.metric, *self.profiles.graded)
        return binary_extremes(self.metric, self.profiles.n, self.profiles.p)

    @property
    def minimum(self) -> Tensor:
        return self._extremes[0]

    @property
    def maximum(self) -> Tensor:
        return self._extremes[1]

    @cached_property
    def expectation(self) -> Tensor:
        if self.profiles.graded is not None:
            return list_expectation(self.metric, *self.profiles.graded)
        return binary_expectation(self.metric, self.profiles.n.clamp(min=1), self.profiles.p)

    @cached_property
    def orders_differ(self) -> Tensor:
        """Whether some order of the list scores higher than another: not with P@10 of five items, for example."""
        return torch.nan_to_num(self.maximum - self.minimum) > NO_RANGE


class Bound(ABC):
    """A map from a metric's value and a list's facts to the bounded value; a value object, named by its text."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        """The bounded value per list, not negated; NaN where the bound is undefined."""

    def informative(self, facts: Facts) -> Tensor:
        """Which lists a loss of the bounded metric can learn from, `(n_lists,)`: their orders differ."""
        return facts.informative & facts.orders_differ

    def __str__(self) -> str:
        return text_of(self)
