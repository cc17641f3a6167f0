"""Controls: scorers that bound every model from below or above, evaluated like any other method."""

import torch
from torch import Tensor

from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics.base import values_of


def random_scores(items: Tensor) -> Tensor:
    """Return equal scores: a metric of ties is its exact mean over all orderings."""
    return torch.zeros(len(items), dtype=torch.float64)


def oracle_scores(relevance: Tensor) -> Tensor:
    """Return the relevance as scores: the ideal ordering."""
    return relevance.to(torch.float64)


def popularity_scores(items: Tensor, training_items: Tensor, training_relevance: Tensor) -> Tensor:
    """Return how often each item was relevant to a topic of the training part."""
    n_items = 1 + max((int(index.max()) for index in (items, training_items) if len(index)), default=-1)
    counts = torch.bincount(training_items[training_relevance > 0], minlength=n_items)
    return counts[items].to(torch.float64)


def best_feature(features: Tensor, relevance: Tensor, lists: Lists, judge: Metric) -> int:
    """Return the column whose order has the highest mean score: `column + 1` ascending, `-(column + 1)` descending.

    Args:
        features: `(n_items, d)`, of the lists' items in their order; a larger score ranks higher.
        relevance: `(n_items,)`.
        lists: on which the columns are compared; pass no test lists.
        judge: the metric; lists on which it is undefined do not count.

    The first of equal columns counts, ascending before descending. Ties in a column score their exact mean over orders.
    """
    best, place = -torch.inf, 1
    for column in range(features.shape[1]):
        for sign in (1, -1):
            scores = sign * features[:, column].to(torch.float64)
            (values,) = values_of([judge], scores, relevance, lists.offsets).values()
            if (mean := float(values.nanmean())) > best + _ROUNDING:
                best, place = mean, sign * (column + 1)
    return place


def feature_scores(features: Tensor, place: int) -> Tensor:
    """Return the scores of items by the feature that `best_feature` names."""
    scores = features[:, abs(place) - 1].to(torch.float64)
    return scores if place > 0 else -scores


_ROUNDING = 1e-12
