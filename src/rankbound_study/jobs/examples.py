"""The training examples of a method: a fold's training lists whole, as pairs, as single items, or as values."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.texts import derive_seed
from rankbound.training.trainer import Draw, Part
from rankbound_study.data.reader import Split, pairs_of_lists
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import FoldParts, StudyData
from rankbound_study.jobs.weighted_lists import weighted

Integers = npt.NDArray[np.int64]

BATCHES = ("lists", "pairs", "items")


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

    def tensors(self) -> dict[str, Tensor]:
        """Return the scale as named tensors for a file."""
        return {"target.mean": torch.tensor(self.mean), "target.deviation": torch.tensor(self.deviation)}


def examples_of(job: TrainingJob, data: StudyData, parts: FoldParts, fold: int, seed: int) -> Part | Draw:
    """Return the training lists of `fold` in the form of the job's batches; whole lists may have weights."""
    batches = job.settings.get("batches", "lists")
    if batches == "lists":
        return weighted(job, parts.training, fold, seed)
    split = data.instances.split(data.instances.drawn_fold(fold, seed), "train")
    if batches == "items":
        return data.part(_single(split.owners, split.items, split.relevance))
    if batches != "pairs":
        raise ConfigError(f"settings: batches is {batches!r}, expected one of {', '.join(BATCHES)}")
    random = np.random.default_rng(derive_seed("pairs", job.study, job.dataset, fold, seed))
    count = job.settings.get("pairs")
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


@dataclass(frozen=True)
class TableRows:
    """Training items as rows of a table, on the CPU: a label each, and a weight, or the lists that they belong to."""

    items: Tensor
    labels: Tensor
    weights: Tensor | None
    lists: Lists | None

    def spread(self, part: Part) -> Tensor:
        """Return the row of each item of `part`, from which these rows were made."""
        items = part.items.cpu()
        return torch.arange(len(items)) if self.weights is None else torch.searchsorted(self.items, items)


def pooled_rows(part: Part, least: float | None) -> TableRows:
    """Return the distinct items of `part`, ascending, with mean relevance label and, as weight, number of occurrences.

    With `least`, labels of at least that count 1 and others 0, so the mean is the share of an item's occurrences that
    are relevant: a face that is the older one of two pairs and the younger one of a third has 2/3. A logistic or
    squared loss of these shares, weighted by the counts, differs from that of all occurrences by a constant.
    """
    items, place, counts = torch.unique(part.items.cpu(), return_inverse=True, return_counts=True)
    grades = part.relevance.cpu().to(torch.float64)
    if least is not None:
        grades = (grades >= least).to(torch.float64)
    total = torch.zeros(len(items), dtype=torch.float64).index_add_(0, place, grades)
    return TableRows(items, total / counts, counts.to(torch.float64), None)


def _single(topics: Integers, items: Integers, relevance: npt.NDArray[np.int8]) -> Split:
    """Return every item as a list of its own."""
    return Split(topics, items, relevance, np.arange(len(items) + 1))
