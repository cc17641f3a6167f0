r"""Smooth ranks (thesis eq. 2.9): sums of smooth steps of score differences, which have gradients.

The step $\sigma$ is the sigmoid. Both methods, sums over pairs and interpolation, share one backward pass. With
$x = s/\tau$ and upstream gradients $g$ of $R_i = 1 + \sum_{j \ne i} w_j \sigma(x_j - x_i)$, and as $\sigma'$ is even,

$$\partial L/\partial x_i = w_i \sum_j g_j\, \sigma'(x_i - x_j) - g_i \sum_j w_j\, \sigma'(x_i - x_j).$$

*Interpolation*, by Chebyshev polynomials in boxes of scores, takes linear time for any kernel $k$ of the gap
$x = (s_j - s_i)/\tau$ from an item $i$ to another item $j$ that has no pole nearer than about 2.5 to the real line and
for $|x| > 18$ is constant or, above, the gap itself. Scores, in units of the temperature, fall into boxes of width 2 on
a lattice that all lists share; a list's sums therefore don't depend on the rest of the batch. An item adds its weight
to the Chebyshev moments of its box. Boxes up to `BAND` apart interact through a small matrix per distance, and farther
ones, where the kernel is constant or equals the gap, through running totals. The expansion is then evaluated at the
targets. The truncation error of the sigmoid is about 1e-8 of the weights involved, that of its slope 7e-8; kernels with
nearer or higher poles need more polynomials for the same precision. Everything is computed in float64: the boxes are
few, and running totals in single precision would lose the small ranks. Boxes are rows, list after list, with `BAND`
empty rows between lists, so that a band of rows never mixes lists.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Real

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rankbound import lists as checks
from rankbound.gradients import through_transforms, with_derivatives
from rankbound.kernels import usable
from rankbound.kernels.formulas import BAND, COSTS, COSTS_OF_REFERENCE, METHODS, ORDER, Integers, Mask
from rankbound.lists import ArrayLike, Lists, Weights, as_floating, as_tensor, may_read, on_cpu
from rankbound.texts import require, require_one_of

# With this many polynomials per box, second derivatives (poles of third order) are as precise as other kernels.
PRECISE_ORDER = 12

# Rows of boxes that a list is taken to have where its scores aren't read, those of scores some 30 temperatures apart.
USUAL_ROWS = 16

# Limits the memory of one chunk of pairs (a few tensors of 8 bytes per pair).
PAIRS_PER_CHUNK = 4_000_000

# Up to this many rows (the larger of the two limits), empty boxes have rows too.
DENSE_ROWS_PER_ITEM = 2
DENSE_ROWS = 20_000

# Limits the memory of the banded product, whose rows have (2 * BAND + 1) * order numbers.
ROWS_PER_CHUNK = 8_192


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
        checks.require_finite(x)
        # Sums of pairs in half precision would lose the gradient.
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        weight = None if w is None else as_tensor(w, "weights", len(x)).to(exact).detach()
        ranks = smooth_ranks_of(exact, lists, (weight,), temperature=temperature, method=method)
        return ranks.squeeze(1).to(x.dtype)

    if checks.is_transformed():
        return through_transforms(ranks_of, flat, offsets, weights)
    return ranks_of(flat, offsets, weights)


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


def require_method(method: str, temperature: float) -> None:
    """Raise `ValueError` for an unknown method, or a temperature that isn't above 0."""
    require_one_of("method", method, METHODS)
    require_temperature(temperature)


def require_temperature(temperature: float) -> None:
    """Raise `ValueError` unless the temperature is a number above 0; a tensor would receive no gradient."""
    require("temperature", temperature, isinstance(temperature, Real) and temperature > 0, "a number above 0")


@dataclass(frozen=True)
class Kernel:
    """The function `at` of gaps, constant at `below` for low gaps and `above` for high ones (if `linear`: the gap)."""

    at: Callable[[Tensor], Tensor]
    above: float = 0.0
    below: float = 0.0
    linear: bool = False

    @cached_property
    def mirrored(self) -> "Kernel":
        """The kernel `k(-x)` of the opposite gap; a linear one has none."""
        return Kernel(lambda gap: self.at(-gap), self.below, self.above)


def sigmoid_slope(gap: Tensor) -> Tensor:
    """Return the derivative of the sigmoid; `s * (1 - s)` would lose all digits of large gaps in single precision."""
    lesser = gap.abs().neg_().sigmoid_()
    return lesser * (1 - lesser)


