"""Claims about the distribution of a metric over a list's random orders, and about the bound based on it."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np

import rankbound as rb
from rankbound.bounds.score_distribution import ScoreDistribution, score_distributions
from rankbound_study.claims.all_orders import METRICS, MIXED, SAME, SHORT, Floats, Value, values
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import CONFIRMED, REFUTED, Verdict, holds

DRAWN_LISTS = ((8, 4), (15, 5), (30, 10), (60, 20), (20, 10), (40, 10))
"""N and P of the lists in figures 3.5 and 3.6."""

GAINS = (1.0, 4.0, 16.0, 64.0)
"""Gains of figure 3.5."""

CLOSE = 0.05
"""Largest excess of a close curve's distance from the steps over that of the best smooth curve."""

STEPS = 20
"""Number of scores at which a curve is compared, there and just before."""

LONG = (26, 13)
"""A list whose orders are too many to enumerate, but not to count."""

COUNTED = 100
"""Number of scores at which its orders are counted."""

TABLE_ERROR = 1e-4
"""Largest error that the library states for binned distributions."""


@decides("T17")
def the_distribution_bound_runs_from_zero_to_one(evidence: Evidence) -> Verdict:
    """Decide by the discrete and the smooth F at the extremes of short lists, and F's distance from a straight line."""
    known = [(metric, n, p, rb.score_distribution(metric, n=n, p=p)) for metric in METRICS for n, p in MIXED]
    discrete = np.array([_steps_at_extremes(values(metric, n, p)) for metric, n, p, _ in known])
    smooth = np.array([of.smooth_cdf([of.minimum, of.maximum]) for *_, of in known])
    bent = sum(_bend(of) > SAME for *_, of in known)
    several = sum(len(set(values(metric, n, p))) > 2 for metric, n, p, _ in known)
    reached = all(np.abs(found - [0, 1]).max() <= SAME for found in (discrete, smooth))
    lower, upper = discrete.T
    return Verdict(
        holds(bool(reached and bent)),
        f"For {len(known)} pairs of a metric and a list of 2 to {SHORT} items, the lowest score maps to "
        f"{lower.min():.4f} to {lower.max():.2f} and the highest to {upper.min():.0f}; with the smooth curve of "
        f"training, the lowest maps to up to {smooth[:, 0].max():.2f} and the highest to as little as "
        f"{smooth[:, 1].min():.2f}; the map is not a straight line for {bent} of the {several} pairs with more than "
        "two scores.",
        statistic="highest lower end, smooth",
        value=float(smooth[:, 0].max()),
        n=len(known),
        shown_in="figure_3_7",
    )


def _steps_at_extremes(of_orders: tuple[Value, ...]) -> tuple[float, float]:
    """Return the shares of orders that score at most the smallest value, and at most the largest."""
    scores = np.array(of_orders, dtype=np.float64)
    return float((scores <= scores.min() + SAME).mean()), float((scores <= scores.max() + SAME).mean())


def _bend(of: ScoreDistribution) -> float:
    """Return the largest distance of F, at the scores, from the straight line between its ends."""
    cumulative = of.cdf(of.support)
    line = np.interp(of.support, of.support[[0, -1]], cumulative[[0, -1]])
    return float(np.abs(cumulative - line).max())


@decides("T18")
def a_gain_that_follows_the_scores_gives_a_close_curve(evidence: Evidence) -> Verdict:
    """Decide by the distance of smooth curves from the exact steps, beyond the half step that each must miss."""
    found = {(metric, of.n, of.p): _excesses(of) for metric in METRICS for of in _distributions(metric)}
    of_lists = np.array(list(found.values()))
    one, followed = of_lists[:, 0], of_lists[:, -1]
    poor = {metric: sum(of[0] > CLOSE for key, of in found.items() if key[0] == metric) for metric in METRICS}
    far = [int((column > CLOSE).sum()) for column in of_lists.T]
    fixed = ", ".join(f"{count} at {gain:g}" for gain, count in zip(GAINS[1:], far[1:], strict=False))
    return Verdict(
        CONFIRMED if followed.max() <= CLOSE and (one > CLOSE).mean() > 0.5 else REFUTED,
        f"With gain 1 the smooth curve is farther than {CLOSE} from the steps for {far[0]} of {len(found)} pairs of a "
        f"metric and a list (up to {one.max():.2f}; {poor['nRBP']} of them nRBP, whose scores are whole numbers), with "
        f"the gain of equation 3.13 for {far[-1]} (up to {followed.max():.3f}), and with larger fixed gains for "
        f"{fixed}.",
        statistic="largest distance with the gain of equation 3.13",
        value=float(followed.max()),
        n=len(found),
        shown_in="figure_3_5 figure_3_6",
    )


