"""Claims that are definitions: the library's metrics hold them, other ones do not."""

from typing import Any

import pytest

import rankbound as rb
from rankbound_study.claims import other_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")

metric, loss = rb.metric, rb.loss


def trained() -> tuple[float, dict[str, float]]:
    return 0.5, dict.fromkeys(other_theorems.FAMILIES, 0.9)


@pytest.mark.parametrize(
    ("claim", "old", "new"),
    [
        ("M01", "P@3", "P@4"),
        ("M01", "AP", "AP@3"),
        ("M01", "nDCG", "nDCG(gain=linear)"),
        ("M01", "DCG(gain=linear,discount=log2(r))", "DCG"),
        ("M02", "Kendall", "Kendall(weight=difference)"),
        ("M02", "Kendall(weight=difference)", "PairAccuracy"),
        ("W01", "RR", "RR@1"),
        ("W01", "CG@5", "CG@4"),
        ("W01", "nDCG(gain=linear)", "nDCG"),
    ],
)
def test_every_metric_counts(claim: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another metric under the name of one refutes."""
    monkeypatch.setattr(other_theorems, "_trained", trained)
    monkeypatch.setattr(rb, "metric", lambda text: metric(new if text == old else text))
    assert verdict_on(claim, EVIDENCE).verdict == REFUTED


def test_a_public_evaluator_that_disagrees_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "_agreeing_with_scikit_learn", lambda orders: (1, 2))
    assert verdict_on("M01", EVIDENCE).verdict == REFUTED


def test_planted_trainings_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "_trained", trained)
    assert verdict_on("W01", EVIDENCE).verdict == CONFIRMED
    monkeypatch.setattr(other_theorems, "_trained", lambda: (0.5, {**trained()[1], "listwise": 0.5}))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED


def test_another_hinge_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_theorems, "_trained", trained)
    monkeypatch.setattr(rb, "loss", lambda text: loss("hinge(margin=2)" if text == "hinge" else text))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED


def test_a_family_that_does_not_train_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards:
        def __call__(self, *arguments: Any) -> Any:
            return -loss("ListMLE")(*arguments)

    monkeypatch.setattr(rb, "loss", lambda text: Backwards() if text == "ListMLE" else loss(text))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED
