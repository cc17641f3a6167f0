"""What a training leaves: a record of every epoch, and the models of the epochs that were picked."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

LAST = "last"
"""The selection that is always made: the last epoch."""


@dataclass(frozen=True)
class Epoch:
    """What is kept of each epoch: the mean training loss, the mean gradient norm, the parts' mean metrics."""

    number: int
    loss: float
    gradient_norm: float
    metrics: Mapping[str, Mapping[str, float]]


@dataclass
class Selected:
    """The model of the chosen epoch."""

    epoch: int
    score: float
    weights: dict[str, Tensor]


@dataclass
class Trained:
    """The record of one training: all epochs, and the chosen model of each selection."""

    epochs: list[Epoch] = field(default_factory=list)
    selected: dict[str, Selected] = field(default_factory=dict)
