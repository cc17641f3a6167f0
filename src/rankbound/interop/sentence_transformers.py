"""Rerankers: any loss for the `CrossEncoderTrainer` of sentence-transformers, and an evaluator with any metric.

Needs the extra `rerankers`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rankbound._version import __version__
from rankbound.bounds.base import Bound
from rankbound.evaluation import POLICIES, Evaluation, aligned, shown, values_of
from rankbound.io.files import needs_extra
from rankbound.lists import Lists
from rankbound.losses import RankingLoss
from rankbound.losses import loss as parse_loss
from rankbound.losses.base import Reduction, at_least_single
from rankbound.metrics import Metric, metrics_of
from rankbound.metrics.runs import JudgedRun
from rankbound.texts import quoted, require_one_of

with needs_extra("rerankers"):
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.cross_encoder import CrossEncoder
    from sentence_transformers.util import batch_to_device, fullname

REDUCTIONS = ("mean", "sum")
METRICS = ("nDCG@10", "RR@10", "AP")

CITATION = f"""
@software{{rankbound,
    title={{Rankbound: ranking metrics, losses and bounds over ragged lists}},
    author={{{{The Rankbound developers}}}},
    version={{{__version__}}}
}}
"""

_FORMS = (frozenset({"positive", "negative"}), frozenset({"positive", "documents"}), frozenset({"documents", "labels"}))
_COLUMNS = "a column of queries and a column of lists of documents"
_LABELS = "a column of lists of relevance labels"
_GROUPS = f"of pairs with labels or of triplets, {__name__}.group_by_query(dataset) makes both"

# The relevance of the documents of a ranking, and of the relevant documents that it lacks.
_Judged = tuple[list[float], list[float]]

_logger = logging.getLogger(__name__)


class ListwiseLoss(nn.Module):
    r"""A ranking loss of the scores that a `CrossEncoder` gives to the documents of each query.

    $$L = \frac{1}{|T|} \sum_{t \in T} \ell(s_t, y_t), \qquad s_{ti} = a(f(q_t, d_{ti}))$$

    over the informative queries $T$ of the batch, with a loss $\ell$ of the library, the relevance $y$, the model $f$
    and the activation $a$. Queries may have any number of documents; scores are not padded. An uninformative query has
    loss and gradient 0; for most losses, it is one without relevant documents.

    The data set has a column of queries, a column of lists of documents, and a column of lists of relevance labels from
    0, of any name: `label`, `relevance`. `group_by_query` makes them of pairs with labels and of triplets.

    Args:
        model: the model to train, with one output.
        loss: a loss, or the argument of `rankbound.loss`: `nDCG@10`, `AP`, `ListNet`, `LambdaRank(metric=nDCG@10)`. It
            may also come before the model.
        bound: the bound of a metric's loss, as in `rankbound.loss`.
        temperature: the temperature of a metric's loss, as in `rankbound.loss`.
        reduction: `mean` over the informative queries of a batch, or their `sum`.
        activation_fn: applied to the model's outputs; by default none.
        mini_batch_size: the number of documents that the model scores at a time. `None` is the number of queries in the
            batch, as in the losses of sentence-transformers; 0 or less is all documents.
        recompute: drop the activations of each mini-batch and compute them again in the backward pass. A training step
            then needs the memory of one mini-batch, and the time of one more forward pass.

    Raises:
        ValueError: as `rankbound.loss`, for a model with several outputs, a bound beside a loss, or an unknown
            reduction.
    """

    def __init__(
        self,
        model: CrossEncoder | str | Metric | RankingLoss,
        loss: str | Metric | RankingLoss | CrossEncoder = "nDCG",
        bound: str | Bound = "none",
        *,
        temperature: float = 1.0,
        reduction: Reduction = "mean",
        activation_fn: nn.Module | None = None,
        mini_batch_size: int | None = None,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        loss_first = isinstance(model, str | Metric | RankingLoss)
        chosen: Any = loss if loss_first else model
        ranking: Any = model if loss_first else loss
        if not hasattr(chosen, "num_labels"):
            raise ValueError(f"model: found {type(chosen).__name__}, expected a CrossEncoder: ListwiseLoss(model)")
        if chosen.num_labels != 1:
            raise ValueError(f"model: found {chosen.num_labels} outputs, expected 1: CrossEncoder(..., num_labels=1)")
        require_one_of("reduction", reduction, REDUCTIONS)
        self.model: CrossEncoder = chosen
        # Not `loss`, where model cards look for a loss of sentence-transformers that this one wraps.
        self.ranking_loss = parse_loss(ranking, bound, temperature)
        self.reduction = reduction
        self.activation_fn = activation_fn or nn.Identity()
        self.mini_batch_size, self.recompute = mini_batch_size, recompute

    def forward(
        self,
        inputs: Sequence[Sequence[Any]],
        labels: Sequence[Tensor],
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            inputs: the queries, `n_queries` texts, and the documents of each query, `n_queries` lists of texts.
            labels: the relevance of each query's documents, `n_queries` tensors `(n_documents,)`.
            prompt, task: passed to the model's preprocessing.

        Raises:
            ValueError: for other inputs or labels, labels that are negative, NaN or infinite, outputs of the model that
                are NaN or infinite, a batch without documents, or a `TypeError` of the model.
        """
        try:
            pairs, relevance, offsets = _checked_batch(inputs, labels)
            size = len(inputs[0]) if self.mini_batch_size is None else self.mini_batch_size
            size = size if size > 0 else len(pairs)
            parts = (pairs[start : start + size] for start in range(0, len(pairs), size))
            outputs = torch.cat([self._outputs(part, prompt, task) for part in parts])
            scores: Tensor = self.activation_fn(at_least_single(outputs))
            relevance, offsets = relevance.to(scores.device), offsets.to(scores.device)
            return self.ranking_loss(scores, relevance, offsets, reduction=self.reduction)
        except TypeError as error:
            # The trainer would take it for a loss without the parameters prompt and task, and call again without them.
            raise ValueError(f"{type(self).__name__}: the model or the loss raised TypeError: {error}") from error

    def _outputs(self, pairs: list[tuple[Any, Any]], prompt: str | None, task: str | None) -> Tensor:
        features = self.model.preprocess(pairs, prompt=prompt, task=task)
        features = batch_to_device(features, self.model.device)

        def outputs() -> Tensor:
            # A copy, as the model writes its outputs into the dictionary.
            flat: Tensor = self.model(dict(features))["scores"].view(-1)
            return flat

        if self.recompute and torch.is_grad_enabled():
            recomputed: Tensor = checkpoint(outputs, use_reentrant=False)
            return recomputed
        return outputs()

    def get_config_dict(self) -> dict[str, Any]:
        """Return the parameters, for the model card."""
        return {
            "loss": self.ranking_loss.full_text,
            "reduction": self.reduction,
            "activation_fn": fullname(self.activation_fn),
            "mini_batch_size": self.mini_batch_size,
            "recompute": self.recompute,
        }

    @property
    def citation(self) -> str:
        """The library's BibTeX entry, for the model card."""
        return CITATION


