r"""Smooth ranks (thesis eq. 2.9): sums of smooth steps of score differences, which have gradients.

The step $\sigma$ is the sigmoid. Both methods, sums over pairs and interpolation, share one backward pass. With
$x = s/\tau$ and upstream gradients $g$ of $R_i = 1 + \sum_{j \ne i} w_j \sigma(x_j - x_i)$, and as $\sigma'$ is even,

$$\partial L/\partial x_i = w_i \sum_j g_j\, \sigma'(x_i - x_j) - g_i \sum_j w_j\, \sigma'(x_i - x_j).$$
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rankbound.gradients import last_derivative, refuse_batched, through_transforms
from rankbound.interpolation import InterpolatedSums
from rankbound.kernel_sums import Share, kernel_sums, require_method, shares_of
from rankbound.kernels import SIGMOID_CURVATURE, SIGMOID_SLOPE, Kernel
from rankbound.lists import ArrayLike, Lists, Weights, as_floating, as_tensor, is_transformed, require_finite
from rankbound.pairs import pair_sums


class Sums(Protocol):
    """A method to sum a smooth step of score differences over the items of each list, for given target items.

    There is one vector of weights, `(n_items,)`, per kind of rank.
    """

    def ranks(self, weights: Weights) -> Tensor:
        """Return the sums of `weights[j] * step(x[j] - x[i])` over `j`, a column per kind: `(n_targets, c)`."""

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        """Return the gradient by `x = scores / temperature`, `(n_items,)`, given `upstream` `(n_targets, c)`."""


def smooth_rank(
    scores: ArrayLike,
    offsets: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    temperature: float = 1.0,
    method: str = "auto",
) -> Tensor:
    r"""Return differentiable ranks of all items of ragged lists, in near-linear time (thesis eq. 2.9).

    $$\tilde R_i = 1 + \sum_{j \ne i} w_j\, \sigma\!\left(\frac{s_j - s_i}{\tau}\right)$$

    $\sigma$ is the logistic function. Sums of smooth steps in linear time by an approximation are due to Raykar et al.
    (2008).

    Args:
        scores: `(n_items,)`, finite; higher is better.
        offsets: `(n_lists + 1,)`, the lists' limits in `scores`.
        weights: `(n_items,)`, $w$; 1 if omitted. With relevance as the weights, the ranks are those among the relevant
            items. Weights are constants: they receive no gradient.
        temperature: $\tau > 0$, in units of the scores.
        method: `"direct"` sums over all pairs of a list; `"interpolated"` needs time and memory linear in the number of
            items, with relative errors below 1e-6; `"auto"` selects the faster one.

    Returns:
        `(n_items,)`, the ranks in the scores' type, differentiable twice with respect to `scores`.

    Raises:
        ValueError: for arguments of different lengths, invalid offsets, scores that aren't finite, an unknown method,
            or a temperature that isn't above 0.

    >>> rb.smooth_rank(torch.tensor([2.0, 0.0, -1.0]), torch.tensor([0, 3]))
    tensor([1.1666, 2.1497, 2.6836])
    """
    flat = as_floating(as_tensor(scores, "scores"))

    def ranks_of(x: Tensor, limits: ArrayLike, w: ArrayLike | None) -> Tensor:
        lists = Lists.checked(limits, len(x), x.device)
        require_finite(x)
        # Sums of pairs in half precision would lose the gradient.
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        weight = None if w is None else as_tensor(w, "weights", len(x)).to(exact).detach()
        ranks = smooth_ranks_of(exact, lists, (weight,), temperature=temperature, method=method)
        return ranks.squeeze(1).to(x.dtype)

    return (
        through_transforms(ranks_of, flat, offsets, weights) if is_transformed() else ranks_of(flat, offsets, weights)
    )


def smooth_ranks_of(
    scores: Tensor,
    lists: Lists,
    weights: Weights,
    *,
    targets: Tensor | None = None,
    temperature: float = 1.0,
    method: str = "auto",
) -> Tensor:
    """Return the smooth ranks of the items `targets` (ascending indices; all if `None`), a column per weight vector.

    Shapes: scores and each vector of weights `(n_items,)`, result `(n_targets, c)`, float64: gradients are differences
    of sums over all ranks, of which single precision would leave few digits.
    """
    if targets is None:
        targets = torch.arange(len(scores), device=scores.device)
    require_method(method, temperature)
    shares = shares_of(scores.detach(), lists, targets, len(weights), temperature, method)
    # Autocast would halve the precision of the scores' differences, too little for small ranks.
    with torch.autocast(scores.device.type, enabled=False):
        weights = tuple(None if weight is None else weight.to(torch.float64) for weight in weights)
        problem = _Problem(lists, weights, targets, temperature, method, shares)
        ranks: Tensor = _SmoothRanks.apply(scores, problem)  # type: ignore[no-untyped-call]
    return ranks


@dataclass(frozen=True)
class _Problem:
    """The ranks of the items `targets` as a function of the scores."""

    lists: Lists
    weights: Weights
    targets: Tensor
    temperature: float
    method: str
    shares: Sequence[Share]

    def sums(self, scores: Tensor) -> "_SharedSums":
        """Return the sums of the step by the chosen methods, computed in float64."""
        exact = scores.to(torch.float64)
        return _SharedSums(self.shares, [self._of_share(share, share.of_items(exact)) for share in self.shares])

    def _of_share(self, share: Share, scores: Tensor) -> Sums:
        if share.method == "direct":
            return pair_sums(scores, share.lists, share.own_targets, self.temperature)
        return InterpolatedSums(scores, share.lists, share.own_targets, self.temperature)

    def by_scores_and_upstream(self, scores: Tensor, upstream: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the derivatives of $v^T \partial L/\partial s$ by the scores and by the upstream gradients $g$.

        With $x = s/\tau$ and the slope along the direction, $\sum_i g_i \sum_j w_j \sigma'(x_j - x_i)(v_j - v_i)$:

        $$\partial/\partial x_k = w_k \sum_i g_i\, \sigma''(x_k - x_i)(v_k - v_i)
          - g_k \sum_j w_j\, \sigma''(x_j - x_k)(v_j - v_k).$$
        """
        # In double precision: the terms of near-ties almost cancel.
        x, v = scores.to(torch.float64), direction.to(torch.float64)
        w = [torch.ones_like(x) if weight is None else weight.to(x) for weight in self.weights]
        g = [x.new_zeros(len(x)).index_copy(0, self.targets, column.to(x)) for column in upstream.unbind(1)]
        wv, gv = [weight * v for weight in w], [push * v for push in g]

        slopes = self._sums(x, SIGMOID_SLOPE, (*w, *wv), self.targets)
        by_upstream = slopes[:, len(w) :] - v.index_select(0, self.targets)[:, None] * slopes[:, : len(w)]
        bends = self._sums(x, SIGMOID_CURVATURE, (*w, *wv, *g, *gv), None).unbind(1)
        by_scores = torch.zeros_like(x)
        for one, push, of_w, of_wv, of_g, of_gv in zip(w, g, *_parts(bends, len(w)), strict=True):
            # The curvature of the step is odd.
            by_scores += one * (of_gv - v * of_g) - push * (of_wv - v * of_w)
        by_scores.masked_fill_(self.lists.spread(self.lists.sizes == 1), 0.0)
        by_scores, by_upstream = by_scores / self.temperature**2, by_upstream / self.temperature
        return by_scores.to(scores.dtype), by_upstream.to(upstream.dtype)

    def _sums(self, scores: Tensor, kernel: Kernel, weights: tuple[Tensor, ...], targets: Tensor | None) -> Tensor:
        return kernel_sums(
            scores, self.lists, kernel, weights, targets=targets, temperature=self.temperature, method=self.method
        )


