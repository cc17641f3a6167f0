"""The sections of the bounded half: the model and the budget of a data set."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from rankbound_study.config.sections.base import (
    Allowed,
    Epochs,
    Keys,
    Positive,
    Problem,
    Protocol,
    Rates,
    Width,
    Widths,
)

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
