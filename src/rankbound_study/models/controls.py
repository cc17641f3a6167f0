"""Controls: scorers that bound every model from below or above, evaluated like any other method."""

import torch
from torch import Tensor

CONTROLS = ("random", "popularity", "oracle")


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
