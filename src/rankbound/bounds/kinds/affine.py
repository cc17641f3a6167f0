"""The identity and the affine bounds, which act as list weights in training (thesis sections 3.1 and 3.2)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.bounds.extremes import differ
from rankbound.bounds.kinds.base import Bound, Facts


@dataclass(frozen=True)
class Unbounded(Bound):
    """The identity: the metric without a bound.

    $$B(M) = M$$

    >>> rb.bounded("RR", "none")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.5])
    """

    name: ClassVar[str] = "none"

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        return value

    def informative(self, facts: Facts) -> Tensor:
        return facts.informative


class Affine(Bound):
    """A bound of the form (M - origin) / unit, which in training weights lists by 1 / unit; NaN where unit is 0."""

    @abstractmethod
    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        """Return the value that is mapped to 0, and the difference that is mapped to 1."""

    def is_usable(self, origin: Tensor, unit: Tensor) -> Tensor:
        """Return a mask of the lists whose unit is more than rounding."""
        usable: Tensor = differ(origin, origin + unit.abs())
        return usable

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        origin, unit = self.origin_and_unit(facts)
        usable = self.is_usable(origin, unit)
        # A division by 0 or NaN would cause NaN gradients even in lists that are masked afterwards.
        divisor = torch.where(usable, unit, 1.0).to(value)
        return torch.where(usable, (value - origin.to(value)) / divisor, torch.nan)


@dataclass(frozen=True)
class MinMax(Affine):
    r"""The min-max bound (thesis eq. 3.1): 0 for the lowest value of any order, 1 for the highest.

    $$B(M) = \frac{M - M_{min}}{M_{max} - M_{min}}$$

    NaN if all orders have the same value.

    >>> rb.bounded("RR", "min-max")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.25])
    """

    name: ClassVar[str] = "min-max"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return facts.minimum, facts.maximum - facts.minimum


@dataclass(frozen=True)
class Expectation(Affine):
    r"""The expectation bound (thesis eq. 3.6): 1 for the mean of random orders.

    $$B(M) = \frac{M}{E[M]}$$

    >>> rb.bounded("P@1", "expectation")([0.9, 0.5, 0.1], [1, 0, 0], [0, 3])
    array([3.])
    """

    name: ClassVar[str] = "expectation"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(facts.expectation), facts.expectation


@dataclass(frozen=True)
class ExpectationMax(Affine):
    r"""The expectation-max bound (thesis eq. 3.11): 0 for the mean of random orders, 1 for the largest value.

    $$B(M) = \frac{M - E[M]}{M_{max} - E[M]}$$

    NaN if all orders have the same value. For the nRBP loss, $M_{max}$ is the worst order's value, so that the ideal
    order has the value -1 and the worst order 1.

    >>> rb.bounded("nRBP", "expectation-max")([0.9, 0.5, 0.1], [1, 0, 0], [0, 3])
    array([-1.])
    """

    name: ClassVar[str] = "expectation-max"

    def origin_and_unit(self, facts: Facts) -> tuple[Tensor, Tensor]:
        return facts.expectation, facts.maximum - facts.expectation
