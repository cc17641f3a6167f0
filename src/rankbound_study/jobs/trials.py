"""The trainings of a job, and the learning rate that each fold selects.

A job whose learning rate is a grid first trains every fold with every rate, on its first seed. The part of the fold
that selects the epoch then selects the rate, too, by the same metric (the lowest of equally good rates); the other
seeds are trained with it. Nothing of other folds is used, so that no fold's test part takes part in a selection.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rankbound_study.jobs.files import RATES
from rankbound_study.jobs.fitted import Fitted
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.records import with_key
from rankbound_study.vocabulary import SELECTIONS


@dataclass(frozen=True)
class Trial:
    """One training of a job: its fold, its seed, and its rate if the job has a grid of them."""

    fold: int
    seed: int
    rate: float | None = None

    @property
    def name(self) -> str:
        """The name by which its shards are kept: `fold-1-seed-0`, `fold-1-seed-0-rate-0.01`."""
        return f"fold-{self.fold}-seed-{self.seed}" + ("" if self.rate is None else f"-rate-{self.rate}")

    @property
    def place(self) -> str:
        """The fold and the seed, by which its weights are kept."""
        return f"fold-{self.fold}/seed-{self.seed}"


def first_trials(job: TrainingJob) -> list[Trial]:
    """Return the trainings that need no other: all of a job without a grid, or all rates on the first seed."""
    if job.rates:
        return [Trial(fold, job.seeds[0], rate) for rate in job.rates for fold in job.folds]
    return [Trial(fold, seed) for fold, seed in itertools.product(job.folds, job.seeds)]


def kept_trials(job: TrainingJob, chosen: Mapping[int, float]) -> list[Trial]:
    """Return the trainings whose results are the job's, in their order; `chosen` has each fold's rate of a grid."""
    return [Trial(fold, seed, chosen.get(fold)) for fold, seed in itertools.product(job.folds, job.seeds)]


def in_groups(trials: Sequence[Trial], size: int) -> Iterator[list[Trial]]:
    """Yield at most `size` trainings at a time, all with one rate: the same groups also after an interruption."""
    ordered = sorted(trials, key=lambda trial: trial.rate or 0.0)
    for _, same in itertools.groupby(ordered, key=lambda trial: trial.rate):
        members = list(same)
        yield from (members[start : start + size] for start in range(0, len(members), size))


def rate_rows(job: TrainingJob, trial: Trial, fitted: Fitted) -> pa.Table:
    """Return the row of a training with a rate of a grid: its selected epoch, and the scores there; else no rows."""
    part, judge = SELECTIONS[job.protocol], str(job.judge)
    numbers = [fitted.chosen[part].epoch] if trial.rate is not None else []
    at = {epoch.number: epoch.metrics for epoch in fitted.epochs}
    columns = {
        "learning_rate": pa.array([trial.rate] * len(numbers), pa.float64()),
        "epoch": pa.array(numbers, pa.int32()),
        "score": pa.array([at[number][part][judge] for number in numbers], pa.float64()),
        "test_score": pa.array([at[number]["test"][judge] for number in numbers], pa.float64()),
        "chosen": pa.array([False] * len(numbers), pa.bool_()),
    }
    return with_key(job.key(trial.fold, trial.seed), columns, RATES, len(numbers))


def choose(tables: Iterable[pa.Table]) -> tuple[pa.Table, dict[int, float]]:
    """Return the rows of all rates with those of the best ones marked as chosen, and the rate of each fold."""
    rows = pl.from_arrow(pa.concat_tables(tables))
    assert isinstance(rows, pl.DataFrame)
    ranked = rows.sort(
        "fold", pl.col("score").fill_nan(float("-inf")), "learning_rate", descending=[False, True, False]
    )
    best = ranked.unique("fold", keep="first", maintain_order=True)
    chosen = dict(best.select("fold", "learning_rate").iter_rows())
    mark = pl.col("learning_rate") == pl.col("fold").replace_strict(chosen, default=None, return_dtype=pl.Float64)
    return rows.with_columns(chosen=mark.fill_null(False)).sort("fold", "learning_rate").to_arrow(), chosen
