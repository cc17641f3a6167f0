"""Claims about the worst orders of lists, and what all orders of short lists are worth."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from brute_force import METRICS as REFERENCE
from brute_force import kendall, linear_dcg, pair_error

import rankbound as rb
from rankbound_study.claims import all_orders, by_hand, floors, printed_equations
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import deciders, verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")
WITHOUT_RUNS = (
    *(f"T{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19)),
    *("N04", "N05", "N16", "M01", "M02", "W01", "L01", "L02", "L03"),
)


def test_claims_about_formulas_have_functions() -> None:
    assert set(WITHOUT_RUNS) <= set(deciders())


@pytest.mark.parametrize(
    "decider",
    [
        "T01",
        "T02",
        "T03",
        "T04",
    ],
)
def test_they_hold(decider: str) -> None:
    assert verdict_on(decider, EVIDENCE).verdict == CONFIRMED


def test_the_printed_numbers_are_found() -> None:
    assert "0.63" in verdict_on("T03", EVIDENCE).reason
    assert verdict_on("T03", EVIDENCE).value == pytest.approx(0.7816511 - 0.6309298)
    # Only lists with one relevant item have an ideal DCG of 1.
    assert "right for 8 of 44 lists" in verdict_on("T04", EVIDENCE).reason
    share = floors._range_of_floors
    assert (share("nDCG", 2), share("AP", 2)) == pytest.approx((0.481 - 0.370, 0.127 - 0.110), abs=1e-3)


def flat(of: str, n: Any, p: Any) -> Any:
    return np.full(np.shape(n), 0.25)


def from_zero(of: str, n: Any, p: Any) -> Any:
    return (np.asarray(p) - 1) / np.asarray(n)


def moving_with_ap(of: str, n: Any, p: Any) -> Any:
    return np.asarray(p) / n / (np.asarray(n) if of == "AP" else 1)


@pytest.mark.parametrize(
    ("decider", "wrong"),
    [
        ("T01", flat),
        ("T01", from_zero),
        ("T02", moving_with_ap),
        ("T04", flat),
    ],
)
def test_other_floors_refute_them(decider: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rb, "minimum", wrong)
    assert verdict_on(decider, EVIDENCE).verdict == REFUTED


def test_equal_scores_of_both_lists_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    reciprocal_rank = rb.metric("RR")
    monkeypatch.setattr(rb, "metric", lambda text: reciprocal_rank)
    assert verdict_on("T03", EVIDENCE).verdict == REFUTED


@pytest.mark.parametrize("name", ["smallest_ndcg", "smallest_ap", "largest_nrbp"])
def test_every_equation_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_equations, name, printed_equations.worst_dcg)
    assert verdict_on("T04", EVIDENCE).verdict == REFUTED


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("nDCG", by_hand.ndcg),
        ("AP", by_hand.average_precision),
        ("nRBP", by_hand.wrong_pairs),
        ("RR", by_hand.reciprocal_rank),
        ("DCG(gain=linear)", by_hand.dcg_of_grades),
        ("DCG(discount=log2(r))", None),
        ("P@3", lambda order: by_hand.precision(order, 3)),
        ("CG@3", lambda order: by_hand.cumulative_gain(order, 3)),
    ],
)
def test_metrics_by_hand_are_those_of_the_tests(text: str, by: Any) -> None:
    if by is None:
        # Binary gains are their own exponentials.
        by = by_hand.dcg_from_rank_two
    orders = [order for n in range(1, 7) for order in product((0, 1), repeat=n) if any(order)]
    assert [by(order) for order in orders] == pytest.approx([REFERENCE[text](order) for order in orders], abs=1e-12)


def test_metrics_of_grades_by_hand_are_those_of_the_tests() -> None:
    orders = [order for n in range(2, 6) for order in product(range(3), repeat=n) if len(set(order)) > 1]
    for order in orders:
        assert by_hand.linear_dcg(order) == linear_dcg(order)
        assert by_hand.wrong_pairs(order) == pair_error()(order)
        assert by_hand.kendall(order) == kendall()(order)
        assert by_hand.kendall(order, by_difference=True) == kendall("difference")(order)


def test_short_lists_never_ask_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("minimum", "maximum", "expectation"):
        monkeypatch.setattr(rb, name, flat)
    n, p = np.array([3, 9, 10]), np.array([2, 3, 3])
    assert all_orders.smallest("AP", n, p) == pytest.approx([7 / 12, 61 / 252, 0.25])
    assert all_orders.expected("AP", n[:1], p[:1]) == pytest.approx([29 / 36])
    assert all_orders.expected_loss("AP", n[:1], p[:1]) == pytest.approx([-29 / 36])
    assert all_orders.expected_loss("nRBP", n, p) == pytest.approx([1, 9, 0.25])


def test_agreement_is_relative_to_large_values_alone() -> None:
    assert all_orders.agree([1e12 + 1, Fraction(1, 3), 0.0, 2.0], [1e12, 1 / 3, 1e-10, 2.001]) == 3
