"""Bounds that leave a metric as it is, or move its origin and unit: list weights (thesis sections 3.1 and 3.2)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.bounds.kinds.base import NO_RANGE, Bound, Facts


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
