"""Runs and judgements in JSON: what is written is read back, and what is not what it says is refused by name."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound.errors import DataError


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8])
def test_a_run_is_read_back_with_its_scores_and_its_order(name: str, dtype: Any, tmp_path: Path) -> None:
    scores = np.array([0.1, 3, -1, 2**20 / 3]).astype(dtype)
    run = rb.Run(topics=["é", "2", "none"], items=["b", "a", "b", "c"], scores=scores, offsets=[0, 2, 4, 4])
    rb.write_run(tmp_path / name, run)
    again = rb.read_run(tmp_path / name)
    assert (again.topics, list(again.items), again.offsets.tolist()) == (run.topics, list(run.items), [0, 2, 4, 4])
    assert np.array_equal(again.scores.astype(dtype), scores)
    assert rb.evaluate_run(tmp_path / name, {"é": {"a": 1}, "2": {"c": 1}}, "AP").means() == {"AP": 1.0}
    content = (tmp_path / name).read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    # The fewest digits that identify a number in its own precision, as other programs write it.
    assert json.loads(text)["é"]["b"] == json.loads(str(scores[0]))


def test_qrels_are_read_back_with_and_without_intents(tmp_path: Path) -> None:
    plain = {"q": {"a": 2, "b": 0}, "r": {"a": 1}}
    rb.write_qrels(tmp_path / "plain.json", rb.read_qrels(plain))
    assert json.loads((tmp_path / "plain.json").read_text()) == plain
    assert rb.read_qrels(tmp_path / "plain.json").relevance.tolist() == [2, 0, 1]
    by_intent = {"q": {"1": {"a": 1, "b": 1}, "2": {"b": 2}}}
    rb.write_qrels(tmp_path / "intents.json", rb.read_qrels(by_intent, intents=True))
    assert json.loads((tmp_path / "intents.json").read_text()) == by_intent
    again = rb.read_qrels(tmp_path / "intents.json", intents=True)
    assert rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, again, "alpha_nDCG@1").means() == {"alpha_nDCG@1": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"q": {"a": 1', "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ('[{"q": 1}]', "found other JSON, expected {topic: {item: number}}"),
        ('{"q": [1]}', "found other JSON"),
        ('{"q": {"a": 1, "a": 2}}', "'a' occurs more than once in one dictionary"),
        ('{"q": {"a": 1}, "q": {"b": 2}}', "'q' occurs more than once in one dictionary"),
        ('{"q": {"a": NaN}}', "found NaN, expected finite numbers"),
        ('{"q": {"a": -Infinity}}', "found -Infinity, expected finite numbers"),
        ('{"q": {"a": "1"}}', "topic 'q', item 'a': found '1', expected a number"),
        ('{"q": {"a": 9007199254740992, "b": 9007199254740993}}', "equal in double precision"),
    ],
)
def test_what_is_no_run_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        rb.read_run(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_scores_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    run = rb.Run(topics=["q"], items=["a"], scores=[np.inf], offsets=[0, 1])
    with pytest.raises(DataError, match="found inf, expected finite numbers"):
        rb.write_run(tmp_path / "run.json", run)
    assert not (tmp_path / "run.json").exists()


def test_lists_with_features_are_no_json(tmp_path: Path) -> None:
    (tmp_path / "lists.json").write_text("{}")
    with pytest.raises(DataError, match=r"JSON holds runs and judgements; lists with features"):
        rb.read_lists(tmp_path / "lists.json")
