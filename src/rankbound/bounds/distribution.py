"""The bound by the distribution of a metric over random orders (thesis sections 3.3 and 3.4)."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from rankbound.bounds.base import Bound, Facts
from rankbound.bounds.sampled import UNIFORM
from rankbound.bounds.score_distribution import GAINS, Gain


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
        if self.gain not in GAINS:
            raise ValueError(f"bound distribution: found gain={self.gain}, expected one of {', '.join(GAINS)}")
        if not 0 < self.tilt < inf:
            raise ValueError(f"bound distribution: found tilt={self.tilt:g}, expected a number above 0")

    def __call__(self, value: Tensor, facts: Facts) -> Tensor:
        known = facts.orders_differ
        bounded = facts.distribution(value[known], facts.profiles.keep(known), self.gain)
        of_one_score = torch.where(value >= facts.minimum, 1.0, 0.0).to(value)
        undefined = value.isnan() | facts.minimum.isnan()
        return torch.where(undefined, torch.nan, of_one_score).masked_scatter(known, bounded)
