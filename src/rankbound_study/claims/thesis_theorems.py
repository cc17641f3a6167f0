"""Theorems of the thesis: extremes and expectations of metrics, ends of bounded losses, scores of random orders.

Metrics of one order are plain Python, as the sources define them; the library's values are compared with them. An order
is a tuple of grades from rank 1 down. Values are exact fractions, except for floats from logarithms. Many claims are
about the library's formulas, so short lists never use them: all their orders are enumerated.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import torch

import rankbound as rb
from rankbound.bounds.score_distribution import ScoreDistribution, score_distributions
from rankbound.compare.scores import Floats, Integers
from rankbound_study.claims.verdicts import Ruling, counted, holds
from rankbound_study.claims.worked import values_of_library

Order = tuple[int, ...]
Value = Fraction | float | int
ByHand = Callable[[Sequence[int]], Value]
OfOrders = Callable[[Sequence[Value]], Value]  # a value over the metric of all orders: `min`, `max` or `mean`
Formula = Callable[[int, int], Any]  # a function of N and P

Check = Callable[[], Ruling]
THEOREMS: dict[str, Check] = {}
"""What proves or refutes each theorem: without results, so that it is checked once for each change of its code."""


def theorem(claim: str) -> Callable[[Check], Check]:
    """Enter the decorated function into `THEOREMS`."""
    return partial(THEOREMS.setdefault, claim)


def average_precision(order: Sequence[int]) -> Fraction:
    """Murphy eq. 9.127, thesis eq. 2.6: the mean precision at the relevant ranks."""
    ranks = [rank for rank, grade in enumerate(order, start=1) if grade > 0]
    return sum((Fraction(count, rank) for count, rank in enumerate(ranks, start=1)), Fraction()) / len(ranks)


def dcg(order: Sequence[int], k: int | None = None, *, linear: bool = False, from_two: bool = False) -> float:
    """The gain 2^r - 1, or the grade (`linear`), over log2(1 + i), or over log2(i) `from_two` on."""
    return math.fsum(
        (grade if linear else 2**grade - 1) / (max(1.0, math.log2(rank)) if from_two else math.log2(rank + 1))
        for rank, grade in enumerate(order[:k], start=1)
    )


def ndcg(order: Sequence[int], **kind: bool) -> float:
    """`dcg` over that of the ideal order: thesis eq. 2.2."""
    return dcg(order, **kind) / dcg(sorted(order, reverse=True), **kind)


def wrong_pairs(order: Sequence[int]) -> int:
    """Pairs in the wrong order, each with the difference of its grades: Jin and Geng eq. 4; binary: thesis eq. 2.12."""
    return sum(below - above for above, below in combinations(order, 2) if above < below)


def linear_dcg(order: Sequence[int]) -> int:
    """Jin and Geng eq. 1: the grade at rank i of N times N - i."""
    return sum(grade * (len(order) - rank) for rank, grade in enumerate(order, start=1))


_BY_HAND: dict[str, ByHand] = {"nDCG": ndcg, "AP": average_precision, "nRBP": wrong_pairs, "LinearDCG": linear_dcg}
METRICS = ("nDCG", "AP", "nRBP")  # that the thesis bounds
SHORT = 9  # items of the longest lists whose orders are all enumerated
LISTS = tuple((n, p) for n in range(2, SHORT + 1) for p in range(1, n + 1))  # N items with P relevant ones
MIXED = tuple((n, p) for n, p in LISTS if p < n)  # those whose orders differ
RATIOS = (1, 2, 3)  # sampled negatives per relevant item in the thesis
SAME = 1e-9  # largest difference of values that count as equal


def binary_orders(n: int, p: int) -> list[Order]:
    """Return all orders of `n` items, `p` of them relevant; each is equally likely."""
    return [tuple(int(rank in held) for rank in range(n)) for held in map(set, combinations(range(n), p))]


@cache
def values(metric: str, n: int, p: int) -> tuple[Value, ...]:
    """Return the metric of every order."""
    return tuple(map(_BY_HAND[metric], binary_orders(n, p)))


def mean(known: Sequence[Value]) -> Value:
    """Return the mean, an exact fraction except of floats."""
    return sum(known, Fraction()) / len(known)


def agree(found: Iterable[Value], expected: Iterable[Value]) -> int:
    """Count the values that are equal."""
    pairs = zip(found, expected, strict=True)
    return sum(abs(float(one) - float(other)) <= SAME * max(1.0, abs(float(other))) for one, other in pairs)


def right_for(metric: str, of_orders: OfOrders, formula: Formula, lists: Sequence[tuple[int, int]] = LISTS) -> int:
    """Count the lists for which a formula gives the metric's `min`, `max` or `mean` over all orders."""
    return agree((formula(n, p) for n, p in lists), (of_orders(values(metric, n, p)) for n, p in lists))


