"""The experiments of a configuration: trainings of the bounded half with one setting changed.

Their runs have a separate table, and their variant is part of the study's name, so they never mix with the study's own
runs. Their random seeds are the study's, so both are paired.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankbound_study.config.list_weights import LIST_WEIGHTS
from rankbound_study.vocabulary import BOOSTED_TREES, HONEST

PROTOCOL = HONEST
"""The protocol of all experiments: a validation part selects the epoch."""

VARIANT = "@"
"""Separates the study's name from the variant's, in runs and folders: `thesis@factors-16`."""


TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change how a training is measured, not how it is done."""

OF_TRAINER = ("optimiser", "learning_rate", "epochs", "batch_size", "scale", LIST_WEIGHTS)
"""The settings of models that are trained by epochs; trees have none of them."""


@dataclass(frozen=True)
class Variant:
    """One setting of an experiment.

    Attributes:
        experiment, name: `factors`, `16`.
        datasets, losses, boundings, folds, seeds: the trainings of the variant.
        overrides: the changed settings of the training; those of the model are merged.
    """

    experiment: str
    name: str
    datasets: tuple[str, ...]
    losses: tuple[str, ...]
    boundings: tuple[str, ...]
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    overrides: Mapping[str, Any]

    @property
    def id(self) -> str:
        """`factors-16`."""
        return f"{self.experiment}-{self.name}"

    @property
    def is_a_choice(self) -> bool:
        """True if it changes a choice of the training, not the weights of lists, and is evaluated like the study."""
        return not set(self.overrides) & {*TESTING, LIST_WEIGHTS}

    @property
    def instances(self) -> tuple[str, ...]:
        """All data sets that it reads."""
        others = [other for dataset in self.datasets if (other := self.tested_on(dataset))]
        return tuple(dict.fromkeys([*self.datasets, *others]))

    def tested_on(self, dataset: str) -> str | None:
        """Return the data set with the test lists, if not its own: `movielens-nsr1` for `movielens-nsr3`."""
        nsr = self.overrides.get("test_nsr")
        return None if nsr is None else f"{dataset.rpartition('-nsr')[0]}-nsr{nsr}"

    def applied(self, training: Mapping[str, Any]) -> dict[str, Any]:
        """Return the training settings with this variant's merged over the usual ones; another model replaces it."""
        usual, changed = training["model"], self.overrides.get("model", {})
        another = changed.get("name", usual["name"]) != usual["name"]
        merged = {**training, **self.overrides, "model": dict(changed) if another else {**usual, **changed}}
        without = OF_TRAINER if merged["model"]["name"] == BOOSTED_TREES else ()
        return {key: value for key, value in merged.items() if key not in without}


def variants_of(config: Mapping[str, Any]) -> Iterator[Variant]:
    """Yield every variant that runs, in the configuration's order; unspecified settings are the study's."""
    defined = config.get("experiments") or {}
    for experiment in config.get("experiment", defined):
        section = {
            **{key: config[key] for key in ("losses", "boundings", "folds")},
            "seeds": config["seeds"].get(PROTOCOL, [0]),
            **defined[experiment],
        }
        axes = {key: tuple(section[key]) for key in ("datasets", "losses", "boundings", "folds", "seeds")}
        for name, overrides in section["variants"].items():
            yield Variant(experiment, name, **axes, overrides=overrides)
