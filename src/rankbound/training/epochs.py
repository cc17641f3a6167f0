"""The results of a training: a record of every epoch, and the models of the selected epochs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

LAST = "last"
"""The name of the last epoch's selection, which is always made."""


@dataclass(frozen=True)
class Epoch:
    """The record of an epoch: mean training loss, mean gradient norm, and the mean metrics of each part."""

    number: int
    loss: float
    gradient_norm: float
    metrics: Mapping[str, Mapping[str, float]]


@dataclass
class Selected:
    """The model of the selected epoch, with its validation score (NaN for the last epoch)."""

    epoch: int
    score: float
    weights: dict[str, Tensor]


@dataclass
class Trained:
    """The record of a training: all epochs, and the model of each selection."""

    epochs: list[Epoch] = field(default_factory=list)
    selected: dict[str, Selected] = field(default_factory=dict)
