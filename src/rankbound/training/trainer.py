"""The trainer of all torch models: batches of lists, an optimiser, and a record of every epoch.

A *selection* picks an epoch: the one with the best metric on a part, or the last one. Several models (folds, seeds) may
be trained in joint steps, which is faster if the overhead of operations exceeds their arithmetic.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor, nn

from rankbound.errors import RankboundError
from rankbound.lists import Lists, NotFiniteError, require_finite
from rankbound.losses import RankingLoss
from rankbound.metrics import Metric
from rankbound.training.epochs import LAST, Epoch, Selected, Trained
from rankbound.training.optimisers import OPTIMISERS
from rankbound.training.parts import Draw, Measuring, Part, Scorer, joined, predict

OfLists = Callable[[Tensor, Tensor, Lists], Tensor]
"""The losses of lists, given scores and relevance."""

# The number of items, counted again in every epoch, from which compiled kernels save more time than they take to load.
WORTH_A_KERNEL = 200_000


class TrainingError(RankboundError):
    """A training cannot continue: a loss or a score is NaN or infinite."""


@dataclass(frozen=True)
class Settings:
    """Settings of a training: learning rate, number of epochs, lists per batch, and `adam` or `sgd`."""

    learning_rate: float
    epochs: int
    batch_size: int
    optimiser: str = "adam"


@dataclass(frozen=True)
class Learner:
    """A model to train, with its data.

    Attributes:
        scorer: computes the scores of a part's items under the model.
        training: the lists to train on, or a function that draws those of the next epoch.
        parts: parts to evaluate by name, such as `validation` and `test`.
        generator: random generator of the batches' order, on the CPU.
    """

    model: nn.Module
    scorer: Scorer
    training: Part | Draw
    parts: Mapping[str, Part]
    generator: torch.Generator


def train(
    learners: Sequence[Learner],
    loss: RankingLoss,
    *,
    settings: Settings,
    monitored: Sequence[Metric],
    selections: Mapping[str, Metric],
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Trained]:
    """Train the learners' models, and evaluate each on its parts after every epoch.

    All learners take a step together, with one call of the loss on all their lists. Their gradients are independent:
    up to rounding, each model is trained as it would be alone.

    Args:
        learners: the models to train, with their data.
        loss: the loss to minimise; a step uses the mean over the batch's informative lists.
        settings: learning rate, epochs, batch size and optimiser.
        monitored: metrics whose means are recorded every epoch.
        selections: the metric by which each named part selects an epoch, the first one on ties. The last epoch is
            always kept too, under `last`.
        on_epoch: called after every epoch of every learner, to show progress.

    Returns:
        The record of each learner, in their order.

    Raises:
        TrainingError: a loss or a score is NaN or infinite; the message names the epoch and the topic.
    """
    courses = [_Course(learner, loss, settings) for learner in learners]
    # Loading kernels takes time. Folds are of one size, so that this doesn't depend on which are trained together.
    by_kernel = settings.epochs * max((course.n_items for course in courses), default=0) >= WORTH_A_KERNEL
    of_lists = loss.of_batch if by_kernel else loss.of_lists
    measuring = Measuring(
        {(place, name): part for place, learner in enumerate(learners) for name, part in learner.parts.items()},
        monitored,
        by_kernel,
    )
    for number in range(1, settings.epochs + 1):
        for step in zip_longest(*(course.batches() for course in courses)):
            _take([batch for batch in step if batch is not None], of_lists, number)
        means = measuring.means(torch.cat([course.scores() for course in courses]))
        for place, course in enumerate(courses):
            own = {name: means[place, name] for name in course.learner.parts}
            on_epoch(course.finish(Epoch(number, *course.progress(), own), selections))
    return [course.finished(settings.epochs) for course in courses]


class _Course:
    """A learner's training: its optimiser, the current epoch's lists, and the record."""

    def __init__(self, learner: Learner, loss: RankingLoss, settings: Settings) -> None:
        self.learner = learner
        self._loss, self._batch_size, self._trained = loss, settings.batch_size, Trained()
        self._optimiser = OPTIMISERS[settings.optimiser](learner.model.parameters(), settings.learning_rate)
        self._measured = joined(list(learner.parts.values()))
        self._draw()

    def batches(self) -> Iterator["_Batch"]:
        """Yield the batches of a new epoch that have informative lists."""
        if self._trained.epochs and not isinstance(self.learner.training, Part):
            self._draw()
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []
        self.learner.model.train()
        shuffled = torch.randperm(len(self._part.lists), generator=self.learner.generator)
        for index in torch.split(shuffled, self._batch_size):
            counted = int(self._informative.index_select(0, index).sum())
            if counted:
                self._optimiser.zero_gradients()
                yield _Batch(self, self._part.batch(index.to(self._part.lists.device)), counted, index)

    @property
    def n_items(self) -> int:
        """The number of items of this epoch's lists."""
        return self._part.lists.n_items

    def topic(self, index: int) -> str:
        """Return the topic of one of this epoch's lists."""
        return self._part.names[index]

    def step(self, batch_sum: Tensor) -> None:
        """Update the model by the gradients of a batch."""
        self._losses.append(batch_sum)
        self._norms.append(torch.stack(torch._foreach_norm(self._optimiser.gradients())).norm())
        self._optimiser.step()

    def progress(self) -> tuple[float, float]:
        """Return the epoch's mean loss over informative lists, and its mean gradient norm."""
        # Fetched once an epoch: reading a number from a GPU waits for all its queued work.
        total, norms = (sum(torch.stack(v).tolist()) if v else 0.0 for v in (self._losses, self._norms))
        return total / max(int(self._informative.sum()), 1), norms / max(len(self._norms), 1)

    def scores(self) -> Tensor:
        """Return the scores of all evaluated items, part by part."""
        return predict(self.learner.model, self.learner.scorer, self._measured)

    def finish(self, epoch: Epoch, selections: Mapping[str, Metric]) -> Epoch:
        """Record an epoch, and keep its model if it is the best so far."""
        self._trained.epochs.append(epoch)
        for name, metric in selections.items():
            score, best = epoch.metrics[name][str(metric)], self._trained.selected.get(name)
            if best is None or score > best.score:
                self._trained.selected[name] = Selected(epoch.number, score, self._weights())
        return epoch

    def finished(self, epochs: int) -> Trained:
        """Return the record, with the last model."""
        self._trained.selected[LAST] = Selected(epochs, math.nan, self._weights())
        return self._trained

    def _draw(self) -> None:
        training = self.learner.training
        self._part = training if isinstance(training, Part) else training()
        self._informative = self._loss.informative(self._part.relevance, self._part.lists).cpu()

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.learner.model.state_dict().items()}


