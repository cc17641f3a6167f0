"""From a job to what its training leaves, fold by fold: the one place that knows which model is fitted how."""

from collections.abc import Callable

import torch

from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError
from rankbound.losses import SmoothLoss
from rankbound.metrics import metric
from rankbound.seeds import derive_seed
from rankbound.study.examples import ValueScale, examples_of, value_examples
from rankbound.study.fit_network import fit_network
from rankbound.study.fitted import Fitted, fitted_of
from rankbound.study.job import TrainingJob
from rankbound.study.method_job import MethodJob
from rankbound.study.parts import FoldParts, StudyData
from rankbound.study.scorers import NETWORKS, build_model
from rankbound.training import Epoch, Settings, train

TREES = ("boosted-trees", "random-forest")
PENALISED = ("lasso", "ridge")
METHOD_MODELS = (*NETWORKS, *TREES, *PENALISED)

Job = TrainingJob | MethodJob
OnEpoch = Callable[[Epoch], None]


def epochs_of(job: Job) -> int:
    """The number of epochs of one training, for progress: of trees measurements, of a path penalties."""
    if isinstance(job, TrainingJob):
        return job.epochs
    if job.model["name"] in TREES:
        return -(-int(job.model["rounds"]) // int(job.model["every"]))
    return len(job.model["penalties"]) if job.model["name"] in PENALISED else int(job.settings["epochs"])


def fit(
    job: Job,
    data: StudyData,
    parts: FoldParts,
    tables: DistributionTables | None,
    fold: int,
    seed: int,
    on_epoch: OnEpoch,
) -> Fitted:
    """Train the job's model on one fold.

    The seed depends on the study, the data set and the fold alone: neither model, loss nor bound has a say in it, so
    that every comparison between them is paired.
    """
    generator = torch.Generator().manual_seed(derive_seed("training", job.study, job.dataset, job.nsr, fold, seed))
    if isinstance(job, MethodJob):
        return _fit_method(job, data, parts, fold, seed, generator, on_epoch)
    model, scorer = build_model(
        job.model, n_topics=data.n_topics, n_items=data.n_items, features=data.features, generator=generator
    )
    model.to(data.device)
    trained = train(
        model,
        scorer,
        SmoothLoss(job.loss, job.bounding, temperature=job.temperature, tables=tables),
        parts.training,
        parts.measured,
        settings=Settings(job.learning_rate, job.epochs, job.batch_size),
        monitored=[metric(name) for name in job.epoch_metrics],
        selections=dict.fromkeys(parts.measured, job.judge),
        generator=generator,
        on_epoch=on_epoch,
    )
    return fitted_of(trained, model, scorer, parts.test)


def _fit_method(
    job: MethodJob,
    data: StudyData,
    parts: FoldParts,
    fold: int,
    seed: int,
    generator: torch.Generator,
    on_epoch: OnEpoch,
) -> Fitted:
    name = job.model["name"]
    if name not in METHOD_MODELS:
        raise ConfigError(f"model {name!r}: unknown; known are {', '.join(METHOD_MODELS)}")
    if data.features is None:
        raise ConfigError(f"model {name}: it reads features; give judged lists with --lists, or --images")
    scale: ValueScale | None = None
    if job.target == "value":
        examples, scale = value_examples(job, data, data.instances.split(fold, "train"))
    if name in NETWORKS:
        drawn = examples if scale else examples_of(job, data, fold, seed)
        fitted = fit_network(job, data.features, parts, drawn, generator, on_epoch)
    elif name in TREES:
        from rankbound.study.fit_trees import fit_trees

        fitted = fit_trees(job, data.features, parts, examples if scale else parts.training, seed, on_epoch)
    else:
        from rankbound.study.fit_penalised import fit_penalised

        if scale is None:
            raise ConfigError(f"model {name}: it learns values, expected target: value")
        fitted = fit_penalised(job, data.features, parts, examples, on_epoch)
    return fitted if scale is None else fitted.restored(scale)
