"""A small BERT with random weights as a reranker, made without a download, and generated queries and documents."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.cross_encoder import CrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
WORDS = ("apple", "basket", "cider", "green", "orchard", "press", "red", "ripe", "tree", "window")
GRADED_WORD = "ripe"
"""The relevance of a document is the number of times that it has this word, at most 2."""

QUERY_WORDS, DOCUMENT_WORDS = 2, 5
LONGEST_TEXT = 32
WEIGHT_DEVIATION = 0.2
"""Standard deviation of the weights: ten times BERT's, so that no two documents have the same score."""


def tiny_reranker(folder: Path, seed: int = 0) -> CrossEncoder:
    """Return a reranker of some 3,000 weights, whose files are written to `folder`."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL.values(), *WORDS))}
    names: dict[str, Any] = {f"{name}_token": token for name, token in SPECIAL.items()}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_word_tokenizer(vocabulary), model_max_length=LONGEST_TEXT, **names
    )
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST_TEXT,
        initializer_range=WEIGHT_DEVIATION,
        num_labels=1,
    )
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
    documents = [[_text(generator, DOCUMENT_WORDS) for _ in range(size)] for size in sizes]
    return {
        "query": [_text(generator, QUERY_WORDS) for _ in sizes],
        "documents": documents,
        "labels": [[min(text.split().count(GRADED_WORD), 2) for text in texts] for texts in documents],
    }


def _word_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(SPECIAL[name], vocabulary[SPECIAL[name]]) for name in ("cls", "sep")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer


def _text(generator: np.random.Generator, words: int) -> str:
    return " ".join(generator.choice(WORDS, words))