@dataclass(frozen=True)
class _Batch:
    """A batch of a course: its lists, their indices, and the number of informative ones."""

    course: _Course
    part: Part
    counted: int
    index: Tensor

    def scores(self) -> Tensor:
        learner = self.course.learner
        return learner.scorer(learner.model, self.part)


def _take(batches: Sequence[_Batch], loss: OfLists, number: int) -> None:
    """Take one step of every learner, each by the mean loss of its own batch."""
    together = joined([batch.part for batch in batches])
    try:
        losses = _losses(torch.cat([batch.scores() for batch in batches]), together, loss)
    except _NotFiniteList as error:
        places = [(batch, place) for batch in batches for place in batch.index.tolist()]
        batch, place = places[error.place]
        raise TrainingError(
            f"epoch {number}: the {error.what} of topic {batch.course.topic(place)} is not a finite number; nothing "
            "of this training was kept. Lower the learning rate, or look for features that are NaN or very large."
        ) from None
    sums = [own.sum() for own in torch.split(losses, [len(batch.index) for batch in batches])]
    torch.autograd.backward([own / batch.counted for own, batch in zip(sums, batches, strict=True)])
    for own, batch in zip(sums, batches, strict=True):
        batch.course.step(own.detach())


class _NotFiniteList(Exception):
    """A score or loss of the list at `place` is NaN or infinite."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what, place)
        self.what, self.place = what, place


def _losses(scores: Tensor, part: Part, loss: OfLists) -> Tensor:
    try:
        require_finite(scores)
        losses = loss(scores, part.relevance, part.lists)
    except NotFiniteError as error:
        raise _NotFiniteList("score", int(part.lists.segment[error.item])) from None
    if not math.isfinite(losses.detach().sum().item()):
        raise _NotFiniteList("loss", int(torch.isfinite(losses).to(torch.uint8).argmin()))
    return losses
