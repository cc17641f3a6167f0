"""Metrics of a run and its qrels: values and refusals elsewhere."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.io.judged import Qrels

# By score: u (unjudged), a (2), b (0), v (unjudged), c (1); the run lacks d (1) and e (0).
RUN = {"q": {"u": 5.0, "a": 4.0, "b": 3.0, "v": 2.0, "c": 1.0}}
QRELS = {"q": {"a": 2, "b": 0, "c": 1, "d": 1, "e": 0}}
EPSILON = 1e-5

WRITTEN_OUT = {
    "SetP": 2 / 5,
    "SetP(rel=2)": 1 / 5,
    "SetR": 2 / 3,
    "SetF": 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3),
    "SetF(beta=2)": 5 * (2 / 5) * (2 / 3) / (4 * 2 / 5 + 2 / 3),
    "Judged": 3 / 5,
    "Judged@1": 0,
    "Judged@2": 1 / 2,
    "Judged@4": 2 / 4,
    "Judged@100": 3 / 5,
    "Bpref": (1 + (1 - 1 / 2)) / 3,
    "Bpref(rel=2)": 1,
    "infAP": (1 / 2 + 1 / 5 * (1 + 2 * (1 + EPSILON) / (2 + 2 * EPSILON))) / 3,
    "Rprec": 1 / 3,
}


@pytest.mark.parametrize(("name", "expected"), WRITTEN_OUT.items())
def test_value_against_written_out_arithmetic(name: str, expected: float) -> None:
    found = rb.evaluate_run(RUN, QRELS, name).values[name]
    np.testing.assert_allclose(found, [expected], rtol=1e-12)


def test_values_do_not_depend_on_the_metrics_beside_them() -> None:
    together = rb.evaluate_run(RUN, QRELS, ["AP", *WRITTEN_OUT, "nDCG@3"]).values
    assert list(together) == ["AP", *WRITTEN_OUT, "nDCG@3"]
    for name, value in together.items():
        np.testing.assert_array_equal(value, rb.evaluate_run(RUN, QRELS, name).values[name])


def test_topics_without_relevant_or_without_retrieved_items() -> None:
    qrels = {"none relevant": {"a": 0}, "none retrieved": {"a": 1, "b": 0}}
    names = ["SetP", "SetR", "SetF", "Judged@3", "Bpref", "infAP", "Rprec", "IPrec(recall=0)"]
    found = rb.evaluate_run({"none relevant": {"a": 1.0}}, qrels, names, missing="zero").values
    nan = math.nan
    expected = [(0, 0), (nan, 0), (nan, 0), (1, nan), (nan, 0), (nan, 0), (nan, 0), (nan, 0)]
    np.testing.assert_array_equal(list(found.values()), expected)


def test_pooled_items_that_are_not_judged(tmp_path: Path) -> None:
    """Negative relevance in TREC qrels, which files keep; test_trec.py compares the values with trec_eval's."""
    qrels = Qrels(topics=["q"], items=list("abc"), relevance=[0, 1, 0], offsets=[0, 3], unjudged=[True, False, False])
    rb.write_qrels(tmp_path / "qrels.txt", qrels)
    read = rb.read_qrels(tmp_path / "qrels.txt")
    assert (tmp_path / "qrels.txt").read_text() == "q 0 a -1\nq 0 b 1\nq 0 c 0\n"
    assert read.relevance.tolist() == [0, 1, 0]
    assert read.unjudged.tolist() == [True, False, False]
    names = ["Judged", "Bpref", "infAP", "AP"]
    found = rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, read, names).values
    inferred = 1 / 2 * (1 + EPSILON / (2 * EPSILON))
    np.testing.assert_allclose([found[name][0] for name in names], [1 / 2, 1, inferred, 1 / 2], rtol=1e-12)


LISTS: tuple[Any, ...] = (torch.tensor([0.3, 0.1]), torch.tensor([1, 0]), torch.tensor([0, 2]))
ELSEWHERE: dict[str, Callable[[str], Any]] = {
    "lists": lambda name: rb.metric(name)(*LISTS),
    "tied lists": lambda name: rb.metric(name)(torch.zeros(2), *LISTS[1:]),
    "several metrics": lambda name: rb.evaluate(["AP", name], *LISTS),
    "a loss": rb.SmoothLoss,
    "a loss by its text": rb.loss,
    "a minimum": lambda name: rb.minimum(name, 5, 2),
    "extremes": lambda name: rb.extremes(name, *LISTS[1:]),
    "an expectation": lambda name: rb.expectation(name, 5, 2),
    "a distribution": lambda name: rb.score_distribution(name, 5, 2),
    "a bounded metric": lambda name: rb.bounded(name, "min-max")(*LISTS),
}


@pytest.mark.parametrize("use", ELSEWHERE)
@pytest.mark.parametrize("name", ["SetP", "SetR(rel=2)", "SetF", "Judged@10"])
def test_other_uses_are_refused(name: str, use: str) -> None:
    message = f"metric {name}: found lists of scores and grades, expected a run and qrels".replace("(", r"\(")
    with pytest.raises(ValueError, match=message.replace(")", r"\)")):
        ELSEWHERE[use](name)


@pytest.mark.parametrize("name", ["Bpref", "infAP"])
def test_metrics_of_judged_lists_train(name: str) -> None:
    scores = LISTS[0].clone().requires_grad_()
    rb.SmoothLoss(name)(scores, *LISTS[1:]).sum().backward()
    assert scores.grad is not None
    assert scores.grad[0] < 0 < scores.grad[1]
