"""Score distributions of one metric for many (N, P), in one file, and their smooth CDF for a batch of lists."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankbound.bounds._scores import Floats
from rankbound.bounds.distribution import Gain, ScoreDistribution
from rankbound.errors import ConfigError, DataError

if TYPE_CHECKING:
    import torch

    from rankbound.bounds._smooth_lookup import SmoothLookup

SAMPLES_KEY = "rankbound.samples"
_COLUMNS = ("minimum", "maximum", "expectation", "sd", "count", "low", "high", "width", "error")


@dataclass(frozen=True, eq=False)
class DistributionTables:
    """Distributions keyed by (N, P), ascending; the scores of table t stand at `offsets[t] .. offsets[t + 1]`.

    `n`, `p` and every entry of `columns` (minimum, maximum, expectation, sd, count, low, high, width, error, as in
    `ScoreDistribution`) have shape `(n_tables,)`; `support` and `probability` are flat.
    """

    metric: str
    n: NDArray[np.int64]
    p: NDArray[np.int64]
    offsets: NDArray[np.int64]
    support: Floats
    probability: Floats
    columns: dict[str, Floats]
    samples: int

    @classmethod
    def collect(cls, distributions: Iterable[ScoreDistribution]) -> "DistributionTables":
        """Tables of distributions of one metric and one number of samples, in order of (N, P), each pair once.

        Raises ValueError for none, or for a mixture.
        """
        ordered = sorted(distributions, key=lambda one: (one.n, one.p))
        keys = {(one.metric, one.samples) for one in ordered}
        if len(keys) != 1 or len({(one.n, one.p) for one in ordered}) != len(ordered):
            raise ValueError(
                f"found {len(ordered)} distributions of (metric, samples) {sorted(keys)}, expected one such key "
                "and each (n, p) once"
            )
        return cls(
            metric=ordered[0].metric,
            n=np.array([one.n for one in ordered]),
            p=np.array([one.p for one in ordered]),
            offsets=np.concatenate([[0], np.cumsum([len(one.support) for one in ordered])]),
            support=np.concatenate([one.support for one in ordered]),
            probability=np.concatenate([one.probability for one in ordered]),
            columns={name: np.array([getattr(one, name) for one in ordered], dtype=np.float64) for name in _COLUMNS},
            samples=ordered[0].samples,
        )

    def __len__(self) -> int:
        return len(self.n)

    def of(self, n: int, p: int) -> ScoreDistribution:
        """The distribution of (N, P); a missing one raises ConfigError that says how to make it."""
        table = self._index.get((n, p))
        if table is None:
            raise self.missing(n, p)
        part = slice(self.offsets[table], self.offsets[table + 1])
        return ScoreDistribution(
            metric=self.metric,
            n=n,
            p=p,
            support=self.support[part],
            probability=self.probability[part],
            samples=self.samples,
            **{name: float(column[table]) for name, column in self.columns.items()},
        )

    def gains(self, kind: Gain = "distinct") -> Floats:
        """`ScoreDistribution.gain` of every table, shape `(n_tables,)`; NaN where it is undefined."""
        kinds = {
            "distinct": (self.columns["count"], self.columns["high"] - self.columns["low"]),
            "drawn": (np.full(len(self), float(self.samples)), self.columns["high"] - self.columns["low"]),
            "sd": (np.ones(len(self)), self.columns["sd"]),
        }
        if kind not in kinds:
            raise ConfigError(f"gain {kind!r} is not one of {', '.join(kinds)}")
        count, span = kinds[kind]
        return np.where(span > 0, count / np.where(span > 0, span, 1.0), np.nan)

    def smooth_cdf(
        self, values: "torch.Tensor", n: "torch.Tensor", p: "torch.Tensor", gain: Gain = "distinct"
    ) -> "torch.Tensor":
        """Algorithm 2 for a batch: list t's value under the distribution of (n[t], p[t]), differentiable in `values`.

        All of shape `(n_lists,)` on one device (n, p int64); the result has the dtype of `values`, and is computed in
        float64. Values outside the scores' range give finite values and gradients. Raises ConfigError that names the
        first (N, P) that has no table, ValueError where P = 0 or P = N: the gain is undefined there.
        """
        lookup = self._lookups.get((gain, values.device))
        if lookup is None:
            from rankbound.bounds._smooth_lookup import SmoothLookup

            lookup = self._lookups[gain, values.device] = SmoothLookup(self, gain, values.device)
        return lookup(values, n, p)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a parquet file of the contract `distributions`: by rename, the same bytes for the same tables."""
        import pyarrow as pa

        from rankbound.data.arrow import to_arrow
        from rankbound.data.contracts import write_table

        def lists(values: Floats) -> pa.ListArray:
            return pa.ListArray.from_arrays(to_arrow(self.offsets.astype(np.int32)), to_arrow(values))

        table = pa.table(
            {
                "metric": pa.array([self.metric] * len(self), pa.string()),
                "n": to_arrow(self.n.astype(np.int32)),
                "p": to_arrow(self.p.astype(np.int32)),
                **{name: to_arrow(column) for name, column in self.columns.items()},
                "support": lists(self.support),
                "probability": lists(self.probability),
            }
        )
        write_table(table, path, "distributions", metadata={SAMPLES_KEY: str(self.samples)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "DistributionTables":
        """Read what `save` wrote; raises DataError for a file of another kind."""
        from rankbound.data.arrow import to_numpy
        from rankbound.data.contracts import read_metadata, read_table

        samples = read_metadata(path, "distributions").get(SAMPLES_KEY, "")
        table = read_table(path, "distributions").combine_chunks()
        metrics = table.column("metric").unique().to_pylist()
        if len(metrics) != 1 or not samples.isdigit():
            raise DataError(
                f"{path}: found the metrics {metrics} and {SAMPLES_KEY} {samples!r}, expected one metric and a number; "
                "make the file again with `rankbound distributions`"
            )
        columns = {name: to_numpy(table.column(name)) for name in ("n", "p", *_COLUMNS)}
        support, probability = (table.column(name).combine_chunks() for name in ("support", "probability"))
        return cls(
            metric=metrics[0],
            n=columns.pop("n").astype(np.int64),
            p=columns.pop("p").astype(np.int64),
            offsets=to_numpy(support.offsets).astype(np.int64),
            support=to_numpy(support.values),
            probability=to_numpy(probability.values),
            columns=columns,
            samples=int(samples),
        )

    def missing(self, n: int, p: int) -> ConfigError:
        """The error for a list that has no table."""
        return ConfigError(
            f"there is no {self.metric} distribution of {n} items with {p} relevant among the {len(self)} tables; "
            "name the instances file that holds such lists: rankbound distributions METRIC --instances FILE --out FILE"
        )

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return {(int(n), int(p)): table for table, (n, p) in enumerate(zip(self.n, self.p, strict=True))}

    @cached_property
    def _lookups(self) -> "dict[tuple[str, torch.device], SmoothLookup]":
        return {}
