"""Claims that are definitions: the library's metrics hold them, other ones do not."""

from typing import Any

import pytest

import rankbound as rb
from rankbound_study.claims import definitions
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")

metric, loss = rb.metric, rb.loss


def replaced(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another metric under the name of one."""
    monkeypatch.setattr(rb, "metric", lambda text: metric(new if text == old else text))


def trained() -> tuple[float, dict[str, float]]:
    return 0.5, dict.fromkeys(definitions.FAMILIES, 0.9)


def test_murphys_definitions_hold_and_his_table_does_not() -> None:
    verdict = verdict_on("M01", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "8 numbers are misprinted (1.887, 0.772, 8.09, 0.9306)" in verdict.reason
    assert "8.693" in verdict.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [("P@3", "P@4"), ("AP", "AP@3"), ("nDCG", "nDCG(gain=linear)"), ("DCG(gain=linear,discount=log2(r))", "DCG")],
)
def test_every_metric_of_murphy_counts(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(old, new, monkeypatch)
    assert verdict_on("M01", EVIDENCE).verdict == REFUTED


def test_a_public_evaluator_that_disagrees_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_agreeing_with_scikit_learn", lambda orders: (1, 2))
    assert verdict_on("M01", EVIDENCE).verdict == REFUTED


def test_the_kendall_statistic_holds() -> None:
    verdict = verdict_on("M02", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "1 for equal and 0 for reversed" in verdict.reason


@pytest.mark.parametrize(
    ("old", "new"), [("Kendall", "Kendall(weight=difference)"), ("Kendall(weight=difference)", "PairAccuracy")]
)
def test_both_weights_of_kendall_count(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(old, new, monkeypatch)
    assert verdict_on("M02", EVIDENCE).verdict == REFUTED


def test_the_wiki_page_holds() -> None:
    assert verdict_on("W01", EVIDENCE).verdict == CONFIRMED


def test_planted_trainings_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_trained", trained)
    assert verdict_on("W01", EVIDENCE).verdict == CONFIRMED
    monkeypatch.setattr(definitions, "_trained", lambda: (0.5, {**trained()[1], "listwise": 0.5}))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED


@pytest.mark.parametrize(("old", "new"), [("RR", "RR@1"), ("CG@5", "CG@4"), ("nDCG(gain=linear)", "nDCG")])
def test_every_metric_of_the_wiki_counts(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_trained", trained)
    replaced(old, new, monkeypatch)
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED


def test_another_hinge_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_trained", trained)
    monkeypatch.setattr(rb, "loss", lambda text: loss("hinge(margin=2)" if text == "hinge" else text))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED


def test_a_family_that_does_not_train_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards:
        def __call__(self, *arguments: Any) -> Any:
            return -loss("ListMLE")(*arguments)

    monkeypatch.setattr(rb, "loss", lambda text: Backwards() if text == "ListMLE" else loss(text))
    assert verdict_on("W01", EVIDENCE).verdict == REFUTED
