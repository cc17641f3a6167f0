r"""Derivatives of functions of ragged lists, where autograd alone is too slow, or silent.

*In closed form*, for losses: with upstream gradients $u_t$, the gradient of list $t$ is $u_t \nabla L_t$. For
Hessian-vector products and gradient penalties, autograd differentiates its product with a direction $v$ once more: by
$u_t$, which gives $v^T \nabla L_t$, and by the scores, which gives $u_t\, \nabla^2 L_t\, v$.

*Under forward mode and the transforms of `torch.func`*: what these pass has no memory of its own, or a tangent that
code outside PyTorch drops. `through_transforms` calls a function with plain tensors, and derives what the transforms
need from its backward passes.

*Under `torch.compile`*, for losses: one operator in an autograd function, at which no graph breaks. The compiler knows
the shapes that the operator returns, and calls it as it is. Derivatives registered on the operator itself would make
forward mode silently zero (PyTorch 2.13).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rankbound.lists import ArrayLike, Lists, as_tensor

if TYPE_CHECKING:
    from rankbound.losses.base import RankingLoss

Pull = Callable[[Tensor], Tensor]
Bend = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def with_derivatives(scores: Tensor, values: Tensor | npt.NDArray[Any], pull: Pull, bend: Bend) -> Tensor:
    """Return `values` with derivatives by `scores` in closed form; third ones raise `NotImplementedError`.

    `pull` maps upstream gradients to the gradient by the scores; `bend`, called for second derivatives, maps upstream
    gradients and a direction to the derivatives of gradient times direction, by the scores and by the upstream ones.
    """
    attached: Tensor = _WithDerivatives.apply(scores, values, pull, bend)  # type: ignore[no-untyped-call]
    return attached


def with_gradient(scores: Tensor, losses: Tensor, slopes: Tensor, lists: Lists, hessian_product: Pull) -> Tensor:
    """Return `losses` `(n_lists,)` with the derivatives `slopes` `(n_items,)` with respect to `scores`.

    `hessian_product` maps a direction `(n_items,)` to each list's Hessian times it.
    """

    def bend(upstream: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        return lists.spread(upstream) * hessian_product(direction), lists.sum(direction * slopes)

    return with_derivatives(scores, losses, lambda upstream: lists.spread(upstream) * slopes, bend)


def hessian_product(
    reference: Callable[[Tensor, Tensor, Lists], Tensor],
    scores: Tensor,
    relevance: Tensor,
    lists: Lists,
    direction: Tensor,
) -> Tensor:
    """Return each list's Hessian times a direction `(n_items,)`, by a function that is differentiable twice."""
    with torch.enable_grad():
        leaf = scores.detach().to(torch.float64).requires_grad_()
        (gradient,) = torch.autograd.grad(reference(leaf, relevance, lists).nansum(), leaf, create_graph=True)
        if not gradient.requires_grad:
            return torch.zeros_like(leaf)
        (product,) = torch.autograd.grad((gradient * direction.to(torch.float64)).sum(), leaf)
    return product


