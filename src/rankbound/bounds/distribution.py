"""How nDCG, AP and the nRBP loss are distributed over random orders of N items, P of them relevant.

With binary relevance the distribution depends on (N, P) alone. Thesis section 3.4, eq. 3.12 and 3.13, algorithms 1, 2.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb, expm1, log, log1p
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rankbound.bounds._atoms import SAME_SCORE, enumerate_orders
from rankbound.bounds._binning import Binned, bin_scores
from rankbound.bounds._fourier import binned_distributions
from rankbound.bounds._mann_whitney import rank_sum_distribution
from rankbound.bounds._sampled import repeat_probability, sample_orders
from rankbound.bounds._scores import Floats, Score, score
from rankbound.bounds._smoothing import FINE_GAIN, integers_of_bins, smooth_cdf

Method = Literal["exact", "sampled"]
Gain = Literal["distinct", "drawn", "sd"]

SAMPLES = 300_000
"""Random permutations of one list in the thesis (section 4.3); the gain of eq. 3.13 depends on it."""
FEW_SCORES = 4096
"""Up to this many single scores stay as they are in a table."""
ENUMERATED_ORDERS = 5_000_000
"""Up to this many orders a list's nDCG and AP are enumerated."""
SAMPLING_CONFIDENCE = 0.95
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ScoreDistribution:
    """The distribution of one metric over random orders of `n` items, `p` of them relevant.

    `support` (ascending) with `probability` (sum 1) are single scores if `width` is 0, else the middles of adjacent
    bins of that width that cover `minimum` to `maximum`, the mass spread evenly inside each. `error` bounds the CDF's
    error (for `sampled`: with 95 % confidence, Dvoretzky-Kiefer-Wolfowitz). `count` is the number of distinct scores
    among `samples` random orders, `low` and `high` are their extremes: found (`sampled`) or expected (`exact`: the mean
    of the count, the median of each extreme; on a tiny list all scores and its true extremes).
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

    def cdf(self, x: ArrayLike) -> Floats:
        """P(score <= x), algorithm 1: a score equal to x counts in full. Linear inside a bin.

        `x` of any shape; NaN where x is NaN or the metric undefined (P = 0). For the nRBP loss, where lower is better,
        this is the probability that a random order is at least as good (erratum T20).
        """
        at: Floats = np.asarray(x, dtype=np.float64)
        below = np.concatenate([[0.0], np.cumsum(self.probability)])
        below[-1] = 1.0
        if self.width == 0:
            tolerance = SAME_SCORE * np.maximum(1.0, np.abs(at))
            value = below[np.searchsorted(self.support, at + tolerance, side="right")]
        else:
            if self.metric == "nRBP":
                # The scores are integers and the bins end halfway between them: F(2.9) = F(2) = F_bins(2.5).
                at = np.floor(at + SAME_SCORE * np.maximum(1.0, np.abs(at))) + 0.5
            value = np.interp(at, self._edges(), below)
        return np.where(np.isnan(at) | np.isnan(self.minimum), np.nan, value)

    def gain(self, kind: Gain = "distinct") -> float:
        """The sigmoid's gain a, in 1 / score. Eq. 3.13 is len(D) / (max(D) - min(D)).

        `distinct`: len(D) counts the distinct scores among the draws; `drawn`: all draws; `sd`: 1 / standard deviation
        instead (not the thesis'). Raises ValueError where all orders score the same (P = 0 or P = N).
        """
        span = {"distinct": self.high - self.low, "drawn": self.high - self.low, "sd": self.sd}
        if kind not in span:
            raise ValueError(f"gain {kind!r} is not one of {', '.join(span)}")
        if not span[kind] > 0:
            raise ValueError(
                f"the gain (eq. 3.13) of {self.metric} over {self.n} items with {self.p} relevant is undefined: all "
                "its orders score the same; leave such lists out"
            )
        return {"distinct": self.count, "drawn": float(self.samples), "sd": 1.0}[kind] / span[kind]

    def smooth_cdf(self, x: ArrayLike, gain: Gain | float = "distinct") -> Floats:
        """sum_k probability_k sigma(a (x - support_k)), algorithm 2; the gain a by name or number, `x` of any shape.

        A bin's mass is spread evenly over it (over its integers, for the nRBP loss): the sigmoid is averaged over the
        bin, in closed form.
        """
        a = self.gain(gain) if isinstance(gain, str) else float(gain)
        support, probability, width = self.support, self.probability, self.width
        if self.metric == "nRBP" and width > 1 and a > FINE_GAIN:
            support, probability = integers_of_bins(support, probability, width)
            width = 0.0
        return smooth_cdf(np.asarray(x, dtype=np.float64), support, probability, width, a)

    def binned(self) -> "ScoreDistribution":
        """The same distribution in bins of equal width, or itself where it has few scores or bins would be too coarse.

        Some 40 bins per standard deviation, twice as many until binning moves the CDF (computed, not estimated) by at
        most 1e-4; that is added to `error`. The bins of the nRBP loss hold whole numbers of its integers.
        """
        if self.width > 0 or len(self.support) <= FEW_SCORES:
            return self
        binned = bin_scores(
            self.support,
            self.probability,
            (self.minimum, self.maximum),
            self.sd,
            integers=self.metric == "nRBP",
        )
        return self if binned is None else self._in(binned)

    def _in(self, binned: Binned) -> "ScoreDistribution":
        return replace(
            self,
            support=binned.middles,
            probability=binned.probability,
            width=binned.width,
            error=self.error + binned.error,
        )

    def _edges(self) -> Floats:
        return np.asarray(self.support[0] + self.width * (np.arange(len(self.support) + 1) - 0.5))


def score_distribution(
    metric: str, n: int, p: int, *, method: Method = "exact", samples: int = SAMPLES, seed: int = 0
) -> ScoreDistribution:
    """The distribution of `metric` (nDCG, AP, or nRBP: the loss of eq. 2.12) over random orders of N items, P relevant.

    `exact`: single scores where the list has at most 5,000,000 orders and always for the nRBP loss (Mann-Whitney's U);
    else bins with a CDF error below 1e-4, from Fourier coefficients of the characteristic function. `sampled`: the
    distinct scores of `samples` random orders. P = 0 and P = N give one certain score (NaN where undefined).

    Raises ValueError for an unknown metric or method, or unless 0 <= P <= N and 1 <= N.
    """
    return next(iter(score_distributions(metric, [(n, p)], method=method, samples=samples, seed=seed)))


def score_distributions(
    metric: str,
    pairs: Sequence[tuple[int, int]],
    *,
    method: Method = "exact",
    samples: int = SAMPLES,
    seed: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> Iterator[ScoreDistribution]:
    """`score_distribution` of many (N, P), in their order: much faster than one by one, since long lists share work.

    `done(k)` is told whenever k more of them are ready (for a progress bar).
    """
    chosen = score(metric)
    for n, p in pairs:
        if not (n >= 1 and 0 <= p <= n):
            raise ValueError(f"found {n} items with {p} relevant, expected 1 <= N and 0 <= P <= N")
    if method not in ("exact", "sampled"):
        raise ValueError(f"method {method!r} is not one of exact, sampled")
    if samples < 1:
        raise ValueError(f"found samples={samples}, expected at least 1")
    return _distributions(chosen, pairs, method, samples, seed, done)


def _distributions(
    chosen: Score,
    pairs: Sequence[tuple[int, int]],
    method: Method,
    samples: int,
    seed: int,
    done: Callable[[int], None],
) -> Iterator[ScoreDistribution]:
    long = [pair for pair in pairs if method == "exact" and _is_long(chosen, *pair)]
    binned = binned_distributions(chosen, long, done)
    for n, p in pairs:
        if (n, p) in binned:
            yield _with_draws(_empty(chosen, n, p, samples)._in(binned[n, p]))
            continue
        yield _atoms(chosen, n, p, method, samples, seed)
        done(1)


def _is_long(chosen: Score, n: int, p: int) -> bool:
    return chosen.name != "nRBP" and comb(n, p) > ENUMERATED_ORDERS


def _atoms(chosen: Score, n: int, p: int, method: Method, samples: int, seed: int) -> ScoreDistribution:
    empty = _empty(chosen, n, p, samples)
    if p in (0, n):
        return replace(empty, support=np.array([empty.minimum]), probability=np.ones(1), count=1.0, error=0.0)
    if method == "sampled":
        support, probability = sample_orders(chosen, n, p, samples, seed)
        return replace(
            empty,
            support=support,
            probability=probability,
            count=float(len(support)),
            low=float(support[0]),
            high=float(support[-1]),
            error=(log(2 / (1 - SAMPLING_CONFIDENCE)) / (2 * samples)) ** 0.5,
        )
    if chosen.name == "nRBP":
        probability = rank_sum_distribution(n, p)
        support = np.arange(len(probability), dtype=np.float64)
    else:
        support, probability = enumerate_orders(chosen, n, p)
    return _with_draws(replace(empty, support=support, probability=probability, error=_ROUNDING))


def _empty(chosen: Score, n: int, p: int, samples: int) -> ScoreDistribution:
    """Everything that closed forms give; no mass yet. Where P = 0, nDCG and AP are undefined: NaN."""
    undefined = p == 0 and chosen.name != "nRBP"
    minimum, maximum, mean, variance = (
        float("nan") if undefined else form(n, p)
        for form in (chosen.minimum, chosen.maximum, chosen.mean, chosen.variance)
    )
    if p in (0, n):
        minimum, mean, variance = maximum, maximum, 0.0
    return ScoreDistribution(
        metric=chosen.name,
        n=n,
        p=p,
        support=np.empty(0),
        probability=np.empty(0),
        width=0.0,
        minimum=minimum,
        maximum=maximum,
        expectation=mean,
        sd=variance**0.5,
        count=0.0,
        low=minimum,
        high=maximum,
        error=0.0,
        samples=samples,
    )


def _with_draws(exact: ScoreDistribution) -> ScoreDistribution:
    """Fill in what `samples` random orders would show: distinct scores (mean), lowest and highest (medians)."""
    draws = exact.samples
    if exact.width == 0:
        # A score of probability q is missed by all draws with probability (1 - q)^draws.
        with np.errstate(divide="ignore"):
            count = float(-np.expm1(draws * np.log1p(-exact.probability)).sum())
    else:
        # As if every score had the mean mass of a random order's score.
        same = repeat_probability(score(exact.metric), exact.n, exact.p)
        count = -expm1(draws * log1p(-same)) / same if same > 0 else float(draws)
    tail = -expm1(-log(2) / draws)
    below = np.cumsum(exact.probability)
    if exact.width == 0:
        low, high = exact.support[np.searchsorted(below, [tail, 1 - tail]).clip(max=len(below) - 1)]
    else:
        low, high = np.interp([tail, 1 - tail], np.concatenate([[0.0], below]), exact._edges())
    return replace(exact, count=count, low=float(low), high=float(high))