def softplus(gap: Tensor) -> Tensor:
    """Return log(1 + exp(x)), the logistic loss of a pair whose less relevant item scores x higher."""
    # PyTorch's default threshold of 20 causes a step of 2e-9, visible in double precision.
    return functional.softplus(gap, threshold=40)


def _tanh_link_curvature(gap: Tensor) -> Tensor:
    bent, slope = torch.tanh(gap / 2), 2 * sigmoid_slope(gap)
    return slope * torch.sigmoid(bent) * (slope * torch.sigmoid(-bent) - bent)


SIGMOID = Kernel(torch.sigmoid, above=1.0)
SIGMOID_SLOPE = Kernel(sigmoid_slope)
SIGMOID_CURVATURE = Kernel(lambda gap: -torch.tanh(gap / 2) * sigmoid_slope(gap))
SOFTPLUS = Kernel(softplus, linear=True)

# DirectRanker's link log(1 + exp(tanh(gap))) as a function of x = 2 gap, whose nearest singularities are 2.5i, not
# 1.3i. The derivative of tanh(x/2) is 2 sigma'(x).
TANH_LINK = Kernel(
    lambda gap: functional.softplus(torch.tanh(gap / 2)), above=1.3132616875182228, below=0.31326168751822286
)
TANH_LINK_SLOPE = Kernel(lambda gap: 2 * sigmoid_slope(gap) * torch.sigmoid(torch.tanh(gap / 2)))
TANH_LINK_CURVATURE = Kernel(_tanh_link_curvature)


def kernel_sums(scores: Tensor, lists: Lists, weights: Weights, kernel: Kernel) -> Tensor:
    """Return the sums of `weights[j] * k(s[j] - s[i])` over the items `j` of the list, `i` included, without gradients.

    A column per vector of weights, `(n_items, c)`, float64; the faster method for each list.
    """
    with torch.autocast(scores.device.type, enabled=False):
        return _Sums(scores.detach(), lists, weights, None, 1.0, "auto").of(kernel)


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


def long_enough(lists: Lists, n_fields: int, costs: tuple[float, float, float]) -> Mask:
    """Return `interpolation_pays` by the lists' sizes alone, where a GPU isn't waited for to learn more."""
    (pair, item, row), n = costs, np.diff(lists.limits).astype(np.float64)
    pays: Mask = n * n * pair > n_fields * (n * item + np.minimum(n, USUAL_ROWS) ** 2 * row)
    return pays


