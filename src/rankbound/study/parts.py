"""Instances as tensors: the parts of a fold, on the device where they are trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rankbound.data.reader import Instances, Split, merge, read_features, read_instances
from rankbound.lists import Lists, as_tensor
from rankbound.training import Part


@dataclass(frozen=True)
class FoldParts:
    """The parts of one fold; `validation` is `None` where its lists joined the training."""

    training: Part
    validation: Part | None
    test: Part


@dataclass(frozen=True)
class StudyData:
    """A data set's instances, with the features of its items if it has any `(n_items, d)`."""

    instances: Instances
    features: Tensor | None
    device: torch.device

    @classmethod
    def read(cls, instances: Path, lists: Path | None, device: torch.device) -> "StudyData":
        """Read both files; `lists` is the judged lists whose rows the items are, where a model reads features."""
        features = None if lists is None else as_matrix(lists, device)
        return cls(read_instances(instances), features, device)

    @property
    def n_topics(self) -> int:
        return len(self.instances.topics)

    @property
    def n_items(self) -> int:
        return self.instances.item_count

    def fold(self, fold: int, *, merge_validation: bool) -> FoldParts:
        """The parts of `fold`; with `merge_validation`, training and validation are one list per topic."""
        train, validation, test = (self.instances.split(fold, name) for name in ("train", "validation", "test"))
        if merge_validation:
            return FoldParts(self._part(merge(train, validation)), None, self._part(test))
        return FoldParts(self._part(train), self._part(validation), self._part(test))

    def _part(self, split: Split) -> Part:
        names: Sequence[str] = [self.instances.topics[index] for index in split.topics.tolist()]
        topics, items, relevance, offsets = (
            as_tensor(values, name).to(self.device)
            for name, values in (
                ("topics", split.topics),
                ("items", split.items),
                ("relevance", split.relevance),
                ("offsets", split.offsets),
            )
        )
        return Part(names, topics, items, relevance, Lists(offsets))


def as_matrix(lists: Path, device: torch.device) -> Tensor:
    """The features of all items, a view of the file's memory on the CPU."""
    features = read_features(lists)
    return as_tensor(features.reshape(-1), "features").reshape(features.shape).to(device)
