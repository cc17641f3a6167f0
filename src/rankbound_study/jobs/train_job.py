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
from tqdm import tqdm

from rankbound.errors import plain_errors
from rankbound.io.models import read_tensors, write_tensors
from rankbound.losses import KINDS, RankingLoss, SmoothLoss, loss
from rankbound.texts import split_text
from rankbound.training.trainer import predict, train
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.base import of_flag
from rankbound_study.config.sections.training import PenalisedKeys, RankerKeys, TrainerSettings, TreeKeys
from rankbound_study.data.contracts import RATES, SIDECARS, WEIGHTS, beside, read_table, with_key, write_table
from rankbound_study.data.reader import count_repeats, read_distributions
from rankbound_study.jobs.models import Chosen, Fitted, FoldTraining, learner_of, shifted
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
from rankbound_study.jobs.running import device_of, shards_of, subnormals_as_zero, use_fixed_algorithms
from rankbound_study.options import as_json
from rankbound_study.vocabulary import SELECTIONS


def job(options: str, out: Path, device: str, together: int, code: str, **files: Path | None) -> None:
    """Run the step `job`: train all folds and seeds; write `out`, with epochs, predictions and weights beside it.

    It runs in one thread, with sums in a fixed order; jobs run in parallel instead. `together` trainings are trained as
    a group (the last digits depend on it). Trainings that an interrupted run finished with the same options, data and
    `code` (its digest) are taken from its shards.
    """
    torch.set_num_threads(1)
    use_fixed_algorithms()
    requested = of_flag(TrainingJob, options, "--options")
    inputs, where = Inputs(**files), device_of(device)  # type: ignore[arg-type]
    # Unknown names are refused before anything is read.
    with plain_errors():
        _ = loss_of(requested, None), judge_of(requested), epoch_metrics(requested)
    # Shards of another device or grouping differ in the last digits: a result holds only one kind.
    decided = json.dumps([requested.options(), where.type, together, code])
    with subnormals_as_zero(), shards_of(out, decided, filter(None, vars(inputs).values())) as shards:
        _Trainings(requested, inputs, shards, where, together).run(out)


def loss_of(job: TrainingJob, distributions: Path | None) -> RankingLoss:
    """Return the smooth, bounded loss of a metric, or another loss, which has neither bound nor temperature."""
    if split_text(job.loss, "loss")[0] in KINDS:
        return loss(job.loss, job.bounding)
    temperature = job.settings.temperature or 1.0
    if distributions is None:
        return loss(job.loss, job.bounding, temperature)
    return SmoothLoss(job.loss, job.bounding, temperature=temperature, tables=read_distributions(distributions))


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


def first_trials(job: TrainingJob, repeats: int) -> list[Trial]:
    """Return the trainings that need no other: all without a grid, or all rates on a drawn fold's first seed.

    The folds are drawn `repeats` times (`FoldedLists.drawn_fold`).
    """
    if not job.rates:
        return kept_trials(job, repeats, {})
    first = [training for training, seed in job.first_seeds(repeats).items() if training[1] == seed]
    return [Trial(*training, rate) for rate in job.rates for training in first]


def kept_trials(job: TrainingJob, repeats: int, chosen: Rates) -> list[Trial]:
    """Return the trainings whose results are the job's, in their order, with the rates that were chosen."""
    return [Trial(fold, seed, chosen.get((fold, first))) for (fold, seed), first in job.first_seeds(repeats).items()]


def in_groups(trials: Sequence[Trial], size: int) -> Iterator[list[Trial]]:
    """Yield at most `size` trainings at a time, all with one rate: the same groups also after an interruption."""
    ordered = sorted(trials, key=lambda trial: trial.rate or 0.0)
    for _, same in itertools.groupby(ordered, key=lambda trial: trial.rate):
        members = list(same)
        yield from (members[start : start + size] for start in range(0, len(members), size))


