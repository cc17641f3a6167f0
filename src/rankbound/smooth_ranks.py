r"""Smooth ranks (thesis eq. 2.9): sums of smooth steps of score differences, which have gradients.

The step $\sigma$ is the sigmoid. Both methods, sums over pairs and interpolation, share one backward pass. With
$x = s/\tau$ and upstream gradients $g$ of $R_i = 1 + \sum_{j \ne i} w_j \sigma(x_j - x_i)$, and as $\sigma'$ is even,

$$\partial L/\partial x_i = w_i \sum_j g_j\, \sigma'(x_i - x_j) - g_i \sum_j w_j\, \sigma'(x_i - x_j).$$
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from rankbound.gradients import last_derivative, refuse_batched, through_transforms
from rankbound.interpolation import SIGMOID, SIGMOID_CURVATURE, SIGMOID_SLOPE, InterpolatedSums, Kernel
from rankbound.kernels.formulas import COSTS, COSTS_OF_REFERENCE, ORDER
from rankbound.lists import ArrayLike, Lists, Weights, as_floating, as_tensor, is_transformed, require_finite

# With this many polynomials per box, second derivatives (poles of third order) are as precise as other kernels.
PRECISE_ORDER = 12

# Limits the memory of one chunk of pairs (a few tensors of 8 bytes per pair).
PAIRS_PER_CHUNK = 4_000_000


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
    shares = _shares_of(scores.detach(), lists, targets, len(weights), temperature, method)
    # Autocast would halve the precision of the scores' differences, too little for small ranks.
    with torch.autocast(scores.device.type, enabled=False):
        weights = tuple(None if weight is None else weight.to(torch.float64) for weight in weights)
        problem = _Problem(lists, weights, targets, temperature, method, shares)
        ranks: Tensor = _SmoothRanks.apply(scores, problem)  # type: ignore[no-untyped-call]
    return ranks


def kernel_sums(
    scores: Tensor,
    lists: Lists,
    kernel: Kernel,
    weights: Weights,
    *,
    targets: Tensor | None = None,
    temperature: float = 1.0,
    method: str = "auto",
) -> Tensor:
    r"""Return $\sum_j w_j\, k((s_j - s_i)/\tau)$ over all items `j` of the list of `i`, including `i` itself.

    Args:
        scores: `(n_items,)`, floating point and finite.
        lists: the lists of the batch.
        kernel: $k$, one of `rankbound.interpolation` or your own.
        weights: $w$, one or more vectors `(n_items,)`; `None` stands for ones.
        targets: indices of the items `i`; all if `None`.
        temperature: $\tau > 0$, in units of the scores.
        method: as in `rankbound.smooth_rank`. Interpolated sums have errors below 1e-7 of the list's $\sum_j |w_j|$.

    Returns:
        `(n_targets, len(weights))` in the scores' dtype, without a gradient.

    Raises:
        ValueError: for an unknown method, or a temperature that isn't above 0.
    """
    if targets is None:
        targets = torch.arange(len(scores), device=scores.device)
    # Autocast would halve the precision of the scores' differences.
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        shares = _shares_of(scores, lists, targets, len(weights), temperature, method)
        return _Sums(scores, shares, temperature, PRECISE_ORDER).of(kernel, weights).to(scores.dtype)


def require_method(method: str, temperature: float) -> None:
    """Raise `ValueError` for an unknown method, or a temperature that isn't above 0."""
    methods = ("auto", "direct", "interpolated")
    if method not in methods:
        raise ValueError(f"method: found {method!r}, expected one of {', '.join(methods)}")
    require_temperature(temperature)


def require_temperature(temperature: float) -> None:
    """Raise `ValueError` unless the temperature is a number above 0; a tensor would receive no gradient."""
    if not (isinstance(temperature, Real) and temperature > 0):
        raise ValueError(f"temperature: found {temperature}, expected a number above 0")


def interpolation_pays(
    scores: Tensor,
    lists: Lists,
    targets: Tensor,
    n_fields: int,
    temperature: float,
    costs: tuple[float, float, float],
) -> Tensor:
    """Return a mask of the lists for which `n_fields` kinds of sums cost less by interpolation, `(n_lists,)`.

    The costs are those of a pair, an item and a row of boxes.
    """
    pair, item, row = costs
    longest = int(lists.sizes.max()) if len(lists) else 0
    if longest**2 * pair <= n_fields * (longest * item + row):
        return torch.zeros_like(lists.sizes, dtype=torch.bool)
    lowest = (lists.min(scores.to(torch.float64)) - lists.max(scores.to(torch.float64))) / temperature
    n_targets = torch.bincount(lists.segment.index_select(0, targets), minlength=len(lists))
    rows = torch.minimum(lists.sizes.to(torch.float64), 1.0 - lowest / 2.0).clamp(min=0)
    return n_targets * lists.sizes * pair > n_fields * (lists.sizes * item + rows * row)


