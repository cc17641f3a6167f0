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
from operator import index

import numpy as np

from rankbound.bounds._score_distribution import SAMPLES, Gain, ScoreDistribution
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds._ways import METHODS, Method, distributions
from rankbound.bounds.extremes import LONGEST
from rankbound.bounds.profiles import Profile
from rankbound.lists import ArrayLike, as_tensor, require_grades
from rankbound.metrics import Metric
from rankbound.metrics import metric as parse_metric

MOST_SAMPLES = 100_000_000
"""The most random orders, 800 MB of scores."""


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
    if relevance is None:
        assert n is not None
        assert p is not None
        profile = _profile(n, p)
    else:
        array = relevance if hasattr(relevance, "dtype") else np.asarray(relevance)
        grades = as_tensor(array, "relevance")
        require_grades(grades)
        profile = Profile.of_relevance(of, grades)
    return next(distributions_of(of, [profile], method=method, samples=samples, seed=seed, tilt=tilt))


def score_distributions(
    metric: str | Metric,
    pairs: Sequence[tuple[int, int]],
    *,
    method: Method = "exact",
    samples: int = SAMPLES,
    seed: int = 0,
    done: Callable[[int], object] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """Yield the `score_distribution` of many (N, P), in their order; faster than single calls for long lists.

    `done(k)` is called whenever k more of them are ready (for a progress bar).
    """
    profiles = [_profile(n, p) for n, p in pairs]
    return distributions_of(
        parse_metric(metric), profiles, method=method, samples=samples, seed=seed, done=done, tilt=tilt
    )


def distributions_of(
    metric: Metric,
    profiles: Sequence[Profile],
    *,
    method: Method = "exact",
    samples: int = SAMPLES,
    seed: int = 0,
    done: Callable[[int], object] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """Yield the distributions of profiles, binary or graded; as `score_distributions`."""
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
    return distributions(metric, profiles, method, samples, seed, done, tilt)


def _profile(n: int, p: int) -> Profile:
    """Return the profile with Python's integers: products of NumPy's could overflow."""
    try:
        return Profile(index(n), index(p))
    except TypeError:
        raise ValueError(f"n, p: found {n!r} and {p!r}, expected integers") from None


__all__ = [
    "METHODS",
    "SAMPLES",
    "Gain",
    "Method",
    "ScoreDistribution",
    "distributions_of",
    "score_distribution",
    "score_distributions",
]
