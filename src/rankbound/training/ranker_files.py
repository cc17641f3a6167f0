"""Load rankers from their files; nothing in a file is executed."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.training.factorization import Factorization
from rankbound.training.feature_scaling import Scaling
from rankbound.training.ranker import FORMAT, HEADER, WEIGHTS, Ranker
from rankbound.training.recipe import FACTORIZATION, Recipe
from rankbound.training.vocabulary import Vocabulary


def load(path: str | os.PathLike[str]) -> Ranker:
    """Load a ranker that `Ranker.save` or `rankbound train` wrote.

    Args:
        path: the file, `.safetensors`; nothing in it is executed.

    Returns:
        The ranker.

    Raises:
        DataError: the file is missing, damaged, or not a ranker.

    >>> ranker = rb.load("model.safetensors")  # doctest: +SKIP
    """
    header, tensors = _read(path)
    try:
        known = {setting.name for setting in fields(Recipe)}
        recipe = Recipe(**{name: value for name, value in header["recipe"].items() if name in known})
        recipe = Recipe(**{**asdict(recipe), "hidden": tuple(recipe.hidden)})
        names = _feature_names(header["feature_names"])
        scaling = Scaling.from_tensors(recipe.scale, tensors)
        n_scaled = len(names) if recipe.scale == "standard" else 0
        if not scaling.shift.shape == scaling.factor.shape == (n_scaled,):
            raise ValueError(f"the scaling is of {tuple(scaling.shift.shape)} features, not of {n_scaled}")
        weights = {name.removeprefix(WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
        record = dict(header["record"])
        if recipe.model != FACTORIZATION:
            _check_numbers(tensors)
            return Ranker(recipe, names, scaling, _network(recipe, len(names), weights), record)
        vocabulary = Vocabulary.from_tensors(tensors)
        _check_numbers({name: tensor for name, tensor in tensors.items() if name not in vocabulary.tensors()})
        return Ranker(recipe, names, scaling, _factorization(recipe, vocabulary, weights), record, vocabulary)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise DataError(f"{path}: a ranker whose parts don't fit each other ({error}); train it again") from error


def _feature_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
        raise ValueError("feature_names should be a list of distinct names")
    return names


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} is {tensor.dtype} with {tensor.numel()} values; expected finite torch.float32")


def _factorization(recipe: Recipe, vocabulary: Vocabulary, weights: Mapping[str, Tensor]) -> Factorization:
    """Return the factorisation with these weights, built without memory."""
    with torch.device("meta"):
        model = Factorization(len(vocabulary.topics), len(vocabulary.items), recipe.factors, bias=recipe.bias)
    model.load_state_dict(weights, assign=True)
    return model


def _network(recipe: Recipe, n_features: int, weights: Mapping[str, Tensor]) -> nn.Module:
    """Return the recipe's model with these weights; it is built without memory, as a header may claim any width."""
    if len(recipe.hidden) > len(weights):
        raise ValueError(f"the recipe has {len(recipe.hidden)} hidden layers, the file {len(weights)} tensors")
    with torch.device("meta"):
        model = recipe.build(n_features)
    model.load_state_dict(weights, assign=True)
    return model


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    from rankbound.io.models import check_seal

    check_seal(path, "take another copy of it, or train it again")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if missing else f"not a safetensors file ({error})"
        raise DataError(f"{path}: {reason}; expected a model that `rankbound train` wrote") from error
    try:
        header = json.loads(metadata.get(HEADER, "{}"))
    except (ValueError, RecursionError):
        header = {}
    format_name = header.get("format") if isinstance(header, dict) else None
    if format_name != FORMAT:
        raise DataError(f"{path}: found {format_name or 'no header of a ranker'}, expected a ranker ({FORMAT})")
    return header, tensors
