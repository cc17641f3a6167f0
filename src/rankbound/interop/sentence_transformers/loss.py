"""Any ranking loss as a loss of `CrossEncoderTrainer`."""

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers.cross_encoder import CrossEncoder
from sentence_transformers.util import batch_to_device, fullname
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rankbound._version import __version__
from rankbound.bounds.base import Bound
from rankbound.interop.sentence_transformers.batch import QueryBatch
from rankbound.losses import RankingLoss
from rankbound.losses import loss as parse_loss
from rankbound.losses.base import at_least_single
from rankbound.losses.compiled import Reduction
from rankbound.metrics import Metric
from rankbound.texts import require_one_of

REDUCTIONS = ("mean", "sum")

CITATION = f"""
@software{{rankbound,
    title={{Rankbound: ranking metrics, losses and bounds over ragged lists}},
    author={{{{The Rankbound developers}}}},
    version={{{__version__}}}
}}
"""


class ListwiseLoss(nn.Module):
    r"""A ranking loss of the scores that a `CrossEncoder` gives to the documents of each query.

    $$L = \frac{1}{|T|} \sum_{t \in T} \ell(s_t, y_t), \qquad s_{ti} = a(f(q_t, d_{ti}))$$

    over the informative queries $T$ of the batch, with a loss $\ell$ of the library, the relevance $y$, the model $f$
    and the activation $a$. Queries may have any number of documents; scores are not padded. An uninformative query has
    loss and gradient 0; for most losses, it is one without relevant documents.

    The data set has a column of queries, a column of lists of documents, and a column `label`, `labels`, `score` or
    `scores` of lists of relevance labels from 0.

    Args:
        model: the model to train, with one output.
        loss: a loss, or the argument of `rankbound.loss`: `nDCG@10`, `AP`, `ListNet`, `LambdaRank(metric=nDCG@10)`.
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
        model: CrossEncoder,
        loss: str | Metric | RankingLoss = "nDCG",
        bound: str | Bound = "none",
        *,
        temperature: float = 1.0,
        reduction: Reduction = "mean",
        activation_fn: nn.Module | None = None,
        mini_batch_size: int | None = None,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        if model.num_labels != 1:
            raise ValueError(f"model: found {model.num_labels} outputs, expected 1: CrossEncoder(..., num_labels=1)")
        require_one_of("reduction", reduction, REDUCTIONS)
        self.model = model
        # Not `loss`, where model cards look for a loss of sentence-transformers that this one wraps.
        self.ranking_loss = parse_loss(loss, bound, temperature)
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
            batch = QueryBatch.checked(inputs, labels)
            scores = self.scores(batch, prompt, task)
            relevance, offsets = batch.relevance.to(scores.device), batch.offsets.to(scores.device)
            return self.ranking_loss(scores, relevance, offsets, reduction=self.reduction)
        except TypeError as error:
            # The trainer would take it for a loss without the parameters prompt and task, and call again without them.
            raise ValueError(f"{type(self).__name__}: the model or the loss raised TypeError: {error}") from error

    def scores(self, batch: QueryBatch, prompt: str | None = None, task: str | None = None) -> Tensor:
        """Return the activated scores of the batch's documents, `(n_items,)`, in single precision or better."""
        pairs = batch.pairs()
        size = len(batch) if self.mini_batch_size is None else self.mini_batch_size
        size = size if size > 0 else len(pairs)
        outputs = [self._outputs(pairs[start : start + size], prompt, task) for start in range(0, len(pairs), size)]
        scores: Tensor = self.activation_fn(at_least_single(torch.cat(outputs)))
        return scores

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
