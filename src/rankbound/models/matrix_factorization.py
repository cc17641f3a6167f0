"""Matrix factorisation: the score of an item for a topic is the product of their factors (thesis sec. 2.2)."""

import torch
from torch import Tensor, nn

INITIAL_RANGE = 0.01


class MatrixFactorization(nn.Module):
    r"""Scores $p_t \cdot q_i$, without biases, from factors that start uniform in [-0.01, 0.01] (thesis sec. 4.1.1).

    Args:
        n_topics, n_items: how many topics and items have factors.
        factors: dimensions of $p_t$ and $q_i$.
        generator: the source of the initial factors.
    """

    def __init__(
        self, n_topics: int, n_items: int, factors: int = 32, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.topics = nn.Parameter(_uniform(n_topics, factors, generator))
        self.items = nn.Parameter(_uniform(n_items, factors, generator))

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        """Scores of pairs of `topics` and `items`, both `(n,)` indices: `(n,)`."""
        return (self.topics.index_select(0, topics) * self.items.index_select(0, items)).sum(1)


def _uniform(rows: int, columns: int, generator: torch.Generator | None) -> Tensor:
    return torch.empty(rows, columns).uniform_(-INITIAL_RANGE, INITIAL_RANGE, generator=generator)
