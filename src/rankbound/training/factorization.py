"""Matrix factorisation: the score of an item for a topic is the product of their factors (thesis sec. 2.2)."""

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rankbound.kernels import usable

INITIAL_RANGE = 0.01

PAIRS_AT_ONCE = 2**18
"""The number of pairs whose factors are copied at once for scoring."""

BIASES = ("none", "item")


class Factorization(nn.Module):
    r"""Scores $p_t \cdot q_i$ (thesis sec. 4.1.1), or $p_t \cdot q_i + b_i$ (Koren, Bell and Volinsky 2009, eq. 4).

    The overall mean and the topic's bias of that equation are left out: they are the same for all items of a topic and
    change no order. Factors start uniform around 0, biases at 0.

    Args:
        n_topics, n_items: numbers of topics and items.
        factors: dimensions of $p_t$ and $q_i$.
        spread: largest absolute initial value; 0.01 in the thesis.
        generator: the source of the initial factors.
        bias: `none`, or `item` for $b_i$, by which an item is better or worse for all topics.
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
        bias: str = "none",
        by_kernel: bool = False,
    ) -> None:
        super().__init__()
        self.topics = nn.Parameter(_uniform(n_topics, factors, spread, generator))
        self.items = nn.Parameter(_uniform(n_items, factors, spread, generator))
        self.item_bias = nn.Parameter(torch.zeros(n_items, dtype=torch.float32)) if bias == "item" else None
        self._by_kernel = by_kernel and usable()

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        """Return the scores of pairs of `topics` and `items`, both `(n,)` indices: `(n,)`."""
        products = self._products(topics, items)
        return products if self.item_bias is None else products + self.item_bias.index_select(0, items)

    def with_means(self) -> "Factorization":
        """Return the model with one more topic and item, whose factors and bias are the means of the others."""
        more = copy(self)
        more._parameters = {
            name: None if values is None else nn.Parameter(torch.cat([values, values.mean(0, keepdim=True)]))
            for name, values in self._parameters.items()
        }
        return more

    def _products(self, topics: Tensor, items: Tensor) -> Tensor:
        if self._by_kernel and self.items.is_cpu:
            products: Tensor = _Products.apply(self.topics, self.items, topics, items)  # type: ignore[no-untyped-call]
            return products
        return (self.topics.index_select(0, topics) * self.items.index_select(0, items)).sum(1)


def score_pairs(model: Factorization, topics: Tensor, items: Tensor) -> Tensor:
    """Return the scores of any number of pairs, without gradients; index -1 stands for the mean of all factors."""
    if bool((topics < 0).any()) or bool((items < 0).any()):
        topics, items = (
            torch.where(index < 0, len(known), index) for index, known in ((topics, model.topics), (items, model.items))
        )
        model = model.with_means()
    blocks = zip(torch.split(topics, PAIRS_AT_ONCE), torch.split(items, PAIRS_AT_ONCE), strict=True)
    with torch.no_grad():
        return torch.cat([model(*block) for block in blocks])


class _Products(torch.autograd.Function):
    """The products without a copy of any factor."""

    @staticmethod
    def forward(ctx: Any, of_topics: Tensor, of_items: Tensor, topics: Tensor, items: Tensor) -> Tensor:
        from rankbound.kernels.gradients import products

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
        from rankbound.kernels.gradients import add_gradients

        factors = ctx.saved_tensors[:2]
        gradients = [torch.zeros_like(tensor) for tensor in factors]
        tensors = (*(tensor.detach() for tensor in ctx.saved_tensors), upstream.contiguous(), *gradients)
        add_gradients(*(tensor.numpy() for tensor in tensors))
        return *gradients, None, None


def _uniform(rows: int, columns: int, spread: float, generator: torch.Generator | None) -> Tensor:
    return torch.empty(rows, columns, dtype=torch.float32).uniform_(-spread, spread, generator=generator)
