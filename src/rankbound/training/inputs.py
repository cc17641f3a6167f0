"""The interface of what a ranker's model reads: features of items, or the names of topics and items."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from rankbound.training.parts import Part, Scorer
from rankbound.training.ranker import Ranker
from rankbound.training.recipe import Recipe

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists


class Inputs(ABC):
    """The input of a model from judged lists, split into training and validation.

    Attributes:
        recipe: the settings of the training.
        training, held_out: the lists to train on, and those that select the epoch, if any.

    Raises:
        DataError: the lists do not fit the model, or each other.
    """

    recipe: Recipe
    training: Part
    held_out: Part | None

    @abstractmethod
    def __init__(self, lists: "JudgedLists", validation: "JudgedLists | None", recipe: Recipe) -> None: ...

    @abstractmethod
    def build(self, generator: torch.Generator, device: torch.device) -> tuple[nn.Module, Scorer]:
        """Return the model with initial weights, on a device, and its scorer of parts."""

    @abstractmethod
    def ranker(self, model: nn.Module, record: Mapping[str, Any]) -> Ranker:
        """Return the trained model as a ranker."""
