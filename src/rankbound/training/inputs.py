"""What a ranker is trained on: parts of judged lists, their weights and their features, checked; and their digest."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists, no_features
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed, quantity
from rankbound.training.encoding import Encoding
from rankbound.training.models import ROWS_AT_ONCE, ScaledFeatures, Scaling, row_blocks, score_rows
from rankbound.training.recipe import FACTORIZATION, FITTED_MODELS, PAIR_MODELS, Recipe
from rankbound.training.splits import require_apart
from rankbound.training.trainer import Part, Scorer

if TYPE_CHECKING:
    from rankbound.training.factorisation import Vocabulary


def weighted(lists: JudgedLists, weights: Any, list_weights: Any, recipe: Recipe) -> JudgedLists:
    """Return the lists with these weights, where there are any; ValueError for a factorisation of weighted lists."""
    given = {"weights": weights, "list_weights": list_weights}
    for name, values in given.items():
        if isinstance(values, str):
            raise ValueError(
                f"{name}: found the text {values!r}, expected an array; the column of a table is named where it is "
                f"read: read_lists(source, {name}={values!r})"
            )
    lists = replace(lists, **{name: values for name, values in given.items() if values is not None})
    for name in given:
        if getattr(lists, name) is not None and recipe.model in PAIR_MODELS:
            raise ValueError(f"{name}: found weights beside the model {recipe.model}, whose training has none")
    if lists.weights is not None and recipe.model in FITTED_MODELS:
        raise ValueError(
            f"weights: found weights of items beside the model {recipe.model}, which has weights of lists alone "
            "(list_weights)"
        )
    return lists


def training_parts(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the lists to train on, and those to select the epoch on, by default a share of the topics.

    The items of both are rows of the features of their own lists. DataError if the lists do not fit each other.
    """
    if not lists.feature_names:
        raise DataError(
            no_features(lists.left_out, f", which model {recipe.model} reads")
            + f"; from topics and items alone, train model {FACTORIZATION}"
        )
    whole = _part(lists)
    if validation is not None:
        if list(validation.feature_names) != list(lists.feature_names):
            raise DataError(
                "the validation lists have other features than the training lists: read them by "
                "read_lists(source, features=lists.feature_names), also where a LETOR file ends with another index"
            )
        require_apart({"training": lists, "validation": validation}, by_item=False)
        return whole, _part(validation)
    if recipe.validation_share == 0:
        return whole, None
    count = len(whole.lists)
    if count < 2:
        raise DataError(
            f"found {quantity(count, 'topic')}, expected two or more, to train and to validate; or a share of 0"
        )
    held = min(max(round(recipe.validation_share * count), 1), count - 1)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed("validation", recipe.seed)))
    training, held_out = (
        replace(whole.batch(index), names=[whole.names[at] for at in index.tolist()])
        for index in (shuffled[held:].sort().values, shuffled[:held].sort().values)
    )
    return training, held_out


def _part(lists: JudgedLists) -> Part:
    relevance, topics = as_tensor(lists.relevance, "relevance"), torch.arange(len(lists.topics))
    limits = Lists(as_tensor(lists.offsets, "offsets"))
    weights, list_weights = (
        None if own is None else torch.from_numpy(own.astype(np.float32)) for own in (lists.weights, lists.list_weights)
    )
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, limits, list_weights, weights)


def feature_scorer(
    encoding: Encoding, scaling: Scaling, lists: JudgedLists, validation: JudgedLists | None, device: torch.device
) -> Scorer:
    """Return the scorer of the rows of lists by their scaled features, with gradients, and of the validation lists."""

    def scaled(lists: JudgedLists) -> ScaledFeatures:
        limits = Lists(as_tensor(lists.offsets, "offsets").to(device))
        features = column_tensor(lists.features, "features")
        for first in range(0, len(features), ROWS_AT_ONCE):
            encoding.require(features[first : first + ROWS_AT_ONCE], lists.feature_names, first)
        return ScaledFeatures(scaling, features.to(device), limits, encoding.encoder(lists.categories))

    trained_on = scaled(lists)
    measured_on = trained_on if validation is None else scaled(validation)

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            return score_rows(model, trained_on.of_rows(part.items), part.lists)
        blocks = row_blocks(model, len(part.items), part.lists)
        return torch.cat([score_rows(model, measured_on.of_rows(part.items[rows]), own) for rows, own in blocks])

    return score


def require_orders(part: Part) -> None:
    """Raise DataError unless a list has two different relevance labels: otherwise all orders are equally good."""
    if not bool((part.lists.sizes > 1).any()):
        raise DataError(
            f"each of the {len(part.lists)} training topics has one item, so that there is no order to learn: expected "
            "topics of several items, such as the queries, users or searches that the items belong to (on the command "
            "line: --topic NAME)"
        )
    first = float(part.relevance[0])
    if bool((part.relevance == first).all()):
        raise DataError(
            f"no training topic is informative: all {part.lists.n_items} relevance labels are {first:g}; expected "
            "at least one topic with two different labels (on the command line, --relevance NAME is their column)"
        )
    if not bool((part.lists.max(part.relevance) > part.lists.min(part.relevance)).any()):
        raise DataError("no training topic is informative: expected at least one with two different relevance labels")


def moved(part: Part, device: torch.device) -> Part:
    columns = {name: getattr(part, name) for name in ("topics", "items", "relevance", "list_weights", "weights")}
    there = {name: values.to(device) for name, values in columns.items() if values is not None}
    return replace(part, lists=Lists(part.lists.offsets.to(device)), **there)


def digest_of(lists: JudgedLists, vocabulary: "Vocabulary | None") -> str:
    """Return the SHA-256 of what a model is trained on; for a factorisation, whatever the order of the rows."""
    if vocabulary is not None:
        from rankbound.training.factorisation import sorted_pairs

        topics, items, order = sorted_pairs(lists, vocabulary)
        names: list[Any] = [sorted(lists.topics), vocabulary.items.to_list()]
        columns: list[Any] = [topics, items, lists.relevance[order]]
    else:
        names = [lists.topics, lists.feature_names, sorted(lists.categories.items())]
        columns = [lists.offsets, lists.relevance, lists.weights, lists.list_weights]
    digest = sha256(json.dumps(names, default=list).encode())
    for values in columns:
        digest.update(b"-" if values is None else np.ascontiguousarray(values, np.float64).data)
    for first in range(0, len(lists.features) if vocabulary is None else 0, ROWS_AT_ONCE):
        digest.update(np.ascontiguousarray(lists.features[first : first + ROWS_AT_ONCE]).data)
    return digest.hexdigest()
