"""Compare two results folders: which files have the same bytes, and how far the runs differ in the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankbound.errors import DataError
from rankbound_study.data.contracts import read_table
from rankbound_study.provenance.checksums import PAPER, Checksum, result_files

RUNS = "runs.parquet"
SIDECARS = (".epochs.parquet", ".predictions.parquet", ".rates.parquet")
EPOCH = "epoch"
LIST = ("topic", "n", "p")
REPEATS = ("fold", "seed")


@dataclass(frozen=True)
class MetricDifference:
    """The differences between the runs of two folders in one metric.

    Attributes:
        topic: the largest difference in a topic's score.
        mean: the largest difference in a mean score over topics, folds and seeds, as in the tables.
        where: the runs with that mean.
    """

    metric: str
    topic: float
    mean: float
    where: str


@dataclass(frozen=True)
class FolderComparison:
    """The comparison of two folders: files with equal bytes, with other bytes, in one folder only; the runs."""

    same: tuple[str, ...]
    different: tuple[str, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    metrics: tuple[MetricDifference, ...]
    other_epochs: int

    def holds(self, tolerance: float | None) -> bool:
        """Return whether all files have the same bytes or, given a tolerance, all means differ by no more than that."""
        if self.only_here or self.only_there:
            return False
        if tolerance is None:
            return not self.different
        return all(metric.mean <= tolerance for metric in self.metrics)


def compare(here: Path, there: Path) -> FolderComparison:
    """Compare two results folders, without the paper, which states where and when it was made.

    Raises:
        DataError: the folders hold runs of different topics, or a file is not a table of runs.
    """
    ours, theirs = set(_files(here)), set(_files(there))
    both = sorted(ours & theirs)
    same = [path for path in both if Checksum.of(there / path).fits(here / path)]
    different = sorted(set(both) - set(same))
    runs = [path for path in different if path == RUNS] or [path for path in different if _is_run(path)]
    metrics, other_epochs = _runs([here / path for path in runs], [there / path for path in runs]) if runs else ([], 0)
    return FolderComparison(
        tuple(same),
        tuple(different),
        tuple(sorted(ours - theirs)),
        tuple(sorted(theirs - ours)),
        tuple(metrics),
        other_epochs,
    )


def _files(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    yield from (path for path in result_files(folder) if not path.startswith(PAPER))


def _is_run(path: str) -> bool:
    return path.startswith("runs/") and path.endswith(".parquet") and not path.endswith(SIDECARS)


def _runs(here: list[Path], there: list[Path]) -> tuple[list[MetricDifference], int]:
    """Return the differences of every metric, and the number of runs with another epoch."""
    ours, theirs = _table(here), _table(there)
    metrics = [name for name, kind in ours.schema.items() if kind == pl.Float64 and name in theirs.columns]
    key = [name for name in ours.columns if name not in metrics and name != EPOCH]
    joined = ours.join(theirs, on=key, how="inner", nulls_equal=True, suffix="_there", validate="1:1")
    if not len(ours) == len(theirs) == len(joined):
        raise DataError(
            f"the runs cannot be compared: {len(ours)} and {len(theirs)} rows, {len(joined)} of them for the same "
            "topic in the same run; check that both were made with the same configuration"
        )
    run = [name for name in key if name not in LIST]
    other = joined.group_by(run).agg((pl.col(EPOCH) != pl.col(f"{EPOCH}_there")).any())
    shown = [name for name in run if name not in REPEATS]
    distances = joined.group_by(shown, maintain_order=True).agg(
        *(_distance(name).abs().max().alias(f"{name}_topic") for name in metrics),
        *(_distance(name).mean().abs().alias(f"{name}_mean") for name in metrics),
    )
    return [_furthest(distances, name, shown) for name in metrics], int(other[EPOCH].sum())


def _table(paths: list[Path]) -> pl.DataFrame:
    frames = [pl.from_arrow(read_table(path, "runs")) for path in paths]
    return pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)], how="diagonal")


def _distance(metric: str) -> pl.Expr:
    """Return the distance in a topic; null if the metric is undefined in both folders."""
    ours, theirs = pl.col(metric), pl.col(f"{metric}_there")
    return pl.when(ours.is_nan() & theirs.is_nan()).then(None).otherwise(ours - theirs)


def _furthest(distances: pl.DataFrame, metric: str, shown: list[str]) -> MetricDifference:
    by_mean = distances.sort(f"{metric}_mean", descending=True, nulls_last=True)
    first = by_mean.row(0, named=True)
    where = " ".join(str(first[name]) for name in shown if first[name] is not None and name != "options")
    topic = by_mean[f"{metric}_topic"].max()
    return MetricDifference(
        metric, float(topic) if isinstance(topic, float) else 0.0, float(first[f"{metric}_mean"] or 0.0), where
    )
