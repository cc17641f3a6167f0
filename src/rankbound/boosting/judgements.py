"""Labels, groups and weights in the form that LightGBM and XGBoost pass to user-defined functions."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, require_finite, require_grades, weights_of


@dataclass(frozen=True)
class Judgements:
    """The judgements of the rows that a model scores: relevance and optional weights `(n_items,)`, and the lists."""

    relevance: Tensor
    lists: Lists
    weight: Tensor | None = None

    @classmethod
    def of(cls, labels: ArrayLike, sizes: ArrayLike | None, weights: ArrayLike | None = None) -> "Judgements":
        """Build judgements from labels `(n_items,)`, the sizes of groups `(n_lists,)`, and weights of rows or groups.

        Raises:
            ValueError: for groups that are missing or don't add up to the number of rows, labels below 0, a wrong
                number of weights, or weights that are negative, NaN or infinite.
        """
        grades = _whole(as_tensor(labels, "label"))
        require_grades(grades)
        if sizes is None or len(sizes) == 0:
            raise ValueError(
                "group: found none, expected the number of rows of each topic, in the rows' order; of XGBoost's "
                "interfaces, only xgboost.train and xgboost.cv pass it"
            )
        counts = as_tensor(sizes, "group").to(torch.int64)
        if int(counts.min()) < 0 or int(counts.sum()) != len(grades):
            raise ValueError(f"group: found sizes that add up to {int(counts.sum())}, expected {len(grades)} rows")
        lists = Lists.of_sizes(counts)
        return cls(grades, lists, _per_item(weights, lists))

    @property
    def topic_weights(self) -> npt.NDArray[np.float64] | None:
        """The mean weight of each topic's rows, `(n_lists,)`, 0 for topics without rows; `None` without weights."""
        if self.weight is None:
            return None
        total = self.lists.sum(self.weight.to(torch.float64))
        weights: npt.NDArray[np.float64] = (total / self.lists.sizes.clamp(min=1)).numpy()
        return weights

    def are(self, other: "Judgements") -> bool:
        """Return true if the other judgements have the same relevance and lists, whatever their weights."""
        alike = self.relevance.dtype == other.relevance.dtype and torch.equal(self.lists.offsets, other.lists.offsets)
        return alike and torch.equal(self.relevance, other.relevance)

    @classmethod
    def of_data(cls, data: Any) -> "Judgements":
        """Build judgements from a LightGBM `Dataset` or an XGBoost `DMatrix`; raises as `of`.

        Warns of a LightGBM `Dataset` that holds only some of the rows of a topic of the one that it was taken from.
        """
        if hasattr(data, "get_uint_info"):
            sizes: Any = np.diff(data.get_uint_info("group_ptr").astype(np.int64))
        else:
            sizes = data.get_group()
            _warn_of_cut_topics(data, sizes)
        return cls.of(data.get_label(), sizes, data.get_weight())

    def scores(self, predictions: ArrayLike) -> Tensor:
        """Return the model's raw scores as a tensor; raise `ValueError` unless they are finite and one per row."""
        scores = as_tensor(predictions, "preds", len(self.relevance))
        require_finite(scores)
        return scores


def _warn_of_cut_topics(data: Any, sizes: Any) -> None:
    """Warn of topics with fewer rows in a LightGBM subset than in the whole data set, as in `lightgbm.cv`."""
    used = getattr(data, "used_indices", None)
    whole = None if used is None or sizes is None else data.reference.get_group()
    if used is None or whole is None:
        return
    present, whole_sizes = np.asarray(sizes)[np.asarray(sizes) > 0], np.asarray(whole)
    firsts = np.cumsum(present) - present
    # Subsets keep the order of the rows, so that the first row of a topic tells which one it is.
    owners = np.searchsorted(np.cumsum(whole_sizes), [used[row] for row in firsts], side="right")
    cut = int((present < whole_sizes[owners]).sum())
    if cut:
        warnings.warn(
            f"group: found {cut} of {len(present)} topics with only some of their rows, in a subset of a Dataset of "
            f"{len(whole_sizes)} topics; gradients and metrics are those of shortened lists, and if this is a fold, "
            "its topics are in other folds, too. lightgbm.cv deals rows, not topics, for an objective that is a "
            "function: pass folds=rankbound.lightgbm_folds(data)",
            stacklevel=3,
        )


def _whole(labels: Tensor) -> Tensor:
    """Convert labels, which both libraries store as floats, to integers if they are whole, otherwise to float64."""
    whole = labels.to(torch.int64)
    return whole if bool((whole == labels).all()) else labels.to(torch.float64)


def _per_item(weights: ArrayLike | None, lists: Lists) -> Tensor | None:
    if weights is None or len(weights) == 0:
        return None
    values = as_tensor(weights, "weight")
    values = weights_of(values, "weight", len(values), as_floating(values))
    if len(values) == lists.n_items:
        return values
    # XGBoost has one weight per group.
    if len(values) == len(lists):
        return lists.spread(values)
    raise ValueError(
        f"weight: found {len(values)} values, expected {lists.n_items}, one per row, or {len(lists)}, one per group"
    )
