r"""Kernel sums over each list in linear time, by Chebyshev interpolation in boxes of scores.

The kernel $\sigma(y - x)$ is smooth in one dimension. Scores, in units of the temperature, fall into boxes of width 2
on a lattice that is the same for every list, so that a list's sums never depend on its batch mates. An item adds its
weight to the Chebyshev moments of its box; boxes up to `BAND` apart meet through a small matrix per distance, and
farther ones, where the sigmoid is 0 or 1, through running totals; the expansion is read off at the targets.
The truncation error is below 1e-8 of the weights involved. Everything is computed in float64: the boxes are few, and
running totals of single-precision moments would lose the small ranks.

Boxes lie in rows, list after list, with `BAND` empty rows between lists, so that one band of rows never mixes lists.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rankbound.lists import Lists, Weights

# Chebyshev polynomials per box, and boxes at which sigmoid(2 * BAND) is 1 to 1.5e-8.
ORDER = 10
BAND = 9

# Rows that are allocated without a look at which are occupied, per item and at least.
DENSE_ROWS_PER_ITEM = 2
DENSE_ROWS = 20_000

# Bounds the memory of the banded product: rows of (2 * BAND + 1) * ORDER numbers.
ROWS_PER_CHUNK = 8_192


@dataclass(frozen=True)
class _Lattice:
    """`row` (n_items,) of each item's box, its `local` coordinate in [-1, 1], the last row of each list's boxes."""

    row: Tensor
    local: Tensor
    last_row: Tensor
    n_rows: int


@dataclass(frozen=True)
class _Points:
    """Items as sources or targets: their `row`, the polynomials there `(n, ORDER)`, their place among occupied rows."""

    row: Tensor
    basis: Tensor
    place: Tensor

    def at(self, items: Tensor) -> "_Points":
        return _Points(*(values.index_select(0, items) for values in (self.row, self.basis, self.place)))


class InterpolatedSums:
    """Kernel sums of the items `targets` over the items of their lists (`smooth_ranks.Sums`)."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._lattice = _lattice(scores.to(torch.float64) / temperature, lists)
        self._occupied, place = _occupied(self._lattice.row, self._lattice.n_rows)
        self._all = _Points(self._lattice.row, _chebyshev(self._lattice.local), place)
        self._index = targets
        self._targets = self._all.at(targets)
        self._last_row = self._lattice.last_row.index_select(0, lists.segment.index_select(0, targets))
        self._moments = scores.new_zeros(0)

    def ranks(self, weights: Weights) -> Tensor:
        self._moments = self._moments_of(weights, self._all)
        return self._near(self._moments, "sigmoid", self._targets) + self._far(self._moments)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        upstream = upstream.to(torch.float64)
        pushed = self._near(self._moments_of(upstream.unbind(1), self._targets), "slope", self._all).unbind(1)
        terms = [push if weight is None else weight * push for weight, push in zip(weights, pushed, strict=True)]
        own = (upstream * self._near(self._moments, "slope", self._targets)).sum(1)
        return sum(terms[1:], start=terms[0]).index_add(0, self._index, own, alpha=-1)

    def _moments_of(self, weights: Weights, sources: _Points) -> Tensor:
        """Sums of weight times each polynomial per row, `(c, n_rows, ORDER)`."""
        moments = sources.basis.new_zeros(len(weights), self._lattice.n_rows, ORDER)
        for weight, moment in zip(weights, moments, strict=True):
            terms = sources.basis if weight is None else sources.basis * weight.unsqueeze(1)
            moment.index_add_(0, sources.row, terms)
        return moments

    def _near(self, moments: Tensor, kernel: str, targets: _Points) -> Tensor:
        """The sums over boxes within the band: `(n_targets, c)`."""
        expansion = _banded_product(moments, _kernel_matrix(kernel, moments.device), self._occupied)
        return torch.stack([(field.index_select(0, targets.place) * targets.basis).sum(1) for field in expansion], 1)

    def _far(self, moments: Tensor) -> Tensor:
        """The weight beyond the band above each target, where the sigmoid is 1: `(n_targets, c)`."""
        totals = moments[:, :, 0].cumsum(1)
        return (totals.index_select(1, self._last_row) - totals.index_select(1, self._targets.row + BAND)).T


