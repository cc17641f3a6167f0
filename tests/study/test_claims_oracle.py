"""The oracle of the theorems: metrics by hand are those of the tests, and short lists are enumerated."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from brute_force import METRICS as REFERENCE
from brute_force import kendall, linear_dcg, pair_error

import rankbound as rb
from rankbound_study.claims import oracle


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("nDCG", oracle.ndcg),
        ("AP", oracle.average_precision),
        ("nRBP", oracle.wrong_pairs),
        ("RR", oracle.reciprocal_rank),
        ("DCG(gain=linear)", oracle.dcg_of_grades),
        # Binary gains are their own exponentials.
        ("DCG(discount=log2(r))", oracle.dcg_from_rank_two),
        ("P@3", lambda order: oracle.precision(order, 3)),
        ("CG@3", lambda order: oracle.cumulative_gain(order, 3)),
    ],
)
def test_metrics_by_hand_are_those_of_the_tests(text: str, by: Any) -> None:
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
        monkeypatch.setattr(rb, name, lambda of, n, p: np.full(np.shape(n), 0.25))
    n, p = np.array([3, 9, 10]), np.array([2, 3, 3])
    assert oracle.smallest("AP", n, p) == pytest.approx([7 / 12, 61 / 252, 0.25])
    assert oracle.expected("AP", n[:1], p[:1]) == pytest.approx([29 / 36])
    assert oracle.expected_loss("AP", n[:1], p[:1]) == pytest.approx([-29 / 36])
    assert oracle.expected_loss("nRBP", n, p) == pytest.approx([1, 9, 0.25])


def test_agreement_is_relative_to_large_values_alone() -> None:
    assert oracle.agree([1e12 + 1, Fraction(1, 3), 0.0, 2.0], [1e12, 1 / 3, 1e-10, 2.001]) == 3
