"""Instances as tensors, the parts of a fold on the training device; and what was measured on them as Arrow tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from rankbound.errors import ConfigError, DataError
from rankbound.lists import Lists, as_tensor
from rankbound.metrics import Metric, metric
from rankbound.metrics.base import values_of
from rankbound.texts import derive_seed
from rankbound.training.trainer import Epoch, Part
from rankbound_study.config.data_sets import DataSet, SampledName
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.contracts import strings_to_arrow, to_arrow, with_key
from rankbound_study.data.images import read_faces, read_image_features, read_pixels
from rankbound_study.data.reader import FoldedLists, Split, merge, read_features, read_instances
from rankbound_study.vocabulary import JUDGED_BY

# Metric columns of the runs table, one value per topic.
RUN_METRICS = (
    "nDCG",
    "AP",
    "RR",
    "nRBP(p=0.8)",
    "nRBP(p=0.9)",
    "nRBP(p=0.95)",
    "P@5",
    "P@10",
    "PairAccuracy",
    *(f"nDCG@{k}" for k in range(1, 21)),
)

# Metrics whose means are kept for every epoch and part, of bounded runs and of methods.
EPOCH_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")
METHOD_EPOCH_METRICS = ("nDCG@10", "AP", "PairAccuracy")


@dataclass(frozen=True)
class Inputs:
    """The input files of a job.

    lists: judged lists, whose rows are the items. images: pictures, likewise, each with an age. image_features: a
    network's features of these pictures, read instead of their pixels. distributions: the score distributions of a
    loss' metric. test_instances: the same ratings at another ratio, whose test lists replace those of the instances.
    """

    instances: Path
    lists: Path | None = None
    distributions: Path | None = None
    images: Path | None = None
    image_features: Path | None = None
    test_instances: Path | None = None


@dataclass(frozen=True)
class FoldParts:
    """The parts of one fold; `validation` is None if its lists joined the training."""

    training: Part
    validation: Part | None
    test: Part

    @property
    def measured(self) -> dict[str, Part]:
        """Return the parts on which a training is measured, by name."""
        return {"test": self.test} | ({"validation": self.validation} if self.validation else {})


@dataclass(frozen=True)
class StudyData:
    """A data set's instances, with the features of its items, if any, `(n_items, d)`: bytes for pictures.

    values: each item's own value, `(n_items,)`, if it has one: the age of a face. channels: for pictures that lack some
    pixels, the number of remaining pixels per channel.
    """

    instances: FoldedLists
    features: Tensor | None
    device: torch.device
    values: Tensor | None = None
    channels: Sequence[int] | None = None

    @classmethod
    def read(cls, inputs: Inputs, device: torch.device) -> "StudyData":
        """Read all files except the distributions and other test lists."""
        instances = read_instances(inputs.instances)
        if inputs.images is None:
            rows = None if inputs.lists is None else read_features(inputs.lists)
            return cls(instances, None if rows is None else _matrix(rows, device), device)
        faces, features = read_faces(inputs.images), inputs.image_features
        seen = read_pixels(inputs.images) if features is None else read_image_features(features, faces)
        ages = torch.from_numpy(faces.ages.astype("float32"))
        return cls(instances, _matrix(seen, device), device, ages.to(device))

    def fold(self, fold: int, seed: int = 0, *, merge_validation: bool) -> FoldParts:
        """Return the parts of `fold`; with `merge_validation`, training and validation form one list per topic.

        `seed` is the training's, which matters if the folds were drawn several times (`FoldedLists.drawn_fold`).
        """
        fold = self.instances.drawn_fold(fold, seed)
        train, validation, test = (self.instances.split(fold, name) for name in ("train", "validation", "test"))
        if merge_validation:
            return FoldParts(self.part(merge(train, validation)), None, self.part(test))
        return FoldParts(self.part(train), self.part(validation), self.part(test))

    def part(self, split: Split) -> Part:
        """Return a split as tensors."""
        names: Sequence[str] = [self.instances.topics[index] for index in split.topics.tolist()]
        topics, items, relevance, offsets = (
            as_tensor(getattr(split, name), name).to(self.device)
            for name in ("topics", "items", "relevance", "offsets")
        )
        return Part(names, topics, items, relevance, Lists(offsets))


def _matrix(rows: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Return the features of all items; on the CPU, a view of the same memory."""
    return as_tensor(rows.reshape(-1), "features").reshape(rows.shape).to(device)


