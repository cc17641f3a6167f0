"""Features of items as the input of a ranker's model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.judged import no_features
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed, quantity
from rankbound.training.feature_scaling import ROWS_AT_ONCE, ScaledFeatures, Scaling
from rankbound.training.inputs import Inputs
from rankbound.training.parts import Part, Scorer
from rankbound.training.ranker import Ranker
from rankbound.training.recipe import FACTORIZATION, Recipe
from rankbound.training.splits import require_apart

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists


class FeatureInputs(Inputs):
    """Scaled features; a share of the topics is held out, unless there are validation lists."""

    def __init__(self, lists: "JudgedLists", validation: "JudgedLists | None", recipe: Recipe) -> None:
        if not lists.feature_names:
            raise DataError(
                no_features(lists.left_out, f", which model {recipe.model} reads")
                + f"; from topics and items alone, train model {FACTORIZATION}"
            )
        self.recipe = recipe
        self._lists, self._validation = lists, validation
        self.training, self.held_out = _parts(lists, validation, recipe)

    def build(self, generator: torch.Generator, device: torch.device) -> tuple[nn.Module, Scorer]:
        features = column_tensor(self._lists.features, "features")
        self._scaling = Scaling.fitted(self.recipe.scale, features, self.training.items)
        trained_on = _scaled(self._scaling, self._lists, device)
        measured_on = trained_on if self._validation is None else _scaled(self._scaling, self._validation, device)
        model = self.recipe.build(len(self._lists.feature_names), generator).to(device)
        return model, _scorer(trained_on, measured_on)

    def ranker(self, model: nn.Module, record: Mapping[str, Any]) -> Ranker:
        return Ranker(self.recipe, list(self._lists.feature_names), self._scaling, model, record)


def _parts(lists: "JudgedLists", validation: "JudgedLists | None", recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the training and the validation part; the items of each are rows of its own file's features."""
    all_lists = _part(lists)
    if validation is not None:
        if list(validation.feature_names) != list(lists.feature_names):
            raise DataError("the validation lists have other features than the training lists")
        require_apart({"training": lists, "validation": validation}, by_item=False)
        return all_lists, _part(validation)
    if recipe.validation_share == 0:
        return all_lists, None
    count = len(all_lists.lists)
    if count < 2:
        raise DataError(
            f"found {quantity(count, 'topic')}, expected two or more, to train and to validate; or a share of 0"
        )
    held = min(max(round(recipe.validation_share * count), 1), count - 1)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed("validation", recipe.seed)))
    picked = [part.sort().values for part in (shuffled[held:], shuffled[:held])]
    training, held_out = (
        replace(all_lists.batch(index), names=[all_lists.names[at] for at in index.tolist()]) for index in picked
    )
    return training, held_out


def _part(lists: "JudgedLists") -> Part:
    relevance, topics = as_tensor(lists.relevance, "relevance"), torch.arange(len(lists.topics))
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, _lists(lists))


def _lists(lists: "JudgedLists") -> Lists:
    return Lists(as_tensor(lists.offsets, "offsets"))


def _scaled(scaling: Scaling, lists: "JudgedLists", device: torch.device) -> ScaledFeatures:
    features = column_tensor(lists.features, "features").to(device)
    return ScaledFeatures(scaling, features, Lists(_lists(lists).offsets.to(device)))


def _scorer(trained_on: ScaledFeatures, measured_on: ScaledFeatures) -> Callable[[nn.Module, Part], Tensor]:
    """Return a scorer that reads a batch at once, and the measured lists a block of rows at a time."""

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            scores: Tensor = model(trained_on.of_rows(part.items))
            return scores
        return torch.cat([model(measured_on.of_rows(rows)) for rows in torch.split(part.items, ROWS_AT_ONCE)])

    return score
