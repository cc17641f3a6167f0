r"""Kernels of score gaps, and their sums over each list in linear time, by Chebyshev interpolation in boxes of scores.

A kernel $k$ takes the gap $x = (s_j - s_i)/\tau$ from an item $i$ to another item $j$. Interpolation requires that $k$
has no pole nearer than about 2.5 to the real line, and that for $|x| > 18$ it is constant or, above, the gap itself.

Scores, in units of the temperature, fall into boxes of width 2 on a lattice that all lists share; a list's sums
therefore don't depend on the rest of the batch. An item adds its weight to the Chebyshev moments of its box. Boxes up
to `BAND` apart interact through a small matrix per distance, and farther ones, where the kernel is constant or equals
the gap, through running totals. The expansion is then evaluated at the targets. The truncation error of the sigmoid is
about 1e-8 of the weights involved, that of its slope 7e-8; kernels with nearer or higher poles need more polynomials
for the same precision. Everything is computed in float64: the boxes are few, and running totals in single precision
would lose the small ranks.

Boxes are rows, list after list, with `BAND` empty rows between lists, so that a band of rows never mixes lists.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from rankbound.kernels import usable
from rankbound.kernels.formulas import BAND, ORDER
from rankbound.lists import Lists, Weights, may_read, on_cpu

# Up to this many rows (the larger of the two limits), empty boxes have rows too.
DENSE_ROWS_PER_ITEM = 2
DENSE_ROWS = 20_000

# Limits the memory of the banded product, whose rows have (2 * BAND + 1) * order numbers.
ROWS_PER_CHUNK = 8_192


@dataclass(frozen=True)
class Kernel:
    """The function `at` of gaps, constant at `below` for low gaps and `above` for high ones (if `linear`: the gap)."""

    at: Callable[[Tensor], Tensor]
    above: float = 0.0
    below: float = 0.0
    linear: bool = False

    @cached_property
    def mirrored(self) -> "Kernel":
        """The kernel `k(-x)` of the opposite gap."""
        if self.linear:
            raise ValueError("kernel: found a linear one, expected a smooth one that tends to constants on both sides")
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
        occupied = torch.zeros(self._n_rows, dtype=torch.int64, device=row.device)
        occupied[row] = 1
        place = (occupied.cumsum(0) - 1).index_select(0, row)
        if self._reads:
            self._occupied = torch.nonzero(occupied).squeeze(1)
        else:
            # As many as there may be; the last ones are any row.
            self._occupied = torch.full_like(row, BAND).index_copy_(0, place, row)
        self._all = Points(row, _chebyshev(local, order), place, 2 * steps + local)

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
        expansion = _banded_product(moments, kernel_matrix(kernel, moments.device, moments.shape[2]), self._occupied)
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
        from rankbound.kernels.gradients import running_sums as run

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


def _banded_product(moments: Tensor, kernel: Tensor, rows: Tensor) -> Tensor:
    """Return the local expansions `(c, n, order)` of `rows` from the moments of all rows within the band."""
    order = moments.shape[2]
    bands = moments.flatten(1).unfold(1, (2 * BAND + 1) * order, order)
    parts = [bands.index_select(1, part - BAND) @ kernel for part in torch.split(rows, ROWS_PER_CHUNK)]
    return torch.cat(parts, 1) if parts else moments.new_zeros(len(moments), 0, order)


def _chebyshev(local: Tensor, order: int) -> Tensor:
    """Return the polynomials T_0 .. T_(order-1) at `local`, `(n, order)`."""
    basis = local.new_empty(order, len(local))
    basis[0] = 1
    basis[1] = local
    double = 2 * local
    for degree in range(2, order):
        torch.mul(double, basis[degree - 1], out=basis[degree]).sub_(basis[degree - 2])
    return basis.T.contiguous()
