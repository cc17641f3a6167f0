"""The results of a training of any model: its epochs, and the model at the selected ones."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from rankbound.metrics import Metric
from rankbound.training.epochs import LAST, Epoch, Trained
from rankbound.training.parts import Measuring, Part, predict
from rankbound.training.trainer import Learner
from rankbound_study.jobs.examples import ValueScale
from rankbound_study.jobs.parts import FoldParts


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

    def restored(self, scale: ValueScale) -> "Fitted":
        """Return a copy with scores in the unit of the trained values, whose scale is added to the weights."""
        chosen = {
            name: Chosen(choice.epoch, scale.restored(choice.scores), {**choice.weights, **scale.tensors()})
            for name, choice in self.chosen.items()
        }
        return Fitted(self.epochs, chosen)

    def joined(self, tensors: Mapping[str, Tensor]) -> "Fitted":
        """Return a copy with further numbers among the weights."""
        chosen = {
            name: Chosen(choice.epoch, choice.scores, {**choice.weights, **tensors})
            for name, choice in self.chosen.items()
        }
        return Fitted(self.epochs, chosen)


def fitted_of(trained: Trained, learner: Learner, test: Part) -> Fitted:
    """Return the results of a torch model's training."""
    chosen = {}
    for name, selected in trained.selected.items():
        learner.model.load_state_dict(selected.weights)
        scores = predict(learner.model, learner.scorer, test)
        chosen[name] = Chosen(selected.epoch, scores, selected.weights)
    return Fitted(trained.epochs, chosen)


class Steps:
    """The epochs of a fit without the trainer: rounds of boosting, penalties along a path.

    Args:
        parts: of the fold.
        monitored: metrics whose means are kept.
        judge: the metric that selects an epoch on each measured part; the first best one counts.
        on_epoch: called after every epoch, for progress.
    """

    def __init__(
        self, parts: FoldParts, monitored: list[Metric], judge: Metric, on_epoch: Callable[[Epoch], None]
    ) -> None:
        self._measuring = Measuring(parts.measured, monitored)
        self._judge, self._on_epoch = str(judge), on_epoch
        self._best: dict[str, tuple[float, int]] = {}
        self.epochs: list[Epoch] = []

    @property
    def measured(self) -> Part:
        """Return the items to score after every step."""
        return self._measuring.joined

    def add(self, number: int, loss: float, scores: Tensor) -> None:
        """Record step `number`: the mean training loss, and the scores of `measured`."""
        epoch = Epoch(number, loss, math.nan, self._measuring.means(scores))
        self.epochs.append(epoch)
        for name, means in epoch.metrics.items():
            if name not in self._best or means[self._judge] > self._best[name][0]:
                self._best[name] = means[self._judge], number
        self._on_epoch(epoch)

    def fitted(self, model: Callable[[int], tuple[Tensor, Mapping[str, Tensor]]]) -> Fitted:
        """Return the selections; `model` returns the test part's scores and the numbers of the model after a step."""
        numbers = {name: number for name, (_, number) in self._best.items()} | {LAST: self.epochs[-1].number}
        models = {number: model(number) for number in set(numbers.values())}
        return Fitted(self.epochs, {name: Chosen(number, *models[number]) for name, number in numbers.items()})