@dataclass(frozen=True)
class Chunk:
    """Some targets paired with all items of their lists: pair `k` compares `target[k]` with `item[k]`."""

    targets: slice
    target: Tensor
    item: Tensor
    per_target: Lists


def pair_chunks(lists: Lists, targets: Tensor) -> list[Chunk]:
    """Return all pairs of the items `targets` with the items of their lists, in chunks that fit in memory."""
    segment = lists.segment.index_select(0, targets)
    ends = lists.sizes.index_select(0, segment).cumsum(0)
    n_pairs = int(ends[-1]) if len(ends) else 0
    chunks: list[Chunk] = []
    start = 0
    while start < len(targets) or not chunks:
        budget = (int(ends[start - 1]) if start else 0) + PAIRS_PER_CHUNK
        stop = len(targets) if n_pairs <= budget else max(start + 1, int(torch.searchsorted(ends, budget)))
        owner = segment[start:stop]
        per_target = Lists.of_sizes(lists.sizes.index_select(0, owner))
        item = per_target.position + per_target.spread(lists.offsets.index_select(0, owner))
        chunks.append(Chunk(slice(start, stop), per_target.segment + start, item, per_target))
        start = stop
    return chunks


def pair_gaps(scores: Tensor, targets: Tensor, chunk: Chunk, temperature: float) -> Tensor:
    """Return the score of each pair's item minus that of its target, in units of the temperature, `(n_pairs,)`."""
    # Division after subtraction preserves the gaps of large scores in single precision.
    own = scores.index_select(0, targets[chunk.targets])
    gaps = scores.index_select(0, chunk.item) - chunk.per_target.spread(own)
    return gaps if temperature == 1 else gaps / temperature


@dataclass(frozen=True)
class _Share:
    """The lists of a batch whose sums are computed by one method.

    Attributes:
        method: `direct` or `interpolated`.
        items: the indices of the lists' items among all, or all.
        lists: the lists' limits among their items.
        targets: the places of the lists' targets among all targets, or all.
        own_targets: the indices of the lists' targets among their items.
    """

    method: str
    items: Tensor | slice
    lists: Lists
    targets: Tensor | slice
    own_targets: Tensor

    def of_items(self, values: Tensor | None) -> Any:
        """Return the entries of these items of `values` `(n_items,)`; None of None."""
        return values if values is None or isinstance(self.items, slice) else values.index_select(0, self.items)


@dataclass(frozen=True)
class _Problem:
    """The ranks of the items `targets` as a function of the scores."""

    lists: Lists
    weights: Weights
    targets: Tensor
    temperature: float
    method: str
    shares: Sequence[_Share]

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
        parts = (bends[start : start + len(w)] for start in range(0, len(bends), len(w)))
        for one, push, of_w, of_wv, of_g, of_gv in zip(w, g, *parts, strict=True):
            # The curvature of the step is odd.
            by_scores += one * (of_gv - v * of_g) - push * (of_wv - v * of_w)
        by_scores.masked_fill_(self.lists.spread(self.lists.sizes == 1), 0.0)
        by_scores, by_upstream = by_scores / self.temperature**2, by_upstream / self.temperature
        return by_scores.to(scores.dtype), by_upstream.to(upstream.dtype)

    def _sums(self, scores: Tensor, kernel: Kernel, weights: tuple[Tensor, ...], targets: Tensor | None) -> Tensor:
        return kernel_sums(
            scores, self.lists, kernel, weights, targets=targets, temperature=self.temperature, method=self.method
        )


class _SmoothRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, problem: _Problem) -> Tensor:
        sums = _Sums(scores.to(torch.float64), problem.shares, problem.temperature)
        ranks = sums.of(SIGMOID, problem.weights)
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
    def forward(ctx: Any, scores: Tensor, upstream: Tensor, sums: "_Sums", problem: _Problem) -> Tensor:
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


def _shares_of(
    scores: Tensor, lists: Lists, targets: Tensor, n_fields: int, temperature: float, method: str
) -> list[_Share]:
    """Return the lists that are summed by each method; `auto` selects the faster one for each list, by it alone.

    A list's sums therefore don't depend on the others of its batch. Raises as `require_method`.
    """
    require_method(method, temperature)
    if method == "auto":
        # In double precision, it is the choice of the compiled kernels (`rankbound.kernels.smooth.pays`), with whose
        # values those of the reference then agree to rounding. In single precision, the error of interpolation is below
        # rounding, and the reference chooses by its own costs.
        costs = COSTS if scores.dtype == torch.float64 else COSTS_OF_REFERENCE
        interpolated = interpolation_pays(scores, lists, targets, n_fields, temperature, costs)
        if not bool(interpolated.any()):
            method = "direct"
        elif bool(interpolated.all()):
            method = "interpolated"
    if method != "auto":
        return [_Share(method, slice(None), lists, slice(None), targets)]
    shares = []
    for method, chosen in (("direct", ~interpolated), ("interpolated", interpolated)):
        of_items = lists.spread(chosen)
        items = torch.nonzero(of_items).squeeze(1)
        own = torch.nonzero(of_items.index_select(0, targets)).squeeze(1)
        places = (of_items.cumsum(0) - 1).index_select(0, targets.index_select(0, own))
        shares.append(_Share(method, items, Lists.of_sizes(lists.sizes[chosen]), own, places))
    return shares


