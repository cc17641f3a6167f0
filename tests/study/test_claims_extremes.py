"""Claims about the extremes and expectations of lists, false of planted ones; all orders and metrics by hand."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from brute_force import METRICS as REFERENCE
from brute_force import kendall, linear_dcg, pair_error

import rankbound as rb
from rankbound_study.claims import oracle, thesis_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")

Losses = Callable[[str, Any, Any], Any]


def flat(of: str, n: Any, p: Any) -> Any:
    return np.full(np.shape(n), 0.25)


def from_zero(of: str, n: Any, p: Any) -> Any:
    return (np.asarray(p) - 1) / np.asarray(n)


def moving_with_ap(of: str, n: Any, p: Any) -> Any:
    return np.asarray(p) / n / (np.asarray(n) if of == "AP" else 1)


def share(of: str, n: Any, p: Any) -> Any:
    return np.asarray(p) / n


reciprocal_rank = rb.metric("RR")
undivided, printed = oracle.worst_dcg, oracle.expected_ndcg_as_printed


@pytest.mark.parametrize(
    ("claim", "module", "name", "wrong"),
    [
        ("T01", rb, "minimum", flat),
        ("T01", rb, "minimum", from_zero),
        ("T02", rb, "minimum", moving_with_ap),
        ("T03", rb, "metric", lambda text: reciprocal_rank),
        ("T04", rb, "minimum", flat),
        *(("T04", oracle, name, undivided) for name in ("smallest_ndcg", "smallest_ap", "largest_nrbp")),
        ("T08", rb, "expectation", share),
        *(("T08", oracle, name, printed) for name in ("expected_ndcg", "expected_nrbp", "expected_ap")),
    ],
)
def test_others_refute_them(claim: str, module: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, wrong)
    assert verdict_on(claim, EVIDENCE).verdict == REFUTED


def test_the_printed_numbers_are_found() -> None:
    assert verdict_on("T03", EVIDENCE).value == pytest.approx(0.7816511 - 0.6309298)
    ranges = [thesis_theorems.range_of_floors(metric, 2) for metric in ("nDCG", "AP")]
    assert ranges == pytest.approx([0.481 - 0.370, 0.127 - 0.110], abs=1e-3)
    assert thesis_theorems.turning_points() == [5, 5, 4]


def falling(metric: str, n: Any, p: Any) -> Any:
    return -p.astype(float)


def rising(metric: str, n: Any, p: Any) -> Any:
    return p.astype(float)


def falling_but_for_ap(metric: str, n: Any, p: Any) -> Any:
    return np.where(metric == "AP", 1.0, -1.0) * p


def rising_to_six(metric: str, n: Any, p: Any) -> Any:
    return -np.abs(p - 6.0)


@pytest.mark.parametrize(
    ("claim", "losses", "floors", "verdict"),
    [
        ("T05", falling, rising, CONFIRMED),
        ("T05", falling, falling, REFUTED),
        ("T05", falling_but_for_ap, rising, REFUTED),
        ("T09", rising, rising, REFUTED),
        ("T09", lambda metric, n, p: n / p, rising, CONFIRMED),
        ("T10", falling, rising, CONFIRMED),
        ("T10", rising_to_six, rising, REFUTED),
        ("T11", rising, rising, CONFIRMED),
        ("T11", falling, rising, REFUTED),
        ("T11", rising_to_six, rising, REFUTED),
    ],
)
def test_planted_losses_decide(
    claim: str, losses: Losses, floors: Losses, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thesis_theorems, "expected_loss", losses)
    monkeypatch.setattr(thesis_theorems, "smallest", floors)
    assert verdict_on(claim, EVIDENCE).verdict == verdict


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("nDCG", oracle.ndcg),
        ("AP", oracle.average_precision),
        ("nRBP", oracle.wrong_pairs),
        ("RR", oracle.reciprocal_rank),
        ("DCG(gain=linear)", oracle.dcg_of_grades),
        ("DCG(discount=log2(r))", None),
        ("P@3", lambda order: oracle.precision(order, 3)),
        ("CG@3", lambda order: oracle.cumulative_gain(order, 3)),
    ],
)
def test_metrics_by_hand_are_those_of_the_tests(text: str, by: Any) -> None:
    if by is None:
        # Binary gains are their own exponentials.
        by = oracle.dcg_from_rank_two
    orders = [order for n in range(1, 7) for order in product((0, 1), repeat=n) if any(order)]
    assert [by(order) for order in orders] == pytest.approx([REFERENCE[text](order) for order in orders], abs=1e-12)


def test_metrics_of_grades_by_hand_are_those_of_the_tests() -> None:
    orders = [order for n in range(2, 6) for order in product(range(3), repeat=n) if len(set(order)) > 1]
    for order in orders:
        assert oracle.linear_dcg(order) == linear_dcg(order)
        assert oracle.wrong_pairs(order) == pair_error()(order)
        assert oracle.kendall(order) == kendall()(order)
        assert oracle.kendall(order, by_difference=True) == kendall("difference")(order)


def test_short_lists_never_ask_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("minimum", "maximum", "expectation"):
        monkeypatch.setattr(rb, name, flat)
    n, p = np.array([3, 9, 10]), np.array([2, 3, 3])
    assert oracle.smallest("AP", n, p) == pytest.approx([7 / 12, 61 / 252, 0.25])
    assert oracle.expected("AP", n[:1], p[:1]) == pytest.approx([29 / 36])
    assert oracle.expected_loss("AP", n[:1], p[:1]) == pytest.approx([-29 / 36])
    assert oracle.expected_loss("nRBP", n, p) == pytest.approx([1, 9, 0.25])


def test_agreement_is_relative_to_large_values_alone() -> None:
    assert oracle.agree([1e12 + 1, Fraction(1, 3), 0.0, 2.0], [1e12, 1 / 3, 1e-10, 2.001]) == 3
