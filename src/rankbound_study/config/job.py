"""A training job: a model, a loss and its settings on one data set, with folds and seeds inside."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, Strict, model_validator

from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.sections.base import Fold, Keys, Problem, ProperShare, Rate, TrainingSeed, optional
from rankbound_study.config.sections.training import BoostedTreeKeys, MethodSettings, Model
from rankbound_study.vocabulary import LIST_WEIGHTS, PUBLISHED, VARIANT

TRAINER = ("optimiser", "learning_rate", "epochs", "batch_size", "temperature")
"""The settings that a bounded run's options hold side by side, and a method's under `settings`."""
RATE = "learning_rate"
"""A setting of the trainer, or of the model of trees; a list is a grid, from which every fold selects one."""


class Settings(MethodSettings):
    """The settings of a job."""

    temperature: Rate | None = optional("Temperature of the sigmoid in a smooth rank")
    list_weights: str | None = optional("Weights of the training lists, with mean 1")
    features: int | None = optional("Number of features that are drawn (absent: all)")


class ControlKeys(Keys):
    """A model without a loss."""

    name: Literal["random", "popularity", "best-feature", "oracle"] = Field(description="Name of the model")
    features: list[int] | None = optional("The best feature of each training; below 0, descending")


class TrainingJob(Keys):
    """The request of `python -m rankbound_study job`: a bounded run, or a method of a comparison.

    A bounded run's `options` have its settings side by side.

    Attributes:
        settings: of the trainer, for models that it trains: `optimiser`, `learning_rate`, `epochs`, `batch_size`,
            `temperature` of a smooth loss, `scale` of the features, `list_weights`, content of a batch (`batches`),
            and number of `pairs` per epoch. For any model: number of `features` (default: all), and random shift of
            pictures (`shift`, a share of their side; default: none).
        judged_by: the metric that selects an epoch and that tables show, if it is not the loss' own.
        method: the name of a method, the `model` of its rows in the results; empty for a bounded run.
        family: of a method: `rank`, `class` or `reg`: the kind of problem that it solves.
        target: `relevance` labels, or each item's own `value` (an age).
        crossed: every fold is trained with every seed; else folds and seeds take turns, the first fold with the first
            seed, and so on.
        test_nsr: the ratio of the test lists, if it differs from that of the training.
        test_relevant: largest number of relevant items in a test list, if limited.
        validation_share: the share of each user's training ratings for validation, if it differs from the instances'.
        distributions: how the score distributions that it reads are made, if not as usual, for the record.
    """

    model_config = ConfigDict(frozen=True)
    nullable = ("nsr",)

    study: str
    variant: str = ""
    protocol: Literal["published", "honest"]
    dataset: str
    nsr: int | None
    method: str = ""
    family: str = ""
    model: Annotated[Model | ControlKeys, Field(discriminator="name")]
    loss: str
    bounding: str
    target: Literal["relevance", "value"] = "relevance"
    settings: Settings = Settings.model_validate({})
    judged_by: str = ""
    folds: Annotated[tuple[Fold, ...], Strict(False)]
    seeds: Annotated[tuple[TrainingSeed, ...], Strict(False)]
    crossed: bool = True
    test_nsr: int | None = None
    test_relevant: int | None = None
    validation_share: ProperShare | None = None
    distributions: str = ""

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, values: Any) -> Any:
        """Gather the settings of a bounded run, which stand side by side."""
        if not isinstance(values, dict) or "method" in values or "settings" in values:
            return values
        own = {name: values[name] for name in (*TRAINER, "scale", LIST_WEIGHTS) if name in values}
        return {name: value for name, value in values.items() if name not in own} | {"settings": own}

    def problems(self) -> Iterator[Problem]:
        """Yield keys that are missing, or that the model has no use for."""
        needed: tuple[str, ...] = ()
        if self.method:
            yield from (((), f"lacks {key}") for key in ("family", "judged_by") if not getattr(self, key))
        elif isinstance(self.model, BoostedTreeKeys):
            needed = ("temperature",)
            for key in sorted(self.settings.model_fields_set - {*needed}):
                yield (key,), f"is for models that are trained by epochs, not for {self.model.name}"
        elif not isinstance(self.model, ControlKeys):
            needed = TRAINER
        yield from (((), f"lacks {key}") for key in needed if getattr(self.settings, key) is None)

    def options(self) -> dict[str, Any]:
        """Return the options from which, or from whose JSON (`of_flag`), the job is made again."""
        return self.given() if self.method else {**self.given("settings"), **self.settings.given()}

    @property
    def name(self) -> str:
        """The method's name, or loss and bounding, for messages and progress."""
        return self.method or f"{self.loss} {self.bounding}"

    @property
    def rates(self) -> list[float]:
        """The grid of learning rates, from which every fold selects one; empty without a grid."""
        rates = (self.settings.learning_rate, getattr(self.model, RATE, None))
        return next((rate for rate in rates if isinstance(rate, list)), [])

    def at(self, rate: float | None) -> "TrainingJob":
        """Return the job with one rate of its grid; None, for a job without a grid, changes nothing."""
        if rate is None:
            return self
        holder = "settings" if isinstance(self.settings.learning_rate, list) else "model"
        return self.model_copy(update={holder: getattr(self, holder).model_copy(update={RATE: rate})})

    @property
    def trainings(self) -> list[tuple[int, int]]:
        """Fold and seed of every training."""
        if self.crossed:
            return list(product(self.folds, self.seeds))
        most = max(len(self.folds), len(self.seeds))
        return [(self.folds[turn % len(self.folds)], self.seeds[turn % len(self.seeds)]) for turn in range(most)]

    def first_seeds(self, repeats: int) -> dict[tuple[int, int], int]:
        """Return for every training the seed of the first one with the same fold of the same drawing.

        Seeds take turns in `repeats` drawings of folds.
        """
        first: dict[tuple[int, int], int] = {}
        return {(fold, seed): first.setdefault((fold, seed % repeats), seed) for fold, seed in self.trainings}

    def count_trainings(self, repeats: int) -> int:
        """Return the number of trainings; the first one in each fold of each drawing tries all rates."""
        first = sum(seed == other for (_, seed), other in self.first_seeds(repeats).items())
        return first * max(1, len(self.rates)) + len(self.trainings) - first

    @property
    def trains_on_validation(self) -> bool:
        """Return whether the validation part joins the training: the published protocol splits in two only.

        Judged lists keep it apart, because LETOR's folds have a separate validation part.
        """
        return self.protocol == PUBLISHED and DataSet(self.dataset, self.nsr).sampled

    def key(self, fold: int, seed: int) -> dict[str, Any]:
        """Return the key columns that all rows of a training share."""
        stated: dict[str, Any] = {
            name: getattr(self, name) for name in ("judged_by", "test_relevant", "validation_share", "distributions")
        }
        if self.method:
            stated |= {"family": self.family, "model": self.model.name, "target": self.target}
        chosen = {name: value for name, value in stated.items() if value}
        return {
            "study": f"{self.study}{VARIANT}{self.variant}" if self.variant else self.study,
            "protocol": self.protocol,
            "dataset": self.dataset,
            "nsr_train": self.nsr,
            "nsr_test": self.nsr if self.test_nsr is None else self.test_nsr,
            "model": self.method or self.model.name,
            "options": json.dumps({**self.settings.given(), **chosen, **self.model.given("name")}, sort_keys=True),
            "loss": self.loss,
            "bounding": self.bounding,
            "fold": fold,
            "seed": seed,
        }
