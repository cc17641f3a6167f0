"""One trainer for every torch model: batches of lists, an optimiser, and a record of every epoch.

It knows nothing of files. Which epoch counts is chosen per *selection*: by a part's metric, or the last one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from rankbound.errors import RankboundError
from rankbound.lists import Lists, NotFiniteError, require_finite
from rankbound.losses import RankingLoss
from rankbound.metrics import Metric, evaluate
from rankbound.optimisers import OPTIMISERS, Optimiser

LAST = "last"


class TrainingError(RankboundError):
    """A training that cannot go on: a loss or a score that is NaN or infinite."""


@dataclass(frozen=True)
class Part:
    """Some lists of a data set as a model reads them.

    `items` are what the model takes: indices of items, or rows of features; `topics` one index per list;
    `names` says which topic a list belongs to, for messages and results.
    """

    names: Sequence[str]
    topics: Tensor
    items: Tensor
    relevance: Tensor
    lists: Lists

    def batch(self, index: Tensor) -> "Part":
        """The lists of `index`, in that order."""
        sizes = self.lists.sizes.index_select(0, index)
        lists = Lists(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
        picked = lists.position + lists.spread(self.lists.offsets.index_select(0, index))
        topics, items, relevance = (
            values.index_select(0, where)
            for values, where in ((self.topics, index), (self.items, picked), (self.relevance, picked))
        )
        return Part([], topics, items, relevance, lists)


# Scores of all items of a part, flat.
Scorer = Callable[[nn.Module, Part], Tensor]

# What the next epoch trains on, where every epoch draws its own lists.
Draw = Callable[[], Part]


@dataclass(frozen=True)
class Settings:
    """How to train: one learning rate and epoch budget for all losses and bounds of a data set and model.

    `optimiser` is `adam` or `sgd`.
    """

    learning_rate: float
    epochs: int
    batch_size: int
    optimiser: str = "adam"


@dataclass(frozen=True)
class Epoch:
    """What is kept of each epoch: the mean training loss, the mean gradient norm, the parts' mean metrics."""

    number: int
    loss: float
    gradient_norm: float
    metrics: Mapping[str, Mapping[str, float]]


@dataclass
class Selected:
    """The model of the chosen epoch."""

    epoch: int
    score: float
    weights: dict[str, Tensor]


@dataclass
class Trained:
    """The record of one training: all epochs, and the chosen model of each selection."""

    epochs: list[Epoch] = field(default_factory=list)
    selected: dict[str, Selected] = field(default_factory=dict)


