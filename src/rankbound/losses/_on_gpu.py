"""Losses by the kernels in Triton: which lists take them, and whether they can be relied on.

Their tests ran in Triton's interpreter, on no GPU. The first time that a loss is computed on a device, its kernel is
therefore compared with the formula; where it cannot be compiled or differs, a warning says so, and the formula is used.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankbound.gradients import hessian_product, with_gradient
from rankbound.kernels import GpuKernel
from rankbound.lists import Lists, waiting
from rankbound.smooth_ranks import joined

Formula = Callable[..., Tensor]
"""A function of scores, relevance, lists and weights `w` of items (or None), differentiable twice."""

# Kernels by the text of their loss, the scores' dtype and the device.
_RELIABLE: dict[Any, bool] = {}

# Numbers of items of the lists by which a kernel is compared with its formula: within a tile, at its end, beyond.
COMPARED = (1, 5, 32, 70, 0, 2)
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}


def losses_on_gpu(
    text: str,
    kernel: GpuKernel,
    formula: Formula,
    scores: Tensor,
    relevance: Tensor,
    lists: Lists,
    weights: Tensor | None,
) -> Tensor | None:
    """Return the losses of the kernel, with those of the formula for lists too long for it; None for neither.

    Float64 `(n_lists,)`, differentiable twice by the scores.
    """
    key = text, scores.dtype, scores.device
    if key not in _RELIABLE:
        _RELIABLE[key] = _is_reliable(text, kernel, formula, scores)
    run, longest = kernel
    # The limits of lists are read for kernels that need them alone.
    is_long = np.diff(lists.limits) > longest if longest < np.inf else np.zeros(len(lists), np.bool_)
    if not _RELIABLE[key] or (is_long.all() and len(lists) and longest < np.inf):
        return None
    if not is_long.any():
        return _by_kernel(run, formula, scores, relevance, lists, weights)
    parts, places = [], []
    for long, items, own in lists._shares(is_long):
        x, y, w = scores[items], relevance[items], None if weights is None else weights[items]
        part = formula(x, y, own, w=w) if long else _by_kernel(run, formula, x, y, own, w)
        parts.append(part.to(torch.float64))
        places.append(lists._places(is_long == long))
    return joined(parts, places)


def _by_kernel(
    run: Callable[..., tuple[Tensor, Tensor]],
    formula: Formula,
    scores: Tensor,
    relevance: Tensor,
    lists: Lists,
    weights: Tensor | None,
) -> Tensor:
    with torch.no_grad():
        losses, slopes = run(scores.detach(), relevance, lists, weights)

    def product(direction: Tensor) -> Tensor:
        return hessian_product(partial(formula, w=weights), scores, relevance, lists, direction)

    return with_gradient(scores, losses, slopes, lists, product)


def _is_reliable(text: str, kernel: GpuKernel, formula: Formula, like: Tensor) -> bool:
    """Return true if the kernel has the formula's values and slopes for scores `like` these; otherwise warn."""
    lists = Lists.of_sizes(torch.tensor(COMPARED, device=like.device))
    place = lists.position
    x = torch.sin(2.7 * torch.arange(lists.n_items, device=like.device).to(like)).mul(4).round() / 2
    graded = torch.where(place % 4 == 1, 1 + place % 3, 0)
    compared = 0
    with waiting(True):
        for y in (graded, (place == 0).to(graded)):
            try:
                expected = _differentiated(partial(formula, w=None), x, y, lists)
            except ValueError:
                # A loss may refuse lists of several relevant items.
                continue
            try:
                found = _differentiated(partial(_by_kernel, kernel[0], formula, weights=None), x, y, lists)
            except Exception as error:
                return _warned(text, like, f"cannot be used ({type(error).__name__}: {str(error)[:300]})")
            compared += 1
            for one, other in zip(found, expected, strict=True):
                limit = TOLERANCES[like.dtype] * float(other.nan_to_num().abs().max().clamp(min=1e-3))
                if not torch.allclose(one, other.to(one), rtol=0, atol=limit, equal_nan=True):
                    return _warned(text, like, "has other values than the formula")
    return compared > 0


def _differentiated(function: Formula, scores: Tensor, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = scores.clone().requires_grad_()
        losses = function(leaf, relevance, lists)
        return losses.detach(), torch.autograd.grad(losses.nansum(), leaf)[0]


def _warned(text: str, like: Tensor, what: str) -> bool:
    warnings.warn(
        f"{text}: its kernel in Triton {what} for {like.dtype} scores on {like.device}; PyTorch's formula is used, "
        "which takes longer; RANKBOUND_FAST=0 switches kernels off, and this warning",
        stacklevel=2,
    )
    return False
