"""Runs a training job: fold by fold and seed by seed, each kept as a shard, put together at the end."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from rankbound.bounds.tables import DistributionTables
from rankbound.data.contracts import read_table, write_table
from rankbound.files import atomic_path
from rankbound.options import parse_options
from rankbound.study.code_inputs import code_inputs
from rankbound.study.fit import Job, epochs_of, fit
from rankbound.study.job import HONEST, TrainingJob
from rankbound.study.method_job import MethodJob
from rankbound.study.parts import Inputs, StudyData
from rankbound.study.records import epoch_rows, prediction_rows, run_rows
from rankbound.study.shards import Shards
from rankbound.training import Epoch

# The files of a training besides its runs; the part of their names after the output's own.
SIDECARS = ("epochs", "predictions")
WEIGHTS = "weights.safetensors"


def job_of(text: str) -> Job:
    """The job of a JSON object: a method's if it names one."""
    return MethodJob.from_json(text) if "method" in parse_options(text) else TrainingJob.from_json(text)


def run_job(job: Job, inputs: Inputs, out: Path, device: str = "auto") -> None:
    """Train all folds and seeds of `job`; write runs to `out`, and epochs, predictions and weights beside it.

    Folds that an earlier, interrupted run finished with the same options, data and code are taken from its shards.
    """
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    shards = Shards(out, json.dumps(asdict(job), sort_keys=True), [*inputs.paths(), *code_inputs("job")])
    waiting = [pair for pair in itertools.product(job.folds, job.seeds) if not shards.has_all(_shard_names(*pair))]
    if waiting:
        data = StudyData.read(inputs, where)
        tables = DistributionTables.load(inputs.distributions) if inputs.distributions else None
        with tqdm(total=len(waiting) * epochs_of(job), unit="epoch", disable=None) as progress:
            for fold, seed in waiting:
                name = job.method if isinstance(job, MethodJob) else f"{job.loss} {job.bounding}"
                progress.set_description(f"{job.dataset} {name}, fold {fold}, seed {seed}")
                _train_one(job, data, tables, fold, seed, shards, lambda epoch: progress.update())
    _assemble(job, shards, out)
    shards.remove()


def _train_one(
    job: Job,
    data: StudyData,
    tables: DistributionTables | None,
    fold: int,
    seed: int,
    shards: Shards,
    on_epoch: Callable[[Epoch], None],
) -> None:
    parts = data.fold(fold, merge_validation=job.trains_on_validation)
    fitted = fit(job, data, parts, tables, fold, seed, on_epoch)
    key, names = job.key(fold, seed), _shard_names(fold, seed)
    chosen = sorted(fitted.chosen.items())
    main = _main_selection(job)
    tables_made = (
        pa.concat_tables(run_rows(key, name, one.epoch, parts.test, one.scores) for name, one in chosen),
        epoch_rows(key, fitted.epochs),
        prediction_rows(key, main, parts.test, fitted.chosen[main].scores),
    )
    for name, contract, table in zip(names, ("runs", *SIDECARS), tables_made, strict=False):
        write_table(table, shards.path(name), contract)
    weights = fitted.chosen[main].weights
    with atomic_path(shards.path(names[-1])) as temporary:
        save_file({f"fold-{fold}/seed-{seed}/{name}": tensor.cpu() for name, tensor in weights.items()}, temporary)


def _main_selection(job: Job) -> str:
    """Whose predictions and weights are kept: the epoch that the protocol's tables show."""
    return "validation" if job.protocol == HONEST else "test"


def _assemble(job: Job, shards: Shards, out: Path) -> None:
    pairs = [_shard_names(fold, seed) for fold, seed in itertools.product(job.folds, job.seeds)]
    *tables, weights = zip(*pairs, strict=True)
    merged: dict[str, Tensor] = {}
    for name in weights:
        merged |= load_file(shards.path(name))
    with atomic_path(beside(out, WEIGHTS)) as temporary:
        save_file(merged, temporary)
    # The runs come last: who finds them finds all the rest.
    for contract, names in reversed(list(zip(("runs", *SIDECARS), tables, strict=True))):
        path = out if contract == "runs" else beside(out, f"{contract}.parquet")
        write_table(_concatenated(shards, contract, names), path, contract, metadata={"job": json.dumps(asdict(job))})


def _concatenated(shards: Shards, contract: str, names: Sequence[str]) -> pa.Table:
    return pa.concat_tables([read_table(shards.path(name), contract) for name in names])


def beside(out: Path, ending: str) -> Path:
    """The sidecar of the runs file `out`: min-max.parquet has min-max.epochs.parquet beside it."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{ending}")


def _shard_names(fold: int, seed: int) -> list[str]:
    endings = [*(f"{contract}.parquet" for contract in ("runs", *SIDECARS)), WEIGHTS]
    return [f"fold-{fold}-seed-{seed}.{ending}" for ending in endings]
