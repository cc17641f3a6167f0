"""Theorems of the thesis: extremes and expectations of metrics, ends of bounded losses, scores of random orders."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, product
from math import comb

import numpy as np
import numpy.typing as npt
import torch

import rankbound as rb
from rankbound.bounds.score_distribution import ScoreDistribution, score_distributions
from rankbound_study.claims import oracle as equations
from rankbound_study.claims.oracle import (
    LISTS,
    LOSS_ONLY,
    METRICS,
    MIXED,
    RATIOS,
    SAME,
    SHORT,
    Floats,
    Formula,
    Integers,
    OfOrders,
    Order,
    Value,
    as_loss,
    at_ratio,
    binary_orders,
    expected_loss,
    mean,
    right_for,
    smallest,
    theorem,
    values,
    values_of_library,
)
from rankbound_study.claims.verdict import Ruling, counted, holds

SIZES = (25, 50, 100, 200)
"""Sizes of the lists in figure 1.1."""

TENTHS = range(1, 10)
"""Shares of relevant items, in tenths."""

ABOVE_ZERO = ("nDCG", "AP")

MOST = 200
"""Relevant items of the longest list."""

FALLS_FROM = 5
"""Number of relevant items from which the expected nDCG loss falls, according to the thesis."""


@theorem("T01")
def the_worst_order_scores_above_zero() -> Ruling:
    """Decide by each list's floor and its change with one more relevant item; short lists by all their orderings."""
    sizes = (*range(2, SHORT + 1), *SIZES)
    floors = [smallest(metric, np.full(n, n), np.arange(1, n + 1)) for metric, n in product(ABOVE_ZERO, sizes)]
    every = np.concatenate(floors)
    rises = np.concatenate([np.diff(of_size) for of_size in floors]) > SAME
    facts = {"above": int((every > SAME).sum()), "cases": len(every), "short": SHORT, "lowest": every.min()}
    facts |= {"rises": rises.sum(), "steps": len(rises)}
    return Ruling(holds(bool((every > SAME).all() and rises.all())), facts, float(every.min()), n=len(every))


@theorem("T02")
def the_floor_of_ndcg_depends_on_the_size_more() -> Ruling:
    """Decide by the range of the floors from 25 to 200 items, at equal shares of relevant items."""
    ndcg, ap = (np.array([range_of_floors(metric, share) for share in TENTHS]) for metric in ABOVE_ZERO)
    more, ranges = int((ndcg > ap + SAME).sum()), [f"{of.min():.3f} to {of.max():.3f}" for of in (ndcg, ap)]
    facts = {"more": more, "shares": len(TENTHS), "of_ndcg": ranges[0], "of_ap": ranges[1]}
    return Ruling(holds(more == len(TENTHS)), facts, float((ndcg - ap).min()), n=len(TENTHS))


