"""Metrics of judgements by intent: written-out values, ties, reading, refusals."""

import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_metric_peers import judged_run

import rankbound as rb
from rankbound.errors import DataError

# Items a, b, c from the top; the run lacks d. b serves both intents of q.
RUN = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
JUDGED = {"q": {"1": {"a": 1, "b": 1, "c": 0}, "2": {"b": 2, "d": 1}}}
LOG3 = math.log2(3)


def value(name: str, run: Any = RUN, judged: Any = JUDGED) -> float:
    return float(rb.evaluate_run(run, judged, name).values[name][0])


def test_value_against_written_out_arithmetic() -> None:
    gain = 1 + (0.5 + 1) / LOG3
    # Ideal: b serves both intents (2); then d and a have a half each.
    ideal = 2 + 0.5 / LOG3 + 0.5 / 2
    assert value("alpha_nDCG") == pytest.approx(gain / ideal, rel=1e-12)
    assert value("alpha_nDCG@1") == pytest.approx(1 / 2, rel=1e-12)
    assert value("alpha_nDCG(rel=2)") == pytest.approx(1 / LOG3, rel=1e-12)
    assert value("alpha_nDCG(alpha=0)") == pytest.approx((1 + 2 / LOG3) / (2 + 1 / LOG3 + 1 / 2), rel=1e-12)
    assert value("alpha_nDCG(alpha=1)") == pytest.approx((1 + 1 / LOG3) / 2, rel=1e-12)
    assert value("ERR_IA@2") == pytest.approx((1 + 1.5 / 2) / (2 * (1 + 0.5 / 2)), rel=1e-12)
    assert value("ERR_IA@1") == pytest.approx(1 / 2, rel=1e-12)


def test_the_best_list_has_the_value_1() -> None:
    both = {"q": {intent: {"a": 1, "b": 1, "c": 1} for intent in "12"}}
    for name in ("alpha_nDCG@3", "ERR_IA@3"):
        assert value(name, judged=both) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("name", ["alpha_nDCG", "alpha_nDCG(alpha=0.2)@3", "ERR_IA@4", "ERR_IA(alpha=1)@2"])
@pytest.mark.parametrize("scores", [(1, 1, 1, 1, 1), (2, 1, 1, 1, 0), (1, 1, 2, 0, 0)])
def test_ties_are_the_mean_over_all_orders(name: str, scores: tuple[int, ...]) -> None:
    judged = {"q": {"1": {"a": 1, "b": 1, "e": 1}, "2": {"b": 1, "c": 1}, "3": {"d": 1, "f": 1}}}
    tied = dict(zip("abcde", scores, strict=True))
    orders = [order for order in permutations("abcde") if sorted(order, key=lambda item: -tied[item]) == list(order)]
    each = {str(topic): {item: -place for place, item in enumerate(order)} for topic, order in enumerate(orders)}
    values = rb.evaluate_run(each, dict.fromkeys(each, judged["q"]), name).values[name]
    assert value(name, {"q": tied}, judged) == pytest.approx(values.mean(), rel=1e-12)


@pytest.mark.filterwarnings("ignore:metric .* found one intent")
def test_values_do_not_depend_on_other_topics_or_metrics() -> None:
    run, judged = judged_run(3, 30, by_intent=True)
    names = ["alpha_nDCG@10", "ERR_IA@5", "AP", "Bpref", "SetP"]
    together = rb.evaluate_run(run, judged, names)
    for place, topic in enumerate(together.topics):
        alone = rb.evaluate_run({topic: run[topic]}, rb.read_qrels({topic: judged[topic]}, intents=True), names)
        for name in names:
            np.testing.assert_allclose(together.values[name][place], alone.values[name][0], rtol=1e-12)


