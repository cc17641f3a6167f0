"""Losses for Lightning IR: values over lists of any lengths, errors, configurations, training.

Lightning IR 0.0.6 builds no module with transformers 5. Tests that need a model run in an environment with transformers
4; docs/rerankers.md has the commands.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rankbound as rb

# Read when the library is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("lightning_ir", reason="the extra lightning-ir is not installed")

import lightning_ir
import transformers
from jsonargparse import ArgumentParser
from lightning_ir import ApproxNDCG, BiEncoderModule, CrossEncoderModule, KLDivergence, LightningIROutput, TrainBatch
from lightning_ir.loss.base import LossFunction
from lightning_ir.models import DprConfig, MonoConfig

from rankbound.interop.lightning_ir import ListwiseLoss
from tests.library.pages import programs
from tests.library.refusals import refusals

WORDS = ("apple", "basket", "cider", "green", "orchard", "press", "red", "ripe", "tree", "window")
SIZES = [2, 7, 1, 6]
"""Their sum is a multiple of their number, so that scores can be viewed as a matrix, whose rows are not the lists."""

builds_a_module = pytest.mark.skipif(
    int(transformers.__version__.partition(".")[0]) >= 5 and lightning_ir.__version__ == "0.0.6",
    reason="Lightning IR 0.0.6 builds no module with transformers 5; docs/rerankers.md has the commands of another",
)


def batch(sizes: list[int] = SIZES, seed: int = 1, targets: int = 1) -> tuple[LightningIROutput, TrainBatch]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(sizes), generator=generator).requires_grad_()
    relevance = torch.randint(0, 3, (sum(sizes), targets), generator=generator).double()
    names = [f"q{query}" for query in range(len(sizes))]
    docs = [[f"text {query} {document}" for document in range(size)] for query, size in enumerate(sizes)]
    return LightningIROutput(scores=scores), TrainBatch(
        queries=names, docs=docs, query_ids=names, doc_ids=docs, targets=relevance
    )


def one_by_one(loss: rb.RankingLoss, output: LightningIROutput, judged: TrainBatch) -> Tensor:
    sizes = [len(texts) for texts in judged.docs]
    relevance = judged.targets.reshape(sum(sizes), -1).amax(-1)
    lists = zip(output.scores.flatten().split(sizes), relevance.split(sizes), strict=True)
    return torch.cat([loss(one, grades, torch.tensor([0, len(one)])) for one, grades in lists if len(one)])


def module(*losses: LossFunction) -> CrossEncoderModule:
    built = CrossEncoderModule.__new__(CrossEncoderModule)
    torch.nn.Module.__init__(built)
    built.loss_functions = [(loss, 1.0) for loss in losses]
    built.evaluation_metrics = ["loss"]
    return built


LOSSES = [
    rb.SmoothLoss("nDCG", "min-max"),
    rb.loss("ListNet"),
    rb.loss("LambdaRank(metric=nDCG@3)"),
    rb.loss("AP", "expectation") + 0.5 * rb.loss("RankNet"),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.text)
@pytest.mark.parametrize("sizes", [SIZES, [3, 0, 5], [4, 4]], ids=str)
def test_lists_of_any_lengths_are_those_of_each_query_by_itself(loss: rb.RankingLoss, sizes: list[int]) -> None:
    output, judged = batch(sizes)
    halves = LightningIROutput(scores=output.scores.to(torch.bfloat16))
    assert ListwiseLoss(loss).compute_loss(halves, judged).dtype == torch.float32
    alone = one_by_one(loss, output, judged)
    total = ListwiseLoss(loss, reduction="sum").compute_loss(output, judged)
    torch.testing.assert_close(total, alone.sum(), rtol=1e-5, atol=1e-6)
    informative = sum(bool(grades.any()) for grades in judged.targets.split(sizes))
    mean = ListwiseLoss(loss).compute_loss(output, judged)
    torch.testing.assert_close(mean, alone.sum() / informative, rtol=1e-5, atol=1e-6)
    gradients = [torch.autograd.grad(each, output.scores)[0] for each in (total, alone.sum())]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("targets", [1, 3])
def test_rows_of_lightning_ir_that_mix_lists_change_nothing(targets: int) -> None:
    """In training, it views scores and targets as matrices; in validation, scores alone."""
    output, judged = batch(targets=targets)
    expected = ListwiseLoss("nDCG", reduction="sum").compute_loss(output, judged)
    torch.testing.assert_close(expected, one_by_one(rb.loss("nDCG"), output, judged).sum())
    theirs = module(ListwiseLoss("nDCG", reduction="sum"))
    assert theirs.validate_loss(output, judged) == {"validation-ListwiseLoss": expected}
    (found,) = theirs._compute_losses(judged, output)
    assert (output.scores.shape, judged.targets.shape) == ((4, 4), (4, 4, targets))
    assert found == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"), [("nDCG", ApproxNDCG(), 1.0), ("ListNet", KLDivergence(), None)]
)
def test_losses_of_equal_lists_are_theirs(ours: str, theirs: LossFunction, difference: float | None) -> None:
    output, judged = batch([5, 5, 5])
    output.scores = output.scores.detach().view(3, 5).requires_grad_()
    judged.targets = judged.targets.float().view(3, 5, 1)
    judged.targets[:, 0] = 2
    found, expected = (loss.compute_loss(output, judged) for loss in (ListwiseLoss(ours), theirs))
    if difference is not None:
        assert expected.item() == pytest.approx(found.item() + difference, abs=1e-5)
    gradients = [torch.autograd.grad(loss, output.scores)[0] for loss in (found, expected)]
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_a_configuration_names_the_loss() -> None:
    """As the command `lightning-ir` reads it."""
    parser = ArgumentParser()
    parser.add_argument("--loss", type=list[LossFunction])
    settings = {"loss": "nDCG@10", "bound": "min-max", "temperature": 0.5, "reduction": "sum"}
    entry = {"class_path": "rankbound.interop.lightning_ir.ListwiseLoss", "init_args": settings}
    (loss,) = parser.instantiate(parser.parse_object({"loss": [entry]})).loss
    assert repr(loss) == "ListwiseLoss(SmoothLoss(nDCG@10, bound=min-max, temperature=0.5), reduction=sum)"
    output, judged = batch()
    expected = ListwiseLoss(rb.SmoothLoss("nDCG@10", "min-max", temperature=0.5), reduction="sum")
    assert loss.compute_loss(output, judged) == expected.compute_loss(output, judged)


test_arguments_that_are_refused = refusals(
    [
        ({"loss": "ordinal(learn=true)"}, "found .*ordinal.*, which has parameters to learn"),
        ({"loss": "ListNet", "bound": "min-max"}, "bound"),
        ({"loss": "nothing"}, "nothing"),
        ({"reduction": "none"}, "reduction: found none"),
    ],
    lambda arguments: ListwiseLoss(**arguments),
)


def of_batch(scores: Tensor | None, **changes: Any) -> Any:
    def call() -> Tensor:
        _, judged = batch()
        for name, value in changes.items():
            setattr(judged, name, value)
        return ListwiseLoss().compute_loss(LightningIROutput(scores=scores), judged)

    return call


def without_targets() -> Tensor:
    _, judged = batch()
    ranked = lightning_ir.RankBatch(judged.queries, judged.docs)  # whose batches have no such field
    return ListwiseLoss().compute_loss(LightningIROutput(scores=ZEROS), ranked)


ZEROS, NO_TARGETS = torch.zeros(16), "targets: found none, expected a data set with targets"
SHAPE = r"targets: found the shape \({}\) for 16 documents of 4 queries"
test_batches_that_are_refused = refusals(
    [
        (of_batch(None), "scores: found none"),
        (
            of_batch(torch.zeros(4, 5)),
            r"scores: found the shape \(4, 5\) for 16 documents of 4 queries, expected one each",
        ),
        (of_batch(torch.full((16,), torch.nan)), "scores"),
        (of_batch(ZEROS, targets=None), NO_TARGETS),
        (without_targets, NO_TARGETS),
        (of_batch(ZEROS, targets=[1.0] * 16), "targets: found list"),
        (of_batch(ZEROS, targets=torch.ones(17)), SHAPE.format("17,")),
        (of_batch(ZEROS, targets=torch.ones(8)), SHAPE.format("8,")),
        (of_batch(ZEROS, targets=torch.ones(2, 16)), SHAPE.format("2, 16")),
        (of_batch(ZEROS, targets=torch.full((16,), -2.0)), "relevance"),
        (of_batch(ZEROS, docs=None), "batch: found no documents"),
        (of_batch(ZEROS, docs=["a text"] * 4), "batch: found texts as docs"),
        (of_batch(ZEROS, docs=[["text"] * 16]), "batch: found 1 lists of documents for 4 queries"),
        (of_batch(ZEROS[:0], docs=[[]] * 4), "batch: found no document for any of 4 queries"),
    ]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small BERT of random weights, and a run in which the word ripe makes a text relevant."""
    folder = tmp_path_factory.mktemp("lightning")
    bert, vocabulary = folder / "bert", folder / "vocab.txt"
    vocabulary.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)), encoding="utf-8")
    transformers.BertTokenizerFast(str(vocabulary), model_max_length=32).save_pretrained(bert)
    widths = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS), max_position_embeddings=32, initializer_range=0.2, **widths
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(bert)
    generator, lines = np.random.default_rng(0), []
    for query in range(24):
        for rank in range(1, 4 + query % 5):
            text = " ".join(generator.choice(WORDS, 5))
            names = {"query_id": f"q{query}", "query": "ripe apple", "doc_id": f"d{query}-{rank}", "text": text}
            lines.append(names | {"rank": rank, "score": 1 / rank, "relevance": min(text.split().count("ripe"), 2)})
    (folder / "run.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return folder


def samples(folder: Path, count: int) -> TrainBatch:
    run = lightning_ir.RunDataset(folder / "run.jsonl", targets="relevance")
    return lightning_ir.LightningIRDataModule()._collate_fn([run[place] for place in range(count)])


@builds_a_module
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(("kind", "config"), [(CrossEncoderModule, MonoConfig), (BiEncoderModule, DprConfig)])
def test_models_score_lists_of_any_lengths(folder: Path, kind: type, config: type) -> None:
    """The loss of a batch is the mean of those of its queries, each scored by itself."""
    built = kind(str(folder / "bert"), config=config(), loss_functions=[ListwiseLoss("nDCG", "min-max")]).eval()
    judged = samples(folder, 7)
    assert len({len(texts) for texts in judged.docs}) > 2
    alone, place = [], 0
    for query, texts in zip(judged.queries, judged.docs, strict=True):
        relevance = judged.targets[place : place + len(texts)].amax(-1)
        place += len(texts)
        if relevance.max() > 0:
            scores = built.score(query, texts).scores
            alone.append(rb.loss("nDCG", "min-max")(scores, relevance, torch.tensor([0, len(texts)])))
    (loss,) = (function for function, _ in built.loss_functions)
    found = loss.compute_loss(built(judged), judged)
    assert len(alone) > 2
    torch.testing.assert_close(found.detach(), torch.cat(alone).mean(), rtol=1e-4, atol=1e-5)


# Lightning's: of its own use of PyTorch, of short epochs, of loaders without processes, of a model in evaluation mode,
# and on machines with SLURM. Lightning IR's: of targets in memory that cannot be written.
@builds_a_module
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")
@pytest.mark.filterwarnings("ignore:The number of training batches")
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:Found .* in eval mode at the start of training")
@pytest.mark.filterwarnings("ignore:The `srun` command is available on your system")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_the_page_trains_on_lists_of_any_lengths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small model instead of a download, and more and longer steps."""
    monkeypatch.chdir(folder)
    (program,) = programs("rerankers.md", "Lightning IR")
    program = re.sub(r'"microsoft/[^"]*"', '"bert"', program).replace("lr=2e-5", "lr=3e-3")
    program = program.replace("max_epochs=3", 'max_epochs=10, accelerator="cpu", enable_progress_bar=False')
    definitions, fit = program.partition("trainer.fit(")[::2]
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(definitions, names)
    judged, values = samples(folder, 24), []
    for step in ("", "trainer.fit(" + fit):
        exec(step, names)
        built = names["reranker"].eval()
        ((loss, _),) = built.loss_functions
        with torch.no_grad():
            values.append(float(loss.compute_loss(built(judged), judged)))
    assert names["trainer"].global_step == 30
    assert values[1] < values[0] - 0.2
    assert float(names["trainer"].callback_metrics["loss"]) < values[0]
