"""Rankers of features that are fitted without gradients of a loss: the door to `rankbound.rankers`."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import nn

from rankbound.errors import DataError
from rankbound.losses import RankingLoss, SmoothLoss, loss
from rankbound.metrics import Metric
from rankbound.rankers import Columns, Model, Selection, ensembles, linear
from rankbound.texts import derive_seed
from rankbound.training.models import ROWS_AT_ONCE, Steps
from rankbound.training.recipe import TREES, Recipe, build
from rankbound.training.trainer import Epoch, Part, Scorer

FITS: Mapping[str, Callable[..., dict[str, float] | None]] = {
    "ranksvm": linear.fit_svm,
    "adarank": ensembles.fit_adarank,
    "rankboost": ensembles.fit_rankboost,
    "coordinate-ascent": linear.fit_coordinate_ascent,
    "subset-ranking": linear.fit_subset_ranking,
    "prank": linear.fit_prank,
    **dict.fromkeys(TREES, ensembles.fit_trees),
}
"""What fits each model; the names of its settings are those of a recipe."""


def objective_of(recipe: Recipe) -> RankingLoss:
    """Return the loss whose informative lists a model trains on; ValueError for one that is none of its."""
    if not recipe.takes_loss:
        # Regressions and classifications learn from lists of one grade; bins of features are of all items.
        return loss("squared" if recipe.model in ("subset-ranking", "prank", *TREES) else "hinge")
    objective = loss(recipe.loss, recipe.bound, recipe.temperature)
    if recipe.model in ("adarank", "coordinate-ascent"):
        if not isinstance(objective, SmoothLoss):
            raise ValueError(f"loss: found {recipe.loss} beside {recipe.model}, which maximises a metric, such as AP")
        if not objective.metric.higher_is_better:
            raise ValueError(f"loss: found {recipe.loss}, of which lower is better; expected a metric to maximise")
    return objective


def fit(
    recipe: Recipe,
    objective: RankingLoss,
    training: Part,
    held_out: Part | None,
    score: Scorer,
    criterion: Metric,
    on_epoch: Callable[[Epoch], None],
) -> tuple[nn.Module, dict[str, Any]]:
    """Return the model of a recipe, and the record of its fit to lists that are all informative, of positive weight.

    The objective is that of `objective_of`; the criterion on the lists that are held out selects the epoch.

    Raises:
        ValueError: a cost is to be chosen, and there are no validation lists, or `prank` has weights of lists.
        DataError: a classification has one class, or LambdaMART grades that are no whole numbers.
    """
    epochs: list[Epoch] = []

    def report(number: int, training_loss: float, validation: float | None) -> None:
        metrics = {} if validation is None else {"validation": {str(criterion): validation}}
        epochs.append(Epoch(number, training_loss, math.nan, metrics))
        on_epoch(epochs[-1])

    columns = columns_of(score, training)
    with torch.no_grad():
        selection = Selection(None if held_out is None else columns_of(score, held_out), criterion, report)
    record = fit_columns(recipe, objective, columns, selection)
    model = model_of(recipe, selection.model, len(columns.values))
    record |= {"epoch": selection.epoch, "validation": None if held_out is None else selection.validation}
    # A Ranking SVM's are numbered by Newton steps, of which only the last one of each cost has a model.
    if held_out is not None and [epoch.number for epoch in epochs] == list(range(1, len(epochs) + 1)):
        values = [epoch.metrics["validation"][str(criterion)] for epoch in epochs]
        record["curves"] = {"loss": [epoch.loss for epoch in epochs], "validation": values}
    return model, record


def fit_columns(recipe: Recipe, objective: RankingLoss, columns: Columns, selection: Selection) -> dict[str, Any]:
    """Fit a recipe's ranker, offer the selection its model after every epoch, and return the record, as `fit`."""
    if recipe.model in ("ranksvm", "subset-ranking") and recipe.cost is None and selection.held_out is None:
        raise ValueError(
            "cost: found none, and no validation topics that choose it: expected a cost, such as 1, or validation "
            "lists, or a validation_share above 0"
        )
    if recipe.model == "prank" and len(np.unique(columns.shares)) > 1:
        raise ValueError("list_weights: found different ones beside the model prank, whose steps are the same for all")
    if recipe.model in ("prank", "mcrank") and len(np.unique(columns.relevance)) < 2:
        raise DataError(f"relevance: found {columns.relevance[0]:g} alone in training, expected two grades or more")
    if recipe.model == "lambdamart" and bool((columns.relevance % 1).any()):
        raise DataError("relevance: found grades that are no whole numbers, which lambdamart needs")
    purpose = "trees" if recipe.model in TREES else recipe.model.replace("-", " ")
    given: dict[str, Any] = {"objective": objective, "seed": derive_seed(purpose, recipe.seed)}
    if isinstance(objective, SmoothLoss):
        given |= {"of": objective.metric, "bound": objective.bound}
    fitted = FITS[recipe.model]
    names = list(signature(fitted).parameters)[2:]
    options = {name: given[name] if name in given else getattr(recipe, name) for name in names}
    return fitted(columns, selection, **options) or {}


def model_of(recipe: Recipe, numbers: Model, n_features: int) -> nn.Module:
    """Return the model of a recipe from its numbers, which map the features of items to their scores."""
    tensors = {name: torch.from_numpy(values) for name, values in numbers.items()}
    if recipe.model == "rankboost":
        return Steps(**tensors)
    if recipe.model in TREES:
        return ensembles.Trees(**tensors)
    model = build(recipe, n_features)
    model.load_state_dict({"layers.0.weight": tensors["weights"][None], "layers.0.bias": torch.zeros(1)})
    return model


def columns_of(score: Scorer, part: Part) -> Columns:
    """Return the lists of a part, a row per feature; `score` returns the features that a model would read."""
    values, n_items, rows = np.empty((0, 0), np.float32), len(part.items), nn.Identity()
    for first in range(0, n_items, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, n_items)
        block = score(rows, replace(part, items=part.items[first:last])).numpy()
        values = np.empty((block.shape[1], n_items), np.float32) if first == 0 else values
        values[:, first:last] = block.T
    weights = torch.ones(len(part.lists)) if part.list_weights is None else part.list_weights
    shares = weights.to(torch.float64).numpy()
    return Columns(values, part.relevance.to(torch.float64).numpy(), part.lists.offsets.numpy(), shares / shares.sum())
