"""Tables of one metric's score distributions, and their smooth CDF for a batch of lists."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._score_distribution import Gain, ScoreDistribution
from rankbound.bounds._scores import Floats
from rankbound.bounds.profiles import Profile, Profiles, binary_keys
from rankbound.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from rankbound.bounds._smooth_lookup import SmoothLookup

COLUMNS = ("minimum", "maximum", "expectation", "sd", "count", "low", "high", "width", "error")
"""The scalar fields of `ScoreDistribution` that tables hold."""


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
        """Collect distributions of one metric, each profile once, in order of (N, P).

        Raises:
            ValueError: for no distributions, several metrics or tilts, or a profile that occurs twice.
        """
        ordered = sorted(distributions, key=lambda entry: entry.profile.key)
        metrics, tilts = {entry.metric for entry in ordered}, {entry.tilt for entry in ordered}
        if len(tilts) > 1:
            raise ValueError(f"found distributions of the tilts {sorted(tilts)}, expected one tilt")
        if len(metrics) != 1 or len({entry.profile for entry in ordered}) != len(ordered):
            raise ValueError(
                f"found {len(ordered)} distributions of the metrics {sorted(metrics)}, expected one metric "
                "and each list once"
            )
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

    def has(self, keys: Collection[int]) -> bool:
        """Return true if there is a table for each of these keys of profiles (`Profile.key`)."""
        return all(key in self._index for key in keys)

    def of(self, n: int, p: int) -> ScoreDistribution:
        """Return the distribution of (N, P); raise `ConfigError`, with a remedy, if it is missing."""
        return self.of_key(Profile(n, p).key)

    def of_key(self, key: int) -> ScoreDistribution:
        """Return the distribution of the profile with this `Profile.key`; as `of`."""
        table = self._index.get(key)
        if table is None:
            raise self._missing(key)
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
        kinds = {
            "distinct": (self.columns["count"], self.columns["high"] - self.columns["low"]),
            "drawn": (self.samples.astype(np.float64), self.columns["high"] - self.columns["low"]),
            "sd": (np.ones(len(self)), self.columns["sd"]),
        }
        if kind not in kinds:
            raise ConfigError(f"gain {kind!r} is not one of {', '.join(kinds)}")
        count, span = kinds[kind]
        return np.where(span > 0, count / np.where(span > 0, span, 1.0), np.nan)

    def smooth_cdf(
        self, values: "torch.Tensor", n: "torch.Tensor", p: "torch.Tensor", gain: Gain = "distinct"
    ) -> "torch.Tensor":
        """Return the smooth CDF (thesis algorithm 2) of `values[t]` under the distribution of (n[t], p[t]).

        All arguments have shape `(n_lists,)` and are on one device; `n` and `p` are int64. The result is differentiable
        in `values`, is computed in float64, and has the dtype of `values`. Values outside the scores' range have finite
        results and gradients.

        Raises:
            ConfigError: for the first (N, P) without a table.
            ValueError: where P = 0 or P = N, for which the gain is undefined.
        """
        return self._smooth(values, binary_keys(n, p), gain)

    def smooth(self, values: "torch.Tensor", profiles: Profiles, gain: Gain = "distinct") -> "torch.Tensor":
        """Return `smooth_cdf` for lists given by their profiles, which may be graded."""
        return self._smooth(values, profiles.keys, gain)

    def _smooth(self, values: "torch.Tensor", keys: "torch.Tensor", gain: Gain) -> "torch.Tensor":
        lookup = self._lookups.get((gain, values.device))
        if lookup is None:
            from rankbound.bounds._smooth_lookup import SmoothLookup

            lookup = self._lookups[gain, values.device] = SmoothLookup(self, gain, values.device)
        return lookup(values, keys)

    def _missing(self, key: int) -> ConfigError:
        """Return the error for a profile without a table."""
        if key < 0:
            return ConfigError(
                f"there is no {self.metric} distribution of this graded list among the {len(self)} tables: they are of "
                "binary lists; let the loss compute its own (without tables), or binarise the relevance"
            )
        return ConfigError(
            f"there is no {self.metric} distribution of {Profile(key >> 32, key & 0xFFFFFFFF)} among the {len(self)} "
            "tables; tabulate it as well, or let the loss compute its own (without tables)"
        )

    @cached_property
    def _index(self) -> dict[int, int]:
        return {key: table for table, key in enumerate(self.keys.tolist())}

    @cached_property
    def _lookups(self) -> "dict[tuple[str, torch.device], SmoothLookup]":
        return {}