def _distributions(metric: str) -> Iterable[ScoreDistribution]:
    return score_distributions(metric, DRAWN_LISTS)


def _excesses(of: ScoreDistribution) -> list[float]:
    """Return the largest distance from the steps minus half of the largest step, by gain; the last is eq. 3.13's."""
    at = of.support[np.unique(np.linspace(0, len(of.support) - 1, STEPS).astype(int))]
    scores = np.concatenate([at, at - 1e-6 * (of.maximum - of.minimum)])
    exact = of.cdf(scores)
    half = of.probability.max() / 2 if of.width == 0 else 0.0
    return [float(np.abs(of.smooth_cdf(scores, gain) - exact).max() - half) for gain in (*GAINS, "distinct")]


@decides("T19")
def only_simulation_yields_the_distributions(evidence: Evidence) -> Verdict:
    """Compare the library's exact distributions with all orders: enumerated, or counted by halves."""
    shares = [_same_shares(metric, n, p) for metric in ("nDCG", "nRBP") for n, p in MIXED]
    distance = max(_distance_from_counts(metric, *LONG) for metric in ("nDCG", "nRBP"))
    exact = all(shares) and distance <= TABLE_ERROR
    return Verdict(
        holds(not exact),
        f"Computed without drawing any random order, the distributions of nDCG and nRBP are those of all orders for "
        f"{sum(shares)} of {len(shares)} pairs of a metric and a list of 2 to {SHORT} items, and for the "
        f"{comb(*LONG):,} orders of {LONG[0]} items with {LONG[1]} relevant ones "
        + (
            f"to within {TABLE_ERROR:g} in probability."
            if distance <= TABLE_ERROR
            else f"they differ by {distance:.2g} in probability, more than {TABLE_ERROR:g}."
        ),
        statistic="share of short lists with equal distributions",
        value=sum(shares) / len(shares),
        n=len(shares) + 2,
        shown_in="figure_3_5 figure_3_6",
    )


def _same_shares(metric: str, n: int, p: int) -> bool:
    """Check that the distribution has the scores of all orders, each with its share of them."""
    counts = Counter(round(float(value), 9) for value in values(metric, n, p))
    expected = [Fraction(counts[score], comb(n, p)) for score in sorted(counts)]
    found = rb.score_distribution(metric, n=n, p=p)
    return len(found.support) == len(counts) and bool(
        np.allclose(found.support, sorted(counts), rtol=0, atol=1e-8)
        and np.allclose(found.probability, [float(share) for share in expected], rtol=0, atol=SAME)
    )


def _distance_from_counts(metric: str, n: int, p: int) -> float:
    """Return the largest distance of the library's F from the counted one, at evenly spaced scores."""
    found = rb.score_distribution(metric, n=n, p=p)
    # Not at the scores themselves, where rounding would decide the side of a step.
    scores = np.linspace(found.minimum, found.maximum, COUNTED) + 1e-6 * (found.maximum - found.minimum)
    return float(np.abs(found.cdf(scores) - share_of_orders_up_to(metric, n, p, scores)).max())


def share_of_orders_up_to(metric: str, n: int, p: int, scores: Floats) -> Floats:
    """Return the share of all orders with at most each score, counting the matching halves of the ranks.

    nDCG and the nRBP loss are sums over the relevant ranks; the sums of both halves are listed, by relevant items.
    """
    ranks = np.arange(1.0, n + 1)
    shares: Floats
    if metric == "nRBP":
        shares, start = ranks - 1, -p * (p - 1) / 2
    else:
        shares, start = 1 / np.log2(ranks + 1) / np.sum(1 / np.log2(ranks[:p] + 1)), 0.0
    upper, lower = (_sums_by_count(half) for half in (shares[: n // 2], shares[n // 2 :]))
    orders = np.zeros(len(scores))
    for count, sums in upper.items():
        others = lower.get(p - count)
        if others is not None:
            room = (scores[:, None] - start - sums).ravel()
            orders += np.searchsorted(others, room, side="right").reshape(len(scores), -1).sum(axis=1)
    return orders / comb(n, p)


def _sums_by_count(shares: Floats) -> dict[int, Floats]:
    """Return the sums of all choices of ranks, ascending, by the number of chosen ranks."""
    return {count: np.sort([sum(chosen) for chosen in combinations(shares, count)]) for count in range(len(shares) + 1)}
