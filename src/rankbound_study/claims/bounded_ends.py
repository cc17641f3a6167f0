"""Claims about the ends of bounded losses: the values of a list's best and worst order."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

import rankbound as rb
from rankbound_study.claims.all_orders import (
    METRICS,
    MIXED,
    RATIOS,
    SAME,
    SHORT,
    Floats,
    Integers,
    as_loss,
    at_ratio,
    binary_orders,
    values,
    values_of_library,
)
from rankbound_study.claims.by_hand import Order
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, counted, holds

MOST_RELEVANT = 1227
"""Number of relevant items of the MovieLens user with the most."""

LONGEST = 121
"""Documents of MQ2008's longest query."""

MOST = 200
"""Relevant items of the longest list whose ratios are compared."""

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


@decides("T06")
def min_max_bounding_gives_zero_to_one(evidence: Evidence) -> Verdict:
    """Check all orders of short lists, and random and adversarial scores with the smooth ranks of training."""
    hard = np.concatenate([_of_all_orders(metric) for metric in METRICS])
    outside = int(_outside(hard).sum())
    smooth = {metric: _of_scores(metric) for metric in METRICS}
    lists = len(smooth["nDCG"])
    beyond = {metric: int(_outside(found).sum()) for metric, found in smooth.items()}
    lowest = min(float(found.min()) for found in smooth.values())
    counts = ", ".join(f"{count} with {metric}" for metric, count in beyond.items())
    return Verdict(
        holds(outside == 0 and not any(beyond.values())),
        f"With hard ranks, {outside} of {len(hard)} orders of lists of 2 to {SHORT} items fall outside 0 to 1; with "
        f"the smooth ranks of training, of {lists} lists of scores, {counts} do; the lowest value is {lowest:.4f}.",
        statistic="lowest bounded value, smooth ranks",
        value=lowest,
        n=len(hard) + len(METRICS) * lists,
        shown_in="figure_3_1",
    )


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


@decides("T12")
def expectation_bounding_fixes_the_ends_of_nrbp_alone(evidence: Evidence) -> Verdict:
    """Decide by how far the ends of the expectation-bounded losses differ between lists."""
    n, p = sizes_of_the_data()
    found = {metric: ends(metric, "expectation", n, p) for metric in METRICS}
    varies = {metric: min(np.ptp(of.lower), np.ptp(of.upper)) > SAME for metric, of in found.items()}
    fixed = max(np.ptp(found["nRBP"].lower), np.ptp(found["nRBP"].upper)) <= SAME
    return Verdict(
        holds(bool(varies["nDCG"] and varies["AP"] and fixed)),
        f"Over {len(n)} list sizes the expectation-bounded losses lie {_range(found['nDCG'])} (nDCG), "
        f"{_range(found['AP'])} (AP), and {_range(found['nRBP'])} (nRBP).",
        statistic="range of the upper end of the nRBP loss",
        value=float(np.ptp(found["nRBP"].upper)),
        n=len(n),
        shown_in="figure_3_3",
    )


def _range(of: Ends) -> str:
    return f"{_span(of.lower)} at the lower end and {_span(of.upper)} at the upper end"


def _span(end: Floats) -> str:
    if np.ptp(end) <= SAME:
        return f"at {round(float(end.mean()), 3) + 0.0:g}"
    return f"between {end.min():.3f} and {end.max():.3f}"


@decides("T13")
def a_higher_ratio_reaches_higher_losses(evidence: Evidence) -> Verdict:
    """Compare the upper ends of the expectation-bounded losses between ratios, at equally many relevant items."""
    rises = {metric: _rises_with_the_ratio(metric) for metric in METRICS}
    counts = {metric: f"{rise.sum()} of {len(rise)}" for metric, rise in rises.items()}
    nrbp = np.concatenate([ends("nRBP", "expectation", *at_ratio(ratio, MOST)).upper for ratio in RATIOS])
    return counted(
        int(sum(rise.sum() for rise in rises.values())),
        sum(map(len, rises.values())),
        f"The highest expectation-bounded loss grows from ratio 1 to 2 to 3 at {counts['AP']} numbers of relevant "
        f"items for AP, at {counts['nDCG']} for nDCG and at {counts['nRBP']} for nRBP, whose highest loss lies "
        f"{_span(nrbp)}.",
        "share of cases in which it grows",
        "figure_3_3",
    )


def _rises_with_the_ratio(metric: str) -> Booleans:
    upper = [ends(metric, "expectation", *at_ratio(ratio, MOST)).upper for ratio in RATIOS]
    rises: Booleans = np.all([higher - lower > SAME for lower, higher in pairwise(upper)], axis=0)
    return rises


@decides("T15")
def expectation_max_losses_end_at_minus_one(evidence: Evidence) -> Verdict:
    """Decide by the ends of the expectation-max losses over all list sizes."""
    n, p = sizes_of_the_data()
    found = {metric: ends(metric, "expectation-max", n, p) for metric in METRICS}
    at_minus_one = all(np.abs(of.lower + 1).max() <= SAME for of in found.values())
    varies = all(np.ptp(found[metric].upper) > SAME for metric in ("nDCG", "AP"))
    balanced = found["nDCG"].upper[n == 2 * p]
    return Verdict(
        holds(bool(at_minus_one and varies)),
        f"Over {len(n)} list sizes the expectation-max losses lie {_range(found['nDCG'])} (nDCG), "
        f"{_range(found['AP'])} (AP), and {_range(found['nRBP'])} (nRBP); where half of the items are relevant, the "
        f"upper end of nDCG is {_span(balanced)}.",
        statistic="range of the upper end of the nDCG loss",
        value=float(np.ptp(found["nDCG"].upper)),
        n=len(n),
        shown_in="figure_3_4",
    )
