r"""Losses whose first and second derivatives are computed in closed form, which is cheaper than autograd's.

With upstream gradients $u_t$, the gradient of list $t$ is $u_t \nabla L_t$. For Hessian-vector products and gradient
penalties, autograd differentiates its product with a direction $v$ once more: by $u_t$, which gives
$v^T \nabla L_t$, and by the scores, which gives $u_t\, \nabla^2 L_t\, v$.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankbound.lists import Lists

HessianProduct = Callable[[Tensor], Tensor]
"""The map from a direction `(n_items,)` to each list's Hessian times it, `(n_items,)`."""


def with_gradient(
    scores: Tensor, losses: Tensor, slopes: Tensor, lists: Lists, hessian_product: HessianProduct
) -> Tensor:
    """Return `losses` `(n_lists,)` with the derivatives `slopes` `(n_items,)` with respect to `scores`.

    `hessian_product` is called when autograd asks for second derivatives; third ones raise `NotImplementedError`.
    """
    attached: Tensor = _WithGradient.apply(scores, losses, slopes, lists, hessian_product)  # type: ignore[no-untyped-call]
    return attached


def without_curvature(direction: Tensor) -> Tensor:
    """Return the Hessian product of a piecewise linear loss, 0."""
    return torch.zeros_like(direction)


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, losses: Tensor, slopes: Tensor, lists: Lists, product: HessianProduct) -> Any:
        ctx.save_for_backward(scores, slopes)
        ctx.lists, ctx.product = lists, product
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        scores, slopes = ctx.saved_tensors
        return _Gradient.apply(scores, upstream, slopes, ctx.lists, ctx.product), None, None, None, None  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, upstream: Tensor, slopes: Tensor, lists: Lists, product: HessianProduct
    ) -> Any:
        ctx.save_for_backward(scores, upstream, slopes)
        ctx.lists, ctx.product = lists, product
        return (lists.spread(upstream) * slopes).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> Any:
        scores, upstream, slopes = ctx.saved_tensors
        with torch.no_grad():
            bent = ctx.lists.spread(upstream) * ctx.product(direction)
            by_upstream = ctx.lists.sum(direction * slopes)
        of_both = last_derivative((bent.to(scores.dtype), by_upstream.to(upstream.dtype)), scores, upstream, direction)
        return *of_both, None, None, None


def last_derivative(gradients: tuple[Tensor, ...], *sources: Tensor) -> tuple[Tensor, ...]:
    """Return `gradients` as they are; differentiating them by one of `sources` raises `NotImplementedError`."""
    if not (torch.is_grad_enabled() and any(source.requires_grad for source in sources)):
        return gradients
    refusing: tuple[Tensor, ...] = _Last.apply(len(gradients), *gradients, *sources)  # type: ignore[no-untyped-call]
    return refusing


class _Last(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise NotImplementedError(
            "third derivatives of ranking losses are not available; pass create_graph=True for first derivatives only"
        )
