"""What all ranking losses share: `RankingLoss`, whose call returns one loss per list, and weighted sums of losses.

A loss is a class with a `name` whose `of_lists` is its formula in PyTorch, the reference. It may have a compiled
kernel, `_kernel`, which is used instead where it can be (`_run_kernel` decides). Second derivatives are by the
reference.

A step on a batch of short lists takes some fifty microseconds, and each operation of PyTorch one to four. What a kernel
needs and is neither kept nor returned is therefore computed by NumPy, and tensors are made of its arrays.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from rankbound import gradients
from rankbound import lists as checks
from rankbound.gradients import hessian_product, through_transforms, with_derivatives, with_gradient
from rankbound.kernels import LEFT, Array, GpuKernel, Kernel, usable, usable_on_gpu
from rankbound.lists import STORED_ONLY, ArrayLike, Lists, waiting
from rankbound.smooth_ranks import joined
from rankbound.texts import require_one_of, text_of

if TYPE_CHECKING:
    from rankbound.bounds.extremes import Facts

Reduction = Literal["none", "mean", "sum"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Reference = Callable[..., Tensor]
"""The function of scores, relevance, lists, and perhaps weights, that a kernel computes, differentiable twice."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
_NO_CURVATURE: Array = np.empty(0)

# Whether kernels in Triton can be relied on, by the text of their loss, the scores' dtype and the device. Their tests
# ran in Triton's interpreter, on no GPU. The first time that a loss is computed on a device, its kernel is therefore
# compared with the formula, which is used, with a warning, where the kernel cannot be compiled or differs.
_RELIABLE: dict[Any, bool] = {}

# Numbers of items of the lists by which a kernel is compared with its formula: within a tile, at its end, beyond.
COMPARED = (1, 5, 32, 70, 0, 2)
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}


