"""Losses under `torch.compile`: one operator in an autograd function, at which no graph breaks.

The compiler knows the shapes that the operator returns, and calls it as it is. Derivatives registered on the operator
itself would make forward mode silently zero (PyTorch 2.13).
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from rankbound.losses.base import RankingLoss

_NUMBERS = count()
_LOSSES: "WeakValueDictionary[int, RankingLoss]" = WeakValueDictionary()


def numbered(loss: "RankingLoss") -> int:
    """Return a number by which the operator finds the loss, as long as it lives."""
    number = next(_NUMBERS)
    _LOSSES[number] = loss
    return number


def traced_loss(number: int, scores: Tensor, *others: Any) -> Tensor:
    """Return the values of a numbered loss; the arguments are those of the operator."""
    derived = torch.is_grad_enabled() and scores.requires_grad
    values: Tensor = (_Traced.apply if derived else _loss)(number, scores, *others)[0]  # type: ignore[no-untyped-call]
    return values


_ARGUMENTS = (
    "int number, Tensor scores, Tensor relevance, Tensor offsets, "
    "Tensor? weights, Tensor? list_weights, str reduction, bool validate"
)


@torch.library.custom_op("rankbound::loss", mutates_args=(), schema=f"({_ARGUMENTS}) -> (Tensor, Tensor)")
def _loss(number: int, scores: Tensor, relevance: Tensor, offsets: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    """Return the values of a loss, and their derivatives by the scores `(n_items,)`."""
    options = dict(zip(("weights", "list_weights", "reduction", "validate"), others, strict=True))
    stream = torch.cuda.current_stream(scores.device) if scores.is_cuda else None

    def derived() -> tuple[Tensor, Tensor]:
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            leaf = scores.detach().clone().requires_grad_()
            values = _LOSSES[number](leaf, relevance, offsets, **options)
            slopes = torch.autograd.grad(values.sum(), leaf)[0] if values.requires_grad else torch.zeros_like(leaf)
            return values.detach().clone(), slopes

    # Autograd is off in an operator, and on in another thread.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(derived).result()


@_loss.register_fake
def _shapes(number: int, scores: Tensor, relevance: Tensor, offsets: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    _, _, reduction, _ = others
    shape = (offsets.shape[0] - 1,) if reduction == "none" else ()
    return scores.new_empty(shape, dtype=torch.promote_types(scores.dtype, torch.float32)), torch.empty_like(scores)


class _Traced(torch.autograd.Function):
    """The values of a loss and, without derivatives, the slopes; arguments as those of the operator."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        values, slopes = _loss(*arguments)
        return values, slopes

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(output[1], inputs[3])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        slopes, offsets = ctx.saved_tensors
        if upstream.dim():
            upstream = torch.repeat_interleave(upstream, offsets.diff(), output_size=slopes.shape[0])
        return None, (slopes * upstream).to(slopes.dtype), *[None] * 6
