"""The sections of trainings and comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from rankbound_study.config.comparisons import OF_FEATURES
from rankbound_study.config.data_sets import Instances
from rankbound_study.config.lines import nearest
from rankbound_study.config.sections.base import (
    Allowed,
    Axis,
    Epochs,
    Fold,
    Keys,
    Loss,
    Name,
    Positive,
    Problem,
    Protocol,
    Rates,
    TrainingSeed,
)
from rankbound_study.config.sections.data import ImageKeys
from rankbound_study.config.sections.training import (
    BoostedTreeKeys,
    ConvolutionKeys,
    LinearKeys,
    MatrixFactorizationKeys,
    Method,
    MethodSettings,
    NetworkKeys,
    PenalisedKeys,
    RandomForestKeys,
    Scale,
    TrainerSettings,
)


class TrainingKeys(Keys):
    """The model of a data set and its budget, the same for all losses and boundings."""

    model: Annotated[MatrixFactorizationKeys | NetworkKeys, Field(discriminator="name")] = Field(
        description="The model to train"
    )
    learning_rate: dict[Protocol, Rates] = Field(
        min_length=1, description="Adam's learning rate, or a grid from which every fold selects one, by protocol"
    )
    epochs: Epochs = Field(description="Number of epochs, of which the protocol selects one")
    batch_size: Positive = Field(description="Lists in a batch")
    scale: Scale | None = Field(
        None, description="Features standardised by the training items, or (absent, none) as they are"
    )

    def problems(self) -> Iterator[Problem]:
        """Yield a scale of features for a model that reads none."""
        if self.scale is not None and self.model.name == "matrix-factorization":
            yield ("scale",), "is for models that read features: remove it"


class MethodKeys(Keys):
    """A model, a loss and settings."""

    family: Annotated[str, Allowed("rank", "class", "reg")] = Field(
        description="Ranks items, classifies them as relevant or not, or estimates their values"
    )
    model: Annotated[Method, Field(discriminator="name")] = Field(description="The model to fit")
    loss: Loss = Field(description="The loss, as the library names it")
    target: Annotated[str, Allowed("relevance", "value")] | None = Field(
        None, description="The training target: relevance labels, or the items' own values (ages)"
    )
    settings: MethodSettings | None = Field(
        None, description="Settings that take precedence over the comparison's; null removes one"
    )

    def problems(self) -> Iterator[Problem]:
        """Yield losses and targets that the model does not take."""
        if isinstance(self.model, RandomForestKeys | PenalisedKeys) and self.loss != "squared":
            yield ("loss",), f"is {self.loss!r}: {self.model.name} requires squared"
        if isinstance(self.model, PenalisedKeys) and self.target != "value":
            yield (), "is a regression: it needs target: value"


class ComparisonKeys(Keys):
    """Methods that are compared on data sets."""

    datasets: Axis[Name] = Field(description="Data sets as training reads them: mq2008-label1, aaf, aaf-vgg16")
    judged_by: Annotated[str, Allowed("nDCG", "nDCG@10", "AP", "PairAccuracy")] = Field(
        description="The metric that selects an epoch on the validation part"
    )
    feature_counts: Axis[Positive] | None = Field(
        None,
        description="Numbers of randomly drawn feature columns; every method runs once per number; ascending",
    )
    folds: Axis[Fold] = Field(description="Folds that run")
    seeds: Axis[TrainingSeed] = Field(description="Repetitions of every training")
    settings: MethodSettings | None = Field(None, description="Settings of the trainer, unless a method has its own")
    methods: dict[
        Annotated[
            str,
            Allowed(
                pattern="[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*",
                expected="a name of letters, digits and hyphens that starts with a capital, such as Rank-LR",
            ),
        ],
        MethodKeys,
    ] = Field(min_length=1, description="Models and losses by name")

    def problems(self) -> Iterator[Problem]:
        """Yield numbers of features out of order, and networks without settings of their trainer."""
        counts = self.feature_counts or []
        if counts != sorted(counts):
            yield ("feature_counts",), f"is {counts}: expected ascending numbers, {sorted(counts)}"
        for name, method in self.methods.items():
            if counts and isinstance(method.model, ConvolutionKeys):
                yield (
                    ("methods", name),
                    "is a cnn, which reads whole pictures, not some of their pixels (feature_counts): remove it from "
                    "this comparison",
                )
            if isinstance(method.model, NetworkKeys | LinearKeys | ConvolutionKeys):
                for key in [key for key in TrainerSettings.model_fields if key not in self.settings_of(method)]:
                    yield (
                        ("methods", name),
                        f"is trained without {key}: neither its settings nor the comparison's have one",
                    )

    def data_problems(self, defined: Mapping[str, Instances], images: Mapping[str, ImageKeys]) -> Iterator[Problem]:
        """Yield data sets that nothing defines, and those that the methods cannot use."""
        moved = [name for name, method in self.methods.items() if self.settings_of(method).get("shift")]
        for position, name in enumerate(self.datasets):
            where = ("datasets", position)
            if name not in defined:
                yield where, f"is {name!r}, which nothing defines{nearest(name, list(defined))}"
                continue
            instances = defined[name]
            if instances.data_set.sampled:
                yield where, f"is {name!r}: methods read features, and ratings have none"
            if moved and (instances.kind != "images" or instances.features):
                yield ("methods", moved[0]), f"has the setting shift, which moves pictures: {name} has no pixels"
            if instances.kind == "images":
                there = images[instances.source].folds
                if max(self.folds) > there:
                    yield ("folds",), f"has {max(self.folds)}, but images.{instances.source} makes {there}"
                if instances.features and images[instances.source].vgg16_side is None:
                    yield where, f"is {name!r}, which needs images.{instances.source}.vgg16_side"
                continue
            for method in [method for method, own in self.methods.items() if own.target == "value"]:
                yield ("methods", method, "target"), f"is value: items of {name} have only relevance labels"

    def trained(self) -> Iterator[tuple[str, str, MethodKeys, int | None]]:
        """Yield each method with its names in the results and here; with `feature_counts`, once for each count."""
        for name, method in self.methods.items():
            counts: Sequence[int | None] = self.feature_counts or (None,)
            for count in counts:
                yield name if count is None else f"{name}{OF_FEATURES}{count}", name, method, count

    def settings_of(self, method: MethodKeys) -> dict[str, Any]:
        """Return the comparison's settings with the method's own merged over them; null removes one.

        Trees and penalised regressions have no trainer; only moved pictures and the features' scale apply to them.
        """
        merged = {key: value for own in (self.settings, method.settings) if own for key, value in own.given().items()}
        kept = {PenalisedKeys: ("scale", "shift"), BoostedTreeKeys: ("shift",), RandomForestKeys: ("shift",)}
        names = kept.get(type(method.model), tuple(merged))
        return {key: value for key, value in merged.items() if value is not None and key in names}
