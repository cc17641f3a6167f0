"""The training examples of a method: lists, pairs, single items or values; their weights, columns and shifts."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound.training.trainer import Draw, Part, worth_a_kernel
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.images import CHANNELS
from rankbound_study.data.reader import Split, pairs_of_lists
from rankbound_study.jobs.parts import FoldParts, StudyData
from rankbound_study.jobs.weighting import list_weights
from rankbound_study.vocabulary import ListWeights

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ValueScale:
    """Values in units of the training items' deviation from their mean, the targets of a regression."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Tensor) -> "ValueScale":
        """Return the scale of the training items' values; equal values keep the deviation 1."""
        exact = values.to(torch.float64)
        return cls(float(exact.mean()), float(exact.std(correction=0)) or 1.0)

    def scaled(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.deviation

    def restored(self, scores: Tensor) -> Tensor:
        """Return scores in the values' own unit."""
        return scores * self.deviation + self.mean


def examples_of(job: TrainingJob, data: StudyData, parts: FoldParts, fold: int, seed: int) -> Part | Draw:
    """Return the training lists of `fold` in the form of the job's batches; whole lists may have weights."""
    batches = job.settings.batches or "lists"
    if batches == "lists":
        return weighted(job, parts.training, fold, seed)
    split = data.instances.split(data.instances.drawn_fold(fold, seed), "train")
    if batches == "items":
        return data.part(_single(split.owners, split.items, split.relevance))
    random = np.random.default_rng(derive_seed("pairs", job.study, job.dataset, fold, seed))
    count = job.settings.pairs
    if count is None:
        return data.part(pairs_of_lists(split, None, random))
    return lambda: data.part(pairs_of_lists(split, count, random))


def value_examples(job: TrainingJob, data: StudyData, fold: int) -> tuple[Part, ValueScale]:
    """Return the distinct training items of `fold`, each a list, with scaled values instead of relevance labels.

    An item in several lists counts once: a regression learns items, not lists.
    """
    if data.values is None:
        raise ConfigError(f"target: {job.name} learns the items' values, but items of {job.dataset} have none")
    split = data.instances.split(fold, "train")
    items, first = np.unique(split.items, return_index=True)
    part = data.part(_single(split.owners[first], items, split.relevance[first]))
    values = data.values.index_select(0, part.items)
    scale = ValueScale.of(values)
    return replace(part, relevance=scale.scaled(values)), scale


def _single(topics: Integers, items: Integers, relevance: npt.NDArray[np.int8]) -> Split:
    """Return every item as a list of its own."""
    return Split(topics, items, relevance, np.arange(len(items) + 1))


def weighted(job: TrainingJob, part: Part, fold: int, seed: int) -> Part:
    """Return the training lists of a fold with the weights of the job's settings, if it has any.

    A permutation depends on the study, the data set, the fold and the seed alone, so that losses are paired.
    """
    text = job.settings.list_weights
    if text is None:
        return part
    random = np.random.default_rng(derive_seed("list-weights", job.study, job.dataset, job.nsr, fold, seed))
    relevance, offsets = part.relevance.cpu(), part.lists.offsets.cpu()
    found = list_weights(ListWeights.of(text), job.loss, relevance, offsets, random)
    return replace(part, list_weights=torch.from_numpy(found).to(part.lists.device))


@dataclass(frozen=True)
class FeatureColumns:
    """The feature columns of a method, ascending.

    Attributes:
        indices: `(n,)`, int64.
        channels: for pixels, how many of them belong to each channel.
    """

    indices: Tensor
    channels: tuple[int, ...] | None


def drawn_columns(count: int, width: int, *, study: str, dataset: str, fold: int, seed: int) -> Tensor:
    """Draw `count` of `width` columns, without replacement, ascending; smaller counts are subsets of larger ones.

    They depend only on the study, the data set, the fold and the seed, so all methods use the same. If all columns are
    drawn, the features keep their order.
    """
    random = np.random.default_rng(derive_seed("features", study, dataset, fold, seed))
    return torch.from_numpy(np.sort(random.permutation(width)[:count]))


def narrowed(job: TrainingJob, data: StudyData, fold: int, seed: int) -> tuple[StudyData, FeatureColumns | None]:
    """Return the data with the number of feature columns in the job's setting `features`; all, and None, without one.

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
    indices = drawn_columns(count, width, study=job.study, dataset=job.dataset, fold=fold, seed=seed)
    channels = None
    if data.features.dtype == torch.uint8:
        channels = tuple(torch.bincount(indices // (width // CHANNELS), minlength=CHANNELS).tolist())
    columns = FeatureColumns(indices, channels)
    if count == width:
        return data, columns
    return replace(data, features=data.features.index_select(1, indices.to(data.device))), columns


CHUNK = 256  # number of pictures that are shifted together


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
    for start in range(0, len(pixels), CHUNK):
        chunk = pixels[start : start + CHUNK].reshape(-1, CHANNELS, side, side)
        rows, columns = ((places - moves[start : start + CHUNK, axis, None]).clamp(0, side - 1) for axis in (0, 1))
        taken = chunk.take_along_dim(rows[:, None, :, None], 2).take_along_dim(columns[:, None, None, :], 3)
        shifted_pixels[start : start + CHUNK] = taken.reshape(len(chunk), -1)
    return shifted_pixels


@dataclass(frozen=True, kw_only=True)
class FoldTraining:
    """One of a job's trainings.

    Attributes:
        data: the data set, with the features that the model reads.
        parts: of the fold.
        examples: the training lists in the form of the job's batches, or a function that draws those of an epoch.
        columns: the places of the features among the data set's, if the job reads a number of them.
        values: the scale of the examples' labels, if these are the items' values instead of their relevance.
    """

    fold: int
    seed: int
    data: StudyData
    parts: FoldParts
    examples: Part | Draw
    columns: FeatureColumns | None
    values: ValueScale | None

    @classmethod
    def of(cls, job: TrainingJob, data: StudyData, parts: FoldParts, fold: int, seed: int) -> "FoldTraining":
        """Return the training of `job` on `fold`, whose parts are given, with `seed`."""
        seen, columns = narrowed(job, data, fold, seed)
        examples, values = (
            value_examples(job, seen, fold)
            if job.target == "value"
            else (examples_of(job, seen, parts, fold, seed), None)
        )
        return cls(fold=fold, seed=seed, data=seen, parts=parts, examples=examples, columns=columns, values=values)

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

    @property
    def channels(self) -> tuple[int, ...] | None:
        """For pictures that lack some pixels, the number of remaining pixels per channel."""
        return self.columns.channels if self.columns else None

    def generator(self, job: TrainingJob) -> torch.Generator:
        """Return the generator of the initial model and the order of its batches.

        It depends only on the study, the data set, the fold and the seed, not on model, loss or bound, so every
        comparison between these is paired.
        """
        seed = derive_seed("training", job.study, job.dataset, job.nsr, self.fold, self.seed)
        return torch.Generator().manual_seed(seed)

    def by_kernel(self, job: TrainingJob) -> bool:
        """Return whether compiled kernels train and evaluate it: networks on many lists."""
        return worth_a_kernel(job.settings.epochs or 0, self.parts.training.lists.n_items)
