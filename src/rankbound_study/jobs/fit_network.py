"""Fit networks with the trainer, on the contents of the job's batches."""

from collections.abc import Callable, Sequence

import torch

from rankbound.losses import RankingLoss, loss
from rankbound.metrics import metric
from rankbound.training.epochs import Epoch
from rankbound.training.parts import Draw, Part
from rankbound.training.trainer import Learner, Settings, train
from rankbound_study.jobs.fitted import Fitted, fitted_of
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.method_job import MethodJob
from rankbound_study.jobs.parts import FoldParts
from rankbound_study.jobs.scorers import build_network

_TRAINER = ("learning_rate", "epochs", "batch_size", "optimiser")


def network_learner(
    job: MethodJob,
    features: torch.Tensor,
    parts: FoldParts,
    examples: Part | Draw,
    generator: torch.Generator,
    channels: Sequence[int] | None = None,
) -> Learner:
    """Return the job's network before its training on `examples`; `generator` sets its weights and batch order.

    `channels`: for pictures that lack some pixels, the number of remaining pixels per channel.
    """
    distinct = torch.unique(parts.training.items)
    scale = job.settings.get("scale", "none")
    model, scorer = build_network(job.model, scale, features, distinct, generator, channels)
    return Learner(model.to(features.device), scorer, examples, parts.measured, generator)


def fit_networks(
    job: MethodJob, learners: Sequence[Learner], tests: Sequence[Part], on_epoch: Callable[[Epoch], None]
) -> list[Fitted]:
    """Train networks by the job's loss and settings; `tests` are the test parts of their folds."""
    settings = Settings(**{name: job.settings[name] for name in _TRAINER if name in job.settings})
    return fit_learners(job, learners, loss(job.loss), settings, tests, on_epoch)


def fit_learners(
    job: TrainingJob | MethodJob,
    learners: Sequence[Learner],
    objective: RankingLoss,
    settings: Settings,
    tests: Sequence[Part],
    on_epoch: Callable[[Epoch], None],
) -> list[Fitted]:
    """Train, and select epochs by the metric that judges the job."""
    trained = train(
        learners,
        objective,
        settings=settings,
        monitored=[metric(name) for name in job.epoch_metrics],
        selections=dict.fromkeys(learners[0].parts, job.judge),
        on_epoch=on_epoch,
    )
    return [fitted_of(*of_one) for of_one in zip(trained, learners, tests, strict=True)]
