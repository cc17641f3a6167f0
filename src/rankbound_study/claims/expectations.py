"""Claims about random orders: their expected score, and its change with a list's size and ratio."""

from collections.abc import Iterable

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
    Value,
    agree,
    as_loss,
    at_ratio,
    expected_loss,
    mean,
    smallest,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, holds

MOST = 200
"""Relevant items of the longest list."""

FALLS_FROM = 5
"""Number of relevant items from which the expected nDCG loss falls, according to the thesis."""

SHOWN = "figure_3_2"


@decides("T05")
def more_relevant_items_are_easier(evidence: Evidence) -> Verdict:
    """Decide by the changes of the worst and the expected loss from P to P + 1 relevant items at a fixed ratio."""
    steps = {metric: np.concatenate([_worst_steps(metric), *_steps(metric)]) for metric in METRICS}
    easier = {metric: int((change < -SAME).sum()) for metric, change in steps.items()}
    of = len(steps["AP"])
    last = max(_turning_points())
    return Verdict(
        holds(all(easier[metric] == len(steps[metric]) for metric in METRICS)),
        f"With one more relevant item at the same ratio, the floor and the expectation of nDCG rise in "
        f"{easier['nDCG']} of {of} steps (the expectation from {last} relevant items on at all three ratios), those of "
        f"AP in {easier['AP']}; the expected nRBP loss falls in {easier['nRBP']} of {len(steps['nRBP'])}.",
        statistic="share of steps that get easier",
        value=sum(easier.values()) / sum(map(len, steps.values())),
        n=sum(map(len, steps.values())),
        shown_in=SHOWN,
    )


def _steps(metric: str, fewest: int = 1) -> list[Floats]:
    """Return the changes of the expected loss from P to P + 1 relevant items, by ratio."""
    return [np.diff(expected_loss(metric, *at_ratio(ratio, MOST, fewest))) for ratio in RATIOS]


def _worst_steps(metric: str) -> Floats:
    """Return the same changes for the floor's loss, if the metric has a floor."""
    if metric == LOSS_ONLY:
        return np.empty(0)
    return np.concatenate([np.diff(as_loss(metric, smallest(metric, *at_ratio(ratio, MOST)))) for ratio in RATIOS])


def _turning_points() -> list[int]:
    """Return the number of relevant items from which the expected nDCG loss falls, by ratio."""
    return [int(np.flatnonzero(change >= -SAME).max(initial=-1)) + 2 for change in _steps("nDCG")]


@decides("T08")
def the_expectations_have_formulas(evidence: Evidence) -> Verdict:
    """Compare the thesis' equations and the library's expectations with the means over all orders of short lists."""
    n, p = np.array(LISTS).T
    means = {metric: [mean(metric, *pair) for pair in LISTS] for metric in METRICS}
    formulas: list[tuple[Iterable[Value], Iterable[Value]]] = [
        ([equations.expected_ndcg(*pair) for pair in LISTS], means["nDCG"]),
        ([equations.expected_nrbp(*pair) for pair in LISTS], means["nRBP"]),
        *((rb.expectation(metric, n, p).tolist(), means[metric]) for metric in METRICS),
    ]
    exact = sum(equations.expected_ap(*pair) == of_orders for pair, of_orders in zip(LISTS, means["AP"], strict=True))
    right, cases = exact + sum(agree(*pair) for pair in formulas), (1 + len(formulas)) * len(LISTS)
    printed = agree((equations.expected_ndcg_as_printed(*pair) for pair in LISTS), means["nDCG"])
    return Verdict(
        holds(right == cases),
        f"The formulas give the mean over all orders in {right} of {cases} cases (those of the thesis and of the "
        f"library, all lists of 2 to {SHORT} items; AP in exact fractions in {exact} of {len(LISTS)}); equation 3.8 "
        f"needs P/N instead of P: as printed it is right for {printed} of {len(LISTS)} lists.",
        statistic="share of cases that agree",
        value=right / cases,
        n=cases,
        shown_in="table_3_1 table_3_2 table_3_3",
    )


@decides("T09")
def the_expected_loss_grows_with_the_ratio(evidence: Evidence) -> Verdict:
    """Compare expected losses of lists with equally many relevant items, from one ratio to the next."""
    grows = np.concatenate([_steps_of_ratio(metric) for metric in METRICS]) > SAME
    return Verdict(
        holds(bool(grows.all())),
        f"From ratio 1 to 2 and from 2 to 3 the expected loss grows in {grows.sum()} of {len(grows)} cases (nDCG, AP "
        f"and nRBP, 1 to {MOST} relevant items).",
        statistic="share of cases in which it grows",
        value=float(grows.mean()),
        n=len(grows),
        shown_in=SHOWN,
    )


def _steps_of_ratio(metric: str) -> Floats:
    by_ratio = np.array([expected_loss(metric, *at_ratio(ratio, MOST)) for ratio in RATIOS])
    return np.diff(by_ratio, axis=0).ravel()


@decides("T10")
def the_expected_ndcg_loss_falls_from_five_on(evidence: Evidence) -> Verdict:
    """Decide by the sign of every step from five relevant items on."""
    falls = np.concatenate(_steps("nDCG", FALLS_FROM)) < -SAME
    turns = ", ".join(map(str, _turning_points()))
    return Verdict(
        holds(bool(falls.all())),
        f"From {FALLS_FROM} to {MOST} relevant items the expected nDCG loss falls in {falls.sum()} of {len(falls)} "
        f"steps at ratios 1, 2 and 3; it is largest at {turns} relevant items.",
        statistic="share of steps in which it falls",
        value=float(falls.mean()),
        n=len(falls),
        shown_in=SHOWN,
    )


@decides("T11")
def the_expected_ap_and_nrbp_losses_rise(evidence: Evidence) -> Verdict:
    """Decide by the sign of every step, at all ratios."""
    rises = {metric: np.concatenate(_steps(metric)) > SAME for metric in ("AP", "nRBP")}
    every = np.concatenate(list(rises.values()))
    return Verdict(
        holds(bool(every.all())),
        f"From 1 to {MOST} relevant items at ratios 1, 2 and 3 the expected AP loss rises in {rises['AP'].sum()} of "
        f"{len(rises['AP'])} steps, the expected nRBP loss in {rises['nRBP'].sum()} of {len(rises['nRBP'])}.",
        statistic="share of steps in which they rise",
        value=float(every.mean()),
        n=len(every),
        shown_in=SHOWN,
    )
