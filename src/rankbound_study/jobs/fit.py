"""Fit a job's models; the only place that dispatches on the model's type.

A job whose learning rate is a grid first trains every fold with every rate, on its first seed. The part of the fold
that selects the epoch then selects the rate, too, by the same metric (the lowest of equally good rates); the other
seeds are trained with it. If the folds are drawn several times, every drawing selects its own rates, on its first
seed. Nothing of other folds and drawings is used, so that no fold's test part takes part in a selection.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rankbound.bounds.tables import DistributionTables
from rankbound.losses import KINDS, RankingLoss, SmoothLoss, loss
from rankbound.texts import split_text
from rankbound.training.trainer import Epoch, Learner, predict, train
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import PenalisedKeys, RankerKeys, TrainerSettings, TreeKeys
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.files import RATES
from rankbound_study.jobs.fitted import Chosen, Fitted, build_model
from rankbound_study.jobs.job import epoch_metrics, judge_of
from rankbound_study.jobs.parts import StudyData, with_key
from rankbound_study.vocabulary import SELECTIONS

OnEpoch = Callable[[Epoch], None]


def epochs_of(job: TrainingJob) -> int:
    """Return the number of epochs of one training, for progress: measurements for trees, penalties for a path."""
    if isinstance(job.model, TreeKeys):
        return -(-job.model.rounds // job.model.every)
    return len(job.model.penalties) if isinstance(job.model, PenalisedKeys) else job.settings.epochs or 0


def fit(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    tables: DistributionTables | None,
    on_epoch: OnEpoch,
) -> list[Fitted]:
    """Train the job's model on some folds and seeds; networks and factorisations are trained together."""
    if isinstance(job.model, TreeKeys):
        from rankbound_study.jobs.fit_trees import fit_trees

        fitted = [fit_trees(job, training, _objective(job, tables), on_epoch) for training in trainings]
    elif isinstance(job.model, RankerKeys):
        from rankbound_study.jobs.fit_ranker import fit_ranker

        fitted = [fit_ranker(job, training, _objective(job, tables), on_epoch) for training in trainings]
    elif isinstance(job.model, PenalisedKeys):
        from rankbound_study.jobs.fit_penalised import fit_penalised

        fitted = [fit_penalised(job, training, on_epoch) for training in trainings]
    else:
        fitted = _fit_networks(job, data, trainings, tables, on_epoch)
    return [result.completed(training) for result, training in zip(fitted, trainings, strict=True)]


def _fit_networks(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    tables: DistributionTables | None,
    on_epoch: OnEpoch,
) -> list[Fitted]:
    """Train with the library's trainer; the metric that judges the job selects epochs."""
    learners = []
    for training in trainings:
        generator = training.generator(job)
        model, scorer = build_model(job, data, training, generator)
        measured = training.parts.measured
        learners.append(Learner(model.to(data.device), scorer, training.examples, measured, generator))
    trained = train(
        learners,
        _objective(job, tables),
        **{name: value for name, value in job.settings.given().items() if name in TrainerSettings.model_fields},
        monitored=epoch_metrics(job),
        selections=dict.fromkeys(learners[0].parts, judge_of(job)),
        on_epoch=on_epoch,
    )
    fitted = []
    for result, learner, training in zip(trained, learners, trainings, strict=True):
        chosen = {}
        for name, selected in result.selected.items():
            learner.model.load_state_dict(selected.weights)
            scores = predict(learner.model, learner.scorer, training.parts.test)
            chosen[name] = Chosen(selected.epoch, scores, selected.weights)
        fitted.append(Fitted(result.epochs, chosen))
    return fitted


def _objective(job: TrainingJob, tables: DistributionTables | None) -> RankingLoss:
    """Return the smooth, bounded loss of a metric, or another loss, which has neither bound nor temperature."""
    if split_text(job.loss, "loss")[0] in KINDS:
        return loss(job.loss, job.bounding)
    return SmoothLoss(job.loss, job.bounding, temperature=job.settings.temperature or 1.0, tables=tables)


Rates = Mapping[tuple[int, int], float]
"""The selected rate of each fold and first seed of a drawing; empty without a grid."""


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


class Plan:
    """The trainings of a job; `repeats` is the number of times that its folds are drawn (`FoldedLists.drawn_fold`)."""

    def __init__(self, job: TrainingJob, repeats: int) -> None:
        self.job, self.count = job, job.count_trainings(repeats)
        # The seed of the first training in the same drawn fold, of each training.
        self._first_seeds = job.first_seeds(repeats)

    def first(self) -> list[Trial]:
        """Return the trainings that need no other: all without a grid, or all rates on a drawn fold's first seed."""
        if not self.job.rates:
            return list(itertools.starmap(Trial, self.job.trainings))
        first = [training for training, seed in self._first_seeds.items() if training[1] == seed]
        return [Trial(*training, rate) for rate in self.job.rates for training in first]

    def kept(self, chosen: Rates) -> list[Trial]:
        """Return the trainings whose results are the job's, in their order."""
        return [Trial(fold, seed, chosen.get((fold, first))) for (fold, seed), first in self._first_seeds.items()]


def in_groups(trials: Sequence[Trial], size: int) -> Iterator[list[Trial]]:
    """Yield at most `size` trainings at a time, all with one rate: the same groups also after an interruption."""
    ordered = sorted(trials, key=lambda trial: trial.rate or 0.0)
    for _, same in itertools.groupby(ordered, key=lambda trial: trial.rate):
        members = list(same)
        yield from (members[start : start + size] for start in range(0, len(members), size))


def rate_rows(job: TrainingJob, trial: Trial, fitted: Fitted) -> pa.Table:
    """Return the row of a training with a rate of a grid: its selected epoch, and the scores there; else no rows."""
    part, judge = SELECTIONS[job.protocol], str(judge_of(job))
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


def choose(tables: Iterable[pa.Table]) -> tuple[pa.Table, Rates]:
    """Return the rows of all rates, with those of the best ones marked as chosen, and the chosen rates."""
    rows = pl.from_arrow(pa.concat_tables(tables))
    assert isinstance(rows, pl.DataFrame)
    ranked = rows.sort(pl.col("score").fill_nan(float("-inf")), "learning_rate", descending=[True, False])
    key = ["fold", "seed", "learning_rate"]
    best = ranked.unique(["fold", "seed"], keep="first", maintain_order=True).select(key)
    chosen = {(fold, seed): rate for fold, seed, rate in best.iter_rows()}
    marked = rows.drop("chosen").join(best.with_columns(chosen=True), on=key, how="left")
    return marked.with_columns(pl.col("chosen").fill_null(value=False)).sort(key).to_arrow(), chosen
