r"""Smooth ranks (thesis eq. 2.9): sums of smooth steps of score differences, which have gradients.

The step $\sigma$ is the sigmoid. Both methods, sums over pairs and interpolation, share one backward pass. With
$x = s/\tau$ and upstream gradients $g$ of $R_i = 1 + \sum_{j \ne i} w_j \sigma(x_j - x_i)$, and as $\sigma'$ is even,

$$\partial L/\partial x_i = w_i \sum_j g_j\, \sigma'(x_i - x_j) - g_i \sum_j w_j\, \sigma'(x_i - x_j).$$
"""

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.gradients import through_transforms, with_derivatives
from rankbound.interpolation import SIGMOID, SIGMOID_CURVATURE, SIGMOID_SLOPE, InterpolatedSums, Kernel
from rankbound.kernels.formulas import COSTS, COSTS_OF_REFERENCE, ORDER
from rankbound.lists import ArrayLike, Lists, Weights, as_floating, as_tensor, is_transformed, may_read, require_finite

# With this many polynomials per box, second derivatives (poles of third order) are as precise as other kernels.
PRECISE_ORDER = 12

# Rows of boxes that a list is taken to have where its scores aren't read, those of scores some 30 temperatures apart.
USUAL_ROWS = 16

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
    # Autocast would halve the precision of the scores' differences, too little for small ranks.
    with torch.autocast(scores.device.type, enabled=False):
        sums = _Sums(scores.detach(), lists, weights, targets, temperature, method)
        with torch.no_grad():
            ranks = sums.of(SIGMOID)
            # The sums include the item itself, which adds half its weight.
            for column, weight in zip(ranks.unbind(1), sums.weights, strict=True):
                column += 0.5 if weight is None else 1 - weight.index_select(0, sums.targets) / 2
        return with_derivatives(scores, ranks, sums.gradient, sums.by_scores_and_upstream)


def kernel_sums(scores: Tensor, lists: Lists, weights: Weights, kernel: Kernel) -> Tensor:
    """Return the sums of `weights[j] * k(s[j] - s[i])` over the items `j` of the list, `i` included, without gradients.

    A column per vector of weights, `(n_items, c)`, float64; the faster method for each list.
    """
    with torch.autocast(scores.device.type, enabled=False):
        return _Sums(scores.detach(), lists, weights, None, 1.0, "auto").of(kernel)


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
    scores: Tensor, lists: Lists, targets: Tensor, n_fields: int, temperature: float, costs: tuple[float, float, float]
) -> Tensor:
    """Return a mask of the lists for which `n_fields` kinds of sums cost less by interpolation, `(n_lists,)`.

    The costs are those of a pair, an item and a row of boxes.
    """
    pair, item, row = costs
    if lists.longest**2 * pair <= n_fields * (lists.longest * item + row):
        return torch.zeros_like(lists.sizes, dtype=torch.bool)
    lowest = (lists.min(scores.to(torch.float64)) - lists.max(scores.to(torch.float64))) / temperature
    n_targets = torch.bincount(lists.segment.index_select(0, targets), minlength=len(lists))
    rows = torch.minimum(lists.sizes.to(torch.float64), 1.0 - lowest / 2.0).clamp(min=0)
    return n_targets * lists.sizes * pair > n_fields * (lists.sizes * item + rows * row)


def long_enough(lists: Lists, n_fields: int, costs: tuple[float, float, float]) -> npt.NDArray[np.bool_]:
    """Return `interpolation_pays` by the lists' sizes alone, where a GPU isn't waited for to learn more."""
    (pair, item, row), n = costs, np.diff(lists.limits).astype(np.float64)
    pays: npt.NDArray[np.bool_] = n * n * pair > n_fields * (n * item + np.minimum(n, USUAL_ROWS) ** 2 * row)
    return pays


def shares_of(methods: Tensor | npt.NDArray[Any], lists: Lists) -> list[tuple[int, Tensor | slice, Lists]]:
    """Return the lists of each method of `methods` `(n_lists,)`: the method, the lists' items, and their limits."""
    if isinstance(methods, np.ndarray):
        return lists._shares(methods)
    kinds = torch.unique(methods).tolist() or [0]
    if len(kinds) == 1:
        return [(kinds[0], slice(None), lists)]
    chosen = [(int(kind), methods == kind) for kind in kinds]
    return [
        (kind, torch.nonzero(lists.spread(own)).squeeze(1), Lists.of_sizes(lists.sizes[own])) for kind, own in chosen
    ]