def test_topics_without_relevant_or_without_retrieved_items() -> None:
    judged = {"none relevant": {"1": {"a": 0}, "2": {"a": 0}}, "none retrieved": {"1": {"a": 1}, "2": {"b": 1}}}
    found = rb.evaluate_run({"none relevant": {"a": 1.0}}, judged, ["alpha_nDCG", "ERR_IA@5"], missing="zero").values
    np.testing.assert_array_equal(list(found.values()), [(math.nan, 0), (math.nan, 0)])


def test_relevance_is_the_highest_to_an_intent() -> None:
    qrels = rb.read_qrels(JUDGED, intents=True)
    assert dict(zip(qrels.items, qrels.relevance.tolist(), strict=True)) == {"a": 1, "b": 2, "c": 0, "d": 1}
    assert value("AP", judged=qrels) == pytest.approx((1 + 1) / 3)


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.txt.gz", "qrels.csv", "qrels.parquet"])
def test_files_keep_intents(tmp_path: Path, name: str) -> None:
    _, judged = judged_run(4, 30, by_intent=True)
    qrels = rb.read_qrels(judged, intents=True)
    rb.write_qrels(tmp_path / name, qrels)
    read = rb.read_qrels(tmp_path / name, intents=True)
    assert (list(read.topics), list(read.items)) == (list(qrels.topics), list(qrels.items))
    np.testing.assert_array_equal(read.relevance, qrels.relevance)
    assert qrels.intents is not None
    assert read.intents is not None
    for column in ("item", "intent", "relevance", "names"):
        np.testing.assert_array_equal(getattr(read.intents, column), getattr(qrels.intents, column))


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    run, judged = judged_run(5, 30, by_intent=True)
    lines = [
        f"{q} {intent} {item} {grade}"
        for q, intents in judged.items()
        for intent, items in intents.items()
        for item, grade in items.items()
    ]
    (tmp_path / "qrels.txt").write_text("\n".join(np.random.default_rng(0).permutation(lines)) + "\n")
    names = ["alpha_nDCG@10", "ERR_IA@10"]
    shuffled, given = (rb.evaluate_run(run, source, names) for source in (tmp_path / "qrels.txt", judged))
    for name in names:
        of_topic = dict(zip(shuffled.topics, shuffled.values[name], strict=True))
        np.testing.assert_allclose([of_topic[topic] for topic in given.topics], given.values[name], rtol=1e-12)


def frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"topic": ["q", "q"], "item": ["a", "a"], "relevance": [1, 1], **columns})


def test_plain_qrels_are_met_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q 0 a 1\nq 0 b 1\n")
    with pytest.warns(UserWarning, match="one intent in every topic"):
        rb.evaluate_run(RUN, tmp_path / "qrels.txt", "alpha_nDCG@10")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (frame(), "there is no column 'intent'"),
        (frame(intent=["1", "1"]), "item 'a' occurs more than once in intent '1' of topic 'q'"),
        ({"q": {"a": 1}}, r"expected \{item: relevance\}: judgements by intent are \{topic: \{intent"),
        ({"q": {"1": {"a": -1}}}, "topic 'q', intent '1', item 'a': found relevance -1, expected grades from 0"),
        ({"q": {"1": {"a": "x"}}}, "found relevance 'x'"),
    ],
)
def test_judgements_that_are_refused(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rb.evaluate_run(RUN, source, "alpha_nDCG@10")


def test_diversity_qrels_read_as_plain_ones(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q 1 a 1\nq 2 a 1\n")
    with pytest.raises(DataError, match="differ in their second field: if that is the intent, read the file with"):
        rb.evaluate_run(RUN, tmp_path / "qrels.txt", "AP")


def test_metrics_of_intents_refuse_other_input() -> None:
    with pytest.raises(ValueError, match=r"without intents, expected relevance by intent: .*intents=True"):
        rb.evaluate_run(RUN, rb.read_qrels({"q": {"a": 1}}), "alpha_nDCG@10")
    with pytest.raises(ValueError, match="expected a run and judgements by intent"):
        rb.evaluate("alpha_nDCG", [1.0], [1], [0, 1])
