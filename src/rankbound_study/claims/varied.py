"""Experiments: the scores of variants and of the study's own runs, in the same folds and under the same seeds."""

from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from rankbound.compare import Pair, PairedScores
from rankbound.compare.scores import SYSTEM, scores_of_frame
from rankbound_study.claims.cells import METRICS, MOVIELENS, Contrast, columns, contrast, enough, judge
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.validation import best_of, validation_scores

USUAL = "usual"
"""The study's own setting, among the variants."""

SYSTEMS = ("a", "b")
"""The names of two systems whose difference is taken, a minus b."""

Training = tuple[str, str]
"""A loss and its bounding."""

_READ = (*KEY, "options", *METRICS)


def variants(
    evidence: Evidence, experiment: str, column: DataSet, *, with_usual: bool = True
) -> dict[str, pl.DataFrame]:
    """Return the rows of every variant, and the study's own runs with the same folds, seeds, losses and boundings."""
    # For every claim that asks, also where the rows are read already.
    evidence.note_untrained(experiment, column.dataset, column.nsr)
    return _variants(evidence, experiment, column, with_usual)


@lru_cache(maxsize=32)
def _variants(evidence: Evidence, experiment: str, column: DataSet, with_usual: bool) -> dict[str, pl.DataFrame]:
    lazy = evidence.varied(experiment, column.dataset, column.nsr)
    found = {name: rows.select(*_READ).collect() for name, rows in lazy.items()}
    if not with_usual:
        return found
    # Beside the runs of all variants: under one alone, some losses may not have trained.
    return {**found, USUAL: usual_beside(evidence, column, pl.concat(found.values()))}


def usual_beside(evidence: Evidence, column: DataSet, rows: pl.DataFrame) -> pl.DataFrame:
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


def columns_of(evidence: Evidence, experiment: str, dataset: str) -> list[DataSet]:
    """Return the columns of a data set on which an experiment ran."""
    found = []
    try:
        for column in columns(evidence, dataset):
            if evidence.variants(experiment, column.dataset, column.nsr):
                found.append(column)
    except MissingEvidence:
        pass
    return found


def column_of(evidence: Evidence, experiment: str) -> DataSet:
    """Return the first column of MovieLens that has runs of an experiment; MissingEvidence if none has."""
    found = columns_of(evidence, experiment, MOVIELENS)
    if not found:
        raise MissingEvidence(f"the experiment {experiment} did not run on MovieLens: see experiments in config.yaml")
    return found[0]


def trainings(rows: pl.DataFrame) -> list[Training]:
    """Return the losses and boundings that were trained."""
    return sorted(rows.select("loss", "bounding").unique().rows())


def paired(rows: pl.DataFrame, other: pl.DataFrame, training: Training, against: Training = ("", "")) -> Contrast:
    """Return a loss and bounding in some rows minus the same (or `against`) in others, on the loss' own metric."""
    return contrast(side_by_side(rows, other, training, against).pair(*SYSTEMS))


def side_by_side(
    rows: pl.DataFrame, other: pl.DataFrame, training: Training, against: Training = ("", "")
) -> PairedScores:
    """Return the scores that `paired` subtracts, as the systems `SYSTEMS`."""
    metric = judge(training[0])
    parts = [
        frame.filter(pl.col("loss") == loss, pl.col("bounding") == bounding).select(
            pl.lit(name).alias(SYSTEM), "topic", "fold", "seed", metric
        )
        for name, frame, (loss, bounding) in zip(
            SYSTEMS, (rows, other), (training, against if any(against) else training), strict=True
        )
    ]
    if any(part.is_empty() for part in parts):
        raise MissingEvidence(f"no runs of {' with bounding '.join(training)} in an experiment and beside it")
    return scores_of_frame(pl.concat(parts), metric)


def on_the_same_lists(rows: pl.DataFrame, usual: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep test lists of equal length in both: none lost a negative because training had seen it."""
    key = ["fold", "topic", "n"]
    rows, usual = rows.join(usual, on=key, how="semi"), usual.join(rows, on=key, how="semi")
    if rows["topic"].n_unique() < 2:
        raise MissingEvidence("all test lists but one lost negatives that training at another ratio had seen")
    return rows, usual


def pair_in(rows: pl.DataFrame, metric: str, by: str, systems: tuple[str, str], where: str) -> Pair:
    """Pair the scores of two systems, which a column of the rows names.

    Raises:
        MissingEvidence: one of them did not run, or there are too few topics for a test.
    """
    for name in systems:
        if name not in rows[by]:
            raise MissingEvidence(f"no honest runs of {name} {where}")
    both = scores_of_runs(rows, metric, by=(by,)).pair(*systems)
    enough(len(both.units), where)
    return both


def picked_by_validation(evidence: Evidence, experiment: str, column: DataSet, metric: str = "") -> dict[Training, str]:
    """Return the variant whose best epoch scores highest on validation, for every loss and bounding.

    `metric` picks it; by default the metric that judges the loss.
    """
    scores: dict[Training, dict[str, float]] = {}
    for name, epochs in evidence.variants(experiment, column.dataset, column.nsr, of_epochs=True).items():
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
