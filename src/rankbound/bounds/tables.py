"""Score distributions for batches of lists: tables of one metric, computed before or on demand, and their smooth CDF.

The smooth CDF of algorithm 2 is vectorised over lists with different tables. At a distance of 30 / a, the sigmoid of
gain a differs from 0 or 1 by less than 1e-13. A list's sum therefore needs only the scores (or bins) within that
distance; those below count in full, those above don't count. All near entries of the batch form one flat array. Entries
much closer to each other than 1 / a are merged beforehand.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankbound.bounds import score_distribution
from rankbound.bounds.extremes import Facts
from rankbound.bounds.orders import Profile
from rankbound.bounds.score_distribution import SAMPLES, Gain, Method, ScoreDistribution, score_distributions
from rankbound.bounds.sums import UNIFORM
from rankbound.errors import ConfigError
from rankbound.gradients import with_derivatives
from rankbound.kernels.formulas import Floats
from rankbound.lists import may_read
from rankbound.metrics import Metric, metric

COLUMNS = ("minimum", "maximum", "expectation", "sd", "count", "low", "high", "width", "error")
"""The scalar fields of `ScoreDistribution` that tables hold."""
GRADED_SAMPLES = 20_000
"""Random orders per graded list; fewer than for binary lists, as nearly every list needs its own distribution."""
KEPT = 16_384
"""Distributions that are kept, of at most 16 KiB each."""
MOST_ENTRIES = 20_000_000
"""Up to this many entries, those of whole tables are summed where a GPU isn't waited for to learn which are near."""
REACH = 30.0
"""Distance, in units of 1 / gain, beyond which sigmoid and step agree to 1e-13."""
MERGED = 0.2
"""Entries in a cell of this size, in units of 1 / gain, are merged into one of the same mean and variance (error
1e-6)."""