class _WithDerivatives(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Tensor | npt.NDArray[Any], pull: Pull, bend: Bend) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.maps = pull, bend
        # A tensor of an array is made here: one that came in would leave as a view of itself.
        return values if isinstance(values, Tensor) else torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        refuse_batched(upstream)
        (scores,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _Pulled.apply(scores, upstream, *ctx.maps), None, None, None  # type: ignore[no-untyped-call]
        return ctx.maps[0](upstream).to(scores.dtype), None, None, None


class _Pulled(torch.autograd.Function):
    """The gradient by the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, upstream: Tensor, pull: Pull, bend: Bend) -> Tensor:
        ctx.save_for_backward(scores, upstream)
        ctx.bend = bend
        return pull(upstream).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> Any:
        scores, upstream = ctx.saved_tensors
        with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
            by_scores, by_upstream = ctx.bend(upstream, direction)
        both = by_scores.to(scores.dtype), by_upstream.to(upstream.dtype)
        if torch.is_grad_enabled() and any(one.requires_grad for one in (scores, upstream, direction)):
            both = _Last.apply(*both, scores, upstream, direction)  # type: ignore[no-untyped-call]
        return *both, None, None


class _Last(torch.autograd.Function):
    """Two derivatives as they are, which can't be differentiated by what they depend on."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, *sources: Tensor) -> tuple[Tensor, Tensor]:
        return one.view_as(one), other.view_as(other)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise _no_third_derivatives()


Function = Callable[..., Tensor]
"""A function `(scores, offsets, *constants)` of plain tensors, which may be `None`, whose values `(m,)` autograd
differentiates by the scores `(n_items,)`. Two batches of lists, one after the other, have their values in that order.
"""


def through_transforms(
    function: Function, scores: Tensor, offsets: ArrayLike | Lists, *constants: ArrayLike | None
) -> Tensor:
    """Return `function(scores, offsets, *constants)` with its first and second derivatives by the scores.

    Under `vmap`, the batches are evaluated in one call, one after the other.

    Raises:
        ValueError: for invalid offsets.
        NotImplementedError: for offsets over which `vmap` maps, for third derivatives, and for forward mode in forward
            mode.
    """
    known = offsets.offsets if isinstance(offsets, Lists) else offsets
    if isinstance(known, Tensor) and torch._C._functorch.is_batchedtensor(known):
        raise NotImplementedError(
            "offsets: vmap maps over them, and lists of other limits have no common shape; pass all lists in one call, "
            "with the offsets of all, or map over scores and relevance alone (in_dims=None for the offsets)"
        )
    limits = Lists.checked(offsets, len(scores), scores.device).offsets
    others = [None if constant is None else as_tensor(constant, "values") for constant in constants]
    values: Tensor = _Derivative.apply(function, "value", limits, scores, *others)  # type: ignore[no-untyped-call]
    return values


def refuse_batched(vector: Tensor) -> None:
    """Raise `NotImplementedError` for a batch of upstream gradients or tangents, as `torch.autograd` passes them."""
    if torch._C._functorch.is_legacy_batchedtensor(vector):
        raise NotImplementedError(
            "batches of gradients (is_grads_batched=True, vectorize=True) are not available for functions of ranked "
            "lists: use torch.func.jacrev, jacfwd or hessian, or one pass per gradient"
        )


_VECTORS = {"value": 0, "pull": 1, "push": 1, "bend": 2}


class _Derivative(torch.autograd.Function):
    r"""A derivative of a function $f$, by which autograd may differentiate the scores and the vectors.

    `value`: $f$ itself. `pull`, of upstream gradients $u$ `(m,)`: the gradient $J^T u$ of the scores. `push`, of a
    tangent $v$ `(n_items,)` of the scores: that of the values, $J v$, which is $v^T J^T u$ by $u$. `bend`, of both: the
    Hessian of $u^T f$ times $v$, which is $v^T J^T u$ by the scores. Derivatives of these are among them, so that each
    transform may be applied to the result of another.
    """

    @staticmethod
    def forward(function: Function, kind: str, offsets: Tensor, scores: Tensor, *others: Any) -> Tensor:
        vectors, constants = others[: _VECTORS[kind]], others[_VECTORS[kind] :]
        if kind == "value":
            return function(scores, offsets, *constants)
        with torch.enable_grad():
            leaf = scores.detach().clone().requires_grad_()
            values = function(leaf, offsets, *constants)
            if kind == "pull":
                return _gradient(values, leaf, vectors[0].detach())
            upstream = torch.zeros_like(values).requires_grad_() if kind == "push" else vectors[0].detach()
            pulled = _gradient(values, leaf, upstream, create_graph=True)
        return _gradient(pulled, upstream if kind == "push" else leaf, vectors[-1].detach())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function, ctx.kind, *tensors = inputs
        ctx.n_constants = len(tensors) - 2 - _VECTORS[ctx.kind]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        refuse_batched(given)
        vectors, derive = _context(ctx)
        if ctx.kind == "value":
            by: tuple[Tensor, ...] = (derive("pull", given),)
        elif ctx.kind == "pull":
            by = derive("bend", *vectors, given), derive("push", given)
        elif ctx.kind == "push":
            by = derive("bend", given, *vectors), derive("pull", given)
        else:
            raise _no_third_derivatives()
        return None, None, None, *by, *(None for _ in range(ctx.n_constants))

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, ___: None, tangent: Tensor | None, *others: Tensor | None) -> Any:
        vectors, derive = _context(ctx)
        if ctx.kind == "bend":
            raise _no_third_derivatives()
        if ctx.kind == "push":
            if tangent is not None:
                raise NotImplementedError(
                    "forward mode inside forward mode is not available for functions of ranked lists: for second "
                    "derivatives, use torch.func.hessian or jacfwd(jacrev(...))"
                )
            return derive("push", others[0])
        if ctx.kind == "value":
            scores = ctx.saved_tensors[1]
            tangent = torch.zeros_like(scores) if tangent is None else tangent
            refuse_batched(tangent)
            return derive("push", tangent)
        # The Hessian is symmetric.
        parts = [derive("bend", *vectors, tangent)] if tangent is not None else []
        parts += [derive("pull", others[0])] if others[0] is not None else []
        return sum(parts[1:], start=parts[0]) if parts else torch.zeros_like(ctx.saved_tensors[1])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], function: Function, kind: str, *tensors: Any) -> Any:
        """Evaluate the lists of all batches as those of one."""
        (_, *dims), (offsets, *others), count = in_dims[2:], tensors, info.batch_size
        starts = offsets[-1:] * torch.arange(count, device=offsets.device).unsqueeze(1)
        together = torch.cat([(offsets[:-1] + starts).reshape(-1), offsets[-1:] * count])
        flat = (None if one is None else _copies(one, dim, count) for one, dim in zip(others, dims, strict=True))
        result: Tensor = _Derivative.apply(function, kind, together, *flat)  # type: ignore[no-untyped-call]
        return result.reshape(count, -1), 0


