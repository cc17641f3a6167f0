"""Matrix factorisation: the score of an item for a topic is the product of their factors (thesis sec. 2.2)."""

import torch
from torch import Tensor, nn

INITIAL_RANGE = 0.01


class Factorization(nn.Module):
    r"""Scores $p_t \cdot q_i$, without biases, from factors that start uniform around 0 (thesis sec. 4.1.1).

    Args:
        n_topics, n_items: numbers of topics and items.
        factors: dimensions of $p_t$ and $q_i$.
        spread: largest absolute initial value; 0.01 in the thesis.
        generator: the source of the initial factors.
    """

    def __init__(
        self,
        n_topics: int,
        n_items: int,
        factors: int = 32,
        spread: float = INITIAL_RANGE,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.topics = nn.Parameter(_uniform(n_topics, factors, spread, generator))
        self.items = nn.Parameter(_uniform(n_items, factors, spread, generator))

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        """Return the scores of pairs of `topics` and `items`, both `(n,)` indices: `(n,)`."""
        return (self.topics.index_select(0, topics) * self.items.index_select(0, items)).sum(1)


def _uniform(rows: int, columns: int, spread: float, generator: torch.Generator | None) -> Tensor:
    return torch.empty(rows, columns).uniform_(-spread, spread, generator=generator)
