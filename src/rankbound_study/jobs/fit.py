"""Fit a job's models; the only place that dispatches on the model's type."""

from collections.abc import Callable, Sequence

from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError
from rankbound.losses import KINDS, RankingLoss, SmoothLoss, loss
from rankbound.texts import split_text
from rankbound.training.trainer import Epoch, Learner, Trained, predict, train
from rankbound_study.jobs.fitted import Chosen, Fitted
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import StudyData
from rankbound_study.jobs.scorers import MATRIX_FACTORIZATION, NETWORKS, build_model
from rankbound_study.jobs.training import FoldTraining
from rankbound_study.vocabulary import PENALISED, TREES

MODELS = (MATRIX_FACTORIZATION, *NETWORKS, *TREES, *PENALISED)

_TRAINER = ("learning_rate", "epochs", "batch_size", "optimiser")

OnEpoch = Callable[[Epoch], None]


def epochs_of(job: TrainingJob) -> int:
    """Return the number of epochs of one training, for progress: measurements for trees, penalties for a path."""
    if job.model["name"] in TREES:
        return -(-int(job.model["rounds"]) // int(job.model["every"]))
    return len(job.model["penalties"]) if job.model["name"] in PENALISED else int(job.settings["epochs"])


def fit(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    tables: DistributionTables | None,
    on_epoch: OnEpoch,
) -> list[Fitted]:
    """Train the job's model on some folds and seeds; networks and factorisations are trained together."""
    name = job.model["name"]
    if name not in MODELS:
        raise ConfigError(f"model {name!r}: unknown; known are {', '.join(MODELS)}")
    if name in TREES:
        from rankbound_study.jobs.fit_trees import fit_trees

        fitted = [fit_trees(job, training, _objective(job, tables), on_epoch) for training in trainings]
    elif name in PENALISED:
        from rankbound_study.jobs.fit_penalised import fit_penalised

        fitted = [fit_penalised(job, training, on_epoch) for training in trainings]
    else:
        fitted = _fit_networks(job, data, trainings, tables, on_epoch)
    return [result.completed(training) for result, training in zip(fitted, trainings, strict=True)]


def _fit_networks(
    job: TrainingJob,
    data: StudyData,
    trainings: Sequence[FoldTraining],
    tables: DistributionTables | None,
    on_epoch: OnEpoch,
) -> list[Fitted]:
    """Train with the library's trainer; the metric that judges the job selects epochs."""
    learners = [_learner(job, data, training) for training in trainings]
    trained = train(
        learners,
        _objective(job, tables),
        **{name: job.settings[name] for name in _TRAINER if name in job.settings},
        monitored=job.epoch_metrics,
        selections=dict.fromkeys(learners[0].parts, job.judge),
        on_epoch=on_epoch,
    )
    return [_fitted(*of_one) for of_one in zip(trained, learners, trainings, strict=True)]


def _objective(job: TrainingJob, tables: DistributionTables | None) -> RankingLoss:
    """Return the smooth, bounded loss of a metric, or another loss, which has neither bound nor temperature."""
    if split_text(job.loss, "loss")[0] in KINDS:
        return loss(job.loss, job.bounding)
    return SmoothLoss(job.loss, job.bounding, temperature=job.settings.get("temperature", 1.0), tables=tables)


def _learner(job: TrainingJob, data: StudyData, training: FoldTraining) -> Learner:
    generator = training.generator(job)
    model, scorer = build_model(job, data, training, generator)
    return Learner(model.to(data.device), scorer, training.examples, training.parts.measured, generator)


def _fitted(trained: Trained, learner: Learner, training: FoldTraining) -> Fitted:
    chosen = {}
    for name, selected in trained.selected.items():
        learner.model.load_state_dict(selected.weights)
        scores = predict(learner.model, learner.scorer, training.parts.test)
        chosen[name] = Chosen(selected.epoch, scores, selected.weights)
    return Fitted(trained.epochs, chosen)
