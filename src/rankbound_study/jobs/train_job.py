"""Run a training job by fold, seed and rate; each training is kept as a shard, and all are joined at the end.

A job whose learning rate is a grid first trains every fold with every rate, on its first seed. The part of the fold
that selects the epoch then selects the rate, too, by the same metric (the lowest of equally good rates); the other
seeds are trained with it. If the folds are drawn several times, every drawing selects its own rates, on its first
seed. Nothing of other folds and drawings is used, so that no fold's test part takes part in a selection.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
import pyarrow as pa
import torch
from torch import Tensor
from tqdm import tqdm

from rankbound.bounds.tables import DistributionTables
from rankbound.errors import plain_errors
from rankbound.io.models import read_tensors, write_tensors
from rankbound.losses import KINDS, RankingLoss, SmoothLoss, loss
from rankbound.texts import split_text
from rankbound.training.trainer import Learner, predict, train
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import PenalisedKeys, RankerKeys, TrainerSettings, TreeKeys
from rankbound_study.data.contracts import RATES, SIDECARS, WEIGHTS, beside, read_table, with_key, write_table
from rankbound_study.data.reader import count_repeats, read_distributions
from rankbound_study.jobs.examples import FoldTraining, shifted
from rankbound_study.jobs.models import Chosen, Fitted, build_model
from rankbound_study.jobs.parts import (
    Inputs,
    StudyData,
    as_tested,
    epoch_metrics,
    epoch_rows,
    judge_of,
    prediction_rows,
    run_rows,
)
from rankbound_study.jobs.running import Shards, device_of, subnormals_as_zero, use_fixed_algorithms
from rankbound_study.vocabulary import SELECTIONS


def job(options: str, out: Path, device: str, together: int, code: str, **inputs: Path | None) -> None:
    """Run the step `job`: in one thread, with sums in a fixed order; jobs run in parallel instead."""
    torch.set_num_threads(1)
    use_fixed_algorithms()
    requested = known_job(options)
    with subnormals_as_zero():
        run_job(requested, Inputs(**inputs), out, device, together, code)  # type: ignore[arg-type]


def known_job(options: str) -> TrainingJob:
    """Return the job of the options; ConfigError before anything is read if a name in them is unknown."""
    requested = TrainingJob.parse(options)
    with plain_errors():
        smooth = split_text(requested.loss, "loss")[0] not in KINDS
        loss(requested.loss, requested.bounding, (requested.settings.temperature or 1.0) if smooth else 1.0)
        _ = judge_of(requested), epoch_metrics(requested)
    return requested


def run_job(
    job: TrainingJob, inputs: Inputs, out: Path, device: str = "auto", together: int = 1, code: str = ""
) -> None:
    """Train all folds and seeds of `job`; write runs to `out`, and epochs, predictions and weights beside it.

    `together` trainings are trained as a group (the last digits depend on it). Trainings that an interrupted run
    finished with the same options, data and `code` (its digest) are taken from its shards.
    """
    where = device_of(device)
    # Shards of another device or grouping differ in the last digits: a result holds only one kind.
    decided = json.dumps([job.requested, where.type, together, code])
    with Shards(out, decided, inputs.paths()) as shards:
        trainings = _Trainings(job, inputs, shards, where, together)
        trainings.run()
        trainings.assemble(out)
        shards.remove()


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

    @property
    def files(self) -> dict[str, str]:
        """The names of its shards by what they hold."""
        tables = {kind: f"{self.name}.{kind}.parquet" for kind in ("runs", *SIDECARS)}
        return {**tables, WEIGHTS: f"{self.name}.{WEIGHTS}"}


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


class _Trainings:
    """The trainings of a job; the data are read for the first one that no shard has."""

    def __init__(self, job: TrainingJob, inputs: Inputs, shards: Shards, device: torch.device, together: int) -> None:
        self._job, self._inputs, self._shards, self._device, self._together = job, inputs, shards, device, together
        self._plan = Plan(job, count_repeats(inputs.instances))

    def run(self) -> None:
        """Train what no shard has; a grid of rates first, then the other seeds with the rates of their folds."""
        with tqdm(total=self._plan.count, unit="training", disable=None, delay=1) as self._progress:
            first = self._plan.first()
            self._train(first)
            self._train([trial for trial in self._plan.kept(self._chosen()[1]) if trial not in set(first)])

    def _chosen(self) -> tuple[pa.Table, Rates]:
        """Return the table of rates and those that are chosen; no rows and no rates for a job without a grid."""
        return choose(read_table(self._shards.path(trial.files[RATES]), RATES) for trial in self._plan.first())

    def assemble(self, out: Path) -> None:
        """Join the shards of the job's trainings in its files."""
        rates, chosen = self._chosen()
        trials = self._plan.kept(chosen)
        merged: dict[str, Tensor] = {}
        for trial in trials:
            merged |= read_tensors(self._shards.path(trial.files[WEIGHTS]))
        write_tensors(merged, beside(out, WEIGHTS))
        metadata = {"job": self._job.requested}
        write_table(rates, beside(out, f"{RATES}.parquet"), RATES, metadata=metadata)
        # The runs come last: if they exist, all other files do.
        for contract in ("predictions", "epochs", "runs"):
            tables = [read_table(self._shards.path(trial.files[contract]), contract) for trial in trials]
            path = out if contract == "runs" else beside(out, f"{contract}.parquet")
            write_table(pa.concat_tables(tables), path, contract, metadata=metadata)

    @cached_property
    def _data(self) -> StudyData:
        read = StudyData.read(self._inputs, self._device)
        return shifted(self._job, as_tested(self._job, read, self._inputs.test_instances))

    @cached_property
    def _tables(self) -> DistributionTables | None:
        return read_distributions(self._inputs.distributions) if self._inputs.distributions else None

    def _train(self, trials: Sequence[Trial]) -> None:
        for group in in_groups(trials, self._together):
            if not all(self._shards.path(name).exists() for trial in group for name in trial.files.values()):
                members = ", ".join(f"{trial.fold} (seed {trial.seed})" for trial in group)
                self._progress.set_description(f"{self._job.dataset} {self._job.name}, fold {members}")
                self._train_group(group)
            self._progress.update(len(group))

    def _train_group(self, group: Sequence[Trial]) -> None:
        job, data = self._job.at(group[0].rate), self._data
        places = [(trial.fold, data.instances.drawing(trial.seed)) for trial in group]
        parts = {place: data.fold(*place, merge_validation=job.trains_on_validation) for place in set(places)}
        trainings = [
            FoldTraining.of(job, data, parts[place], trial.fold, trial.seed)
            for trial, place in zip(group, places, strict=True)
        ]
        fitted = fit(job, data, trainings, self._tables)
        for trial, (_, drawing), training, result in zip(group, places, trainings, fitted, strict=True):
            _keep(self._job, trial, drawing, training, result, self._shards)


