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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, comb, expm1, inf, log, log1p
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.bounds import orders
from rankbound.bounds.extremes import LONGEST, Facts, differ
from rankbound.bounds.orders import Orders, Profile
from rankbound.bounds.sums import UNIFORM, Atoms, RandomOrders, Sum, is_sum
from rankbound.kernels.formulas import Floats
from rankbound.lists import ArrayLike, Lists, as_tensor, on_cpu, require_grades
from rankbound.metrics import Metric
from rankbound.metrics import metric as parse_metric
from rankbound.metrics.cumulative_gain import NDCG
from rankbound.metrics.precision import AveragePrecision
from rankbound.texts import require, require_one_of

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
ROUNDING, WALK_ERROR = 1e-12, 1e-8
"""Errors of the CDF of enumerated orders, and of walks over the ranks, with the mass outside their window."""
SAME_SCORE = 1e-11
"""A score that a caller computes, or rounds to 12 digits, equals the nearest atom if it is this close, relative to its
size."""
FINE_GAIN = 1.0
"""Up to this gain, integers blur into a continuum (to 1e-7 of one score's mass); above, they are separate steps."""
_CHUNK_SCORES = 2_000_000
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
        if self.width == 0:
            count = np.searchsorted(self.support, at, side="right")
            bordered = np.concatenate([[-np.inf], self.support, [np.inf]])
            with np.errstate(invalid="ignore"):
                missed = bordered[count + 1] - at
                # A score that x misses by rounding alone counts; of two scores this near, x is the nearer one.
                is_next = (missed <= SAME_SCORE * np.abs(at)) & (missed < at - bordered[count])
            value = self._below[count + is_next]
        else:
            if counts_pairs(self.metric):
                # The scores are integers and the bins end halfway between them: F(2.9) = F(2) = F_bins(2.5).
                at = np.floor(at + SAME_SCORE * np.maximum(1.0, np.abs(at))) + 0.5
            value = np.interp(at, orders.edges_of(self.support, self.width), self._below)
        return np.where(np.isnan(at) | np.isnan(self.minimum), np.nan, value)

    @cached_property
    def _below(self) -> Floats:
        """The probability before each atom or bin, and after the last one."""
        below = np.concatenate([[0.0], np.cumsum(self.probability)]).clip(max=1.0)
        below[-1] = 1.0
        return below

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
        count, span = gain_terms(kind, self.count, self.samples, self.high - self.low, self.sd)
        if not span > 0:
            raise ValueError(
                f"the gain (eq. 3.13) of {self.metric} over {self.profile} is undefined: "
                "all its orders have the same score; exclude such lists"
            )
        return float(count / span)

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
            size = int(width)
            support = np.repeat(support, size) + np.tile(np.arange(size) - (size - 1) / 2, len(support))
            probability, width = np.repeat(probability / size, size), 0.0
        at = np.asarray(x, dtype=np.float64)
        smooth, rows = np.empty(at.size), max(1, _CHUNK_SCORES // len(support))
        for start in range(0, at.size, rows):
            distance = torch.from_numpy(a * (at.reshape(-1)[start : start + rows, None] - support))
            step = torch.sigmoid(distance) if width == 0 else smooth_bin(distance, a * width)
            smooth[start : start + rows] = step.numpy() @ probability
        return smooth.reshape(at.shape)

    def binned(self) -> "ScoreDistribution":
        """Return the distribution in bins of equal width, or itself if it has few scores or bins would be too coarse.

        The number of bins is 40 per standard deviation, doubled until binning changes the CDF by at most 1e-4. If no
        bins do, a tenth of the sampling error is tolerated (all of it for tilted orders, the best of which can be
        likely). The change is exact and is added to `error`. A bin of the nRBP loss holds a whole number of integers.
        """
        if self.width > 0 or len(self.support) <= FEW_SCORES:
            return self
        tolerated = max(orders.LARGEST_ERROR, SHARE_OF_ERROR * self.error)
        if self.tilt != 1:
            tolerated = max(tolerated, sampling_error(self.samples))
        bins, best = orders.number_of_bins(self.maximum - self.minimum, self.sd), self
        integers, span = counts_pairs(self.metric), self.maximum - self.minimum
        steps = np.concatenate([[0.0], np.cumsum(self.probability)])
        while bins <= min(orders.MOST_BINS, len(self.support)):
            start, width, count = self.minimum, span / bins, bins
            if integers:
                width = max(1.0, span // bins)
                start, count = self.minimum - 0.5, ceil((span + 1) / width)
            place = np.clip(((self.support - start) / width).astype(np.int64), 0, count - 1)
            mass: Floats = np.bincount(place, self.probability, minlength=count).astype(np.float64)
            # The step CDF and the piecewise linear one differ most at a score, on one side of it; those of integers
            # half a unit above it, where the bins end and their CDF is evaluated.
            edges, below = start + width * np.arange(count + 1), np.concatenate([[0.0], np.cumsum(mass)])
            linear = np.interp(self.support + 0.5 * integers, edges, below)
            changes = np.abs(linear - steps[1:]) if integers else np.abs([linear - steps[1:], linear - steps[:-1]])
            middles = np.asarray(start + width * (np.arange(count) + 0.5), np.float64)
            error = self.error + float(changes.max())
            binned = replace(self, support=middles, probability=mass, width=width, error=error)
            if binned.error - self.error <= orders.LARGEST_ERROR:
                return binned
            if best is self and binned.error - self.error <= tolerated:
                best = binned
            bins *= 2
        return best

    @property
    def profile(self) -> Profile:
        """The profile of the list: its numbers of items and relevant items, or its grades."""
        return Profile(self.n, self.p, self.grades)


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
    profile: Profile | tuple[int, int]
    if n is not None and p is not None and relevance is None:
        profile = n, p
    elif relevance is not None and n is p is None:
        grades = as_tensor(relevance if hasattr(relevance, "dtype") else np.asarray(relevance), "relevance")
        require_grades(grades)
        profile = Facts(of, grades, Lists.of_sizes([len(grades)])).profile(0)
    else:
        raise ValueError("score_distribution: expected either n and p, or relevance=")
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

    The lists are (N, P) or profiles. Long ones are computed before the first distribution is yielded, together where
    they share a pass. `done(k)` is called whenever k more of them are ready (for a progress bar).
    """
    of, profiles = parse_metric(metric), list[Profile]()
    for one in lists:
        n, p = (one.n, one.p) if isinstance(one, Profile) else one
        try:
            # Python's integers: products of NumPy's could overflow.
            profiles.append(one if isinstance(one, Profile) else Profile(index(n), index(p)))
        except TypeError:
            raise ValueError(f"n, p: found {n!r} and {p!r}, expected integers") from None
    require_one_of("method", method, METHODS)
    require("samples", samples, 1 <= samples <= MOST_SAMPLES, f"1 to {MOST_SAMPLES:,}")
    require("seed", seed, seed >= 0, "a whole number from 0")
    sums: dict[Profile, Sum] = {}
    for profile in profiles:
        n, p = profile.n, profile.p
        require("n, p", f"{n} items with {p} relevant", n >= 1 and 0 <= p <= n, "1 <= N and 0 <= P <= N")
        require("n", f"a list of {n:,} items", n <= LONGEST, f"at most {LONGEST:,} for a distribution")
        if tilt != UNIFORM and profile.grades is not None:
            raise ValueError(f"tilt: found {tilt:g} for {profile}, expected binary relevance, or no tilt")
        if profile.grades is None and 0 < p < n and is_sum(of):
            sums[profile] = Sum(of, RandomOrders(n, p, tilt))
    binned: dict[tuple[int, int], Atoms] = {}
    if method != "sampled":
        work = inf if method == "exact" or type(of) in (AveragePrecision, NDCG) else WORK_OF_SECONDS
        many = [one for one in sums.values() if not one.counts_pairs and comb(one.n, one.p) > ENUMERATED_ORDERS]
        tolerance = orders.LARGEST_ERROR if tilt == UNIFORM else sampling_error(samples)
        binned = orders.binned_distributions((one for one in many if differ(*one.extremes)), done, work, tolerance)
    for profile in profiles:
        bins = binned.get((profile.n, profile.p)) if profile.grades is None else None
        yield _distribution(of, profile, sums.get(profile), bins, method, samples, seed, tilt)
        if bins is None:  # `binned_distributions` has counted its own.
            done(1)


@on_cpu
def _distribution(
    metric: Metric,
    profile: Profile,
    of: Sum | None,
    bins: Atoms | None,
    method: Method,
    samples: int,
    seed: int,
    tilt: float,
) -> ScoreDistribution:
    """Return the distribution over the orders of one list, by the first method that applies."""
    n, p, grades = profile.n, profile.p, profile.grades
    about: dict[str, Any] = {"metric": str(metric), "n": n, "p": p, "samples": samples, "grades": grades, "tilt": tilt}
    if of is not None:
        about |= _moments(*of.extremes, of.moments[0], of.moments[1] ** 0.5)
        if comb(n, p) > ENUMERATED_ORDERS and not differ(*of.extremes):
            # Different scores that are equal but for rounding are not told apart.
            one = Atoms(np.array([of.extremes[1]]), np.ones(1), float(of.extremes[0] != of.extremes[1]))
            return _exact(about | {"expectation": of.extremes[1], "sd": 0.0}, one)
        exact = _exact_sums(about, of, bins) if method != "sampled" else ""
    else:
        if grades is None:
            facts = Facts.of_counts(metric, torch.tensor([n]), torch.tensor([p]))
        else:
            facts = Facts(metric, profile.relevance(metric), Lists.of_sizes([n]))
        low, high = float(facts.minimum), float(facts.maximum)
        if p in (0, n) if grades is None else len(set(grades)) == 1:
            return _exact(about | _moments(low, high, high, 0.0), Atoms(np.array([high]), np.ones(1)))
        own = Orders(metric, profile, tilt)
        # Enumeration that takes longer than sampling requires an explicit `exact`.
        atoms = own.exact_atoms(orders.FEW_ORDERS if method == "exact" else samples) if method != "sampled" else None
        exact = (
            _exact(about | _moments_of(atoms), atoms, ROUNDING) if atoms else "it has no formula and too many orders"
        )
    if isinstance(exact, ScoreDistribution):
        return exact
    if method == "exact":
        raise ValueError(
            f"method: found exact for the distribution of {metric} over {profile}, but {exact}; expected sampled, or "
            "auto"
        )
    if of is not None:
        return _drawn(about, of.draw(samples, seed))
    atoms = own.atoms(own.random(samples, seed))
    moments = _moments_of(atoms)
    if tilt == UNIFORM:  # Closed forms of the mean hold for uniform orders only.
        moments["expectation"] = float(facts.expectation)
    ends = {"minimum": min(low, moments["minimum"]), "maximum": max(high, moments["maximum"])}
    return _drawn(about | moments | ends, atoms)


def _exact_sums(about: dict[str, Any], of: Sum, bins: Atoms | None) -> ScoreDistribution | str:
    """Return the distribution of a sum's possible scores, or why there is none."""
    if of.counts_pairs:
        largest = of.p * (of.n - of.p)
        if largest > orders.EXACT_INTEGERS:
            return f"it has {largest + 1:,} scores, more than {orders.EXACT_INTEGERS:,}"
        atoms = Atoms(np.arange(largest + 1.0), orders.rank_sums(of.orders))
        return _exact(about, atoms, ROUNDING if of.orders.is_uniform else WALK_ERROR)
    if comb(of.n, of.p) <= ENUMERATED_ORDERS:
        atoms = orders.enumerate_orders(of)
        low, high = atoms.support[[0, -1]].tolist()
        return _exact(about | {"minimum": low, "maximum": high}, atoms, ROUNDING)
    if bins is None:
        return "it is too rugged for Fourier coefficients"
    exact = _exact(about, bins, same=of.repeated)
    if of.orders.is_uniform or exact.samples * of.repeated < RARE:
        return exact
    # Tilted orders differ too much in probability to derive the count from their mean mass.
    return replace(exact, count=float(len(of.draw(exact.samples, seed=0).support)))


def _moments(minimum: float, maximum: float, expectation: float, sd: float) -> dict[str, float]:
    return {"minimum": minimum, "maximum": maximum, "expectation": expectation, "sd": sd}


def _moments_of(atoms: Atoms) -> dict[str, float]:
    support, probability = atoms[:2]
    mean = float(probability @ support)
    return _moments(float(support[0]), float(support[-1]), mean, float(probability @ (support - mean) ** 2) ** 0.5)


def _exact(about: dict[str, Any], atoms: Atoms, error: float = 0.0, same: float = 0.0) -> ScoreDistribution:
    """Return the distribution, with the expected count of distinct draws and the medians of their extremes.

    For bins, `same` is the probability that two random orders have the same score.
    """
    support, probability, lost, width = atoms
    draws, below = about["samples"], np.cumsum(probability)
    tail = -expm1(-log(2) / draws)
    if width == 0:
        # A score of probability q, above 1 by rounding at most, is missed by all draws with probability (1 - q)^draws.
        with np.errstate(divide="ignore"):
            count = float(-np.expm1(draws * np.log1p(-probability.clip(max=1))).sum())
        low, high = support[np.searchsorted(below, [tail, 1 - tail]).clip(max=len(below) - 1)]
    else:
        # Approximation: every score has the mean mass of a random order's score.
        count = -expm1(draws * log1p(-same)) / same if same > 0 else float(draws)
        low, high = np.interp([tail, 1 - tail], np.concatenate([[0.0], below]), orders.edges_of(support, width))
    found: dict[str, Any] = {"count": count, "low": float(low), "high": float(high), "error": error + lost}
    return ScoreDistribution(**about, support=support, probability=probability, width=width, **found)


def _drawn(about: dict[str, Any], atoms: Atoms) -> ScoreDistribution:
    """Return the distribution of draws, without what rounding adds beyond the extremes unless scores become equal."""
    support = atoms.support.clip(about["minimum"], about["maximum"])
    is_rounding = np.abs(support - atoms.support).max() <= SAME_SCORE * np.abs(atoms.support).max()
    if not (is_rounding and (np.diff(support) > 0).all()):
        support = atoms.support
    low, high = float(support[0]), float(support[-1])
    ends = {"minimum": min(about["minimum"], low), "maximum": max(about["maximum"], high)}
    if len(support) == 1:
        # A single score has no range: others exist that are too rare to be drawn.
        low, high = about["minimum"], about["maximum"]
    found: dict[str, Any] = {**about, **ends, "count": float(len(support)), "low": low, "high": high, "width": 0.0}
    error = sampling_error(about["samples"]) + atoms.lost
    return ScoreDistribution(**found, support=support, probability=atoms.probability, error=error)


def sampling_error(samples: int) -> float:
    """Return the error of the empirical CDF of this many draws (Dvoretzky-Kiefer-Wolfowitz)."""
    return float((log(2 / (1 - SAMPLING_CONFIDENCE)) / (2 * samples)) ** 0.5)


def counts_pairs(metric: str) -> bool:
    """Return true if the text names the nRBP loss, whose scores are integers."""
    return metric == "nRBP" or (metric.startswith("nRBP(rel=") and "," not in metric)


def gain_terms(kind: str, count: Any, samples: Any, span: Any, sd: Any) -> tuple[Any, Any]:
    """Return the numerator and the denominator of a gain (thesis eq. 3.13), of one distribution or of many."""
    terms = {"distinct": (count, span), "drawn": (samples, span), "sd": (1.0, sd)}
    require_one_of("gain", kind, terms)
    return terms[kind]


def smooth_bin(distance: Tensor, width: Any) -> Tensor:
    r"""Return the sigmoid's mean over a bin from l to l + width, in units of 1 / gain.

    It is (softplus(x - l) - softplus(x - l - width)) / width: the sum over bins is the convolution of the sigmoid's
    density with the piecewise linear CDF.
    """
    left, right = distance + width / 2, distance - width / 2
    # softplus(u) = max(u, 0) + log1p(exp(-|u|)); the difference of the first terms is the linear step.
    linear = left.clamp(min=0.0).clamp(max=width)
    mean: Tensor = (linear + torch.log1p(torch.exp(-left.abs())) - torch.log1p(torch.exp(-right.abs()))) / width
    return mean