def _lattice(x: Tensor, lists: Lists) -> _Lattice:
    # Box b covers 2b - 1 .. 2b + 1: a fresh model's tied scores of about 0 lie at a centre.
    box = torch.floor(x / 2 + 0.5)
    local = x - 2 * box
    lowest = lists.min(box)
    spans = torch.where(lists.sizes > 0, lists.max(box) - lowest + 1, 0.0)
    if float(spans.sum()) <= max(DENSE_ROWS, DENSE_ROWS_PER_ITEM * len(x)):
        spans = spans.to(torch.int64)
        first_row = (spans + BAND).cumsum(0) - spans
        row = lists.spread(first_row) + (box - lists.spread(lowest)).to(torch.int64)
        last_row = first_row + spans - 1
    else:
        row, last_row = _rows_of_occupied_boxes(box, lists)
    # A whole band of rows even where no list has an item.
    n_rows = max(int(last_row[-1]) if len(lists) else 0, BAND) + BAND + 1
    return _Lattice(row, local, last_row.clamp(min=0), n_rows)


def _rows_of_occupied_boxes(box: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
    """Rows in the order of the boxes, with longer gaps than the band closed up to it: outliers cost no memory."""
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
    """The rows that hold items, and the place of each item's row among them."""
    flags = torch.zeros(n_rows, dtype=torch.int64, device=row.device)
    flags[row] = 1
    return torch.nonzero(flags).squeeze(1), (flags.cumsum(0) - 1).index_select(0, row)


def _banded_product(moments: Tensor, kernel: Tensor, rows: Tensor) -> Tensor:
    """Local expansions `(c, n, ORDER)` of `rows` from the moments of all rows within the band."""
    width = (2 * BAND + 1) * ORDER
    bands = moments.flatten(1).unfold(1, width, ORDER)
    parts = [bands.index_select(1, part - BAND) @ kernel for part in torch.split(rows, ROWS_PER_CHUNK)]
    return torch.cat(parts, 1) if parts else moments.new_zeros(len(moments), 0, ORDER)


def _chebyshev(local: Tensor) -> Tensor:
    """The polynomials T_0 .. T_(ORDER-1) at `local`, `(n, ORDER)`."""
    basis = local.new_empty(ORDER, len(local))
    basis[0] = 1
    basis[1] = local
    double = 2 * local
    for degree in range(2, ORDER):
        torch.mul(double, basis[degree - 1], out=basis[degree]).sub_(basis[degree - 2])
    return basis.T.contiguous()


@lru_cache(maxsize=8)
def _kernel_matrix(kernel: str, device: torch.device) -> Tensor:
    r"""`((2 * BAND + 1) * ORDER, ORDER)`: from the moments of a band of source boxes to a target box's expansion.

    Entry `(d, b; a)` is the coefficient of $T_b(v) T_a(u)$ in $k(2d + v - u)$, `d` the boxes from target to source.
    """
    n_nodes = 4 * ORDER
    angles = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) * (torch.pi / n_nodes)
    nodes = torch.cos(angles)
    distance = torch.arange(-BAND, BAND + 1, dtype=torch.float64)
    values = torch.sigmoid(2 * distance[:, None, None] + nodes[:, None] - nodes[None, :])
    if kernel == "slope":
        values = values * (1 - values)
    to_coefficients = torch.cos(torch.arange(ORDER)[:, None] * angles) * (2 / n_nodes)
    to_coefficients[0] /= 2
    matrix = to_coefficients @ values @ to_coefficients.T
    return matrix.reshape(-1, ORDER).to(device)
