"""Input that a newcomer tries: what must stand in the message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.errors import DataError

SCORES, RELEVANCE, OFFSETS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), torch.tensor([0, 3])
FRAME = pl.DataFrame({"topic": [1, 1, 2, 2], "relevance": [0, 1, 1, 0], "f": [0.1, 0.2, 0.5, 0.4]})

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a loss of a NumPy array": (
        lambda: rb.loss("nDCG")(np.zeros(3), RELEVANCE, OFFSETS),  # type: ignore[arg-type]
        "scores: found ndarray, expected a torch.Tensor",
    ),
    "a loss of a list": (
        lambda: rb.loss("RankNet")([0.1, 0.2, 0.3], [1, 0, 0], [0, 3]),  # type: ignore[arg-type]
        "scores: found list, expected a torch.Tensor",
    ),
    "a loss of whole numbers": (
        lambda: rb.loss("nDCG")(torch.tensor([1, 2, 3]), RELEVANCE, OFFSETS),
        "scores: found dtype torch.int64, expected floating point",
    ),
    "a loss of padded scores": (
        lambda: rb.loss("nDCG")(SCORES[None], RELEVANCE[None], OFFSETS),
        r"scores: found shape \(1, 3\), expected a flat \(n_items,\) array",
    ),
    "sizes instead of offsets": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, torch.tensor([3])),
        r"offsets: found 3 .. 3, expected 0 .. 3 \(the number of items\)",
    ),
    "grades below 0": (lambda: rb.metric("nDCG")(SCORES, -RELEVANCE, OFFSETS), "relevance: found -1.0, expected"),
    "a temperature below 0": (
        lambda: rb.SmoothLoss("nDCG", temperature=-1),
        "temperature: found -1, expected a number above 0",
    ),
    "a temperature of 0": (lambda: rb.loss("nDCG", temperature=0), "temperature: found 0, expected"),
    "an unknown summation": (lambda: rb.SmoothLoss("nDCG", method="fast"), "method: found 'fast', expected one of"),
    "no loss": (lambda: rb.loss(None), "loss: found None, expected a text such as nDCG@10"),  # type: ignore[arg-type]
    "no metric": (lambda: rb.metric(None), "metric: found None, expected a text such as"),  # type: ignore[arg-type]
    "a number for a metric": (lambda: rb.metric(3), "metric: found 3, expected a text"),  # type: ignore[arg-type]
    "a metric without the number of its cut-off": (lambda: rb.metric("nDCG@"), "expected a text such as nDCG@10"),
    "a cut-off of 0": (lambda: rb.metric("nDCG@0"), "found cut-off 0, expected at least 1"),
    "a metric in other letters": (lambda: rb.metric("NDCG@10"), "Did you mean nDCG?"),
    "a mean's name": (lambda: rb.metric("map@5"), "Did you mean AP, whose mean over lists is MAP?"),
    "another library's name": (lambda: rb.metric("AUC"), "Did you mean PairAccuracy?"),
    "a misspelt parameter": (lambda: rb.metric("nDCG(gains=linear)"), "unknown parameter 'gains'; nDCG takes: gain"),
    "a loss in other letters": (lambda: rb.loss("lambdarank"), "Did you mean LambdaRank?"),
    "a loss that is not built": (lambda: rb.loss("NeuralNDCG"), "Did you mean nDCG, whose smooth ranks take linear"),
    "a booster's name": (lambda: rb.loss("LambdaMART"), "LambdaRank, which boosts trees"),
    "a bound without its hyphen": (lambda: rb.loss("nDCG", "minmax"), "Did you mean min-max?"),
    "a bound for a loss of pairs": (lambda: rb.loss("RankNet", "min-max"), "bounds are for losses of metrics"),
    "a trainer's file": (
        lambda: rb.train_ranker("lists.csv"),  # type: ignore[arg-type]
        "lists: found str, expected judged lists, which rankbound.read_lists returns",
    ),
    "a trainer's frame": (
        lambda: rb.train_ranker(FRAME),  # type: ignore[arg-type]
        "lists: found DataFrame, expected judged lists",
    ),
    "a validation frame": (
        lambda: rb.train_ranker(rb.read_lists(FRAME), FRAME),  # type: ignore[arg-type]
        "lists: found DataFrame, expected judged lists",
    ),
    "a trainer's loss as an object": (
        lambda: rb.train_ranker(rb.read_lists(FRAME), loss=rb.loss("nDCG")),
        r"loss: found SmoothLoss\(nDCG.*\), expected a text",
    ),
    "an unknown convention": (lambda: rb.metric("map", names="trec"), "names: found 'trec', expected one of"),
    "values below 0 as weights": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=-torch.ones(3)),
        "weights: found -1.0 at 0, expected finite numbers from 0",
    ),
    "weights of lists for items": (
        lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=torch.ones(1)),
        "weights: found 1 values, expected 3",
    ),
    "a run of other topics": (
        lambda: rb.evaluate_run({"q1": {"d": 1.0}}, {"q2": {"d": 1}}, "nDCG"),
        "no topic in common: the run has 'q1', the qrels have 'q2'",
    ),
    "words as scores": (
        lambda: rb.evaluate_run({"q": {"d": "high"}}, {"q": {"d": 1}}, "nDCG"),
        "topic 'q', item 'd': found 'high', expected a number",
    ),
    "a file that is not there": (
        lambda: rb.evaluate_run("no/run.txt", {"q": {"d": 1}}, "nDCG"),
        "no/run.txt: cannot be read",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_message_says_what_was_found_and_expected(case: str) -> None:
    attempt, message = CASES[case]
    with pytest.raises((ValueError, DataError), match=message):
        attempt()


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device: found cuda, but PyTorch finds no GPU here; expected auto or cpu"):
        rb.train_ranker(rb.read_lists(FRAME), device="cuda")


def test_texts_evaluate_like_metrics() -> None:
    by_text = rb.evaluate(["nDCG@2", "RR"], SCORES, RELEVANCE, OFFSETS)
    by_metric = rb.evaluate([rb.metric("nDCG@2"), rb.metric("RR")], SCORES, RELEVANCE, OFFSETS)
    assert list(by_text) == list(by_metric) == ["nDCG@2", "RR"]
    assert all(torch.equal(by_text[name], by_metric[name]) for name in by_text)
    assert torch.equal(rb.evaluate("RR", SCORES, RELEVANCE, OFFSETS)["RR"], by_text["RR"])


@pytest.mark.parametrize(("name", "ours"), [("ApproxNDCG@2", "nDCG@2"), ("ApproxMRR", "RR"), ("BPR", "RankNet")])
def test_other_names_of_losses(name: str, ours: str) -> None:
    assert rb.loss(name).text == ours
    assert torch.equal(rb.loss(name)(SCORES, RELEVANCE, OFFSETS), rb.loss(ours)(SCORES, RELEVANCE, OFFSETS))


def test_the_folder_of_a_test_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        rb.read_lists(tmp_path)
