"""Fit a job's models; the only place that dispatches on the model's type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError
from rankbound.losses import KINDS, RankingLoss, SmoothLoss, loss
from rankbound.seeds import derive_seed
from rankbound.texts import split_text
from rankbound.training.epochs import Epoch
from rankbound.training.parts import Part
from rankbound.training.trainer import Learner, Settings
from rankbound_study.jobs.examples import ValueScale, examples_of, value_examples
from rankbound_study.jobs.feature_columns import FeatureColumns, narrowed
from rankbound_study.jobs.fit_network import fit_learners, fit_networks, network_learner
from rankbound_study.jobs.fitted import Fitted
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.method_job import MethodJob
from rankbound_study.jobs.parts import FoldParts, StudyData
from rankbound_study.jobs.scorers import NETWORKS, build_model

TREES = ("boosted-trees", "random-forest")
PENALISED = ("lasso", "ridge")
METHOD_MODELS = (*NETWORKS, *TREES, *PENALISED)

Job = TrainingJob | MethodJob
OnEpoch = Callable[[Epoch], None]


def epochs_of(job: Job) -> int:
    """Return the number of epochs of one training, for progress: measurements for trees, penalties for a path."""
    if isinstance(job, TrainingJob):
        return job.epochs
    if job.model["name"] in TREES:
        return -(-int(job.model["rounds"]) // int(job.model["every"]))
    return len(job.model["penalties"]) if job.model["name"] in PENALISED else int(job.settings["epochs"])


@dataclass(frozen=True)
class Training:
    """One of a job's trainings: a fold with its parts, and a seed."""

    fold: int
    seed: int
    parts: FoldParts

    def generator(self, job: Job) -> torch.Generator:
        """Return the generator of the initial model and the order of its batches.

        It depends only on the study, the data set, the fold and the seed, not on model, loss or bound, so every
        comparison between these is paired.
        """
        seed = derive_seed("training", job.study, job.dataset, job.nsr, self.fold, self.seed)
        return torch.Generator().manual_seed(seed)


def fit(
    job: Job,
    data: StudyData,
    trainings: Sequence[Training],
    tables: DistributionTables | None,
    on_epoch: OnEpoch,
) -> list[Fitted]:
    """Train the job's model on some folds and seeds; networks and factorisations are trained together."""
    if isinstance(job, MethodJob):
        return _fit_method(job, data, trainings, on_epoch)
    learners = [_bounded_learner(job, data, training) for training in trainings]
    settings = Settings(job.learning_rate, job.epochs, job.batch_size, job.optimiser)
    tests = [training.parts.test for training in trainings]
    return fit_learners(job, learners, _objective(job, tables), settings, tests, on_epoch)


def _objective(job: TrainingJob, tables: DistributionTables | None) -> RankingLoss:
    """Return the smooth, bounded loss of a metric, or another loss, which has neither bound nor temperature."""
    if split_text(job.loss, "loss")[0] in KINDS:
        return loss(job.loss, job.bounding)
    return SmoothLoss(job.loss, job.bounding, temperature=job.temperature, tables=tables)


def _bounded_learner(job: TrainingJob, data: StudyData, training: Training) -> Learner:
    generator = training.generator(job)
    model, scorer = build_model(
        job.model, n_topics=data.n_topics, n_items=data.n_items, features=data.features, generator=generator
    )
    return Learner(model.to(data.device), scorer, training.parts.training, training.parts.measured, generator)


def _fit_method(job: MethodJob, data: StudyData, trainings: Sequence[Training], on_epoch: OnEpoch) -> list[Fitted]:
    name = job.model["name"]
    if name not in METHOD_MODELS:
        raise ConfigError(f"model {name!r}: unknown; known are {', '.join(METHOD_MODELS)}")
    if data.features is None:
        raise ConfigError(f"model {name}: it reads features; give judged lists with --lists, or --images")
    tasks = [_Task.of(job, data, training) for training in trainings]
    if name in NETWORKS:
        tests = [training.parts.test for training in trainings]
        fitted = fit_networks(job, [task.learner(job) for task in tasks], tests, on_epoch)
    else:
        fitted = [task.fitted_alone(job, on_epoch) for task in tasks]
    return [task.completed(result) for task, result in zip(tasks, fitted, strict=True)]


@dataclass(frozen=True)
class _Task:
    """A training of a method: its features, and its targets if they are not the relevance labels."""

    training: Training
    data: StudyData
    columns: FeatureColumns | None
    values: tuple[Part, ValueScale] | None

    @classmethod
    def of(cls, job: MethodJob, data: StudyData, training: Training) -> "_Task":
        seen, columns = narrowed(job, data, training.fold, training.seed)
        if job.target != "value":
            return cls(training, seen, columns, None)
        return cls(training, seen, columns, value_examples(job, seen, seen.instances.split(training.fold, "train")))

    @property
    def features(self) -> Tensor:
        assert self.data.features is not None
        return self.data.features

    @property
    def channels(self) -> Sequence[int] | None:
        return self.columns.channels if self.columns else None

    def learner(self, job: MethodJob) -> Learner:
        training = self.training
        examples = self.values[0] if self.values else examples_of(job, self.data, training.fold, training.seed)
        return network_learner(job, self.features, training.parts, examples, training.generator(job), self.channels)

    def fitted_alone(self, job: MethodJob, on_epoch: OnEpoch) -> Fitted:
        parts = self.training.parts
        if job.model["name"] in TREES:
            from rankbound_study.jobs.fit_trees import fit_trees

            examples = self.values[0] if self.values else parts.training
            return fit_trees(job, self.features, parts, examples, self.training.seed, on_epoch)
        from rankbound_study.jobs.fit_penalised import fit_penalised

        if self.values is None:
            raise ConfigError(f"model {job.model['name']}: it learns values, expected target: value")
        return fit_penalised(job, self.features, parts, self.values[0], on_epoch, self.channels)

    def completed(self, fitted: Fitted) -> Fitted:
        """Restore the scores to the values' unit, and add the columns to the weights."""
        restored = fitted.restored(self.values[1]) if self.values else fitted
        return restored.joined(self.columns.tensors()) if self.columns else restored
