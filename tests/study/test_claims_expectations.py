"""Claims about random orders: true of the formulas, false of planted ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound_study.claims import expectations, printed_equations
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")

Losses = Callable[[str, Any, Any], Any]


@pytest.mark.parametrize(
    ("decider", "verdict"),
    [
        ("T05", REFUTED),
        ("T08", CONFIRMED),
        ("T09", CONFIRMED),
        ("T10", CONFIRMED),
        ("T11", CONFIRMED),
    ],
)
def test_they_are_decided(decider: str, verdict: str) -> None:
    assert verdict_on(decider, EVIDENCE).verdict == verdict


def test_the_numbers_that_decide() -> None:
    easier = verdict_on("T05", EVIDENCE).reason
    assert "from 5 relevant items on" in easier
    assert "AP in 0;" in easier
    assert expectations._turning_points() == [5, 5, 4]
    assert "right for 0 of 44" in verdict_on("T08", EVIDENCE).reason


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
        ("T05", falling, CONFIRMED),
        ("T05", falling_but_for_ap, REFUTED),
        ("T09", rising, REFUTED),
        ("T09", lambda metric, n, p: n / p, CONFIRMED),
        ("T10", falling, CONFIRMED),
        ("T10", rising_to_six, REFUTED),
        ("T11", rising, CONFIRMED),
        ("T11", falling, REFUTED),
        ("T11", rising_to_six, REFUTED),
    ],
)
def test_planted_losses_decide(decider: str, losses: Losses, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "expected_loss", losses)
    monkeypatch.setattr(expectations, "smallest", rising)
    assert verdict_on(decider, EVIDENCE).verdict == verdict


def test_a_floor_that_sinks_is_not_easier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "expected_loss", falling)
    monkeypatch.setattr(expectations, "smallest", falling)
    assert verdict_on("T05", EVIDENCE).verdict == REFUTED


@pytest.mark.parametrize("name", ["expected_ndcg", "expected_nrbp", "expected_ap"])
def test_every_equation_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_equations, name, printed_equations.expected_ndcg_as_printed)
    assert verdict_on("T08", EVIDENCE).verdict == REFUTED


def test_the_librarys_expectations_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rb, "expectation", lambda metric, n, p: np.asarray(p) / n)
    assert verdict_on("T08", EVIDENCE).verdict == REFUTED