@dataclass(frozen=True)
class _SharedSums:
    """The sums of all lists, each by the method of its share; implements `Sums`."""

    shares: Sequence[Share]
    sums: Sequence[Sums]

    def ranks(self, weights: Weights) -> Tensor:
        parts = [
            sums.ranks(tuple(map(share.of_items, weights))) for share, sums in zip(self.shares, self.sums, strict=True)
        ]
        return _joined(parts, [share.targets for share in self.shares])

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        parts = [
            sums.gradient(tuple(map(share.of_items, weights)), upstream[share.targets])
            for share, sums in zip(self.shares, self.sums, strict=True)
        ]
        return _joined(parts, [share.items for share in self.shares])


def _joined(parts: Sequence[Tensor], places: Sequence[Tensor | slice]) -> Tensor:
    """Return the parts as one tensor, in whose rows `places` they stand."""
    if len(parts) == 1:
        return parts[0]
    joined = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for part, place in zip(parts, places, strict=True):
        joined[place] = part
    return joined


class _SmoothRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, problem: _Problem) -> Tensor:
        sums = problem.sums(scores)
        ranks = sums.ranks(problem.weights)
        # The sums include the item itself, which adds half its weight.
        for column, weight in zip(ranks.unbind(1), problem.weights, strict=True):
            column += 0.5 if weight is None else 1 - weight.index_select(0, problem.targets) / 2
        ctx.save_for_backward(scores)
        ctx.sums, ctx.problem = sums, problem
        return ranks

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        refuse_batched(upstream)
        (scores,) = ctx.saved_tensors
        return _RankGradient.apply(scores, upstream, ctx.sums, ctx.problem), None  # type: ignore[no-untyped-call]


class _RankGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, upstream: Tensor, sums: Sums, problem: _Problem) -> Tensor:
        gradient = sums.gradient(problem.weights, upstream)
        alone = problem.lists.sizes == 1
        if bool(alone.any()):
            # The rank of a lone item is 1 whatever its score; its two terms cancel only up to rounding.
            gradient = gradient.masked_fill(problem.lists.spread(alone), 0.0)
        if problem.temperature != 1:
            gradient = gradient / problem.temperature
        ctx.save_for_backward(scores, upstream)
        ctx.problem = problem
        return gradient.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> Any:
        scores, upstream = ctx.saved_tensors
        with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
            seconds = ctx.problem.by_scores_and_upstream(scores, upstream, direction)
        return *last_derivative(seconds, scores, upstream, direction), None, None


def _parts(columns: tuple[Tensor, ...], size: int) -> list[tuple[Tensor, ...]]:
    return [columns[start : start + size] for start in range(0, len(columns), size)]
