r"""Derivatives of functions of ragged lists, where autograd alone is too slow, or silent.

*In closed form*, for losses: with upstream gradients $u_t$, the gradient of list $t$ is $u_t \nabla L_t$. For
Hessian-vector products and gradient penalties, autograd differentiates its product with a direction $v$ once more: by
$u_t$, which gives $v^T \nabla L_t$, and by the scores, which gives $u_t\, \nabla^2 L_t\, v$.

*Under forward mode and the transforms of `torch.func`*: what these pass has no memory of its own, or a tangent that
code outside PyTorch drops. `through_transforms` calls a function with plain tensors, and derives what the transforms
need from its backward passes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rankbound.lists import ArrayLike, Lists, as_tensor

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
        refuse_batched(upstream)
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
        raise _no_third_derivatives()


Function = Callable[..., Tensor]
"""A function `(scores, offsets, *constants)` of plain tensors, which may be `None`, whose values `(m,)` autograd
differentiates by the scores `(n_items,)`. Two batches of lists, one after the other, have their values in that order.
"""


def through_transforms(function: Function, scores: Tensor, offsets: ArrayLike, *constants: ArrayLike | None) -> Tensor:
    """Return `function(scores, offsets, *constants)` with its first and second derivatives by the scores.

    Under `vmap`, the batches are evaluated in one call, one after the other.

    Raises:
        ValueError: for invalid offsets.
        NotImplementedError: for offsets over which `vmap` maps, for third derivatives, and for forward mode in forward
            mode.
    """
    if isinstance(offsets, Tensor) and torch._C._functorch.is_batchedtensor(offsets):
        raise _no_batch_of_offsets()
    limits = Lists.checked(offsets, len(scores), scores.device).offsets
    others = [None if constant is None else as_tensor(constant, "values") for constant in constants]
    values: Tensor = _Value.apply(function, limits, scores, *others)  # type: ignore[no-untyped-call]
    return values


def refuse_batched(vector: Tensor) -> None:
    """Raise `NotImplementedError` for a batch of upstream gradients or tangents, as `torch.autograd` passes them."""
    if torch._C._functorch.is_legacy_batchedtensor(vector):
        raise NotImplementedError(
            "batches of gradients (is_grads_batched=True, vectorize=True) are not available for functions of ranked "
            "lists: use torch.func.jacrev, jacfwd or hessian, or one pass per gradient"
        )


class _Transformable(torch.autograd.Function):
    """A function of `(function, offsets, scores, *others)`, by which autograd may differentiate the tensors.

    Its derivatives are functions of this kind, so that each transform may be applied to the result of another.
    """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], function: Function, *tensors: Tensor | None) -> Any:
        """Evaluate the lists of all batches as those of one."""
        (of_offsets, *dims), (offsets, *others), count = in_dims[1:], tensors, info.batch_size
        if of_offsets is not None or offsets is None:
            raise _no_batch_of_offsets()
        n_items = offsets[-1:]
        starts = n_items * torch.arange(count, device=offsets.device).unsqueeze(1)
        together = torch.cat([(offsets[:-1] + starts).reshape(-1), n_items * count])
        flat = (
            None if values is None else _copies(values, dim, count) for values, dim in zip(others, dims, strict=True)
        )
        result: Tensor = cls.apply(function, together, *flat)  # type: ignore[no-untyped-call]
        return result.reshape(count, -1), 0


class _Value(_Transformable):
    """The function's values."""

    @staticmethod
    def forward(function: Function, offsets: Tensor, scores: Tensor, *constants: Tensor | None) -> Tensor:
        return function(scores, offsets, *constants)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        refuse_batched(upstream)
        offsets, scores, *constants = ctx.saved_tensors
        pulled = _Pull.apply(ctx.function, offsets, scores, upstream, *constants)  # type: ignore[no-untyped-call]
        return None, None, pulled, *(None for _ in constants)

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, tangent: Tensor | None, *others: Tensor | None) -> Any:
        offsets, scores, *constants = ctx.saved_tensors
        tangent = torch.zeros_like(scores) if tangent is None else tangent
        refuse_batched(tangent)
        return _Push.apply(ctx.function, offsets, scores, tangent, *constants)  # type: ignore[no-untyped-call]


