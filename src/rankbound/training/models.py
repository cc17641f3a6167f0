"""The models that rankers train: networks of scaled features, and matrix factorisation.

A factorisation scores an item for a topic by the product of their factors (thesis sec. 2.2). Features are scaled to a
common range before a model reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rankbound.kernels import usable
from rankbound.lists import Lists

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}

Encoder = Callable[[Tensor], Tensor]
"""Returns the inputs of rows of features, as `rankbound.training.encoding.Encoding.encoder`."""

BIASES = ("none", "item")

SCALES = ("standard", "query", "none")

INITIAL_RANGE = 0.01

PAIRS_AT_ONCE = 2**18
"""The number of pairs whose factors are copied at once for scoring."""

ROWS_AT_ONCE = 2**16
"""The number of rows of features that are copied at once."""

ROWS_OF_STEPS = 2**12
"""The number of rows that are compared with all thresholds at once."""


class MLP(nn.Module):
    """Fully connected layers `n_features - hidden - 1` with biases; 46-46-1 has 2,209 parameters (thesis sec. 4.1.1).

    Args:
        n_features: width of the input.
        hidden: widths of the hidden layers.
        activation: `relu`, `sigmoid` or `tanh`, after each hidden layer. The thesis does not state it.
        generator: generator of the initial weights, uniform within plus or minus 1/sqrt(width of the layer's input).

    Raises:
        ValueError: unknown activation.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = (46,),
        activation: str = "relu",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: found {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise((n_features, *hidden, 1)):
            # Without PyTorch's own initial weights, whose draws would change its global generator.
            layer = nn.Linear(width_in, width_out, device="meta", dtype=torch.float32)
            layer = layer.to_empty(device=torch.get_default_device())
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.uniform_(-(width_in**-0.5), width_in**-0.5, generator=generator)
            layers += [layer, ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        scores: Tensor = self.layers(features)
        return scores.squeeze(1)


class Steps(nn.Module):
    """The sum of the weights of the thresholds that features exceed.

    Args:
        features: `(n,)`, int64, the feature of each threshold.
        thresholds: `(n,)`, numbers of the features as the model reads them.
        weights: `(n,)`, those of the thresholds.
    """

    def __init__(self, features: Tensor, thresholds: Tensor, weights: Tensor) -> None:
        super().__init__()
        for name, tensor in {"features": features, "thresholds": thresholds, "weights": weights}.items():
            self.register_buffer(name, tensor)

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], n_features: int) -> "Steps":
        """Return the model of a file; ValueError for tensors that don't fit each other or the features."""
        features, thresholds, weights = (tensors[name] for name in ("features", "thresholds", "weights"))
        if features.dtype != torch.int64 or not features.shape == thresholds.shape == weights.shape == (len(features),):
            raise ValueError("features, thresholds and weights: expected as many indices, numbers and numbers")
        if not len(features) or not 0 <= int(features.min()) <= int(features.max()) < n_features:
            raise ValueError(f"features: found an index that is none of {n_features} features, or no index")
        return cls(features, thresholds, weights)

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        chosen, thresholds, weights = (self.get_buffer(name) for name in ("features", "thresholds", "weights"))
        blocks = torch.split(features, ROWS_OF_STEPS)
        return torch.cat([(block.index_select(1, chosen) > thresholds).to(weights) @ weights for block in blocks])


class Factorization(nn.Module):
    r"""Scores $p_t \cdot q_i$ (thesis sec. 4.1.1), or $p_t \cdot q_i + b_i$ (Koren, Bell and Volinsky 2009, eq. 4).

    The overall mean and the topic's bias of that equation are left out: they are the same for all items of a topic and
    change no order. Factors start uniform around 0, biases at 0.

    Args:
        n_topics, n_items: numbers of topics and items.
        factors: dimensions of $p_t$ and $q_i$.
        spread: largest absolute initial value; 0.01 in the thesis.
        generator: the source of the initial factors.
        bias: `none`, or `item` for $b_i$, by which an item is better or worse for all topics.
        by_kernel: multiply by a compiled kernel, where there is one; the last digits depend on it.
    """

    def __init__(
        self,
        n_topics: int,
        n_items: int,
        factors: int = 32,
        spread: float = INITIAL_RANGE,
        generator: torch.Generator | None = None,
        *,
        bias: str = "none",
        by_kernel: bool = False,
    ) -> None:
        super().__init__()
        empty = (torch.empty(count, factors, dtype=torch.float32) for count in (n_topics, n_items))
        self.topics, self.items = (nn.Parameter(one.uniform_(-spread, spread, generator=generator)) for one in empty)
        self.item_bias = nn.Parameter(torch.zeros(n_items, dtype=torch.float32)) if bias == "item" else None
        self._by_kernel = by_kernel and usable()

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        """Return the scores of pairs of `topics` and `items`, both `(n,)` indices: `(n,)`."""
        if self._by_kernel and self.items.is_cpu:
            products: Tensor = _Products.apply(self.topics, self.items, topics, items)  # type: ignore[no-untyped-call]
        else:
            products = (self.topics.index_select(0, topics) * self.items.index_select(0, items)).sum(1)
        return products if self.item_bias is None else products + self.item_bias.index_select(0, items)

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for topics, `(n, n_items)`; index -1 stands for the mean of all topics."""
        own = self.topics.index_select(0, topics.clamp(min=0))
        own = torch.where(topics[:, None] < 0, self.topics.mean(0), own)
        products = own @ self.items.T
        return products if self.item_bias is None else products + self.item_bias


def score_pairs(model: Factorization, topics: Tensor, items: Tensor) -> Tensor:
    """Return the scores of any number of pairs, without gradients; index -1 stands for the mean of all factors."""
    if bool((topics < 0).any()) or bool((items < 0).any()):
        topics = torch.where(topics < 0, len(model.topics), topics)
        items = torch.where(items < 0, len(model.items), items)
        # One more topic and item, whose factors and bias are the means of the others.
        model, known = copy(model), model._parameters
        model._parameters = {
            name: None if values is None else nn.Parameter(torch.cat([values, values.mean(0, keepdim=True)]))
            for name, values in known.items()
        }
    blocks = zip(torch.split(topics, PAIRS_AT_ONCE), torch.split(items, PAIRS_AT_ONCE), strict=True)
    with torch.no_grad():
        return torch.cat([model(*block) for block in blocks])


class _Products(torch.autograd.Function):
    """The products without a copy of any factor."""

    @staticmethod
    def forward(ctx: Any, of_topics: Tensor, of_items: Tensor, topics: Tensor, items: Tensor) -> Tensor:
        from rankbound.kernels.gradients import products

        topics, items = topics.contiguous(), items.contiguous()
        ctx.save_for_backward(of_topics, of_items, topics, items)
        scores = of_items.new_empty(len(items))
        tensors = of_topics.detach(), of_items.detach(), topics, items, scores
        if not products(*(tensor.numpy() for tensor in tensors)):
            raise IndexError(f"expected indices of {len(of_topics)} topics and {len(of_items)} items")
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        from rankbound.kernels.gradients import add_gradients

        factors = ctx.saved_tensors[:2]
        gradients = [torch.zeros_like(tensor) for tensor in factors]
        tensors = (*(tensor.detach() for tensor in ctx.saved_tensors), upstream.contiguous(), *gradients)
        add_gradients(*(tensor.numpy() for tensor in tensors))
        return *gradients, None, None


@dataclass(frozen=True)
class Scaling:
    """A feature scaling.

    `standard`: $(x - shift) \\cdot factor$ per feature; `query`: to 0 .. 1 within each list; `none`: unchanged.
    Constant features become 0, except under `none`.
    """

    kind: str
    shift: Tensor
    factor: Tensor

    @classmethod
    def fitted(
        cls, kind: str, features: Tensor, chosen: Tensor | None = None, encode: Encoder | None = None
    ) -> "Scaling":
        """Fit a scaling of `kind`, one of `SCALES`, to features `(n_items, d)`, or to their `chosen` rows, encoded.

        The features are read in blocks of rows, twice: they may be larger than memory.
        """
        if kind != "standard":
            return cls(kind, features.new_zeros(0), features.new_zeros(0))
        if chosen is None:
            chosen = torch.arange(len(features), device=features.device)

        def block_of(rows: Tensor) -> Tensor:
            block = features.index_select(0, rows)
            return block if encode is None else encode(block)

        first = block_of(chosen[:1])
        # In double precision, since a large mean cancels a small spread.
        total = first.new_zeros(first.shape[1], dtype=torch.float64)
        for rows in torch.split(chosen, ROWS_AT_ONCE):
            total += block_of(rows).sum(0, dtype=torch.float64)
        mean, squares, constant = total / len(chosen), torch.zeros_like(total), torch.ones_like(total, dtype=torch.bool)
        for rows in torch.split(chosen, ROWS_AT_ONCE):
            block = block_of(rows)
            squares += (block.to(torch.float64) - mean).square().sum(0)
            constant &= (block == first).all(0)
        deviation = (squares / len(chosen)).sqrt()
        factor = torch.where(constant | (deviation == 0), 0.0, 1 / deviation)
        return cls(kind, mean.to(features.dtype), factor.to(features.dtype))


class ScaledFeatures:
    """Features `(n_items, d)` that are encoded and scaled when some are taken; they may be larger than memory.

    ValueError for `query` scaling without the `lists` of all rows.
    """

    def __init__(self, scaling: Scaling, features: Tensor, lists: Lists | None, encode: Encoder | None = None) -> None:
        self._kind, self._features, self._list, self._encode = scaling.kind, features, None, encode
        self._shift, self._factor = scaling.shift.to(features), scaling.factor.to(features)
        if scaling.kind == "query":
            if lists is None:
                raise ValueError("offsets: found none, expected those of the lists, within which features are scaled")
            inputs = features if encode is None else encode(features)
            low, high = lists.min(inputs), lists.max(inputs)
            self._shift, self._factor = low, torch.where(high > low, 1 / (high - low), 0.0)
            self._list = lists.segment

    def of_rows(self, rows: Tensor | slice) -> Tensor:
        """Return the scaled features of some rows, as indices or a slice."""
        features = self._features[rows] if isinstance(rows, slice) else self._features.index_select(0, rows)
        features = features if self._encode is None else self._encode(features)
        if self._kind == "none":
            return features
        if self._list is None:
            return (features - self._shift) * self._factor
        own = self._list[rows]
        return (features - self._shift.index_select(0, own)) * self._factor.index_select(0, own)
