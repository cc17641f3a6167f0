"""The smooth CDF of algorithm 2 for a batch of lists with different tables, vectorised over the lists.

At a distance of 30 / a, the sigmoid of gain a differs from 0 or 1 by less than 1e-13. A list's sum therefore needs only
the scores (or bins) within that distance; those below count in full, those above don't count. All near entries of the
batch form one flat array. Entries much closer to each other than 1 / a are merged beforehand.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankbound.bounds._score_distribution import Gain, ScoreDistribution, counts_pairs
from rankbound.bounds._scores import Floats
from rankbound.bounds._smoothing import FINE_GAIN
from rankbound.errors import ConfigError
from rankbound.gradients import last_derivative
from rankbound.interpolation import sigmoid_curvature, sigmoid_slope

REACH = 30.0
"""Distance, in units of 1 / gain, beyond which sigmoid and step agree to 1e-13."""
MERGED = 0.2
"""Entries in a cell of this size, in units of 1 / gain, are merged into one of the same mean and variance (error
1e-6)."""


class LookupTables(Protocol):
    """The part of `rankbound.bounds.tables.DistributionTables` that the lookup uses."""

    @property
    def metric(self) -> str: ...

    @property
    def offsets(self) -> NDArray[np.int64]: ...

    @property
    def support(self) -> Floats: ...

    @property
    def probability(self) -> Floats: ...

    @property
    def columns(self) -> dict[str, Floats]: ...

    @property
    def keys(self) -> NDArray[np.int64]: ...

    def __len__(self) -> int: ...

    def gains(self, kind: Gain) -> Floats: ...

    def of_key(self, key: int) -> ScoreDistribution: ...


class SmoothLookup:
    """The tables of one metric on one device, prepared for one kind of gain.

    Per table: `_keys` (ascending, `Profile.key`), `_defined`, `_per_table` (gain, first entry's position, twice the
    span, half the widest bin), `_offset` (index of its first entry), `_split` (integers per bin of the nRBP loss). Per
    entry, a score or a bin: `_entries` (middle, mass, width), `_below` (mass before it), `_places` (for the search).
    """

    def __init__(self, tables: LookupTables, gain: Gain, device: torch.device) -> None:
        def put(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.array(array)).to(device)

        gains = tables.gains(gain)
        entries = _merge_near(tables, gains)
        size = np.diff(entries.offsets)
        first, last = entries.position[entries.offsets[:-1]], entries.position[entries.offsets[1:] - 1]
        width = tables.columns["width"]
        split = np.where(counts_pairs(tables.metric) & (width > 1) & (gains > FINE_GAIN), width, 1).astype(np.int64)
        half = np.maximum.reduceat(entries.width, entries.offsets[:-1]) / 2
        span = 2 * np.maximum(last - first, 1e-300)
        owner = np.repeat(np.arange(len(tables)), size)

        self._tables = tables
        self._keys = put(tables.keys)
        self._defined = put(~np.isnan(gains))
        self._per_table = put(np.stack([gains, first, span, half], axis=1))
        self._offset, self._split = put(entries.offsets[:-1]), put(split)
        self._any_split = bool((split > 1).any())
        self._entries = put(np.stack([entries.position, entries.mass, entries.width], axis=1))
        self._below = put(np.concatenate([[0.0], np.cumsum(entries.mass)]))
        # All tables' entries in one ascending sequence: the table's index plus a place in [0.25, 0.75].
        self._places = put(owner + 0.25 + (entries.position - first[owner]) / span[owner])
        self._all_bins, self._all_single = bool((entries.width > 0).all()), bool((entries.width == 0).all())

    def __call__(self, values: Tensor, keys: Tensor) -> Tensor:
        smoothed: Tensor = _SmoothCdf.apply(values, self._table(keys), self)  # type: ignore[no-untyped-call]
        return smoothed

    def evaluate(self, values: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smooth CDF and its derivative at float64 `values`, `(n_lists,)` each; NaN where a value is NaN."""
        gain = self._per_table[table, 0]
        listed, distance, width, mass, below = self._near(values, table)
        step, slope = self._kernel(distance, width)
        near = torch.stack([step, slope], dim=1) * mass[:, None]
        sums = values.new_zeros(len(values), 2).index_add_(0, listed, near)
        value = torch.where(values.isnan(), values, sums[:, 0] + below)
        return value, sums[:, 1] * gain

    def bend(self, values: Tensor, table: Tensor) -> Tensor:
        """Return the second derivative of the smooth CDF, `(n_lists,)`."""
        gain = self._per_table[table, 0]
        listed, distance, width, mass, _ = self._near(values, table)
        sums = torch.zeros_like(values).index_add_(0, listed, _kernel_bend(distance, width) * mass)
        return sums * gain**2

    def _near(self, values: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the entries within reach (list, distance and width in 1 / gain, mass) and each list's mass below."""
        gain, first, span, half = self._per_table[table].unbind(1)
        reach = REACH / gain + half
        ends = torch.stack([values - reach, values + reach])
        places = ((ends - first) / span).clamp(-0.2, 0.7) + (table + 0.25)
        begin, end = torch.searchsorted(self._places, places).unbind(0)
        below = self._below[begin] - self._below[self._offset[table]]

        listed, entry = _ranges(begin, end)
        position, mass, width = self._entries[entry].unbind(1)
        if self._any_split:
            split = self._split[table][listed]
            position, mass, width, listed = _integers(position, mass, width, listed, split)
        own_gain = gain[listed]
        return listed, own_gain * (values[listed] - position), own_gain * width, mass, below

    def _table(self, keys: Tensor) -> Tensor:
        table = torch.searchsorted(self._keys, keys).clamp_(max=len(self._keys) - 1)
        usable = (self._keys[table] == keys) & self._defined[table]
        if not bool(usable.all()):
            self._tables.of_key(int(keys[~usable][0])).gain()
            raise ConfigError("the tables are not in order of (n, p): regenerate the file")
        return table

    def _kernel(self, distance: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smoothed step and its slope at `distance` from an entry's middle, in units of 1 / gain."""
        if self._all_bins and not self._any_split:
            return _bin_kernel(distance, width)
        single = torch.sigmoid(distance)
        if self._all_single:
            return single, single * (1 - single)
        step, slope = _bin_kernel(distance, torch.where(width > 0, width, 1.0))
        return torch.where(width > 0, step, single), torch.where(width > 0, slope, single * (1 - single))


class _SmoothCdf(torch.autograd.Function):
    """The smooth CDF, with its density as the derivative."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, table: Tensor, lookup: SmoothLookup) -> Tensor:
        value, density = lookup.evaluate(values.to(torch.float64), table)
        ctx.save_for_backward(values, density.to(values.dtype), table)
        ctx.lookup = lookup
        return value.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        values, density, table = ctx.saved_tensors
        # A function of its own, so that a second derivative (a Hessian's) reaches the values.
        density = _Density.apply(values, density, table, ctx.lookup)  # type: ignore[no-untyped-call]
        return gradient * density, None, None


class _Density(torch.autograd.Function):
    """The density computed along with the smooth CDF; its derivative is computed on demand."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, density: Tensor, table: Tensor, lookup: SmoothLookup) -> Tensor:
        ctx.save_for_backward(values, table)
        ctx.lookup = lookup
        return density.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        values, table = ctx.saved_tensors
        with torch.no_grad():
            by_values = gradient * ctx.lookup.bend(values.to(torch.float64), table).to(values.dtype)
        return *last_derivative((by_values,), values, gradient), None, None, None


def _bin_kernel(distance: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sigmoid's mean over a bin, as in `rankbound.bounds._smoothing`, and its derivative."""
    left, right = distance + width / 2, distance - width / 2
    linear = left.clamp(min=0.0).minimum(width)
    step = (linear + torch.log1p(torch.exp(-left.abs())) - torch.log1p(torch.exp(-right.abs()))) / width
    return step, (torch.sigmoid(left) - torch.sigmoid(right)) / width


def _kernel_bend(distance: Tensor, width: Tensor) -> Tensor:
    """Return the second derivative of the smoothed step, for single scores (width 0) and bins."""
    slopes = sigmoid_slope(distance + width / 2) - sigmoid_slope(distance - width / 2)
    return torch.where(width > 0, slopes / torch.where(width > 0, width, 1.0), sigmoid_curvature(distance))


def _ranges(begin: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of the range of each integer, and the integers of all ranges begin .. end - 1."""
    count = (end - begin).clamp_(min=0)
    listed = torch.repeat_interleave(count)
    start = begin - (count.cumsum(0) - count)
    return listed, torch.arange(len(listed), device=begin.device) + start[listed]


def _integers(
    position: Tensor, mass: Tensor, width: Tensor, listed: Tensor, split: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split each bin into its `split` integers, with equal shares of the mass; entries with `split` 1 are unchanged."""
    entry, place = _ranges(torch.zeros_like(split), split)
    several = (split > 1)[entry]
    first = position - (split - 1) / 2
    return (
        first[entry] + place,
        (mass / split)[entry],
        torch.where(several, 0.0, width[entry]),
        listed[entry],
    )


@dataclass(frozen=True)
class _Entries:
    """The scores (width 0) and bins of all tables: middle, mass and width of each, and the tables' offsets."""

    position: Floats
    mass: Floats
    width: Floats
    offsets: NDArray[np.int64]


def _merge_near(tables: LookupTables, gains: Floats) -> _Entries:
    """Merge the entries in each cell of size `MERGED` / gain of a table into one bin of the same mean and variance."""
    size = np.diff(tables.offsets)
    owner = np.repeat(np.arange(len(tables)), size)
    own_width = np.repeat(tables.columns["width"], size)
    start = np.repeat(tables.support[tables.offsets[:-1]], size)
    place = np.nan_to_num((tables.support - start) * np.repeat(gains, size) / MERGED)
    cell = np.floor(place)
    fresh = np.flatnonzero((np.diff(cell, prepend=-1.0) != 0) | (np.diff(owner, prepend=-1) != 0))

    def total(values: Floats) -> Floats:
        return np.add.reduceat(values, fresh)

    count = np.diff(fresh, append=len(owner))
    # Empty bins far from the mean get a tiny weight, so that every cell has weight.
    weight = tables.probability + 1e-300
    group = np.repeat(np.arange(len(fresh)), count)
    mean = total(weight * (tables.support - start)) / total(weight)
    away = tables.support - start - mean[group]
    variance = total(weight * (away**2 + own_width**2 / 12)) / total(weight)
    width = np.where(count == 1, own_width[fresh], np.sqrt(12 * variance))
    position = np.where(count == 1, tables.support[fresh], start[fresh] + mean)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[fresh], minlength=len(tables)))])
    return _Entries(position, total(tables.probability), width, offsets)
