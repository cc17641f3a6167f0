"""Losses by compiled kernels, with the reference's second derivatives."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from rankbound.fused import Kernel, usable
from rankbound.gradients import with_gradient
from rankbound.lists import ArrayLike, Lists, as_tensor

Reduction = Literal["none", "mean", "sum"]

Reference = Callable[[Tensor, Tensor, Lists], Tensor]
"""The function of scores, relevance and lists that a kernel computes, differentiable twice."""


def by_kernel(
    run: Kernel,
    scores: Tensor,
    relevance: ArrayLike,
    offsets: ArrayLike,
    reference: Reference,
    reduction: Reduction = "none",
) -> tuple[Tensor, int] | None:
    """Return the losses, reduced, and the number of informative lists; None for what the kernel refuses."""
    x, y, limits = _flat(scores, torch.float64), _flat(relevance, torch.float64), _flat(offsets, torch.int64)
    if x is None or y is None or limits is None:
        return None
    of_lists, slopes = x.new_empty(max(len(limits) - 1, 0)), torch.empty_like(x)
    count = run(x.numpy(), y.numpy(), limits.numpy(), of_lists.numpy(), slopes.numpy())
    if count < 0:
        return None
    share = 1.0 / max(count, 1) if reduction == "mean" else 1.0
    dtype = torch.promote_types(scores.dtype, torch.float32)
    losses = of_lists.to(dtype) if reduction == "none" else torch.tensor(of_lists.sum().item() * share, dtype=dtype)
    if scores.requires_grad and torch.is_grad_enabled():
        reduced = None if reduction == "none" else share
        losses = _ByKernel.apply(scores, losses, slopes, y, limits, reference, reduced)  # type: ignore[no-untyped-call]
    return losses, count


class _ByKernel(torch.autograd.Function):
    """Losses whose slopes are known; `share` is that of each list in their sum, or None for the losses themselves."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        losses: Tensor,
        slopes: Tensor,
        relevance: Tensor,
        offsets: Tensor,
        reference: Reference,
        share: float | None,
    ) -> Tensor:
        ctx.save_for_backward(scores, slopes, relevance, offsets)
        ctx.reference, ctx.share = reference, share
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        scores, slopes, relevance, offsets = ctx.saved_tensors
        if torch.is_grad_enabled():
            of_lists = upstream if ctx.share is None else (upstream * ctx.share).expand(len(offsets) - 1)
            gradient = _differentiable(scores, of_lists, slopes, relevance, Lists(offsets), ctx.reference)
        elif ctx.share is None:
            gradient = _scaled(upstream, slopes, offsets).to(scores.dtype)
        else:
            gradient = (slopes * (float(upstream) * ctx.share)).to(scores.dtype)
        return gradient, None, None, None, None, None, None


def _scaled(upstream: Tensor, slopes: Tensor, offsets: Tensor) -> Tensor:
    if not usable():
        return Lists(offsets).spread(upstream) * slopes
    from rankbound.fused.gradients import times_upstream

    product = torch.empty_like(slopes)
    times_upstream(upstream.to(torch.float64).contiguous().numpy(), slopes.numpy(), offsets.numpy(), product.numpy())
    return product


def _differentiable(
    scores: Tensor, upstream: Tensor, slopes: Tensor, relevance: Tensor, lists: Lists, reference: Reference
) -> Tensor:
    """Return the gradient as a function of the scores and the upstream gradients, by which it can be differentiated."""

    def hessian_product(direction: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = scores.detach().to(torch.float64).requires_grad_()
            (gradient,) = torch.autograd.grad(reference(leaf, relevance, lists).nansum(), leaf, create_graph=True)
            if not gradient.requires_grad:
                return torch.zeros_like(leaf)
            (product,) = torch.autograd.grad((gradient * direction.to(torch.float64)).sum(), leaf)
        return product

    attached = with_gradient(scores, torch.zeros_like(upstream), slopes, lists, hessian_product)
    (gradient,) = torch.autograd.grad(attached, scores, upstream, create_graph=True)
    return gradient


def _flat(values: ArrayLike, dtype: torch.dtype) -> Tensor | None:
    """Return values as a flat, contiguous tensor on the CPU; None if they aren't one, or lose something on the way."""
    if not isinstance(values, Tensor):
        try:
            values = as_tensor(values, "values")
        except ValueError:
            return None
    if values.dim() != 1 or not values.is_cpu:
        return None
    # Every operation costs microseconds, of which a step on short lists has few.
    if values.dtype != dtype:
        if values.is_complex() or (dtype == torch.int64 and (values.is_floating_point() or values.dtype == torch.bool)):
            return None
        values = values.to(dtype)
    return (values.detach() if values.requires_grad else values).contiguous()
