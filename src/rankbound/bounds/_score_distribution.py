"""The distribution of a metric over random orders of one list: CDF, smooth CDF and binning."""

from dataclasses import dataclass, replace
from math import log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rankbound.bounds._atoms import SAME_SCORE
from rankbound.bounds._binning import LARGEST_ERROR, Binned, bin_scores
from rankbound.bounds._scores import Floats
from rankbound.bounds._smoothing import FINE_GAIN, integers_of_bins, smooth_cdf
from rankbound.bounds.profiles import Profile

Gain = Literal["distinct", "drawn", "sd"]
GAINS: tuple[Gain, ...] = ("distinct", "drawn", "sd")

SAMPLES = 300_000
"""Random permutations of one list in the thesis (section 4.3); the gain of eq. 3.13 depends on it."""
FEW_SCORES = 4096
"""Distributions of at most this many single scores are not binned."""
SHARE_OF_ERROR = 0.1
"""Error that binning may add to a sampled distribution, as a share of its own, if no bins keep to `LARGEST_ERROR`."""

SAMPLING_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class ScoreDistribution:
    """The distribution of one metric over random orders of `n` items, `p` of them relevant; `grades` if graded.

    `support` (ascending) and `probability` (sum 1) are single scores if `width` is 0; otherwise the middles of adjacent
    bins of that width that cover `minimum` to `maximum`, with mass spread evenly inside each. `error` bounds the error
    of the CDF (for `sampled`: with 95 % confidence, Dvoretzky-Kiefer-Wolfowitz). `count` is the number of distinct
    scores among `samples` random orders, and `low` and `high` are their extremes: those drawn (`sampled`) or expected
    (`exact`: the mean of the count, the median of each extreme; for a tiny list, all its scores and its extremes). With
    a `tilt` other than 1, the distribution over orders is biased (`score_distribution`).
    """

    metric: str
    n: int
    p: int
    support: Floats
    probability: Floats
    width: float
    minimum: float
    maximum: float
    expectation: float
    sd: float
    count: float
    low: float
    high: float
    error: float
    samples: int = SAMPLES
    grades: tuple[float, ...] | None = None
    tilt: float = 1.0

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(score <= x) (thesis algorithm 1), linear inside a bin.

        `x` may have any shape; the result is NaN where x is NaN or the metric is undefined (P = 0). For the nRBP loss,
        where lower is better, it is the probability that a random order is at least as good (erratum T20).
        """
        at: Floats = np.asarray(x, dtype=np.float64)
        below = np.concatenate([[0.0], np.cumsum(self.probability)])
        below[-1] = 1.0
        if self.width == 0:
            tolerance = SAME_SCORE * np.maximum(1.0, np.abs(at))
            value = below[np.searchsorted(self.support, at + tolerance, side="right")]
        else:
            if counts_pairs(self.metric):
                # The scores are integers and the bins end halfway between them: F(2.9) = F(2) = F_bins(2.5).
                at = np.floor(at + SAME_SCORE * np.maximum(1.0, np.abs(at))) + 0.5
            value = np.interp(at, self.edges(), below)
        return np.where(np.isnan(at) | np.isnan(self.minimum), np.nan, value)

    def gain(self, kind: Gain = "distinct") -> float:
        """Return the gain a of the sigmoid, in 1 / score: len(D) / (max(D) - min(D)) (thesis eq. 3.13).

        For `distinct`, len(D) counts the distinct scores among the draws; for `drawn`, all draws. `sd` is 1 / standard
        deviation instead, which is not in the thesis.

        Raises:
            ValueError: for an unknown kind, or if all orders have the same score (P = 0 or P = N).
        """
        span = {"distinct": self.high - self.low, "drawn": self.high - self.low, "sd": self.sd}
        if kind not in span:
            raise ValueError(f"gain {kind!r} is not one of {', '.join(span)}")
        if not span[kind] > 0:
            raise ValueError(
                f"the gain (eq. 3.13) of {self.metric} over {self.profile} is undefined: "
                "all its orders have the same score; exclude such lists"
            )
        return {"distinct": self.count, "drawn": float(self.samples), "sd": 1.0}[kind] / span[kind]

    def smooth_cdf(self, x: ArrayLike, gain: Gain | float = "distinct") -> Floats:
        """Return sum_k probability_k sigma(a (x - support_k)) (thesis algorithm 2), in the shape of `x`.

        `gain` is the gain a by name or number. The mass of a bin is spread evenly over it (for the nRBP loss, over its
        integers): the sigmoid is averaged over the bin in closed form.
        """
        a = self.gain(gain) if isinstance(gain, str) else float(gain)
        support, probability, width = self.support, self.probability, self.width
        if counts_pairs(self.metric) and width > 1 and a > FINE_GAIN:
            support, probability = integers_of_bins(support, probability, width)
            width = 0.0
        return smooth_cdf(np.asarray(x, dtype=np.float64), support, probability, width, a)

    def binned(self) -> "ScoreDistribution":
        """Return the distribution in bins of equal width, or itself if it has few scores or bins would be too coarse.

        The number of bins is 40 per standard deviation, doubled until binning changes the CDF by at most 1e-4. If no
        bins do, a tenth of the sampling error is tolerated (all of it for tilted orders, the best of which can be
        likely). The change is exact and is added to `error`. A bin of the nRBP loss holds a whole number of integers.
        """
        if self.width > 0 or len(self.support) <= FEW_SCORES:
            return self
        extremes, integers = (self.minimum, self.maximum), counts_pairs(self.metric)
        largest = max(LARGEST_ERROR, SHARE_OF_ERROR * self.error)
        if self.tilt != 1:
            largest = max(largest, sampling_error(self.samples))
        for tolerance in sorted({LARGEST_ERROR, largest}):
            binned = bin_scores(
                self.support, self.probability, extremes, self.sd, integers=integers, tolerance=tolerance
            )
            if binned is not None:
                return self.in_bins(binned)
        return self

    @property
    def profile(self) -> Profile:
        return Profile(self.n, self.p, self.grades)

    def in_bins(self, binned: Binned) -> "ScoreDistribution":
        return replace(
            self,
            support=binned.middles,
            probability=binned.probability,
            width=binned.width,
            error=self.error + binned.error,
        )

    def edges(self) -> Floats:
        """Return the edges of the bins, `(n_bins + 1,)`."""
        return np.asarray(self.support[0] + self.width * (np.arange(len(self.support) + 1) - 0.5))


def sampling_error(samples: int) -> float:
    """Return the error of the empirical CDF of this many draws (Dvoretzky-Kiefer-Wolfowitz)."""
    return float((log(2 / (1 - SAMPLING_CONFIDENCE)) / (2 * samples)) ** 0.5)


def counts_pairs(metric: str) -> bool:
    """Return true if the text names the nRBP loss, whose scores are integers."""
    return metric == "nRBP" or (metric.startswith("nRBP(rel=") and "," not in metric)
