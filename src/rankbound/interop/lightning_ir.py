"""Any ranking loss as a loss of Lightning IR's modules; needs the extra `lightning-ir`."""

import torch
from torch import Tensor

from rankbound.bounds.base import Bound
from rankbound.io.files import needs_extra
from rankbound.lists import Lists
from rankbound.losses import RankingLoss
from rankbound.losses import loss as parse_loss
from rankbound.losses.base import Reduction
from rankbound.metrics import Metric
from rankbound.texts import require_one_of

with needs_extra("lightning-ir"):
    from lightning_ir import LightningIROutput, TrainBatch
    from lightning_ir.loss.base import ListwiseLossFunction

REDUCTIONS = ("mean", "sum")


class ListwiseLoss(ListwiseLossFunction):  # type: ignore[misc,unused-ignore]
    r"""A ranking loss of the scores that a `LightningIRModule` gives to the documents of each query.

    $$L = \frac{1}{|T|} \sum_{t \in T} \ell(s_t, y_t)$$

    over the informative queries $T$ of the batch, with a loss $\ell$ of the library, the scores $s$ and the targets
    $y$. The lists are those of `batch.docs`, and may have any lengths. Lightning IR views scores and targets as
    matrices with one row per query, whatever the lengths; only the order of their entries is used here. An
    uninformative query has loss and gradient 0; for most losses, it is one without relevant documents.

    Args:
        loss: a loss, or the argument of `rankbound.loss`: `nDCG@10`, `AP`, `ListNet`, `LambdaRank(metric=nDCG@10)`.
        bound: the bound of a metric's loss, as in `rankbound.loss`.
        temperature: the temperature of a metric's loss, as in `rankbound.loss`.
        reduction: `mean` over the informative queries of a batch, or their `sum`.

    Raises:
        ValueError: as `rankbound.loss`, for a bound beside a loss, a loss with parameters of its own, which the module
            would not train, or an unknown reduction.
    """

    def __init__(
        self,
        loss: str | Metric | RankingLoss = "nDCG",
        bound: str | Bound = "none",
        *,
        temperature: float = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_one_of("reduction", reduction, REDUCTIONS)
        self.ranking_loss = parse_loss(loss, bound, temperature)
        if list(self.ranking_loss.parameters()):
            raise ValueError(
                f"loss: found {self.ranking_loss.full_text}, which has parameters to learn, expected a loss without: "
                "a LightningIRModule trains the parameters of its model alone"
            )
        self.reduction = reduction

    def compute_loss(self, output: LightningIROutput, batch: TrainBatch) -> Tensor:
        """Return the loss of a batch, a scalar.

        Args:
            output: the module's output, with one score per document, in any shape.
            batch: the batch, with the documents of each query, and targets in any shape. If a document has several
                targets, along the last dimension, its relevance is the highest, as in the losses of Lightning IR.

        Raises:
            ValueError: for missing scores, targets or documents, other numbers of them, targets that are negative, NaN
                or infinite, or scores that are NaN or infinite.
        """
        docs = getattr(batch, "docs", None)
        if docs is None or any(isinstance(documents, str) for documents in docs):
            found = "no documents" if docs is None else "texts as docs"
            raise ValueError(f"batch: found {found}, expected docs, a list of documents for each query")
        sizes = [len(documents) for documents in docs]
        if len(sizes) != len(batch.queries):
            raise ValueError(
                f"batch: found {len(sizes)} lists of documents for {len(batch.queries)} queries, expected one for each"
            )
        n_items = sum(sizes)
        if n_items == 0:
            raise ValueError(f"batch: found no document for any of {len(sizes)} queries, expected at least one")
        scores = _tensor("scores", output.scores, "the output of a model that scores queries with their documents")
        targets = _tensor("targets", getattr(batch, "targets", None), "a data set with targets, such as RunDataset's")
        documents = f"{n_items} documents of {len(sizes)} queries"
        if scores.numel() != n_items:
            raise ValueError(f"scores: found the shape {tuple(scores.shape)} for {documents}, expected one each")
        per_document = targets.numel() // n_items
        if targets.numel() != n_items and targets.shape[-1:].numel() * n_items != targets.numel():
            raise ValueError(
                f"targets: found the shape {tuple(targets.shape)} for {documents}, expected one per document, or "
                "several along the last dimension"
            )
        relevance = targets.reshape(n_items, per_document).amax(-1).to(scores.device)
        offsets = Lists.of_sizes(torch.tensor(sizes, device=scores.device)).offsets
        return self.ranking_loss(scores.reshape(-1), relevance, offsets, reduction=self.reduction)

    def __repr__(self) -> str:
        return f"ListwiseLoss({self.ranking_loss.full_text}, reduction={self.reduction})"


def _tensor(name: str, value: Tensor | None, source: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}: found {'none' if value is None else type(value).__name__}, expected {source}")
    return value
