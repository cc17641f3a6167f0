"""The experiments of a configuration: trainings of the bounded half with one setting changed.

Their runs have a separate table, and their variant is part of the study's name, so they never mix with the study's own
runs. Their random seeds are the study's, so both are paired.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbound_study.config.list_weights import LIST_WEIGHTS

if TYPE_CHECKING:
    from rankbound_study.config.sections.experiment import VariantKeys

VARIANT = "@"
"""Separates the study's name from the variant's, in runs and folders: `thesis@factors-16`."""

TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change how a training is measured, not how it is done."""


@dataclass(frozen=True)
class Variant:
    """One setting of an experiment.

    Attributes:
        experiment, name: `factors`, `16`.
        datasets, losses, boundings, folds, seeds: the trainings of the variant.
        changes: the changed settings of the training; those of the model are merged.
    """

    experiment: str
    name: str
    datasets: list[str]
    losses: list[str]
    boundings: list[str]
    folds: list[int]
    seeds: list[int]
    changes: "VariantKeys"

    @property
    def id(self) -> str:
        """`factors-16`."""
        return f"{self.experiment}-{self.name}"

    @property
    def is_a_choice(self) -> bool:
        """True if it changes a choice of the training, not the weights of lists, and is evaluated like the study."""
        return not self.changes.model_fields_set & {*TESTING, LIST_WEIGHTS}

    @property
    def instances(self) -> list[str]:
        """All data sets that it reads."""
        others = [other for dataset in self.datasets if (other := self.tested_on(dataset))]
        return list(dict.fromkeys([*self.datasets, *others]))

    def tested_on(self, dataset: str) -> str | None:
        """Return the data set with the test lists, if not its own: `movielens-nsr1` for `movielens-nsr3`."""
        nsr = self.changes.test_nsr
        return None if nsr is None else f"{dataset.rpartition('-nsr')[0]}-nsr{nsr}"
