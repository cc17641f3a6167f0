"""Losses and metrics for sentence-transformers' `CrossEncoder`: values, training, errors."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import rankbound as rb

# Read when the library is imported: a model card would otherwise look up its data sets.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("sentence_transformers", reason="the extra rerankers is not installed")

from datasets import Dataset
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder import losses as theirs
from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

from benchmarks.data import labelled_queries
from benchmarks.losses import PEER, RERANKED, step_of_model, tiny_reranker
from benchmarks.runner import OURS
from rankbound.interop.sentence_transformers import ListwiseLoss, RerankingEvaluator, group_by_query
from tests.library.pages import programs, text_of
from tests.library.refusals import problems, refusals

SIZES = [3, 7, 1, 5, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranker")
    tiny_reranker(folder)
    return folder


@pytest.fixture
def model(folder: Path) -> CrossEncoder:
    return CrossEncoder(str(folder), local_files_only=True, device="cpu").eval()


def batch(sizes: list[int] = SIZES, seed: int = 1) -> tuple[list[list[Any]], list[Tensor]]:
    columns = labelled_queries(sizes, seed)
    return [columns["query"], columns["documents"]], [torch.tensor(labels) for labels in columns["labels"]]


def flat(model: CrossEncoder, inputs: list[list[Any]], labels: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    pairs = [(query, text) for query, texts in zip(*inputs, strict=True) for text in texts]
    scores = model.predict(pairs, activation_fn=nn.Identity(), convert_to_tensor=True)
    return scores, torch.cat(labels), torch.tensor([0, *np.cumsum([len(one) for one in labels])])


def gradients(loss: nn.Module, model: CrossEncoder, *arguments: Any) -> tuple[float, Tensor]:
    model.zero_grad()
    value = loss(*arguments)
    value.backward()
    return value.item(), torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


LOSSES: dict[str, tuple[dict[str, Any], rb.RankingLoss]] = {
    "an object": ({"loss": rb.SmoothLoss("nDCG", "min-max")}, rb.SmoothLoss("nDCG", "min-max")),
    "a text": ({"loss": "LambdaRank(metric=nDCG@3)"}, rb.loss("LambdaRank(metric=nDCG@3)")),
    "a text with parameters": (
        {"loss": "nDCG@5", "bound": "min-max", "temperature": 0.5},
        rb.SmoothLoss("nDCG@5", "min-max", temperature=0.5),
    ),
    "a sum": ({"loss": rb.loss("AP") + 0.5 * rb.loss("RankNet")}, rb.loss("AP") + 0.5 * rb.loss("RankNet")),
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("activation", [None, nn.Sigmoid()], ids=str)
@pytest.mark.parametrize("kind", LOSSES)
def test_the_value_is_that_of_the_library(model: CrossEncoder, kind: str, activation: Any, reduction: Any) -> None:
    inputs, labels = batch()
    keywords, loss = LOSSES[kind]
    found = ListwiseLoss(model, **keywords, activation_fn=activation, reduction=reduction)
    scores, relevance, offsets = flat(model, inputs, labels)
    expected = loss((activation or nn.Identity())(scores), relevance, offsets, reduction=reduction)
    torch.testing.assert_close(found(inputs, labels), expected, rtol=1e-5, atol=1e-6)
    assert (found.get_config_dict()["loss"], found.get_config_dict()["reduction"]) == (loss.full_text, reduction)


@pytest.mark.parametrize(
    ("loss", "peer"),
    [
        ("ListNet", theirs.ListNetLoss),
        ("LambdaRank", theirs.LambdaRankScheme()),
        ("LambdaLoss(scheme=ndcg-loss2)", theirs.NDCGLoss2Scheme()),
        ("LambdaLoss", theirs.NDCGLoss2PPScheme()),
        ("RankNet(reduction=sum)", theirs.NoWeightingScheme()),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_losses_are_theirs(model: CrossEncoder, loss: str, peer: Any) -> None:
    """LambdaLoss of theirs is a mean over the pairs of a batch, ours a sum over those of a query.

    ListNet is equal for queries with a relevant document; sentence-transformers also trains on the others.
    """
    of_pairs = isinstance(peer, nn.Module)
    inputs, labels = batch([9] if of_pairs else [4, 9, 6])
    for grades in () if of_pairs else labels:
        grades[0] = 2
    factor = int((labels[0][:, None] > labels[0][None, :]).sum()) if of_pairs else 1
    their_loss = theirs.LambdaLoss(model, weighting_scheme=peer, reduction_log="natural") if of_pairs else peer(model)
    value, slope = gradients(ListwiseLoss(model, loss), model, inputs, labels)
    expected, slopes = gradients(their_loss, model, inputs, labels)
    assert factor > 3 or not of_pairs
    assert value == pytest.approx(factor * expected, rel=1e-5)
    torch.testing.assert_close(slope, factor * slopes, rtol=1e-4, atol=1e-5)


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{
        f"{size} at a time{', computed again' * recompute}": (None, {"mini_batch_size": size, "recompute": recompute})
        for size in (None, 1, 4, -1)
        for recompute in (False, True)
    },
    "in another order": (lambda q, d, y: ([q[::-1], [one[::-1] for one in d[::-1]]], [g.flip(0) for g in y[::-1]]), {}),
    "beside a query without documents": (lambda q, d, y: ([[*q, "red tree"], [*d, []]], [*y, torch.tensor([])]), {}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_changes_nothing(model: CrossEncoder, variant: str) -> None:
    inputs, labels = batch()
    change, keywords = VARIANTS[variant]
    whole = gradients(ListwiseLoss(model, "nDCG", mini_batch_size=0), model, inputs, labels)
    other = (inputs, labels) if change is None else change(*inputs, labels)
    found = gradients(ListwiseLoss(model, "nDCG", **keywords), model, *other)
    assert found[0] == pytest.approx(whole[0], rel=1e-5)
    torch.testing.assert_close(found[1], whole[1], rtol=1e-4, atol=1e-6)


def test_dropout_of_recomputed_activations_and_autocast(model: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = batch()
    exact, dropped = ListwiseLoss(model, "nDCG")(inputs, labels).item(), []
    for recompute in (False, True):
        loss = ListwiseLoss(model.eval(), "nDCG", mini_batch_size=4, recompute=recompute)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(inputs, labels)
        value.backward()
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(exact, abs=0.01)
        model.train()
        torch.manual_seed(3)
        dropped.append(gradients(loss, model, inputs, labels))
    torch.testing.assert_close(*dropped, rtol=1e-5, atol=1e-7)
    seen, preprocess = [], model.preprocess
    monkeypatch.setattr(model, "preprocess", lambda pairs, **given: seen.append(given) or preprocess(pairs, **given))
    ListwiseLoss(model, mini_batch_size=0)(*batch([2]), prompt="ripe: ", task="rerank")
    assert seen == [{"prompt": "ripe: ", "task": "rerank"}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, d, y: ([q], y), "inputs: found 1 columns beside the labels, expected 2"),
        (lambda q, d, y: ([q, d], None), "labels: found none, expected a column of lists"),
        (lambda q, d, y: ([q, d], torch.ones(len(q))), "labels: found one number for each query, .*group_by_query"),
        (lambda q, d, y: ([q, [one[0] for one in d], [1, 0]], None), "labels: found none, .*group_by_query"),
        (lambda q, d, y: ([q, d, [[1, 0], [1, 0, 0]], [[1, 0], [1, 0, 0]]], None), "labels: found none"),
        (lambda q, d, y: ([q, d[1:]], y), "inputs: found 2 queries, 1 lists of documents and 2 lists of labels"),
        (lambda q, d, y: ([q, ["red apple", d[1]]], y), "inputs: found str as the documents of query 0"),
        (lambda q, d, y: ([q, d], [y[0], y[1][1:]]), "labels: found 2 for query 1, expected 3"),
        (lambda q, d, y: ([q, d], [y[0], y[1][None]]), r"labels: found shape \(1, 3\) for query 1"),
        (lambda q, d, y: ([q, d], [y[0], 3.0]), "labels: found float for query 1"),
        (lambda q, d, y: ([q, d], [y[0], -y[1] - 1]), "relevance: found -.*, expected grades from 0"),
        (lambda q, d, y: ([q, [[], []]], [torch.tensor([])] * 2), "inputs: found no document for any of 2 queries"),
        (lambda q, d, y: (3, y), "the model or the loss raised TypeError: object of type 'int' has no len"),
        (lambda q, d, y: ([q, [[None] * 2, d[1]]], y), "."),
    ],
)
def test_errors_name_what_was_found(model: CrossEncoder, change: Callable[..., tuple[Any, Any]], message: str) -> None:
    """And are no TypeErrors: the trainer would call the loss again without prompt and task."""
    (queries, documents), labels = batch([2, 3])
    with pytest.raises(ValueError, match=message):
        ListwiseLoss(model)(*change(queries, documents, labels))


def test_labels_of_any_name_and_either_order_of_arguments(model: CrossEncoder) -> None:
    inputs, labels = batch()
    grades = [one.tolist() for one in labels]
    expected = ListwiseLoss(model, "nDCG@10", "min-max")(inputs, labels)
    for columns in ([*inputs, grades], [inputs[0], grades, inputs[1]]):
        assert ListwiseLoss("nDCG@10", model, "min-max")(columns, None) == expected
    for loss in (rb.metric("AP"), rb.loss("ListNet"), "ListNet"):
        swapped = ListwiseLoss(loss, model)
        assert swapped.model is model
        assert swapped.ranking_loss.text == rb.loss(loss).text
    for wrong in (("nDCG", "AP"), ("nDCG",), (3, "nDCG")):
        with pytest.raises(ValueError, match=r"model: found (str|int), expected a CrossEncoder"):
            ListwiseLoss(*wrong)


def test_pairs_and_triplets_are_grouped_by_query() -> None:
    rows = {"query": ["cider", "pear", "cider"], "answer": ["apple", "tree", "rain"]}
    expected = {"query": ["cider", "pear"], "documents": [["apple", "rain"], ["tree"]], "labels": [[1, 0], [1]]}
    for name in ("label", "relevance"):
        pairs = {name: [1, 1, 0], **rows}
        assert group_by_query(Dataset.from_dict(pairs)).to_dict() == expected
    triplets = {
        "anchor": ["cider", "pear", "cider"],
        "positive": ["apple", "tree", "press"],
        "negative_1": ["rain", "car", "rain"],
        "negative_2": ["sun", "rain", "car"],
    }
    assert group_by_query(Dataset.from_dict(triplets)).to_dict() == {
        "anchor": ["cider", "pear"],
        "documents": [["apple", "rain", "sun", "press", "car"], ["tree", "car", "rain"]],
        "labels": [[1, 0, 0, 1, 0], [1, 0, 0]],
    }


test_data_that_cannot_be_grouped_are_refused = refusals(
    problems("data of queries"),
    lambda columns: group_by_query(Dataset.from_dict(columns)),
)


UNFIT: list[tuple[Callable[[CrossEncoder], Any], str]] = [
    (lambda model: ListwiseLoss(model, "nDGC"), "Did you mean nDCG"),
    (lambda model: ListwiseLoss(model, rb.loss("RankNet"), bound="min-max"), "bound: found min-max beside a loss"),
    (lambda model: ListwiseLoss(model, rb.loss("nDCG"), temperature=2.0), "temperature: found 2 beside a loss"),
    (lambda model: ListwiseLoss(model, reduction="none"), "reduction: found none, expected one of mean, sum"),
    (lambda model: RerankingEvaluator([]), "samples: found none"),
    (lambda model: RerankingEvaluator(samples([3]), []), "metrics: found none"),
    (lambda model: RerankingEvaluator(samples([3]), "NAP"), "Did you mean AP"),
    (
        lambda model: RerankingEvaluator(samples([3]), undefined="ignore"),
        "undefined: found ignore, expected one of skip",
    ),
]


def test_parameters_and_outputs_are_checked(model: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    for call, message in UNFIT:
        with pytest.raises(ValueError, match=message):
            call(model)
    evaluator = RerankingEvaluator(samples([3]))
    monkeypatch.setattr(CrossEncoder, "num_labels", 2)
    for of_two in (ListwiseLoss, evaluator):
        with pytest.raises(ValueError, match="model: found 2 outputs, expected 1"):
            of_two(model)


def test_a_training_lowers_the_loss_and_raises_ndcg(model: CrossEncoder, tmp_path: Path, caplog: Any) -> None:
    sizes = [3, 8, 5, 1, 6, 4]
    train, held = (Dataset.from_dict(labelled_queries(sizes * share, seed)) for share, seed in ((6, 1), (4, 2)))
    train = train.rename_column("labels", "relevance")
    evaluator = RerankingEvaluator(held, ["nDCG", "AP"], name="held")
    before = evaluator(model)
    loss = ListwiseLoss(model, rb.loss("nDCG", "min-max") + 0.1 * rb.loss("ListNet"), mini_batch_size=16)
    quiet = {"use_cpu": True, "disable_tqdm": True, "report_to": "none", "dataloader_pin_memory": False, "seed": 1}
    often = {"num_train_epochs": 8, "eval_strategy": "epoch", "logging_strategy": "epoch"}
    sizes = {"per_device_train_batch_size": 6, "learning_rate": 0.01}
    settings = CrossEncoderTrainingArguments(output_dir=str(tmp_path), **quiet, **often, **sizes)
    settings.metric_for_best_model = "eval_held_nDCG"
    trainer = CrossEncoderTrainer(
        model=model, args=settings, train_dataset=train, eval_dataset=held, loss=loss, evaluator=evaluator
    )
    trainer.train()
    assert "could not be passed" not in caplog.text, "the trainer warns of a loss that takes no prompt or task"
    history = trainer.state.log_history
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert losses[-1] < losses[0]
    after = [entry["eval_held_nDCG"] for entry in history if "eval_held_nDCG" in entry][-1]
    assert after == evaluator(model)[evaluator.primary_metric]
    assert after > before["held_nDCG"] + 0.1

    model.save_pretrained(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert loss.citation.strip() in card
    assert json.dumps(loss.get_config_dict(), indent=4).splitlines()[1].strip() in card
    assert re.findall("loss:.*", card) == ["loss:ListwiseLoss"]
    assert f"{after:.4f}" in card
    cff = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    for key in ("title", "version", "  - name"):
        (value,) = re.findall(rf'^{key}: "?(.*?)"?$', cff, re.MULTILINE)
        assert value.lower() in loss.citation.lower()


def samples(sizes: list[int]) -> list[dict[str, Any]]:
    made = []
    for query, texts, grades in zip(*labelled_queries(sizes, 5).values(), strict=True):
        parts: dict[str, Any] = {"query": query, "positive": [], "negative": []}
        for place, (text, grade) in enumerate(zip(texts, grades, strict=True)):
            parts["positive" if grade else "negative"].append(f"{text} {text.split()[place % 5]}")
        made.append(parts)
    return made


@pytest.mark.parametrize("k", [3, 10])
def test_means_are_theirs(model: CrossEncoder, k: int) -> None:
    """With 0 for queries without relevant documents, and binary relevance; also those of the first stage."""
    judged = samples([4, 9, 2, 1, 6, 12])
    assert min(len(one["positive"]) for one in judged) == 0
    ranked = [
        {"query": one["query"], "positive": one["positive"], "documents": [*one["negative"], *one["positive"]]}
        for one in judged
        if one["positive"]
    ]
    names = ["held_AP", f"held_RR@{k}", f"held_nDCG@{k}", "held_base_AP"]
    for rows in (judged, ranked):
        found = RerankingEvaluator(rows, ["AP", f"RR@{k}", f"nDCG@{k}"], undefined="zero", name="held")(model)
        expected = CrossEncoderRerankingEvaluator(rows, at_k=k, name="held")(model)
        assert list(found.values()) == pytest.approx(list(expected.values()), rel=1e-6)
        assert list(found)[:4] == names[: len(found)]


def test_a_positive_that_the_first_stage_missed(model: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is scored, too, or counts in the normaliser alone."""
    scores, ideal = {"red": 1.0, "ripe": 3.0, "green": 2.0}, 1 + 1 / np.log2(3)
    monkeypatch.setattr(model, "predict", lambda pairs, **keywords: np.array([scores[text] for _, text in pairs]))
    sample = {"query": "apple", "positive": ["ripe", "green"], "documents": ["red", "ripe"]}
    for rerank_positives, expected in ((True, 1.0), (False, 1 / ideal)):
        values = RerankingEvaluator([sample], "nDCG", always_rerank_positives=rerank_positives)(model)
        assert values == {"nDCG": pytest.approx(expected), "base_nDCG": pytest.approx(1 / np.log2(3) / ideal)}