class _Sums:
    """Sums of kernels over all lists, each by the method of its share, which keeps what the gradient needs again."""

    def __init__(self, scores: Tensor, shares: Sequence[_Share], temperature: float, order: int = ORDER) -> None:
        self._shares = shares
        self._parts: list[_OneListSums | _PairSums | InterpolatedSums] = []
        for share in shares:
            own, lists, targets = share.of_items(scores), share.lists, share.own_targets
            if share.method == "interpolated":
                self._parts.append(InterpolatedSums(own, lists, targets, temperature, order))
            else:
                as_matrix = len(lists) == 1 and len(own) * len(targets) <= PAIRS_PER_CHUNK
                self._parts.append((_OneListSums if as_matrix else _PairSums)(own, lists, targets, temperature))

    def of(self, kernel: Kernel, weights: Weights) -> Tensor:
        """Return the sums of `weights[j] * k(x[j] - x[i])` over `j`, a column per vector of weights `(n_items,)`."""
        parts = [
            part.sums(kernel, tuple(map(share.of_items, weights)))
            for share, part in zip(self._shares, self._parts, strict=True)
        ]
        return _joined(parts, [share.targets for share in self._shares])

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        """Return the gradient of sigmoids, whose sums came last, by `x`, `(n_items,)`; `upstream` `(n_targets, c)`."""
        parts = [
            part.gradient(tuple(map(share.of_items, weights)), upstream[share.targets])
            for share, part in zip(self._shares, self._parts, strict=True)
        ]
        return _joined(parts, [share.items for share in self._shares])


class _OneListSums:
    """Pair sums of a single list, whose pairs fill a matrix."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._targets = targets
        # Division after subtraction preserves the gaps of large scores in single precision.
        gaps = scores - scores.index_select(0, targets).unsqueeze(1)
        self._gaps = gaps if temperature == 1 else gaps / temperature

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        return self._weighted(kernel.at(self._gaps), weights)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        slope = SIGMOID_SLOPE.at(self._gaps)
        own = (upstream * self._weighted(slope, weights)).sum(1)
        pushed = zip(weights, (upstream.T @ slope).unbind(0), strict=True)
        gradient = torch.stack([push if weight is None else weight * push for weight, push in pushed]).sum(0)
        return gradient.index_add_(0, self._targets, own, alpha=-1)

    def _weighted(self, values: Tensor, weights: Weights) -> Tensor:
        columns = [values.sum(1) if weight is None else values @ weight for weight in weights]
        return torch.stack(columns, 1)


class _PairSums:
    """Pair sums of any lists, in chunks of bounded memory."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._scores, self._targets, self._temperature = scores, targets, temperature
        self._chunks = list(pair_chunks(lists, targets))
        self._gaps: list[Tensor] = []

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        sums = []
        for chunk in self._chunks:
            gaps = self._gaps_of(chunk)
            sums.append(_weighted(kernel.at(gaps), weights, chunk))
            if len(self._chunks) == 1:
                self._gaps = [gaps]
        return torch.cat(sums)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        gradient = torch.zeros_like(self._scores)
        for index, chunk in enumerate(self._chunks):
            slope = SIGMOID_SLOPE.at(self._gaps[index] if self._gaps else self._gaps_of(chunk))
            own = (upstream[chunk.targets] * _weighted(slope, weights, chunk)).sum(1)
            gradient.index_add_(0, self._targets[chunk.targets], own, alpha=-1)
            for weight, pushed in zip(weights, upstream.unbind(1), strict=True):
                push = slope * pushed.index_select(0, chunk.target)
                if weight is not None:
                    push *= weight.index_select(0, chunk.item)
                gradient.index_add_(0, chunk.item, push)
        return gradient

    def _gaps_of(self, chunk: Chunk) -> Tensor:
        return pair_gaps(self._scores, self._targets, chunk, self._temperature)


def _weighted(values: Tensor, weights: Weights, chunk: Chunk) -> Tensor:
    """Return the sums of `values * weights` over the items of each target's list, `(n_targets, c)`."""
    terms = (values if weight is None else values * weight.index_select(0, chunk.item) for weight in weights)
    return torch.stack([chunk.per_target.sum(term) for term in terms], 1)


def _joined(parts: Sequence[Tensor], places: Sequence[Tensor | slice]) -> Tensor:
    """Return the parts as one tensor, in whose rows `places` they stand."""
    if len(parts) == 1:
        return parts[0]
    joined = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for part, place in zip(parts, places, strict=True):
        joined[place] = part
    return joined
