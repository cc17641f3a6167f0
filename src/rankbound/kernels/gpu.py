"""Kernels for GPUs in Triton: the value and the slopes of each list, without padding, in one to two launches.

Their twins are the formulas in PyTorch, and for a CPU `rankbound.kernels.losses` and `rankbound.kernels.smooth`. A
cross-entropy has one program per list, which passes over its items in blocks. The others sum over the pairs of a list,
with one program per `TILE` of its items, which passes over the list in tiles: the time is quadratic in the list's
length, the memory linear, and no two programs write to one place, so that sums have one order. Slopes are sums over
pairs of differences, which do not cancel where scores tie.

Sums over pairs have the scores' precision within a tile, and double precision from there on; what is done once per item
has double precision. Numbers of double precision come in tensors: Triton takes arguments in single precision.

Nothing here reads a number of the GPU. Tiles are laid out from `Lists.limits`, once per `Lists`. All functions take
scores `(n_items,)` in single or double precision and relevance or gains `(n_items,)`, and return the losses
`(n_lists,)`, float64, and their derivatives by the scores, `(n_items,)`.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from rankbound.kernels.formulas import AP, DCG, DISCOUNTS, RANK_SUM, TARGETS, Formula

if TYPE_CHECKING:
    from rankbound.lists import Lists

# Items that a program of a cross-entropy reads at once.
BLOCK = 512

# The longest list whose pairs are summed, by some sixteen million pairs. Longer ones are left to the formulas, which
# interpolate. The limit has not been fitted to a GPU's times.
LONGEST = 4096

# Items of a program, and of each step of its pass over the list. Both are the same for all batches, so that a list's
# sums have one order, whatever else is in the batch.
TILE = 32

IS_EXP2, IS_ONE, IS_SOFTMAX = (tl.constexpr(TARGETS.index(name)) for name in ("exp2", "one", "softmax"))
IS_DCG, IS_AP, IS_RANK_SUM = map(tl.constexpr, (DCG, AP, RANK_SUM))
IS_CONSTANT, IS_LOG2 = (tl.constexpr(DISCOUNTS.index(name)) for name in ("constant", "log2(r)"))


def cross_entropy(
    scores: Tensor, relevance: Tensor, lists: "Lists", weights: Tensor | None, target: str, rel: float
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropies with a target of `TARGETS`; `rel` is the lowest relevant grade of `one`."""
    losses, slopes = scores.new_zeros(len(lists), dtype=torch.float64), scores.new_empty(len(scores))
    grades = relevance.to(torch.float64)
    inputs = scores, grades, grades if weights is None else weights.to(torch.float64), lists.offsets
    lowest = torch.full((1,), float(rel), dtype=torch.float64, device=scores.device)
    kind = TARGETS.index(target)
    _launch(_cross_entropy, len(lists), *inputs, lowest, losses, slopes, kind, weights is not None, BLOCK)
    return losses, slopes


