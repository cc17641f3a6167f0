"""Runs a training job: fold by fold and seed by seed, each kept as a shard, put together at the end."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm import tqdm

from rankbound.bounds.tables import DistributionTables
from rankbound.data.contracts import read_table, write_table
from rankbound.files import atomic_path
from rankbound.losses import SmoothLoss
from rankbound.metrics import metric
from rankbound.seeds import derive_seed
from rankbound.study.code_inputs import code_inputs
from rankbound.study.job import EPOCH_METRICS, HONEST, TrainingJob
from rankbound.study.parts import FoldParts, StudyData
from rankbound.study.records import epoch_rows, prediction_rows, run_rows
from rankbound.study.scorers import build_model
from rankbound.study.shards import Shards
from rankbound.training import Scorer, Settings, Trained, predict, train

# The files of a training besides its runs; the part of their names after the output's own.
SIDECARS = ("epochs", "predictions")
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Inputs:
    """The files that a job reads."""

    instances: Path
    lists: Path | None
    distributions: Path | None

    def paths(self) -> list[Path]:
        return [path for path in (self.instances, self.lists, self.distributions) if path is not None]


def run_job(job: TrainingJob, inputs: Inputs, out: Path, device: str = "auto") -> None:
    """Train all folds and seeds of `job`; write runs to `out`, and epochs, predictions and weights beside it.

    Folds that an earlier, interrupted run finished with the same options, data and code are taken from its shards.
    """
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    shards = Shards(out, json.dumps(asdict(job), sort_keys=True), [*inputs.paths(), *code_inputs("job")])
    waiting = [pair for pair in itertools.product(job.folds, job.seeds) if not shards.has_all(_shard_names(*pair))]
    if waiting:
        data = StudyData.read(inputs.instances, inputs.lists, where)
        tables = DistributionTables.load(inputs.distributions) if inputs.distributions else None
        loss = SmoothLoss(job.loss, job.bounding, temperature=job.temperature, tables=tables)
        with tqdm(total=len(waiting) * job.epochs, unit="epoch", disable=None) as progress:
            for fold, seed in waiting:
                progress.set_description(f"{job.dataset} {job.loss} {job.bounding}, fold {fold}, seed {seed}")
                _train_one(job, data, loss, fold, seed, shards, progress)
    _assemble(job, shards, out)
    shards.remove()


def _train_one(
    job: TrainingJob, data: StudyData, loss: SmoothLoss, fold: int, seed: int, shards: Shards, progress: Any
) -> None:
    parts = data.fold(fold, merge_validation=job.trains_on_validation)
    # Neither the loss nor the bound has a say here: every comparison between them is paired.
    generator = torch.Generator().manual_seed(derive_seed("training", job.study, job.dataset, job.nsr, fold, seed))
    model, scorer = build_model(
        job.model, n_topics=data.n_topics, n_items=data.n_items, features=data.features, generator=generator
    )
    model.to(data.device)
    measured = {"test": parts.test} | ({"validation": parts.validation} if parts.validation else {})
    trained = train(
        model,
        scorer,
        loss,
        parts.training,
        measured,
        settings=Settings(job.learning_rate, job.epochs, job.batch_size),
        monitored=[metric(name) for name in EPOCH_METRICS],
        selections=dict.fromkeys(measured, job.judged_by),
        generator=generator,
        on_epoch=lambda epoch: progress.update(),
    )
    _write_shards(job, trained, model, scorer, parts, fold, seed, shards)


def _write_shards(
    job: TrainingJob,
    trained: Trained,
    model: nn.Module,
    scorer: Scorer,
    parts: FoldParts,
    fold: int,
    seed: int,
    shards: Shards,
) -> None:
    key = job.key(fold, seed)
    runs, predictions, weights = [], [], {}
    for selection, chosen in sorted(trained.selected.items()):
        model.load_state_dict(chosen.weights)
        scores = predict(model, scorer, parts.test)
        runs.append(run_rows(key, selection, chosen.epoch, parts.test, scores))
        if selection == _main_selection(job):
            predictions.append(prediction_rows(key, selection, parts.test, scores))
            weights = {f"fold-{fold}/seed-{seed}/{name}": tensor.cpu() for name, tensor in chosen.weights.items()}
    names = _shard_names(fold, seed)
    tables = (pa.concat_tables(runs), epoch_rows(key, trained.epochs), pa.concat_tables(predictions))
    for name, contract, table in zip(names, ("runs", *SIDECARS), tables, strict=False):
        write_table(table, shards.path(name), contract)
    with atomic_path(shards.path(names[-1])) as temporary:
        save_file(weights, temporary)


def _main_selection(job: TrainingJob) -> str:
    """Whose predictions and weights are kept: the epoch that the protocol's tables show."""
    return "validation" if job.protocol == HONEST else "test"


def _assemble(job: TrainingJob, shards: Shards, out: Path) -> None:
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
