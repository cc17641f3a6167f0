"""Claims about the worst orders of lists: their scores, and the formulas of the extremes."""

from collections.abc import Iterable

import numpy as np

import rankbound as rb
from rankbound_study.claims import printed_equations as equations
from rankbound_study.claims.all_orders import (
    LISTS,
    METRICS,
    SAME,
    SHORT,
    Floats,
    Value,
    agree,
    smallest,
    values,
    values_of_library,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, holds

SIZES = (25, 50, 100, 200)
"""Sizes of the lists in figure 1.1."""

TENTHS = range(1, 10)
"""Shares of relevant items, in tenths."""

ABOVE_ZERO = ("nDCG", "AP")


@decides("T01")
def the_worst_order_scores_above_zero(evidence: Evidence) -> Verdict:
    """Decide by the floor of every list and its change with one more relevant item; short lists by all their orders."""
    floors = [_floors(metric, n) for metric in ABOVE_ZERO for n in (*range(2, SHORT + 1), *SIZES)]
    every = np.concatenate(floors)
    rises = np.concatenate([np.diff(of_size) for of_size in floors]) > SAME
    above = int((every > SAME).sum())
    return Verdict(
        holds(above == len(every) and bool(rises.all())),
        f"The worst order scores above zero in {above} of {len(every)} cases (nDCG and AP, lists of 2 to {SHORT} and "
        f"25 to 200 items; the lowest score is {every.min():.4f}), and one more relevant item raises it in "
        f"{rises.sum()} of {len(rises)} steps.",
        statistic="lowest score of a worst order",
        value=float(every.min()),
        n=len(every),
        shown_in="figure_1_1",
    )


def _floors(metric: str, n: int) -> Floats:
    """Return the smallest values of lists of `n` items with 1, 2, ... n relevant ones."""
    return smallest(metric, np.full(n, n), np.arange(1, n + 1))


@decides("T02")
def the_floor_of_ndcg_depends_on_the_size_more(evidence: Evidence) -> Verdict:
    """Decide by the range of the floors from 25 to 200 items, at equal shares of relevant items."""
    ndcg, ap = (np.array([_range_of_floors(metric, share) for share in TENTHS]) for metric in ABOVE_ZERO)
    more = int((ndcg > ap + SAME).sum())
    return Verdict(
        holds(more == len(TENTHS)),
        f"From 25 to 200 items the floor of nDCG changes more than that of AP at {more} of {len(TENTHS)} shares of "
        f"relevant items: by {ndcg.min():.3f} to {ndcg.max():.3f}, compared with {ap.min():.3f} to {ap.max():.3f} for "
        "AP.",
        statistic="smallest range of floors, nDCG minus AP",
        value=float((ndcg - ap).min()),
        n=len(TENTHS),
        shown_in="figure_1_1",
    )


def _range_of_floors(metric: str, tenths: int) -> float:
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
        statistic="nDCG, bottom minus second",
        value=bottom - second,
        n=2,
        shown_in="table_1_1",
    )


@decides("T04")
def the_extremes_have_formulas(evidence: Evidence) -> Verdict:
    """Compare the thesis' equations and the library's extremes with all orders of short lists."""
    n, p = np.array(LISTS).T
    low = {metric: [min(values(metric, *pair)) for pair in LISTS] for metric in METRICS}
    high = {metric: [max(values(metric, *pair)) for pair in LISTS] for metric in METRICS}
    ones, zeros = [1] * len(LISTS), [0] * len(LISTS)
    formulas: list[tuple[Iterable[Value], Iterable[Value]]] = [
        ([equations.smallest_ndcg(*pair) for pair in LISTS], low["nDCG"]),
        ([equations.smallest_ap(*pair) for pair in LISTS], low["AP"]),
        (zeros, low["nRBP"]),
        (ones, high["nDCG"]),
        (ones, high["AP"]),
        ([equations.largest_nrbp(*pair) for pair in LISTS], high["nRBP"]),
        *((rb.minimum(metric, n, p).tolist(), low[metric]) for metric in METRICS),
        *((rb.maximum(metric, n, p).tolist(), high[metric]) for metric in METRICS),
    ]
    right, cases = sum(agree(*pair) for pair in formulas), len(formulas) * len(LISTS)
    undivided = agree((equations.worst_dcg(*pair) for pair in LISTS), low["nDCG"])
    return Verdict(
        holds(right == cases),
        f"The formulas give the smallest and the largest value over all orders in {right} of {cases} cases "
        f"(those of the thesis and of the library, all lists of 2 to {SHORT} items, three metrics); equation 3.2 needs "
        f"a division by the ideal DCG: as printed it is right for {undivided} of {len(LISTS)} lists.",
        statistic="share of cases that agree",
        value=right / cases,
        n=cases,
        shown_in="table_2_2 table_2_4",
    )
