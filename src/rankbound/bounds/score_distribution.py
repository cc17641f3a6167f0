"""The distribution of a metric over random orders of a list (thesis section 3.4, eqs. 3.12 and 3.13).

With binary relevance, the distribution depends only on the number N of items and the number P of relevant ones; with
grades, on the number of items of each grade. It is computed by the first method that applies:

1. sums over the relevant items (nDCG, AP, DCG, RBP, ...) without a cut-off, binary: enumeration of all orders of a
   short list, Fourier coefficients for a long one; the nRBP loss: the Mann-Whitney U distribution;
2. metrics of few values (P@k, recall@k, hit@k, RR) or of pairs (LinearDCG, PairError), binary: a closed form;
3. any metric, including the user's own: all distinct orders, if they are few;
4. any metric with a cut-off: all patterns of the first k ranks, if they are few;
5. any metric: random orders.

With a tilt, orders are biased towards ranking relevant items first. Walks over the ranks of each list then replace the
formulas for uniform orders, such as Mann-Whitney U. A tilt requires binary relevance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, expm1, inf, log, log1p, nan
from operator import index
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from rankbound.bounds.exact import (
    FINE_GAIN,
    LARGEST_ERROR,
    Binned,
    bin_scores,
    binned_distributions,
    enumerate_orders,
    integers_of_bins,
    smooth_cdf,
)
from rankbound.bounds.extremes import LONGEST, Facts, differ
from rankbound.bounds.profiles import FEW_ORDERS, Orders, Profile
from rankbound.bounds.sampled import (
    SAME_SCORE,
    UNIFORM,
    Atoms,
    Floats,
    RandomOrders,
    Score,
    repeat_probability,
    sample_orders,
    score_of,
)
from rankbound.bounds.tilted import EXACT_INTEGERS, WALK_ERROR, TiltedScore, binned_tilted, rank_sums
from rankbound.lists import ArrayLike, Lists, as_tensor, on_cpu, require_grades
from rankbound.metrics import Metric
from rankbound.metrics import metric as parse_metric
from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.cumulative_gain import NDCG

Gain = Literal["distinct", "drawn", "sd"]
GAINS: tuple[Gain, ...] = ("distinct", "drawn", "sd")
Method = Literal["exact", "sampled", "auto"]
METHODS: tuple[Method, ...] = ("exact", "sampled", "auto")
SAMPLES = 300_000
"""Random permutations of one list in the thesis (section 4.3); the gain of eq. 3.13 depends on it."""
MOST_SAMPLES = 100_000_000
"""The most random orders, 800 MB of scores."""
FEW_SCORES = 4096
"""Distributions of at most this many single scores are not binned."""
ENUMERATED_ORDERS = 5_000_000
"""Sums over the relevant items are enumerated for lists with at most this many orders."""
WORK_OF_SECONDS = 3e8
"""Limit of `auto` for the Fourier coefficients of one pass, in products of complex numbers; some seconds."""
SHARE_OF_ERROR = 0.1
"""Error that binning may add to a sampled distribution, as a share of its own, if no bins keep to `LARGEST_ERROR`."""
SAMPLING_CONFIDENCE = 0.95
ROUNDING = 1e-12
"""Error of the CDF of enumerated orders."""
RARE = 1e-3
"""Expected number of repetitions among a list's draws below which all scores count as distinct."""


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

    def cdf(self, x: npt.ArrayLike) -> Floats:
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

    def _atoms_up_to(self, x: Floats) -> npt.NDArray[np.int64]:
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

    def smooth_cdf(self, x: npt.ArrayLike, gain: Gain | float = "distinct") -> Floats:
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


