"""Any metric in the form of torchmetrics, for training loops and Lightning; needs the extra `torchmetrics`."""

from typing import Any

import torch
from torch import Tensor

from rankbound.evaluation import POLICIES
from rankbound.io.files import needs_extra
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics import metric as parse_metric
from rankbound.texts import require_one_of

with needs_extra("torchmetrics"):
    import torchmetrics
    from torchmetrics.utilities import dim_zero_cat


class RankingMetric(torchmetrics.Metric):  # type: ignore[misc,unused-ignore]
    """The mean of a metric over lists, which arrive in several batches and processes.

    Lists arrive whole, with offsets, or item by item in any order, with the number of each item's list. Metrics are
    averaged over the orders of tied items, so the order of arrival never changes a value.

    Args:
        metric: the metric or its text, such as `nDCG@10`.
        undefined: lists on which the metric is undefined, mostly for lack of relevant items, are skipped by the mean
            (`skip`) or count as 0 (`zero`, torchmetrics' default).
        keywords: those of `torchmetrics.Metric`.

    Raises:
        ValueError: for an unknown metric or policy.
    """

    is_differentiable = False
    full_state_update = False

    preds: list[Tensor]
    target: list[Tensor]
    indexes: list[Tensor]
    values: list[Tensor]

    def __init__(self, metric: str | Metric, *, undefined: str = "skip", **keywords: Any) -> None:
        super().__init__(**keywords)
        require_one_of("undefined", undefined, POLICIES)
        self.ranking_metric, self.undefined = parse_metric(metric), undefined
        for state in ("preds", "target", "indexes", "values"):
            self.add_state(state, default=[], dist_reduce_fx="cat")

    @property
    def higher_is_better(self) -> bool:
        """True if higher values of the metric are better."""
        return self.ranking_metric.higher_is_better

    def update(
        self, preds: Tensor, target: Tensor, indexes: Tensor | None = None, *, offsets: Tensor | None = None
    ) -> None:
        """Add whole lists, or items to their lists.

        Args:
            preds: scores; higher is better; `(n_items,)` with offsets, else in any shape.
            target: relevance from 0, in the same shape.
            indexes: the number of each item's list, integers in the same shape; or
            offsets: `(n_lists + 1,)`, the limits of whole lists. Their values are computed at once, and the items are
                not kept.

        Raises:
            ValueError: for arguments of different shapes, indexes that are not integers, both indexes and offsets or
                neither, one of them after batches with the other; with offsets, also as `compute`.
        """
        if (indexes is None) == (offsets is None):
            raise ValueError("update: expected either indexes, of items in any order, or offsets, of whole lists")
        if len(self.values if offsets is None else self.indexes):
            raise ValueError("update: found both indexes and offsets since the last reset, expected one of them")
        shapes = [tuple(one.shape) for one in (preds, target, indexes) if one is not None]
        if len(set(shapes)) > 1:
            named = "preds, target, indexes" if offsets is None else "preds, target"
            raise ValueError(f"{named}: found the shapes {', '.join(map(str, shapes))}, expected the same shape")
        if offsets is not None:
            self.values.append(self.ranking_metric(preds.detach(), target.detach(), offsets))
            return
        assert indexes is not None
        if indexes.is_floating_point() or indexes.dtype == torch.bool:
            raise ValueError(f"indexes: found {indexes.dtype}, expected integers, the number of each item's list")
        self.preds.append(preds.detach().flatten())
        self.target.append(target.detach().flatten())
        self.indexes.append(indexes.flatten())

    def compute(self) -> Tensor:
        """Return the mean over the lists on which the metric is defined; NaN if there are none.

        Raises:
            ValueError: for scores that are NaN or infinite, or relevance that is negative, NaN or infinite.
        """
        values, _ = self.per_list()
        return torch.nan_to_num(values, nan=0.0).mean() if self.undefined == "zero" else values.nanmean()

    def per_list(self) -> tuple[Tensor, Tensor]:
        """Return the value of each list, float64 `(n_lists,)`, NaN where undefined, and the lists' numbers, ascending.

        Lists that arrived whole are numbered from 0 in order of arrival. Within one process; raises as `compute`.
        """
        if len(self.values):
            whole: Tensor = dim_zero_cat(self.values)
            return whole, torch.arange(len(whole), device=whole.device)
        indexes = dim_zero_cat(self.indexes)
        numbers, place, sizes = torch.unique(indexes, return_inverse=True, return_counts=True)
        order = torch.argsort(place, stable=True)
        scores, relevance = dim_zero_cat(self.preds)[order], dim_zero_cat(self.target)[order]
        values: Tensor = self.ranking_metric(scores, relevance, Lists.of_sizes(sizes).offsets)
        return values, numbers

    def __repr__(self) -> str:
        return f"RankingMetric({self.ranking_metric}, undefined={self.undefined})"
