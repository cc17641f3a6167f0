"""Score distributions over uniform or tilted random orders: choice of the method for each list."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from rankbound.bounds._rank_sums import WALK_ERROR, rank_sums
from rankbound.bounds._score_distribution import ScoreDistribution, sampling_error
from rankbound.bounds._scores import Score, is_of_thesis, score_of
from rankbound.bounds._tilted import (
    UNIFORM,
    TiltedOrders,
    TiltedScore,
    enumerate_tilted,
    orders_are_few,
    repeated_score,
    sample_tilted,
)
from rankbound.bounds._tilted_fourier import binned_tilted
from rankbound.bounds._ways import (
    ENUMERATED_ORDERS,
    NO_RANGE,
    ROUNDING,
    WORK_OF_SECONDS,
    Method,
    in_atoms,
    no_exact,
    of_any_metric,
    of_draws,
    of_formulas,
    uniform_distributions,
    with_draws,
)
from rankbound.bounds.profiles import Profile
from rankbound.metrics import Metric

RARE = 1e-3
"""Expected number of repetitions among a list's draws below which all scores count as distinct."""


def distributions(
    metric: Metric,
    profiles: Sequence[Profile],
    method: Method,
    samples: int,
    seed: int,
    done: Callable[[int], None] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """Yield the distributions of lists, in their order; `done(k)` is called whenever k more are ready.

    Raises:
        ValueError: for a tilt that isn't above 0, or a tilt of graded lists, for which the model isn't defined.
    """
    if tilt == UNIFORM:
        yield from uniform_distributions(metric, profiles, method, samples, seed, done)
        return
    for profile in profiles:
        orders = TiltedOrders(profile.n, profile.p, tilt)
        if profile.grades is not None:
            raise ValueError(f"tilt: found {tilt:g} for {profile}, expected binary relevance, or no tilt")
        score = score_of(metric)
        if score is None:
            differ = 0 < profile.p < profile.n
            distribution = of_any_metric(metric, profile, method, samples, seed, tilt if differ else UNIFORM)
        else:
            distribution = _of_score(metric, score, profile, orders, method, samples, seed)
        yield replace(distribution, tilt=tilt)
        done(1)


def _of_score(
    metric: Metric, score: Score, profile: Profile, orders: TiltedOrders, method: Method, samples: int, seed: int
) -> ScoreDistribution:
    empty = of_formulas(metric, score, profile, samples)
    if profile.p in (0, profile.n) or empty.maximum - empty.minimum <= NO_RANGE:
        return replace(empty, support=np.array([empty.maximum]), probability=np.ones(1), count=1.0, error=0.0)
    (mean, variance), scale = TiltedScore(score, orders).moments, score.scale(profile.p)
    empty = replace(empty, expectation=mean / scale, sd=variance**0.5 / scale)
    if method != "sampled":
        if score.name == "nRBP":
            probability = rank_sums(profile.n, profile.p, orders.tilt)
            scores = np.arange(len(probability), dtype=np.float64)
            return with_draws(in_atoms(empty, (scores, probability), WALK_ERROR))
        if orders_are_few(orders, ENUMERATED_ORDERS):
            return with_draws(in_atoms(empty, enumerate_tilted(score, orders), ROUNDING))
        work = inf if method == "exact" or is_of_thesis(score) else WORK_OF_SECONDS
        binned = binned_tilted(score, orders, work, sampling_error(samples))
        if binned is not None:
            return _with_count(with_draws(empty.in_bins(binned), repeated_score(score, orders)), score, orders)
        if method == "exact":
            raise no_exact(metric, profile, "it is too rugged for Fourier coefficients")
    return of_draws(empty, sample_tilted(score, orders, samples, seed))


def _with_count(exact: ScoreDistribution, score: Score, orders: TiltedOrders) -> ScoreDistribution:
    """Replace the count by that of distinct scores among drawn orders, unless repetitions are rare.

    Tilted orders differ too much in probability to derive the count from their mean mass.
    """
    if exact.samples * repeated_score(score, orders) < RARE:
        return exact
    return replace(exact, count=float(len(sample_tilted(score, orders, exact.samples, seed=0)[0])))