def smooth_metric(
    scores: Tensor, gains: Tensor, lists: "Lists", formula: Formula, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return a metric at smooth ranks, NaN where it is undefined; relevant items are those with a gain above 0."""
    values, slopes = scores.new_zeros(len(lists), dtype=torch.float64), scores.new_empty(len(scores))
    tiles, exact = _tiles(lists), gains.to(torch.float64)
    tau = torch.full((1,), float(temperature), dtype=torch.float64, device=scores.device)
    inputs = scores, exact, lists.offsets, tiles, tau
    terms, ideal, by_above, by_among = (torch.empty_like(exact) for _ in range(4))
    kind, _, _, discount, cutoff, normalised = formula.numbers
    if kind != DCG or normalised:
        # Of lists without items, which have no tile.
        values.fill_(math.nan)
    of_items = terms, ideal, by_above, by_among
    _launch(_terms, len(tiles), *inputs, *of_items, kind, discount, cutoff, bool(normalised), TILE)
    _launch(_slopes, len(tiles), *inputs, *of_items, values, slopes, kind, kind == AP or bool(normalised), TILE)
    return values, slopes


def _tiles(lists: "Lists") -> Tensor:
    """Return the list and the first place within it of each tile, `(n_tiles, 2)`; a list without items has none."""

    def compute() -> Tensor:
        counts = -(-np.diff(lists.limits) // TILE)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.stack([np.repeat(np.arange(len(counts)), counts), place * TILE], 1)
        return torch.from_numpy(table).to(lists.device, non_blocking=True)

    return lists._known("tiles", compute)


def _launch(kernel, programs: int, *arguments) -> None:
    """Start a kernel's programs on the device of its tensors, which is not always the current one."""
    if programs == 0:
        return
    flat = [one.contiguous() if isinstance(one, Tensor) else one for one in arguments]
    with torch.cuda.device_of(flat[0]):
        kernel[(programs,)](*flat)


# The kernels. A program of `_cross_entropy` has one list; of the others, the items of one tile, in rows, and those of
# the list, tile by tile, in columns. Names in capitals are constants, for each of which a kernel is compiled.


@triton.jit
def _cross_entropy(
    scores, relevance, weights, offsets, lowest, losses, slopes, TARGET: tl.constexpr, WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The highest score and grade, then the sums, then the slopes."""
    t = tl.program_id(0)
    first = tl.load(offsets + t)
    n = (tl.load(offsets + t + 1) - first).to(tl.int32)
    rel, lanes = tl.load(lowest), tl.arange(0, BLOCK)
    tops = tl.full([BLOCK], -float("inf"), tl.float64)
    grades = tl.full([BLOCK], -float("inf"), tl.float64)
    for start in range(0, n, BLOCK):
        here, i = start + lanes < n, first + start + lanes
        tops = tl.maximum(tops, tl.load(scores + i, mask=here, other=-float("inf")).to(tl.float64))
        grades = tl.maximum(grades, tl.load(relevance + i, mask=here, other=-float("inf")))
    top, highest = tl.max(tops, 0), tl.max(grades, 0)
    power = tl.zeros([BLOCK], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    weight = tl.zeros([BLOCK], tl.float64)
    gain = tl.zeros([BLOCK], tl.float64)
    for start in range(0, n, BLOCK):
        here, i = start + lanes < n, first + start + lanes
        x = tl.where(here, tl.load(scores + i, mask=here, other=0.0).to(tl.float64) - top, 0.0)
        share = tl.where(here, _target(relevance, i, here, rel, highest, TARGET), 0.0)
        power += tl.where(here, tl.exp(x), 0.0)
        total += share
        if WEIGHTED:
            share *= tl.load(weights + i, mask=here, other=0.0)
        weight += share
        gain += share * x
    of_targets = tl.sum(total, 0)
    informative = (of_targets > 0.0) & ((highest > 0.0) | (TARGET == IS_ONE))
    of_targets = tl.where(informative, of_targets, 1.0)
    of_powers = tl.where(informative, tl.sum(power, 0), 1.0)
    of_weights = tl.sum(weight, 0) / of_targets
    loss = of_weights * tl.log(of_powers) - tl.sum(gain, 0) / of_targets
    tl.store(losses + t, tl.where(informative, loss, 0.0))
    for start in range(0, n, BLOCK):
        here, i = start + lanes < n, first + start + lanes
        x = tl.where(here, tl.load(scores + i, mask=here, other=0.0).to(tl.float64) - top, 0.0)
        share = _target(relevance, i, here, rel, highest, TARGET)
        if WEIGHTED:
            share *= tl.load(weights + i, mask=here, other=0.0)
        slope = of_weights * (tl.exp(x) / of_powers) - share / of_targets
        tl.store(slopes + i, tl.where(informative, slope, 0.0), mask=here)


@triton.jit
def _target(relevance, i, here, rel, highest, TARGET: tl.constexpr):
    """Return the targets of some items, which do not sum to 1 yet."""
    y = tl.load(relevance + i, mask=here, other=0.0)
    if TARGET == IS_EXP2:
        y = tl.exp2(y) - 1.0
    elif TARGET == IS_ONE:
        y = tl.where(y >= rel, 1.0, 0.0).to(tl.float64)
    elif TARGET == IS_SOFTMAX:
        y = tl.exp(y - highest)
    return y


@triton.jit
def _tile(tiles, offsets, TILE: tl.constexpr):
    """Return a program's list, its first item and number of items, and the tile's items and which of them exist."""
    t = tl.load(tiles + 2 * tl.program_id(0))
    place = tl.load(tiles + 2 * tl.program_id(0) + 1)
    first = tl.load(offsets + t)
    n = tl.load(offsets + t + 1) - first
    lanes = place + tl.arange(0, TILE)
    return t, place, first, n.to(tl.int32), first + lanes, lanes < n


@triton.jit
def _terms(
    scores, gains, offsets, tiles, temperature, terms, ideal, by_above, by_among, KIND: tl.constexpr,
    DISCOUNT: tl.constexpr, CUTOFF: tl.constexpr, NORMALISED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The terms of relevant items, their terms in the ideal order, and the terms' derivatives by two sums.

    These are the sums of sigmoids over all items above and over the relevant ones; 0 for other items.
    """
    _, _, first, n, i, own = _tile(tiles, offsets, TILE)
    exact = tl.load(temperature)
    tau = exact.to(scores.dtype.element_ty)
    x = tl.load(scores + i, mask=own, other=0.0)[:, None]
    gain = tl.load(gains + i, mask=own, other=0.0)
    above = tl.zeros([TILE, TILE], scores.dtype.element_ty)
    among = tl.zeros([TILE, TILE], scores.dtype.element_ty)
    before = tl.zeros([TILE, TILE], tl.int32)
    # A tile without relevant items passes over nothing.
    for start in range(0, tl.where(tl.max(gain, 0) > 0.0, n, 0), TILE):
        lanes = start + tl.arange(0, TILE)
        here, j = lanes < n, first + lanes
        other = tl.load(gains + j, mask=here, other=0.0)
        gap = (tl.load(scores + j, mask=here, other=0.0)[None, :] - x) / tau
        lesser = tl.exp(-tl.abs(gap))
        share = tl.where(gap < 0.0, lesser, 1.0) / (1.0 + lesser)
        if KIND == IS_RANK_SUM:
            here &= ~(other > 0.0)
        above += tl.where(here[None, :], share, 0.0)
        if KIND == IS_AP:
            among += tl.where((other > 0.0)[None, :], share, 0.0)
        if KIND == IS_DCG and NORMALISED:
            is_first = (other[None, :] > gain[:, None]) | (
                (other[None, :] == gain[:, None]) & (j[None, :] < i[:, None])
            )
            before += is_first.to(tl.int32)
    # The sums count half of the item itself.
    weight_above = tl.sum(above.to(tl.float64), 1)
    rank = weight_above + 0.5
    best = gain
    if KIND == IS_DCG:
        value, slope = _discount(rank, DISCOUNT)
        value, slope, slope_among = gain * value, gain * slope, tl.zeros([TILE], tl.float64)
        if NORMALISED:
            first_ranks = tl.sum(before, 1).to(tl.float64) + 1.0
            discount, _ = _discount(first_ranks, DISCOUNT)
            best = gain * discount
            if CUTOFF > 0:
                best = tl.where(first_ranks <= CUTOFF, best, 0.0)
    elif KIND == IS_AP:
        slope_among = 1.0 / rank
        value = (tl.sum(among.to(tl.float64), 1) + 0.5) * slope_among
        slope = -value * slope_among
    else:
        value, slope, slope_among = weight_above, tl.full([TILE], 1.0, tl.float64), tl.zeros([TILE], tl.float64)
    if CUTOFF > 0 and KIND != IS_RANK_SUM:
        # The smooth membership in the first ranks.
        depth = (CUTOFF + 0.5 - rank) / exact
        lesser = tl.exp(-tl.abs(depth))
        inside = tl.where(depth < 0.0, lesser, 1.0) / (1.0 + lesser)
        slope = slope * inside - value * lesser / ((1.0 + lesser) * (1.0 + lesser)) / exact
        value, slope_among = value * inside, slope_among * inside
    counts = gain > 0.0
    tl.store(terms + i, tl.where(counts, value, 0.0), mask=own)
    tl.store(ideal + i, best, mask=own)
    tl.store(by_above + i, tl.where(counts, slope, 0.0), mask=own)
    tl.store(by_among + i, tl.where(counts, slope_among, 0.0), mask=own)


@triton.jit
def _discount(rank, DISCOUNT: tl.constexpr):
    """Return the discounts of ranks, and their derivatives."""
    if DISCOUNT == IS_CONSTANT:
        value, slope = rank * 0.0 + 1.0, rank * 0.0
    elif DISCOUNT == IS_LOG2:
        shifted = tl.where(rank < 2.0, 2.0, rank)
        value = 1.0 / tl.log2(shifted)
        # At its kink, the slope is that of the ranks below.
        slope = tl.where(rank < 2.0, 0.0, -value / (tl.log(shifted) * shifted))
    else:
        shifted = rank + 1.0
        value = 1.0 / tl.log2(shifted)
        slope = -value / (tl.log(shifted) * shifted)
    return value, slope


@triton.jit
def _slopes(
    scores, gains, offsets, tiles, temperature, terms, ideal, by_above, by_among, values, slopes, KIND: tl.constexpr,
    NORMALISED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The gradient, by pairs: the slope of the sigmoid times the difference of what it moves; and a list's value.

    The list's terms are summed by each of its tiles, and written by the first.
    """
    t, place, first, n, i, own = _tile(tiles, offsets, TILE)
    exact = tl.load(temperature)
    tau = exact.to(scores.dtype.element_ty)
    x = tl.load(scores + i, mask=own, other=0.0)[:, None]
    relevant = (tl.load(gains + i, mask=own, other=0.0) > 0.0)[:, None]
    above = tl.load(by_above + i, mask=own, other=0.0).to(scores.dtype.element_ty)[:, None]
    among = tl.load(by_among + i, mask=own, other=0.0).to(scores.dtype.element_ty)[:, None]
    slope = tl.zeros([TILE, TILE], scores.dtype.element_ty)
    total = tl.zeros([TILE], tl.float64)
    best = tl.zeros([TILE], tl.float64)
    for start in range(0, n, TILE):
        lanes = start + tl.arange(0, TILE)
        here, j = lanes < n, first + lanes
        total += tl.load(terms + j, mask=here, other=0.0)
        best += tl.load(ideal + j, mask=here, other=0.0)
        lesser = tl.exp(-tl.abs((tl.load(scores + j, mask=here, other=0.0)[None, :] - x) / tau))
        other = tl.load(by_above + j, mask=here, other=0.0).to(scores.dtype.element_ty)[None, :]
        is_other = (tl.load(gains + j, mask=here, other=0.0) > 0.0)[None, :]
        push = other - above
        if KIND == IS_RANK_SUM:
            push = tl.where(relevant & is_other, 0.0, push)
        if KIND == IS_AP:
            other = tl.load(by_among + j, mask=here, other=0.0).to(scores.dtype.element_ty)[None, :]
            push += tl.where(relevant & is_other, other - among, 0.0)
        slope += tl.where(here[None, :], push * lesser / ((1.0 + lesser) * (1.0 + lesser)), 0.0)
    of_best = tl.sum(best, 0)
    informative = of_best > 0.0
    divisor = tl.where(informative, of_best, 1.0)
    if not NORMALISED:
        divisor = divisor * 0.0 + 1.0
    gradient = tl.sum(slope.to(tl.float64), 1) / (divisor * exact)
    tl.store(slopes + i, tl.where(informative, gradient, 0.0), mask=own)
    value = tl.sum(total, 0) / divisor
    if KIND != IS_DCG or NORMALISED:
        value = tl.where(informative, value, float("nan"))
    if place == 0:
        tl.store(values + t, value)
