"""Metrics of a run and its qrels, and of judgements by intent: values, ties, reading, refusals."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.judged import Qrels
from tests.library.drawn_runs import drawn_run
from tests.library.planted_ratings import orders_of
from tests.library.refusals import refusals

# By score: u (unjudged), a (2), b (0), v (unjudged), c (1); the run lacks d (1) and e (0).
RUN = {"q": {"u": 5.0, "a": 4.0, "b": 3.0, "v": 2.0, "c": 1.0}}
QRELS = {"q": {"a": 2, "b": 0, "c": 1, "d": 1, "e": 0}}
EPSILON = 1e-5
GRADES = (0, 0, 0, 1, 2, 3)

WRITTEN_OUT = {
    "SetP": 2 / 5,
    "SetP(rel=2)": 1 / 5,
    "SetR": 2 / 3,
    "SetF": 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3),
    "SetF(beta=2)": 5 * (2 / 5) * (2 / 3) / (4 * 2 / 5 + 2 / 3),
    "SetAP": 2 / 5 * 2 / 3,
    "SetRelP": 2 / 3,
    "SetRelP(rel=2)": 1,
    "F@2": 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3),
    "SDCG(max=2)@2": (2 / math.log2(3)) / (2 * (1 + 1 / math.log2(3))),
    "INSQ(max=2)@5": (1 / 9 + 1 / 2 / 36) / sum(1 / r**2 for r in range(2, 7)),
    # From rank 2 on, nothing is needed any more but at c: 3/2 - 1 and so on.
    "INST(max=2)@3": (1 / 1.0) * (4 / 9) / (1 + 4 / 9 + 4 / 9 * (2 / 3) ** 2),
    "Compat(p=0.5)@2": (1 / 4) / (1 + 1 / 2),
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


def test_values_against_written_out_arithmetic_do_not_depend_on_the_metrics_beside_them() -> None:
    together = rb.evaluate_run(RUN, QRELS, ["AP", *WRITTEN_OUT, "nDCG@3"]).values
    assert list(together) == ["AP", *WRITTEN_OUT, "nDCG@3"]
    for name, value in together.items():
        np.testing.assert_array_equal(value, rb.evaluate_run(RUN, QRELS, name).values[name])
        np.testing.assert_allclose(value, WRITTEN_OUT.get(name, value), rtol=1e-12)


# Of a topic without relevant items, and of one without retrieved ones.
UNDEFINED_AND_0 = "SetR SetF Bpref infAP Rprec IPrec(recall=0) SetAP SetRelP F@3 Compat"
NEITHER = dict.fromkeys(UNDEFINED_AND_0.split(), (math.nan, 0)) | {"Judged@3": (1, math.nan)}
NEITHER |= dict.fromkeys(["SetP", "INST(max=4)", "INSQ(max=4)", "SDCG(max=4)@2"], (0, 0))


def test_topics_without_relevant_or_without_retrieved_items() -> None:
    qrels = {"none relevant": {"a": 0}, "none retrieved": {"a": 1, "b": 0}}
    judged = {"none relevant": {"1": {"a": 0}, "2": {"a": 0}}, "none retrieved": {"1": {"a": 1}, "2": {"b": 1}}}
    for source, expected in ((qrels, NEITHER), (judged, dict.fromkeys(OF_INTENTS_ALL, (math.nan, 0)))):
        found = rb.evaluate_run({"none relevant": {"a": 1.0}}, source, [*expected], missing="zero").values
        np.testing.assert_array_equal(list(found.values()), list(expected.values()))


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


test_other_uses_are_refused = refusals(
    [
        ((use, name), f"metric {re.escape(name)}: found lists of scores and grades, expected a run and qrels")
        for use in ELSEWHERE
        for name in ("SetP", "SetR(rel=2)", "SetF", "SetAP", "SetRelP", "Judged@10")
    ],
    lambda given: ELSEWHERE[given[0]](given[1]),
)


# Judgements by intent
# Items a, b, c from the top; the run lacks d. b serves both intents of q.
OF_INTENTS = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
BY_INTENT = {"q": {"1": {"a": 1, "b": 1, "c": 0}, "2": {"b": 2, "d": 1}}}
LOG3 = math.log2(3)


def value(name: str, run: Any = OF_INTENTS, judged: Any = BY_INTENT) -> float:
    return float(rb.evaluate_run(run, judged, name).values[name][0])


# The ideal order: b serves both intents (2); then d and a have a half each.
OF_INTENT = {
    "alpha_nDCG": (1 + (0.5 + 1) / LOG3) / (2 + 0.5 / LOG3 + 0.5 / 2),
    "alpha_nDCG@1": 1 / 2,
    "alpha_nDCG(rel=2)": 1 / LOG3,
    "alpha_nDCG(alpha=0)": (1 + 2 / LOG3) / (2 + 1 / LOG3 + 1 / 2),
    "alpha_nDCG(alpha=1)": (1 + 1 / LOG3) / 2,
    "ERR_IA@2": (1 + 1.5 / 2) / (2 * (1 + 0.5 / 2)),
    "ERR_IA@1": 1 / 2,
    "ERR_IA(alpha=0)@2": (1 + 2 / 2) / (2 * (1 + 1 / 2)),
    "ERR_IA(rel=2,alpha=1)@3": 1 / 2,
    "alpha_DCG@2": (1 + 1.5 / LOG3) / (2 * (1 + 0.5 / LOG3)),
    "nERR_IA@2": (1 + 1.5 / 2) / (2 + 0.5 / 2),
    "nERR_IA": (1 + 1.5 / 2) / (2 + 0.5 / 2 + 0.5 / 3),
    # Clarke, Kolla and Vechtomova 2009, eq. 6: (1 - (1 - alpha) beta) / T times the sum of gains.
    "novelty_RBP": (1 - 0.25) / 2 * (1 + 0.5 * 1.5),
    "novelty_RBP(alpha=0.2,beta=0.8)": (1 - 0.64) / 2 * (1 + 0.8 * 1.8),
    "novelty_nRBP": (1 + 0.5 * 1.5) / (2 + 0.5 * 0.5 + 0.25 * 0.5),
    "AP_IA": (1 + (1 / 2) / 2) / 2,
    "AP_IA(rel=2)": 1 / 2,
    "P_IA@2": (2 / 2 + 1 / 2) / 2,
    "P_IA@10": (2 / 10 + 1 / 10) / 2,
    "StRecall@1": 1 / 2,
    "StRecall@2": 1,
}
OF_INTENTS_ALL = ["alpha_nDCG", "ERR_IA@5", "alpha_DCG@5", "nERR_IA", "novelty_RBP", "novelty_nRBP", "AP_IA", "P_IA@3"]


def test_values_of_intents_against_written_out_arithmetic() -> None:
    """Relevance is the highest to an intent; the best list has the value 1."""
    assert {name: value(name) for name in OF_INTENT} == pytest.approx(OF_INTENT, rel=1e-12)
    qrels = rb.read_qrels(BY_INTENT, intents=True)
    assert dict(zip(qrels.items, qrels.relevance.tolist(), strict=True)) == {"a": 1, "b": 2, "c": 0, "d": 1}
    assert value("AP", judged=qrels) == pytest.approx((1 + 1) / 3)
    both = {"q": {intent: {"a": 1, "b": 1, "c": 1} for intent in "12"}}
    of_three = [f"{name}@3" for name in ("alpha_nDCG", "ERR_IA", "alpha_DCG", "nERR_IA", "P_IA", "StRecall")]
    for name in (*of_three, "AP_IA", "novelty_nRBP"):
        assert value(name, judged=both) == pytest.approx(1, rel=1e-12)
    # A list of three such items, of endless ones.
    assert value("novelty_RBP", judged=both) == pytest.approx(1 - (0.5 * 0.5) ** 3, rel=1e-12)


OF_TIES = (
    *("AP", "nDCG", "nDCG@4", "RR", "P@3", "RBP(p=0.7)", "nRBP(p=0.7)", "Rprec", "Rprec(rel=2)"),
    *("IPrec(recall=0.1)", "IPrec(recall=0.4)", "IPrec(recall=0.6)", "IPrec(recall=1)", "Bpref", "Bpref(rel=2)"),
    *("infAP", "infAP(rel=2)", "Judged", "Judged@1", "Judged@3", "Judged@6", "SetP", "SetR(rel=2)", "SetF(beta=2)"),
)
OF_INTENTS_TIED = [*OF_INTENTS_ALL, "alpha_nDCG(alpha=0.2)@3", "ERR_IA(alpha=1)@2", "StRecall@2"]
JUDGED_ITEMS = {"a": 0, "b": 2, "c": 0, "d": 1, "f": 1, "x": 2, "y": 1, "z": 0}
JUDGED_BY_INTENT = {"1": {"a": 1, "b": 1, "e": 1}, "2": {"b": 1, "c": 1}, "3": {"d": 1, "f": 1}}


@pytest.mark.parametrize(("names", "judged"), [(OF_TIES, JUDGED_ITEMS), (OF_INTENTS_TIED, JUDGED_BY_INTENT)])
def test_ties_are_the_mean_over_all_orders(names: Any, judged: Any) -> None:
    """Beside items that were not retrieved, which are below all of them in every order, and unjudged ones."""
    for scores in ((1, 1, 1, 1, 1), (2, 1, 1, 1, 0), (1, 1, 2, 0, 0), (2, 1, 1, 1, 0.5, 0.5, 1)):
        tied = {"q": dict(zip("abcdefg", scores, strict=False))}
        orders = (one["q"] for one in orders_of(tied))
        run = {f"q{place}": {item: -rank for rank, item in enumerate(order)} for place, order in enumerate(orders)}
        strict = rb.evaluate_run(run, dict.fromkeys(run, judged), names).means()
        assert rb.evaluate_run(tied, {"q": judged}, names).means() == pytest.approx(strict, abs=1e-12)


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.txt.gz", "qrels.csv", "qrels.parquet"])
def test_files_keep_intents(tmp_path: Path, name: str) -> None:
    _, judged = drawn_run(4, 30, 30, GRADES, intents=True)
    qrels = rb.read_qrels(judged, intents=True)
    rb.write_qrels(tmp_path / name, qrels)
    read = rb.read_qrels(tmp_path / name, intents=True)
    assert (list(read.topics), list(read.items)) == (list(qrels.topics), list(qrels.items))
    np.testing.assert_array_equal(read.relevance, qrels.relevance)
    for column in ("item", "intent", "relevance", "names"):
        np.testing.assert_array_equal(getattr(read.intents, column), getattr(qrels.intents, column))


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    run, judged = drawn_run(5, 30, 30, GRADES, intents=True)
    rb.write_qrels(tmp_path / "qrels.txt", rb.read_qrels(judged, intents=True))
    lines = (tmp_path / "qrels.txt").read_text().splitlines()
    (tmp_path / "qrels.txt").write_text("\n".join(np.random.default_rng(0).permutation(lines)) + "\n")
    names = ["alpha_nDCG@10", "ERR_IA@10"]
    shuffled, given = (rb.evaluate_run(run, source, names) for source in (tmp_path / "qrels.txt", judged))
    for name in names:
        of_topic = dict(zip(shuffled.topics, shuffled.values[name], strict=True))
        np.testing.assert_allclose([of_topic[topic] for topic in given.topics], given.values[name], rtol=1e-12)


def frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"topic": ["q", "q"], "item": ["a", "a"], "relevance": [1, 1], **columns})


def test_plain_qrels_are_met_with_a_warning_and_those_of_intents_read_as_plain_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("q 0 a 1\nq 0 b 1\n")
    with pytest.warns(UserWarning, match="one intent in every topic"):
        rb.evaluate_run(OF_INTENTS, tmp_path / "plain.txt", "alpha_nDCG@10")
    qrels = rb.read_qrels(BY_INTENT, intents=True)
    rb.write_qrels(tmp_path / "intents.json", qrels)
    assert json.loads((tmp_path / "intents.json").read_text()) == BY_INTENT
    assert value("AP", judged=rb.read_qrels(tmp_path / "intents.json", intents=True)) == value("AP", judged=qrels)
    (tmp_path / "intents.txt").write_text("q 1 a 1\nq 2 a 1\n")
    with pytest.raises(DataError, match="differ in their second field: if that is the intent, read the file with"):
        rb.evaluate_run(OF_INTENTS, tmp_path / "intents.txt", "AP")
    with pytest.raises(ValueError, match="expected a run and judgements by intent"):
        rb.evaluate("alpha_nDCG", [1.0], [1], [0, 1])


test_judgements_that_are_refused = refusals(
    [
        (frame(), "there is no column 'intent'"),
        (frame(intent=["1", "1"]), "item 'a' occurs more than once in intent '1' of topic 'q'"),
        ({"q": {"a": 1}}, r"expected \{item: relevance\}: judgements by intent are \{topic: \{intent"),
        ({"q": {"1": {"a": -1}}}, "topic 'q', intent '1', item 'a': found relevance -1, expected grades from 0"),
        ({"q": {"1": {"a": "x"}}}, "found relevance 'x'"),
        (rb.read_qrels({"q": {"a": 1}}), r"without intents, expected relevance by intent: .*intents=True"),
    ],
    lambda source: rb.evaluate_run(OF_INTENTS, source, "alpha_nDCG@10"),
)
