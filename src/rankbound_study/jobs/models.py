"""What a job fits: the examples of its trainings, with weights, columns and shifts; its models, with their scorers.

Examples are lists, pairs, single items or values. What a training returns stands at the end.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound.training.models import MLP, Factorization, Given, Scaling
from rankbound.training.trainer import Draw, Epoch, Learner, Part, Scorer, worth_a_kernel
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import LinearKeys, MatrixFactorizationKeys, NetworkKeys
from rankbound_study.data.images import CHANNELS
from rankbound_study.data.reader import Split, pairs_of_lists
from rankbound_study.jobs.parts import FoldParts, StudyData
from rankbound_study.jobs.weighting import list_weights
from rankbound_study.vocabulary import ListWeights

CHUNK = 512  # number of items that are scored together; for pictures, limited by memory
SHIFTED_TOGETHER = 256  # number of pictures that are shifted together
LARGEST_BYTE = 255

Integers = npt.NDArray[np.int64]


def examples_of(job: TrainingJob, data: StudyData, parts: FoldParts, fold: int, seed: int) -> Part | Draw:
    """Return the training lists of `fold` in the form of the job's batches; whole lists may have weights.

    Weights may be permuted, which depends on the study, the data set, the fold and the seed alone, so that losses are
    paired.
    """
    batches, weights = job.settings.batches or "lists", job.settings.list_weights
    if batches == "lists":
        part = parts.training
        if weights is None:
            return part
        random = np.random.default_rng(derive_seed("list-weights", job.study, job.dataset, job.nsr, fold, seed))
        lists = part.relevance.cpu(), part.lists.offsets.cpu()
        found = list_weights(ListWeights.of(weights), job.loss, *lists, random)
        return replace(part, list_weights=torch.from_numpy(found).to(part.lists.device))
    split = data.instances.split(data.instances.drawn_fold(fold, seed), "train")
    if batches == "items":
        return data.part(_single(split.owners, split.items, split.relevance))
    random = np.random.default_rng(derive_seed("pairs", job.study, job.dataset, fold, seed))
    count = job.settings.pairs
    if count is None:
        return data.part(pairs_of_lists(split, None, random))
    return lambda: data.part(pairs_of_lists(split, count, random))


def value_examples(job: TrainingJob, data: StudyData, fold: int) -> tuple[Part, tuple[float, float]]:
    """Return the distinct training items of `fold`, each a list, with their values instead of relevance labels.

    An item in several lists counts once: a regression learns items, not lists. The values are in units of their
    deviation from their mean, which are returned, too; equal values keep the deviation 1.
    """
    if data.values is None:
        raise ConfigError(f"target: {job.name} learns the items' values, but items of {job.dataset} have none")
    split = data.instances.split(fold, "train")
    items, first = np.unique(split.items, return_index=True)
    part = data.part(_single(split.owners[first], items, split.relevance[first]))
    values = data.values.index_select(0, part.items)
    exact = values.to(torch.float64)
    mean, deviation = float(exact.mean()), float(exact.std(correction=0)) or 1.0
    return replace(part, relevance=(values - mean) / deviation), (mean, deviation)


def _single(topics: Integers, items: Integers, relevance: npt.NDArray[np.int8]) -> Split:
    """Return every item as a list of its own."""
    return Split(topics, items, relevance, np.arange(len(items) + 1))


def drawn_columns(count: int, width: int, *, study: str, dataset: str, fold: int, seed: int) -> Tensor:
    """Draw `count` of `width` columns, without replacement, ascending; smaller counts are subsets of larger ones.

    They depend only on the study, the data set, the fold and the seed, so all methods use the same. If all columns are
    drawn, the features keep their order.
    """
    random = np.random.default_rng(derive_seed("features", study, dataset, fold, seed))
    return torch.from_numpy(np.sort(random.permutation(width)[:count]))


def narrowed(job: TrainingJob, data: StudyData, fold: int, seed: int) -> tuple[StudyData, Tensor | None]:
    """Return the data with as many feature columns as the job's setting `features`, and which; all without it.

    Raises:
        ConfigError: the data set has fewer columns.
    """
    count = job.settings.features
    if count is None or data.features is None:
        return data, None
    width = data.features.shape[1]
    if not 1 <= count <= width:
        raise ConfigError(
            f"{job.name}: it requires {count} features, but {job.dataset} has {width}; set counts from 1 to "
            f"{width} under feature_counts of its comparison"
        )
    columns = drawn_columns(count, width, study=job.study, dataset=job.dataset, fold=fold, seed=seed)
    if count == width:
        return data, columns
    features = data.features.index_select(1, columns.to(data.device))
    is_picture, each = features.dtype == torch.uint8, width // CHANNELS
    channels = torch.bincount(columns // each, minlength=CHANNELS).tolist() if is_picture else None
    return replace(data, features=features, channels=channels), columns


def shifted(job: TrainingJob, data: StudyData) -> StudyData:
    """Return the data with every picture shifted by up to the setting `shift`, a share of its side, if set.

    Raises:
        ConfigError: the features are not square pictures.
    """
    share, features = job.settings.shift, data.features
    if share is None:
        return data
    side = 0 if features is None else round((features.shape[1] / CHANNELS) ** 0.5)
    if features is None or features.dtype != torch.uint8 or CHANNELS * side * side != features.shape[1]:
        raise ConfigError(
            f"{job.name}: shift moves pictures, but the features of {job.dataset} are not square pictures"
        )
    # Rounded down: 0.29 of 100 pixels are 29, whatever their product is.
    moves = drawn_shifts(len(features), int(share * side + 1e-9), study=job.study, dataset=job.dataset)
    return replace(data, features=moved(features, moves.to(data.device), side))


def drawn_shifts(count: int, reach: int, *, study: str, dataset: str) -> Tensor:
    """Draw the shift of each of `count` pictures, down and right, `(count, 2)`: from -`reach` to `reach` pixels.

    They depend only on the study, the data set and the picture: all methods have the same, in training and in test.
    """
    random = np.random.default_rng(derive_seed("shifts", study, dataset))
    return torch.from_numpy(random.integers(-reach, reach, (count, 2), endpoint=True))


def moved(pixels: Tensor, moves: Tensor, side: int) -> Tensor:
    """Shift each picture `(3 * side * side,)` of `pixels` by its row of `moves`; the edge is repeated."""
    shifted_pixels = torch.empty_like(pixels)
    places = torch.arange(side, device=pixels.device)
    for start in range(0, len(pixels), SHIFTED_TOGETHER):
        some = slice(start, start + SHIFTED_TOGETHER)
        chunk = pixels[some].reshape(-1, CHANNELS, side, side)
        rows, columns = ((places - moves[some, axis, None]).clamp(0, side - 1) for axis in (0, 1))
        taken = chunk.take_along_dim(rows[:, None, :, None], 2).take_along_dim(columns[:, None, None, :], 3)
        shifted_pixels[some] = taken.reshape(len(chunk), -1)
    return shifted_pixels


@dataclass(frozen=True, kw_only=True)
class FoldTraining:
    """One of a job's trainings.

    Attributes:
        data: the data set, with the features that the model reads.
        parts: of the fold.
        examples: the training lists in the form of the job's batches, or a function that draws those of an epoch.
        columns: the places of the features among the data set's, if the job reads a number of them.
        unit: mean and deviation of the items' values, if the examples have these, scaled, instead of relevance labels.
    """

    fold: int
    seed: int
    data: StudyData
    parts: FoldParts
    examples: Part | Draw
    columns: Tensor | None
    unit: tuple[float, float] | None

    @classmethod
    def of(cls, job: TrainingJob, data: StudyData, parts: FoldParts, fold: int, seed: int) -> "FoldTraining":
        """Return the training of `job` on `fold`, whose parts are given, with `seed`."""
        seen, columns = narrowed(job, data, fold, seed)
        examples, unit = (
            value_examples(job, seen, fold)
            if job.target == "value"
            else (examples_of(job, seen, parts, fold, seed), None)
        )
        return cls(fold=fold, seed=seed, data=seen, parts=parts, examples=examples, columns=columns, unit=unit)

    @property
    def lists(self) -> Part:
        """The examples of models that read all of them at once: trees, and penalised regressions."""
        assert isinstance(self.examples, Part)
        return self.examples

    @cached_property
    def features(self) -> Tensor:
        """The features `(n_items, d)` that the model reads; ConfigError without any."""
        if self.data.features is None:
            raise ConfigError("the model reads features: give the judged lists with --lists, or pictures with --images")
        return self.data.features

    def by_kernel(self, job: TrainingJob) -> bool:
        """Return whether compiled kernels train and evaluate it: networks on many lists."""
        return worth_a_kernel(job.settings.epochs or 0, self.parts.training.lists.n_items)


def learner_of(job: TrainingJob, training: FoldTraining) -> Learner:
    """Return the job's model with fresh weights, ready for the library's trainer.

    The generator of the weights and of the order of batches depends only on the study, the data set, the fold and the
    seed, not on model, loss or bound, so every comparison between these is paired.
    """
    seed = derive_seed("training", job.study, job.dataset, job.nsr, training.fold, training.seed)
    generator, data = torch.Generator().manual_seed(seed), training.data
    options = {**job.model.given("name"), "generator": generator}
    if isinstance(job.model, MatrixFactorizationKeys):
        sizes, by_kernel = (len(data.instances.topics), data.instances.item_count), training.by_kernel(job)
        model: nn.Module = Factorization(*sizes, **options, by_kernel=by_kernel)
        scorer: Scorer = _score_pairs
    else:
        model, scorer = _network(job, training, options)
    return Learner(model.to(data.device), scorer, training.examples, training.parts.measured, generator)


def _score_pairs(model: nn.Module, part: Part) -> Tensor:
    scores: Tensor = model(part.topics.index_select(0, part.lists.segment), part.items)
    return scores


def _network(job: TrainingJob, training: FoldTraining, options: Mapping[str, Any]) -> tuple[nn.Module, Scorer]:
    """Return a network of the items' features, and its scorer.

    It reads them as they are in a bounded run without a scale; its first layer scales them in all others.
    """
    features = training.features
    width = features.shape[1]
    if isinstance(job.model, LinearKeys):
        network: nn.Module = Linear(width)
    elif isinstance(job.model, NetworkKeys):
        network = MLP(width, **options)
    else:
        from rankbound_study.jobs.cnn import RankCNN

        network = RankCNN(**options)
        if network.n_features != width:
            raise ConfigError(f"model cnn: it reads {network.n_features} values per picture, but these have {width}")
    if job.method or job.settings.scale is not None:
        items, channels = torch.unique(training.parts.training.items), training.data.channels
        scale = input_scale(job.settings.scale or "none", features, items, channels)
        network = nn.Sequential(OrderedDict(scale=scale, network=network))
    if job.method:
        return network, score_distinct(features)
    return network, lambda model, part: model(features.index_select(0, part.items))


def input_scale(scale: str, features: Tensor, items: Tensor, channels: Sequence[int] | None = None) -> nn.Module:
    """Return the first layer of a network over `features` `(n_items, d)`, bytes of pictures or floating point.

    Args:
        scale: `standard` (by means and deviations of the rows `items`; per channel for pixels) or `none` (pixels: 0 ..
            1).
        channels: as in `StudyData`.
    """
    if features.dtype == torch.uint8:
        if scale == "none":
            return PixelScale(widths=channels)
        return PixelScale.of_pixels(features.index_select(0, items), widths=channels)
    if scale == "none":
        return nn.Identity()
    fitted = Scaling.fitted("standard", features.index_select(0, items))
    return StandardScale(shift=fitted.shift, factor=fitted.factor)


def score_distinct(features: Tensor) -> Scorer:
    """Score every distinct item once, even if it is in several lists: pictures take long."""

    def score(model: nn.Module, part: Part) -> Tensor:
        distinct, place = torch.unique(part.items, return_inverse=True)
        chunks = [model(features.index_select(0, chunk)) for chunk in torch.split(distinct, CHUNK)]
        return torch.cat(chunks).index_select(0, place)

    return score


class Linear(nn.Module):
    """Scores $w \\cdot x + b$; `weight` `(n_features,)` and `bias` `()` are initialised with 0.

    With more features than examples, the data do not determine all directions of the weights; those keep their initial
    value. From 0, an image of the weights shows only what was learnt.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float32))

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        return features @ self.weight + self.bias