def score_distribution(
    metric: str | Metric,
    n: int | None = None,
    p: int | None = None,
    *,
    relevance: ArrayLike | Sequence[float] | None = None,
    method: Method = "exact",
    samples: int = SAMPLES,
    seed: int = 0,
    tilt: float = UNIFORM,
) -> ScoreDistribution:
    r"""Return the distribution of `metric` over the random orders of one list (thesis section 3.4).

    If all orders have the same score, the distribution is that one score; NaN if the metric is undefined.

    With a `tilt` t above 1, the distribution over orders is biased towards ranking relevant items first: ranks are
    filled from the top, and the odds that the next item is relevant are multiplied by t. With c of P relevant items
    above rank r,

    $$P(\text{rank } r \text{ is relevant}) = \frac{t (P - c)}{t (P - c) + (N - r + 1) - (P - c)}$$

    This is the Plackett-Luce model with two weights (Luce, Individual Choice Behavior, 1959; Plackett, Applied
    Statistics 24, 1975). t = 1 gives uniform orders. Support, minimum and maximum don't depend on the tilt. The bins of
    a short list whose best orders are likely have errors above 1e-4, up to the error of `samples` draws.

    Args:
        metric: the metric or its text.
        n, p: the numbers of items and of relevant items; or
        relevance: `(n_items,)`, the grades of the list's items.
        method: `exact`, single scores, or bins with a CDF error below 1e-4; `sampled`, the distinct scores of `samples`
            random orders; `auto`, exact if that takes seconds, otherwise sampled. Short lists always have exact
            distributions, the nRBP loss up to P (N - P) = 50,000,000; the module's docstring lists the others.
        samples: the number of random orders, drawn (`sampled`) or assumed in the gain of eq. 3.13 (`exact`).
        seed: the seed of the random orders.
        tilt: t > 0, binary relevance only.

    Returns:
        The distribution, with its support, probabilities, moments and `cdf`.

    Raises:
        ValueError: for an unknown metric or method, unless 0 <= P <= N and N >= 1, if no exact method applies, or for a
            tilt that isn't above 0 or is combined with grades.

    >>> rb.score_distribution("P@1", 4, 1).probability
    array([0.75, 0.25])
    """
    of = parse_metric(metric)
    if (n is None or p is None) == (relevance is None) or (relevance is not None and not n is p is None):
        raise ValueError("score_distribution: expected either n and p, or relevance=")
    profile: Profile | tuple[int, int]
    if relevance is None:
        assert n is not None
        assert p is not None
        profile = n, p
    else:
        grades = as_tensor(relevance if hasattr(relevance, "dtype") else np.asarray(relevance), "relevance")
        require_grades(grades)
        profile = Facts(of, grades, Lists.of_sizes([len(grades)])).profile(0)
    return next(score_distributions(of, [profile], method=method, samples=samples, seed=seed, tilt=tilt))


