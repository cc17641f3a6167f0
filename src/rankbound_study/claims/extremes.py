"""Claims about a metric's extremes and expectation over the orderings of a list, and their change with its sizes."""

from functools import partial
from itertools import product

import numpy as np

import rankbound as rb
from rankbound_study.claims import printed_equations as equations
from rankbound_study.claims.all_orders import (
    LISTS,
    LOSS_ONLY,
    METRICS,
    RATIOS,
    SAME,
    SHORT,
    Floats,
    Formula,
    OfOrders,
    as_loss,
    at_ratio,
    expected_loss,
    mean,
    right_for,
    smallest,
    values,
    values_of_library,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, counted, holds

SIZES = (25, 50, 100, 200)
"""Sizes of the lists in figure 1.1."""

TENTHS = range(1, 10)
"""Shares of relevant items, in tenths."""

ABOVE_ZERO = ("nDCG", "AP")

MOST = 200
"""Relevant items of the longest list."""

FALLS_FROM = 5
"""Number of relevant items from which the expected nDCG loss falls, according to the thesis."""

EXPECTED = "figure_3_2"


@decides("T01")
def the_worst_order_scores_above_zero(evidence: Evidence) -> Verdict:
    """Decide by each list's floor and its change with one more relevant item; short lists by all their orderings."""
    sizes = (*range(2, SHORT + 1), *SIZES)
    floors = [smallest(metric, np.full(n, n), np.arange(1, n + 1)) for metric, n in product(ABOVE_ZERO, sizes)]
    every = np.concatenate(floors)
    rises = np.concatenate([np.diff(of_size) for of_size in floors]) > SAME
    above = int((every > SAME).sum())
    return Verdict(
        holds(above == len(every) and bool(rises.all())),
        f"The worst ordering scores above zero in {above} of {len(every)} cases (nDCG and AP, lists of 2 to {SHORT} "
        f"and 25 to 200 items; the lowest score is {every.min():.4f}), and one more relevant item raises it in "
        f"{rises.sum()} of {len(rises)} steps.",
        "lowest score of a worst ordering",
        float(every.min()),
        n=len(every),
        shown_in="figure_1_1",
    )


@decides("T02")
def the_floor_of_ndcg_depends_on_the_size_more(evidence: Evidence) -> Verdict:
    """Decide by the range of the floors from 25 to 200 items, at equal shares of relevant items."""
    ndcg, ap = (np.array([range_of_floors(metric, share) for share in TENTHS]) for metric in ABOVE_ZERO)
    more = int((ndcg > ap + SAME).sum())
    return Verdict(
        holds(more == len(TENTHS)),
        f"From 25 to 200 items the floor of nDCG changes more than that of AP at {more} of {len(TENTHS)} shares of "
        f"relevant items: by {ndcg.min():.3f} to {ndcg.max():.3f}, compared with {ap.min():.3f} to {ap.max():.3f} for "
        "AP.",
        "smallest range of floors, nDCG minus AP",
        float((ndcg - ap).min()),
        n=len(TENTHS),
        shown_in="figure_1_1",
    )


def range_of_floors(metric: str, tenths: int) -> float:
    """Return the range over the sizes that can have exactly this share of relevant items."""
    sizes = np.array([size for size in SIZES if size * tenths % 10 == 0])
    return float(np.ptp(smallest(metric, sizes, sizes * tenths // 10)))


@decides("T03")
def low_lists_that_outscore_higher_ones(evidence: Evidence) -> Verdict:
    """Compare nDCG of a list with its only relevant item second and of a list with all five at the bottom."""
    second, bottom = values_of_library(rb.metric("nDCG"), [(0, 1), (0, 1, 1, 1, 1, 1)]).tolist()
    return Verdict(
        holds(bottom > second),
        f"nDCG is {second:.2f} for two items with the only relevant one second, and {bottom:.2f} for five relevant "
        "items below the only non-relevant one.",
        "nDCG, bottom minus second",
        bottom - second,
        n=2,
        shown_in="table_1_1",
    )


@decides("T04")
def the_extremes_have_formulas(evidence: Evidence) -> Verdict:
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
    right, cases = sum(right_for(*formula) for formula in formulas), len(formulas) * len(LISTS)
    undivided = right_for(equations.worst_dcg, "nDCG", min)
    return counted(
        right,
        cases,
        f"The formulas give the smallest and the largest value over all orderings in {right} of {cases} cases "
        f"(those of the thesis and of the library, all lists of 2 to {SHORT} items, three metrics); equation 3.2 needs "
        f"a division by the ideal DCG: as printed it is right for {undivided} of {len(LISTS)} lists.",
        "share of cases that agree",
        "table_2_2 table_2_4",
    )


@decides("T05")
def more_relevant_items_are_easier(evidence: Evidence) -> Verdict:
    """Decide by the changes of the worst and the expected loss from P to P + 1 relevant items at a fixed ratio."""
    steps = {metric: np.concatenate([*_worst_steps(metric), *_steps(metric)]) for metric in METRICS}
    easier = {metric: int((change < -SAME).sum()) for metric, change in steps.items()}
    return counted(
        sum(easier.values()),
        sum(map(len, steps.values())),
        f"With one more relevant item at the same ratio, the floor and the expectation of nDCG rise in "
        f"{easier['nDCG']} of {len(steps['AP'])} steps (the expectation from {max(turning_points())} relevant items on "
        f"at all three ratios), those of AP in {easier['AP']}; the expected nRBP loss falls in {easier['nRBP']} of "
        f"{len(steps['nRBP'])}.",
        "share of steps that get easier",
        EXPECTED,
    )


def _steps(metric: str, fewest: int = 1) -> list[Floats]:
    """Return the changes of the expected loss from P to P + 1 relevant items, by ratio."""
    return [np.diff(expected_loss(metric, *at_ratio(ratio, MOST, fewest))) for ratio in RATIOS]


def _worst_steps(metric: str) -> list[Floats]:
    """Return the same changes for the floor's loss, if the metric has a floor."""
    ratios = () if metric == LOSS_ONLY else RATIOS
    return [np.diff(as_loss(metric, smallest(metric, *at_ratio(ratio, MOST)))) for ratio in ratios]


def turning_points() -> list[int]:
    """Return the number of relevant items from which the expected nDCG loss falls, by ratio."""
    return [int(np.flatnonzero(change >= -SAME).max(initial=-1)) + 2 for change in _steps("nDCG")]


@decides("T08")
def the_expectations_have_formulas(evidence: Evidence) -> Verdict:
    """Compare the thesis' equations and the library's expectations with the means over all orderings of short lists."""
    formulas: list[tuple[Formula, str, OfOrders]] = [
        (equations.expected_ndcg, "nDCG", mean),
        (equations.expected_nrbp, "nRBP", mean),
        *((partial(rb.expectation, metric), metric, mean) for metric in METRICS),
    ]
    exact = sum(equations.expected_ap(n, p) == mean(values("AP", n, p)) for n, p in LISTS)
    right, cases = exact + sum(right_for(*formula) for formula in formulas), (1 + len(formulas)) * len(LISTS)
    printed = right_for(equations.expected_ndcg_as_printed, "nDCG", mean)
    return counted(
        right,
        cases,
        f"The formulas give the mean over all orderings in {right} of {cases} cases (those of the thesis and of the "
        f"library, all lists of 2 to {SHORT} items; AP in exact fractions in {exact} of {len(LISTS)}); equation 3.8 "
        f"needs P/N instead of P: as printed it is right for {printed} of {len(LISTS)} lists.",
        "share of cases that agree",
        "table_3_1 table_3_2 table_3_3",
    )


@decides("T09")
def the_expected_loss_grows_with_the_ratio(evidence: Evidence) -> Verdict:
    """Compare expected losses of lists with equally many relevant items, from one ratio to the next."""
    losses = np.array([[expected_loss(metric, *at_ratio(ratio, MOST)) for ratio in RATIOS] for metric in METRICS])
    grows = np.diff(losses, axis=1) > SAME
    return counted(
        int(grows.sum()),
        grows.size,
        f"From ratio 1 to 2 and from 2 to 3 the expected loss grows in {grows.sum()} of {grows.size} cases (nDCG, AP "
        f"and nRBP, 1 to {MOST} relevant items).",
        "share of cases in which it grows",
        EXPECTED,
    )


@decides("T10")
def the_expected_ndcg_loss_falls_from_five_on(evidence: Evidence) -> Verdict:
    """Decide by the sign of every step from five relevant items on."""
    falls = np.concatenate(_steps("nDCG", FALLS_FROM)) < -SAME
    return counted(
        int(falls.sum()),
        falls.size,
        f"From {FALLS_FROM} to {MOST} relevant items the expected nDCG loss falls in {falls.sum()} of {falls.size} "
        f"steps at ratios 1, 2 and 3; it is largest at {', '.join(map(str, turning_points()))} relevant items.",
        "share of steps in which it falls",
        EXPECTED,
    )


@decides("T11")
def the_expected_ap_and_nrbp_losses_rise(evidence: Evidence) -> Verdict:
    """Decide by the sign of every step, at all ratios."""
    ap, nrbp = (np.concatenate(_steps(metric)) > SAME for metric in ("AP", "nRBP"))
    return counted(
        int(ap.sum() + nrbp.sum()),
        ap.size + nrbp.size,
        f"From 1 to {MOST} relevant items at ratios 1, 2 and 3 the expected AP loss rises in {ap.sum()} of {ap.size} "
        f"steps, the expected nRBP loss in {nrbp.sum()} of {nrbp.size}.",
        "share of steps in which they rise",
        EXPECTED,
    )