def joined(parts: Sequence[Tensor], places: Sequence[Tensor | slice]) -> Tensor:
    """Return the parts `(..., n)` as one tensor, in whose last dimension they stand at `places`."""
    if len(parts) == 1:
        return parts[0]
    whole = parts[0].new_empty(*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
    for part, place in zip(parts, places, strict=True):
        whole[..., place] = part
    return whole


def pair_chunks(
    begin: Tensor, end: Tensor, most: int, counts: Integers | None = None
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
        interpolated: Tensor | Mask
        if method != "auto":
            interpolated = np.full(len(lists), method == "interpolated")
        elif may_read(x):
            # In double precision, it is the choice of the compiled kernels (`rankbound.kernels.smooth.pays`), with
            # whose values those of the reference then agree to rounding. In single precision, the error of
            # interpolation is below rounding, and the reference chooses by its own costs.
            costs = COSTS if scores.dtype == torch.float64 else COSTS_OF_REFERENCE
            interpolated = interpolation_pays(scores, lists, targets, len(weights), temperature, costs)
        else:
            interpolated = long_enough(lists, len(weights), COSTS_OF_REFERENCE)
        self._parts: list[tuple[Tensor | slice, Tensor | slice, PairSums | InterpolatedSums]] = []
        for by_boxes, items, own_lists in lists._shares(interpolated):
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


@dataclass(frozen=True)
class Points:
    """Items as sources or targets of sums.

    `row` (n,) is the row of each item's box, `basis` (n, order) the polynomials at the item, `place` (n,) the index of
    its row among the occupied rows, `height` (n,) its score above the centre of its list's lowest box.
    """

    row: Tensor
    basis: Tensor
    place: Tensor
    height: Tensor


class Boxes:
    """Kernel sums over boxes of a batch's scores, in two steps: `moments`, then `at`.

    `order` is the number of polynomials per box.
    """

    def __init__(self, scores: Tensor, lists: Lists, temperature: float, order: int = ORDER) -> None:
        x = scores.to(torch.float64) / temperature
        self.order = order
        # Box b covers 2b - 1 .. 2b + 1, so that the tied scores near 0 of an untrained model lie at a centre.
        box = torch.floor(x / 2 + 0.5)
        local = x - 2 * box
        lowest = lists.min(box)
        # Boxes from the list's lowest one up to the item's, empty ones included.
        self._steps = steps = box - lists.spread(lowest)
        spans = torch.where(lists.sizes > 0, lists.max(box) - lowest + 1, 0.0)
        self._reads = may_read(x)
        if self._reads and float(spans.sum()) <= max(DENSE_ROWS, DENSE_ROWS_PER_ITEM * len(x)):
            spans = spans.to(torch.int64)
            first_row = (spans + BAND).cumsum(0) - spans
            row = lists.spread(first_row) + steps.to(torch.int64)
            last_row = first_row + spans - 1
        else:
            row, last_row = _rows_of_occupied_boxes(box, lists)
        # At least one band of rows, even if all lists are empty.
        most = (int(last_row[-1]) if len(lists) else 0) if self._reads else (BAND + 1) * len(x)
        self._longest = None if self._reads else (BAND + 1) * lists.longest
        self._n_rows = max(most, BAND) + BAND + 1
        # The first rows of the lists, and of the empty rows between them; None if no list is wider than the band.
        self._starts: Tensor | None = None
        if not self._reads or bool((spans > BAND + 1).any()):
            # Those of empty lists are the first rows of the next list, or the end.
            first = lists.min(row).clamp(max=self._n_rows).to(torch.int64)
            after = torch.where(lists.sizes > 0, last_row + 1, self._n_rows)
            starts = torch.zeros(self._n_rows + 1, dtype=torch.bool, device=row.device)
            self._starts = starts.index_fill_(0, torch.cat([first, after]), True)[:-1]
        # The polynomials T_0 .. T_(order-1) at each item.
        basis = local.new_empty(order, len(local))
        basis[0], basis[1], double = 1, local, 2 * local
        for degree in range(2, order):
            torch.mul(double, basis[degree - 1], out=basis[degree]).sub_(basis[degree - 2])
        occupied = torch.zeros(self._n_rows, dtype=torch.int64, device=row.device)
        occupied[row] = 1
        place = (occupied.cumsum(0) - 1).index_select(0, row)
        if self._reads:
            self._occupied = torch.nonzero(occupied).squeeze(1)
        else:
            # As many as there may be; the last ones are any row.
            self._occupied = torch.full_like(row, BAND).index_copy_(0, place, row)
        self._all = Points(row, basis.T.contiguous(), place, 2 * steps + local)

    def points(self, items: Tensor | None = None) -> Points:
        """Return the items with these indices (`None`: all) as points."""
        if items is None:
            return self._all
        return Points(*(value.index_select(0, items) for value in vars(self._all).values()))

    def moments(self, weights: Weights, sources: Points) -> Tensor:
        """Return the sums over each row of weight times polynomial, `(c, n_rows, order)`; a weight per source."""
        moments = sources.basis.new_zeros(len(weights), self._n_rows, sources.basis.shape[1])
        for weight, moment in zip(weights, moments, strict=True):
            terms = sources.basis if weight is None else sources.basis * weight.unsqueeze(1)
            moment.index_add_(0, sources.row, terms)
        return moments

    def at(self, targets: Points, kernel: Kernel, moments: Tensor) -> Tensor:
        """Return the kernel sums over the sources of `moments` at each target, `(n_targets, c)`."""
        # The local expansions of the occupied rows, from the moments of all rows within the band.
        order, matrix = moments.shape[2], kernel_matrix(kernel, moments.device, moments.shape[2])
        bands = moments.flatten(1).unfold(1, (2 * BAND + 1) * order, order)
        chunks = torch.split(self._occupied, ROWS_PER_CHUNK)
        parts = [bands.index_select(1, rows - BAND) @ matrix for rows in chunks]
        expansion = torch.cat(parts, 1) if parts else moments.new_zeros(len(moments), 0, order)
        sums = torch.stack([(field.index_select(0, targets.place) * targets.basis).sum(1) for field in expansion], 1)
        if self._starts is None or not (kernel.linear or kernel.above or kernel.below):
            return sums
        totals = moments[:, :, 0].contiguous()
        if kernel.linear:
            # Heights are relative to the list's lowest box, which keeps the digits of large scores.
            centre = moments.new_zeros(self._n_rows)
            centre[self._all.row] = 2 * self._steps
            totals = torch.cat([totals, totals * centre + moments[:, :, 1]])
        below, above = running_sums(totals, self._starts, self._longest)
        # Rows between two lists are empty, and a band wide.
        above = above.index_select(1, targets.row + BAND)
        if kernel.linear:
            above, heights = above.view(2, len(moments), -1)
            sums += (heights - targets.height * above).T
        if kernel.above:
            sums += kernel.above * above.T
        if kernel.below:
            sums += kernel.below * below.index_select(1, targets.row - BAND).T
        return sums


class InterpolatedSums:
    """Interpolated sums over the lists of the items `targets`."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float, order: int = ORDER) -> None:
        self._boxes = Boxes(scores, lists, temperature, order)
        self._index = targets
        self._all, self._targets = self._boxes.points(), self._boxes.points(targets)
        self._moments = scores.new_zeros(0)

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        self._moments = self._boxes.moments(weights, self._all)
        return self._boxes.at(self._targets, kernel, self._moments)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        upstream = upstream.to(torch.float64)
        moments = self._boxes.moments(upstream.unbind(1), self._targets)
        pushed = self._boxes.at(self._all, SIGMOID_SLOPE, moments).unbind(1)
        terms = [push if weight is None else weight * push for weight, push in zip(weights, pushed, strict=True)]
        own = (upstream * self._boxes.at(self._targets, SIGMOID_SLOPE, self._moments)).sum(1)
        return sum(terms[1:], start=terms[0]).index_add(0, self._index, own, alpha=-1)


@lru_cache(maxsize=64)
@on_cpu
def kernel_matrix(kernel: Kernel, device: torch.device, order: int = ORDER) -> Tensor:
    r"""Return the matrix that maps the moments of a band of source boxes to a target box's expansion.

    Shape `((2 * BAND + 1) * order, order)`. Entry `(d, b; a)` is the coefficient of $T_b(v) T_a(u)$ in
    $k(2d + v - u)$, with `d` the distance from target to source in boxes.
    """
    n_nodes = 4 * order
    angles = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) * (torch.pi / n_nodes)
    nodes = torch.cos(angles)
    distance = torch.arange(-BAND, BAND + 1, dtype=torch.float64)
    values = kernel.at(2 * distance[:, None, None] + nodes[:, None] - nodes[None, :])
    to_coefficients = torch.cos(torch.arange(order)[:, None] * angles) * (2 / n_nodes)
    to_coefficients[0] /= 2
    matrix = to_coefficients @ values @ to_coefficients.T
    return matrix.reshape(-1, order).to(device)


def running_sums(values: Tensor, starts: Tensor, longest: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the sums of `values` `(c, n)`, float64, before and behind each place, up to where lists start.

    `longest` is the largest number of places of a list, or of those up to its last number other than 0, if it is known.
    Unlike differences of the batch's running totals, they keep their digits beside lists of much larger numbers.
    """
    if values.is_cpu and usable():
        from rankbound.kernels.smooth import running_sums as run

        before, behind = torch.empty_like(values), torch.empty_like(values)
        run(values.contiguous().numpy(), starts.numpy(), before.numpy(), behind.numpy())
        return before, behind
    # Both directions are one scan, whose steps double the number of summands.
    begins = torch.stack([starts, starts.roll(-1).flip(0)])
    index = torch.arange(len(starts), device=starts.device)
    place = (index - torch.where(begins, index, 0).cummax(1).values)[:, None]
    step = 1
    if longest is None:
        longest = int(place.max()) if len(starts) else 0
    sums = torch.where(place > 0, torch.stack([values, values.flip(1)]).roll(1, 2), 0.0)
    while step <= longest:
        sums, step = sums + torch.where(place > step, sums.roll(step, 2), 0.0), 2 * step
    return sums[0], sums[1].flip(1)


def _rows_of_occupied_boxes(box: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    """Return rows in the order of the boxes, gaps shortened to the band, so that outliers cost no memory."""
    by_box = torch.argsort(box)
    order = by_box[torch.argsort(lists.segment[by_box], stable=True)]
    steps = torch.full_like(box, BAND + 1)
    ranked = box[order]
    steps[1:] = (ranked[1:] - ranked[:-1]).clamp(max=BAND + 1)
    steps = torch.where(lists.position == 0, float(BAND + 1), steps)
    ordered_rows = steps.to(torch.int64).cumsum(0)
    row = torch.empty_like(ordered_rows)
    row[order] = ordered_rows
    last_row = torch.cat([ordered_rows.new_zeros(1), ordered_rows])[lists.offsets[1:]]
    return row, last_row
