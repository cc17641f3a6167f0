"""One step of a loss on a batch of lists, forward and backward, in each library: (mean loss, gradient).

Lists are flat tensors with offsets, or padded for libraries that need padding. Padding and compilation precede the
step and are not timed.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn

import rankbound as rb
from benchmarks.data import WORDS, Batch, labelled_queries
from benchmarks.runner import OURS

if TYPE_CHECKING:
    from sentence_transformers.cross_encoder import CrossEncoder

Step = Callable[[], tuple[Any, Any]]
Prepared = tuple["partial[Tensor]", Tensor]
"""A loss with its arguments, and the scores among them that get a gradient."""


def step_of(prepare: Callable[..., Prepared], *arguments: Any, **options: Any) -> Callable[[Batch], Step]:
    """Return what makes the step of a loss in torch on a batch; one that returns a loss per list is averaged."""

    def of_batch(batch: Batch) -> Step:
        loss, scores = prepare(*arguments, batch, **options)

        def step() -> tuple[Tensor, Tensor]:
            value = loss()
            value = value.mean() if value.dim() else value
            (gradient,) = torch.autograd.grad(value, scores)
            return value.detach(), gradient

        return step

    return of_batch


def rankbound_loss(text: str, batch: Batch, fast: str | None = None, **options: Any) -> Prepared:
    """Prepare a loss of ours, a mean over lists; `fast` is the value of `RANKBOUND_FAST` in its steps."""
    loss = rb.SmoothLoss(text, **options) if options else rb.loss(text)
    scores = batch.scores.clone().requires_grad_()
    call = partial(loss, scores, batch.relevance, batch.offsets, reduction="mean")

    def with_fast() -> Tensor:
        os.environ["RANKBOUND_FAST"] = fast or ""
        return call()

    return partial(with_fast) if fast else call, scores


def direct_torch_loss(batch: Batch) -> Prepared:
    """Prepare the direct formulation of smooth nDCG, list by list: relevant items against all items."""
    scores = batch.scores.clone().requires_grad_()
    relevant = [part.nonzero().squeeze(1) for part in torch.split(batch.relevance, batch.sizes)]

    def loss() -> Tensor:
        losses = []
        for part, chosen in zip(torch.split(scores, batch.sizes), relevant, strict=True):
            # The item itself contributes a half; with another half, ranks start at 1.
            ranks = 0.5 + torch.sigmoid(part[None, :] - part[chosen][:, None]).sum(1)
            ideal = (1 / torch.log2(torch.arange(len(chosen)) + 2)).sum()
            losses.append(-(1 / torch.log2(ranks + 1)).sum() / ideal)
        return torch.stack(losses)

    return partial(loss), scores


def padded_torch_loss(text: str, batch: Batch) -> Prepared:
    """Prepare the usual formulation of public code: one tensor `(n_lists, longest, longest)` of all pairs."""
    padded, relevance, mask = batch.padded()
    scores, grades, informative = padded.requires_grad_(), relevance.to(padded.dtype), relevance.amax(1) > 0
    return partial(lambda: padded_loss(text, scores, grades, mask)[informative]), scores


LOSSES = ("nDCG", "AP", "softmax", "ListNet", "ListMLE", "RankNet", "LambdaRank")


def padded_loss(text: str, scores: Tensor, relevance: Tensor, mask: Tensor) -> Tensor:
    """Return a loss of each list, by the formula of its paper; `relevance` is 0 or 1."""

    def ranks(weights: Tensor) -> Tensor:
        above = torch.sigmoid(scores[:, None, :] - scores[:, :, None]) * weights[:, None, :]
        return above.sum(2) + 1 - weights / 2

    def ideal() -> Tensor:
        discounts = 1 / torch.log2(torch.arange(relevance.shape[1]) + 2)
        return (relevance.sort(1, descending=True).values * discounts).sum(1)

    def held() -> Tensor:
        return scores.masked_fill(~mask, -torch.inf)

    if text == "nDCG":
        return -(relevance / torch.log2(ranks(mask.to(scores.dtype)) + 1)).sum(1) / ideal()
    if text == "AP":
        return -(relevance * ranks(relevance) / ranks(mask.to(scores.dtype))).sum(1) / relevance.sum(1)
    if text in ("softmax", "ListNet"):
        targets = list_net(relevance, mask) if text == "ListNet" else relevance / relevance.sum(1, keepdim=True)
        return -(targets * torch.log_softmax(held(), 1).masked_fill(~mask, 0)).sum(1)
    if text == "ListMLE":
        # Each item is drawn from all of its grade and below.
        lists = held()
        from_all, from_others = lists.logsumexp(1), lists.masked_fill(relevance > 0, -torch.inf).logsumexp(1)
        return ((torch.where(relevance > 0, from_all[:, None], from_others[:, None]) - scores) * mask).sum(1)
    better = (relevance[:, :, None] > relevance[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    if text == "LambdaRank":
        with torch.no_grad():
            discount = 1 / torch.log2(held().argsort(1, descending=True).argsort(1) + 2)
            gap = (discount[:, :, None] - discount[:, None, :]).abs() / ideal()[:, None, None]
    pairs = torch.nn.functional.softplus(scores[:, None, :] - scores[:, :, None]) * better
    return pairs.sum((1, 2)) / better.sum((1, 2)) if text == "RankNet" else (pairs * gap).sum((1, 2))


def list_net(relevance: Tensor, mask: Tensor) -> Tensor:
    """Return ListNet's probabilities of the items."""
    return torch.softmax(relevance.masked_fill(~mask, -torch.inf), 1)


