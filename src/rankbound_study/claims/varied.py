"""Experiments: the scores of variants and of the study's own runs, in the same folds and under the same seeds."""

from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from rankbound.compare.frames import SYSTEM, scores_of_frame
from rankbound.compare.scores import PairedScores
from rankbound_study.claims.cells import METRICS, MOVIELENS, Column, Contrast, columns, contrast, judge
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.results.validation import best_of, validation_scores

USUAL = "usual"
"""The study's own setting, among the variants."""

Training = tuple[str, str]
"""A loss and its bounding."""

_READ = (*KEY, "options", *METRICS)


@lru_cache(maxsize=32)
def variants(
    evidence: Evidence, experiment: str, column: Column, *, with_usual: bool = True
) -> dict[str, pl.DataFrame]:
    """Return the rows of every variant, and the study's own runs with the same folds, seeds, losses and boundings."""
    lazy = evidence.varied(experiment, column.dataset, column.nsr)
    found = {name: rows.select(*_READ).collect() for name, rows in lazy.items()}
    if not with_usual:
        return found
    return {**found, USUAL: usual_beside(evidence, column, next(iter(found.values())))}


def usual_beside(evidence: Evidence, column: Column, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the study's own runs with the folds, seeds, losses and boundings of some rows.

    Raises:
        MissingEvidence: there are no such runs.
    """
    usual = evidence.cell(column.dataset, column.nsr).select(*_READ).collect()
    for key in (["fold"], ["seed"], ["loss", "bounding"]):
        usual = usual.join(rows.select(key).unique(), on=key, how="semi")
    if usual.is_empty():
        raise MissingEvidence(f"no run of the study on {column} has the folds, seeds and losses of an experiment")
    return usual


def column_of(evidence: Evidence, experiment: str) -> Column:
    """Return the first column of MovieLens that has runs of an experiment.

    Raises:
        MissingEvidence: there is no such column.
    """
    for column in columns(evidence, MOVIELENS):
        try:
            evidence.varied(experiment, column.dataset, column.nsr)
        except MissingEvidence:
            continue
        return column
    raise MissingEvidence(f"the experiment {experiment} did not run on MovieLens: see experiments in config.yaml")


def trainings(rows: pl.DataFrame) -> list[Training]:
    """Return the losses and boundings that were trained."""
    return sorted(rows.select("loss", "bounding").unique().rows())


def paired(rows: pl.DataFrame, other: pl.DataFrame, training: Training, metric: str = "") -> Contrast:
    """Return a loss and bounding in one variant minus the same in another, on the metric that judges the loss."""
    return contrast(
        _scores({"a": (rows, training), "b": (other, training)}, metric or judge(training[0])).pair("a", "b")
    )


def per_topic(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return every topic's mean over losses, boundings, folds and seeds, in columns `topic` and the metric."""
    return rows.with_columns(pl.col(metric).fill_nan(None)).group_by("topic").agg(pl.col(metric).mean()).sort("topic")


def picked_by_validation(evidence: Evidence, experiment: str, column: Column, metric: str = "") -> dict[Training, str]:
    """Return the variant whose best epoch scores highest on validation, for every loss and bounding.

    `metric` picks it; by default the metric that judges the loss.
    """
    scores: dict[Training, dict[str, float]] = {}
    for name, epochs in evidence.varied_epochs(experiment, column.dataset, column.nsr).items():
        for loss in epochs.select("loss").unique().sort("loss").collect()["loss"]:
            of_loss = epochs.filter(pl.col("loss") == loss)
            for bounding, score in validation_scores(of_loss, metric or judge(loss), "bounding").items():
                scores.setdefault((loss, bounding), {})[name] = score
    return {key: best for key, by_name in scores.items() if (best := best_of(list(by_name), by_name)) is not None}


def picked_rows(rows: Mapping[str, pl.DataFrame], picked: Mapping[Training, str]) -> pl.DataFrame:
    """Return the rows of every loss and bounding from its picked variant."""
    return pl.concat(
        [
            rows[name].filter(pl.col("loss") == loss, pl.col("bounding") == bounding)
            for (loss, bounding), name in picked.items()
        ]
    )


def _scores(systems: dict[str, tuple[pl.DataFrame, Training]], metric: str) -> PairedScores:
    parts = [
        rows.filter(pl.col("loss") == loss, pl.col("bounding") == bounding).with_columns(pl.lit(name).alias(SYSTEM))
        for name, (rows, (loss, bounding)) in systems.items()
    ]
    if any(part.is_empty() for part in parts):
        raise MissingEvidence(f"no runs of {systems['a'][1]} beside {systems['b'][1]}")
    return scores_of_frame(pl.concat(parts), metric)
