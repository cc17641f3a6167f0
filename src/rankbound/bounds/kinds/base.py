"""The base class of bounds, and the facts about lists that bounds use."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, Protocol

from torch import Tensor

from rankbound.bounds._score_distribution import Gain
from rankbound.bounds.extremes import binary_expectation, binary_extremes, differ, list_expectation, list_extremes
from rankbound.bounds.profiles import Profiles
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.texts import text_of


class CumulativeDistribution(Protocol):
    """The step or smooth CDF of a metric over random orders of lists."""

    def __call__(self, values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
        """Return the share of random orders of each list with a score of at most its value, `(n_lists,)`.

        `gain` applies to the smooth CDF only.
        """


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
            return list_expectation(self.metric, *self.profiles.graded, self._extremes)
        return binary_expectation(self.metric, self.profiles.n.clamp(min=1), self.profiles.p, self._extremes)

    @cached_property
    def orders_differ(self) -> Tensor:
        """A mask of the lists whose score depends on the order; P@10 of five items, for example, doesn't."""
        return differ(self.minimum, self.maximum)


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
    """A map from a metric's value and facts about the list to the bounded value; a value object with a text."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        """Return the bounded value of each list, not negated; NaN where the bound is undefined."""

    def informative(self, facts: Facts) -> Tensor:
        """Return a mask `(n_lists,)` of the informative lists: those whose bounded value depends on the order."""
        return facts.informative & facts.orders_differ

    def __str__(self) -> str:
        return text_of(self)
