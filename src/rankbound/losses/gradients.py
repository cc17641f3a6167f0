"""Losses with a gradient computed in the forward pass, which is cheaper than autograd's."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rankbound.lists import Lists


def with_gradient(scores: Tensor, losses: Tensor, slopes: Tensor, lists: Lists) -> Tensor:
    """Return `losses` `(n_lists,)` with the derivatives `slopes` `(n_items,)` with respect to `scores`."""
    attached: Tensor = _WithGradient.apply(scores, losses, slopes, lists)  # type: ignore[no-untyped-call]
    return attached


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, scores: Tensor, losses: Tensor, slopes: Tensor, lists: Lists) -> Tensor:
        context.save_for_backward(slopes)
        context.lists = lists
        return losses

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = context.saved_tensors
        return (context.lists.spread(upstream) * slopes).to(upstream.dtype), None, None, None
