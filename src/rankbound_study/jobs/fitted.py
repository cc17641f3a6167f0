"""The results of a training of any model: its epochs, and the model at the selected ones."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from rankbound.training.trainer import LAST, Epoch, Measuring, Part
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.training import FoldTraining


@dataclass(frozen=True)
class Chosen:
    """A selection's model: its epoch, the scores of the test part's items, and its numbers by name."""

    epoch: int
    scores: Tensor
    weights: Mapping[str, Tensor]


@dataclass(frozen=True)
class Fitted:
    """All epochs of a training, and the choice of each selection among them."""

    epochs: list[Epoch]
    chosen: dict[str, Chosen]

    def completed(self, training: FoldTraining) -> "Fitted":
        """Return a copy with scores in the unit of the trained values, and all numbers that they depend on."""
        scale, added = training.values, training.tensors()
        return Fitted(
            self.epochs,
            {
                name: Chosen(one.epoch, scale.restored(one.scores) if scale else one.scores, {**one.weights, **added})
                for name, one in self.chosen.items()
            },
        )


class StepRecord:
    """The epochs of a fit without the trainer: rounds of boosting, penalties along a path.

    The metric that judges the job selects an epoch on each measured part; the first best one counts. `on_epoch` is
    called after every epoch, for progress.
    """

    def __init__(self, job: TrainingJob, training: FoldTraining, on_epoch: Callable[[Epoch], None]) -> None:
        self._measuring = Measuring(training.parts.measured, job.epoch_metrics)
        self._judge, self._on_epoch = str(job.judge), on_epoch
        self._best: dict[str, tuple[float, int]] = {}
        self._epochs: list[Epoch] = []

    @property
    def measured(self) -> Part:
        """Return the items to score after every step."""
        return self._measuring.joined

    def add(self, number: int, loss: float, scores: Tensor) -> None:
        """Record step `number`: the mean training loss, and the scores of `measured`."""
        epoch = Epoch(number, loss, math.nan, self._measuring.means(scores))
        self._epochs.append(epoch)
        for name, means in epoch.metrics.items():
            if name not in self._best or means[self._judge] > self._best[name][0]:
                self._best[name] = means[self._judge], number
        self._on_epoch(epoch)

    def fitted(self, model: Callable[[int], tuple[Tensor, Mapping[str, Tensor]]]) -> Fitted:
        """Return the selections; `model` returns the test part's scores and the numbers of the model after a step."""
        numbers = {name: number for name, (_, number) in self._best.items()} | {LAST: self._epochs[-1].number}
        models = {number: model(number) for number in set(numbers.values())}
        return Fitted(self._epochs, {name: Chosen(number, *models[number]) for name, number in numbers.items()})
