"""Compute Tables 1 to 3 of the neural-ranking study: each method's mean, interval, tests and printed score.

The tables are in long form, with a row per data set, method and metric. Folds are pooled: every test list counts once,
its seeds averaged first; lists on which a metric is undefined are left out and counted. Every method is compared with
the best trained method of its table on the same lists; the printed metric picks the best one on the validation part.
P-values are adjusted by Holm over these comparisons.

The paper's Table 1 is on MSLR-WEB10K; on other data, its printed scores are for orientation only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.statistics import holm
from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report.table_files import read_table
from rankbound_study.results import neural_runs
from rankbound_study.results.neural_names import AS_PRINTED, CONTROL, TABLES, Printed, data_set_title
from rankbound_study.results.neural_pairs import (
    GAP_COLUMNS,
    READINGS,
    MethodMeans,
    by_gap,
    compared,
    explained,
    method_means,
    read_pairs,
    with_readings,
)
from rankbound_study.results.neural_runs import printed_scores
from rankbound_study.results.scores import best_of, scores_of_methods
from rankbound_study.results.specs import score

COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("dataset", "family", "method", "loss", "metric"), pl.String),
    **dict.fromkeys(("ours", "low", "high", "printed"), pl.Float64),
    **dict.fromkeys(("n", "n_skipped", "n_folds", "n_seeds"), pl.Int64),
    **dict.fromkeys(("difference_to_best", "difference_low", "difference_high", "p_value", "p_holm"), pl.Float64),
}
COMPARISON_COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("dataset", "metric", "method", "other"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64),
}
R_SQUARED = "R2"
_MISSING = "missing"


@dataclass(frozen=True)
class NeuralTable:
    """A table, the comparisons of all pairs of methods by the printed metric (unadjusted), and accuracy by age gap."""

    scores: pl.DataFrame
    comparisons: pl.DataFrame
    gaps: pl.DataFrame


def neural_table(
    table: Printed, runs: Path, epochs: Path, predictions: Sequence[Path] = (), images: Path | None = None
) -> NeuralTable:
    """Compute a table; tables of faces need the predictions of their methods and, for the ages, the images file.

    Methods that the paper prints but that have not run have a row with the printed score only.

    Raises:
        ConfigError: there are predictions, but no images file.
        DataError: the table of epochs lacks validation scores of the methods.
    """
    frame = neural_runs.read_runs(runs, table, table.metrics)
    if predictions and images is None:
        raise ConfigError(f"{table.name} needs the ages of the faces: give the images file with --images FILE")
    pairs = read_pairs(predictions, images) if predictions and images is not None else None
    rows: list[dict[str, Any]] = []
    comparisons: list[dict[str, Any]] = []
    for dataset in frame["dataset"].unique().sort():
        own = frame.filter(pl.col("dataset") == dataset)
        own_pairs = None if pairs is None else with_readings(pairs.filter(pl.col("dataset") == dataset))
        best = _best(epochs, dataset, table.metric, own)
        for metric in table.metrics:
            methods, means = method_means(own, metric, own_pairs)
            rows += _rows(own, metric, methods, means, best)
            if metric == table.metric:
                comparisons += _comparisons(dataset, metric, _trained(own, methods), methods, means)
        if own_pairs is not None:
            rows += _readings(own, own_pairs)
    scores = _in_order(_beside_print(rows, table), table)
    gaps = _gaps(pairs)
    return NeuralTable(scores, pl.DataFrame(comparisons, schema=COMPARISON_COLUMNS, orient="row"), gaps)


def _trained(frame: pl.DataFrame, methods: Sequence[str]) -> list[int]:
    families = dict(frame.select("method", "family").unique().rows())
    return [place for place, method in enumerate(methods) if families[method] != CONTROL]


def _best(epochs: Path, dataset: str, metric: str, frame: pl.DataFrame) -> str:
    """Return the best trained method by validation."""
    trained = frame.filter(pl.col("family") != CONTROL)["method"].unique().sort().to_list()
    best = best_of(trained, scores_of_methods(epochs, dataset, metric))
    if best is None:
        raise DataError(f"{epochs}: no validation scores of methods on {dataset}; they are needed to pick the best one")
    return best


def _rows(
    frame: pl.DataFrame, metric: str, methods: Sequence[str], means: MethodMeans, best_method: str
) -> list[dict[str, Any]]:
    trained = [place for place in _trained(frame, methods) if math.isfinite(means.means[place])]
    best = methods.index(best_method)
    others = [place for place in trained if place != best]
    p_values = [means.p_value(place, best) for place in others]
    adjusted = dict(zip(others, zip(p_values, holm(p_values), strict=True), strict=True))
    rows = []
    for place, method in enumerate(methods):
        low, high = means.interval(place)
        row = {
            **_facts(frame, method, metric),
            "metric": metric,
            "ours": float(means.means[place]),
            "low": low,
            "high": high,
        }
        if place in adjusted:
            row["p_value"], row["p_holm"] = adjusted[place]
            row |= dict(zip(_DIFFERENCE, means.difference(place, best), strict=True))
        rows.append(row)
    return rows


_DIFFERENCE = ("difference_to_best", "difference_low", "difference_high")


def _facts(frame: pl.DataFrame, method: str, metric: str | None) -> dict[str, Any]:
    own = frame.filter(pl.col("method") == method)
    lists = own.group_by("fold", "topic").agg(pl.col(metric).mean() if metric else pl.lit(0.0).alias(_MISSING))
    skipped = lists.select(pl.last()).to_series().null_count()
    return {
        **own.select("dataset", "family", "method", "loss").row(0, named=True),
        "n": len(lists) - skipped,
        "n_skipped": skipped,
        "n_folds": own["fold"].n_unique(),
        "n_seeds": own["seed"].n_unique(),
    }


def _comparisons(
    dataset: str, metric: str, trained: Sequence[int], methods: Sequence[str], means: MethodMeans
) -> list[dict[str, Any]]:
    """Compare all pairs of trained methods by one metric; p-values are unadjusted: claims adjust their own."""
    rows = []
    for first, second in combinations(trained, 2):
        difference, low, high = means.difference(first, second)
        names = {"dataset": dataset, "metric": metric, "method": methods[first], "other": methods[second]}
        rows.append(
            names | {"difference": difference, "low": low, "high": high, "p_value": means.p_value(first, second)}
        )
    return rows


def _readings(frame: pl.DataFrame, pairs: pl.DataFrame) -> list[dict[str, Any]]:
    """Compute what needs the scores: R^2 of regressions, both labels of classifiers, ties of all methods."""
    families = dict(frame.select("method", "family").unique().rows())
    rows = []
    for method in pairs["method"].unique().sort():
        own, facts = pairs.filter(pl.col("method") == method), _facts(frame, method, None)
        wanted = READINGS if families[method] == "classification" else READINGS[-1:]
        for name in wanted:
            _, means = compared(own, name)
            low, high = means.interval(0)
            rows.append({**facts, "metric": name, "ours": float(means.means[0]), "low": low, "high": high})
        if families[method] == "regression":
            value, low, high, faces = explained(own)[method]
            rows.append({**facts, "metric": R_SQUARED, "ours": value, "low": low, "high": high, "n": faces})
    return rows


def _beside_print(rows: Sequence[Mapping[str, Any]], table: Printed) -> pl.DataFrame:
    """Add the printed scores, and rows for printed methods that have not run.

    Only the metric that the paper names has printed scores; synthetic data have none.
    """
    printed = {row["method"]: row for row in neural_runs.printed_scores(table).iter_rows(named=True)}
    ours = pl.DataFrame([{**dict.fromkeys(COLUMNS), **row} for row in rows], schema=COLUMNS, orient="row")
    real = ~pl.col("dataset").str.starts_with(SYNTHETIC)
    score = (
        pl.col("method")
        .str.strip_suffix(AS_PRINTED)
        .replace_strict({name: row["printed"] for name, row in printed.items()}, default=None, return_dtype=pl.Float64)
    )
    ours = ours.with_columns(pl.when(real & (pl.col("metric") == table.metric)).then(score).alias("printed"))
    datasets = ours["dataset"].unique().sort().to_list() or [""]
    ran = set(ours.select("dataset", "method").rows())
    absent = [
        {**dict.fromkeys(COLUMNS), **row, "dataset": dataset, "metric": table.metric}
        for dataset in datasets
        for name, row in printed.items()
        if (dataset, name) not in ran and not dataset.startswith(SYNTHETIC)
    ]
    return pl.concat([ours, pl.DataFrame(absent, schema=COLUMNS, orient="row")]).with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )


def _in_order(scores: pl.DataFrame, table: Printed) -> pl.DataFrame:
    metrics = [*table.metrics, R_SQUARED, *READINGS]
    order = neural_runs.in_print_order(scores["method"].to_list(), scores["family"].to_list(), table)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    names = scores["method"].to_list()
    first = {name: int(min(place[row] for row in range(len(names)) if names[row] == name)) for name in set(names)}
    return scores.sort(
        "dataset",
        pl.col("method").replace_strict(first, return_dtype=pl.Int64),
        pl.col("metric").replace_strict({name: rank for rank, name in enumerate(metrics)}, return_dtype=pl.Int64),
    )


def _gaps(pairs: pl.DataFrame | None) -> pl.DataFrame:
    empty = pl.DataFrame(schema={"dataset": pl.String, **GAP_COLUMNS})
    of_sets = [
        by_gap(own).select(pl.lit(dataset).alias("dataset"), pl.all())
        for (dataset,), own in ([] if pairs is None else pairs.group_by("dataset", maintain_order=True))
    ]
    return pl.concat([empty, *of_sets])


@dataclass(frozen=True)
class Results:
    """One table on one data set, from its files: scores, and comparisons of pairs of methods."""

    about: Printed
    scores: pl.DataFrame
    comparisons: pl.DataFrame

    @property
    def synthetic(self) -> bool:
        """True if the data are generated."""
        return self._dataset.startswith(SYNTHETIC)

    @property
    def data(self) -> str:
        """The title of the data set."""
        pixels = self.about.number == TABLES[1].number and not self.synthetic
        return f"{data_set_title(self._dataset)}{', pixels' * pixels}"

    def mean(self, method: str, metric: str | None = None) -> float | None:
        """Return a method's mean; None if it has not run."""
        rows = self.scores.filter(
            pl.col("method") == method, pl.col("metric") == (metric or self.about.metric), pl.col("ours").is_not_null()
        )
        return rows["ours"][0] if len(rows) else None

    def printed(self, method: str) -> float | None:
        """Return the score that the paper prints for a method, on any data set."""
        table = printed_scores(self.about).filter(pl.col("method") == method.removesuffix(AS_PRINTED))
        return table["printed"][0] if len(table) else None

    def of_family(self, family: str) -> list[str]:
        """Return the methods of a family that have run."""
        ran = self.scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == self.about.metric)
        return ran.filter(pl.col("family") == family)["method"].to_list()

    def compared(self, method: str, other: str) -> dict[str, Any] | None:
        """Return the difference of two methods and its interval (difference, low, high); None unless both have run."""
        for first, second, sign in ((method, other, 1), (other, method, -1)):
            rows = self.comparisons.filter(pl.col("method") == first, pl.col("other") == second)
            if len(rows):
                row = rows.row(0, named=True)
                low, high = sorted((sign * row["low"], sign * row["high"]))
                return {"difference": sign * row["difference"], "low": low, "high": high}
        return None

    @property
    def _dataset(self) -> str:
        return str(self.scores["dataset"][0] or "")


def read_results(folder: Path, tables: Sequence[Printed] = TABLES) -> list[Results]:
    """Read the study's tables in a folder, one per table and data set, in the paper's order."""
    results = []
    for about in tables:
        if not (folder / f"{about.name}.csv").exists():
            continue
        scores = read_table(folder / f"{about.name}.csv", COLUMNS)
        comparisons = read_table(folder / f"{about.name}_comparisons.csv", COMPARISON_COLUMNS)
        for dataset in scores["dataset"].unique(maintain_order=True):
            own = pl.col("dataset").eq_missing(pl.lit(dataset))
            results.append(Results(about, scores.filter(own), comparisons.filter(own)))
    return results


def four(value: float | None) -> str:
    """Return a score to four decimals, or a dash for None."""
    return "–" if value is None else score(value)
