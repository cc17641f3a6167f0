"""The identity and the affine bounds, and the list weights to which they amount in training (sections 3.1 and 3.2).

An affine bound maps a metric's value $M_t$ of list $t$ to $(M_t - o_t) / u_t$. The origin $o_t$ has no gradient, so it
trains like the unbounded loss with the list weights $1 / u_t$ and does nothing else. The *influence* of a list with the
weight $w_t$ is the range of its loss over all orders, $w_t (M_{max,t} - M_{min,t})$.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds.base import Bound, Facts, bound
from rankbound.bounds.extremes import checked_lists, differ
from rankbound.bounds.profiles import Profiles
from rankbound.bounds.score_distribution import Gain
from rankbound.lists import ArrayLike
from rankbound.metrics import Metric, metric

Floats = npt.NDArray[np.float64]


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


def list_ranges(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    """Return the largest minus the smallest value of each list over all its orders, `(n_lists,)`.

    Args:
        of: the metric or its text; `nRBP` is the loss of eq. 2.12, whose range is P(N - P).
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Float64; 0 where the metric is undefined or no order differs from another one in it.

    Raises:
        ValueError: for a text that names no metric, or invalid offsets.

    >>> list_ranges("nRBP", [0, 1, 0, 1], [0, 3, 4])
    array([2., 0.])
    """
    facts = _facts(of, relevance, offsets)
    ranges: Floats = torch.nan_to_num(facts.maximum - facts.minimum).to(torch.float64).numpy()
    return ranges


def bound_weights(of: str | Metric, by: str | Bound, relevance: ArrayLike, offsets: ArrayLike) -> Floats:
    r"""Return the list weights $1 / u_t$ of an affine bound, `(n_lists,)`.

    Args:
        of: the metric or its text.
        by: `none`, whose weights are ones, `min-max`, `expectation` or `expectation-max`.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        Float64; 0 for lists whose orders do not differ in the metric, which a bound leaves out.

    Raises:
        ValueError: for a text that names no metric or bound, a bound that is not affine, or invalid offsets.

    >>> bound_weights("nRBP", "expectation", [0, 1, 0, 1], [0, 3, 4])
    array([1., 0.])
    """
    kind, facts = bound(by), _facts(of, relevance, offsets)
    informative = (facts.informative & facts.orders_differ).numpy()
    if isinstance(kind, Unbounded):
        return informative.astype(np.float64)
    if not isinstance(kind, Affine):
        raise ValueError(f"bound {kind}: found no list weights; expected an affine bound, such as min-max")
    origin, size = kind.origin_and_unit(facts)
    unit = size.abs().to(torch.float64).numpy()
    usable = informative & kind.is_usable(origin, size).numpy()
    weights: Floats = np.divide(1.0, unit, out=np.zeros_like(unit), where=usable)
    return weights


def _facts(of: str | Metric, relevance: ArrayLike, offsets: ArrayLike) -> Facts:
    return Facts.of_lists(metric(of), *checked_lists(relevance, offsets), _no_distribution)


def _no_distribution(values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
    raise AssertionError("affine bounds use no score distribution")