def smallest(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the smallest value over all orders of each list."""
    return _by_orders(min, metric, rb.minimum(metric, n, p), n, p)


def expected_loss(metric: str, n: Integers, p: Integers) -> Floats:
    """Return the mean loss over all orders of each list."""
    return as_loss(metric, _by_orders(mean, metric, rb.expectation(metric, n, p), n, p))


def _by_orders(of_orders: OfOrders, metric: str, formula: Floats, n: Integers, p: Integers) -> Floats:
    """Return the formula's values, with those of short lists replaced."""
    result = np.array(formula, dtype=np.float64)
    for index in np.flatnonzero(n <= SHORT):
        result[index] = float(of_orders(values(metric, int(n[index]), int(p[index]))))
    return result


def as_loss(metric: str, value: Floats) -> Floats:
    """Turn a metric's value into its loss, which is lower for better orders; nRBP already is one."""
    return value if metric == "nRBP" else -value


def at_ratio(ratio: int, most: int, fewest: int = 1) -> tuple[Integers, Integers]:
    """Return N and P of lists with `fewest` to `most` relevant items and `ratio` others per relevant one."""
    p = np.arange(fewest, most + 1)
    return p * (1 + ratio), p


def _discounts(first: int, last: int) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in range(first, last + 1))


EQUATIONS: dict[str, Formula] = {
    "3.2 as printed": lambda n, p: _discounts(n - p + 1, n),
    "3.2": lambda n, p: _discounts(n - p + 1, n) / _discounts(1, p),
    "3.3": lambda n, p: Fraction(p * (2 * n - p - 1), 2) - Fraction(p * (p - 1), 2),
    "3.4": lambda n, p: sum((Fraction(i, n - p + i) for i in range(1, p + 1)), Fraction()) / p,
    "3.8 as printed": lambda n, p: p * _discounts(1, n) / _discounts(1, p),
    "3.8": lambda n, p: p / n * _discounts(1, n) / _discounts(1, p),
    "3.9": lambda n, p: Fraction(p * (n - p), 2),
    # The i-th relevant item is at rank r with i/r times the probability of i hits in r draws.
    "3.10": lambda n, p: sum(
        Fraction(i * i * comb(p, i) * comb(n - p, r - i), r * r * comb(n, r)) / p
        for i in range(1, p + 1)
        for r in range(i, n - p + i + 1)
    ),
}
"""The thesis' extremes and expectations of a list of N items with P relevant ones, by equation.

3.2 lacks the division by the ideal DCG and 3.8 has P instead of P/N: corrected forms stand beside both.
"""


SIZES = (25, 50, 100, 200)  # of the lists in figure 1.1
TENTHS = range(1, 10)  # shares of relevant items
ABOVE_ZERO = ("nDCG", "AP")
MOST = 200  # relevant items of the longest list
FALLS_FROM = 5  # relevant items, from which the expected nDCG loss falls, according to the thesis