def test_graded_labels_and_values_per_query(model: CrossEncoder) -> None:
    columns = labelled_queries([5, 1, 8], 4)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    evaluator = RerankingEvaluator(rows, "nDCG(gain=linear)@3")
    inputs, labels = batch([5, 1, 8], 4)
    expected = rb.metric("nDCG(gain=linear)@3")(*flat(model, inputs, labels)).numpy()
    found = evaluator.evaluate(model)
    assert list(found.topics) == ["0", "1", "2"]
    np.testing.assert_allclose(found.values["nDCG(gain=linear)@3"], expected)
    assert evaluator(model) == {"nDCG(gain=linear)@3": pytest.approx(np.nanmean(expected))}
    assert evaluator.get_config_dict()["metrics"] == ["nDCG(gain=linear)@3"]


test_samples_are_checked = refusals(
    [
        *problems("samples"),
        ({"query": "red", "documents": ["red"], "labels": [np.nan]}, r"found the labels \[nan\] in sample 0"),
        ({"query": "red", "documents": ["red"], "labels": torch.ones(1, 2)}, "found the labels .* in sample 0"),
        ({"query": "red", "positive": b"red", "negative": ["green"]}, "found bytes as positive of sample 0"),
        ({"query": "red", "positive": ["red"], "documents": {"red", "green"}}, "found set as documents of sample 0"),
        (
            {"query": "red", "positive": "ripe " * 99, "negative": ["green", "ripe " * 99]},
            r"found the document 'ripe .* \.\.\. \(417 more characters\) \.\.\. .*' in sample 0 both as positive",
        ),
    ],
    lambda sample: RerankingEvaluator([sample]),
)


