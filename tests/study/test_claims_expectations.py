"""Claims about random orders: true of the formulas, false of planted ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound_study.claims import expectations, printed_equations
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.verdict import CONFIRMED, REFUTED, Verdict

EVIDENCE = Evidence("thesis")

Decider = Callable[[Evidence], Verdict]
Losses = Callable[[str, Any, Any], Any]


@pytest.mark.parametrize(
    ("decider", "verdict"),
    [
        (expectations.more_relevant_items_are_easier, REFUTED),
        (expectations.the_expectations_have_formulas, CONFIRMED),
        (expectations.the_expected_loss_grows_with_the_ratio, CONFIRMED),
        (expectations.the_expected_ndcg_loss_falls_from_five_on, CONFIRMED),
        (expectations.the_expected_ap_and_nrbp_losses_rise, CONFIRMED),
    ],
)
def test_they_are_decided(decider: Decider, verdict: str) -> None:
    assert decider(EVIDENCE).verdict == verdict


def test_the_numbers_that_decide() -> None:
    easier = expectations.more_relevant_items_are_easier(EVIDENCE).reason
    assert "from 5 relevant items on" in easier
    assert "AP in 0;" in easier
    assert expectations._turning_points() == [5, 5, 4]
    assert "right for 0 of 44" in expectations.the_expectations_have_formulas(EVIDENCE).reason


def falling(metric: str, n: Any, p: Any) -> Any:
    return -p.astype(float)


def rising(metric: str, n: Any, p: Any) -> Any:
    return p.astype(float)


def falling_but_for_ap(metric: str, n: Any, p: Any) -> Any:
    return np.where(metric == "AP", 1.0, -1.0) * p


def rising_to_six(metric: str, n: Any, p: Any) -> Any:
    return -np.abs(p - 6.0)


@pytest.mark.parametrize(
    ("decider", "losses", "verdict"),
    [
        (expectations.more_relevant_items_are_easier, falling, CONFIRMED),
        (expectations.more_relevant_items_are_easier, falling_but_for_ap, REFUTED),
        (expectations.the_expected_loss_grows_with_the_ratio, rising, REFUTED),
        (expectations.the_expected_loss_grows_with_the_ratio, lambda metric, n, p: n / p, CONFIRMED),
        (expectations.the_expected_ndcg_loss_falls_from_five_on, falling, CONFIRMED),
        (expectations.the_expected_ndcg_loss_falls_from_five_on, rising_to_six, REFUTED),
        (expectations.the_expected_ap_and_nrbp_losses_rise, rising, CONFIRMED),
        (expectations.the_expected_ap_and_nrbp_losses_rise, falling, REFUTED),
        (expectations.the_expected_ap_and_nrbp_losses_rise, rising_to_six, REFUTED),
    ],
)
def test_planted_losses_decide(decider: Decider, losses: Losses, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "expected_loss", losses)
    monkeypatch.setattr(expectations, "smallest", rising)
    assert decider(EVIDENCE).verdict == verdict


def test_a_floor_that_sinks_is_not_easier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "expected_loss", falling)
    monkeypatch.setattr(expectations, "smallest", falling)
    assert expectations.more_relevant_items_are_easier(EVIDENCE).verdict == REFUTED


@pytest.mark.parametrize("name", ["expected_ndcg", "expected_nrbp", "expected_ap"])
def test_every_equation_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_equations, name, printed_equations.expected_ndcg_as_printed)
    assert expectations.the_expectations_have_formulas(EVIDENCE).verdict == REFUTED


def test_the_librarys_expectations_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rb, "expectation", lambda metric, n, p: np.asarray(p) / n)
    assert expectations.the_expectations_have_formulas(EVIDENCE).verdict == REFUTED