def range_of_floors(metric: str, tenths: int) -> float:
    """Return the range over the sizes that can have exactly this share of relevant items."""
    sizes = np.array([size for size in SIZES if size * tenths % 10 == 0])
    return float(np.ptp(smallest(metric, sizes, sizes * tenths // 10)))


@theorem("T03")
def low_lists_that_outscore_higher_ones() -> Ruling:
    """Compare nDCG of a list with its only relevant item second and of a list with all five at the bottom."""
    second, bottom = values_of_library(rb.metric("nDCG"), [(0, 1), (0, 1, 1, 1, 1, 1)]).tolist()
    return Ruling(holds(bottom > second), {"second": second, "bottom": bottom}, bottom - second, n=2)


@theorem("T04")
def the_extremes_have_formulas() -> Ruling:
    """Compare the thesis' equations and the library's extremes with all orderings of short lists."""
    formulas: list[tuple[Formula, str, OfOrders]] = [
        (equations.smallest_ndcg, "nDCG", min),
        (equations.smallest_ap, "AP", min),
        (lambda n, p: 0, "nRBP", min),
        (lambda n, p: 1, "nDCG", max),
        (lambda n, p: 1, "AP", max),
        (equations.largest_nrbp, "nRBP", max),
        *((partial(rb.minimum, metric), metric, min) for metric in METRICS),
        *((partial(rb.maximum, metric), metric, max) for metric in METRICS),
    ]
    right, undivided = sum(right_for(*one) for one in formulas), right_for(equations.worst_dcg, "nDCG", min)
    return counted(right, len(formulas) * len(LISTS), {"short": SHORT, "undivided": undivided, "lists": len(LISTS)})


@theorem("T05")
def more_relevant_items_are_easier() -> Ruling:
    """Decide by the changes of the worst and the expected loss from P to P + 1 relevant items at a fixed ratio."""
    steps = {metric: np.concatenate([*_steps(metric, worst=True), *_steps(metric)]) for metric in METRICS}
    easier = {metric: int((change < -SAME).sum()) for metric, change in steps.items()}
    every = {metric: len(change) for metric, change in steps.items()}
    return counted(
        sum(easier.values()), sum(every.values()), {"easier": easier, "every": every, "turning": max(turning_points())}
    )


def _steps(metric: str, fewest: int = 1, *, worst: bool = False) -> list[Floats]:
    """Return the changes from P to P + 1 relevant items, by ratio, of the expected loss or of the floor's, if any."""
    if not worst:
        return [np.diff(expected_loss(metric, *at_ratio(ratio, MOST, fewest))) for ratio in RATIOS]
    ratios = () if metric == LOSS_ONLY else RATIOS
    return [np.diff(as_loss(metric, smallest(metric, *at_ratio(ratio, MOST)))) for ratio in ratios]


def turning_points() -> list[int]:
    """Return the number of relevant items from which the expected nDCG loss falls, by ratio."""
    return [int(np.flatnonzero(change >= -SAME).max(initial=-1)) + 2 for change in _steps("nDCG")]


@theorem("T08")
def the_expectations_have_formulas() -> Ruling:
    """Compare the thesis' equations and the library's expectations with the means over all orderings of short lists."""
    formulas: list[tuple[Formula, str, OfOrders]] = [
        (equations.expected_ndcg, "nDCG", mean),
        (equations.expected_nrbp, "nRBP", mean),
        *((partial(rb.expectation, metric), metric, mean) for metric in METRICS),
    ]
    exact = sum(equations.expected_ap(n, p) == mean(values("AP", n, p)) for n, p in LISTS)
    right, cases = exact + sum(right_for(*formula) for formula in formulas), (1 + len(formulas)) * len(LISTS)
    printed = right_for(equations.expected_ndcg_as_printed, "nDCG", mean)
    return counted(right, cases, {"short": SHORT, "exact": exact, "lists": len(LISTS), "printed": printed})


@theorem("T09")
def the_expected_loss_grows_with_the_ratio() -> Ruling:
    """Compare expected losses of lists with equally many relevant items, from one ratio to the next."""
    losses = np.array([[expected_loss(metric, *at_ratio(ratio, MOST)) for ratio in RATIOS] for metric in METRICS])
    grows = np.diff(losses, axis=1) > SAME
    return counted(int(grows.sum()), grows.size, {"most": MOST})


@theorem("T10")
def the_expected_ndcg_loss_falls_from_five_on() -> Ruling:
    """Decide by the sign of every step from five relevant items on."""
    falls = np.concatenate(_steps("nDCG", FALLS_FROM)) < -SAME
    largest = ", ".join(map(str, turning_points()))
    return counted(int(falls.sum()), falls.size, {"fewest": FALLS_FROM, "most": MOST, "largest": largest})


@theorem("T11")
def the_expected_ap_and_nrbp_losses_rise() -> Ruling:
    """Decide by the sign of every step, at all ratios."""
    rises = [np.concatenate(_steps(metric)) > SAME for metric in ("AP", "nRBP")]
    ap, nrbp = (f"{of.sum()} of {of.size}" for of in rises)
    return counted(
        int(sum(of.sum() for of in rises)), sum(of.size for of in rises), {"most": MOST, "ap": ap, "nrbp": nrbp}
    )


MOST_RELEVANT = 1227
"""Number of relevant items of the MovieLens user with the most."""

LONGEST = 121
"""Documents of MQ2008's longest query."""

RANDOM_LISTS = 50
"""Lists of random scores of each size."""

APART = 20.0
"""Distance of scores, in temperatures, at which smooth ranks are hard ranks."""

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ends:
    """The bounded loss of each list's best and worst order."""

    lower: Floats
    upper: Floats


def ends(metric: str, bounding: str, n: Integers, p: Integers) -> Ends:
    """Bound the metric first, then negate it: over all orders of short lists, by the library for long ones."""
    bounded = rb.bounded(metric, bounding)
    found = [bounded.from_value(extreme(metric, n, p), n, p) for extreme in (rb.minimum, rb.maximum)]
    for index in np.flatnonzero(n <= SHORT):
        of_orders = _bounded_by_hand(metric, bounding, int(n[index]), int(p[index]))
        for value, extreme in zip(found, (of_orders.min(), of_orders.max()), strict=True):
            value[index] = extreme
    lower, upper = np.sort(np.array([as_loss(metric, value) for value in found]), axis=0)
    return Ends(lower, upper)


def _bounded_by_hand(metric: str, bounding: str, n: int, p: int) -> Floats:
    """Apply thesis eqs. 3.6 and 3.11 to every order."""
    of_orders: Floats = np.array(values(metric, n, p), dtype=np.float64)
    mean, most = float(of_orders.mean()), float(of_orders.max())
    return of_orders / mean if bounding == "expectation" else (of_orders - mean) / (most - mean)


def sizes_of_the_data() -> tuple[Integers, Integers]:
    """Return N and P of every list with differing orders that MovieLens (at each ratio) and MQ2008 can have."""
    sampled = [at_ratio(ratio, MOST_RELEVANT) for ratio in RATIOS]
    judged = np.array([(n, p) for n in range(2, LONGEST + 1) for p in range(1, n)]).T
    n, p = np.concatenate([np.array(sizes) for sizes in (*sampled, judged)], axis=1)
    return n, p


@theorem("T06")
def min_max_bounding_gives_zero_to_one() -> Ruling:
    """Check all orders of short lists, and random and adversarial scores with the smooth ranks of training."""
    hard = np.concatenate([_of_all_orders(metric) for metric in METRICS])
    smooth = {metric: _of_scores(metric) for metric in METRICS}
    outside, beyond = int(_outside(hard).sum()), {metric: int(_outside(of).sum()) for metric, of in smooth.items()}
    lowest, lists = min(float(of.min()) for of in smooth.values()), len(smooth["nDCG"])
    counts = ", ".join(f"{count} with {metric}" for metric, count in beyond.items())
    facts: dict[str, object] = {"outside": outside, "orders": len(hard), "short": SHORT, "lists": lists}
    facts |= {"counts": counts, "lowest": lowest}
    return Ruling(holds(not outside and not any(beyond.values())), facts, lowest, n=len(hard) + len(METRICS) * lists)


def _outside(bounded: Floats) -> Booleans:
    return (bounded < -SAME) | (bounded > 1 + SAME)


def _of_all_orders(metric: str) -> Floats:
    orders: list[Order] = [order for n, p in MIXED for order in binary_orders(n, p)]
    return values_of_library(rb.bounded(metric, "min-max"), orders)


def _of_scores(metric: str) -> Floats:
    """Return bounded metrics over smooth ranks, of lists of random scores and of lists with tied relevant items."""
    random = np.random.default_rng(0)
    scores, relevance, sizes = [], [], []
    for n, p in MIXED:
        first = np.arange(n) < p
        low = np.where(first, -APART, APART) / 2
        of_size = [low, -low, *(random.normal(size=n) * 10 ** random.uniform(-1, 1) for _ in range(RANDOM_LISTS))]
        scores += of_size
        relevance += [first] * len(of_size)
        sizes += [n] * len(of_size)
    loss = rb.SmoothLoss(metric, "min-max", method="direct")(
        torch.from_numpy(np.concatenate(scores)),
        torch.from_numpy(np.concatenate(relevance).astype(np.int64)),
        torch.from_numpy(np.cumsum([0, *sizes])),
    )
    return as_loss(metric, loss.numpy())


@theorem("T12")
def expectation_bounding_fixes_the_ends_of_nrbp_alone() -> Ruling:
    """Decide by how far the ends of the expectation-bounded losses differ between lists."""
    n, p = sizes_of_the_data()
    found = {metric: ends(metric, "expectation", n, p) for metric in METRICS}
    varies = {metric: min(np.ptp(of.lower), np.ptp(of.upper)) > SAME for metric, of in found.items()}
    fixed = max(np.ptp(found["nRBP"].lower), np.ptp(found["nRBP"].upper)) <= SAME
    facts = {"lists": len(n), **{metric: _range(of) for metric, of in found.items()}}
    held = bool(varies["nDCG"] and varies["AP"] and fixed)
    return Ruling(holds(held), facts, float(np.ptp(found["nRBP"].upper)), n=len(n))


def _range(of: Ends) -> str:
    return f"{_span(of.lower)} at the lower end and {_span(of.upper)} at the upper end"


def _span(end: Floats) -> str:
    if np.ptp(end) <= SAME:
        return f"at {round(float(end.mean()), 3) + 0.0:g}"
    return f"between {end.min():.3f} and {end.max():.3f}"


@theorem("T13")
def a_higher_ratio_reaches_higher_losses() -> Ruling:
    """Compare the upper ends of the expectation-bounded losses between ratios, at equally many relevant items."""
    upper = {
        metric: [ends(metric, "expectation", *at_ratio(ratio, MOST)).upper for ratio in RATIOS] for metric in METRICS
    }
    rises = {
        metric: np.all([higher - lower > SAME for lower, higher in pairwise(of)], axis=0)
        for metric, of in upper.items()
    }
    counts = {metric: f"{rise.sum()} of {len(rise)}" for metric, rise in rises.items()}
    right = int(sum(rise.sum() for rise in rises.values()))
    return counted(
        right, sum(map(len, rises.values())), {"counts": counts, "span": _span(np.concatenate(upper["nRBP"]))}
    )


@theorem("T15")
def expectation_max_losses_end_at_minus_one() -> Ruling:
    """Decide by the ends of the expectation-max losses over all list sizes."""
    n, p = sizes_of_the_data()
    found = {metric: ends(metric, "expectation-max", n, p) for metric in METRICS}
    at_minus_one = all(np.abs(of.lower + 1).max() <= SAME for of in found.values())
    varies = all(np.ptp(found[metric].upper) > SAME for metric in ("nDCG", "AP"))
    facts = {"lists": len(n), **{metric: _range(of) for metric, of in found.items()}}
    facts["balanced"] = _span(found["nDCG"].upper[n == 2 * p])
    return Ruling(holds(bool(at_minus_one and varies)), facts, float(np.ptp(found["nDCG"].upper)), n=len(n))


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


@theorem("T17")
def the_distribution_bound_runs_from_zero_to_one() -> Ruling:
    """Decide by the discrete and the smooth F at the extremes of short lists, and F's distance from a straight line."""
    known = [(metric, n, p, rb.score_distribution(metric, n=n, p=p)) for metric in METRICS for n, p in MIXED]
    discrete = np.array([_steps_at_extremes(values(metric, n, p)) for metric, n, p, _ in known])
    smooth = np.array([of.smooth_cdf([of.minimum, of.maximum]) for *_, of in known])
    bent = sum(_bend(of) > SAME for *_, of in known)
    reached = all(np.abs(found - [0, 1]).max() <= SAME for found in (discrete, smooth))
    facts: dict[str, object] = {"pairs": len(known), "short": SHORT, "bent": bent}
    facts |= {"several": sum(len(set(values(metric, n, p))) > 2 for metric, n, p, _ in known)}
    facts |= {"discrete": f"{discrete[:, 0].min():.4f} to {discrete[:, 0].max():.2f}", "top": discrete[:, 1].min()}
    facts |= {"smooth_low": smooth[:, 0].max(), "smooth_high": smooth[:, 1].min()}
    return Ruling(holds(bool(reached and bent)), facts, float(smooth[:, 0].max()), n=len(known))


def _steps_at_extremes(of_orders: tuple[Value, ...]) -> tuple[float, float]:
    """Return the shares of orders that score at most the smallest value, and at most the largest."""
    scores = np.array(of_orders, dtype=np.float64)
    return float((scores <= scores.min() + SAME).mean()), float((scores <= scores.max() + SAME).mean())


def _bend(of: ScoreDistribution) -> float:
    """Return the largest distance of F, at the scores, from the straight line between its ends."""
    cumulative = of.cdf(of.support)
    line = np.interp(of.support, of.support[[0, -1]], cumulative[[0, -1]])
    return float(np.abs(cumulative - line).max())


@theorem("T18")
def a_gain_that_follows_the_scores_gives_a_close_curve() -> Ruling:
    """Decide by the distance of smooth curves from the exact steps, beyond the half step that each must miss."""
    found = [(metric, _excesses(of)) for metric in METRICS for of in _distributions(metric)]
    of_lists = np.array([of for _, of in found])
    one, followed = of_lists[:, 0], of_lists[:, -1]
    far = [int((column > CLOSE).sum()) for column in of_lists.T]
    facts: dict[str, object] = {"close": CLOSE, "far": far, "pairs": len(found), "one": one.max()}
    facts |= {"followed": followed.max(), "whole": sum(of[0] > CLOSE for metric, of in found if metric == "nRBP")}
    facts |= {"fixed": ", ".join(f"{count} at {gain:g}" for gain, count in zip(GAINS[1:], far[1:], strict=False))}
    held = holds(bool(followed.max() <= CLOSE and (one > CLOSE).mean() > 0.5))
    return Ruling(held, facts, float(followed.max()), n=len(found))


def _distributions(metric: str) -> Iterable[ScoreDistribution]:
    return score_distributions(metric, DRAWN_LISTS)


def _excesses(of: ScoreDistribution) -> list[float]:
    """Return the largest distance from the steps minus half of the largest step, by gain; the last is eq. 3.13's."""
    at = of.support[np.unique(np.linspace(0, len(of.support) - 1, STEPS).astype(int))]
    scores = np.concatenate([at, at - 1e-6 * (of.maximum - of.minimum)])
    exact = of.cdf(scores)
    half = of.probability.max() / 2 if of.width == 0 else 0.0
    return [float(np.abs(of.smooth_cdf(scores, gain) - exact).max() - half) for gain in (*GAINS, "distinct")]


@theorem("T19")
def only_simulation_yields_the_distributions() -> Ruling:
    """Compare the library's exact distributions with all orders: enumerated, or counted by halves."""
    shares = [_same_shares(metric, n, p) for metric in ("nDCG", "nRBP") for n, p in MIXED]
    distance = max(_distance_from_counts(metric, *LONG) for metric in ("nDCG", "nRBP"))
    exact = all(shares) and distance <= TABLE_ERROR
    apart = f"they differ by {distance:.2g} in probability, more than {TABLE_ERROR:g}."
    within = f"to within {TABLE_ERROR:g} in probability."
    facts: dict[str, object] = {"same": sum(shares), "pairs": len(shares), "short": SHORT, "orders": comb(*LONG)}
    facts |= {"long": LONG, "of_long": within if distance <= TABLE_ERROR else apart}
    return Ruling(holds(not exact), facts, sum(shares) / len(shares), n=len(shares) + 2)


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
    # The sums of all choices of ranks of either half, ascending, by the number of chosen ranks.
    upper, lower = (
        {count: np.sort([sum(chosen) for chosen in combinations(half, count)]) for count in range(len(half) + 1)}
        for half in (shares[: n // 2], shares[n // 2 :])
    )
    orders = np.zeros(len(scores))
    for count, sums in upper.items():
        others = lower.get(p - count)
        if others is not None:
            room = (scores[:, None] - start - sums).ravel()
            orders += np.searchsorted(others, room, side="right").reshape(len(scores), -1).sum(axis=1)
    return orders / comb(n, p)
