"""The best of several methods: by the validation part, since picking by the test part compares luck."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.results.runs_file import scan_runs


def validation_scores(epochs: pl.LazyFrame, metric: str, by: str = "model") -> dict[str, float]:
    """The score of the epoch that the validation part picks, a mean over folds and seeds, by a column of the epochs.

    What has no defined score is left out: all if no epoch was measured by this metric.
    """
    if metric not in epochs.collect_schema().names():
        return {}
    measured = epochs.filter(pl.col("part") == "validation").with_columns(pl.col(metric).fill_nan(None))
    highest = measured.group_by(by, "fold", "seed").agg(pl.col(metric).max()).sort(by, "fold", "seed")
    means = highest.group_by(by, maintain_order=True).agg(pl.col(metric).mean()).drop_nulls().collect()
    return dict(means.rows())


def scores_of_methods(epochs: Path, dataset: str, metric: str) -> dict[str, float]:
    """The validation scores of the methods of the second study on a data set, by their names in the runs."""
    own = (pl.col("study") == STUDY) & (pl.col("dataset") == dataset)
    return validation_scores(scan_runs(epochs).filter(own), metric)


def best_of(names: Sequence[str], scores: Mapping[str, float]) -> str | None:
    """The name with the highest validation score, the last in alphabetical order of several; None if none has one."""
    return max((name for name in names if name in scores), key=lambda name: (scores[name], name), default=None)
