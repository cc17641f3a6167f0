"""Models that jobs build, the functions that score items by them, and the results of a training."""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.training.models import MLP, Factorization
from rankbound.training.trainer import LAST, Epoch, Measuring, Part, Scorer
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.base import Keys
from rankbound_study.config.sections.training import LinearKeys, MatrixFactorizationKeys, NetworkKeys
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.job import epoch_metrics, judge_of
from rankbound_study.jobs.parts import StudyData
from rankbound_study.models.layers import Linear, PixelScale, StandardScale

CHUNK = 512  # number of items that are scored together; for pictures, limited by memory


def build_model(
    job: TrainingJob, data: StudyData, training: FoldTraining, generator: torch.Generator
) -> tuple[nn.Module, Scorer]:
    """Return the job's model, with fresh weights from `generator`, and its scorer.

    A factorisation reads a part's topics and items. A network reads the items' features: as they are in a bounded run
    without a scale, scaled by its first layer in all others.
    """
    if isinstance(job.model, MatrixFactorizationKeys):
        options = {**job.model.given("name"), "generator": generator, "by_kernel": training.by_kernel(job)}
        factors = Factorization(len(data.instances.topics), data.instances.item_count, **options)
        return factors, lambda model, part: model(part.topics.index_select(0, part.lists.segment), part.items)
    features = training.features
    network = _network(job.model, features.shape[1], generator)

    def score(model: nn.Module, part: Part) -> Tensor:
        scores: Tensor = model(features.index_select(0, part.items))
        return scores

    scorer = score_distinct(features) if job.method else score
    if not job.method and job.settings.scale is None:
        return network, scorer
    distinct = torch.unique(training.parts.training.items)
    scale = input_scale(job.settings.scale or "none", features, distinct, training.channels)
    return nn.Sequential(OrderedDict(scale=scale, network=network)), scorer


def _network(model: Keys, width: int, generator: torch.Generator) -> nn.Module:
    if isinstance(model, LinearKeys):
        return Linear(width)
    if isinstance(model, NetworkKeys):
        return MLP(width, **model.given("name"), generator=generator)
    from rankbound_study.models.cnn import RankCNN

    network = RankCNN(**model.given("name"), generator=generator)
    if network.n_features != width:
        raise ConfigError(f"model cnn: it reads {network.n_features} values per picture, but these have {width}")
    return network


def input_scale(scale: str, features: Tensor, training: Tensor, channels: Sequence[int] | None = None) -> nn.Module:
    """Return the first layer of a network over `features` `(n_rows, d)`, bytes of pictures or floating point.

    Args:
        scale: `standard` (by means and deviations of the rows `training`; per channel for pixels) or `none` (pixels: 0
            .. 1).
        channels: for pictures that lack some pixels, the number of remaining pixels per channel.
    """
    if features.dtype == torch.uint8:
        if scale == "none":
            return PixelScale(widths=channels)
        return PixelScale.of_pixels(features.index_select(0, training), widths=channels)
    return nn.Identity() if scale == "none" else StandardScale.of_features(features.index_select(0, training))


def score_distinct(features: Tensor) -> Scorer:
    """Score every distinct item once, even if it is in several lists: pictures take long."""

    def score(model: nn.Module, part: Part) -> Tensor:
        distinct, place = torch.unique(part.items, return_inverse=True)
        chunks = [model(features.index_select(0, chunk)) for chunk in torch.split(distinct, CHUNK)]
        return torch.cat(chunks).index_select(0, place)

    return score


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
        scale, columns, added, chosen = training.values, training.columns, dict[str, Tensor](), {}
        if scale:
            added |= {"target.mean": torch.tensor(scale.mean), "target.deviation": torch.tensor(scale.deviation)}
        if columns:
            added["features.columns"] = columns.indices
        for name, one in self.chosen.items():
            scores = scale.restored(one.scores) if scale else one.scores
            chosen[name] = Chosen(one.epoch, scores, {**one.weights, **added})
        return Fitted(self.epochs, chosen)


class StepRecord:
    """The epochs of a fit without the trainer: rounds of boosting, penalties along a path.

    The metric that judges the job selects an epoch on each measured part; the first best one counts. `on_epoch` is
    called after every epoch, for progress.
    """

    def __init__(self, job: TrainingJob, training: FoldTraining, on_epoch: Callable[[Epoch], None]) -> None:
        self._measuring = Measuring(training.parts.measured, epoch_metrics(job))
        # The items to score after every step.
        self.measured = self._measuring.joined
        self._judge, self._on_epoch = str(judge_of(job)), on_epoch
        self._best: dict[str, tuple[float, int]] = {}
        self._epochs: list[Epoch] = []

    def best(self, part: str) -> int:
        """Return the number of the epoch that a part selects so far; 0 before any whose metric is defined."""
        return self._best[part][1] if part in self._best else 0

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
