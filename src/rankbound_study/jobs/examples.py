"""What a method of a comparison learns from: a fold's training lists whole, as pairs, as single items, or as values."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.seeds import derive_seed
from rankbound.training.parts import Draw, Part
from rankbound_study.data.list_pairs import pairs_of_lists
from rankbound_study.data.reader import Split
from rankbound_study.jobs.method_job import BATCHES, MethodJob
from rankbound_study.jobs.parts import StudyData


@dataclass(frozen=True)
class ValueScale:
    """Values in units of the training items' deviation, from their mean: what a regression learns."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Tensor) -> "ValueScale":
        """The scale of the training items' values; equal values keep the deviation 1."""
        exact = values.to(torch.float64)
        return cls(float(exact.mean()), float(exact.std(correction=0)) or 1.0)

    def scaled(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.deviation

    def restored(self, scores: Tensor) -> Tensor:
        """Scores in the values' own unit."""
        return scores * self.deviation + self.mean

    def tensors(self) -> dict[str, Tensor]:
        """For a file of tensors."""
        return {"target.mean": torch.tensor(self.mean), "target.deviation": torch.tensor(self.deviation)}


def examples_of(job: MethodJob, data: StudyData, fold: int, seed: int) -> Part | Draw:
    """The training lists of `fold` as the job's batches take them."""
    split = data.instances.split(fold, "train")
    batches = job.settings.get("batches", "lists")
    if batches == "lists":
        return data.part(split)
    if batches == "items":
        return data.part(as_single_items(split))
    if batches != "pairs":
        raise ConfigError(f"settings: batches is {batches!r}, expected one of {', '.join(BATCHES)}")
    random = np.random.default_rng(derive_seed("pairs", job.study, job.dataset, fold, seed))
    count = job.settings.get("pairs")
    if count is None:
        return data.part(pairs_of_lists(split, None, random))
    return lambda: data.part(pairs_of_lists(split, count, random))


def as_single_items(split: Split) -> Split:
    """Every item a list of its own."""
    count = len(split.items)
    return Split(np.repeat(split.topics, split.sizes), split.items, split.relevance, np.arange(count + 1))


def value_examples(job: MethodJob, data: StudyData, split: Split) -> tuple[Part, ValueScale]:
    """The distinct items of the lists, each a list of its own, with their scaled values in the grades' place.

    An item that many lists share counts once: a regression learns items, not lists.
    """
    if data.values is None:
        raise ConfigError(f"target: {job.method} learns the items' values, which the data set {job.dataset} has not")
    items, first = np.unique(split.items, return_index=True)
    topics = np.repeat(split.topics, split.sizes)[first]
    single = Split(topics, items, np.zeros(len(items), np.int8), np.arange(len(items) + 1))
    part = data.part(single)
    values = data.values.index_select(0, part.items)
    scale = ValueScale.of(values)
    return replace(part, relevance=scale.scaled(values)), scale


@dataclass(frozen=True)
class Rows:
    """Training items as rows of a table, on the CPU: a label each, and a weight, or the lists that they stand in."""

    items: Tensor
    labels: Tensor
    weights: Tensor | None
    lists: Lists | None

    def spread(self, part: Part) -> Tensor:
        """The row of each item of `part`, from which these rows were made."""
        items = part.items.cpu()
        return torch.arange(len(items)) if self.weights is None else torch.searchsorted(self.items, items)


def pooled_rows(part: Part, least: float | None) -> Rows:
    """The distinct items of `part`, ascending, each with its mean grade and, as weight, how often it occurs.

    With `least`, grades of at least that count 1 and others 0, so that the mean is the share of an item's occurrences
    that are relevant: a face that is the older one of two pairs and the younger one of a third has 2/3. A logistic or
    squared loss of these shares, weighed by the counts, differs from that of all occurrences by a constant.
    """
    items, place, counts = torch.unique(part.items.cpu(), return_inverse=True, return_counts=True)
    grades = part.relevance.cpu().to(torch.float64)
    if least is not None:
        grades = (grades >= least).to(torch.float64)
    total = torch.zeros(len(items), dtype=torch.float64).index_add_(0, place, grades)
    return Rows(items, total / counts, counts.to(torch.float64), None)