@dataclass(frozen=True, eq=False)
class DistributionTables:
    """Distributions in ascending order of (N, P); the scores of table t are at `offsets[t]` to `offsets[t + 1] - 1`.

    `n`, `p`, `samples` and every entry of `columns` (minimum, maximum, expectation, sd, count, low, high, width, error,
    as in `ScoreDistribution`) have shape `(n_tables,)`; `support` and `probability` are flat. `grades` maps the indices
    of graded lists' tables, which come first and exist in memory only, to those lists' grades. All tables have the same
    `tilt`.
    """

    metric: str
    n: NDArray[np.int64]
    p: NDArray[np.int64]
    offsets: NDArray[np.int64]
    support: Floats
    probability: Floats
    columns: dict[str, Floats]
    samples: NDArray[np.int64]
    grades: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    tilt: float = 1.0

    @classmethod
    def collect(cls, distributions: Iterable[ScoreDistribution]) -> "DistributionTables":
        """Collect distributions of one metric and tilt, one or more, each profile once, in order of (N, P)."""
        ordered = sorted(distributions, key=lambda entry: entry.profile.key)
        return cls(
            metric=ordered[0].metric,
            n=np.array([entry.n for entry in ordered]),
            p=np.array([entry.p for entry in ordered]),
            offsets=np.concatenate([[0], np.cumsum([len(entry.support) for entry in ordered])]),
            support=np.concatenate([entry.support for entry in ordered]),
            probability=np.concatenate([entry.probability for entry in ordered]),
            columns={name: np.array([getattr(entry, name) for entry in ordered], dtype=np.float64) for name in COLUMNS},
            samples=np.array([entry.samples for entry in ordered]),
            grades={table: entry.grades for table, entry in enumerate(ordered) if entry.grades is not None},
            tilt=ordered[0].tilt,
        )

    def __len__(self) -> int:
        return len(self.n)

    def of_key(self, key: int) -> ScoreDistribution:
        """Return the distribution of the profile with this `Profile.key`; raise `ConfigError` if it is missing."""
        table = self.index.get(key)
        if table is None:
            missing = "this graded list" if key < 0 else Profile(key >> 32, key & 0xFFFFFFFF)
            raise ConfigError(
                f"there is no {self.metric} distribution of {missing} among the {len(self)} tables; let the loss "
                f"compute its own (without tables), or {'binarise the relevance' if key < 0 else 'tabulate it as well'}"
            )
        part = slice(self.offsets[table], self.offsets[table + 1])
        return ScoreDistribution(
            metric=self.metric,
            n=int(self.n[table]),
            p=int(self.p[table]),
            support=self.support[part],
            probability=self.probability[part],
            samples=int(self.samples[table]),
            grades=self.grades.get(table),
            tilt=self.tilt,
            **{name: float(column[table]) for name, column in self.columns.items()},
        )

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """`Profile.key` of every table, ascending."""
        keys = self.n << 32 | self.p
        for table, grades in self.grades.items():
            keys[table] = Profile(len(grades), int(self.p[table]), grades).key
        return keys

    def gains(self, kind: Gain = "distinct") -> Floats:
        """Return `ScoreDistribution.gain` of every table, shape `(n_tables,)`; NaN where it is undefined."""
        of, samples = self.columns, self.samples.astype(np.float64)
        count, span = score_distribution.gain_terms(kind, of["count"], samples, of["high"] - of["low"], of["sd"])
        return np.where(span > 0, count / np.where(span > 0, span, 1.0), np.nan)

    def smooth(self, values: Tensor, facts: Facts, gain: Gain = "distinct") -> Tensor:
        """Return the smooth CDF (thesis algorithm 2) of each list's value under the distribution of its profile.

        The result is differentiable in `values`, `(n_lists,)`, is computed in float64, and has their dtype. Values
        outside the scores' range have finite results and gradients.

        Raises:
            ConfigError: for the first profile without a table.
            ValueError: for a list whose orders all have the same score, for which the gain is undefined.
        """
        lookup = self._lookups.get((gain, values.device))
        if lookup is None:
            lookup = self._lookups[gain, values.device] = SmoothLookup(self, gain, values.device)
        return lookup(values, facts)

    @cached_property
    def index(self) -> dict[int, int]:
        """The table of each `Profile.key`."""
        return {key: table for table, key in enumerate(self.keys.tolist())}

    @cached_property
    def _lookups(self) -> dict[tuple[str, torch.device], "SmoothLookup"]:
        return {}


