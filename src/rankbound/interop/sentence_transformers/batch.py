"""A batch as `CrossEncoderTrainer` passes it to a loss: queries, their lists of documents, and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rankbound.lists import Lists

COLUMNS = "a column of queries and a column of lists of documents"
LABELS = "a column label, labels, score or scores of lists of relevance labels"


@dataclass(frozen=True)
class QueryBatch:
    """Queries, the documents of each, and the relevance of all documents, `(n_items,)`, one query after the other."""

    queries: Sequence[Any]
    documents: Sequence[Sequence[Any]]
    relevance: Tensor

    @classmethod
    def checked(cls, inputs: Sequence[Sequence[Any]], labels: Sequence[Tensor]) -> "QueryBatch":
        """Return the batch of a loss's arguments; raise `ValueError` for other columns or other numbers of labels."""
        if len(inputs) != 2:
            raise ValueError(f"inputs: found {len(inputs)} columns beside the labels, expected 2: {COLUMNS}")
        if labels is None:
            raise ValueError(f"labels: found none, expected {LABELS}")
        if isinstance(labels, Tensor):
            raise ValueError(f"labels: found one number for each query, expected {LABELS}")
        queries, documents = inputs
        if not len(queries) == len(documents) == len(labels):
            raise ValueError(
                f"inputs: found {len(queries)} queries, {len(documents)} lists of documents and {len(labels)} lists of "
                "labels, expected as many of each"
            )
        for place, (texts, grades) in enumerate(zip(documents, labels, strict=True)):
            _require_labelled(place, texts, grades)
        if not any(map(len, documents)):
            raise ValueError(f"inputs: found no document for any of {len(queries)} queries, expected at least one")
        return cls(queries, documents, torch.cat([grades for grades in labels if len(grades)]))

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def offsets(self) -> Tensor:
        """The limits of the queries' documents, `(n_queries + 1,)`."""
        return Lists.of_sizes(torch.tensor([len(texts) for texts in self.documents])).offsets

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return every document with its query, one query after the other."""
        return [(query, text) for query, texts in zip(self.queries, self.documents, strict=True) for text in texts]


def _require_labelled(place: int, texts: Any, grades: Any) -> None:
    if not isinstance(texts, list | tuple):
        raise ValueError(f"inputs: found {type(texts).__name__} as the documents of query {place}, expected a list")
    if not isinstance(grades, Tensor) or grades.dim() != 1:
        kind = f"shape {tuple(grades.shape)}" if isinstance(grades, Tensor) else type(grades).__name__
        raise ValueError(f"labels: found {kind} for query {place}, expected a flat tensor, one number per document")
    if len(texts) != len(grades):
        raise ValueError(
            f"labels: found {len(grades)} for the {len(texts)} documents of query {place}, expected one each"
        )
