"""Distributions of a sum over the relevant items (`Score`) of one binary list, under uniform or tilted orders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rankbound.bounds._atoms import Atoms, enumerate_orders
from rankbound.bounds._binning import Binned
from rankbound.bounds._rank_sums import WALK_ERROR, rank_sums
from rankbound.bounds._sampled import repeat_probability, sample_orders
from rankbound.bounds._score_distribution import ScoreDistribution, sampling_error
from rankbound.bounds._scores import Floats, Score
from rankbound.bounds._tilted import TiltedOrders, TiltedScore, enumerate_tilted, repeated_score, sample_tilted
from rankbound.bounds._tilted_fourier import binned_tilted

ROUNDING = 1e-12
"""Error of the CDF of enumerated orders."""
RARE = 1e-3
"""Expected number of repetitions among a list's draws below which all scores count as distinct."""


@dataclass(frozen=True)
class UniformSums:
    """A score of uniform orders; `binned` has the distributions of long lists, which are computed together."""

    score: Score
    n: int
    p: int
    binned: Mapping[tuple[int, int], Binned]

    def mean_and_sd(self) -> tuple[float, float]:
        return self.score.mean(self.n, self.p), self.score.variance(self.n, self.p) ** 0.5

    def of_integers(self) -> tuple[Floats, float]:
        """Return the probabilities of the nRBP loss's scores 0, 1, ..., and the error of their CDF."""
        return rank_sums(self.n, self.p), ROUNDING

    def enumerated(self) -> Atoms:
        return enumerate_orders(self.score, self.n, self.p)

    def in_bins(self, work: float, samples: int) -> Binned | None:
        """Return the binned distribution; `None` if its Fourier series needs more than `work`."""
        return self.binned.get((self.n, self.p))

    def drawn(self, samples: int, seed: int) -> Atoms:
        return sample_orders(self.score, self.n, self.p, samples, seed)

    def repeated(self) -> float:
        """Return the probability that two orders have the same score."""
        return repeat_probability(self.score, self.n, self.p)

    def with_count(self, binned: ScoreDistribution) -> ScoreDistribution:
        """Return the binned distribution with the number of distinct scores among its samples."""
        return binned


@dataclass(frozen=True)
class TiltedSums:
    """A score of tilted orders; its methods are those of `UniformSums`."""

    score: Score
    orders: TiltedOrders

    def mean_and_sd(self) -> tuple[float, float]:
        (mean, variance), scale = TiltedScore(self.score, self.orders).moments, self.score.scale(self.orders.p)
        return mean / scale, variance**0.5 / scale

    def of_integers(self) -> tuple[Floats, float]:
        return rank_sums(self.orders.n, self.orders.p, self.orders.tilt), WALK_ERROR

    def enumerated(self) -> Atoms:
        return enumerate_tilted(self.score, self.orders)

    def in_bins(self, work: float, samples: int) -> Binned | None:
        return binned_tilted(self.score, self.orders, work, sampling_error(samples))

    def drawn(self, samples: int, seed: int) -> Atoms:
        return sample_tilted(self.score, self.orders, samples, seed)

    def repeated(self) -> float:
        return repeated_score(self.score, self.orders)

    def with_count(self, binned: ScoreDistribution) -> ScoreDistribution:
        # Tilted orders differ too much in probability to derive the count from their mean mass.
        if binned.samples * self.repeated() < RARE:
            return binned
        return replace(binned, count=float(len(self.drawn(binned.samples, seed=0)[0])))
