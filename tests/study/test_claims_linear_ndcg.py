"""Claims about linear DCG: true of all short lists, false of planted sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound_study.claims import other_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.oracle import linear_dcg
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import REFUTED

EVIDENCE = Evidence("thesis")


def test_exchanges_that_cost_too_little_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "linear_dcg", lambda order: linear_dcg(order) / 2)
    assert verdict_on("L01", EVIDENCE).verdict == REFUTED


def test_orders_that_take_more_exchanges_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges = other_theorems._exchanges

    def of_neighbours(order: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [after for after in exchanges(order) if linear_dcg(order) - linear_dcg(after) == 1]

    monkeypatch.setattr(other_theorems, "_exchanges", of_neighbours)
    assert verdict_on("L01", EVIDENCE).verdict == REFUTED


def test_the_fewest_exchanges_of_four_items() -> None:
    fewest = other_theorems._fewest_exchanges((1, 1, 0, 0))
    assert fewest == {
        (1, 1, 0, 0): 0,
        (1, 0, 1, 0): 1,
        (1, 0, 0, 1): 1,
        (0, 1, 1, 0): 1,
        (0, 1, 0, 1): 1,
        (0, 0, 1, 1): 2,
    }


def unweighted(order: Sequence[int]) -> int:
    return sum(above < below for i, above in enumerate(order) for below in order[i:])


def test_pairs_without_their_weight_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "wrong_pairs", unweighted)
    assert verdict_on("L02", EVIDENCE).verdict == REFUTED


def test_another_error_of_the_library_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    normalised = rb.metric("PairError(norm=max)")
    monkeypatch.setattr(rb, "metric", lambda text: normalised)
    assert verdict_on("L02", EVIDENCE).verdict == REFUTED


def test_two_tied_items_have_half_an_error() -> None:
    assert other_theorems._mean_error([0, 0], [1, 0]) == 0.5
    assert other_theorems._mean_error([0, 1, 1], [2, 0, 0]) == 4


def test_another_largest_value_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_pairs_of_the_better(of: str, n: Any, m: Any) -> Any:
        return np.asarray(m * (n - m))

    monkeypatch.setattr(rb, "maximum", without_the_pairs_of_the_better)
    assert verdict_on("L03", EVIDENCE).verdict == REFUTED