def as_tested(job: TrainingJob, data: StudyData, other: Path | None) -> StudyData:
    """Return the data with the test lists of the job; `other` is the file with those of another ratio."""
    if (job.test_nsr is None) != (other is None):
        found, expected = ("none", "a file") if other is None else ("a file", "none")
        raise ConfigError(f"--test-instances: found {found}, expected {expected}: test_nsr is {job.test_nsr}")
    instances = data.instances
    if other is not None:
        of_ratio = read_instances(other)
        if of_ratio.nsr != job.test_nsr:
            raise DataError(f"{other}: found instances at NSR {of_ratio.nsr}, expected {job.test_nsr}")
        instances = with_tests_of(instances, of_ratio)
    if job.validation_share is not None:
        instances = with_validation_share(instances, job.validation_share)
    if job.test_relevant is not None:
        instances = with_few_relevant(instances, job.test_relevant)
    return replace(data, instances=instances)


def with_tests_of(instances: FoldedLists, other: FoldedLists) -> FoldedLists:
    """Return `instances` with the test lists of `other`: the same ratings and folds, sampled at another ratio.

    Every ratio draws its negatives anew, so a test negative of one may be a training negative of the other. Those in
    the user's training or validation list are removed from the test list.

    Raises:
        DataError: the two differ in items, users, folds or relevant test items.
    """
    if instances.item_names is None or instances.item_names != other.item_names or instances.folds != other.folds:
        raise DataError("test instances: expected sampled ratings with the same items and folds; make both anew")
    places = {name: place for place, name in enumerate(instances.topics)}
    if unknown := [name for name in other.topics if name not in places]:
        raise DataError(f"test instances: topic {unknown[0]} has no training lists; make both anew")
    names = np.array([places[name] for name in other.topics], dtype=np.int64)
    splits = dict(instances.splits)
    for fold in instances.folds:
        split = other.split(fold, "test")
        test, own = replace(split, topics=names[split.topics]), instances.split(fold, "test")
        expected, found = (np.sort(_pairs(one, instances)[one.relevance > 0]) for one in (own, test))
        if not np.array_equal(found, expected):
            raise DataError(f"test instances: fold {fold}'s test part has other relevant items; make both anew")
        seen = np.concatenate([_pairs(instances.split(fold, part), instances) for part in ("train", "validation")])
        splits[fold, "test"] = test.keep(~np.isin(_pairs(test, instances), seen))
    return replace(instances, splits=splits)


def with_few_relevant(instances: FoldedLists, count: int) -> FoldedLists:
    """Return `instances` with at most `count` relevant items, drawn at random, per test list, and all other items."""
    splits = dict(instances.splits)
    for fold in instances.folds:
        test = instances.split(fold, "test")
        kept = test.relevance == 0
        for topic, own in test.slices():
            relevant = own.start + np.flatnonzero(test.relevance[own] > 0)
            seed = derive_seed("test-relevant", instances.dataset, fold, instances.topics[topic])
            kept[np.random.default_rng(seed).permutation(relevant)[:count]] = True
        splits[fold, "test"] = test.keep(kept)
    return replace(instances, splits=splits)


def with_validation_share(instances: FoldedLists, share: float) -> FoldedLists:
    """Return `instances` with that share of training and validation items, relevant and other, in validation.

    Each user's items of both parts are shuffled by a seed of the user and the fold and split anew, so the validation
    items of a smaller share are among those of a larger one. Test lists stay.

    Raises:
        ConfigError: the instances are judged lists, whose folds have a separate validation part, or whole catalogues,
            whose parts share items.
        DataError: a user would keep nothing to train on.
    """
    if not (DataSet(instances.dataset, instances.nsr).sampled and SampledName.of(instances.dataset).sampling.draws):
        raise ConfigError(f"validation_share: {instances.dataset} is not a data set of ratings with drawn items")
    splits = dict(instances.splits)
    for fold in instances.folds:
        both = merge(instances.split(fold, "train"), instances.split(fold, "validation"))
        validates = np.zeros(len(both.items), dtype=bool)
        for topic, own in both.slices():
            user = instances.topics[topic]
            seed = derive_seed("validation-share", instances.dataset, fold, user)
            shuffled = own.start + np.random.default_rng(seed).permutation(own.stop - own.start)
            for some in (shuffled[both.relevance[shuffled] > 0], shuffled[both.relevance[shuffled] == 0]):
                count = max(1, round(share * len(some)))
                if count >= len(some):
                    raise DataError(
                        f"validation_share: user {user} has {len(some)} items of one kind to train on, of which "
                        f"{count} would validate"
                    )
                validates[some[:count]] = True
        splits[fold, "train"], splits[fold, "validation"] = both.keep(~validates), both.keep(validates)
    return replace(instances, splits=splits)