class _Trainings:
    """The trainings of a job; the data are read for the first one that no shard has."""

    def __init__(self, job: TrainingJob, inputs: Inputs, shards: Path, device: torch.device, together: int) -> None:
        self._job, self._inputs, self._shards, self._device, self._together = job, inputs, shards, device, together

    def run(self, out: Path) -> None:
        """Train what no shard has, a grid of rates first, then the other seeds with the rates of their folds; join."""
        job, shards, repeats = self._job, self._shards, count_repeats(self._inputs.instances)
        with tqdm(total=job.count_trainings(repeats), unit="training", disable=None, delay=1) as self._progress:
            first = first_trials(job, repeats)
            self._train(first)
            # No rows and no rates for a job without a grid.
            rates, chosen = choose(read_table(shards / trial.files[RATES], RATES) for trial in first)
            trials = kept_trials(job, repeats, chosen)
            self._train([trial for trial in trials if trial not in set(first)])
        weights = (read_tensors(shards / trial.files[WEIGHTS]) for trial in trials)
        write_tensors({name: tensor for own in weights for name, tensor in own.items()}, beside(out, WEIGHTS))
        metadata = {"job": as_json(job.options())}
        write_table(rates, beside(out, f"{RATES}.parquet"), RATES, metadata=metadata)
        # The runs come last: if they exist, all other files do.
        for contract in ("predictions", "epochs", "runs"):
            table = pa.concat_tables(read_table(shards / trial.files[contract], contract) for trial in trials)
            place = out if contract == "runs" else beside(out, f"{contract}.parquet")
            write_table(table, place, contract, metadata=metadata)

    @cached_property
    def _data(self) -> StudyData:
        read = StudyData.read(self._inputs, self._device)
        return shifted(self._job, as_tested(self._job, read, self._inputs.test_instances))

    @cached_property
    def _loss(self) -> RankingLoss:
        return loss_of(self._job, self._inputs.distributions)

    def _train(self, trials: Sequence[Trial]) -> None:
        for group in in_groups(trials, self._together):
            if not all((self._shards / name).exists() for trial in group for name in trial.files.values()):
                members = ", ".join(f"{trial.fold} (seed {trial.seed})" for trial in group)
                self._progress.set_description(f"{self._job.dataset} {self._job.name}, fold {members}")
                job, data = self._job.at(group[0].rate), self._data
                places = [(trial.fold, data.instances.drawing(trial.seed)) for trial in group]
                parts = {one: data.fold(*one, merge_validation=job.trains_on_validation) for one in set(places)}
                trainings = [
                    FoldTraining.of(job, data, parts[place], trial.fold, trial.seed)
                    for trial, place in zip(group, places, strict=True)
                ]
                fitted = fit(job, trainings, self._loss)
                for trial, (_, drawing), training, result in zip(group, places, trainings, fitted, strict=True):
                    _keep(self._job, trial, drawing, training, result, self._shards)
            self._progress.update(len(group))


def _keep(job: TrainingJob, trial: Trial, drawing: int, training: FoldTraining, fitted: Fitted, shards: Path) -> None:
    """Write the shards of a training: scores in the unit of the trained values, and all numbers that they depend on."""
    key, test, by_kernel = job.key(trial.fold, trial.seed), training.parts.test, training.by_kernel(job)
    # Predictions, weights and rates are those of the epoch that the protocol's tables show.
    main, judge = SELECTIONS[job.protocol], str(judge_of(job))
    chosen = fitted.chosen[main]
    scores, weights = {name: one.scores for name, one in fitted.chosen.items()}, dict(chosen.weights)
    if training.unit is not None:
        mean, deviation = training.unit
        scores = {name: own * deviation + mean for name, own in scores.items()}
        weights |= {"target.mean": torch.tensor(mean), "target.deviation": torch.tensor(deviation)}
    if training.columns is not None:
        weights["features.columns"] = training.columns
    tried = next(epoch.metrics for epoch in fitted.epochs if epoch.number == chosen.epoch)
    rate = {"learning_rate": trial.rate, "epoch": chosen.epoch}
    rate |= {"score": tried[main][judge], "test_score": tried["test"][judge], "chosen": False}
    # A row of a rate of a grid; none without a grid.
    count = 0 if trial.rate is None else 1
    tables = {
        "runs": pa.concat_tables(
            run_rows(key, name, drawing, choice.epoch, test, scores[name], by_kernel=by_kernel)
            for name, choice in sorted(fitted.chosen.items())
        ),
        "epochs": epoch_rows(key, fitted.epochs),
        "predictions": prediction_rows(key, main, test, scores[main]),
        RATES: with_key(key, {name: [value] * count for name, value in rate.items()}, RATES, count),
    }
    for contract, table in tables.items():
        write_table(table, shards / trial.files[contract], contract)
    place = f"fold-{trial.fold}/seed-{trial.seed}"
    write_tensors({f"{place}/{name}": tensor.cpu() for name, tensor in weights.items()}, shards / trial.files[WEIGHTS])


def fit(job: TrainingJob, trainings: Sequence[FoldTraining], objective: RankingLoss) -> list[Fitted]:
    """Fit the job's model on some folds and seeds: networks and factorisations together, by the library's trainer."""
    if isinstance(job.model, TreeKeys | PenalisedKeys | RankerKeys):
        from rankbound_study.jobs.fit_by_steps import fit_by_steps

        return [fit_by_steps(job, training, objective) for training in trainings]
    learners = [learner_of(job, training) for training in trainings]
    trained = train(
        learners,
        objective,
        **{name: value for name, value in job.settings.given().items() if name in TrainerSettings.model_fields},
        monitored=epoch_metrics(job),
        selections=dict.fromkeys(learners[0].parts, judge_of(job)),
    )
    fitted = []
    for result, learner in zip(trained, learners, strict=True):
        chosen = {}
        for name, selected in result.selected.items():
            learner.model.load_state_dict(selected.weights)
            scores = predict(learner.model, learner.scorer, learner.parts["test"])
            chosen[name] = Chosen(selected.epoch, scores, selected.weights)
        fitted.append(Fitted(result.epochs, chosen))
    return fitted


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
