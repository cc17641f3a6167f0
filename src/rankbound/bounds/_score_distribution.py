"""The distribution of a metric over random orders of one list: CDF, smooth CDF and binning."""

from dataclasses import dataclass, replace
from math import log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    """The distribution of one metric over random orders of a list (thesis section 3.4).

    Args:
        metric: the metric's text.
        n: the number of items.
        p: the number of relevant items.
        support: `(n_scores,)`, ascending: single scores if `width` is 0, otherwise the middles of adjacent bins that
            cover `minimum` to `maximum`.
        probability: `(n_scores,)`, with sum 1; the mass of a bin is spread evenly inside it.
        width: of the bins, in units of the metric; 0 for single scores.
        minimum: the lowest score of any order.
        maximum: the highest score of any order.
        expectation: the mean score.
        sd: the standard deviation of the scores.
        count: the number of distinct scores among `samples` random orders: drawn (`sampled`) or expected (`exact`: the
            mean; for a tiny list, all its scores).
        low: the lowest score of those orders: drawn, or expected (the median; for a tiny list, the minimum).
        high: the highest score of those orders: drawn, or expected (the median; for a tiny list, the maximum).
        error: a bound on the error of the CDF (for `sampled`: with 95 % confidence, Dvoretzky-Kiefer-Wolfowitz). It
            includes the mass of scores that differ by less than the rounding of a float64 and are one score here.
        samples: the number of random orders, drawn or assumed.
        grades: the grades of the items, descending, if the relevance is graded.
        tilt: other than 1, the distribution over orders is biased (`score_distribution`).

    >>> rb.score_distribution("RR", 3, 1).support.round(2)
    array([0.33, 0.5 , 1.  ])
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

        For the nRBP loss, where lower is better, it is the probability that a random order is at least as good (erratum
        T20).

        Args:
            x: scores, of any shape.

        Returns:
            Probabilities in the shape of `x`; NaN where x is NaN or the metric is undefined (P = 0).
        """
        at: Floats = np.asarray(x, dtype=np.float64)
        below = np.concatenate([[0.0], np.cumsum(self.probability)]).clip(max=1.0)
        below[-1] = 1.0
        if self.width == 0:
            value = below[self._atoms_up_to(at)]
        else:
            if counts_pairs(self.metric):
                # The scores are integers and the bins end halfway between them: F(2.9) = F(2) = F_bins(2.5).
                at = np.floor(at + SAME_SCORE * np.maximum(1.0, np.abs(at))) + 0.5
            value = np.interp(at, self.edges(), below)
        return np.where(np.isnan(at) | np.isnan(self.minimum), np.nan, value)

    def _atoms_up_to(self, x: Floats) -> NDArray[np.int64]:
        """Return the number of single scores up to each x; a score that x misses by rounding alone counts."""
        count = np.searchsorted(self.support, x, side="right")
        bordered = np.concatenate([[-np.inf], self.support, [np.inf]])
        with np.errstate(invalid="ignore"):
            missed = bordered[count + 1] - x
            # Of two scores this near, x is the nearer one.
            is_next = (missed <= SAME_SCORE * np.abs(x)) & (missed < x - bordered[count])
        return np.asarray(count + is_next)

    def gain(self, kind: Gain = "distinct") -> float:
        r"""Return the gain of the sigmoid (thesis eq. 3.13), in 1 / score.

        $$a = \frac{\mathrm{len}(D)}{\max(D) - \min(D)}$$

        Args:
            kind: for `distinct`, len(D) counts the distinct scores among the draws; for `drawn`, all draws. `sd` is 1 /
                standard deviation instead, which is not in the thesis.

        Returns:
            The gain.

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
        r"""Return the smooth CDF, a sum of sigmoids (thesis algorithm 2).

        $$\tilde F(x) = \sum_k p_k\, \sigma(a (x - x_k))$$

        The mass of a bin is spread evenly over it (for the nRBP loss, over its integers): the sigmoid is averaged over
        the bin in closed form.

        Args:
            x: scores, of any shape.
            gain: the gain a by name, as in `gain`, or as a number.

        Returns:
            Probabilities in the shape of `x`.

        Raises:
            ValueError: for a gain by name, as `gain`.
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
        """The profile of the list: its numbers of items and relevant items, or its grades."""
        return Profile(self.n, self.p, self.grades)

    def in_bins(self, binned: Binned) -> "ScoreDistribution":
        """Return the same distribution with the mass in bins, whose error is added to its own.

        Args:
            binned: the bins' middles, mass, width and error.

        Returns:
            The distribution in bins.
        """
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
