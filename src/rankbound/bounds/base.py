"""The bounds: maps of a metric's value that depend on the list's size (thesis chapter 3).

A bound is applied to the metric itself; a loss is negated afterwards where higher is better. To add a bound, define a
class with a `name` in a module of this package.

An affine bound maps a metric's value $M_t$ of list $t$ to $(M_t - o_t) / u_t$ (sections 3.1 and 3.2). The origin $o_t$
has no gradient, so it trains like the unbounded loss with the list weights $1 / u_t$ and does nothing else. The
*influence* of a list with the weight $w_t$ is the range of its loss over all orders, $w_t (M_{max,t} - M_{min,t})$.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds.extremes import Counts, CumulativeDistribution, Facts, checked_counts, differ
from rankbound.bounds.orders import Profile
from rankbound.bounds.score_distribution import GAINS, Gain, ScoreDistribution
from rankbound.bounds.sums import UNIFORM
from rankbound.bounds.tables import DistributionsOnDemand
from rankbound.gradients import through_transforms
from rankbound.lists import ArrayLike, Lists, as_tensor, is_transformed, laid_out
from rankbound.metrics import Metric, metric
from rankbound.texts import build, named_kinds, require, split_text, text_of, unknown_name


class Bound(ABC):
    """A map from a metric's value and facts about the list to the bounded value; a value object with a text.

    Attributes:
        name: the name that begins the bound's text.
        tilt: that of the orders whose distribution the bound uses; 1 without one.
    """

    name: ClassVar[str]
    tilt = UNIFORM

    @abstractmethod
    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        """Return the bounded value of each list, not negated; NaN where the bound is undefined."""

    def informative(self, facts: Facts) -> Tensor:
        """Return a mask `(n_lists,)` of the informative lists: those whose bounded value depends on the order."""
        return facts.informative & facts.orders_differ

    def __str__(self) -> str:
        return text_of(self)


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


@dataclass(frozen=True)
class Distribution(Bound):
    r"""The distribution bound (thesis eq. 3.12): the share of random orders with the same or a lower score.

    $$B(M) = F(M) = P(M(\pi) \le M)$$

    A list whose orders all have the same score is bounded by 1, the CDF of that score at itself: no random order is
    better. A bound is NaN where its formula is, as min-max and expectation-max are here, 0 over 0; this one and
    expectation, M / E[M] = 1, are not. Such a list says nothing of a ranker: losses leave it out under every bound.

    Training uses the smooth $\tilde F$ of algorithm 2, whose steps are sigmoids of gain $a$.

    Args:
        gain: $a$. `distinct` is eq. 3.13 with the number of distinct scores among the random orders (300,000; for
            graded lists 20,000, actually drawn), `drawn` is eq. 3.13 with the number of orders, and `sd` is one over
            the standard deviation of the scores.
        tilt: other than 1, as the thesis's conclusion suggests, F is the distribution over orders biased towards
            ranking relevant items first (`score_distribution`; binary relevance only).

    Raises:
        ValueError: for an unknown gain or a tilt that isn't above 0.

    >>> rb.bounded("RR", "distribution")([0.9, 0.5, 0.1], [0, 1, 0], [0, 3])
    array([0.66666667])
    """

    name: ClassVar[str] = "distribution"

    gain: Gain = "distinct"
    tilt: float = UNIFORM

    def __post_init__(self) -> None:
        require("bound distribution", f"gain={self.gain}", self.gain in GAINS, f"one of {', '.join(GAINS)}")
        require("bound distribution", f"tilt={self.tilt:g}", 0 < self.tilt < inf, "a number above 0")

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        some, index = facts.of_several_scores
        assert some.distribution is not None
        bounded = some.distribution(value.index_select(-1, index), some, self.gain)
        of_one_score = torch.where(value >= facts.minimum, 1.0, 0.0).to(value)
        undefined = value.isnan() | facts.minimum.isnan()
        return torch.where(undefined, torch.nan, of_one_score).index_copy(-1, index, bounded)


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

    def __call__(
        self,
        scores: ArrayLike,
        relevance: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        mask: Any = None,
        lengths: Any = None,
    ) -> Any:
        """Return the bounded metric of each list, float64 `(n_lists,)`; NaN where metric or bound is undefined.

        Args:
            scores: `(n_items,)`, finite; higher is better. The metric is averaged over all orders of tied items, then
                bounded.
            relevance: `(n_items,)`, grades from 0.
            offsets, mask, lengths: as of `Metric.__call__`.

        Returns:
            A numpy array, or a tensor if `scores` is one.

        Raises:
            ValueError: as `Metric.__call__`.
        """
        is_tensor = isinstance(scores, Tensor)
        offsets, flat = laid_out(offsets, mask, lengths, scores=scores, relevance=relevance)
        scores, relevance = flat["scores"], flat["relevance"]
        if is_transformed():
            bounded = through_transforms(self._value, as_tensor(scores, "scores"), offsets, relevance)
        else:
            bounded = self._value(scores, offsets, relevance)
        return bounded if is_tensor else bounded.numpy()

    def _value(self, scores: ArrayLike, offsets: ArrayLike, relevance: ArrayLike) -> Tensor:
        value = self.metric._value(scores, offsets, relevance)
        grades = as_tensor(relevance, "relevance").detach().contiguous()
        return self.of_value(value, self.facts(grades, Lists.checked(offsets, len(grades))))

    def facts(self, relevance: Tensor, lists: Lists) -> Facts:
        """Return the facts about lists by which `of_value` bounds their values.

        Args:
            relevance: `(n_items,)`, grades from 0.
            lists: the lists' limits.

        Returns:
            The facts, which are computed when they are first needed.
        """
        return Facts(self.metric, relevance, lists, self._cdf())

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
        values, sizes, counts = (torch.from_numpy(array.flatten()) for array in arrays)
        facts = Facts.of_counts(self.metric, sizes, counts, self._cdf())
        bounded: npt.NDArray[np.float64] = self.of_value(values, facts).numpy()
        return bounded.reshape(arrays[0].shape)

    def of_value(self, value: Tensor, facts: Facts) -> Tensor:
        """Bound values, which rounding must not carry beyond the extremes: min-max is from 0 to 1.

        Args:
            value: `(..., n_lists)`, the metric's values.
            facts: the lists' facts, as `facts` returns them.

        Returns:
            `(..., n_lists)`; NaN where undefined.
        """
        if isinstance(self.bound, Unbounded):
            return value
        low, high = facts.minimum, facts.maximum
        value = torch.where((value < low) & ~differ(value, low), low, value)
        value = torch.where((value > high) & ~differ(high, value), high, value)
        return self.bound(value, facts)

    def _cdf(self) -> CumulativeDistribution:
        """Return the step CDF (thesis algorithm 1), which has no gain, and keeps the distributions that it has met."""
        known: dict[Profile, ScoreDistribution] = {}

        def cdf(values: Tensor, facts: Facts, gain: Gain) -> Tensor:
            distinct, which = facts.distinct()
            new = [profile for profile in distinct if profile not in known]
            on_demand = DistributionsOnDemand(self.metric, tilt=self.bound.tilt)
            known.update(zip(new, on_demand.distributions(new), strict=True))
            result = torch.empty_like(values)
            for index, profile in enumerate(distinct):
                own = which == index
                bounded = known[profile].cdf(values[..., own].cpu().numpy())
                result[..., own] = torch.from_numpy(bounded).to(values)
            return result

        return cdf

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
