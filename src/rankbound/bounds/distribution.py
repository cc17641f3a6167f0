"""How a metric is distributed over the random orders of a list. Thesis section 3.4, eqs. 3.12 and 3.13.

With binary relevance the distribution depends on N items and P relevant ones alone; with grades, on how many items have
each. Ways to find it, the first that applies:

1. sums over the relevant items (nDCG, AP, DCG, RBP, ...) without a cut-off, binary: all orders of a short list, Fourier
   coefficients of a long one; the nRBP loss: Mann and Whitney's U;
2. few values (P@k, recall@k, hit@k, RR) or pairs (LinearDCG, PairError), binary: a formula;
3. any metric, the user's own as well: all distinct orders, if they are few;
4. any metric with a cut-off: all patterns of the first k ranks, if they are few;
5. any metric: random orders.

With a tilt relevant items tend to come first, and all of this is done for that model: walks over the ranks of each list
stand in for formulas that hold for random orders alone, Mann and Whitney's among them. It knows no grades.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rankbound.bounds._order_models import distributions
from rankbound.bounds._score_distribution import SAMPLES, Gain, ScoreDistribution
from rankbound.bounds._tilted import UNIFORM
from rankbound.bounds._ways import METHODS, Method
from rankbound.bounds.profiles import Profile
from rankbound.lists import ArrayLike, as_tensor, require_grades
from rankbound.metrics import Metric
from rankbound.metrics import metric as parse_metric


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
    r"""The distribution of `metric` over the random orders of one list.

    The list is either `n` items with `p` relevant ones or the grades `relevance` `(n_items,)`. `exact`: single scores,
    or bins with a CDF error below 1e-4; `sampled`: the distinct scores of `samples` random orders; `auto`: exact if it
    can be had in seconds, else sampled. The nRBP loss and short lists always have exact distributions; what else has
    one, the module says. Where all orders score the same it is one certain score, NaN where the metric is undefined.

    With a `tilt` t above 1 orders that place relevant items first are likelier: ranks are filled from the top, and the
    next item is relevant with odds multiplied by t. With c of P relevant items placed before rank r,

    $$P(\text{rank } r \text{ is relevant}) = \frac{t (P - c)}{t (P - c) + (N - r + 1) - (P - c)}$$

    That is the model of Plackett and Luce with two worths: Luce, Individual Choice Behavior (1959); Plackett, Applied
    Statistics 24 (1975). t = 1 gives random orders; support, minimum and maximum are the same whatever the tilt. Bins
    of a short list whose best orders are likely have larger errors than 1e-4, up to that of as many draws.

    Raises:
        ValueError: for an unknown metric or method, unless 0 <= P <= N and 1 <= N, if `exact` can't be had, for a tilt
            that is not above 0, or one of grades.
    """
    of = parse_metric(metric)
    if (n is None or p is None) == (relevance is None) or (relevance is not None and not n is p is None):
        raise ValueError("score_distribution: expected either n and p, or relevance=")
    if relevance is None:
        assert n is not None
        assert p is not None
        profile = Profile(n, p)
    else:
        given = relevance if hasattr(relevance, "dtype") else np.asarray(relevance)
        grades = as_tensor(given, "relevance")  # type: ignore[arg-type]
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
    done: Callable[[int], None] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """`score_distribution` of many (N, P), in their order: much faster than one by one, since long lists share work.

    `done(k)` is told whenever k more of them are ready (for a progress bar).
    """
    profiles = [Profile(n, p) for n, p in pairs]
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
    done: Callable[[int], None] = lambda count: None,
    tilt: float = UNIFORM,
) -> Iterator[ScoreDistribution]:
    """As `score_distributions`, of profiles, binary or graded."""
    for profile in profiles:
        if not (profile.n >= 1 and 0 <= profile.p <= profile.n):
            raise ValueError(
                f"n, p: found {profile.n} items with {profile.p} relevant, expected 1 <= N and 0 <= P <= N"
            )
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    if samples < 1:
        raise ValueError(f"found samples={samples}, expected at least 1")
    return distributions(metric, profiles, method, samples, seed, done, tilt)


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
