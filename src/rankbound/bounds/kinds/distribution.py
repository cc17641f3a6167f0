"""The bound by the distribution of a metric over random orders (thesis sections 3.3 and 3.4)."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.bounds._score_distribution import GAINS, Gain
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds.kinds.base import Bound, Facts


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


def tilt_of(bound: Bound) -> float:
    """The tilt of the orders whose scores a bound reads; 1 for bounds that read none."""
    return bound.tilt if isinstance(bound, Distribution) else UNIFORM
