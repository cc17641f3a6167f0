"""Any metric in the form of torchmetrics, for training loops and Lightning; needs the extra `torchmetrics`."""

from collections.abc import Callable, Sequence
from functools import cache, partial
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

# Processes exchange tensors of one type alone, so that each state has one, whatever the types of the arguments.
STATES = dict.fromkeys(("preds", "target", "values"), torch.float64) | dict.fromkeys(("indexes", "text"), torch.int64)
DEFAULT_POLICY = POLICIES[0]


class RankingMetric(torchmetrics.Metric):  # type: ignore[misc,unused-ignore]
    """The mean of a metric over lists, which arrive in several batches and processes.

    Lists arrive whole, with offsets, or item by item in any order, with the number of each item's list. Metrics are
    averaged over the orders of tied items, so the order of arrival never changes a value. Processes may have different
    numbers of lists, or none, and scores and relevance of different types, all of which are kept in double precision.

    In a list of metrics for a `MetricCollection`, each has its text as its name, such as `nDCG@10` (with `_` for the
    full stop that PyTorch's names of modules lack, as in `RBP(p=0_8)`, and with `, undefined=zero` for that policy).

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
    text: list[Tensor]

    def __new__(cls, *arguments: Any, **keywords: Any) -> "RankingMetric":
        """Return an instance, of `RankingMetric`'s subclass for this metric and policy."""
        made: RankingMetric = super().__new__(_class_of(*arguments, **keywords) if cls is RankingMetric else cls)
        return made

    def __init__(self, metric: str | Metric, *, undefined: str = DEFAULT_POLICY, **keywords: Any) -> None:
        super().__init__(**keywords)
        require_one_of("undefined", undefined, POLICIES)
        self.ranking_metric, self.undefined = parse_metric(metric), undefined
        for state in STATES:
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
            ValueError: for arguments that are not tensors or differ in shape, indexes that are not integers, whole
                numbers that double precision does not hold, both indexes and offsets or neither, one of them after
                batches with the other; with offsets, also as `compute`.
        """
        if (indexes is None) == (offsets is None):
            raise ValueError("update: expected either indexes, of items in any order, or offsets, of whole lists")
        if any(map(len, self.values if offsets is None else self.indexes)):
            raise ValueError("update: found both indexes and offsets since the last reset, expected one of them")
        named = {"preds": preds, "target": target} | ({} if indexes is None else {"indexes": indexes})
        for name, tensor in named.items():
            if not isinstance(tensor, Tensor):
                raise ValueError(f"{name}: found {type(tensor).__name__}, expected a tensor")
        shapes = [tuple(tensor.shape) for tensor in named.values()]
        if len(set(shapes)) > 1:
            raise ValueError(f"{', '.join(named)}: found the shapes {', '.join(map(str, shapes))}, expected the same")
        if offsets is not None:
            self.values.append(self.ranking_metric(preds.detach(), target.detach(), offsets))
            # A collection shares the states of metrics that are equal after the first batch, as two metrics may be.
            text = list(str(self.ranking_metric).encode())
            self.text = [torch.tensor(text, dtype=STATES["text"], device=self.values[0].device)]
            return
        assert indexes is not None
        if indexes.is_floating_point() or indexes.is_complex() or indexes.dtype == torch.bool:
            raise ValueError(f"indexes: found {indexes.dtype}, expected integers, the number of each item's list")
        self.preds.append(_doubles("preds", preds))
        self.target.append(_doubles("target", target))
        self.indexes.append(indexes.flatten().to(STATES["indexes"]))

    def compute(self) -> Tensor:
        """Return the mean over the lists on which the metric is defined; NaN if there are none, as before any update.

        Raises:
            ValueError: for scores that are NaN or infinite, relevance that is negative, NaN or infinite, or items with
                indexes beside lists with offsets, which several processes or `forward` may have taken.
        """
        values, _ = self.per_list()
        return torch.nan_to_num(values, nan=0.0).mean() if self.undefined == "zero" else values.nanmean()

    def per_list(self) -> tuple[Tensor, Tensor]:
        """Return the value of each list, float64 `(n_lists,)`, NaN where undefined, and the lists' numbers, ascending.

        Lists that arrived whole are numbered from 0 in order of arrival. Within one process; raises as `compute`.
        """
        whole, indexes = self._all("values"), self._all("indexes")
        if len(whole) and len(indexes):
            raise ValueError(
                f"update: found {len(whole)} lists with offsets and {len(indexes)} items with indexes since the last "
                "reset, in all batches and processes together, expected one of them"
            )
        if len(whole):
            return whole, torch.arange(len(whole), device=whole.device)
        numbers, place, sizes = torch.unique(indexes, return_inverse=True, return_counts=True)
        order = torch.argsort(place, stable=True)
        scores, relevance = self._all("preds")[order], self._all("target")[order]
        values: Tensor = self.ranking_metric(scores, relevance, Lists.of_sizes(sizes).offsets)
        return values, numbers

    def sync(self, *arguments: Any, **keywords: Any) -> None:
        """Gather the states of all processes, those without lists, too; as in `torchmetrics.Metric`."""
        for state in STATES:
            if not len(getattr(self, state)):
                setattr(self, state, [self._all(state)])
        super().sync(*arguments, **keywords)

    def _all(self, state: str) -> Tensor:
        """Return a state of all batches; empty, of the state's type, if there are none."""
        parts: Tensor | list[Tensor] = getattr(self, state)
        together: Tensor = dim_zero_cat(parts) if len(parts) else torch.empty(0, dtype=STATES[state]).to(self.device)
        return together

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> torch.nn.Module:
        """Move the states to other devices, but keep their types: half precision would tie scores, or merge lists."""
        moved: torch.nn.Module = super()._apply(lambda tensor: tensor.to(fn(tensor).device), exclude_state)
        return moved

    def __repr__(self) -> str:
        return f"RankingMetric({self.ranking_metric}, undefined={self.undefined})"


@cache
def _class_named(name: str) -> type[RankingMetric]:
    def reduced(metric: RankingMetric) -> tuple[Any, ...]:
        """Return the parts of a copy or pickle, which finds no module with the class."""
        made = partial(RankingMetric.__new__, RankingMetric, metric.ranking_metric, undefined=metric.undefined)
        return made, (), metric.__getstate__()

    return type(name, (RankingMetric,), {"__module__": __name__, "__reduce__": reduced})


def _class_of(metric: str | Metric, *, undefined: str = DEFAULT_POLICY, **_: Any) -> type[RankingMetric]:
    """Return the class of a metric and policy: a `MetricCollection` knows the metrics of a list by their classes."""
    name = str(parse_metric(metric)) + ("" if undefined == DEFAULT_POLICY else f", undefined={undefined}")
    return _class_named(name.replace(".", "_"))


def _doubles(name: str, values: Tensor) -> Tensor:
    """Return numbers in double precision, `(n_items,)`; raise `ValueError` for integers that it does not hold."""
    flat = values.detach().flatten()
    doubles = flat.to(torch.float64)
    if not flat.is_floating_point() and bool((doubles.to(flat.dtype) != flat).any()):
        raise ValueError(
            f"{name}: found integers beyond 2^53, which are kept in double precision, where they would become equal; "
            "expected smaller ones, such as their ranks"
        )
    return doubles