def score_distributions(
    metric: str | Metric,
    lists: Sequence[tuple[int, int] | Profile],
    *,
    method: Method = "exact",
    samples: int = SAMPLES,
    seed: int = 0,
    done: Callable[[int], object] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """Yield the `score_distribution` of many lists, in their order; faster than single calls for long ones.

    The lists are (N, P) or profiles. `done(k)` is called whenever k more of them are ready (for a progress bar).
    """
    profiles = [one if isinstance(one, Profile) else _profile(*one) for one in lists]
    for profile in profiles:
        if not (profile.n >= 1 and 0 <= profile.p <= profile.n):
            raise ValueError(
                f"n, p: found {profile.n} items with {profile.p} relevant, expected 1 <= N and 0 <= P <= N"
            )
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(f"found samples={samples}, expected 1 to {MOST_SAMPLES:,}")
    if not seed >= 0:
        raise ValueError(f"found seed={seed}, expected a whole number from 0")
    for profile in profiles:
        if profile.n > LONGEST:
            raise ValueError(f"n: found a list of {profile.n:,} items, expected at most {LONGEST:,} for a distribution")
    return _distributions(parse_metric(metric), profiles, method, samples, seed, done, tilt)


def _profile(n: int, p: int) -> Profile:
    """Return the profile with Python's integers: products of NumPy's could overflow."""
    try:
        return Profile(index(n), index(p))
    except TypeError:
        raise ValueError(f"n, p: found {n!r} and {p!r}, expected integers") from None


def _distributions(
    metric: Metric,
    profiles: Sequence[Profile],
    method: Method,
    samples: int,
    seed: int,
    done: Callable[[int], object],
    tilt: float,
) -> Iterator[ScoreDistribution]:
    """Yield the distributions; long lists that share a pass are computed together, before the first one."""
    score = score_of(metric)
    work = inf if method == "exact" or type(metric) in (AveragePrecision, NDCG) else WORK_OF_SECONDS
    binary = [(profile.n, profile.p) for profile in profiles if profile.grades is None]
    binned: dict[tuple[int, int], Binned] = {}
    if score is not None and not score.counts_pairs and method != "sampled" and tilt == UNIFORM:
        many = [pair for pair in binary if comb(*pair) > ENUMERATED_ORDERS]
        long = [pair for pair in many if differ(score.minimum(*pair), score.maximum(*pair))]
        binned = binned_distributions(score, long, done, work)
    for profile in profiles:
        n, p, is_binary = profile.n, profile.p, profile.grades is None
        orders = RandomOrders(n, p, tilt)
        if tilt != UNIFORM and not is_binary:
            raise ValueError(f"tilt: found {tilt:g} for {profile}, expected binary relevance, or no tilt")
        if score is None or not is_binary:
            distribution = _of_any_metric(metric, profile, method, samples, seed, tilt if 0 < p < n else UNIFORM)
        else:
            distribution = _of_sums(metric, score, orders, binned, work, method, samples, seed)
        yield replace(distribution, tilt=tilt)
        # `binned_distributions` has counted its own.
        if not (is_binary and (n, p) in binned):
            done(1)


@on_cpu
def _of_sums(
    metric: Metric,
    score: Score,
    orders: RandomOrders,
    binned: Mapping[tuple[int, int], Binned],
    work: float,
    method: Method,
    samples: int,
    seed: int,
) -> ScoreDistribution:
    """Return the distribution of a sum over the relevant items; `binned` are those of long lists, uniform orders."""
    n, p = orders.n, orders.p
    if p == 0:
        facts = _facts(metric, Profile(n, p))
        low, high = float(facts.minimum), float(facts.maximum)
        mean, variance = high, 0.0 if high == low else nan
    else:
        low, high = score.maximum(n, p) if p == n else score.minimum(n, p), score.maximum(n, p)
        mean, variance = (high, 0.0) if p == n else (score.mean(n, p), score.variance(n, p))
    empty = _empty(metric, Profile(n, p), samples, (low, high), mean, variance**0.5)
    if p in (0, n) or (comb(n, p) > ENUMERATED_ORDERS and not differ(low, high)):
        # Different scores that are equal but for rounding are not told apart.
        return _in_atoms(
            replace(empty, count=1.0), Atoms(np.array([high]), np.ones(1), float(0 < p < n and low != high))
        )
    if not orders.is_uniform:
        (mean, variance), scale = TiltedScore(score, orders).moments, score.scale(p)
        empty = replace(empty, expectation=mean / scale, sd=variance**0.5 / scale)
    if method != "sampled":
        exact = _exact_sums(empty, score, orders, binned, work)
        if isinstance(exact, ScoreDistribution):
            return exact
        if method == "exact":
            raise _no_exact(metric, empty.profile, exact)
    return _of_draws(empty, sample_orders(score, orders, samples, seed))


def _exact_sums(
    empty: ScoreDistribution, score: Score, orders: RandomOrders, binned: Mapping[tuple[int, int], Binned], work: float
) -> ScoreDistribution | str:
    """Return the distribution of all possible scores, or why there is none."""
    n, p = orders.n, orders.p
    if score.counts_pairs:
        if p * (n - p) > EXACT_INTEGERS:
            return f"it has {p * (n - p) + 1:,} scores, more than {EXACT_INTEGERS:,}"
        atoms = Atoms(np.arange(p * (n - p) + 1.0), rank_sums(orders))
        return _with_draws(_in_atoms(empty, atoms, ROUNDING if orders.is_uniform else WALK_ERROR))
    if comb(n, p) <= ENUMERATED_ORDERS:
        atoms = enumerate_orders(score, orders)
        low, high = atoms.support[[0, -1]].tolist()
        return _with_draws(_in_atoms(replace(empty, minimum=low, maximum=high), atoms, ROUNDING))
    if orders.is_uniform:
        bins = binned.get((n, p))
    else:
        bins = binned_tilted(score, orders, work, sampling_error(empty.samples))
    if bins is None:
        return "it is too rugged for Fourier coefficients"
    same = repeat_probability(score, orders)
    exact = _with_draws(empty.in_bins(bins), same)
    if orders.is_uniform or empty.samples * same < RARE:
        return exact
    # Tilted orders differ too much in probability to derive the count from their mean mass.
    return replace(exact, count=float(len(sample_orders(score, orders, empty.samples, seed=0).support)))


@on_cpu
def _of_any_metric(
    metric: Metric, profile: Profile, method: Method, samples: int, seed: int, tilt: float
) -> ScoreDistribution:
    """Return the distribution of any metric from its function of ranks; tilted orders require a binary list."""
    orders = Orders(metric, profile, tilt)
    if method != "sampled" or orders.number == 1:
        # Enumeration that takes longer than sampling requires an explicit `exact`.
        atoms = orders.exact_atoms(most=FEW_ORDERS if method == "exact" else samples)
        if atoms is not None:
            mean, sd = _moments(atoms)
            ends = float(atoms.support[0]), float(atoms.support[-1])
            empty = _empty(metric, profile, samples, ends, mean, sd)
            if len(atoms.support) == 1:
                return _in_atoms(replace(empty, sd=0.0, count=1.0), atoms._replace(probability=np.ones(1)))
            return _with_draws(_in_atoms(empty, atoms, ROUNDING))
        if method == "exact":
            raise _no_exact(metric, profile, "it has no formula and too many orders")
    facts = _facts(metric, profile)
    low, high, mean = (float(fact) for fact in (facts.minimum, facts.maximum, facts.expectation))
    atoms = orders.atoms_of_random(samples, seed)
    drawn, sd = _moments(atoms)
    ends = min(low, atoms.support[0]), max(high, atoms.support[-1])
    # Closed forms of the mean hold for uniform orders only.
    empty = _empty(metric, profile, samples, ends, mean if tilt == UNIFORM else drawn, sd)
    return _of_draws(empty, atoms)


def _moments(atoms: Atoms) -> tuple[float, float]:
    """Return the mean and the standard deviation."""
    mean = float(atoms.probability @ atoms.support)
    return mean, float(atoms.probability @ (atoms.support - mean) ** 2) ** 0.5


def _of_draws(empty: ScoreDistribution, atoms: Atoms) -> ScoreDistribution:
    """Return the distribution of draws, without what rounding adds beyond the extremes unless scores become equal."""
    support = atoms.support.clip(empty.minimum, empty.maximum)
    is_rounding = np.abs(support - atoms.support).max() <= SAME_SCORE * np.abs(atoms.support).max()
    if not (is_rounding and (np.diff(support) > 0).all()):
        support = atoms.support
    low, high = float(support[0]), float(support[-1])
    drawn = replace(
        _in_atoms(empty, atoms._replace(support=support), sampling_error(empty.samples)),
        minimum=min(empty.minimum, low),
        maximum=max(empty.maximum, high),
        count=float(len(support)),
    )
    # A single score has no range: others exist that are too rare to be drawn.
    return replace(drawn, low=low, high=high) if len(support) > 1 else drawn


def _in_atoms(empty: ScoreDistribution, atoms: Atoms, error: float = 0.0) -> ScoreDistribution:
    return replace(empty, support=atoms.support, probability=atoms.probability, error=error + atoms.lost)


def _empty(
    metric: Metric, profile: Profile, samples: int, ends: tuple[float, float], mean: float, sd: float
) -> ScoreDistribution:
    """Return a distribution without mass, given its extremes and moments."""
    low, high = ends
    return ScoreDistribution(
        metric=str(metric),
        n=profile.n,
        p=profile.p,
        support=np.empty(0),
        probability=np.empty(0),
        width=0.0,
        minimum=low,
        maximum=high,
        expectation=mean,
        sd=sd,
        count=0.0,
        low=low,
        high=high,
        error=0.0,
        samples=samples,
        grades=profile.grades,
    )


def _facts(metric: Metric, profile: Profile) -> Facts:
    if profile.grades is None:
        return Facts.of_counts(metric, torch.tensor([profile.n]), torch.tensor([profile.p]))
    return Facts(metric, profile.relevance(metric), Lists.of_sizes([profile.n]))


def _with_draws(exact: ScoreDistribution, same: float = 0.0) -> ScoreDistribution:
    """Fill in the expected count of distinct scores among `samples` random orders, and the medians of their extremes.

    `same` is the probability that two random orders have the same score, needed for binned scores.
    """
    draws = exact.samples
    if exact.width == 0:
        # A score of probability q is missed by all draws with probability (1 - q)^draws.
        with np.errstate(divide="ignore"):
            count = float(-np.expm1(draws * np.log1p(-exact.probability)).sum())
    else:
        # Approximation: every score has the mean mass of a random order's score.
        count = -expm1(draws * log1p(-same)) / same if same > 0 else float(draws)
    tail = -expm1(-log(2) / draws)
    below = np.cumsum(exact.probability)
    if exact.width == 0:
        low, high = exact.support[np.searchsorted(below, [tail, 1 - tail]).clip(max=len(below) - 1)]
    else:
        low, high = np.interp([tail, 1 - tail], np.concatenate([[0.0], below]), exact.edges())
    return replace(exact, count=count, low=float(low), high=float(high))


def _no_exact(metric: Metric, profile: Profile, why: str) -> ValueError:
    return ValueError(
        f"method: found exact for the distribution of {metric} over {profile}, but {why}; expected sampled, or auto"
    )


def sampling_error(samples: int) -> float:
    """Return the error of the empirical CDF of this many draws (Dvoretzky-Kiefer-Wolfowitz)."""
    return float((log(2 / (1 - SAMPLING_CONFIDENCE)) / (2 * samples)) ** 0.5)


def counts_pairs(metric: str) -> bool:
    """Return true if the text names the nRBP loss, whose scores are integers."""
    return metric == "nRBP" or (metric.startswith("nRBP(rel=") and "," not in metric)