def group_by_query(data: Any) -> Any:
    """Return a data set with a row per query, for `ListwiseLoss`: columns of queries, lists of documents, and labels.

    Args:
        data: a `datasets.Dataset` of one of two forms: pairs, which are columns of queries, documents, and numbers
            from 0, their relevance (the only column of numbers); or triplets, which are columns of queries, of
            relevant documents, and of one or more documents that are not relevant, all texts, in this order. Rows of
            a query need not be adjacent, and queries stay in the order of their first rows.

    Returns:
        The data set with the column of queries, and the columns `documents` and `labels`.

    Raises:
        ValueError: for other columns, or a document of a query with two labels; of equal labels, one is kept.

    >>> from datasets import Dataset
    >>> pairs = {"query": ["cider", "pear", "cider"], "answer": ["apple", "tree", "rain"], "label": [1, 1, 0]}
    >>> group_by_query(Dataset.from_dict(pairs))[0]
    {'query': 'cider', 'documents': ['apple', 'rain'], 'labels': [1, 0]}
    """
    columns = {name: list(data[name]) for name in data.column_names}
    numbers = [name for name, values in columns.items() if _are_numbers(values)]
    texts = [name for name, values in columns.items() if all(isinstance(value, str) for value in values)]
    triplets = not numbers and len(texts) > 2
    if len(texts) + len(numbers) < len(columns) or not (triplets or (len(numbers) == 1 and len(texts) == 2)):
        raise ValueError(
            f"data: found {len(texts)} columns of texts and {len(numbers)} of numbers among {', '.join(columns)}; "
            "expected queries, documents and their labels, or queries, relevant and other documents: choose them by "
            "data.select_columns([...])"
        )
    labels = [[int(place == 0)] * len(data) for place in range(len(texts) - 1)] if triplets else [columns[numbers[0]]]
    grouped: dict[str, dict[str, float]] = {}
    for row, query in enumerate(columns[texts[0]]):
        for name, grades in zip(texts[1:], labels, strict=True):
            text, grade = columns[name][row], grades[row]
            if grouped.setdefault(query, {}).setdefault(text, grade) != grade:
                raise ValueError(
                    f"data: found the document {quoted(text)} of the query {quoted(query)} with the labels "
                    f"{grouped[query][text]} and {grade}, expected one: remove the other"
                )
    documents = [list(judged) for judged in grouped.values()]
    grades = [list(judged.values()) for judged in grouped.values()]
    return data.from_dict({texts[0]: list(grouped), "documents": documents, "labels": grades})


