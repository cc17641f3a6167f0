"""Run a training job by fold, seed and rate; each training is kept as a shard, and all are joined at the end."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor
from tqdm import tqdm

from rankbound.bounds.tables import DistributionTables
from rankbound.errors import plain_errors
from rankbound.io.models import read_tensors, write_tensors
from rankbound.losses import KINDS, loss
from rankbound.texts import split_text
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.data.distribution_files import read_distributions
from rankbound_study.data.reader import count_repeats
from rankbound_study.jobs.determinism import subnormals_as_zero, use_fixed_algorithms
from rankbound_study.jobs.examples import FoldTraining, shifted
from rankbound_study.jobs.files import RATES, SIDECARS, WEIGHTS, beside
from rankbound_study.jobs.fit import Plan, Rates, Trial, choose, epochs_of, fit, in_groups, rate_rows
from rankbound_study.jobs.fitted import Fitted
from rankbound_study.jobs.job import epoch_metrics, judge_of
from rankbound_study.jobs.parts import Inputs, StudyData, as_tested, epoch_rows, prediction_rows, run_rows
from rankbound_study.jobs.shards import Shards
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
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    # Shards of another device or grouping differ in the last digits: a result holds only one kind.
    decided = json.dumps([job.requested, where.type, together, code])
    with Shards(out, decided, inputs.paths()) as shards:
        trainings = _Trainings(job, inputs, shards, where, together)
        trainings.run()
        trainings.assemble(out)
        shards.remove()


class _Trainings:
    """The trainings of a job; the data are read for the first one that no shard has."""

    def __init__(self, job: TrainingJob, inputs: Inputs, shards: Shards, device: torch.device, together: int) -> None:
        self._job, self._inputs, self._shards, self._device, self._together = job, inputs, shards, device, together
        self._plan = Plan(job, count_repeats(inputs.instances))

    def run(self) -> None:
        """Train what no shard has; a grid of rates first, then the other seeds with the rates of their folds."""
        total = self._plan.count * epochs_of(self._job)
        with tqdm(total=total, unit="epoch", disable=None, delay=1) as self._progress:
            first = self._plan.first()
            self._train(first)
            self._train([trial for trial in self._plan.kept(self._chosen()[1]) if trial not in set(first)])

    def _chosen(self) -> tuple[pa.Table, Rates]:
        """Return the table of rates and those that are chosen; no rows and no rates for a job without a grid."""
        return choose(read_table(self._shards.path(_names(trial)[RATES]), RATES) for trial in self._plan.first())

    def assemble(self, out: Path) -> None:
        """Join the shards of the job's trainings in its files."""
        rates, chosen = self._chosen()
        trials = self._plan.kept(chosen)
        merged: dict[str, Tensor] = {}
        for trial in trials:
            merged |= read_tensors(self._shards.path(_names(trial)[WEIGHTS]))
        write_tensors(merged, beside(out, WEIGHTS))
        metadata = {"job": self._job.requested}
        write_table(rates, beside(out, f"{RATES}.parquet"), RATES, metadata=metadata)
        # The runs come last: if they exist, all other files do.
        for contract in ("predictions", "epochs", "runs"):
            tables = [read_table(self._shards.path(_names(trial)[contract]), contract) for trial in trials]
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
            if all(self._shards.path(name).exists() for trial in group for name in _names(trial).values()):
                self._progress.update(len(group) * epochs_of(self._job))
                continue
            members = ", ".join(f"{trial.fold} (seed {trial.seed})" for trial in group)
            self._progress.set_description(f"{self._job.dataset} {self._job.name}, fold {members}")
            self._train_group(group)

    def _train_group(self, group: Sequence[Trial]) -> None:
        job, data = self._job.at(group[0].rate), self._data
        places = [(trial.fold, data.instances.drawing(trial.seed)) for trial in group]
        parts = {place: data.fold(*place, merge_validation=job.trains_on_validation) for place in set(places)}
        trainings = [
            FoldTraining.of(job, data, parts[place], trial.fold, trial.seed)
            for trial, place in zip(group, places, strict=True)
        ]
        fitted = fit(job, data, trainings, self._tables, lambda epoch: self._progress.update())
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
        write_table(table, shards.path(_names(trial)[contract]), contract)
    # By fold and seed.
    weights, place = fitted.chosen[main].weights, f"fold-{trial.fold}/seed-{trial.seed}"
    named = {f"{place}/{name}": tensor.cpu() for name, tensor in weights.items()}
    write_tensors(named, shards.path(_names(trial)[WEIGHTS]))


def _names(trial: Trial) -> dict[str, str]:
    """Return the names of a training's shards by what they hold."""
    return {
        **{kind: f"{trial.name}.{kind}.parquet" for kind in ("runs", *SIDECARS)},
        WEIGHTS: f"{trial.name}.{WEIGHTS}",
    }