def _keep(job: TrainingJob, trial: Trial, drawing: int, training: FoldTraining, fitted: Fitted, shards: Shards) -> None:
    key, test, by_kernel = job.key(trial.fold, trial.seed), training.parts.test, training.by_kernel(job)
    chosen = sorted(fitted.chosen.items())
    # Predictions and weights are those of the epoch that the protocol's tables show.
    main = SELECTIONS[job.protocol]
    tables = {
        "runs": pa.concat_tables(
            run_rows(key, name, drawing, choice.epoch, test, choice.scores, by_kernel=by_kernel)
            for name, choice in chosen
        ),
        "epochs": epoch_rows(key, fitted.epochs),
        "predictions": prediction_rows(key, main, test, fitted.chosen[main].scores),
        RATES: rate_rows(job, trial, fitted),
    }
    for contract, table in tables.items():
        write_table(table, shards.path(trial.files[contract]), contract)
    # By fold and seed.
    weights, place = fitted.chosen[main].weights, f"fold-{trial.fold}/seed-{trial.seed}"
    named = {f"{place}/{name}": tensor.cpu() for name, tensor in weights.items()}
    write_tensors(named, shards.path(trial.files[WEIGHTS]))


def fit(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    tables: DistributionTables | None,
) -> list[Fitted]:
    """Train the job's model on some folds and seeds; networks and factorisations are trained together."""
    objective = _objective(job, tables)
    if isinstance(job.model, TreeKeys | PenalisedKeys | RankerKeys):
        from rankbound_study.jobs.fit_by_steps import fit_by_steps

        fitted = [fit_by_steps(job, training, objective) for training in trainings]
    else:
        fitted = _fit_networks(job, data, trainings, objective)
    return [result.completed(training) for result, training in zip(fitted, trainings, strict=True)]


def _fit_networks(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    objective: RankingLoss,
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
        objective,
        **{name: value for name, value in job.settings.given().items() if name in TrainerSettings.model_fields},
        monitored=epoch_metrics(job),
        selections=dict.fromkeys(learners[0].parts, judge_of(job)),
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
