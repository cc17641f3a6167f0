"""Instances as tensors: the parts of a fold, on the training device."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.lists import Lists, as_tensor
from rankbound.training.trainer import Part
from rankbound_study.data.images import read_faces, read_image_features, read_pixels
from rankbound_study.data.reader import FoldedLists, Split, merge, read_features, read_instances


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

    def paths(self) -> list[Path]:
        """Return all files that are given."""
        every = (getattr(self, field.name) for field in fields(self))
        return [path for path in every if path is not None]


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

    values: each item's own value, `(n_items,)`, if it has one: the age of a face.
    """

    instances: FoldedLists
    features: Tensor | None
    device: torch.device
    values: Tensor | None = None

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

    @property
    def n_topics(self) -> int:
        return len(self.instances.topics)

    @property
    def n_items(self) -> int:
        return self.instances.item_count

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
