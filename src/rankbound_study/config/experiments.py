"""The experiments of a configuration: trainings of the bounded half in which one setting is another one.

Their runs have a table of their own, and their variant in the study's name: what they vary never mixes with the study's
own runs. Their random seeds are the study's, so that both are paired.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankbound_study.vocabulary import HONEST

PROTOCOL = HONEST
"""Experiments ask what a setting changes: a validation part picks the epoch."""

VARIANT = "@"
"""Stands before a variant's name, in the study of its runs and in their folder: `thesis@factors-16`."""


TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change what a training is measured by, not how it goes."""


@dataclass(frozen=True)
class Variant:
    """One setting of an experiment.

    Attributes:
        experiment, name: `factors`, `16`.
        datasets, losses, bounds, folds, seeds: what is trained with it.
        overrides: what of the training is another one; those of the model are merged.
    """

    experiment: str
    name: str
    datasets: tuple[str, ...]
    losses: tuple[str, ...]
    bounds: tuple[str, ...]
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    overrides: Mapping[str, Any]

    @property
    def id(self) -> str:
        """`factors-16`."""
        return f"{self.experiment}-{self.name}"

    @property
    def is_a_choice(self) -> bool:
        """Whether it only trains in another way than the study, and is measured as the study is."""
        return not set(self.overrides) & set(TESTING)

    @property
    def instances(self) -> tuple[str, ...]:
        """All data sets that it reads."""
        others = [other for one in self.datasets if (other := self.tested_on(one))]
        return tuple(dict.fromkeys([*self.datasets, *others]))

    def tested_on(self, dataset: str) -> str | None:
        """The data set whose test lists take the place of a data set's own: `movielens-nsr1` of `movielens-nsr3`."""
        nsr = self.overrides.get("test_nsr")
        return None if nsr is None else f"{dataset.rpartition('-nsr')[0]}-nsr{nsr}"

    def applied(self, training: Mapping[str, Any]) -> dict[str, Any]:
        """How a model is trained, with this variant's settings over the usual ones."""
        model = {**training["model"], **self.overrides.get("model", {})}
        return {**training, **self.overrides, "model": model}


def variants_of(config: Mapping[str, Any]) -> Iterator[Variant]:
    """Every variant that runs, in the configuration's order; what an experiment leaves out is as in the study."""
    defined = config.get("experiments") or {}
    for experiment in config.get("experiment", defined):
        section = {
            **{key: config[key] for key in ("losses", "bounds", "folds")},
            "seeds": config["seeds"].get(PROTOCOL, [0]),
            **defined[experiment],
        }
        axes = {key: tuple(section[key]) for key in ("datasets", "losses", "bounds", "folds", "seeds")}
        for name, overrides in section["variants"].items():
            yield Variant(experiment, name, **axes, overrides=overrides)
