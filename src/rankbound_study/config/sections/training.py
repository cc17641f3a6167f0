"""Models and settings of trainings, in a configuration and in the options of a training job."""

from typing import Annotated, Literal

from pydantic import Field

from rankbound_study.config.sections.base import (
    AsWritten,
    Epochs,
    Keys,
    Positive,
    Rate,
    Rates,
    Share,
    Width,
    Widths,
    allowed,
    optional,
)

Scale = Annotated[str, allowed("standard", "none")]
BIASES = ("none", "item")
"""Those of the library's factorisation, which a configuration is checked without."""
Bias = Annotated[str, allowed(*BIASES)]
Activation = Annotated[str, allowed("relu", "sigmoid", "tanh")]


class MatrixFactorizationKeys(Keys):
    """A vector for each topic and each item."""

    name: Literal["matrix-factorization"] = Field(description="Name of the model")
    factors: Width = Field(description="Length of a topic's or item's vector")
    spread: Rate | None = optional("Largest absolute initial value of the factors, which start uniform")
    bias: Bias | None = optional("A bias of each item, by which it ranks higher or lower for all topics (absent: none)")


class NetworkKeys(Keys):
    """A network of the items' features."""

    name: Literal["mlp"] = Field(description="Name of the model")
    hidden: Widths = Field(description="Width of each hidden layer")
    activation: Activation | None = optional("Activation after each hidden layer")


class LinearKeys(Keys):
    """A weight for each feature."""

    name: Literal["linear"] = Field(description="Name of the model")


class ConvolutionKeys(Keys):
    """A network of pictures."""

    name: Literal["cnn"] = Field(description="Name of the model")
    side: Width | None = optional("Side of the pictures that a cnn reads")
    channels: Widths | None = optional("Channels of the pictures, and after each convolution")
    kernel: Width | None = optional("Side of the filters of a cnn")
    hidden: Widths | None = optional("Width of each hidden layer")


class TreeKeys(Keys):
    """The options of all ensembles of trees."""

    leaves: int | None = Field(None, ge=2, le=2**17, description="Largest number of leaves of a tree")
    min_rows: Positive | None = optional("Smallest number of rows in a leaf")
    feature_share: Share | None = optional("Share of the features that each tree may use")
    bins: int | None = Field(None, ge=2, le=2**16 - 1, description="Number of values that a feature is rounded to")
    rounds: Epochs = Field(description="Trees to grow, of which the validation part selects the number")
    every: Positive = Field(description="Trees between measurements")


class BoostedTreeKeys(TreeKeys):
    """Trees that each correct those before."""

    name: Literal["boosted-trees"] = Field(description="Name of the model")
    learning_rate: Rates | None = optional("Learning rate of boosting, or a grid of rates")
    lambdarank_norm: bool | None = optional(
        "Normalise the gradients of the LambdaRank loss by query, as LightGBM does by default"
    )


class RandomForestKeys(TreeKeys):
    """The mean of independent trees."""

    name: Literal["random-forest"] = Field(description="Name of the model")
    row_share: Share | None = optional("Share of the rows for each tree of a forest")


class PenalisedKeys(Keys):
    """A penalised linear regression."""

    name: Literal["lasso", "ridge"] = Field(description="Name of the model")
    penalties: list[Rate] = Field(
        min_length=1,
        description="Path of penalties from strong to weak, of which the validation part selects one",
    )


OF_METRICS = ("adarank", "coordinate-ascent")
"""The rankers that maximise the metric of their loss, with its bounding."""


RankerName = Literal["ranksvm", "adarank", "rankboost", "coordinate-ascent", "subset-ranking", "prank", "mcrank"]


class RankerKeys(Keys):
    """A ranker of the library that is fitted without gradients of a loss; the options are those of its recipes."""

    nullable = ("cost",)

    name: RankerName = Field(description="Name of the model")
    cost: Rate | None = optional("ranksvm, subset-ranking: the factor of the loss (null: by validation)")
    pair_weights: Annotated[str, allowed("equal", "list")] | None = optional(
        "ranksvm, rankboost: all pairs weigh the same, or all lists"
    )
    starts: Positive | None = optional("coordinate-ascent: number of initial weights")
    classification: Annotated[str, allowed("multiclass", "ordinal")] | None = optional(
        "mcrank: one classifier of all labels, or one for each"
    )
    leaves: int | None = Field(None, ge=2, le=2**17, description="mcrank: largest number of leaves of a tree")


Bounded = MatrixFactorizationKeys | NetworkKeys | LinearKeys | BoostedTreeKeys
"""The models of the bounded half and its experiments."""

Method = NetworkKeys | LinearKeys | ConvolutionKeys | BoostedTreeKeys | RandomForestKeys | PenalisedKeys | RankerKeys
Model = MatrixFactorizationKeys | Method


class TrainerSettings(Keys):
    """The settings of every trainer that a comparison, a method or a variant changes."""

    optimiser: Annotated[str, allowed("adam", "sgd")] | None = optional("Adam, or plain stochastic gradient descent")
    learning_rate: Rates | None = optional("Learning rate of the optimiser, or a grid of rates")
    epochs: Epochs | None = optional("Number of epochs, of which the validation part selects one")
    batch_size: Positive | None = optional("Lists, pairs or items in a batch")


class MethodSettings(TrainerSettings):
    """The settings of a method's trainer."""

    nullable = ("pairs", "shift")

    batches: Annotated[str, allowed("lists", "pairs", "items")] | None = optional(
        "Content of a batch: whole lists, pairs within them, or single items"
    )
    pairs: Positive | None = optional("Pairs drawn per epoch (null: all)")
    scale: Scale | None = optional("Features standardised by the training items (pixels: by channel), or as they are")
    shift: Annotated[float, Field(gt=0, le=0.5), AsWritten] | None = optional(
        "Largest random shift of every picture, as a share of its side (null: none)"
    )