@theorem("T01")
def the_worst_order_scores_above_zero() -> Ruling:
    """Decide by each list's floor and its change with one more relevant item; short lists by all their orderings."""
    sizes = (*range(2, SHORT + 1), *SIZES)
    floors = [smallest(metric, np.full(n, n), np.arange(1, n + 1)) for metric, n in product(ABOVE_ZERO, sizes)]
    every, rises = np.concatenate(floors), np.concatenate([np.diff(of_size) for of_size in floors]) > SAME
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
    formulas: list[tuple[str, OfOrders, Formula]] = [
        ("nDCG", min, EQUATIONS["3.2"]),
        ("AP", min, EQUATIONS["3.4"]),
        ("nRBP", min, lambda n, p: 0),
        ("nDCG", max, lambda n, p: 1),
        ("AP", max, lambda n, p: 1),
        ("nRBP", max, EQUATIONS["3.3"]),
        *((metric, min, partial(rb.minimum, metric)) for metric in METRICS),
        *((metric, max, partial(rb.maximum, metric)) for metric in METRICS),
    ]
    undivided = right_for("nDCG", min, EQUATIONS["3.2 as printed"])
    facts = {"short": SHORT, "undivided": undivided, "lists": len(LISTS)}
    return counted(sum(right_for(*one) for one in formulas), len(formulas) * len(LISTS), facts)


@theorem("T05")
def more_relevant_items_are_easier() -> Ruling:
    """Decide by the changes of the worst and the expected loss from P to P + 1 relevant items at a fixed ratio."""
    worst = {name: [as_loss(name, smallest(name, *at_ratio(ratio, MOST))) for ratio in RATIOS] for name in ABOVE_ZERO}
    steps = {metric: np.concatenate([*map(np.diff, worst.get(metric, [])), *_steps(metric)]) for metric in METRICS}
    easier = {metric: int((change < -SAME).sum()) for metric, change in steps.items()}
    every = {metric: len(change) for metric, change in steps.items()}
    facts = {"easier": easier, "every": every, "turning": max(turning_points())}
    return counted(sum(easier.values()), sum(every.values()), facts)


def _steps(metric: str, fewest: int = 1) -> list[Floats]:
    """Return the changes of the expected loss from P to P + 1 relevant items, by ratio."""
    return [np.diff(expected_loss(metric, *at_ratio(ratio, MOST, fewest))) for ratio in RATIOS]


def turning_points() -> list[int]:
    """Return the number of relevant items from which the expected nDCG loss falls, by ratio."""
    return [int(np.flatnonzero(change >= -SAME).max(initial=-1)) + 2 for change in _steps("nDCG")]


@theorem("T08")
def the_expectations_have_formulas() -> Ruling:
    """Compare the thesis' equations and the library's expectations with the means over all orderings of short lists."""
    formulas: list[tuple[str, OfOrders, Formula]] = [
        ("nDCG", mean, EQUATIONS["3.8"]),
        ("nRBP", mean, EQUATIONS["3.9"]),
        *((metric, mean, partial(rb.expectation, metric)) for metric in METRICS),
    ]
    exact = sum(EQUATIONS["3.10"](n, p) == mean(values("AP", n, p)) for n, p in LISTS)
    printed = right_for("nDCG", mean, EQUATIONS["3.8 as printed"])
    facts = {"short": SHORT, "exact": exact, "lists": len(LISTS), "printed": printed}
    right = exact + sum(right_for(*formula) for formula in formulas)
    return counted(right, (1 + len(formulas)) * len(LISTS), facts)


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
    rises = np.array([np.concatenate(_steps(metric)) > SAME for metric in ("AP", "nRBP")])
    ap, nrbp = (f"{of.sum()} of {of.size}" for of in rises)
    return counted(int(rises.sum()), rises.size, {"most": MOST, "ap": ap, "nrbp": nrbp})


MOST_RELEVANT = 1227  # items of the MovieLens user with the most
LONGEST = 121  # documents of MQ2008's longest query
RANDOM_LISTS = 50  # of random scores, of each size
APART = 20.0  # distance of scores, in temperatures, at which smooth ranks are hard ranks


