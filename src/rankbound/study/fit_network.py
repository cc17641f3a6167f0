"""Fits a network: by the trainer, to whatever the job's batches hold."""

from collections.abc import Callable

import torch

from rankbound.losses import loss
from rankbound.metrics import metric
from rankbound.study.fitted import Fitted, fitted_of
from rankbound.study.method_job import MethodJob
from rankbound.study.parts import FoldParts
from rankbound.study.scorers import build_network
from rankbound.training import Draw, Epoch, Part, Settings, train

_TRAINER = ("learning_rate", "epochs", "batch_size", "optimiser")


def fit_network(
    job: MethodJob,
    features: torch.Tensor,
    parts: FoldParts,
    examples: Part | Draw,
    generator: torch.Generator,
    on_epoch: Callable[[Epoch], None],
) -> Fitted:
    """Train the job's network on `examples`; `generator` starts it and orders the batches."""
    distinct = torch.unique(parts.training.items)
    model, scorer = build_network(job.model, job.settings.get("scale", "none"), features, distinct, generator)
    model.to(features.device)
    trained = train(
        model,
        scorer,
        loss(job.loss),
        examples,
        parts.measured,
        settings=Settings(**{name: job.settings[name] for name in _TRAINER if name in job.settings}),
        monitored=[metric(name) for name in job.epoch_metrics],
        selections=dict.fromkeys(parts.measured, job.judge),
        generator=generator,
        on_epoch=on_epoch,
    )
    return fitted_of(trained, model, scorer, parts.test)
