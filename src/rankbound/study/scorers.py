"""From a model's name in the config to a module and the way it scores a part's items."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.models.matrix_factorization import MatrixFactorization
from rankbound.models.mlp import MLP
from rankbound.training import Part, Scorer

MATRIX_FACTORIZATION = "matrix-factorization"
NETWORK = "mlp"
MODELS = (MATRIX_FACTORIZATION, NETWORK)


def build_model(
    model: Mapping[str, Any],
    *,
    n_topics: int,
    n_items: int,
    features: Tensor | None,
    generator: torch.Generator,
) -> tuple[nn.Module, Scorer]:
    """The module that `model` describes, with fresh weights from `generator`, and its scorer.

    `model` holds the name and the options of the model's class. A factorisation reads a part's topics and items; a
    network reads the rows of `features` (n_rows, d) that the items are.
    """
    name, options = model["name"], {key: value for key, value in model.items() if key != "name"}
    if name == MATRIX_FACTORIZATION:
        return MatrixFactorization(n_topics, n_items, **options, generator=generator), _score_by_index
    if name == NETWORK:
        if features is None:
            raise ConfigError(f"model {name}: it reads features; give the judged lists with --lists")
        return MLP(features.shape[1], **options, generator=generator), _score_by_features(features)
    raise ConfigError(f"model {name!r}: unknown; known are {', '.join(MODELS)}")


def _score_by_index(model: nn.Module, part: Part) -> Tensor:
    scores: Tensor = model(part.topics.index_select(0, part.lists.segment), part.items)
    return scores


def _score_by_features(features: Tensor) -> Scorer:
    def score(model: nn.Module, part: Part) -> Tensor:
        scores: Tensor = model(features.index_select(0, part.items))
        return scores

    return score