def rax_step(text: str, batch: Batch) -> Step:
    """Prepare a loss of Rax, compiled for this shape; lists of equal length have no mask."""
    import jax
    import rax

    losses: Mapping[str, Callable[..., Any]] = {
        "nDCG": rax_loss,
        "AP": partial(rax_loss, metric="ap_metric"),
        "softmax": rax.softmax_loss,
        "ListNet": rax.softmax_loss,
        "ListMLE": rax.listmle_loss,
        "RankNet": rax.pairwise_logistic_loss,
        "LambdaRank": partial(rax.pairwise_logistic_loss, lambdaweight_fn=rax.dcg_lambdaweight),
    }
    padded, grades, mask = batch.padded()
    targets = list_net(grades.float(), mask) if text == "ListNet" else grades.float()
    scores, relevance = (jax.numpy.asarray(values.numpy()) for values in (padded, targets))
    where = None if bool(mask.all()) else jax.numpy.asarray(mask.numpy())
    of = jax.value_and_grad(lambda s, y, w: losses[text](s, y, where=w))
    step = jax.jit(of).lower(scores, relevance, where).compile()
    return lambda: jax.block_until_ready(step(scores, relevance, where))


def rax_loss(scores: Any, relevance: Any, *, metric: str = "ndcg_metric", **lists: Any) -> Any:
    """Return `rax.approx_t12n` of a metric, written out to run with current versions of JAX."""
    import rax

    return -getattr(rax, metric)(scores, relevance, rank_fn=rax.utils.approx_ranks, **lists)


ALLRANK: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nDCG": ("approxNDCGLoss", {}),
    "softmax": ("binary_listNet", {}),
    "ListNet": ("listNet", {}),
    "ListMLE": ("listMLE", {}),
    "RankNet": ("rankNet", {}),
    "LambdaRank": ("lambdaLoss", {"weighing_scheme": "lambdaRank_scheme"}),
}
PYTORCHLTR = {"RankNet": "PairwiseLogisticLoss", "LambdaRank": "LambdaNDCGLoss2"}


def allrank_loss(text: str, batch: Batch) -> Prepared:
    """Prepare a loss of allRank."""
    name, options = ALLRANK[text]
    padded, relevance, mask = batch.padded()
    scores, grades = padded.requires_grad_(), relevance.float().masked_fill(~mask, -1.0)
    return partial(getattr(allrank("models.losses"), name), scores, grades, **options), scores


def allrank(module: str) -> ModuleType:
    """Import a module of allRank, with stand-ins for what it loads files by, which nothing here does."""
    names = ("gcsfs", "pkg_resources", "tensorboardX", "torchvision", "torchvision.transforms")
    # Its configuration is made of `attr`, where that is installed.
    stand_ins = {name: MagicMock() for name in (*names, "attr") if name != "attr" or find_spec(name) is None}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        return import_module(f"allrank.{module}")
    finally:
        for name, loaded in before.items():
            sys.modules.pop(name)
            sys.modules.update({name: loaded} if loaded else {})


def pytorchltr_loss(text: str, batch: Batch) -> Prepared:
    """Prepare a loss of pytorchltr, which has no smooth nDCG."""
    import pytorchltr.loss

    padded, relevance, _ = batch.padded()
    scores = padded.requires_grad_()
    return partial(getattr(pytorchltr.loss, PYTORCHLTR[text])(), scores, relevance, torch.tensor(batch.sizes)), scores


PEERS: Mapping[str, tuple[str, Collection[str], Callable[[str], Callable[[Batch], Step]]]] = {
    "Rax": ("rax", LOSSES, partial(partial, rax_step)),
    "allRank": ("allrank", ALLRANK, partial(step_of, allrank_loss)),
    "pytorchltr": ("pytorchltr", PYTORCHLTR, partial(step_of, pytorchltr_loss)),
}
"""By name: the package, the losses that it has, and what prepares the step of one."""


