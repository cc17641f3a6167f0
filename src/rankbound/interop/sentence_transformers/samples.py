"""Samples of a reranking data set: a query, its documents and their relevance."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.evaluation import Joined
from rankbound.texts import quoted

FORMS = (frozenset({"positive", "negative"}), frozenset({"positive", "documents"}), frozenset({"documents", "labels"}))
KEYS = frozenset().union(*FORMS)


@dataclass(frozen=True)
class Judged:
    """The relevance of the documents of a ranking, and of the relevant documents that it lacks."""

    ranked: list[float]
    missing: list[float]

    def __len__(self) -> int:
        return len(self.ranked) + len(self.missing)


@dataclass(frozen=True)
class Sample:
    """A query, the documents that the model scores, and their relevance.

    `first_stage` is the relevance of the documents in the order of the first stage, if the sample has one.
    """

    query: Any
    documents: list[Any]
    judged: Judged
    first_stage: Judged | None = None

    @classmethod
    def checked(cls, sample: Mapping[str, Any], place: int, rerank_positives: bool) -> "Sample":
        """Return the sample of a dictionary; raise `ValueError` for other keys or lists, or wrong or contrary labels.

        Args:
            sample: `query`, and two lists: `positive` and `negative` documents; `positive` and all `documents` in the
                order of the first stage; or `documents` and their `labels`, in any order.
            place: its index, for messages.
            rerank_positives: score positive documents that `documents` lacks, too, instead of counting them as missing.
        """
        if not isinstance(sample, Mapping):
            raise ValueError(
                f"samples: found {type(sample).__name__} as sample {place}, expected a dictionary with a query"
            )
        keys = frozenset(key for key in KEYS if sample.get(key) is not None)
        if sample.get("query") is None or keys not in FORMS:
            raise ValueError(
                f"samples: found the keys {sorted(sample)} in sample {place}, expected query with positive and "
                "negative, positive and documents, or documents and labels"
            )
        query, columns = sample["query"], {key: _listed(sample[key], key, place) for key in keys}
        if "labels" in keys:
            documents = columns["documents"]
            grades = _grades(columns["labels"], documents, place)
            _require_one_judgement(documents, [f"with the label {grade:g}" for grade in grades], place)
            return cls(query, documents, Judged(grades, []))
        positive = columns["positive"]
        if "negative" in keys:
            negative = columns["negative"]
            kinds = ["as positive"] * len(positive) + ["as negative"] * len(negative)
            _require_one_judgement(positive + negative, kinds, place)
            return cls(query, positive + negative, Judged([float(kind == "as positive") for kind in kinds], []))
        ranked = columns["documents"]
        lacking = [text for at, text in enumerate(positive) if text not in ranked and text not in positive[:at]]
        first = Judged([float(text in positive) for text in ranked], [1.0] * len(lacking))
        if rerank_positives:
            return cls(query, ranked + lacking, Judged(first.ranked + first.missing, []), first)
        return cls(query, ranked, first, first)


def reranked(samples: Sequence[Sample], scores: npt.ArrayLike) -> Joined:
    """Return the samples as lists with the model's scores, `(n_documents,)`, one sample after another."""
    return _joined(np.asarray(scores, dtype=np.float64), [sample.judged for sample in samples])


def first_stage(samples: Sequence[Sample]) -> Joined | None:
    """Return the samples as lists in the order of the first stage, unless a sample has none."""
    judged = [sample.first_stage for sample in samples if sample.first_stage is not None]
    if len(judged) < len(samples):
        return None
    return _joined(np.concatenate([-np.arange(len(one.ranked), dtype=np.float64) for one in judged]), judged)


def _joined(scores: npt.NDArray[np.float64], lists: Sequence[Judged]) -> Joined:
    """Return lists of ranked documents with these scores, each followed by its missing ones."""
    retrieved = np.concatenate([np.arange(len(judged)) < len(judged.ranked) for judged in lists])
    every = np.zeros(len(retrieved))
    every[retrieved] = scores
    relevance = np.array([grade for judged in lists for grade in judged.ranked + judged.missing], dtype=np.float64)
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return Joined([str(place) for place in range(len(lists))], every, relevance, retrieved, offsets)


def _grades(labels: list[Any], documents: list[Any], place: int) -> list[float]:
    if len(labels) != len(documents):
        raise ValueError(
            f"samples: found {len(labels)} labels for {len(documents)} documents in sample {place}, expected one each"
        )
    try:
        grades = [float(label) for label in labels]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"samples: found the labels {quoted(labels)} in sample {place}, expected numbers") from error
    wrong = [label for label, grade in zip(labels, grades, strict=True) if not 0 <= grade < inf]
    if wrong:
        raise ValueError(f"samples: found the label {wrong[0]} in sample {place}, expected finite grades from 0")
    return grades


def _require_one_judgement(documents: Iterable[Any], judgements: Iterable[str], place: int) -> None:
    """Raise `ValueError` for a text that is judged in two ways."""
    known: dict[str, str] = {}
    for text, judgement in zip(documents, judgements, strict=True):
        if isinstance(text, str) and known.setdefault(text, judgement) != judgement:
            raise ValueError(
                f"samples: found the document {quoted(text)} in sample {place} both {known[text]} and {judgement}, "
                "expected one judgement of each document: remove the other"
            )


def _listed(value: Any, key: str, place: int) -> list[Any]:
    """Return a list; a single positive document may be given without one."""
    if key == "positive" and isinstance(value, str):
        return [value]
    unordered = isinstance(value, Set) and key in ("documents", "labels")
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__") or unordered:
        raise ValueError(f"samples: found {type(value).__name__} as {key} of sample {place}, expected a list")
    return list(value)
