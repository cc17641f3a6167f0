"""Losses by compiled kernels, with the reference's second derivatives.

A step on a batch of short lists takes some fifty microseconds, and each operation of PyTorch one to four. What is
neither kept nor returned is therefore computed by NumPy, and tensors are made of its arrays.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankbound.gradients import refuse_batched, with_gradient
from rankbound.kernels import LEFT, Array, Kernel, usable
from rankbound.lists import STORED_ONLY, ArrayLike, Lists, as_tensor

Reduction = Literal["none", "mean", "sum"]

Reference = Callable[[Tensor, Tensor, Lists], Tensor]
"""The function of scores, relevance and lists that a kernel computes, differentiable twice."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def by_kernel(
    kernel: Kernel | None,
    scores: Tensor,
    relevance: ArrayLike,
    offsets: ArrayLike,
    reference: Reference,
    reduction: Reduction = "none",
    *,
    exact: bool = False,
) -> Tensor | None:
    """Return the losses, reduced; None without a kernel or any informative list, and for what the kernel refuses.

    They are in the scores' precision, at least single, or, if `exact`, in double precision.
    """
    computed = None if kernel is None else _computed(kernel, scores, relevance, offsets, reference)
    # Without any informative list, the reference sees whether a warning is due.
    if computed is None or computed[0] == 0:
        return None
    count, of_lists, slopes, y, limits = computed
    share = None if reduction == "none" else 1.0 / count if reduction == "mean" else 1.0
    values = of_lists if share is None else np.add.reduce(of_lists) * share
    values = np.asarray(values, np.float64 if exact else _NUMPY.get(scores.dtype, np.float32))
    if scores.requires_grad and torch.is_grad_enabled():
        known = _Known(slopes, share, y, limits, reference)
        losses: Tensor = _ByKernel.apply(scores, values, known)  # type: ignore[no-untyped-call]
        return losses
    return torch.from_numpy(values)


def with_curvature(
    kernel_of: Callable[[torch.dtype, Array], Kernel | None], scores: Tensor, relevance: Tensor, lists: Lists
) -> tuple[Tensor, Tensor] | None:
    """Return the gradient and the curvature by a kernel that writes both, `(n_items,)`; None for what it refuses."""
    curvature = np.empty(len(scores))
    kernel = kernel_of(scores.dtype, curvature)
    computed = None if kernel is None else _computed(kernel, scores, relevance, lists.offsets)
    if computed is None:
        return None
    return torch.from_numpy(computed[2]).to(scores.dtype), torch.from_numpy(curvature).to(scores.dtype)


def _computed(
    run: Kernel, scores: Tensor, relevance: ArrayLike, offsets: ArrayLike, reference: Reference | None = None
) -> tuple[int, Array, Array, Array, Array] | None:
    """Return what a kernel returns and writes, and copies of relevance and offsets; None for what it refuses.

    Lists that it leaves to the reference are computed by it, or refused without one.
    """
    x, y, limits = _flat(scores), _flat(relevance), _flat(offsets)
    if x is None or y is None or limits is None or limits.dtype.kind not in "iu":
        return None
    # Copies, since a caller may write to the arguments before the backward pass.
    y, limits = y.astype(np.float64), limits.astype(np.int64)
    of_lists, slopes = np.empty(max(len(limits) - 1, 0)), np.empty(len(x))
    count = run(np.ascontiguousarray(x, np.float64), y, limits, of_lists, slopes)
    if count < -1 and reference is not None:
        count = -2 - count
        _by_reference(reference, torch.promote_types(scores.dtype, torch.float32), x, y, limits, of_lists, slopes)
    return None if count < 0 else (count, of_lists, slopes, y, limits)


def _by_reference(
    reference: Reference, dtype: torch.dtype, x: Array, y: Array, limits: Array, of_lists: Array, slopes: Array
) -> None:
    """Write the losses and slopes of the lists that a kernel has left to the reference."""
    left, sizes = of_lists == LEFT, np.diff(limits)
    items = np.repeat(left, sizes)
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        leaf = torch.from_numpy(x[items]).to(dtype).requires_grad_()
        values = reference(leaf, torch.from_numpy(y[items]), Lists.of_sizes(torch.from_numpy(sizes[left])))
        (gradient,) = torch.autograd.grad(values.nansum(), leaf)
    of_lists[left], slopes[items] = values.detach().numpy(), gradient.numpy()


class _Known(NamedTuple):
    """The slopes of losses, and what their second derivatives are computed from.

    `share` is that of each list in the sum of the losses, or None for the losses themselves.
    """

    slopes: Array
    share: float | None
    relevance: Array
    offsets: Array
    reference: Reference


class _ByKernel(torch.autograd.Function):
    """Losses whose slopes are known."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Array, known: _Known) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.known = known
        # Made here: a tensor that came in would leave as a view of itself.
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        refuse_batched(upstream)
        (scores,), known = ctx.saved_tensors, ctx.known
        if torch.is_grad_enabled():
            return _differentiable(scores, upstream, known), None, None
        gradient = np.empty(len(known.slopes), _NUMPY.get(scores.dtype, np.float64))
        if known.share is None:
            gradient[:] = _scaled(upstream, known)
        else:
            # Rounded once, while it is written.
            np.multiply(known.slopes, float(upstream) * known.share, out=gradient, casting="same_kind")
        return torch.from_numpy(gradient).to(scores.dtype), None, None


def _scaled(upstream: Tensor, known: _Known) -> Array:
    """Return the slopes of each list times its upstream gradient."""
    of_lists = upstream.detach().to(torch.float64).contiguous().numpy()
    if not usable():
        return np.repeat(of_lists, np.diff(known.offsets)) * known.slopes
    from rankbound.kernels.gradients import times_upstream

    product = np.empty_like(known.slopes)
    times_upstream(of_lists, known.slopes, known.offsets, product)
    return product


def _differentiable(scores: Tensor, upstream: Tensor, known: _Known) -> Tensor:
    """Return the gradient as a function of the scores and the upstream gradients, by which it can be differentiated."""
    slopes, relevance = torch.from_numpy(known.slopes), torch.from_numpy(known.relevance)
    lists = Lists(torch.from_numpy(known.offsets))
    of_lists = upstream if known.share is None else (upstream * known.share).expand(len(lists))

    def hessian_product(direction: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = scores.detach().to(torch.float64).requires_grad_()
            value = known.reference(leaf, relevance, lists).nansum()
            (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
            if not gradient.requires_grad:
                return torch.zeros_like(leaf)
            (product,) = torch.autograd.grad((gradient * direction.to(torch.float64)).sum(), leaf)
        return product

    attached = with_gradient(scores, torch.zeros_like(of_lists), slopes, lists, hessian_product)
    (gradient,) = torch.autograd.grad(attached, scores, of_lists, create_graph=True)
    return gradient


def _flat(values: ArrayLike) -> Array | None:
    """Return flat real numbers on the CPU as an array that shares their memory; None for anything else."""
    if not isinstance(values, Tensor) or values.dtype in STORED_ONLY:
        try:
            values = as_tensor(values, "values")
        except ValueError:
            return None
    if values.dim() != 1 or not values.is_cpu or values.is_complex():
        return None
    detached = values.detach() if values.requires_grad else values
    return (detached.to(torch.float64) if values.dtype == torch.bfloat16 else detached).numpy()