# Losses of rerankers, on outputs of a model, or on those of a small BERT of random weights, made without a download.

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
QUERIES, LONGEST_TEXT = 8, 32
WEIGHT_DEVIATION = 0.2
"""Standard deviation of the weights: ten times BERT's, so that no two documents have the same score."""
ALL_DOCUMENTS, MINI_BATCH = -1, 64

Made = Callable[[Any, int], nn.Module]
"""Makes the loss of a model, given the number of documents that the model scores at a time."""


def _made(module: str, name: str, *given: str, scheme: str | None = None, **options: Any) -> Made:
    def made(model: Any, size: int) -> nn.Module:
        losses = import_module(module)
        weights = {"weighting_scheme": getattr(losses, scheme)(), "reduction_log": "natural"} if scheme else {}
        loss: nn.Module = getattr(losses, name)(model, *given, mini_batch_size=size, **weights, **options)
        return loss

    return made


_ours = partial(_made, "rankbound.interop.sentence_transformers", "ListwiseLoss")
_theirs = partial(_made, "sentence_transformers.cross_encoder.losses")
PEER = "sentence-transformers"
RERANKED: Mapping[str, Mapping[str, Made]] = {
    "ListNet": {OURS: _ours("ListNet"), PEER: _theirs("ListNetLoss")},
    "LambdaLoss, LambdaRank": {OURS: _ours("LambdaRank"), PEER: _theirs("LambdaLoss", scheme="LambdaRankScheme")},
    "LambdaLoss, NDCGLoss2++": {OURS: _ours("LambdaLoss"), PEER: _theirs("LambdaLoss", scheme="NDCGLoss2PPScheme")},
    "nDCG min-max": {OURS: _ours("nDCG", "min-max")},
}
"""Loss -> contender -> what makes it."""
TRAINED: Mapping[str, Made] = {
    OURS: RERANKED["nDCG min-max"][OURS],
    f"{OURS}, recompute": _ours("nDCG", "min-max", recompute=True),
    f"{PEER}, NDCGLoss2++": RERANKED["LambdaLoss, NDCGLoss2++"][PEER],
}


def step_of_model(make: Made, n: int, *, of_texts: bool = False) -> Callable[[], tuple[float, Tensor]]:
    """Return a step of a loss on queries with `n` documents each, from the texts or from outputs of a model on.

    It returns the loss, and its gradient with respect to the model's weights or outputs.
    """
    columns = labelled_queries([n] * QUERIES)
    inputs, labels = [columns["query"], columns["documents"]], [torch.tensor(one) for one in columns["labels"]]
    if of_texts:
        with tempfile.TemporaryDirectory() as folder:
            model: Any = tiny_reranker(Path(folder))
    else:
        model = Outputs(torch.randn(QUERIES * n, generator=torch.Generator().manual_seed(0)))
    loss, weights = make(model, MINI_BATCH if of_texts else ALL_DOCUMENTS), list(model.parameters())
    # Their LambdaLoss is a mean over all pairs of a batch, ours a mean over queries of sums over pairs.
    pairs = sum(int((grades[:, None] > grades).sum()) for grades in labels)
    scale = pairs / QUERIES if type(loss).__name__ == "LambdaLoss" else 1.0

    def step() -> tuple[float, Tensor]:
        value = loss(inputs, labels)
        gradient = torch.autograd.grad(value, weights, allow_unused=True)
        return scale * value.item(), scale * torch.cat([part.flatten() for part in gradient if part is not None])

    return step


def tiny_reranker(folder: Path, seed: int = 0) -> "CrossEncoder":
    """Return a reranker of some 3,000 weights, whose files are written to `folder`."""
    from sentence_transformers.cross_encoder import CrossEncoder
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((*SPECIAL.values(), *WORDS))}
    of_words = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk"]))
    of_words.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(SPECIAL[name], vocabulary[SPECIAL[name]]) for name in ("cls", "sep")]
    of_words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names: dict[str, Any] = {f"{name}_token": token for name, token in SPECIAL.items()}
    PreTrainedTokenizerFast(tokenizer_object=of_words, model_max_length=LONGEST_TEXT, **names).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    limits = {"max_position_embeddings": LONGEST_TEXT, "initializer_range": WEIGHT_DEVIATION}
    config = BertConfig(vocab_size=len(vocabulary), num_labels=1, **sizes, **limits)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
    return CrossEncoder(str(folder), local_files_only=True, device="cpu")


class Outputs(nn.Module):
    """A reranker whose outputs are its parameters."""

    num_labels, device = 1, torch.device("cpu")

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.outputs = nn.Parameter(scores)

    def preprocess(self, pairs: list[Any], **_: Any) -> dict[str, Tensor]:
        return {}

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"scores": self.outputs}