class DistributionsOnDemand:
    """The score distributions of a metric for any lists, usable as the `tables` of a loss.

    Args:
        of: the metric or its text.
        method: `auto`, `exact` or `sampled`, as in `score_distribution`.
        samples: the number of random orders of a binary list, drawn or assumed in the gain of eq. 3.13.
        graded_samples: the same for a graded list.
        seed: the seed of the random orders.
        tilt: as in `score_distribution`, for binary relevance only.
        kept: the number of distributions that are kept, if one batch doesn't need more. The first ones are dropped,
            and computed again when they are needed again.
    """

    def __init__(
        self,
        of: str | Metric,
        *,
        method: Method = "auto",
        samples: int = SAMPLES,
        graded_samples: int = GRADED_SAMPLES,
        seed: int = 0,
        tilt: float = UNIFORM,
        kept: int = KEPT,
    ) -> None:
        self._metric = metric(of)
        self.metric = str(self._metric)
        self._method, self._seed = method, seed
        self.tilt = tilt
        self._samples, self._graded_samples = samples, graded_samples
        self._kept = kept
        self._known: dict[int, ScoreDistribution] = {}
        self._tables: DistributionTables | None = None

    def smooth(self, values: Tensor, facts: Facts, gain: Gain = "distinct") -> Tensor:
        """Return the smooth CDF of each list's value, as `DistributionTables.smooth`.

        The scores of each list must differ between orders. New distributions are computed first, with progress on a
        terminal if that takes seconds.
        """
        if len(values) == 0:
            return values
        tables = self._tables
        if tables is None or not facts.needed <= tables.index.keys():
            known = dict(self._known)
            missing = [one for one in facts.distinct()[0] if one.key not in known]
            with _progress(len(missing)) as done:
                known.update((one.profile.key, one.binned()) for one in self.distributions(missing, done))
            # The first distributions beyond the number that is kept are dropped, but none of the needed ones.
            surplus = max(0, len(known) - self._kept)
            for key in [key for key in known if key not in facts.needed][:surplus]:
                del known[key]
            tables = DistributionTables.collect(known.values())
            # As a whole: other threads may use what is known, and the computation may be interrupted.
            self._known, self._tables = known, tables
        return tables.smooth(values, facts, gain)

    def distributions(
        self, profiles: list[Profile], done: Callable[[int], object] = lambda count: None
    ) -> list[ScoreDistribution]:
        """Return the distributions of these lists; `done` as in `score_distributions`."""
        options: dict[str, Any] = {"method": self._method, "seed": self._seed, "done": done, "tilt": self.tilt}
        computed: dict[Profile, ScoreDistribution] = {}
        for graded, samples in ((False, self._samples), (True, self._graded_samples)):
            part = [profile for profile in profiles if (profile.grades is not None) == graded]
            computed.update(zip(part, score_distributions(self._metric, part, samples=samples, **options), strict=True))
        return [computed[profile] for profile in profiles]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], object]]:
    """Count distributions on a terminal if they take seconds and tqdm (extra `data`) is installed."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield lambda count: None
        return
    with tqdm(total=total, unit="list", desc="score distributions", disable=None, delay=2, leave=False) as bar:
        yield bar.update


class SmoothLookup:
    """The tables of one metric on one device, prepared for one kind of gain.

    Per table: `_keys` (ascending, `Profile.key`), `_defined`, `_per_table` (gain, first entry's position, twice the
    span, half the widest bin), `_offset` (index of its first entry), `_split` (integers per bin of the nRBP loss). Per
    entry, a score or a bin: `_entries` (middle, mass, width), `_below` (mass before it), `_places` (for the search).
    """

    def __init__(self, tables: DistributionTables, gain: Gain, device: torch.device) -> None:
        def put(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.array(array)).to(device)

        gains, bins = tables.gains(gain), tables.columns["width"]
        position, mass, width, offsets = _merge_near(tables, gains)
        first, last = position[offsets[:-1]], position[offsets[1:] - 1]
        is_split = score_distribution.counts_pairs(tables.metric) & (bins > 1) & (gains > score_distribution.FINE_GAIN)
        split = np.where(is_split, bins, 1).astype(np.int64)
        half = np.maximum.reduceat(width, offsets[:-1]) / 2
        span = 2 * np.maximum(last - first, 1e-300)
        owner = np.repeat(np.arange(len(tables)), np.diff(offsets))

        self._tables = tables
        self._keys = put(tables.keys)
        self._defined = put(~np.isnan(gains))
        self._per_table = put(np.stack([gains, first, span, half], axis=1))
        self._offset, self._split = put(offsets), put(split)
        self._any_split = bool((split > 1).any())
        self._entries = put(np.stack([position, mass, width], axis=1))
        self._below = put(np.concatenate([[0.0], np.cumsum(mass)]))
        # All tables' entries in one ascending sequence: the table's index plus a place in [0.25, 0.75].
        self._places = put(owner + 0.25 + (position - first[owner]) / span[owner])

    def __call__(self, values: Tensor, facts: Facts) -> Tensor:
        if facts.looked_up[0] is not self:
            table = torch.searchsorted(self._keys, facts.keys).clamp_(max=len(self._keys) - 1)
            usable = (self._keys[table] == facts.keys) & self._defined[table]
            if not bool(usable.all()):
                self._tables.of_key(int(facts.keys[~usable][0])).gain()
                raise ConfigError("the tables are not in order of (n, p): regenerate the file")
            facts.looked_up = self, table
            if not may_read(values):
                begin, end = self._offset[table], self._offset[table + 1]
                few = int(((end - begin) * self._split[table]).sum()) <= MOST_ENTRIES
                facts.looked_up = self, table, self._entries_of(begin, end, table) if few else None
        table, *entries = facts.looked_up[1:]
        exact = values.detach().to(torch.float64)
        value, density = (part.to(values.dtype) for part in self.evaluate(exact, table, *entries))

        def bend(upstream: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                leaf = exact.clone().requires_grad_()
                (slope,) = torch.autograd.grad(self.evaluate(leaf, table)[1].sum(), leaf)
            return upstream * direction * slope, direction * density

        return with_derivatives(values, value, lambda upstream: upstream * density, bend)

    def evaluate(
        self, values: Tensor, table: Tensor, entries: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the smooth CDF and its derivative at float64 `values`, `(n_lists,)` each; NaN where a value is NaN.

        `entries` are all those of the lists' tables, so that it isn't read from the values how many are near.
        """
        (gain, first, span, half), below = self._per_table[table].unbind(1), values.new_zeros(())
        if entries is None:
            # The entries within reach, and the mass below them.
            reach = REACH / gain + half
            ends = torch.stack([values - reach, values + reach])
            places = ((ends - first) / span).clamp(-0.2, 0.7) + (table + 0.25)
            begin, end = torch.searchsorted(self._places, places).unbind(0)
            below = self._below[begin] - self._below[self._offset[table]]
            entries = self._entries_of(begin, end, table)
        listed, position, mass, width = entries
        # In units of 1 / gain; steps of single scores, and their means over bins.
        own_gain = gain[listed]
        distance, width = own_gain * (values[listed] - position), own_gain * width
        is_bin, widths, single = width > 0, torch.where(width > 0, width, 1.0), torch.sigmoid(distance)
        left, right = torch.sigmoid(distance + widths / 2), torch.sigmoid(distance - widths / 2)
        step = torch.where(is_bin, score_distribution.smooth_bin(distance, widths), single)
        slope = torch.where(is_bin, (left - right) / widths, single * (1 - single))
        near = torch.stack([step, slope], dim=1) * mass[:, None]
        sums = values.new_zeros(len(values), 2).index_add_(0, listed, near)
        value = torch.where(values.isnan(), values, sums[:, 0] + below)
        return value, sums[:, 1] * gain

    def _entries_of(self, begin: Tensor, end: Tensor, table: Tensor) -> tuple[Tensor, ...]:
        """Return list, middle, mass and width of the entries `begin[t]` to `end[t] - 1` of each list's table."""
        listed, entry = _ranges(begin, end)
        position, mass, width = self._entries[entry].unbind(1)
        if self._any_split:
            # Bins of the nRBP loss are split into their integers, with equal shares of the mass.
            split = self._split[table][listed]
            entry, place = _ranges(torch.zeros_like(split), split)
            split, listed = split[entry], listed[entry]
            position, mass = position[entry] - (split - 1) / 2 + place, mass[entry] / split
            width = torch.where(split > 1, 0.0, width[entry])
        return listed, position, mass, width


def _ranges(begin: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of the range of each integer, and the integers of all ranges begin .. end - 1."""
    count = (end - begin).clamp_(min=0)
    listed = torch.repeat_interleave(count)
    start = begin - (count.cumsum(0) - count)
    return listed, torch.arange(len(listed), device=begin.device) + start[listed]


def _merge_near(tables: DistributionTables, gains: Floats) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """Merge the entries in each cell of size `MERGED` / gain of a table into one bin of the same mean and variance.

    Returns the middle, mass and width of each score (width 0) or bin of all tables, and the tables' offsets.
    """
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
    return position, total(tables.probability), width, offsets
