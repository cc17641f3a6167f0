"""The trainer of all torch models: batches of lists, an optimiser, and a record of every epoch.

A *selection* picks an epoch: the one with the best metric on a part, or the last one. Several models (folds, seeds) may
be trained in joint steps, which is faster if the overhead of operations exceeds their arithmetic.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

import torch
from torch import Tensor, nn

from rankbound.errors import RankboundError
from rankbound.lists import NotFiniteError, require_finite
from rankbound.losses import RankingLoss
from rankbound.metrics import Metric
from rankbound.training.epochs import LAST, Epoch, Selected, Trained
from rankbound.training.optimisers import OPTIMISERS
from rankbound.training.parts import Draw, Measuring, Part, Scorer, joined, predict

WORTH_A_KERNEL = 200_000
"""The number of items, counted again in every epoch, from which kernels save more time than they take to load."""


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
        training: the lists to train on, with any weights, or a function that draws those of the next epoch.
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
        loss: the loss to minimise; a step uses the mean of `list_weights` times losses over the batch's informative
            lists. A list of weight 0 is left out like an uninformative one.
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
    group = _Group(learners, loss, settings)
    measuring = Measuring(
        {(place, name): part for place, learner in enumerate(learners) for name, part in learner.parts.items()},
        monitored,
        group.by_kernel,
    )
    for number in range(1, settings.epochs + 1):
        group.train_epoch(number)
        means = measuring.means(torch.cat([course.scores() for course in group.courses]))
        for place, course in enumerate(group.courses):
            own = {name: means[place, name] for name in course.learner.parts}
            on_epoch(course.finish(Epoch(number, *course.progress(), own), selections))
    return [course.finished(settings.epochs) for course in group.courses]


def worth_a_kernel(epochs: int, n_items: int) -> bool:
    """Return true if compiled kernels shorten a training on so many items."""
    return epochs * n_items >= WORTH_A_KERNEL


@dataclass(frozen=True)
class _Turn:
    """A course's share of a step: its place, the indices of its lists, and how many of these are informative."""

    place: int
    index: Tensor
    counted: int


