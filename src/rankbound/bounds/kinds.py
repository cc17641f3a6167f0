"""The five bounds: maps of a metric's value that know the list's size (thesis chapter 3).

A bound is applied to the metric itself; a loss negates afterwards where higher is better.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from rankbound.bounds._score_distribution import GAINS, Gain
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds.extremes import binary_expectation, binary_extremes, list_expectation, list_extremes
from rankbound.bounds.profiles import Profiles
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.texts import build, split_text, text_of, unknown_name

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


@dataclass(frozen=True)
class Unbounded(Bound):
    """The metric as it is."""

    name: ClassVar[str] = "none"

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        return value

    def informative(self, facts: Facts) -> Tensor:
        return facts.informative


class Affine(Bound):
    """A bound that moves the origin and the unit, so that training weighs lists by 1 / unit."""

    @abstractmethod
    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        """The value that becomes 0, and the distance that becomes 1."""

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        origin, unit = self.origin_and_unit(facts)
        usable = unit.abs() > NO_RANGE
        # A division by 0 or NaN would give NaN gradients even to the lists that are masked afterwards.
        divisor = torch.where(usable, unit, 1.0).to(value)
        return torch.where(usable, (value - origin.to(value)) / divisor, torch.nan)


@dataclass(frozen=True)
class MinMax(Affine):
    r"""Thesis eq. 3.1: $(M - M_{min}) / (M_{max} - M_{min})$."""

    name: ClassVar[str] = "min-max"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return facts.minimum, facts.maximum - facts.minimum


@dataclass(frozen=True)
class Expectation(Affine):
    r"""Thesis eq. 3.6: $M / E[M]$."""

    name: ClassVar[str] = "expectation"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(facts.expectation), facts.expectation


@dataclass(frozen=True)
class ExpectationMax(Affine):
    r"""Thesis eq. 3.11: $(M - E[M]) / (M_{max} - E[M])$.

    $M_{max}$ is the largest value; for the nRBP loss that is the worst order's, so that -1 is ideal and 1 worst.
    """

    name: ClassVar[str] = "expectation-max"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return facts.expectation, facts.maximum - facts.expectation


@dataclass(frozen=True)
class Distribution(Bound):
    r"""Thesis eq. 3.12: $F(M)$, the share of random orders that score the same or lower.

    Training uses the smooth $\tilde F$ of algorithm 2, whose steps are sigmoids of a gain $a$: `distinct` is eq. 3.13
    with the number of distinct scores among the random orders (300,000; of graded lists, whose orders are really drawn,
    20,000), `drawn` with the number of orders, and `sd` is one over the standard deviation of the scores.

    With a `tilt` other than 1, which the thesis' conclusion asks for, F is of orders that place relevant items first
    the rather (`score_distribution`; binary relevance alone).
    """

    name: ClassVar[str] = "distribution"

    gain: Gain = "distinct"
    tilt: float = UNIFORM

    def __post_init__(self) -> None:
        if self.gain not in GAINS:
            raise ValueError(f"bound distribution: found gain={self.gain}, expected one of {', '.join(GAINS)}")
        if not 0 < self.tilt < inf:
            raise ValueError(f"bound distribution: found tilt={self.tilt:g}, expected a number above 0")

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        known = facts.orders_differ
        bounded = facts.distribution(value[known], facts.profiles.keep(known), self.gain)
        return torch.full_like(value, torch.nan).masked_scatter(known, bounded)


KINDS: dict[str, type[Bound]] = {
    kind.name: kind for kind in (Unbounded, MinMax, Expectation, ExpectationMax, Distribution)
}


def tilt_of(bound: Bound) -> float:
    """The tilt of the orders whose scores a bound reads; 1 for bounds that read none."""
    return bound.tilt if isinstance(bound, Distribution) else UNIFORM


def bound(text: str | Bound) -> Bound:
    """The bound that `text` names: none, min-max, expectation, expectation-max, distribution, distribution(gain=sd).

    Raises:
        ValueError: for an unknown name, with the nearest known one, an unknown gain, or a tilt that is not above 0.
    """
    if isinstance(text, Bound):
        return text
    name, parameters, cutoff = split_text(text, "bound")
    if name not in KINDS:
        raise unknown_name("bound", text, name, KINDS)
    return build(KINDS[name], text, parameters, cutoff, "bound")
