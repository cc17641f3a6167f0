"""Experiments beside the study: a variant's scores and the study's own, in the same folds and under the same seeds."""

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
    """The rows of every variant, and those of the study's own runs with the same folds, seeds, losses and boundings."""
    lazy = evidence.varied(experiment, column.dataset, column.nsr)
    found = {name: rows.select(*_READ).collect() for name, rows in lazy.items()}
    if not with_usual:
        return found
    return {**found, USUAL: usual_beside(evidence, column, next(iter(found.values())))}


def usual_beside(evidence: Evidence, column: Column, rows: pl.DataFrame) -> pl.DataFrame:
    """The study's own runs in the folds, under the seeds, and of the losses and boundings that some rows have.

    Raises:
        MissingEvidence: there are none.
    """
    usual = evidence.cell(column.dataset, column.nsr).select(*_READ).collect()
    for key in (["fold"], ["seed"], ["loss", "bounding"]):
        usual = usual.join(rows.select(key).unique(), on=key, how="semi")
    if usual.is_empty():
        raise MissingEvidence(f"no run of the study on {column} has the folds, seeds and losses of an experiment")
    return usual


def column_of(evidence: Evidence, experiment: str) -> Column:
    """The column of MovieLens that an experiment ran on: the first one with runs of it.

    Raises:
        MissingEvidence: there is none.
    """
    for column in columns(evidence, MOVIELENS):
        try:
            evidence.varied(experiment, column.dataset, column.nsr)
        except MissingEvidence:
            continue
        return column
    raise MissingEvidence(f"the experiment {experiment} did not run on MovieLens: see experiments in config.yaml")


def trainings(rows: pl.DataFrame) -> list[Training]:
    """The losses and boundings that were trained."""
    return sorted(rows.select("loss", "bounding").unique().rows())


def paired(rows: pl.DataFrame, other: pl.DataFrame, training: Training, metric: str = "") -> Contrast:
    """A loss and bounding in one variant minus the same in another one, on the metric that judges the loss."""
    return contrast(
        _scores({"a": (rows, training), "b": (other, training)}, metric or judge(training[0])).pair("a", "b")
    )


def per_topic(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Every topic's mean over losses, boundings, folds and seeds: `topic` and the metric."""
    return rows.with_columns(pl.col(metric).fill_nan(None)).group_by("topic").agg(pl.col(metric).mean()).sort("topic")


def picked_by_validation(evidence: Evidence, experiment: str, column: Column, metric: str = "") -> dict[Training, str]:
    """The variant whose best epoch scores highest on validation, for every loss and bounding.

    `metric`: what picks, if not the metric that judges the loss.
    """
    scores: dict[Training, dict[str, float]] = {}
    for name, epochs in evidence.varied_epochs(experiment, column.dataset, column.nsr).items():
        for loss in epochs.select("loss").unique().sort("loss").collect()["loss"]:
            of_loss = epochs.filter(pl.col("loss") == loss)
            for bounding, score in validation_scores(of_loss, metric or judge(loss), "bounding").items():
                scores.setdefault((loss, bounding), {})[name] = score
    return {key: best for key, by_name in scores.items() if (best := best_of(list(by_name), by_name)) is not None}


def picked_rows(rows: Mapping[str, pl.DataFrame], picked: Mapping[Training, str]) -> pl.DataFrame:
    """Of every loss and bounding the rows of its variant."""
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