class _Group:
    """The courses of a training, which take their steps together: one batch, one loss and one update for all."""

    def __init__(self, learners: Sequence[Learner], loss: RankingLoss, settings: Settings) -> None:
        self.courses = [_Course(learner) for learner in learners]
        self._loss, self._batch_size = loss, settings.batch_size
        models = [learner.model.parameters() for learner in learners]
        self._optimiser = OPTIMISERS[settings.optimiser](models, settings.learning_rate)
        self._draws = any(not isinstance(learner.training, Part) for learner in learners)
        self._take_lists()
        # Folds are of one size, so that this doesn't depend on which are trained together.
        most = max((course.lists.n_items for course in self.courses), default=0)
        self.by_kernel = worth_a_kernel(settings.epochs, most)

    def train_epoch(self, number: int) -> None:
        """Train every course on its lists once; `number` is the epoch's, from 1."""
        if self._draws and number > 1:
            self._take_lists()
        informative = torch.split(self._informative, [len(course.lists) for course in self.courses])
        for course, own in zip(self.courses, informative, strict=True):
            course.start(int(own.sum()))
        turns = (self._turns(place, own) for place, own in enumerate(informative))
        for step in zip_longest(*turns):
            self._take([turn for turn in step if turn is not None], number)

    def _take_lists(self) -> None:
        parts = [course.draw() for course in self.courses]
        self._part = joined(parts)
        self._first = [0, *accumulate(len(part.lists) for part in parts)]
        self._facts = self._loss.facts(self._part.relevance, self._part.lists)
        informative = self._loss.informative_by(self._facts, self._part.relevance, self._part.lists)
        weights = self._part.list_weights
        self._informative = (informative if weights is None else informative & (weights > 0)).cpu()

    def _turns(self, place: int, informative: Tensor) -> Iterator[_Turn]:
        """Yield a course's batches of an epoch that have informative lists."""
        shuffled = torch.randperm(len(informative), generator=self.courses[place].learner.generator)
        batches = torch.split(shuffled + self._first[place], self._batch_size)
        counts = torch.split(informative.index_select(0, shuffled), self._batch_size)
        for index, own in zip(batches, counts, strict=True):
            if counted := int(own.sum()):
                yield _Turn(place, index, counted)

    def _take(self, turns: Sequence[_Turn], number: int) -> None:
        """Take one step of some courses, each by the mean loss of its own batch."""
        self._optimiser.zero_gradients()
        index = torch.cat([turn.index for turn in turns])
        counts = [len(turn.index) for turn in turns]
        try:
            losses = self._losses(turns, index.to(self._part.lists.device), counts)
        except _NotFiniteList as error:
            topic = self._part.names[int(index[error.place])]
            raise TrainingError(
                f"epoch {number}: the {error.what} of topic {topic} is not a finite number; nothing of this training "
                "was kept. Lower the learning rate, or look for features that are NaN or very large."
            ) from None
        sums = [own.sum() for own in torch.split(losses, counts)]
        torch.autograd.backward([own / turn.counted for own, turn in zip(sums, turns, strict=True)])
        norms = self._optimiser.step([turn.place for turn in turns])
        for turn, own, norm in zip(turns, sums, norms, strict=True):
            self.courses[turn.place].stepped(own.detach(), norm)

    def _losses(self, turns: Sequence[_Turn], index: Tensor, counts: Sequence[int]) -> Tensor:
        batch = self._part.batch(index)
        own = zip(turns, batch.split(counts), strict=True)
        scores = torch.cat([self.courses[turn.place].score(part) for turn, part in own])
        try:
            require_finite(scores)
            losses = self._of_lists(scores, batch, index)
            if batch.list_weights is not None:
                losses = losses * batch.list_weights.to(losses)
        except NotFiniteError as error:
            raise _NotFiniteList("score", int(batch.lists.segment[error.item])) from None
        if not math.isfinite(losses.detach().sum().item()):
            raise _NotFiniteList("loss", int(torch.isfinite(losses).to(torch.uint8).argmin()))
        return losses

    def _of_lists(self, scores: Tensor, batch: Part, index: Tensor) -> Tensor:
        if not self.by_kernel:
            return self._loss.of_lists(scores, batch.relevance, batch.lists)
        facts = None if self._facts is None else self._facts.select(index)
        return self._loss.of_batch(scores, batch.relevance, batch.lists, facts)


class _Course:
    """A learner's training: the current epoch's lists and progress, and the record."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._trained = Trained()
        self._measured = joined(list(learner.parts.values()))

    def draw(self) -> Part:
        """Return the training lists of the next epoch."""
        training = self.learner.training
        part = training if isinstance(training, Part) else training()
        self.lists = part.lists
        return part

    def start(self, informative: int) -> None:
        """Start an epoch with so many informative lists."""
        self._n_informative = informative
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []
        self.learner.model.train()

    def score(self, part: Part) -> Tensor:
        """Return the scores of a batch's items."""
        return self.learner.scorer(self.learner.model, part)

    def stepped(self, batch_sum: Tensor, norm: Tensor) -> None:
        """Note the summed loss and the gradient norm of a step."""
        self._losses.append(batch_sum)
        self._norms.append(norm)

    def progress(self) -> tuple[float, float]:
        """Return the epoch's mean loss over informative lists, and its mean gradient norm."""
        # Fetched once an epoch: reading a number from a GPU waits for all its queued work.
        total, norms = (sum(torch.stack(v).tolist()) if v else 0.0 for v in (self._losses, self._norms))
        return total / max(self._n_informative, 1), norms / max(len(self._norms), 1)

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

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.learner.model.state_dict().items()}


class _NotFiniteList(Exception):
    """A score or loss of the list at `place` is NaN or infinite."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what, place)
        self.what, self.place = what, place