def _context(ctx: Any) -> tuple[tuple[Tensor, ...], Callable[..., Tensor]]:
    """Return the vectors of a derivative, and the function that applies another one, of its own vectors."""
    offsets, scores, *others = ctx.saved_tensors
    n_vectors = _VECTORS[ctx.kind]

    def derive(kind: str, *vectors: Tensor | None) -> Tensor:
        derived: Tensor = _Derivative.apply(ctx.function, kind, offsets, scores, *vectors, *others[n_vectors:])  # type: ignore[no-untyped-call]
        return derived

    return tuple(others[:n_vectors]), derive


def _gradient(values: Tensor, leaf: Tensor, upstream: Tensor, *, create_graph: bool = False) -> Tensor:
    """Return the gradient; zeros where the values don't depend on the leaf."""
    if not values.requires_grad:
        return torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(values, leaf, upstream.to(values), create_graph=create_graph, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def _copies(values: Tensor, dim: int | None, count: int) -> Tensor:
    """Return the batches of a tensor one after the other, or so many copies of one that has none."""
    return (values.expand(count, *values.shape) if dim is None else values.movedim(dim, 0)).reshape(-1)


def _no_third_derivatives() -> NotImplementedError:
    return NotImplementedError(
        "third derivatives of ranking losses and smooth ranks are not available: a gradient can be differentiated once"
    )


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


@torch.library.custom_op(
    "rankbound::loss",
    mutates_args=(),
    schema="(int number, Tensor scores, Tensor relevance, Tensor offsets, Tensor? weights, Tensor? list_weights, "
    "str reduction, bool validate) -> (Tensor, Tensor)",
)
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
