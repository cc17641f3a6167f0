"""Fit trees round by round, with measurements on the way; the validation part selects their number."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rankbound.losses import RankingLoss
from rankbound.losses.pointwise import LogisticLoss, PointwiseLoss
from rankbound.texts import derive_seed
from rankbound.training.trainer import Epoch, Part
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import BoostedTreeKeys, RandomForestKeys
from rankbound_study.jobs.examples import FoldTraining, TableRows, pooled_rows
from rankbound_study.jobs.fitted import Fitted, StepRecord
from rankbound_study.models.trees import Growth, TreeEnsemble


def fit_trees(
    job: TrainingJob, training: FoldTraining, judged: RankingLoss, on_epoch: Callable[[Epoch], None]
) -> Fitted:
    """Grow trees that minimise a loss on the examples, measuring after every `every` (a step's number counts trees).

    A loss of single items reads every item once, with its mean relevance label; a ranking loss reads the lists.
    """
    assert isinstance(job.model, BoostedTreeKeys | RandomForestKeys)
    growth, examples = Growth(**job.model.given("name", "every")), training.lists
    rows = _rows_of(judged, examples)
    record = StepRecord(job, training, on_epoch)
    watched, place = torch.unique(record.measured.items.cpu(), return_inverse=True)
    trees = TreeEnsemble(
        job.model.name,
        judged,
        growth,
        training.features.cpu(),
        rows.items,
        rows.labels.numpy(),
        None if rows.weights is None else rows.weights.numpy(),
        None if rows.lists is None else rows.lists.sizes.tolist(),
        watched,
        derive_seed("trees", job.study, job.dataset, training.seed),
    )
    spread = rows.spread(examples)
    for number in range(1, growth.rounds + 1):
        trees.grow()
        if number % job.model.every == 0 or number == growth.rounds:
            trained = trees.training_scores().index_select(0, spread)
            record.add(number, _mean_loss(judged, trained, examples), trees.watched_scores().index_select(0, place))

    def model(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        tested, at = torch.unique(training.parts.test.items.cpu(), return_inverse=True)
        return trees.scores(tested, number).index_select(0, at), trees.tensors(number)

    return record.fitted(model)


def _rows_of(judged: RankingLoss, examples: Part) -> TableRows:
    if isinstance(judged, PointwiseLoss):
        return pooled_rows(examples, judged.rel if isinstance(judged, LogisticLoss) else None)
    return TableRows(examples.items.cpu(), examples.relevance.cpu(), None, examples.lists)


def _mean_loss(judged: RankingLoss, scores: Tensor, examples: Part) -> float:
    """Return the mean over informative lists, as the trainer does."""
    relevance, lists = examples.relevance.cpu(), examples.lists
    informative = max(int(judged.informative(relevance, lists).sum()), 1)
    return float(judged.of_lists(scores, relevance, lists).sum() / informative)
