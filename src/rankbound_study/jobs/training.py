"""One training of a job: its fold and seed, and what its model reads and learns."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound.training.trainer import Draw, Part, worth_a_kernel
from rankbound_study.jobs.examples import ValueScale, examples_of, value_examples
from rankbound_study.jobs.feature_columns import FeatureColumns, narrowed
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import FoldParts, StudyData


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
        if job.target == "value":
            examples, values = value_examples(job, seen, fold)
            return cls(fold=fold, seed=seed, data=seen, parts=parts, examples=examples, columns=columns, values=values)
        drawn = examples_of(job, seen, parts, fold, seed)
        return cls(fold=fold, seed=seed, data=seen, parts=parts, examples=drawn, columns=columns, values=None)

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
        return worth_a_kernel(job.settings.get("epochs", 0), self.parts.training.lists.n_items)

    def tensors(self) -> dict[str, Tensor]:
        """Return the numbers besides the model's own that its scores depend on, by name."""
        scale = self.values.tensors() if self.values else {}
        return scale | ({"features.columns": self.columns.indices} if self.columns else {})
