"""Scores by the number of features that a method sees: networks compared with linear and tree models.

Every method is trained again on subsets of the features, drawn at random and the same for all methods. The gap is the
best network minus the best other model of its family, both by validation, on the same lists; its trend is the slope of
the gaps over the logarithm of the number of features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.scores import Floats
from rankbound.errors import ConfigError, DataError
from rankbound_study.results.made_files import reading
from rankbound_study.results.method_means import MethodMeans
from rankbound_study.results.neural_names import FAMILIES, FEATURES_TABLE, TABLES, Printed
from rankbound_study.results.neural_pairs import method_means, read_pairs, with_readings
from rankbound_study.results.neural_runs import read_runs_by_features
from rankbound_study.results.validation import best_of, scores_of_methods

SCORE_COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("dataset", "family", "method"), pl.String),
    "network": pl.Boolean,
    "features": pl.Int64,
    "metric": pl.String,
    **dict.fromkeys(("ours", "low", "high"), pl.Float64),
    "n": pl.Int64,
}

GAP_COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("dataset", "family"), pl.String),
    "features": pl.Int64,
    **dict.fromkeys(("network", "other"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64),
}
"""A row per family and number of features; without a number, the change of the gap with ten times the features."""

NOT_RUN = (
    "No method has run on subsets of the features: add feature_counts, such as [5, 10, 20, 46], to a comparison of the "
    "configuration."
)


@dataclass(frozen=True)
class FeatureResults:
    """Mean scores by method and number of features, and the gaps between networks and other models."""

    scores: pl.DataFrame
    gaps: pl.DataFrame

    @classmethod
    def read(cls, folder: Path) -> "FeatureResults":
        """Read the tables of a folder."""
        files = (folder / f"{FEATURES_TABLE}.csv", folder / f"{FEATURES_TABLE}_gaps.csv")
        with reading(files[0]):
            scores = pl.read_csv(files[0], schema=SCORE_COLUMNS)
        with reading(files[1]):
            return cls(scores, pl.read_csv(files[1], schema=GAP_COLUMNS))

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order of the study's tables."""
        return self.scores["dataset"].unique(maintain_order=True).to_list()


@dataclass(frozen=True)
class _Run:
    """One method at one number of features; `place` is its row among the means, `validation` its validation score."""

    place: int
    name: str
    validation: float | None
    family: str
    method: str
    network: bool
    features: int


def feature_results(
    runs: Path, epochs: Path, predictions: Sequence[Path] = (), images: Path | None = None
) -> FeatureResults:
    """Compute both tables from the runs, with the best methods by the validation scores of the epochs.

    Faces need their predictions, and the images for their ages and width.

    Raises:
        ConfigError: there are predictions, but no images file with the ages.
        DataError: the epochs have no validation score of a network, or of the other models of its family.
    """
    if predictions and images is None:
        raise ConfigError(f"{FEATURES_TABLE} needs the ages of the faces: give the images file with --images FILE")
    pairs = with_readings(read_pairs(predictions, images)) if predictions and images is not None else None
    scores: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for table in TABLES:
        frame = read_runs_by_features(runs, table, _width(table, images))
        for dataset in frame["dataset"].unique().sort():
            own = frame.filter(pl.col("dataset") == dataset)
            own_pairs = None if pairs is None or not table.of_faces else pairs.filter(pl.col("dataset") == dataset)
            names, means = method_means(_by_run(own), table.metric, _of_runs(own_pairs, own))
            found = _runs_of(own, names, scores_of_methods(epochs, dataset, table.metric))
            scores += [_score(dataset, run, table, means, own) for run in found]
            for family in FAMILIES:
                gaps += _gaps(epochs, dataset, [run for run in found if run.family == family], means)
    return FeatureResults(
        pl.DataFrame(scores, schema=SCORE_COLUMNS, orient="row"), pl.DataFrame(gaps, schema=GAP_COLUMNS, orient="row")
    )


def _width(table: Printed, images: Path | None) -> int | None:
    """Return the number of all features, if they are pixels."""
    if images is None or table.number != TABLES[1].number:
        return None
    from rankbound_study.data.images import read_faces

    return int(np.prod(read_faces(images).shape))


def _by_run(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("run").alias("method"))


def _of_runs(pairs: pl.DataFrame | None, frame: pl.DataFrame) -> pl.DataFrame | None:
    """Return the pairs that these runs scored; None if there are none."""
    if pairs is None:
        return None
    runs = frame.select(pl.col("run").alias("method"), "fold", "seed").unique()
    found = pairs.join(runs, on=["method", "fold", "seed"], how="semi")
    return None if found.is_empty() else found


def _runs_of(frame: pl.DataFrame, names: Sequence[str], validation: Mapping[str, float]) -> list[_Run]:
    """Return the runs by family, networks first, then by method and number of features."""
    facts = {row[0]: row[1:] for row in frame.select("run", "family", "method", "network", "features").unique().rows()}
    found = [_Run(place, name, validation.get(name), *facts[name]) for place, name in enumerate(names)]
    return sorted(found, key=lambda run: (FAMILIES.index(run.family), not run.network, run.method, run.features))


def _score(dataset: str, run: _Run, table: Printed, means: MethodMeans, frame: pl.DataFrame) -> dict[str, Any]:
    low, high = means.interval(run.place)
    own = frame.filter(pl.col("method") == run.method, pl.col("features") == run.features)
    lists = own.filter(pl.col(table.metric).is_not_null()).select("fold", "topic").n_unique()
    return {
        "dataset": dataset,
        "family": run.family,
        "method": run.method,
        "network": run.network,
        "features": run.features,
        "metric": table.metric,
        "ours": float(means.means[run.place]),
        "low": low,
        "high": high,
        "n": lists,
    }


def _gaps(epochs: Path, dataset: str, runs: Sequence[_Run], means: MethodMeans) -> Iterator[dict[str, Any]]:
    """Yield the gap at every number of features at which all methods ran, then its trend.

    Where a method is missing, the best is chosen from fewer, and the gap is not comparable with the others.
    """
    methods = {run.method for run in runs}
    weights: dict[int, Floats] = {}
    for features, group in groupby(sorted(runs, key=lambda run: run.features), lambda run: run.features):
        there = list(group)
        kinds = [[run for run in there if run.network == network] for network in (True, False)]
        if not all(kinds) or {run.method for run in there} != methods:
            continue
        network, other = (_best(epochs, dataset, kind) for kind in kinds)
        weights[features] = np.zeros(len(means.means))
        weights[features][[network.place, other.place]] = 1, -1
        names = {"dataset": dataset, "family": network.family, "network": network.method, "other": other.method}
        yield {**names, "features": features, **_tested(means, weights[features])}
    if len(weights) > 1:
        tens = np.log10(list(weights))
        slope = (tens - tens.mean()) / ((tens - tens.mean()) ** 2).sum()
        trend = slope @ np.array(list(weights.values()))
        yield {**dict.fromkeys(GAP_COLUMNS), "dataset": dataset, "family": runs[0].family, **_tested(means, trend)}


def _best(epochs: Path, dataset: str, runs: Sequence[_Run]) -> _Run:
    scores = {run.name: run.validation for run in runs if run.validation is not None}
    best = best_of([run.name for run in runs], scores)
    if best is None:
        names = ", ".join(run.name for run in runs)
        raise DataError(f"{epochs}: no validation scores of {names} on {dataset}, which decide which one is the best")
    return next(run for run in runs if run.name == best)


def _tested(means: MethodMeans, weights: Floats) -> dict[str, float]:
    return dict(zip(("difference", "low", "high", "p_value"), means.combination(weights), strict=True))
