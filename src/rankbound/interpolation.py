r"""Kernel sums over each list in linear time, by Chebyshev interpolation in boxes of scores.

A kernel $k(y - x)$ of the gap is smooth in one dimension. Scores, in units of the temperature, fall into boxes of width
2 on a lattice that all lists share; a list's sums therefore don't depend on the rest of the batch. An item adds its
weight to the Chebyshev moments of its box. Boxes up to `BAND` apart interact through a small matrix per distance, and
farther ones, where the kernel is constant or equals the gap, through running totals. The expansion is then evaluated
at the targets. The truncation error of the sigmoid is about 1e-8 of the weights involved, that of its slope 7e-8;
kernels with nearer or higher poles need more polynomials for the same precision. Everything is computed in float64: the
boxes are few, and running totals in single precision would lose the small ranks.

Boxes are rows, list after list, with `BAND` empty rows between lists, so that a band of rows never mixes lists.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.fused.formulas import BAND, ORDER
from rankbound.kernels import SIGMOID, SIGMOID_SLOPE, Kernel
from rankbound.lists import Lists, Weights, on_cpu
from rankbound.scans import running_sums

# Up to this many rows (the larger of the two limits), empty boxes have rows too.
DENSE_ROWS_PER_ITEM = 2
DENSE_ROWS = 20_000

# Limits the memory of the banded product, whose rows have (2 * BAND + 1) * order numbers.
ROWS_PER_CHUNK = 8_192


@dataclass(frozen=True)
class _Lattice:
    """The boxes of a batch: `row` (n_items,) of each item's box, and its `local` coordinate in [-1, 1] there.

    `starts` (n_rows,) marks the first rows of the lists, and of the empty rows between them; None if no list is wider
    than the band. `steps` (n_items,) counts the boxes from the list's lowest one up to the item's, empty ones included.
    """

    row: Tensor
    local: Tensor
    starts: Tensor | None
    n_rows: int
    steps: Tensor


@dataclass(frozen=True)
class Points:
    """Items as sources or targets of sums.

    `row` (n,) is the row of each item's box, `basis` (n, order) the polynomials at the item, `place` (n,) the index of
    its row among the occupied rows, `items` the indices of the items (`None`: all items of the batch).
    """

    row: Tensor
    basis: Tensor
    place: Tensor
    items: Tensor | None = None

    def pick(self, values: Tensor) -> Tensor:
        """Select these points' entries of `values` `(n_items,)`."""
        return values if self.items is None else values.index_select(0, self.items)


