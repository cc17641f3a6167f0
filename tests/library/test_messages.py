"""Input that a newcomer tries: what must stand in the message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import DataError
from rankbound.metrics.cumulative_gain import NDCG

SCORES, RELEVANCE, OFFSETS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), torch.tensor([0, 3])
FRAME = pl.DataFrame({"topic": [1, 1, 2, 2], "relevance": [0, 1, 1, 0], "f": [0.1, 0.2, 0.5, 0.4]})

CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: rb.loss("nDCG")(np.zeros(3), RELEVANCE, OFFSETS), "scores: found ndarray, expected a torch.Tensor"),
    (lambda: rb.loss("RankNet")([0.1, 0.2, 0.3], [1, 0, 0], [0, 3]), "scores: found list, expected a torch.Tensor"),
    (lambda: rb.loss("nDCG")(torch.tensor([1, 2, 3]), RELEVANCE, OFFSETS),
     "scores: found dtype torch.int64, expected floating point"),
    (lambda: rb.loss("nDCG")(SCORES[None], RELEVANCE[None], OFFSETS),
     r"scores: found shape \(1, 3\), expected a flat \(n_items,\) array"),
    (lambda: rb.loss("nDCG")(SCORES, RELEVANCE, torch.tensor([3])),
     r"offsets: found 3 .. 3, expected 0 .. 3 \(the number of items\)"),
    (lambda: rb.metric("nDCG")(SCORES, -RELEVANCE, OFFSETS), "relevance: found -1.0, expected"),
    (lambda: rb.SmoothLoss("nDCG", temperature=-1), "temperature: found -1, expected a number above 0"),
    (lambda: rb.loss("nDCG", temperature=torch.nn.Parameter(torch.tensor(0.5))), "temperature: found Parameter"),
    (lambda: rb.SmoothLoss("nDCG", temperature="0.5"), "temperature: found 0.5, expected a number above 0"),
    (lambda: rb.metric("ndcg@10"),
     r"two meanings: with linear gains \(trec_eval, .*\): write nDCG\(gain=linear\)@10; with exp.*: write nDCG@10$"),
    (lambda: rb.metric("num_ret"), "a name of trec_eval, ranx without a counterpart: it counts what the data hold"),
    (lambda: rb.loss("nDCG")(torch.zeros(2, 3), torch.zeros(2, 3), [0, 3, 6]),
     r"scores: found shape \(2, 3\), expected a flat \(n_items,\) array; rankbound\.from_padded returns one"),
    (lambda: NDCG(cutoff=2.5), "metric nDCG: found cut-off 2.5, expected a whole number"),
    (lambda: rb.loss("nDCG", temperature=0), "temperature: found 0, expected"),
    (lambda: rb.SmoothLoss("nDCG", method="fast"), "method: found 'fast', expected one of"),
    (lambda: rb.loss(None), "loss: found None, expected a text such as nDCG@10"),
    (lambda: rb.metric(None), "metric: found None, expected a text such as"),
    (lambda: rb.metric(3), "metric: found 3, expected a text"),
    (lambda: rb.metric("nDCG@"), "expected a text such as nDCG@10"),
    (lambda: rb.metric("map@5"), r"several meanings: .*: write AP@5; .*: write AP\(divisor=cutoff\)@5; .*found\)@5"),
    (lambda: rb.metric("AUC"), r"of the items of all lists together .*: not here; of each list .*: write PairAccuracy"),
    (lambda: rb.metric("AP(divisor=found)"), r"found divisor=found, expected a cut-off, as in AP\(divisor=found\)@10"),
    (lambda: rb.evaluate("ERR@20", SCORES, RELEVANCE + 2, OFFSETS), r"ERR needs max, .* these items: ERR\(max=3\)@20"),
    (lambda: rb.evaluate("ndcg@10", SCORES, RELEVANCE + 2, OFFSETS), "found a name with two meanings"),
    (lambda: rb.metric("nDCG(gains=linear)"), "unknown parameter 'gains'; nDCG takes: gain"),
    (lambda: rb.loss("lambdarank"), r"LightGBM's own objective, .*: not here; the loss of all .*: write LambdaRank"),
    (lambda: rb.loss("NeuralNDCG"), "without a counterpart: nDCG, whose smooth ranks take linear"),
    (lambda: rb.loss("LambdaMART"), "LambdaRank, which boosts trees"),
    (lambda: rb.loss("nDCG", "minmax"), "Did you mean min-max?"),
    (lambda: rb.loss("RankNet", "min-max"), "bounds are for losses of metrics"),
    (lambda: rb.train_ranker("lists.csv"),
     "lists: found str, expected judged lists, which rankbound.read_lists returns"),
    (lambda: rb.train_ranker(FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), loss=rb.loss("nDCG")),
     r"loss: found SmoothLoss\(nDCG.*\), expected a text"),
    (lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=-torch.ones(3)),
     "weights: found -1.0 at 0, expected finite numbers from 0"),
    (lambda: rb.loss("nDCG")(SCORES, RELEVANCE, OFFSETS, weights=torch.ones(1)), "weights: found 1 values, expected 3"),
    (lambda: rb.evaluate_run({"q1": {"d": 1.0}}, {"q2": {"d": 1}}, "nDCG"),
     "no topic in common: the run has 'q1', the qrels have 'q2'"),
    (lambda: rb.evaluate_run({"q": {"d": "high"}}, {"q": {"d": 1}}, "nDCG"),
     "topic 'q', item 'd': found 'high', expected a number"),
    (lambda: rb.evaluate_run("no/run.txt", {"q": {"d": 1}}, "nDCG"), "no/run.txt: cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("attempt", "message"), CASES)
def test_the_message_says_what_was_found_and_expected(attempt: Callable[[], Any], message: str) -> None:
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


@pytest.mark.parametrize("name", ["train", "cross-validate"])
def test_an_output_that_cannot_be_written_is_refused_before_the_training(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a training began")

    # The second module, imported here first, would keep the patch of the first.
    monkeypatch.setattr("rankbound.training.cross_validation.cross_validate", train)
    monkeypatch.setattr("rankbound.training.ranker.train_ranker", train)
    FRAME.write_csv(tmp_path / "x.csv")
    (tmp_path / "runs/judgements.csv").mkdir(parents=True)
    flags = {"train": ["--out", str(tmp_path)], "cross-validate": ["-m", "AP", "--runs", str(tmp_path / "runs")]}
    assert main([name, str(tmp_path / "x.csv"), *flags[name]]) == 2
    assert "could not be written: found a folder, expected the name of a file" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.csv"]