def ends(metric: str, bounding: str, n: Integers, p: Integers) -> Floats:
    """Return the bounded loss of each list's best and worst order, `(2, n_lists)`.

    The metric is bounded first, then negated: over all orders of short lists (thesis eqs. 3.6 and 3.11), by the library
    for long ones.
    """
    bounded = rb.bounded(metric, bounding)
    found = np.array([bounded.from_value(extreme(metric, n, p), n, p) for extreme in (rb.minimum, rb.maximum)])
    for index in np.flatnonzero(n <= SHORT):
        of_orders = np.array(values(metric, int(n[index]), int(p[index])), dtype=np.float64)
        centre = float(of_orders.mean())
        shift, unit = (0.0, centre) if bounding == "expectation" else (centre, float(of_orders.max()) - centre)
        found[:, index] = [(of_orders.min() - shift) / unit, (of_orders.max() - shift) / unit]
    return np.sort(as_loss(metric, found), axis=0)


@theorem("T06")
def min_max_bounding_gives_zero_to_one() -> Ruling:
    """Check all orders of short lists, and random and adversarial scores with the smooth ranks of training."""
    orders = [order for n, p in MIXED for order in binary_orders(n, p)]
    hard = np.concatenate([values_of_library(rb.bounded(metric, "min-max"), orders) for metric in METRICS])
    # Random scores, and scores with tied relevant items at either end.
    random = np.random.default_rng(0)
    scores, relevance, sizes = [], [], []
    for n, p in MIXED:
        first = np.arange(n) < p
        low = np.where(first, -APART, APART) / 2
        of_size = [low, -low, *(random.normal(size=n) * 10 ** random.uniform(-1, 1) for _ in range(RANDOM_LISTS))]
        scores += of_size
        relevance += [first] * len(of_size)
        sizes += [n] * len(of_size)
    columns = np.concatenate(scores), np.concatenate(relevance).astype(np.int64), np.cumsum([0, *sizes])
    losses = {metric: rb.SmoothLoss(metric, "min-max", method="direct") for metric in METRICS}
    smooth = [as_loss(metric, loss(*map(torch.from_numpy, columns)).numpy()) for metric, loss in losses.items()]
    outside, *beyond = (int(((of < -SAME) | (of > 1 + SAME)).sum()) for of in (hard, *smooth))
    lowest, lists = min(float(of.min()) for of in smooth), len(smooth[0])
    counts = ", ".join(f"{count} with {metric}" for metric, count in zip(METRICS, beyond, strict=True))
    facts: dict[str, object] = {"outside": outside, "orders": len(hard), "short": SHORT, "lists": lists}
    facts |= {"counts": counts, "lowest": lowest}
    return Ruling(holds(not outside and not any(beyond)), facts, lowest, n=len(hard) + len(METRICS) * lists)


def ends_of_the_data(bounding: str) -> tuple[Integers, Integers, dict[str, Floats], dict[str, object]]:
    """Return N and P of lists, the ends of their losses by metric, and what the sentences say of them.

    The lists are all with differing orders that MovieLens (at each ratio) and MQ2008 can have.
    """
    sampled = [at_ratio(ratio, MOST_RELEVANT) for ratio in RATIOS]
    judged = np.array([(n, p) for n in range(2, LONGEST + 1) for p in range(1, n)]).T
    n, p = np.concatenate([np.array(sizes) for sizes in (*sampled, judged)], axis=1)
    found = {metric: ends(metric, bounding, n, p) for metric in METRICS}
    at = ("at the lower end", "at the upper end")
    spans = {
        metric: " and ".join(f"{_span(end)} {where}" for end, where in zip(of, at, strict=True))
        for metric, of in found.items()
    }
    return n, p, found, {"lists": len(n), **spans}


def _span(end: Floats) -> str:
    if np.ptp(end) <= SAME:
        return f"at {round(float(end.mean()), 3) + 0.0:g}"
    return f"between {end.min():.3f} and {end.max():.3f}"