def joined(parts: Sequence[Tensor], places: Sequence[Tensor | slice]) -> Tensor:
    """Return the parts `(..., n)` as one tensor, in whose last dimension they stand at `places`."""
    if len(parts) == 1:
        return parts[0]
    whole = parts[0].new_empty(*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
    for part, place in zip(parts, places, strict=True):
        whole[..., place] = part
    return whole


def pair_chunks(
    begin: Tensor, end: Tensor, most: int, counts: npt.NDArray[np.int64] | None = None
) -> Iterator[tuple[slice, Lists, Tensor]]:
    """Yield chunks of about `most` pairs of each target `k` with the places `begin[k]` to `end[k] - 1`; at least one.

    A chunk has some targets, its pairs as a list for each of them, and the pairs' places. `counts` are the numbers of
    pairs, if they are known on the CPU.
    """
    totals = np.append(0, np.cumsum((end - begin).cpu().numpy() if counts is None else counts))
    start, stop = 0, -1
    while stop < len(begin):
        stop = min(max(start + 1, int(np.searchsorted(totals[1:], totals[start] + most, "right"))), len(begin))
        runs = Lists._of_sizes((end - begin)[start:stop], int(totals[stop] - totals[start]))
        yield slice(start, stop), runs, runs.position + runs.spread(begin[start:stop])
        start = stop


class PairSums:
    """Sums over the pairs of each item of `targets` with all items of its list, in chunks of bounded memory."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float, every: bool = False) -> None:
        """Prepare the sums; `every`: the targets are all items."""
        self._scores, self._targets, self._temperature = scores, targets, temperature
        # The pairs of each item.
        self._counts = np.repeat(np.diff(lists.limits), np.diff(lists.limits)) if every else None
        segment = lists.segment.index_select(0, targets)
        self._limits = lists.offsets.index_select(0, segment), lists.offsets.index_select(0, segment + 1)
        self._only: list[tuple[slice, Lists, Tensor, Tensor]] = []

    def chunks(self) -> Iterator[tuple[slice, Lists, Tensor, Tensor]]:
        """Yield some targets, their pairs as a list each, the pairs' items, and the gaps in units of the temperature.

        The gap is the item's score less the target's. A chunk of all pairs is kept.
        """
        if self._only:
            yield from self._only
            return
        for targets, runs, item in pair_chunks(*self._limits, PAIRS_PER_CHUNK, self._counts):
            # Division after subtraction preserves the gaps of large scores in single precision.
            own = self._scores.index_select(0, self._targets[targets])
            gaps = self._scores.index_select(0, item) - runs.spread(own)
            chunk = targets, runs, item, gaps if self._temperature == 1 else gaps / self._temperature
            if targets.start == 0 and targets.stop >= len(self._targets):
                self._only = [chunk]
            yield chunk

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        """Return the sums of kernel times weight, `(n_targets, n_weights)`."""
        return torch.cat([_weighted(kernel.at(gaps), weights, runs, item) for _, runs, item, gaps in self.chunks()])

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        """Return the gradient of `sums` of sigmoids by the scores over the temperature, `(n_items,)`."""
        gradient = torch.zeros_like(self._scores)
        for targets, runs, item, gaps in self.chunks():
            slope = SIGMOID_SLOPE.at(gaps)
            own = (upstream[targets] * _weighted(slope, weights, runs, item)).sum(1)
            gradient.index_add_(0, self._targets[targets], own, alpha=-1)
            for weight, pushed in zip(weights, upstream[targets].unbind(1), strict=True):
                push = slope * runs.spread(pushed)
                if weight is not None:
                    push *= weight.index_select(0, item)
                gradient.index_add_(0, item, push)
        return gradient


def _weighted(values: Tensor, weights: Weights, runs: Lists, item: Tensor) -> Tensor:
    terms = (values if weight is None else values * weight.index_select(0, item) for weight in weights)
    return torch.stack([runs.sum(term) for term in terms], 1)


class _Sums:
    """Weighted sums of kernels for some or all items, each list by one method; keeps what the gradient needs again.

    `auto` selects the faster method for each list, by it alone: its sums don't depend on the others of its batch.
    """

    def __init__(
        self,
        scores: Tensor,
        lists: Lists,
        weights: Weights,
        targets: Tensor | None,
        temperature: float,
        method: str,
        order: int = ORDER,
    ) -> None:
        require_method(method, temperature)
        every = targets is None
        if targets is None:
            targets = torch.arange(len(scores), device=scores.device)
        # In double precision: the terms of near-ties almost cancel.
        self._scores = x = scores.to(torch.float64)
        self.weights, self.targets = tuple(None if w is None else w.to(torch.float64) for w in weights), targets
        self._lists, self._temperature, self._method = lists, temperature, method
        if method == "auto":
            # In double precision, it is the choice of the compiled kernels (`rankbound.kernels.smooth.pays`), with
            # whose values those of the reference then agree to rounding. In single precision, the error of
            # interpolation is below rounding, and the reference chooses by its own costs.
            costs = COSTS if scores.dtype == torch.float64 and may_read(x) else COSTS_OF_REFERENCE
            if may_read(x):
                interpolated: Tensor | npt.NDArray[np.bool_] = interpolation_pays(
                    scores, lists, targets, len(weights), temperature, costs
                )
            else:
                interpolated = long_enough(lists, len(weights), costs)
        else:
            interpolated = np.full(len(lists), method == "interpolated")
        self._parts: list[tuple[Tensor | slice, Tensor | slice, PairSums | InterpolatedSums]] = []
        for by_boxes, items, own_lists in shares_of(interpolated, lists):
            places: Tensor | slice = slice(None)
            own_targets = targets
            if not isinstance(items, slice) and every:
                places, own_targets = items, torch.arange(len(items), device=items.device)
            elif not isinstance(items, slice):
                assert isinstance(interpolated, Tensor)
                kind = interpolated.index_select(0, lists.segment.index_select(0, targets))
                places = torch.nonzero(kind == by_boxes).squeeze(1)
                own_targets = torch.searchsorted(items, targets[places])
            own = x[items], own_lists, own_targets, temperature
            sums = InterpolatedSums(*own, order) if by_boxes else PairSums(*own, every)
            self._parts.append((items, places, sums))

    def of(self, kernel: Kernel) -> Tensor:
        """Return the sums of `weights[j] * k(x[j] - x[i])` over `j`, a column per vector of weights.

        Interpolated sums have errors below 1e-7 of the list's total of absolute weights.
        """
        parts = [sums.sums(kernel, self._weights_of(items)).T for items, _, sums in self._parts]
        return joined(parts, [places for _, places, _ in self._parts]).T

    def gradient(self, upstream: Tensor) -> Tensor:
        """Return the gradient of sigmoids, whose sums came last, by the scores; `upstream` `(n_targets, c)`."""
        parts = [sums.gradient(self._weights_of(items), upstream[places]) for items, places, sums in self._parts]
        return self._of_several(joined(parts, [items for items, _, _ in self._parts])) / self._temperature

    def _of_several(self, gradient: Tensor) -> Tensor:
        """Return the gradient with 0 for lone items, whose ranks are 1: its two terms cancel only up to rounding."""
        if not (np.diff(self._lists.limits) == 1).any():
            return gradient
        return gradient.masked_fill(self._lists.spread(self._lists.sizes == 1), 0.0)

    def _weights_of(self, items: Tensor | slice) -> Weights:
        return tuple(weight if weight is None else weight[items] for weight in self.weights)

    def by_scores_and_upstream(self, upstream: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the derivatives of $v^T \partial L/\partial s$ by the scores and by the upstream gradients $g$.

        With $x = s/\tau$ and the slope along the direction, $\sum_i g_i \sum_j w_j \sigma'(x_j - x_i)(v_j - v_i)$:

        $$\partial/\partial x_k = w_k \sum_i g_i\, \sigma''(x_k - x_i)(v_k - v_i)
          - g_k \sum_j w_j\, \sigma''(x_j - x_k)(v_j - v_k).$$
        """
        x, v = self._scores, direction.to(torch.float64)
        w = [torch.ones_like(x) if weight is None else weight for weight in self.weights]
        g = [x.new_zeros(len(x)).index_copy(0, self.targets, column.to(x)) for column in upstream.unbind(1)]
        wv, gv = [weight * v for weight in w], [push * v for push in g]

        def sums(kernel: Kernel, weights: Weights, targets: Tensor | None = None) -> Tensor:
            return _Sums(x, self._lists, weights, targets, self._temperature, self._method, PRECISE_ORDER).of(kernel)

        slopes = sums(SIGMOID_SLOPE, (*w, *wv), self.targets)
        by_upstream = slopes[:, len(w) :] - v.index_select(0, self.targets)[:, None] * slopes[:, : len(w)]
        bends = sums(SIGMOID_CURVATURE, (*w, *wv, *g, *gv)).unbind(1)
        by_scores = torch.zeros_like(x)
        parts = (bends[start : start + len(w)] for start in range(0, len(bends), len(w)))
        for one, push, of_w, of_wv, of_g, of_gv in zip(w, g, *parts, strict=True):
            # The curvature of the step is odd.
            by_scores += one * (of_gv - v * of_g) - push * (of_wv - v * of_w)
        return self._of_several(by_scores) / self._temperature**2, by_upstream / self._temperature