class RerankingEvaluator(BaseEvaluator):  # type: ignore[misc,unused-ignore]
    """The mean metrics of a reranker over queries, by the rules of `rankbound.evaluate_run`.

    Metrics are averaged over the orders of tied documents. A relevant document that is not scored counts in a metric's
    normaliser. The values have the texts of the metrics as names, after `name` and an underscore.

    Args:
        samples: dictionaries with a `query` and one of these pairs of lists: `positive` and `negative` documents;
            `positive` and `documents`, all documents in the order of the first stage, whose metrics are then reported
            as `base_...`; or `documents` and `labels`, their relevance from 0. A document that the model scores twice
            counts twice.
        metrics: metrics or their texts; the first is `primary_metric`.
        undefined: queries on which a metric is undefined, mostly for lack of relevant documents, are skipped by its
            mean (`skip`) or count as 0 (`zero`, as in sentence-transformers).
        always_rerank_positives: add the positive documents that `documents` lacks to those that the model scores.
            Otherwise they count as not retrieved.
        name: the data set's name, for the values and the model card.
        prompt_name, batch_size, show_progress_bar: passed to `CrossEncoder.predict`.

    Raises:
        ValueError: without samples or metrics, for a sample with other keys, labels below 0, a text that is positive
            and negative or has two labels, an unknown metric or an unknown policy.
    """

    def __init__(
        self,
        samples: Iterable[Mapping[str, Any]],
        metrics: str | Metric | Sequence[str | Metric] = METRICS,
        *,
        undefined: str = "skip",
        always_rerank_positives: bool = True,
        name: str = "",
        prompt_name: str | None = None,
        batch_size: int = 64,
        show_progress_bar: bool = False,
    ) -> None:
        super().__init__()
        require_one_of("undefined", undefined, POLICIES)
        self.metrics = metrics_of(metrics)
        if not self.metrics:
            raise ValueError("metrics: found none, expected at least one, such as nDCG@10")
        self.samples = [_Sample.checked(one, place, always_rerank_positives) for place, one in enumerate(samples)]
        if not self.samples:
            raise ValueError("samples: found none, expected at least one query with documents")
        self.undefined, self.always_rerank_positives = undefined, always_rerank_positives
        self.name, self.prompt_name, self.batch_size = name, prompt_name, batch_size
        self.show_progress_bar = show_progress_bar
        self.primary_metric: str = str(self.metrics[0])
        self.greater_is_better = self.metrics[0].higher_is_better
        first = [sample.first_stage for sample in self.samples if sample.first_stage is not None]
        order = [-np.arange(len(ranked), dtype=np.float64) for ranked, _ in first]
        self.base = self._evaluation(np.concatenate(order), first) if len(first) == len(self.samples) else None

    def __call__(
        self, model: CrossEncoder, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the mean of each metric, and store it in the model card; nothing is written to `output_path`.

        Raises:
            ValueError: for a model with several outputs, or scores that are NaN or infinite.
        """
        evaluation = self.evaluate(model)
        means, base = evaluation.means(), {} if self.base is None else self.base.means()
        when = "" if epoch == -1 else f", epoch {epoch}, step {steps}"
        table: list[tuple[str, ...]] = [("metric", *(("first stage", "reranked") if base else ("mean",)))]
        table += [(key, *([shown(base[key])] if base else []), shown(mean)) for key, mean in means.items()]
        _logger.info("%s %s%s\n%s", type(self).__name__, self.name, when, aligned(table))
        of_card = {key: f"{mean:.4f} ({mean - base[key]:+.4f})" if base else mean for key, mean in means.items()}
        self.store_metrics_in_model_card_data(model, self.prefix_name_to_metrics(of_card, self.name), epoch, steps)
        every = means | {f"base_{key}": mean for key, mean in base.items()}
        values: dict[str, float] = self.prefix_name_to_metrics(every, self.name)
        return values

    def evaluate(self, model: CrossEncoder) -> Evaluation:
        """Return the values of every query, named by its place among the samples: `0`, `1`, ...

        Raises:
            ValueError: for a model with several outputs, or scores that are NaN or infinite.
        """
        if model.num_labels != 1:
            raise ValueError(f"model: found {model.num_labels} outputs, expected 1")
        pairs = [[sample.query, text] for sample in self.samples for text in sample.documents]
        scores = model.predict(
            pairs,
            prompt_name=self.prompt_name,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            show_progress_bar=self.show_progress_bar,
        )
        return self._evaluation(np.asarray(scores, dtype=np.float64), [sample.judged for sample in self.samples])

    def get_config_dict(self) -> dict[str, Any]:
        """Return the parameters that change the values, for the model card."""
        texts, positives = list(map(str, self.metrics)), self.always_rerank_positives
        return {"metrics": texts, "undefined": self.undefined, "always_rerank_positives": positives}

    def _evaluation(self, scores: npt.NDArray[np.float64], lists: Sequence[_Judged]) -> Evaluation:
        """Evaluate lists of ranked documents with these scores, each followed by its missing ones."""
        retrieved = np.concatenate([np.repeat([True, False], [len(ranked), len(lacking)]) for ranked, lacking in lists])
        every = np.zeros(len(retrieved))
        every[retrieved] = scores
        relevance = np.array([grade for ranked, lacking in lists for grade in ranked + lacking], dtype=np.float64)
        offsets = np.cumsum([0, *(len(ranked) + len(lacking) for ranked, lacking in lists)], dtype=np.int64)
        topics = [str(place) for place in range(len(lists))]
        joined = JudgedRun(topics, every, relevance, retrieved, offsets)
        return Evaluation(topics, values_of(self.metrics, joined, self.undefined), missing=[], unjudged=[])


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, int | float) for value in values)


def _checked_batch(
    inputs: Sequence[Sequence[Any]], labels: Sequence[Tensor]
) -> tuple[list[tuple[Any, Any]], Tensor, Tensor]:
    """Return the pairs of each query with its documents, their relevance, and the offsets of the queries.

    The arguments are what the trainer passes to a loss; ValueError for other columns or other numbers of labels.
    """
    if labels is None:
        # The trainer only takes columns of four names for labels, and passes others, such as relevance, as inputs.
        graded = [column for column in inputs if all(map(_are_numbers, column))]
        inputs = [column for column in inputs if not any(column is one for one in graded)]
        labels = [torch.tensor(grades) for grades in graded[0]] if len(graded) == 1 else None
    if labels is None or isinstance(labels, Tensor):
        found = "none" if labels is None else "one number for each query"
        raise ValueError(f"labels: found {found}, expected {_LABELS}; {_GROUPS}")
    if len(inputs) != 2:
        raise ValueError(f"inputs: found {len(inputs)} columns beside the labels, expected 2: {_COLUMNS}; {_GROUPS}")
    queries, documents = inputs
    if not len(queries) == len(documents) == len(labels):
        raise ValueError(
            f"inputs: found {len(queries)} queries, {len(documents)} lists of documents and {len(labels)} lists of "
            "labels, expected as many of each"
        )
    for place, (texts, grades) in enumerate(zip(documents, labels, strict=True)):
        if not isinstance(texts, list | tuple):
            raise ValueError(f"inputs: found {type(texts).__name__} as the documents of query {place}, expected a list")
        if not isinstance(grades, Tensor) or grades.dim() != 1:
            kind = f"shape {tuple(grades.shape)}" if isinstance(grades, Tensor) else type(grades).__name__
            raise ValueError(f"labels: found {kind} for query {place}, expected a flat tensor, one number per document")
        if len(texts) != len(grades):
            raise ValueError(f"labels: found {len(grades)} for query {place}, expected {len(texts)}, one per document")
    if not any(map(len, documents)):
        raise ValueError(f"inputs: found no document for any of {len(queries)} queries, expected at least one")
    pairs = [(query, text) for query, texts in zip(queries, documents, strict=True) for text in texts]
    offsets = Lists.of_sizes(torch.tensor([len(texts) for texts in documents])).offsets
    return pairs, torch.cat([grades for grades in labels if len(grades)]), offsets


@dataclass(frozen=True)
class _Sample:
    """A query, the documents that the model scores, and their relevance.

    `first_stage` is the relevance of the documents in the order of the first stage, if the sample has one.
    """

    query: Any
    documents: list[Any]
    judged: _Judged
    first_stage: _Judged | None = None

    @classmethod
    def checked(cls, sample: Mapping[str, Any], place: int, rerank_positives: bool) -> "_Sample":
        """Return the sample of a dictionary; raise `ValueError` for other keys or lists, or wrong or contrary labels.

        `place` is its index, for messages; `rerank_positives` is `always_rerank_positives`.
        """
        if not isinstance(sample, Mapping):
            raise ValueError(f"samples: found {type(sample).__name__} at {place}, expected a dictionary with a query")
        keys = frozenset(key for key in frozenset().union(*_FORMS) if sample.get(key) is not None)
        if sample.get("query") is None or keys not in _FORMS:
            raise ValueError(
                f"samples: found the keys {sorted(sample)} in sample {place}, expected query with positive and "
                "negative, positive and documents, or documents and labels"
            )
        columns: dict[str, list[Any]] = {}
        for key in keys:
            value = sample[key]
            if key == "positive" and isinstance(value, str):
                value = [value]
            unordered = isinstance(value, Set) and key in ("documents", "labels")
            if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or unordered:
                raise ValueError(f"samples: found {type(value).__name__} as {key} of sample {place}, expected a list")
            columns[key] = list(value)
        if keys == {"positive", "documents"}:
            positive, ranked = columns["positive"], columns["documents"]
            lacking = [text for at, text in enumerate(positive) if text not in ranked and text not in positive[:at]]
            first = [float(text in positive) for text in ranked], [1.0] * len(lacking)
            if rerank_positives:
                return cls(sample["query"], ranked + lacking, (first[0] + first[1], []), first)
            return cls(sample["query"], ranked, first, first)
        if "labels" in keys:
            documents, labels = columns["documents"], columns["labels"]
            if len(labels) != len(documents):
                counts = f"{len(labels)} labels for {len(documents)} documents in sample {place}"
                raise ValueError(f"samples: found {counts}, expected one each")
            try:
                grades = [float(label) for label in labels]
            except (TypeError, ValueError, RuntimeError):
                grades = [nan]
            if not all(0 <= grade < inf for grade in grades):
                found = f"found the labels {quoted(labels)} in sample {place}"
                raise ValueError(f"samples: {found}, expected finite grades from 0")
            judgements = [f"with the label {grade:g}" for grade in grades]
        else:
            documents = columns["positive"] + columns["negative"]
            grades = [1.0] * len(columns["positive"]) + [0.0] * len(columns["negative"])
            judgements = ["as positive" if grade else "as negative" for grade in grades]
        known: dict[str, str] = {}
        for text, judgement in zip(documents, judgements, strict=True):
            if isinstance(text, str) and known.setdefault(text, judgement) != judgement:
                raise ValueError(
                    f"samples: found the document {quoted(text)} in sample {place} both {known[text]} and {judgement}, "
                    "expected one judgement of each document: remove the other"
                )
        return cls(sample["query"], documents, (grades, []))