@theorem("T12")
def expectation_bounding_fixes_the_ends_of_nrbp_alone() -> Ruling:
    """Decide by how far the ends of the expectation-bounded losses differ between lists."""
    n, _, found, facts = ends_of_the_data("expectation")
    ranges = {metric: np.ptp(of, axis=1) for metric, of in found.items()}
    held = min(ranges["nDCG"].min(), ranges["AP"].min()) > SAME and ranges["nRBP"].max() <= SAME
    return Ruling(holds(bool(held)), facts, float(ranges["nRBP"][1]), n=len(n))


@theorem("T15")
def expectation_max_losses_end_at_minus_one() -> Ruling:
    """Decide by the ends of the expectation-max losses over all list sizes."""
    n, p, found, facts = ends_of_the_data("expectation-max")
    at_minus_one = all(np.abs(lower + 1).max() <= SAME for lower, _ in found.values())
    held = at_minus_one and all(np.ptp(found[metric][1]) > SAME for metric in ABOVE_ZERO)
    facts["balanced"] = _span(found["nDCG"][1][n == 2 * p])
    return Ruling(holds(bool(held)), facts, float(np.ptp(found["nDCG"][1])), n=len(n))


@theorem("T13")
def a_higher_ratio_reaches_higher_losses() -> Ruling:
    """Compare the upper ends of the expectation-bounded losses between ratios, at equally many relevant items."""
    upper = np.array([[ends(name, "expectation", *at_ratio(ratio, MOST))[1] for ratio in RATIOS] for name in METRICS])
    rises = np.logical_and.reduce(np.diff(upper, axis=1) > SAME, axis=1)
    counts = {metric: f"{rise.sum()} of {len(rise)}" for metric, rise in zip(METRICS, rises, strict=True)}
    return counted(int(rises.sum()), rises.size, {"counts": counts, "span": _span(upper[METRICS.index("nRBP")])})


DRAWN_LISTS = ((8, 4), (15, 5), (30, 10), (60, 20), (20, 10), (40, 10))  # N and P in figures 3.5 and 3.6
GAINS = (1.0, 4.0, 16.0, 64.0)  # of figure 3.5
CLOSE = 0.05  # largest excess of a close curve's distance from the steps over that of the best smooth curve
STEPS = 20  # scores at which a curve is compared, there and just before
LONG = (26, 13)  # a list whose orders are too many to enumerate, but not to count
COUNTED = 100  # scores at which its orders are counted
TABLE_ERROR = 1e-4  # largest error that the library states for binned distributions


@theorem("T17")
def the_distribution_bound_runs_from_zero_to_one() -> Ruling:
    """Decide by the discrete and the smooth F at the extremes of short lists, and F's distance from a straight line."""
    known = [(metric, n, p, rb.score_distribution(metric, n=n, p=p)) for metric in METRICS for n, p in MIXED]
    discrete = np.array([_steps_at_extremes(metric, n, p) for metric, n, p, _ in known])
    smooth = np.array([of.smooth_cdf([of.minimum, of.maximum]) for *_, of in known])
    bent = 0
    for *_, of in known:
        cumulative = of.cdf(of.support)
        line = np.interp(of.support, of.support[[0, -1]], cumulative[[0, -1]])
        bent += bool(np.abs(cumulative - line).max() > SAME)
    reached = all(np.abs(found - [0, 1]).max() <= SAME for found in (discrete, smooth))
    facts: dict[str, object] = {"pairs": len(known), "short": SHORT, "bent": bent}
    facts |= {"several": sum(len(set(values(metric, n, p))) > 2 for metric, n, p, _ in known)}
    facts |= {"discrete": f"{discrete[:, 0].min():.4f} to {discrete[:, 0].max():.2f}", "top": discrete[:, 1].min()}
    facts |= {"smooth_low": smooth[:, 0].max(), "smooth_high": smooth[:, 1].min()}
    return Ruling(holds(bool(reached and bent)), facts, float(smooth[:, 0].max()), n=len(known))


def _steps_at_extremes(metric: str, n: int, p: int) -> tuple[float, float]:
    """Return the shares of orders that score at most the smallest value, and at most the largest."""
    scores = np.array(values(metric, n, p), dtype=np.float64)
    return float((scores <= scores.min() + SAME).mean()), float((scores <= scores.max() + SAME).mean())