class StandardScale(Given):
    r"""Features $(x - shift) \cdot factor$, of training items' means and deviations; constant ones become 0.

    Both are buffers, so saved weights include them.
    """

    shift: Tensor
    factor: Tensor

    def forward(self, features: Tensor) -> Tensor:
        """Return scaled `features` `(n, d)`, of the same shape."""
        return (features - self.shift) * self.factor


class PixelScale(nn.Module):
    r"""Bytes to single precision, channel by channel: $(x / 255 - m_c) / d_c$, of shape `(n, channels * h * w)`.

    The default keeps 0 .. 1 (m = 0, d = 1). `of_pixels` takes means and deviations from the training part's pixels;
    pass no others. They are buffers, so saved weights include them. Put it before a network:
    `nn.Sequential(PixelScale(), MLP(30_000, (1000, 500, 100)))` reads rows of an images file as they are.

    Args:
        widths: number of pixels of each channel, for rows that lack some pixels; equal numbers if not given.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        mean: Sequence[float] = (0.0,) * CHANNELS,
        deviation: Sequence[float] = (1.0,) * CHANNELS,
        widths: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float32))
        equal = widths is None or len(set(widths)) == 1
        self._widths = None if equal else torch.tensor(widths)

    @classmethod
    def of_pixels(cls, pixels: Tensor, widths: Sequence[int] | None = None) -> "PixelScale":
        """Return the scale of `pixels` `(n, channels * h * w)`, bytes, over all pictures and places.

        A constant or missing channel keeps the deviation 1. The sums are counts of byte values: exact, in any order.
        """
        means, deviations = [], []
        levels = torch.arange(LARGEST_BYTE + 1, dtype=torch.float64) / LARGEST_BYTE
        for part in torch.split(pixels, list(widths or [pixels.shape[1] // CHANNELS] * CHANNELS), dim=1):
            counts = torch.bincount(part.reshape(-1), minlength=LARGEST_BYTE + 1).cpu().to(torch.float64)
            share = counts / counts.sum().clamp(min=1)
            mean = (share * levels).sum()
            means.append(float(mean))
            deviations.append(float((share * (levels - mean) ** 2).sum().sqrt()) or 1.0)
        return cls(means, deviations, widths)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return scaled `pixels` `(n, channels * h * w)`, of the same shape, float32."""
        mean, deviation = self.mean, self.deviation
        if self._widths is not None:
            mean, deviation = (each.repeat_interleave(self._widths.to(each.device)) for each in (mean, deviation))
        # In place: every copy of the pictures takes as long as the arithmetic.
        by_channel = pixels.to(torch.float32, copy=True).reshape(len(pixels), len(mean), pixels.shape[1] // len(mean))
        by_channel.div_(LARGEST_BYTE).sub_(mean[:, None]).div_(deviation[:, None])
        return by_channel.flatten(1)


class Chosen(NamedTuple):
    """A selection's model: its epoch, the scores of the test part's items, and its numbers by name."""

    epoch: int
    scores: Tensor
    weights: Mapping[str, Tensor]


class Fitted(NamedTuple):
    """All epochs of a training, and the choice of each selection among them."""

    epochs: list[Epoch]
    chosen: dict[str, Chosen]
