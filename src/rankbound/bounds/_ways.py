"""Methods to compute a metric's score distribution, and the choice among them; see `bounds.distribution`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import comb, expm1, inf, log, log1p
from typing import Literal

import numpy as np
import torch

from rankbound.bounds._any_metric import FEW_ORDERS, Orders
from rankbound.bounds._atoms import SAME_SCORE, Atoms
from rankbound.bounds._closed_forms import EXACT_INTEGERS, closed_form
from rankbound.bounds._fourier import binned_distributions
from rankbound.bounds._score_distribution import ScoreDistribution, sampling_error
from rankbound.bounds._scores import Floats, Score, is_of_thesis, score_of
from rankbound.bounds._sums import ROUNDING, TiltedSums, UniformSums
from rankbound.bounds._tilted import UNIFORM, TiltedOrders
from rankbound.bounds.extremes import binary_expectation, binary_extremes, differ, list_expectation, list_extremes
from rankbound.bounds.profiles import Profile
from rankbound.lists import Lists, on_cpu
from rankbound.metrics import Metric

Method = Literal["exact", "sampled", "auto"]
METHODS: tuple[Method, ...] = ("exact", "sampled", "auto")

ENUMERATED_ORDERS = 5_000_000
"""Sums over the relevant items are enumerated for lists with at most this many orders."""
WORK_OF_SECONDS = 3e8
"""Limit of `auto` for the Fourier coefficients of one pass, in products of complex numbers; some seconds."""


def distributions(
    metric: Metric,
    profiles: Sequence[Profile],
    method: Method,
    samples: int,
    seed: int,
    done: Callable[[int], object] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """Yield the distributions of lists, in their order; `done(k)` is called whenever k more are ready.

    Raises:
        ValueError: for a tilt that isn't above 0, or a tilt of graded lists, for which the model isn't defined.
    """
    score = score_of(metric)
    binned = {}
    if score is not None and method != "sampled" and tilt == UNIFORM:
        long = [(profile.n, profile.p) for profile in profiles if _is_long(score, profile)]
        binned = binned_distributions(score, long, done, _work(score, method)) if long else {}
    for profile in profiles:
        n, p, is_binary = profile.n, profile.p, profile.grades is None
        orders = TiltedOrders(n, p, tilt)
        if tilt != UNIFORM and not is_binary:
            raise ValueError(f"tilt: found {tilt:g} for {profile}, expected binary relevance, or no tilt")
        if score is None or not is_binary:
            distribution = _of_any_metric(metric, profile, method, samples, seed, tilt if 0 < p < n else UNIFORM)
        else:
            sums = UniformSums(score, n, p, binned) if tilt == UNIFORM else TiltedSums(score, orders)
            distribution = _of_sums(metric, profile, sums, method, samples, seed)
        yield replace(distribution, tilt=tilt)
        # `binned_distributions` has counted its own.
        if not (is_binary and (n, p) in binned):
            done(1)


@on_cpu
def _is_long(score: Score, profile: Profile) -> bool:
    if score.name == "nRBP" or profile.grades is not None or comb(profile.n, profile.p) <= ENUMERATED_ORDERS:
        return False
    return _differ(score.minimum(profile.n, profile.p), score.maximum(profile.n, profile.p))


def _differ(low: float, high: float) -> bool:
    return bool(differ(*torch.tensor([low, high], dtype=torch.float64)))


def _work(score: Score, method: Method) -> float:
    return inf if method == "exact" or is_of_thesis(score) else WORK_OF_SECONDS


@on_cpu
def _of_sums(
    metric: Metric, profile: Profile, sums: UniformSums | TiltedSums, method: Method, samples: int, seed: int
) -> ScoreDistribution:
    n, p, score = profile.n, profile.p, sums.score
    empty = _of_formulas(metric, score, profile, samples)
    if p in (0, n) or (comb(n, p) > ENUMERATED_ORDERS and not _differ(empty.minimum, empty.maximum)):
        # Different scores that are equal but for rounding are not told apart.
        lost = float(0 < p < n and empty.minimum != empty.maximum)
        return replace(empty, support=np.array([empty.maximum]), probability=np.ones(1), count=1.0, error=lost)
    mean, sd = sums.mean_and_sd()
    empty = replace(empty, expectation=mean, sd=sd)
    if method != "sampled":
        exact = _exact_sums(empty, sums, method)
        if isinstance(exact, ScoreDistribution):
            return exact
        if method == "exact":
            raise _no_exact(metric, profile, exact)
    return _of_draws(empty, sums.drawn(samples, seed))


def _exact_sums(empty: ScoreDistribution, sums: UniformSums | TiltedSums, method: Method) -> ScoreDistribution | str:
    """Return the distribution of all possible scores, or why there is none."""
    n, p, score = empty.n, empty.p, sums.score
    if score.name == "nRBP":
        if p * (n - p) > EXACT_INTEGERS:
            return f"it has {p * (n - p) + 1:,} scores, more than {EXACT_INTEGERS:,}"
        probability, error = sums.of_integers()
        integers = np.arange(len(probability), dtype=np.float64)
        return _with_draws(_in_atoms(empty, Atoms(integers, probability), error))
    if comb(n, p) <= ENUMERATED_ORDERS:
        atoms = sums.enumerated()
        low, high = (float(score) for score in atoms.support[[0, -1]])
        return _with_draws(_in_atoms(replace(empty, minimum=low, maximum=high), atoms, ROUNDING))
    binned = sums.in_bins(_work(score, method), empty.samples)
    if binned is None:
        return "it is too rugged for Fourier coefficients"
    return sums.with_count(_with_draws(empty.in_bins(binned), sums.repeated()))


@on_cpu
def _of_any_metric(
    metric: Metric, profile: Profile, method: Method, samples: int, seed: int, tilt: float = UNIFORM
) -> ScoreDistribution:
    """Return the distribution of any metric from its function of ranks; tilted orders require a binary list."""
    orders = Orders(metric, profile, tilt)
    if method != "sampled" or orders.number == 1:
        # Enumeration that takes longer than sampling requires an explicit `exact`.
        atoms = _exact_atoms(orders, most=FEW_ORDERS if method == "exact" else samples)
        if atoms is not None:
            return _of_atoms(metric, profile, atoms, samples)
        if method == "exact":
            raise _no_exact(metric, profile, "it has no formula and too many orders")
    atoms = orders.atoms_of_random(samples, seed)
    support, probability = atoms.support, atoms.probability
    values = _extremes_and_mean(metric, profile)
    minimum, maximum, mean = min(values[0], support[0]), max(values[1], support[-1]), values[2]
    drawn = float(probability @ support)
    variance = float(probability @ (support - drawn) ** 2)
    # Closed forms of the mean hold for uniform orders only.
    summary = (minimum, maximum, mean if tilt == UNIFORM else drawn, variance)
    empty = _empty(metric, profile, summary, samples)
    return _of_draws(empty, atoms)


def _exact_atoms(orders: Orders, most: int) -> Atoms | None:
    profile = orders.profile
    if profile.grades is None and 0 < profile.p < profile.n:
        atoms = closed_form(orders.metric, profile.n, profile.p, orders.tilt)
        if atoms is not None:
            return atoms
    if orders.are_few(most):
        return orders.atoms_of_all()
    return orders.atoms_of_patterns() if orders.have_few_patterns(most) else None


def _of_atoms(metric: Metric, profile: Profile, atoms: Atoms, samples: int) -> ScoreDistribution:
    """Return the distribution of all possible scores with their probabilities."""
    support, probability = atoms.support, atoms.probability
    mean = float(probability @ support)
    variance = float(probability @ (support - mean) ** 2)
    empty = _empty(metric, profile, (float(support[0]), float(support[-1]), mean, variance), samples)
    if len(support) == 1:
        return replace(empty, support=support, probability=np.ones(1), sd=0.0, count=1.0, error=atoms.lost)
    return _with_draws(_in_atoms(empty, atoms, ROUNDING))


def _of_draws(empty: ScoreDistribution, atoms: Atoms) -> ScoreDistribution:
    support, error = _up_to_rounding(atoms.support, empty), sampling_error(empty.samples)
    atoms = atoms._replace(support=support)
    low, high = min(empty.minimum, float(support[0])), max(empty.maximum, float(support[-1]))
    empty = replace(empty, minimum=low, maximum=high)
    drawn = replace(_in_atoms(empty, atoms, error), count=float(len(support)))
    # A single score has no range: others exist that are too rare to be drawn.
    return replace(drawn, low=float(support[0]), high=float(support[-1])) if len(support) > 1 else drawn


def _up_to_rounding(support: Floats, of: ScoreDistribution) -> Floats:
    """Return the scores without what rounding adds beyond the extremes, unless that makes two of them equal."""
    clipped = support.clip(of.minimum, of.maximum)
    is_rounding = np.abs(clipped - support).max() <= SAME_SCORE * np.abs(support).max()
    return clipped if is_rounding and (np.diff(clipped) > 0).all() else support


def _in_atoms(empty: ScoreDistribution, atoms: Atoms, error: float) -> ScoreDistribution:
    return replace(empty, support=atoms.support, probability=atoms.probability, error=error + atoms.lost)


def _of_formulas(metric: Metric, score: Score, profile: Profile, samples: int) -> ScoreDistribution:
    """Return a distribution with the values of closed forms but without mass; NaN where the metric is undefined."""
    n, p = profile.n, profile.p
    if p == 0:
        low, high = (float(value) for value in binary_extremes(metric, torch.tensor([n]), torch.tensor([p])))
        return _empty(metric, profile, (low, high, high, 0.0 if high == low else float("nan")), samples)
    values = tuple(form(n, p) for form in (score.minimum, score.maximum, score.mean, score.variance))
    if p == n:
        values = (values[1], values[1], values[1], 0.0)
    return _empty(metric, profile, values, samples)


def _empty(metric: Metric, profile: Profile, values: tuple[float, ...], samples: int) -> ScoreDistribution:
    """Return a distribution without mass, given its minimum, maximum, mean and variance."""
    minimum, maximum, mean, variance = values
    return ScoreDistribution(
        metric=str(metric),
        n=profile.n,
        p=profile.p,
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
        grades=profile.grades,
    )


def _extremes_and_mean(metric: Metric, profile: Profile) -> tuple[float, float, float]:
    if profile.grades is None:
        counts = torch.tensor([profile.n]), torch.tensor([profile.p])
        low, high = binary_extremes(metric, *counts)
        return float(low), float(high), float(binary_expectation(metric, *counts))
    relevance, lists = profile.relevance(metric), Lists(torch.tensor([0, profile.n]))
    low, high = list_extremes(metric, relevance, lists)
    return float(low), float(high), float(list_expectation(metric, relevance, lists))


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