def train(
    model: nn.Module,
    scorer: Scorer,
    loss: RankingLoss,
    training: Part | Draw,
    parts: Mapping[str, Part],
    *,
    settings: Settings,
    monitored: Sequence[Metric],
    selections: Mapping[str, Metric],
    generator: torch.Generator,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train `model` on `training`, measuring it on `parts` after every epoch.

    Args:
        scorer: gives the scores of a part's items under the model.
        training: the lists to train on, or a function that draws those of the next epoch.
        parts: parts to measure by name, such as `validation` and `test`.
        monitored: metrics whose means are recorded every epoch.
        selections: the metric by which each named part picks an epoch; the first best one counts. The last epoch is
            always kept too, under `last`.
        generator: the source of the batches' order, on the CPU.
        on_epoch: called after every epoch, for progress.

    Raises:
        TrainingError: when a loss or a score is NaN or infinite, with the epoch and the list.
    """
    optimiser = OPTIMISERS[settings.optimiser](model.parameters(), settings.learning_rate)
    part = training if isinstance(training, Part) else training()
    informative = loss.informative(part.relevance, part.lists)
    trained = Trained()
    measuring = Measuring(parts, monitored)
    for number in range(1, settings.epochs + 1):
        if number > 1 and not isinstance(training, Part):
            part = training()
            informative = loss.informative(part.relevance, part.lists)
        mean_loss, norm = _epoch(model, scorer, loss, part, informative, optimiser, settings, generator, number)
        measured = measuring.means(predict(model, scorer, measuring.joined))
        epoch = Epoch(number, mean_loss, norm, measured)
        trained.epochs.append(epoch)
        for name, metric in selections.items():
            _keep_if_better(trained, name, epoch, measured[name][str(metric)], model)
        on_epoch(epoch)
    trained.selected[LAST] = Selected(settings.epochs, math.nan, _copy_of(model))
    return trained


def predict(model: nn.Module, scorer: Scorer, part: Part) -> Tensor:
    """Scores of all items of `part`, without gradients."""
    model.eval()
    with torch.no_grad():
        return scorer(model, part)


def _epoch(
    model: nn.Module,
    scorer: Scorer,
    loss: RankingLoss,
    training: Part,
    informative: Tensor,
    optimiser: Optimiser,
    settings: Settings,
    generator: torch.Generator,
    number: int,
) -> tuple[float, float]:
    model.train()
    total, norms = 0.0, []
    shuffled = torch.randperm(len(training.lists), generator=generator).to(training.lists.device)
    for index in torch.split(shuffled, settings.batch_size):
        counted = int(informative[index].sum())
        if counted == 0:
            continue
        batch = training.batch(index)
        optimiser.zero_gradients()
        try:
            losses = _losses(model, scorer, loss, batch)
        except _NotFiniteList as found:
            raise TrainingError(
                f"epoch {number}: the {found.what} of topic {training.names[int(index[found.place])]} is not a finite "
                "number; nothing of this training was kept. Lower the learning rate, or look for features that are "
                "NaN or very large."
            ) from None
        batch_sum = losses.sum()
        (batch_sum / counted).backward()  # type: ignore[no-untyped-call]
        norms.append(torch.stack([gradient.norm() for gradient in optimiser.gradients()]).norm().item())
        optimiser.step()
        total += batch_sum.item()
    return total / max(int(informative.sum()), 1), sum(norms) / max(len(norms), 1)


class _NotFiniteList(Exception):
    """A score or loss of the list at `place` of a batch is NaN or infinite."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what, place)
        self.what, self.place = what, place


def _losses(model: nn.Module, scorer: Scorer, loss: RankingLoss, batch: Part) -> Tensor:
    try:
        scores = scorer(model, batch)
        require_finite(scores)
        losses = loss.of_lists(scores, batch.relevance, batch.lists)
    except NotFiniteError as error:
        raise _NotFiniteList("score", int(batch.lists.segment[error.item])) from None
    if not math.isfinite(losses.detach().sum().item()):
        raise _NotFiniteList("loss", int(torch.isfinite(losses).to(torch.uint8).argmin()))
    return losses


class Measuring:
    """The mean metrics of several parts, whose lists are scored and sorted together."""

    def __init__(self, parts: Mapping[str, Part], metrics: Sequence[Metric]) -> None:
        self._metrics, self._names = metrics, list(parts)
        self._sizes = [len(part.lists) for part in parts.values()]
        self._joined = _joined(list(parts.values()))

    @property
    def joined(self) -> Part:
        """The lists of all parts, one part after the other."""
        return self._joined

    def means(self, scores: Tensor) -> dict[str, dict[str, float]]:
        """The parts' mean metrics, from the scores of `joined`."""
        values = evaluate(self._metrics, scores, self._joined.relevance, self._joined.lists.offsets)
        means: dict[str, dict[str, float]] = {name: {} for name in self._names}
        for metric, all_values in values.items():
            for name, of_part in zip(self._names, torch.split(all_values, self._sizes), strict=True):
                means[name][metric] = of_part.nanmean().item()
        return means


def _joined(parts: Sequence[Part]) -> Part:
    """The lists of all `parts`, one part after the other."""
    sizes = torch.cat([part.lists.sizes for part in parts])
    topics, items, relevance = (
        torch.cat(values) for values in zip(*((part.topics, part.items, part.relevance) for part in parts), strict=True)
    )
    names = [name for part in parts for name in part.names]
    return Part(names, topics, items, relevance, Lists(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])))


def _keep_if_better(trained: Trained, name: str, epoch: Epoch, score: float, model: nn.Module) -> None:
    best = trained.selected.get(name)
    if best is None or score > best.score:
        trained.selected[name] = Selected(epoch.number, score, _copy_of(model))


def _copy_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
