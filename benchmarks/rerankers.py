"""Losses of rerankers, ours and those of sentence-transformers, on outputs of a model or on those of a small BERT.

The BERT has random weights and is made without a download; queries and documents are generated.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import OURS

if TYPE_CHECKING:
    from sentence_transformers.cross_encoder import CrossEncoder

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
WORDS = ("apple", "basket", "cider", "green", "orchard", "press", "red", "ripe", "tree", "window")
GRADED_WORD = "ripe"
"""The relevance of a document is the number of times that it has this word, at most 2."""

QUERIES, QUERY_WORDS, DOCUMENT_WORDS = 8, 2, 5
LONGEST_TEXT = 32
WEIGHT_DEVIATION = 0.2
"""Standard deviation of the weights: ten times BERT's, so that no two documents have the same score."""
ALL_DOCUMENTS, MINI_BATCH = -1, 64

Made = Callable[[Any, int], nn.Module]
"""Makes the loss of a model, given the number of documents that the model scores at a time."""


def _ours(text: str, bound: str = "none", **options: Any) -> Made:
    def made(model: Any, size: int) -> nn.Module:
        from rankbound.interop.sentence_transformers import ListwiseLoss

        return ListwiseLoss(model, text, bound, mini_batch_size=size, **options)

    return made


def _theirs(name: str, scheme: str | None = None) -> Made:
    def made(model: Any, size: int) -> nn.Module:
        from sentence_transformers.cross_encoder import losses

        weights = {"weighting_scheme": getattr(losses, scheme)(), "reduction_log": "natural"} if scheme else {}
        loss: nn.Module = getattr(losses, name)(model, mini_batch_size=size, **weights)
        return loss

    return made


PEER = "sentence-transformers"
RERANKED: Mapping[str, Mapping[str, Made]] = {
    "ListNet": {OURS: _ours("ListNet"), PEER: _theirs("ListNetLoss")},
    "LambdaLoss, LambdaRank": {OURS: _ours("LambdaRank"), PEER: _theirs("LambdaLoss", "LambdaRankScheme")},
    "LambdaLoss, NDCGLoss2++": {OURS: _ours("LambdaLoss"), PEER: _theirs("LambdaLoss", "NDCGLoss2PPScheme")},
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


def labelled_queries(sizes: list[int], seed: int = 0) -> dict[str, list[Any]]:
    """Return the columns `query`, `documents` and `labels` of queries with so many documents each."""
    generator = np.random.default_rng(seed)
    documents = [[" ".join(generator.choice(WORDS, DOCUMENT_WORDS)) for _ in range(size)] for size in sizes]
    return {
        "query": [" ".join(generator.choice(WORDS, QUERY_WORDS)) for _ in sizes],
        "documents": documents,
        "labels": [[min(text.split().count(GRADED_WORD), 2) for text in texts] for texts in documents],
    }
