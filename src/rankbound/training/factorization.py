"""Matrix factorisation: the score of an item for a topic is the product of their factors (thesis sec. 2.2)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rankbound.fused import usable

INITIAL_RANGE = 0.01


class Factorization(nn.Module):
    r"""Scores $p_t \cdot q_i$, without biases, from factors that start uniform around 0 (thesis sec. 4.1.1).

    Args:
        n_topics, n_items: numbers of topics and items.
        factors: dimensions of $p_t$ and $q_i$.
        spread: largest absolute initial value; 0.01 in the thesis.
        generator: the source of the initial factors.
        by_kernel: multiply by a compiled kernel, where there is one; the last digits depend on it.
    """

    def __init__(
        self,
        n_topics: int,
        n_items: int,
        factors: int = 32,
        spread: float = INITIAL_RANGE,
        generator: torch.Generator | None = None,
        *,
        by_kernel: bool = False,
    ) -> None:
        super().__init__()
        self.topics = nn.Parameter(_uniform(n_topics, factors, spread, generator))
        self.items = nn.Parameter(_uniform(n_items, factors, spread, generator))
        self._by_kernel = by_kernel and usable()

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        """Return the scores of pairs of `topics` and `items`, both `(n,)` indices: `(n,)`."""
        if self._by_kernel and self.items.is_cpu:
            scores: Tensor = _Products.apply(self.topics, self.items, topics, items)  # type: ignore[no-untyped-call]
            return scores
        return (self.topics.index_select(0, topics) * self.items.index_select(0, items)).sum(1)


class _Products(torch.autograd.Function):
    """The products without a copy of any factor."""

    @staticmethod
    def forward(ctx: Any, of_topics: Tensor, of_items: Tensor, topics: Tensor, items: Tensor) -> Tensor:
        from rankbound.fused.products import products

        topics, items = topics.contiguous(), items.contiguous()
        ctx.save_for_backward(of_topics, of_items, topics, items)
        scores = of_items.new_empty(len(items))
        tensors = of_topics.detach(), of_items.detach(), topics, items, scores
        if not products(*(tensor.numpy() for tensor in tensors)):
            raise IndexError(f"expected indices of {len(of_topics)} topics and {len(of_items)} items")
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        from rankbound.fused.products import add_gradients

        factors = ctx.saved_tensors[:2]
        gradients = [torch.zeros_like(tensor) for tensor in factors]
        tensors = (*(tensor.detach() for tensor in ctx.saved_tensors), upstream.contiguous(), *gradients)
        add_gradients(*(tensor.numpy() for tensor in tensors))
        return *gradients, None, None


def _uniform(rows: int, columns: int, spread: float, generator: torch.Generator | None) -> Tensor:
    return torch.empty(rows, columns).uniform_(-spread, spread, generator=generator)