def _pairs(split: Split, instances: FoldedLists) -> npt.NDArray[np.int64]:
    """Return a number for every topic and item of the lists."""
    pairs: npt.NDArray[np.int64] = split.owners * instances.item_count + split.items
    return pairs


def judge_of(job: TrainingJob) -> Metric:
    """Return the metric that selects an epoch, and that tables show."""
    return metric(job.judged_by or JUDGED_BY.get(job.loss, job.loss))


def epoch_metrics(job: TrainingJob) -> list[Metric]:
    """Return the metrics whose means are kept for every epoch and part."""
    usual = METHOD_EPOCH_METRICS if job.method else EPOCH_METRICS
    return [metric(name) for name in dict.fromkeys((*usual, *filter(None, [job.judged_by])))]


def run_rows(
    key: Mapping[str, Any],
    selection: str,
    drawing: int,
    epoch: int,
    part: Part,
    scores: Tensor,
    *,
    by_kernel: bool = False,
) -> pa.Table:
    """Return one row per list of `part`: its sizes and all metrics of `RUN_METRICS`, NaN where undefined."""
    metrics = [metric(name) for name in RUN_METRICS]
    values = values_of(metrics, scores, part.relevance, part.lists.offsets, by_kernel=by_kernel)
    relevant = part.lists.sum((part.relevance > 0).to(torch.float64))
    columns = {
        "topic": strings_to_arrow(part.names),
        "n": to_arrow(part.lists.sizes.cpu().numpy()),
        "p": to_arrow(relevant.cpu().numpy().astype(np.int32)),
        "epoch": to_arrow(np.full(len(part.lists), epoch, np.int32)),
        **{name: to_arrow(value.cpu().numpy()) for name, value in values.items()},
    }
    return with_key({**key, "selection": selection, "drawing": drawing}, columns, "runs", len(part.lists))


def prediction_rows(key: Mapping[str, Any], selection: str, part: Part, scores: Tensor) -> pa.Table:
    """Return one row per list of `part`: its items and their scores, in the order of the instances file."""
    offsets = to_arrow(part.lists.offsets.cpu().numpy().astype(np.int32))
    columns = {
        "topic": strings_to_arrow(part.names),
        "items": pa.ListArray.from_arrays(offsets, to_arrow(part.items.cpu().numpy())),
        "scores": pa.ListArray.from_arrays(offsets, to_arrow(scores.to(torch.float32).cpu().numpy())),
    }
    return with_key({**key, "selection": selection}, columns, "predictions", len(part.lists))


def epoch_rows(key: Mapping[str, Any], epochs: Sequence[Epoch]) -> pa.Table:
    """Return one row per epoch and measured part, with the training loss and gradient norm of the epoch."""
    rows = [(epoch, name, means) for epoch in epochs for name, means in epoch.metrics.items()]
    names = list(rows[0][2]) if rows else []
    columns = {
        "epoch": to_arrow(np.array([epoch.number for epoch, _, _ in rows], np.int32)),
        "part": strings_to_arrow([part for _, part, _ in rows]),
        "mean_loss": to_arrow(np.array([epoch.loss for epoch, _, _ in rows], np.float64)),
        "gradient_norm": to_arrow(np.array([epoch.gradient_norm for epoch, _, _ in rows], np.float64)),
        **{name: to_arrow(np.array([means[name] for _, _, means in rows], np.float64)) for name in names},
    }
    return with_key(key, columns, "epochs", len(rows))
