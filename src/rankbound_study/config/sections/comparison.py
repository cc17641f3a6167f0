"""The sections of comparisons, and the settings of trainings."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from rankbound_study.config.comparisons import method_settings
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
    Rate,
    Rates,
    Share,
    TrainingSeed,
    Width,
    Widths,
)
from rankbound_study.config.sections.data import ImageKeys

Scale = Annotated[str, Allowed("standard", "none")]


class MatrixFactorizationKeys(Keys):
    """A vector for each topic and each item."""

    name: Literal["matrix-factorization"] = Field(description="Name of the model")
    factors: Width = Field(description="Length of a topic's or item's vector")


class NetworkKeys(Keys):
    """A network of the items' features."""

    name: Literal["mlp"] = Field(description="Name of the model")
    hidden: Widths = Field(description="Width of each hidden layer")


class TrainerSettings(Keys):
    """The settings of every trainer that a comparison, a method or a variant changes."""

    optimiser: Annotated[str, Allowed("adam", "sgd")] | None = Field(
        None, description="Adam, or plain stochastic gradient descent"
    )
    learning_rate: Rates | None = Field(None, description="Learning rate of the optimiser, or a grid of rates")
    epochs: Epochs | None = Field(None, description="Number of epochs, of which the validation part selects one")
    batch_size: Positive | None = Field(None, description="Lists, pairs or items in a batch")


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


class LinearKeys(Keys):
    """A weight for each feature."""

    name: Literal["linear"] = Field(description="Name of the model")


class ConvolutionKeys(Keys):
    """A network of pictures."""

    name: Literal["cnn"] = Field(description="Name of the model")
    side: Width | None = Field(None, description="Side of the pictures that a cnn reads")
    channels: Widths | None = Field(None, description="Channels of the pictures, and after each convolution")
    kernel: Width | None = Field(None, description="Side of the filters of a cnn")
    hidden: Widths | None = Field(None, description="Width of each hidden layer")


LAMBDARANK_NORM = "Normalise the gradients of the LambdaRank loss by query, as LightGBM does by default"


class TreeOptions(Keys):
    """The options that every ensemble of trees has a value for by default."""

    leaves: int | None = Field(None, ge=2, le=2**17, description="Largest number of leaves of a tree")
    min_rows: Positive | None = Field(None, description="Smallest number of rows in a leaf")
    feature_share: Share | None = Field(None, description="Share of the features that each tree may use")
    bins: int | None = Field(None, ge=2, le=2**16 - 1, description="Number of values that a feature is rounded to")


class TreeKeys(TreeOptions):
    """The options of all ensembles of trees."""

    rounds: Epochs = Field(description="Trees to grow, of which the validation part selects the number")
    every: Positive = Field(description="Trees between measurements")


class BoostedTreeKeys(TreeKeys):
    """Trees that each correct those before."""

    name: Literal["boosted-trees"] = Field(description="Name of the model")
    learning_rate: Rates | None = Field(None, description="Learning rate of boosting, or a grid of rates")
    lambdarank_norm: bool | None = Field(None, description=LAMBDARANK_NORM)


class RandomForestKeys(TreeKeys):
    """The mean of independent trees."""

    name: Literal["random-forest"] = Field(description="Name of the model")
    row_share: Share | None = Field(None, description="Share of the rows for each tree of a forest")


class PenalisedKeys(Keys):
    """A penalised linear regression."""

    name: Literal["lasso", "ridge"] = Field(description="Name of the model")
    penalties: list[Rate] = Field(
        min_length=1,
        description="Path of penalties from strong to weak, of which the validation part selects one",
    )


Model = Annotated[
    NetworkKeys | LinearKeys | ConvolutionKeys | BoostedTreeKeys | RandomForestKeys | PenalisedKeys,
    Field(discriminator="name"),
]


class MethodSettings(TrainerSettings):
    """The settings of a method's trainer."""

    nullable = ("pairs", "shift")

    batches: Annotated[str, Allowed("lists", "pairs", "items")] | None = Field(
        None, description="Content of a batch: whole lists, pairs within them, or single items"
    )
    pairs: Positive | None = Field(None, description="Pairs drawn per epoch (null: all)")
    scale: Scale | None = Field(
        None, description="Features standardised by the training items (pixels: by channel), or as they are"
    )
    shift: Annotated[float, Field(gt=0, le=0.5)] | None = Field(
        None, description="Largest random shift of every picture, as a share of its side (null: none)"
    )


class MethodKeys(Keys):
    """A model, a loss and settings."""

    family: Annotated[str, Allowed("rank", "class", "reg")] = Field(
        description="Ranks items, classifies them as relevant or not, or estimates their values"
    )
    model: Model = Field(description="The model to fit")
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
                for key in [key for key in TrainerSettings.model_fields if key not in self._settings_of(method)]:
                    yield (
                        ("methods", name),
                        f"is trained without {key}: neither its settings nor the comparison's have one",
                    )

    def data_problems(self, defined: Mapping[str, Instances], images: Mapping[str, ImageKeys]) -> Iterator[Problem]:
        """Yield data sets that nothing defines, and those that the methods cannot use."""
        moved = [name for name, method in self.methods.items() if self._settings_of(method).get("shift")]
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

    def _settings_of(self, method: MethodKeys) -> dict[str, Any]:
        return method_settings(self.model_dump(exclude_unset=True), method.model_dump(exclude_unset=True))
