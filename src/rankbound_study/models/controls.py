"""Controls: scorers that no model should lose to, or beat. They are methods like any other."""

import torch
from torch import Tensor

CONTROLS = ("random", "popularity", "oracle")


def random_scores(items: Tensor) -> Tensor:
    """Nothing is known: all items tie, and a metric of ties is its exact mean over all orders."""
    return torch.zeros(len(items), dtype=torch.float64)


def oracle_scores(relevance: Tensor) -> Tensor:
    """Everything is known: the ideal order."""
    return relevance.to(torch.float64)


def popularity_scores(items: Tensor, training_items: Tensor, training_relevance: Tensor) -> Tensor:
    """How often each item was relevant to a topic of the training part."""
    n_items = 1 + max((int(index.max()) for index in (items, training_items) if len(index)), default=-1)
    counts = torch.bincount(training_items[training_relevance > 0], minlength=n_items)
    return counts[items].to(torch.float64)