@theorem("T18")
def a_gain_that_follows_the_scores_gives_a_close_curve() -> Ruling:
    """Decide by the distance of smooth curves from the exact steps, beyond the half step that each must miss."""
    found = [(metric, _excesses(of)) for metric in METRICS for of in score_distributions(metric, DRAWN_LISTS)]
    of_lists = np.array([of for _, of in found])
    one, followed = of_lists[:, 0], of_lists[:, -1]
    far = [int((column > CLOSE).sum()) for column in of_lists.T]
    facts: dict[str, object] = {"close": CLOSE, "far": far, "pairs": len(found), "one": one.max()}
    facts |= {"followed": followed.max(), "whole": sum(of[0] > CLOSE for metric, of in found if metric == "nRBP")}
    facts |= {"fixed": ", ".join(f"{count} at {gain:g}" for gain, count in zip(GAINS[1:], far[1:], strict=False))}
    held = holds(bool(followed.max() <= CLOSE and (one > CLOSE).mean() > 0.5))
    return Ruling(held, facts, float(followed.max()), n=len(found))


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
    # The distribution should have the scores of all orders, each with its share of them.
    shares = []
    for metric, (n, p) in product(("nDCG", "nRBP"), MIXED):
        counts = Counter(round(float(value), 9) for value in values(metric, n, p))
        scores, found = sorted(counts), rb.score_distribution(metric, n=n, p=p)
        shares.append(
            len(found.support) == len(scores)
            and np.allclose(found.support, scores, rtol=0, atol=1e-8)
            and np.allclose(found.probability, [counts[score] / comb(n, p) for score in scores], rtol=0, atol=SAME)
        )
    distance = 0.0
    for metric in ("nDCG", "nRBP"):
        found = rb.score_distribution(metric, n=LONG[0], p=LONG[1])
        # Evenly spaced, and not at the scores themselves, where rounding would decide the side of a step.
        at = np.linspace(found.minimum, found.maximum, COUNTED) + 1e-6 * (found.maximum - found.minimum)
        distance = max(distance, float(np.abs(found.cdf(at) - share_of_orders_up_to(metric, *LONG, at)).max()))
    apart = f"they differ by {distance:.2g} in probability, more than {TABLE_ERROR:g}."
    within = f"to within {TABLE_ERROR:g} in probability."
    facts: dict[str, object] = {"same": sum(shares), "pairs": len(shares), "short": SHORT, "orders": comb(*LONG)}
    facts |= {"long": LONG, "of_long": within if distance <= TABLE_ERROR else apart}
    simulated = not all(shares) or distance > TABLE_ERROR
    return Ruling(holds(simulated), facts, sum(shares) / len(shares), n=len(shares) + 2)


def share_of_orders_up_to(metric: str, n: int, p: int, scores: Floats) -> Floats:
    """Return the share of all orders with at most each score, counting the matching halves of the ranks.

    nDCG and the nRBP loss are sums over the relevant ranks; the sums of both halves are listed, by relevant items.
    """
    ranks = np.arange(1.0, n + 1)
    discounts = 1 / np.log2(ranks + 1)
    shares: Floats = ranks - 1 if metric == "nRBP" else discounts / np.sum(discounts[:p])
    start = -p * (p - 1) / 2 if metric == "nRBP" else 0.0
    # The sums of all choices of ranks of either half, ascending, by the number of chosen ranks.
    upper, lower = (
        {count: np.sort([sum(chosen) for chosen in combinations(half, count)]) for count in range(len(half) + 1)}
        for half in (shares[: n // 2], shares[n // 2 :])
    )
    orders = np.zeros(len(scores))
    for count in upper.keys() & {p - others for others in lower}:
        room = (scores[:, None] - start - upper[count]).ravel()
        orders += np.searchsorted(lower[p - count], room, side="right").reshape(len(scores), -1).sum(axis=1)
    return orders / comb(n, p)