class _Pull(_Transformable):
    r"""The gradient $J^T u$ of the scores, given the upstream gradients $u$ `(m,)`."""

    @staticmethod
    def forward(
        function: Function, offsets: Tensor, scores: Tensor, upstream: Tensor, *constants: Tensor | None
    ) -> Tensor:
        leaf, values = _recorded(function, offsets, scores, constants)
        return _gradient(values, leaf, upstream.detach())

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> Any:
        function, (offsets, scores, upstream, *constants) = ctx.function, ctx.saved_tensors
        bent = _Bend.apply(function, offsets, scores, upstream, direction, *constants)  # type: ignore[no-untyped-call]
        pushed = _Push.apply(function, offsets, scores, direction, *constants)  # type: ignore[no-untyped-call]
        return None, None, bent, pushed, *(None for _ in constants)

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, tangent: Tensor | None, of_upstream: Tensor | None, *others: None) -> Any:
        function, (offsets, scores, upstream, *constants) = ctx.function, ctx.saved_tensors
        total = torch.zeros_like(scores)
        if tangent is not None:
            # The Hessian is symmetric.
            total = total + _Bend.apply(function, offsets, scores, upstream, tangent, *constants)  # type: ignore[no-untyped-call]
        if of_upstream is not None:
            total = total + _Pull.apply(function, offsets, scores, of_upstream, *constants)  # type: ignore[no-untyped-call]
        return total


class _Push(_Transformable):
    r"""The tangent $J v$ of the values, given that of the scores, $v$ `(n_items,)`: $v^T J^T u$ by $u$."""

    @staticmethod
    def forward(
        function: Function, offsets: Tensor, scores: Tensor, tangent: Tensor, *constants: Tensor | None
    ) -> Tensor:
        leaf, values = _recorded(function, offsets, scores, constants)
        upstream = torch.zeros_like(values).requires_grad_()
        with torch.enable_grad():
            pulled = _gradient(values, leaf, upstream, create_graph=True)
        return _gradient(pulled, upstream, tangent.detach())

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        function, (offsets, scores, tangent, *constants) = ctx.function, ctx.saved_tensors
        bent = _Bend.apply(function, offsets, scores, upstream, tangent, *constants)  # type: ignore[no-untyped-call]
        pulled = _Pull.apply(function, offsets, scores, upstream, *constants)  # type: ignore[no-untyped-call]
        return None, None, bent, pulled, *(None for _ in constants)

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, tangent: Tensor | None, of_tangent: Tensor | None, *others: None) -> Any:
        if tangent is not None:
            raise NotImplementedError(
                "forward mode inside forward mode is not available for functions of ranked lists: for second "
                "derivatives, use torch.func.hessian or jacfwd(jacrev(...))"
            )
        offsets, scores, _tangent, *constants = ctx.saved_tensors
        return _Push.apply(ctx.function, offsets, scores, of_tangent, *constants)  # type: ignore[no-untyped-call]


class _Bend(_Transformable):
    r"""The derivative of $v^T J^T u$ by the scores: the Hessian of $u^T f$ times the direction $v$ `(n_items,)`."""

    @staticmethod
    def forward(
        function: Function,
        offsets: Tensor,
        scores: Tensor,
        upstream: Tensor,
        direction: Tensor,
        *constants: Tensor | None,
    ) -> Tensor:
        leaf, values = _recorded(function, offsets, scores, constants)
        with torch.enable_grad():
            pulled = _gradient(values, leaf, upstream.detach(), create_graph=True)
        return _gradient(pulled, leaf, direction.detach())

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        raise _no_third_derivatives()

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        raise _no_third_derivatives()


def _recorded(
    function: Function, offsets: Tensor, scores: Tensor, constants: tuple[Tensor | None, ...]
) -> tuple[Tensor, Tensor]:
    """Return the scores as a leaf, and the function's values with their graph."""
    with torch.enable_grad():
        leaf = scores.detach().clone().requires_grad_()
        return leaf, function(leaf, offsets, *constants)


def _gradient(values: Tensor, leaf: Tensor, upstream: Tensor, *, create_graph: bool = False) -> Tensor:
    """Return the gradient; zeros where the values don't depend on the leaf."""
    if not values.requires_grad:
        return torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(values, leaf, upstream.to(values), create_graph=create_graph, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def _copies(values: Tensor, dim: int | None, count: int) -> Tensor:
    """Return the batches of a tensor one after the other, or so many copies of one that has none."""
    return (values.expand(count, *values.shape) if dim is None else values.movedim(dim, 0)).reshape(-1)


def _no_batch_of_offsets() -> NotImplementedError:
    return NotImplementedError(
        "offsets: vmap maps over them, and lists of other limits have no common shape; pass all lists in one call, "
        "with the offsets of all, or map over scores and relevance alone (in_dims=None for the offsets)"
    )


def _no_third_derivatives() -> NotImplementedError:
    return NotImplementedError(
        "third derivatives of ranking losses and smooth ranks are not available: a gradient can be differentiated once"
    )