def test_documents_that_occur_twice() -> None:
    """Each that the model scores counts; a relevant one that the first stage lacks counts once."""
    for sample, n_relevant, n_documents in problems("documents that occur twice"):
        (checked,) = RerankingEvaluator([{"query": "apple", **sample}], "nDCG").samples
        grades, missing = checked.judged
        assert len(checked.documents) == len(grades) == n_documents
        assert (sum(grades), missing) == (n_relevant, [])


def test_the_page_runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small model instead of a download; the section on Lightning IR has tests of its own."""
    monkeypatch.chdir(tmp_path)
    before = text_of("rerankers.md").partition("\n## Lightning IR\n")[0].count("```python")
    names: dict[str, Any] = {}
    for example in programs("rerankers.md")[:before]:
        local = re.sub(r'"microsoft/[^"]*"', f'"{folder}", local_files_only=True, device="cpu"', example)
        exec(local.replace('("reranker",', '("reranker", use_cpu=True, disable_tqdm=True, report_to="none",'), names)
    assert list(names["means"]) == ["orchard_nDCG@10", "orchard_AP"]
    assert names["values"].mean() == pytest.approx(names["means"]["orchard_nDCG@10"])
    assert names["lists"].column_names == ["query", "documents", "labels"]
    assert names["lists"]["documents"] == [["a press", "rain"], ["a tree"]]
    assert names["loss"].recompute


def test_the_benchmark_compares_equal_losses() -> None:
    pairs = [makes for makes in RERANKED.values() if PEER in makes]
    assert len(pairs) == 3
    for makes in pairs:
        (value, gradient), (expected, slope) = (step_of_model(makes[name], 12)() for name in (OURS, PEER))
        assert value == pytest.approx(expected, rel=1e-5)
        assert (gradient - slope).abs().max() < 1e-5 * slope.abs().max()