class Boxes:
    """Kernel sums over boxes of a batch's scores, in two steps: `moments`, then `at`.

    `order` is the number of polynomials per box.
    """

    def __init__(self, scores: Tensor, lists: Lists, temperature: float, order: int = ORDER) -> None:
        self._lists, self.order = lists, order
        self._lattice = _lattice(scores.to(torch.float64) / temperature, lists)
        self._occupied, self._place = _occupied(self._lattice.row, self._lattice.n_rows)
        self._basis = _chebyshev(self._lattice.local, order)

    def points(self, items: Tensor | None = None) -> Points:
        """Return the items with these indices (`None`: all) as points."""
        values = self._lattice.row, self._basis, self._place
        if items is None:
            return Points(*values)
        row, basis, place = (value.index_select(0, items) for value in values)
        return Points(row, basis, place, items)

    def moments(self, weights: Weights, sources: Points) -> Tensor:
        """Return the sums over each row of weight times polynomial, `(c, n_rows, order)`; a weight per source."""
        moments = self._basis.new_zeros(len(weights), self._lattice.n_rows, self._basis.shape[1])
        for weight, moment in zip(weights, moments, strict=True):
            terms = sources.basis if weight is None else sources.basis * weight.unsqueeze(1)
            moment.index_add_(0, sources.row, terms)
        return moments

    def at(self, targets: Points, kernel: Kernel, moments: Tensor) -> Tensor:
        """Return the kernel sums over the sources of `moments` at each target, `(n_targets, c)`."""
        expansion = _banded_product(moments, kernel_matrix(kernel, moments.device, moments.shape[2]), self._occupied)
        sums = torch.stack([(field.index_select(0, targets.place) * targets.basis).sum(1) for field in expansion], 1)
        if self._lattice.starts is None:
            return sums
        if kernel.linear:
            sums += self._gaps_far_above(targets, moments)
        if kernel.above:
            sums += kernel.above * self._weight_far_above(targets, moments)
        if kernel.below:
            sums += kernel.below * self._weight_far_below(targets, moments)
        return sums

    def _weight_far_above(self, targets: Points, moments: Tensor) -> Tensor:
        """Return the total weight beyond the band above each target, `(n_targets, c)`."""
        # Rows between two lists are empty, and a band wide.
        return self._running_sums(moments[:, :, 0])[1].index_select(1, targets.row + BAND).T

    def _weight_far_below(self, targets: Points, moments: Tensor) -> Tensor:
        return self._running_sums(moments[:, :, 0])[0].index_select(1, targets.row - BAND).T

    def _gaps_far_above(self, targets: Points, moments: Tensor) -> Tensor:
        """Return the sum of weight times gap beyond the band above each target, `(n_targets, c)`."""
        # Sums run from the top, which keeps small ones precise; heights are relative to the list's lowest box, which
        # keeps the digits of large scores.
        centre = moments.new_zeros(self._lattice.n_rows)
        centre[self._lattice.row] = 2 * self._lattice.steps
        weight = moments[:, :, 0]
        sums = self._running_sums(torch.cat([weight, weight * centre + moments[:, :, 1]]))[1]
        far = sums.index_select(1, targets.row + BAND).view(2, len(weight), -1)
        own = targets.pick(2 * self._lattice.steps + self._lattice.local)
        return (far[1] - own * far[0]).T

    def _running_sums(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of `values` `(c, n_rows)` over the list's rows below and above each row."""
        assert self._lattice.starts is not None, "some list is wider than the band"
        return running_sums(values.contiguous(), self._lattice.starts)


class InterpolatedSums:
    """Interpolated sigmoid sums of the items `targets` over their lists; implements `smooth_ranks.Sums`."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._boxes = Boxes(scores, lists, temperature)
        self._index = targets
        self._all, self._targets = self._boxes.points(), self._boxes.points(targets)
        self._moments = scores.new_zeros(0)

    def ranks(self, weights: Weights) -> Tensor:
        self._moments = self._boxes.moments(weights, self._all)
        return self._boxes.at(self._targets, SIGMOID, self._moments)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        upstream = upstream.to(torch.float64)
        pushed = self._boxes.at(
            self._all, SIGMOID_SLOPE, self._boxes.moments(upstream.unbind(1), self._targets)
        ).unbind(1)
        terms = [push if weight is None else weight * push for weight, push in zip(weights, pushed, strict=True)]
        own = (upstream * self._boxes.at(self._targets, SIGMOID_SLOPE, self._moments)).sum(1)
        return sum(terms[1:], start=terms[0]).index_add(0, self._index, own, alpha=-1)


def _lattice(x: Tensor, lists: Lists) -> _Lattice:
    # Box b covers 2b - 1 .. 2b + 1, so that the tied scores near 0 of an untrained model lie at a centre.
    box = torch.floor(x / 2 + 0.5)
    local = x - 2 * box
    lowest = lists.min(box)
    steps = box - lists.spread(lowest)
    spans = torch.where(lists.sizes > 0, lists.max(box) - lowest + 1, 0.0)
    if float(spans.sum()) <= max(DENSE_ROWS, DENSE_ROWS_PER_ITEM * len(x)):
        spans = spans.to(torch.int64)
        first_row = (spans + BAND).cumsum(0) - spans
        row = lists.spread(first_row) + steps.to(torch.int64)
        last_row = first_row + spans - 1
    else:
        row, last_row = _rows_of_occupied_boxes(box, lists)
    # At least one band of rows, even if all lists are empty.
    n_rows = max(int(last_row[-1]) if len(lists) else 0, BAND) + BAND + 1
    starts = None
    if bool((spans > BAND + 1).any()):
        some = lists.sizes > 0
        first = lists.min(row)[some].to(torch.int64)
        starts = torch.zeros(n_rows, dtype=torch.bool, device=row.device)
        starts[torch.cat([first, last_row[some] + 1])] = True
    return _Lattice(row, local, starts, n_rows, steps)


def _rows_of_occupied_boxes(box: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    """Return rows in the order of the boxes, gaps shortened to the band, so that outliers cost no memory."""
    by_box = torch.argsort(box)
    order = by_box[torch.argsort(lists.segment[by_box], stable=True)]
    steps = torch.full_like(box, BAND + 1)
    ranked = box[order]
    steps[1:] = (ranked[1:] - ranked[:-1]).clamp(max=BAND + 1)
    starts = lists.offsets[:-1][lists.sizes > 0]
    steps[starts] = BAND + 1
    ordered_rows = steps.to(torch.int64).cumsum(0)
    row = torch.empty_like(ordered_rows)
    row[order] = ordered_rows
    last_row = torch.cat([ordered_rows.new_zeros(1), ordered_rows])[lists.offsets[1:]]
    return row, last_row


def _occupied(row: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return the rows that hold items, and the index of each item's row among them."""
    flags = torch.zeros(n_rows, dtype=torch.int64, device=row.device)
    flags[row] = 1
    return torch.nonzero(flags).squeeze(1), (flags.cumsum(0) - 1).index_select(0, row)


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
