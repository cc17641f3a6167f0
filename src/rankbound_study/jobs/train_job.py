"""Run a training job by fold and seed; each training is kept as a shard, and all are joined at the end."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor
from tqdm import tqdm

from rankbound.bounds.tables import DistributionTables
from rankbound.io.tensor_files import read_tensors, write_tensors
from rankbound.training.epochs import Epoch
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.data.distribution_files import read_distributions
from rankbound_study.jobs.files import SIDECARS, WEIGHTS, beside
from rankbound_study.jobs.fit import epochs_of, fit
from rankbound_study.jobs.fitted import Fitted
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import Inputs, StudyData
from rankbound_study.jobs.records import epoch_rows, prediction_rows, run_rows
from rankbound_study.jobs.shards import Shards
from rankbound_study.jobs.shifted_pictures import shifted
from rankbound_study.jobs.tested_lists import as_tested
from rankbound_study.jobs.training import FoldTraining
from rankbound_study.vocabulary import SELECTIONS


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
        _train_all(job, inputs, shards, where, together)
        _assemble(job, shards, out)
        shards.remove()


def _train_all(job: TrainingJob, inputs: Inputs, shards: Shards, device: torch.device, together: int) -> None:
    every = list(itertools.product(job.folds, job.seeds))
    # Always the same groups, also after an interruption: they determine the last digits.
    groups = [every[start : start + together] for start in range(0, len(every), together)]
    waiting = [group for group in groups if not all(shards.has_all(_shard_names(*pair)) for pair in group)]
    if waiting:
        data = shifted(job, as_tested(job, StudyData.read(inputs, device), inputs.test_instances))
        tables = read_distributions(inputs.distributions) if inputs.distributions else None
        with tqdm(total=sum(map(len, waiting)) * epochs_of(job), unit="epoch", disable=None) as progress:
            for group in waiting:
                members = ", ".join(f"{fold} (seed {seed})" for fold, seed in group)
                progress.set_description(f"{job.dataset} {job.name}, fold {members}")
                _train_group(job, data, tables, group, shards, lambda epoch: progress.update())


def _train_group(
    job: TrainingJob,
    data: StudyData,
    tables: DistributionTables | None,
    group: Sequence[tuple[int, int]],
    shards: Shards,
    on_epoch: Callable[[Epoch], None],
) -> None:
    parts = {fold: data.fold(fold, merge_validation=job.trains_on_validation) for fold, _ in group}
    trainings = [FoldTraining.of(job, data, parts[fold], fold, seed) for fold, seed in group]
    for training, fitted in zip(trainings, fit(job, data, trainings, tables, on_epoch), strict=True):
        _keep(job, training, fitted, shards)


def _keep(job: TrainingJob, training: FoldTraining, fitted: Fitted, shards: Shards) -> None:
    fold, seed, test = training.fold, training.seed, training.parts.test
    key, names, by_kernel = job.key(fold, seed), _shard_names(fold, seed), training.by_kernel(job)
    chosen = sorted(fitted.chosen.items())
    # Predictions and weights are those of the epoch that the protocol's tables show.
    main = SELECTIONS[job.protocol]
    tables_made = (
        pa.concat_tables(
            run_rows(key, name, choice.epoch, test, choice.scores, by_kernel=by_kernel) for name, choice in chosen
        ),
        epoch_rows(key, fitted.epochs),
        prediction_rows(key, main, test, fitted.chosen[main].scores),
    )
    for name, contract, table in zip(names, ("runs", *SIDECARS), tables_made, strict=False):
        write_table(table, shards.path(name), contract)
    weights = fitted.chosen[main].weights
    named = {f"fold-{fold}/seed-{seed}/{name}": tensor.cpu() for name, tensor in weights.items()}
    write_tensors(named, shards.path(names[-1]))


def _assemble(job: TrainingJob, shards: Shards, out: Path) -> None:
    pairs = [_shard_names(fold, seed) for fold, seed in itertools.product(job.folds, job.seeds)]
    *tables, weights = zip(*pairs, strict=True)
    merged: dict[str, Tensor] = {}
    for name in weights:
        merged |= read_tensors(shards.path(name))
    write_tensors(merged, beside(out, WEIGHTS))
    # The runs come last: if they exist, all other files do.
    for contract, names in reversed(list(zip(("runs", *SIDECARS), tables, strict=True))):
        path = out if contract == "runs" else beside(out, f"{contract}.parquet")
        table = pa.concat_tables([read_table(shards.path(name), contract) for name in names])
        write_table(table, path, contract, metadata={"job": job.requested})


def _shard_names(fold: int, seed: int) -> list[str]:
    endings = [*(f"{contract}.parquet" for contract in ("runs", *SIDECARS)), WEIGHTS]
    return [f"fold-{fold}-seed-{seed}.{ending}" for ending in endings]
