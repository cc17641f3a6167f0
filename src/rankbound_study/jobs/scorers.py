"""Build a module and its scorer from a model's name in the configuration."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.training.linear import Linear
from rankbound.training.mlp import MLP
from rankbound.training.parts import Part, Scorer
from rankbound_study.models.matrix_factorization import MatrixFactorization
from rankbound_study.models.pixels import PixelScale
from rankbound_study.models.standard_scale import StandardScale

MATRIX_FACTORIZATION = "matrix-factorization"
NETWORK = "mlp"
MODELS = (MATRIX_FACTORIZATION, NETWORK)

LINEAR = "linear"
CONVOLUTIONAL = "cnn"
NETWORKS = (NETWORK, LINEAR, CONVOLUTIONAL)
SCALES = ("standard", "none")

CHUNK = 512
"""Number of items that are scored together; for pictures, limited by memory."""


def build_model(
    model: Mapping[str, Any],
    *,
    n_topics: int,
    n_items: int,
    features: Tensor | None,
    generator: torch.Generator,
) -> tuple[nn.Module, Scorer]:
    """Return the module that `model` describes, with fresh weights from `generator`, and its scorer.

    `model` holds the name and the options of the model's class. A factorisation reads a part's topics and items; a
    network reads the items' rows of `features` (n_rows, d).
    """
    name, options = model["name"], {key: value for key, value in model.items() if key != "name"}
    if name == MATRIX_FACTORIZATION:
        return MatrixFactorization(n_topics, n_items, **options, generator=generator), _score_by_index
    if name == NETWORK:
        if features is None:
            raise ConfigError(f"model {name}: it reads features; give the judged lists with --lists")
        return MLP(features.shape[1], **options, generator=generator), _score_by_features(features)
    raise ConfigError(f"model {name!r}: unknown; known are {', '.join(MODELS)}")


def build_network(
    model: Mapping[str, Any],
    scale: str,
    features: Tensor,
    training: Tensor,
    generator: torch.Generator,
    channels: Sequence[int] | None = None,
) -> tuple[nn.Module, Scorer]:
    """Return a network over scaled features, with its scorer.

    Args:
        model: `mlp`, `linear` or `cnn`, and its options.
        scale: `standard` (by means and deviations of the items `training`; per channel for pixels) or `none` (pixels: 0
            .. 1).
        features: `(n_rows, d)`, bytes of pictures or floating point.
        channels: for pictures that lack some pixels, the number of remaining pixels per channel.
    """
    name, options = model["name"], {key: value for key, value in model.items() if key != "name"}
    width = features.shape[1]
    if name == LINEAR:
        network: nn.Module = Linear(width, **options)
    elif name == NETWORK:
        network = MLP(width, **options, generator=generator)
    elif name == CONVOLUTIONAL:
        from rankbound_study.models.cnn import RankCNN

        network = RankCNN(**options, generator=generator)
        if network.n_features != width:
            raise ConfigError(f"model {name}: it reads {network.n_features} values per picture, but these have {width}")
    else:
        raise ConfigError(f"model {name!r}: unknown; known are {', '.join(NETWORKS)}")
    layers = OrderedDict(scale=input_scale(scale, features, training, channels), network=network)
    return nn.Sequential(layers), score_distinct(features)


def input_scale(scale: str, features: Tensor, training: Tensor, channels: Sequence[int] | None = None) -> nn.Module:
    """Return the first layer; the scale `standard` is that of the features' rows `training`."""
    if scale not in SCALES:
        raise ConfigError(f"scale: found {scale!r}, expected one of {', '.join(SCALES)}")
    if features.dtype == torch.uint8:
        if scale == "none":
            return PixelScale(widths=channels)
        return PixelScale.of_pixels(features.index_select(0, training), widths=channels)
    return nn.Identity() if scale == "none" else StandardScale.of_features(features.index_select(0, training))


def score_distinct(features: Tensor) -> Scorer:
    """Score every distinct item once, even if it is in several lists: pictures take long."""

    def score(model: nn.Module, part: Part) -> Tensor:
        distinct, place = torch.unique(part.items, return_inverse=True)
        chunks = [model(features.index_select(0, chunk)) for chunk in torch.split(distinct, CHUNK)]
        return torch.cat(chunks).index_select(0, place)

    return score


def _score_by_index(model: nn.Module, part: Part) -> Tensor:
    scores: Tensor = model(part.topics.index_select(0, part.lists.segment), part.items)
    return scores


def _score_by_features(features: Tensor) -> Scorer:
    def score(model: nn.Module, part: Part) -> Tensor:
        scores: Tensor = model(features.index_select(0, part.items))
        return scores

    return score
