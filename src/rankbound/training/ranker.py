"""A trained ranker: scores items by their features, and is saved as one file.

The file is safetensors: weights and feature scaling are tensors, everything else is JSON in the header. Loading it
executes no code from the file.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.seals import UNSEALED, check_seal
from rankbound.kernels import STEPS
from rankbound.lists import ArrayLike, Lists
from rankbound.training.feature_scaling import ROWS_AT_ONCE, SCALES, ScaledFeatures, Scaling
from rankbound.training.mlp import ACTIVATIONS, MLP

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists, Run

MODELS = ("linear", "mlp")

# The header's metadata key, and the version of its content.
HEADER = "rankbound"
FORMAT = "ranker/1"

_WEIGHTS = "model."


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a ranker's training.

    Args:
        loss: a text that `rankbound.loss` reads: `nDCG`, `AP`, `RankNet`, ...
        bound: the bound of a metric's loss.
        temperature: of the loss' smooth ranks, in units of the scores.
        kernel: the smooth step of these ranks, `sigmoid` or `laplace`, as in `rankbound.smooth_rank`.
        model: `linear`, a weight per feature, or `mlp`, a network.
        hidden: the widths of the layers of an `mlp`.
        activation: of the layers of an `mlp`.
        scale: `standard` gives every feature mean 0 and standard deviation 1 over the training items: an item's score
            does not depend on its list. `query` scales every feature to 0 .. 1 within each list, as LETOR does: this
            removes differences between topics, and scoring takes whole lists. `none` leaves features unchanged.
        epochs: passes over the training topics.
        learning_rate: of Adam.
        batch_size: topics per step.
        metric: selects the epoch on the validation topics; without validation topics, the last epoch is used.
        validation_share: share of topics held out for validation without validation lists, drawn by `seed`.
        seed: of initial weights, order of batches and validation topics; the draws do not depend on loss and bound.

    Raises:
        ValueError: a setting is unknown or out of range.

    >>> rb.Recipe(loss="AP", bound="min-max").learning_rate
    0.01
    """

    loss: str = "nDCG"
    bound: str = "none"
    temperature: float = 1.0
    kernel: str = "sigmoid"
    model: str = "linear"
    hidden: tuple[int, ...] = (64, 32)
    activation: str = "relu"
    scale: str = "standard"
    epochs: int = 100
    learning_rate: float = 0.01
    batch_size: int = 16
    metric: str = "nDCG@10"
    validation_share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.loss, str):
            raise ValueError(
                f"loss: found {self.loss}, expected a text, since the ranker's file records it: loss='nDCG', with "
                "bound= and temperature= beside it; other losses train your own model in a loop of your own"
            )
        choices = {"model": MODELS, "scale": SCALES, "activation": ACTIVATIONS, "kernel": tuple(STEPS)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: found {getattr(self, name)!r}, expected one of {', '.join(allowed)}")
        for name in ("temperature", "epochs", "learning_rate", "batch_size"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected a number above 0")
        if not all(width > 0 for width in self.hidden):
            raise ValueError(f"hidden: found {self.hidden}, expected widths above 0")
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation_share: found {self.validation_share}, expected a share in [0, 1)")

    def build(self, n_features: int, generator: torch.Generator | None = None) -> MLP:
        """Return the model with initial weights.

        Args:
            n_features: the number of features.
            generator: of the initial weights; by default, PyTorch's own.

        Returns:
            The model, which maps `(n_items, n_features)` to `(n_items,)`.
        """
        return MLP(n_features, self.hidden if self.model == "mlp" else (), self.activation, generator)


@dataclass(frozen=True)
class Ranker:
    """A trained model with its feature scaling, as `rankbound.train_ranker` and `rankbound.load` return it.

    Args:
        recipe: the settings of the training.
        feature_names: the features' names, in the order of the model's inputs.
        scaling: the scaling of the features.
        model: the model of scaled features.
        record: epoch, validation metric, counts and versions of the training.

    >>> columns = {"topics": ["q"], "items": ["a", "b"], "relevance": [2, 0], "offsets": [0, 2]}
    >>> lists = rb.JudgedLists(**columns, features=np.float32([[1], [0]]), feature_names=["length"])
    >>> ranker = rb.train_ranker(lists, learning_rate=0.1, validation_share=0)
    >>> ranker.score(lists.features).argsort()
    array([1, 0])
    """

    recipe: Recipe
    feature_names: Sequence[str]
    scaling: Scaling
    model: nn.Module
    record: Mapping[str, Any] = field(default_factory=dict)

    def score(self, features: Any, offsets: ArrayLike | None = None) -> Any:
        """Return the scores of items; higher is better.

        Args:
            features: `(n_items, d)`, columns in the order of `feature_names`.
            offsets: `(n_lists + 1,)`, the lists' limits; only `query` scaling needs them.

        Returns:
            A NumPy array `(n_items,)`, or a tensor if `features` is one.

        Raises:
            ValueError: wrong number of features, features or scores that are not finite, or missing offsets.
        """
        rows = features if isinstance(features, Tensor) else column_tensor(features, "features")
        if rows.dim() != 2 or rows.shape[1] != len(self.feature_names):
            raise ValueError(
                f"features: found shape {tuple(rows.shape)}, expected (n_items, {len(self.feature_names)})"
            )
        lists = None if offsets is None else Lists.checked(offsets, len(rows), rows.device)
        scaled = ScaledFeatures(self.scaling, rows.to(torch.float32), lists)
        self.model.eval().to(rows.device)
        with torch.no_grad():
            blocks = [self._score_block(rows, scaled, first) for first in range(0, max(len(rows), 1), ROWS_AT_ONCE)]
        scores = torch.cat(blocks)
        if not bool(torch.isfinite(scores).all()):
            item = int(torch.nonzero(~torch.isfinite(scores))[0])
            raise ValueError(
                f"scores: found {scores[item].item()} at item {item}, expected finite numbers: the model's weights are "
                "too large for these features, or the features for the model; train it again"
            )
        return scores if isinstance(features, Tensor) else scores.numpy()

    def _score_block(self, rows: Tensor, scaled: ScaledFeatures, first: int) -> Tensor:
        block = slice(first, first + ROWS_AT_ONCE)
        finite = torch.isfinite(rows[block])
        if not bool(finite.all()):
            item, column = torch.nonzero(~finite)[0].tolist()
            name, found = self.feature_names[column], rows[first + item, column].item()
            raise ValueError(
                f"features: found {found} at item {first + item}, feature {name!r}, expected finite numbers"
            )
        scores: Tensor = self.model(scaled.of_rows(block))
        return scores

    def score_lists(self, lists: "JudgedLists") -> "Run":
        """Return the run of judged lists, whose features are matched by name.

        Args:
            lists: judged lists with all features of the ranker, in any order.

        Returns:
            The run, with the topics and items of the lists.

        Raises:
            DataError: a feature is missing; the message names it.
            ValueError: as `score`.
        """
        from rankbound.io.judged import Run

        place = {name: index for index, name in enumerate(lists.feature_names)}
        missing = [name for name in self.feature_names if name not in place]
        if missing:
            raise DataError(f"lists: there is no feature {missing[0]!r}, which the ranker was trained with")
        features = lists.features
        if list(lists.feature_names) != list(self.feature_names):
            # Restore row-major order: the memory layout affects the last digits of scores.
            features = np.ascontiguousarray(features[:, [place[name] for name in self.feature_names]])
        scores = self.score(features, lists.offsets)
        return Run(topics=lists.topics, items=lists.items, scores=scores, offsets=lists.offsets)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker as one safetensors file, atomically.

        Args:
            path: the file, `.safetensors`.
        """
        from rankbound.io.tensor_files import write_sealed

        header = {
            "format": FORMAT,
            "recipe": asdict(self.recipe),
            "feature_names": list(self.feature_names),
            "record": dict(self.record),
            "seal": UNSEALED,
        }
        weights = {f"{_WEIGHTS}{name}": tensor.cpu() for name, tensor in self.model.state_dict().items()}
        write_sealed(weights | self.scaling.tensors(), path, {HEADER: json.dumps(header, sort_keys=True)})


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
        _check_numbers(tensors)
        weights = {name.removeprefix(_WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(_WEIGHTS)}
        return Ranker(recipe, names, scaling, _model(recipe, len(names), weights), dict(header["record"]))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise DataError(f"{path}: a ranker whose parts don't fit each other ({error}); train it again") from error


def _feature_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
        raise ValueError("feature_names should be a list of distinct names")
    return names


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} is {tensor.dtype} with {tensor.numel()} values; expected finite torch.float32")


def _model(recipe: Recipe, n_features: int, weights: Mapping[str, Tensor]) -> nn.Module:
    """Return the recipe's model with these weights; it is built without memory, as a header may claim any width."""
    if len(recipe.hidden) > len(weights):
        raise ValueError(f"the recipe has {len(recipe.hidden)} hidden layers, the file {len(weights)} tensors")
    with torch.device("meta"):
        model = recipe.build(n_features)
    model.load_state_dict(weights, assign=True)
    return model


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

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
