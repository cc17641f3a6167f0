"""Choice of the best of several methods by the validation part; choosing by the test part would be biased."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.results.runs_file import scan_runs


def validation_scores(epochs: pl.LazyFrame, metric: str, by: str = "model") -> dict[str, float]:
    """Return the score of the epoch picked by validation, averaged over folds and seeds, by a column of the epochs.

    Values of the column without a defined score are left out; the result is empty if no epoch has this metric.
    """
    if metric not in epochs.collect_schema().names():
        return {}
    measured = epochs.filter(pl.col("part") == "validation").with_columns(pl.col(metric).fill_nan(None))
    highest = measured.group_by(by, "fold", "seed").agg(pl.col(metric).max()).sort(by, "fold", "seed")
    means = highest.group_by(by, maintain_order=True).agg(pl.col(metric).mean()).drop_nulls().collect()
    return dict(means.rows())


def scores_of_methods(epochs: Path, dataset: str, metric: str) -> dict[str, float]:
    """Return the validation scores of the neural-ranking study's methods on a data set, by their names in the runs."""
    own = (pl.col("study") == STUDY) & (pl.col("dataset") == dataset)
    return validation_scores(scan_runs(epochs).filter(own), metric)


def best_of(names: Sequence[str], scores: Mapping[str, float]) -> str | None:
    """Return the name with the highest validation score (ties: the last alphabetically); None without scores."""
    return max((name for name in names if name in scores), key=lambda name: (scores[name], name), default=None)
