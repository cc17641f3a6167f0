"""Bounded metrics of hard rankings, for evaluation and figures; for losses, see `rankbound.losses`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds._score_distribution import Gain
from rankbound.bounds.extremes import Counts, checked_counts, differ, require_memory
from rankbound.bounds.kinds import Bound, Facts, bound
from rankbound.bounds.kinds.affine import Unbounded
from rankbound.bounds.kinds.distribution import tilt_of
from rankbound.bounds.on_demand import DistributionsOnDemand
from rankbound.bounds.profiles import Profiles
from rankbound.gradients import through_transforms
from rankbound.lists import ArrayLike, Lists, as_tensor, is_transformed
from rankbound.metrics import Metric, metric


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
        counted = checked_counts(n, p)
        require_memory(self.metric, counted[0])
        arrays = np.broadcast_arrays(np.asarray(value, np.float64), *counted)
        values, sizes, counts = (torch.from_numpy(np.ascontiguousarray(array).ravel()) for array in arrays)
        facts = Facts.of_counts(self.metric, sizes, counts, self._cdf)
        bounded: npt.NDArray[np.float64] = self._bound(values, facts).numpy()
        return bounded.reshape(arrays[0].shape)

    def _bound(self, value: Tensor, facts: Facts) -> Tensor:
        """Bound the value, which rounding must not carry beyond the extremes: min-max is from 0 to 1."""
        if isinstance(self.bound, Unbounded):
            return value
        low, high = facts.minimum, facts.maximum
        value = torch.where((value < low) & ~differ(value, low), low, value)
        value = torch.where((value > high) & ~differ(high, value), high, value)
        return self.bound(value, facts)

    def _cdf(self, values: Tensor, profiles: Profiles, gain: Gain) -> Tensor:
        """Return the step CDF (thesis algorithm 1), which has no gain."""
        known, which = DistributionsOnDemand(self.metric, tilt=tilt_of(self.bound)).of(profiles)
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