class RankingLoss(nn.Module, ABC):
    """A ranking loss, with one value to minimise per list of a batch.

    In all losses, an uninformative list (see `informative`) has loss 0 and gradient 0, never NaN. To average, divide by
    the number of informative lists. Losses can be added and multiplied by numbers from 0.

    Other methods than the call check nothing. They take `scores` `(n_items,)` in single or double precision,
    `relevance` `(n_items,)` of grades from 0, the `lists` as their limits, and possibly `weights` `(n_items,)` from 0
    and the `facts` of these lists, if they are known (the method of this name). The results are tensors `(n_lists,)` if
    nothing else is said.

    Attributes:
        name: the name that begins the loss's text; a class without one is not found by `rankbound.loss`.

    >>> loss = 0.7 * rb.loss("nDCG") + 0.3 * rb.loss("RankNet")
    >>> loss(torch.tensor([0.3, 0.1, 0.2]), [0, 1, 0], [0, 3])
    tensor([-0.2006])
    """

    name: ClassVar[str]
    _without_draws: str = ""
    """What a loss that draws in each call has in place of it, for transforms, which repeat calls."""

    def __init__(self) -> None:
        super().__init__()
        self._number = gradients.numbered(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._number = gradients.numbered(self)

    def forward(
        self,
        scores: Tensor,
        relevance: ArrayLike,
        offsets: "ArrayLike | Lists | None" = None,
        *,
        weights: ArrayLike | None = None,
        list_weights: ArrayLike | None = None,
        mask: Any = None,
        lengths: Any = None,
        reduction: Reduction = "none",
        validate: bool = True,
    ) -> Tensor:
        r"""Return the loss of each list, `(n_lists,)`; 0, without a gradient, for uninformative lists.

        Args:
            scores: `(n_items,)`, floating point and finite. Half precision is converted to single precision.
            relevance: `(n_items,)`, grades from 0; constants, as weights are: they receive no gradient.
            offsets: `(n_lists + 1,)`, the lists' limits, or `rb.Lists`. Without them, flat arguments are one list,
                padded ones `(n_lists, longest)` have all their items, or those of `mask` or `lengths`, and sequences of
                sequences one for each list.
            weights: `(n_items,)`, $w_i \ge 0$, which multiply the items' terms of the loss (`ItemSum`) or, in losses of
                nDCG, DCG and CG, the items' gains; inverse propensities of clicks, for example.
            list_weights: `(n_lists,)`, $v_t \ge 0$, by which the lists' losses are multiplied.
            mask: `(n_lists, longest)`, boolean, true at the items of padded `scores`, `relevance` and `weights`; or
            lengths: `(n_lists,)`, the number of items at the beginning of each of their rows.
            reduction: `none`; `sum`, $\sum_t v_t L_t$; or `mean`, the sum divided by the number of informative lists
                (0 if there are none).
            validate: compare offsets, scores and relevance with what is expected. On a GPU, every comparison waits for
                it; without them, invalid values give wrong losses, and invalid offsets may read other memory. Lengths,
                devices and types are always compared, and offsets on a CPU. With `validate=False`, a call waits for a
                GPU only at the first sight of `rb.Lists` (passed as the offsets) and, for bounds, of a tensor of
                relevance; and always for masks and lengths, bounds with weights of items, `WARP(samples=...)`,
                LambdaRank and LambdaLoss of more than 200 million pairs, and distributions of more than 20 million
                scores.

        Returns:
            A tensor `(n_lists,)`, or one number for `sum` and `mean`.

        Raises:
            ValueError: for arguments of different lengths or devices, invalid offsets, scores that are NaN or infinite,
                relevance below 0, weights that are negative, NaN or infinite, weights of items for a loss that has
                neither such terms nor gains, or an unknown reduction.
        """
        require_one_of("reduction", reduction, REDUCTIONS)
        if torch.compiler.is_compiling():
            given = scores, relevance, offsets, weights, list_weights
            is_flat = offsets is not None and mask is None and lengths is None
            # The operator has no derivatives by what a loss learns.
            if is_flat and all(one is None or isinstance(one, Tensor) for one in given) and not [*self.parameters()]:
                return gradients.traced_loss(self._number, *given, reduction, validate)
            options = {"weights": weights, "list_weights": list_weights, "mask": mask, "lengths": lengths}
            eager = torch.compiler.disable(self.forward)  # type: ignore[no-untyped-call]
            untraced: Tensor = eager(scores, relevance, offsets, **options, reduction=reduction, validate=validate)
            return untraced
        if offsets is None or mask is not None or lengths is not None:
            offsets, flat = checks.laid_out(offsets, mask, lengths, scores=scores, relevance=relevance, weights=weights)
            scores, relevance, weights = flat["scores"], flat["relevance"], flat["weights"]
        if not isinstance(scores, Tensor):
            raise ValueError(
                f"scores: found {type(scores).__name__}, expected a torch.Tensor, through which gradients flow; to "
                "evaluate other arrays, call a metric"
            )

        def losses_of(x: Tensor, limits: Any, y: Any, w: Any, v: Any, how: Reduction = "none") -> Tensor:
            fused = self._fused(x, y, limits, how) if w is None and v is None else None
            if fused is not None:
                return fused
            grades, lists = self._prepared(x, y, limits, validate)
            reads = nullcontext() if validate or x.is_cpu else waiting(False)
            # Autocast and half precision would lose the differences between scores.
            with reads, torch.autocast(x.device.type, enabled=False):
                exact = at_least_single(x)
                w = None if w is None else checks.weights_of(w, "weights", len(x), exact)
                on_gpu = self._on_gpu(exact, grades, lists, w)
                if on_gpu is not None:
                    losses = on_gpu
                elif w is None:
                    losses = self.of_lists(exact, grades, lists)
                else:
                    losses = self.of_weighted_lists(exact, grades, lists, w)
                if v is not None:
                    losses = losses * checks.weights_of(v, "list_weights", len(lists), losses)
                return reduced(attached(losses, x, lists), how, partial(self.informative, grades, lists))

        def informative_of(x: Tensor, limits: Tensor, y: Tensor) -> Tensor:
            return self.informative(y, Lists(limits)).to(at_least_single(x).dtype)

        if not checks.is_transformed():
            return losses_of(scores, offsets, relevance, weights, list_weights, reduction)
        if self._without_draws:
            raise NotImplementedError(
                f"{self.text}: forward mode and transforms of torch.func evaluate a loss several times, each with "
                f"other draws; use {self._without_draws}, or backward()"
            )
        losses = through_transforms(losses_of, scores, offsets, relevance, weights, list_weights)
        return reduced(losses, reduction, partial(through_transforms, informative_of, scores, offsets, relevance))

    def _prepared(
        self, scores: Tensor, relevance: ArrayLike, offsets: ArrayLike, validate: bool
    ) -> tuple[Tensor, Lists]:
        """Return the relevance and the lists; raise what `forward` raises, and warn of relevance in fractions."""
        n_items = len(checks.as_tensor(scores, "scores"))
        grades = checks.as_tensor(relevance, "relevance", n_items, scores.device).detach()
        if not scores.is_floating_point():
            raise ValueError(f"scores: found dtype {scores.dtype}, expected floating point")
        if validate:
            checks.require_grades(grades)
            checks.require_finite(scores)
        lists = Lists.checked(offsets, len(scores), scores.device, values=validate)
        if validate and checks.are_fractions(grades):
            checks.warn_of_fractions(self.text, grades, partial(self.informative, lists=lists))
        return grades, lists

    @abstractmethod
    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        """Return the loss of each list."""

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        """Return the loss of each list with weights of items; refused by default.

        Raises:
            ValueError: for a loss that has neither terms nor gains of single items.
        """
        raise ValueError(
            f"weights: found weights of items for {self.text}, which has neither terms nor gains of single items; "
            "expected a pointwise, pairwise or softmax loss, ListMLE, or one of nDCG or DCG; lists can be weighted by "
            "list_weights"
        )

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        """Return a mask of the informative lists; by default those with a relevant item."""
        return lists.max(relevance) > 0 if len(relevance) else torch.zeros_like(lists.sizes, dtype=torch.bool)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        """Return the diagonal of each list's Hessian, `(n_items,)`, without a gradient; None without a closed form.

        Tree boosting divides by it (`rankbound.boosting_objective`). A loss has a closed form or none, whatever the
        arguments; the default is none.
        """
        return None

    def facts(self, relevance: Tensor, lists: Lists) -> "Facts | None":
        """Return what a bounded loss knows about lists from their relevance, for `of_batch`; None for other losses.

        A trainer that meets the lists in every epoch makes them once; they are computed when they are asked for, and
        `select(index)` returns those of some of the lists.
        """
        return None

    def informative_by(self, facts: "Facts | None", relevance: Tensor, lists: Lists) -> Tensor:
        """Return the mask of `informative`, from the `facts` of these lists if the loss has any."""
        return self.informative(relevance, lists)

    def of_batch(self, scores: Tensor, relevance: Tensor, lists: Lists, facts: "Facts | None" = None) -> Tensor:
        """Return the losses of `of_lists`, by a compiled kernel where there is one (`rankbound.kernels`).

        They are differentiable twice where those of `of_lists` are.
        """
        losses = self._fused(scores, relevance, lists.offsets, facts=facts)
        if losses is None:
            losses = self._on_gpu(scores, relevance, lists, facts=facts)
        if losses is None:
            known = () if facts is None else (facts,)
            losses = attached(self.of_lists(scores, relevance, lists, *known), scores, lists)
        return losses

    def derivatives(
        self, scores: Tensor, relevance: Tensor, lists: Lists, facts: "Facts | None" = None, *, second: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Return the gradient and the `curvature` of each list, without gradients; by one compiled kernel if possible.

        Args:
            second: compute the curvature, too.

        Returns:
            Two tensors `(n_items,)`; None for the curvature without `second` or a closed form.
        """
        fused = self._fused_derivatives(scores, relevance, lists) if second else None
        if fused is not None:
            return fused
        leaf = scores.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.of_batch(leaf, relevance, lists, facts).sum(), leaf)
        return gradient, self.curvature(scores, relevance, lists) if second else None

    _kernel_has_curvature: ClassVar[bool] = False
    """True if the kernel takes an array for second derivatives, too, after its other parameters; empty for none."""

    def _kernel(self, dtype: torch.dtype) -> Kernel | None:
        """Return the compiled kernel for scores of a dtype, where kernels are usable; none by default."""
        return None

    def _gpu_kernel(self) -> GpuKernel | None:
        """Return the kernel in Triton, where Triton is installed; none by default."""
        return None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for kind in cls.__mro__:
            if not {"_kernel", "_target"}.isdisjoint(vars(kind)):
                return
            if any(callable(value) and not name.startswith("__") for name, value in vars(kind).items()):
                # Methods of a class below the one that defines the kernels may change the loss.
                cls._kernel = RankingLoss._kernel  # type: ignore[method-assign]
                cls._gpu_kernel = RankingLoss._gpu_kernel  # type: ignore[method-assign]
                return

    def _fused(
        self,
        scores: Tensor,
        relevance: ArrayLike,
        offsets: ArrayLike,
        reduction: Reduction = "none",
        facts: "Facts | None" = None,
        *,
        reference: Reference | None = None,
        exact: bool = False,
    ) -> Tensor | None:
        """Return the losses, reduced, by the compiled kernel; None where there is none, or for what it refuses.

        They are in the scores' precision, at least single, or, if `exact`, in double precision. The kernel's
        `reference` is `of_lists` by default.
        """
        reference = self.of_lists if reference is None else reference
        computed = self._run_kernel(scores, relevance, offsets, reference)
        # Without any informative list, the reference sees whether a warning is due.
        if computed is None or computed[0] == 0:
            return None
        count, of_lists, slopes, grades, limits = computed
        share = None if reduction == "none" else 1.0 / count if reduction == "mean" else 1.0
        values = of_lists if share is None else np.add.reduce(of_lists) * share
        values = np.asarray(values, np.float64 if exact else _NUMPY.get(scores.dtype, np.float32))
        if not (scores.requires_grad and torch.is_grad_enabled()):
            return torch.from_numpy(values)

        def pull(upstream: Tensor) -> Tensor:
            gradient = np.empty(len(slopes), _NUMPY.get(scores.dtype, np.float64))
            if share is None:
                from rankbound.kernels.losses import times_upstream

                product = np.empty_like(slopes)
                times_upstream(upstream.detach().to(torch.float64).contiguous().numpy(), slopes, limits, product)
                gradient[:] = product
            else:
                # Rounded once, while it is written.
                np.multiply(slopes, float(upstream) * share, out=gradient, casting="same_kind")
            return torch.from_numpy(gradient)

        def bend(upstream: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
            lists = Lists(torch.from_numpy(limits))
            of_lists = upstream if share is None else (upstream * share).expand(len(lists))
            product = hessian_product(reference, scores, torch.from_numpy(grades), lists, direction)
            along = lists.sum(direction * torch.from_numpy(slopes))
            return lists.spread(of_lists) * product, along if share is None else along.sum() * share

        return with_derivatives(scores, values, pull, bend)

    def _fused_derivatives(self, scores: Tensor, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor] | None:
        """Return the gradient and the curvature by a compiled kernel; None without one, or for what it refuses."""
        if not self._kernel_has_curvature:
            return None
        curvature = np.empty(len(scores))
        computed = self._run_kernel(scores, relevance, lists.offsets, curvature=curvature)
        if computed is None:
            return None
        return torch.from_numpy(computed[2]).to(scores.dtype), torch.from_numpy(curvature).to(scores.dtype)

    def _run_kernel(
        self,
        scores: Tensor,
        relevance: ArrayLike,
        offsets: ArrayLike,
        reference: Reference | None = None,
        curvature: Array = _NO_CURVATURE,
    ) -> tuple[int, Array, Array, Array, Array] | None:
        """Return what the kernel returns and writes, and copies of relevance and offsets; None for what it refuses.

        Lists that it leaves to the reference are computed by it, or refused without one.
        """
        kernel = self._kernel(scores.dtype) if scores.is_cpu and scores.is_floating_point() and usable() else None
        if kernel is None:
            return None
        x, y, limits = _flat(scores), _flat(relevance), _flat(offsets)
        if x is None or y is None or limits is None or limits.dtype.kind not in "iu":
            return None
        # Copies, since a caller may write to the arguments before the backward pass.
        y, limits = y.astype(np.float64), limits.astype(np.int64)
        of_lists, slopes = np.empty(max(len(limits) - 1, 0)), np.empty(len(x))
        run, *numbers = (*kernel, curvature) if self._kernel_has_curvature else kernel
        count = run(np.ascontiguousarray(x, np.float64), y, limits, *numbers, of_lists, slopes)
        if count < -1 and reference is not None:
            count, left, sizes = -2 - count, of_lists == LEFT, np.diff(limits)
            items = np.repeat(left, sizes)
            with torch.enable_grad(), torch.autocast("cpu", enabled=False):
                leaf = at_least_single(torch.from_numpy(x[items]).to(scores.dtype)).requires_grad_()
                values = reference(leaf, torch.from_numpy(y[items]), Lists.of_sizes(torch.from_numpy(sizes[left])))
                (gradient,) = torch.autograd.grad(values.nansum(), leaf)
            of_lists[left], slopes[items] = values.detach().numpy(), gradient.numpy()
        return None if count < 0 else (count, of_lists, slopes, y, limits)

    def _on_gpu(
        self,
        scores: Tensor,
        relevance: Tensor,
        lists: Lists,
        weights: Tensor | None = None,
        facts: "Facts | None" = None,
        *,
        reference: Reference | None = None,
    ) -> Tensor | None:
        """Return the losses by the kernel in Triton, differentiable twice; None where there is none.

        Lists that are too long for the kernel take its `reference`, in whose double precision the result then is; by
        default, it is the loss's formula, and the result has the scores' precision.
        """
        kernel = self._gpu_kernel() if usable_on_gpu(scores.is_cuda) else None
        if kernel is None:
            return None

        def formula(x: Tensor, y: Tensor, own: Lists, w: Tensor | None = None) -> Tensor:
            if reference is not None:
                return reference(x, y, own)
            return self.of_lists(x, y, own) if w is None else self.of_weighted_lists(x, y, own, w)

        longest, key = kernel[1], (self.full_text, scores.dtype, scores.device)
        if key not in _RELIABLE:
            _RELIABLE[key] = _is_reliable(self.full_text, kernel, formula, scores)
        # The limits of lists are read for kernels that need them alone.
        is_long = np.diff(lists.limits) > longest if longest < np.inf else np.zeros(len(lists), np.bool_)
        if not _RELIABLE[key] or (is_long.all() and len(lists) and longest < np.inf):
            return None

        def losses_of(long: bool, items: Tensor | slice, own: Lists) -> Tensor:
            share = scores[items], relevance[items], own, None if weights is None else weights[items]
            return (formula(*share) if long else _by_kernel(kernel, formula, *share)).to(torch.float64)

        shares = lists._shares(is_long)
        places = [lists._places(is_long == long) for long, _, _ in shares]
        losses = joined([losses_of(*share) for share in shares], places)
        return losses if reference is not None else losses.to(scores.dtype)

    def count_informative(self, relevance: ArrayLike, offsets: ArrayLike) -> Tensor:
        r"""Return the number of informative lists, by which the reduction `mean` divides; int64, without dimensions.

        The mean over the informative lists of several batches $b$, on one device or on several, is

        $$\frac{\sum_b \sum_{t \in b} L_t}{\max(1, \sum_b n_b)}$$

        with the sums $\sum_{t \in b} L_t$ of the reduction `sum` and these numbers $n_b$.

        Args:
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Returns:
            The number of informative lists.

        Raises:
            ValueError: for relevance below 0 or invalid offsets.
        """
        grades = checks.as_tensor(relevance, "relevance")
        checks.require_grades(grades)
        return self.informative(grades, Lists.checked(offsets, len(grades), grades.device)).sum()

    @property
    def text(self) -> str:
        """The text that names the loss, from which `rankbound.loss` rebuilds it."""
        return text_of(self) if hasattr(type(self), "name") else type(self).__name__

    @property
    def full_text(self) -> str:
        """The text, or the representation of a loss whose text leaves out its bound and temperature."""
        return self.text if self.text == self.extra_repr() else str(self)

    def extra_repr(self) -> str:
        return self.text

    def __mul__(self, factor: float) -> "RankingLoss":
        return WeightedSum([(factor, self)]) if isinstance(factor, int | float) else NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: "RankingLoss") -> "RankingLoss":
        return WeightedSum([(1.0, self), (1.0, other)]) if isinstance(other, RankingLoss) else NotImplemented

    def __radd__(self, other: int) -> "RankingLoss":
        # `sum` begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    if TYPE_CHECKING:
        # Calls have the arguments of `forward`.
        __call__ = forward


class ItemSum(RankingLoss):
    r"""A loss $\sum_i w_i L_i$ over the items of a list, where $w_i = 1$ without weights.

    The weights are in no normaliser, so that the loss is linear in them: with the inverse propensities of clicks, its
    expectation is the loss of the relevance that the clicks show. A subclass says what its terms are.
    """

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return self.of_weighted_lists(scores, relevance, lists, None)

    @abstractmethod
    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None) -> Tensor:
        """Return the loss of each list, `(n_lists,)`; `weights` has shape `(n_items,)`, and None means 1."""


class WeightedSum(RankingLoss):
    r"""The sum $\sum_k a_k L_k$ of losses, written as `0.7 * rb.loss("nDCG") + 0.3 * rb.loss("RankNet")`.

    A list is informative if it is so for one of the losses.

    Args:
        terms: pairs of a factor $a_k \ge 0$ and a loss; a sum among them is replaced by its terms.

    Raises:
        ValueError: for a factor that is negative, NaN or infinite, or without terms.
    """

    def __init__(self, terms: Sequence[tuple[float, RankingLoss]]) -> None:
        super().__init__()
        flat = [
            (factor * inner, part)
            for factor, term in terms
            for inner, part in (term.terms if isinstance(term, WeightedSum) else [(1.0, term)])
        ]
        wrong = [factor for factor, _ in flat if not 0 <= factor < float("inf")]
        if wrong or not flat:
            raise ValueError(f"terms: found {[*wrong, 'none'][0]}, expected losses with finite factors from 0")
        self.factors = tuple(float(factor) for factor, _ in flat)
        self.losses = nn.ModuleList(part for _, part in flat)

    @property
    def terms(self) -> list[tuple[float, RankingLoss]]:
        """The factors with their losses."""
        return [(factor, part) for factor, part in zip(self.factors, self.losses, strict=True)]  # type: ignore[misc]

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.stack([factor * part.of_batch(scores, relevance, lists) for factor, part in self.terms]).sum(0)

    def of_weighted_lists(self, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor) -> Tensor:
        parts = [factor * part.of_weighted_lists(scores, relevance, lists, weights) for factor, part in self.terms]
        return torch.stack(parts).sum(0)

    def curvature(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor | None:
        """Return the sum of the terms' curvatures; None unless all have one."""
        parts = [(factor, part.curvature(scores, relevance, lists)) for factor, part in self.terms]
        known = [factor * curvature for factor, curvature in parts if curvature is not None]
        return torch.stack(known).sum(0) if len(known) == len(parts) else None

    def informative(self, relevance: Tensor, lists: Lists) -> Tensor:
        masks = [part.informative(relevance, lists) for factor, part in self.terms if factor]
        return torch.stack(masks).any(0) if masks else torch.zeros(len(lists), dtype=torch.bool, device=lists.device)

    @property
    def text(self) -> str:
        """The terms with their factors, for people; `rankbound.loss` doesn't read sums."""
        texts = [(factor, part.full_text) for factor, part in self.terms]
        return " + ".join(text if factor == 1 else f"{factor:g} * {text}" for factor, text in texts)

    @property
    def temperature(self) -> float:
        """The smallest temperature of the terms; 1 for terms without one."""
        return min((getattr(part, "temperature", 1.0) for factor, part in self.terms if factor), default=1.0)


def reduced(losses: Tensor, reduction: Reduction, informative: Callable[[], Tensor]) -> Tensor:
    """Return the losses, their sum, or their mean over the lists of the mask `informative()`."""
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / informative().sum().clamp(min=1)


def times(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return `values * weights`, or the values themselves without weights."""
    return values if weights is None else values * weights


def at_least_single(scores: Tensor) -> Tensor:
    """Convert half-precision scores, as produced under autocast, to single precision; return others unchanged."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _flat(values: ArrayLike) -> Array | None:
    """Return flat real numbers on the CPU as an array that shares their memory; None for anything else."""
    if not isinstance(values, Tensor) or values.dtype in STORED_ONLY:
        try:
            values = checks.as_tensor(values, "values")
        except ValueError:
            return None
    if values.dim() != 1 or not values.is_cpu or values.is_complex():
        return None
    detached = values.detach() if values.requires_grad else values
    return (detached.to(torch.float64) if values.dtype == torch.bfloat16 else detached).numpy()


def attached(losses: Tensor, scores: Tensor, lists: Lists) -> Tensor:
    """Return the losses with a gradient of 0 if they don't depend on the scores, as without any informative list."""
    if losses.requires_grad or not (scores.requires_grad and torch.is_grad_enabled()):
        return losses
    return with_gradient(scores, losses, torch.zeros_like(scores, dtype=losses.dtype), lists, torch.zeros_like)


def _by_kernel(
    kernel: GpuKernel, formula: Reference, scores: Tensor, relevance: Tensor, lists: Lists, weights: Tensor | None
) -> Tensor:
    """Return the losses of a kernel, float64 `(n_lists,)`, differentiable twice by the scores."""
    with torch.no_grad():
        losses, slopes = kernel[0](scores.detach(), relevance, lists, weights)

    def product(direction: Tensor) -> Tensor:
        return hessian_product(partial(formula, w=weights), scores, relevance, lists, direction)

    return with_gradient(scores, losses, slopes, lists, product)


def _is_reliable(text: str, kernel: GpuKernel, formula: Reference, like: Tensor) -> bool:
    """Return true if the kernel has the formula's values and slopes for scores `like` these; otherwise warn."""
    lists = Lists.of_sizes(torch.tensor(COMPARED, device=like.device))
    place = lists.position
    x = torch.sin(2.7 * torch.arange(lists.n_items, device=like.device).to(like)).mul(4).round() / 2
    graded = torch.where(place % 4 == 1, 1 + place % 3, 0)
    compared, flaw = 0, ""
    with waiting(True):
        for y in (graded, (place == 0).to(graded)):
            try:
                expected = _differentiated(partial(formula, w=None), x, y, lists)
            except ValueError:
                # A loss may refuse lists of several relevant items.
                continue
            try:
                found = _differentiated(partial(_by_kernel, kernel, formula, weights=None), x, y, lists)
            except Exception as error:
                flaw = f"cannot be used ({type(error).__name__}: {str(error)[:300]})"
                break
            compared += 1
            for one, other in zip(found, expected, strict=True):
                limit = TOLERANCES[like.dtype] * float(other.nan_to_num().abs().max().clamp(min=1e-3))
                if not torch.allclose(one, other.to(one), rtol=0, atol=limit, equal_nan=True):
                    flaw = "has other values than the formula"
    if flaw:
        warnings.warn(
            f"{text}: its kernel in Triton {flaw} for {like.dtype} scores on {like.device}; PyTorch's formula is used, "
            "which takes longer; RANKBOUND_FAST=0 switches kernels off, and this warning",
            stacklevel=2,
        )
    return compared > 0 and not flaw


def _differentiated(function: Reference, scores: Tensor, relevance: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = scores.clone().requires_grad_()
        losses = function(leaf, relevance, lists)
        return losses.detach(), torch.autograd.grad(losses.nansum(), leaf)[0]
