"""The output rows of trainings and controls: per-topic runs, epochs and predictions, as Arrow tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankbound.metrics import metric
from rankbound.metrics.base import values_of
from rankbound.training.trainer import Epoch, Part
from rankbound_study.data.contracts import CONTRACTS, repeated, strings_to_arrow, to_arrow
from rankbound_study.jobs.job import RUN_METRICS


def run_rows(
    key: Mapping[str, Any], selection: str, epoch: int, part: Part, scores: Tensor, *, by_kernel: bool = False
) -> pa.Table:
    """Return one row per list of `part`: its sizes and all metrics of `RUN_METRICS`, NaN where undefined."""
    metrics = [metric(name) for name in RUN_METRICS]
    values = values_of(metrics, scores, part.relevance, part.lists.offsets, by_kernel=by_kernel)
    relevant = part.lists.sum((part.relevance > 0).to(torch.float64))
    columns = {
        "topic": strings_to_arrow(part.names),
        "n": to_arrow(part.lists.sizes.cpu().numpy()),
        "p": to_arrow(relevant.cpu().numpy().astype(np.int32)),
        "epoch": to_arrow(np.full(len(part.lists), epoch, np.int32)),
        **{name: to_arrow(value.cpu().numpy()) for name, value in values.items()},
    }
    return with_key({**key, "selection": selection}, columns, "runs", len(part.lists))


def prediction_rows(key: Mapping[str, Any], selection: str, part: Part, scores: Tensor) -> pa.Table:
    """Return one row per list of `part`: its items and their scores, in the order of the instances file."""
    offsets = to_arrow(part.lists.offsets.cpu().numpy().astype(np.int32))
    columns = {
        "topic": strings_to_arrow(part.names),
        "items": pa.ListArray.from_arrays(offsets, to_arrow(part.items.cpu().numpy())),
        "scores": pa.ListArray.from_arrays(offsets, to_arrow(scores.to(torch.float32).cpu().numpy())),
    }
    return with_key({**key, "selection": selection}, columns, "predictions", len(part.lists))


def epoch_rows(key: Mapping[str, Any], epochs: Sequence[Epoch]) -> pa.Table:
    """Return one row per epoch and measured part, with the training loss and gradient norm of the epoch."""
    rows = [(epoch, name, means) for epoch in epochs for name, means in epoch.metrics.items()]
    names = list(rows[0][2]) if rows else []
    columns = {
        "epoch": to_arrow(np.array([epoch.number for epoch, _, _ in rows], np.int32)),
        "part": strings_to_arrow([part for _, part, _ in rows]),
        "mean_loss": to_arrow(np.array([epoch.loss for epoch, _, _ in rows], np.float64)),
        "gradient_norm": to_arrow(np.array([epoch.gradient_norm for epoch, _, _ in rows], np.float64)),
        **{name: to_arrow(np.array([means[name] for _, _, means in rows], np.float64)) for name in names},
    }
    return with_key(key, columns, "epochs", len(rows))


def with_key(key: Mapping[str, Any], columns: Mapping[str, pa.Array], contract: str, rows: int) -> pa.Table:
    """Return the columns of so many rows after those of the key, which all of them share."""
    types = CONTRACTS[contract].columns
    keyed = {name: repeated(value, types[name], rows) for name, value in key.items()}
    return pa.table({**keyed, **columns})
