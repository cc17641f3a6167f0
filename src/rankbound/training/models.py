"""The models that rankers train: networks of scaled features, matrix factorisation, and models that are counted.

Networks score an item by its features, or, with attention, by those of all items of its list. A factorisation scores an
item for a topic by the product of their factors (thesis sec. 2.2). Features are scaled to a common range before a model
reads them.

Popularity, nearest neighbours and a linear regression have no factors, but what topics have in common. Like
`Factorization`, they score items for topics by the places of both in a vocabulary; place -1 is an unknown topic, whose
scores are the means over all topics.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from rankbound.errors import DataError
from rankbound.kernels import usable
from rankbound.lists import Lists

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}

Encoder = Callable[[Tensor], Tensor]
"""Returns the inputs of rows of features, as `rankbound.training.inputs.Encoding.encoder`."""

INITIAL_RANGE = 0.01

PAIRS_AT_ONCE = 2**18
"""The number of pairs whose factors are copied at once for scoring."""

SCORES_AT_ONCE = 2**21
"""The number of scores of topics by all items that are in memory at once."""

MOST_ITEMS_OF_EASE = 20_000
"""The weights between so many items take 1.6 GB, and their computation in double precision 10 GB."""

ROWS_AT_ONCE = 2**16
"""The number of rows of features that are copied at once."""

SCORED_AT_ONCE = 2**13
"""The number of rows that are scored at once: their features and layers stay in a processor's cache."""

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
            layers += [_linear(width_in, width_out, generator), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        scores: Tensor = self.layers(features)
        return scores.squeeze(1)


class AttentionScorer(nn.Module):
    r"""Scores items by all of their list, with self-attention (Pobrotyn et al. 2020; Pang et al., SIGIR 2020).

    Layers of each item by itself come first, then blocks, and a linear map to the score. A block is that of a
    transformer's encoder (Vaswani et al., NeurIPS 2017), normalised before its two parts (Xiong et al., ICML 2020):

    $$x \leftarrow x + \mathrm{Attention}(\mathrm{norm}(x)), \qquad x \leftarrow x + W_2\, a(W_1\, \mathrm{norm}(x))$$

    There is no code of positions: permuting the items of a list permutes their scores. Lists of one size are attended
    to together, without padding or masks, so that memory is linear where PyTorch's attention is; a list's scores don't
    depend on the other lists.

    Args:
        n_features: width of the input.
        hidden: widths of the layers before attention, with activations; the last one, a multiple of
            the heads, is that of the blocks.
        activation: as in `MLP`, also in the blocks, whose inner width is four times that of attention.
        blocks, heads: numbers of blocks, and of heads of each block's attention.
        generator: generator of the initial weights, as in `MLP`.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = (64, 32),
        activation: str = "relu",
        blocks: int = 2,
        heads: int = 2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        first: list[nn.Module] = []
        for width_in, width_out in pairwise((n_features, *hidden)):
            first += [_linear(width_in, width_out, generator), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*first)
        self.blocks = nn.ModuleList(_Block(hidden[-1], heads, activation, generator) for _ in range(blocks))
        self.norm = nn.LayerNorm(hidden[-1], dtype=torch.float32)
        self.last = _linear(hidden[-1], 1, generator)

    def forward(self, features: Tensor, lists: Lists | None) -> Tensor:
        """Return the scores `(n,)` of the items of lists; ValueError without lists."""
        if lists is None:
            raise ValueError(
                "offsets: found none, expected those of the lists: a model with attention scores an item by the others "
                "of its list; of the rows of one list, they are [0, n_items]"
            )
        sizes = torch.unique(lists.sizes).tolist()
        firsts = [lists.offsets[:-1][lists.sizes == size] for size in sizes]
        of_sizes = zip(firsts, sizes, strict=True)
        groups = [first[:, None] + torch.arange(size, device=first.device) for first, size in of_sizes if size]
        rows = torch.cat([features.new_zeros(0, dtype=torch.int64), *(group.flatten() for group in groups)])
        # Lists of one size stand together from here on.
        hidden = self.layers(features.index_select(0, rows))
        for block in self.blocks:
            hidden = block(hidden, [group.shape for group in groups])
        scores = self.last(self.norm(hidden)).squeeze(1)
        return torch.zeros_like(scores).index_copy(0, rows, scores)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, activation: str, generator: torch.Generator | None) -> None:
        super().__init__()
        self._heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, dtype=torch.float32) for _ in range(2))
        self.inputs, self.output = (_linear(width, count * width, generator) for count in (3, 1))
        inner, outer = _linear(width, 4 * width, generator), _linear(4 * width, width, generator)
        self.each = nn.Sequential(inner, ACTIVATIONS[activation](), outer)

    def forward(self, hidden: Tensor, shapes: Sequence[torch.Size]) -> Tensor:
        """Return the items' vectors after the block; the lists have the `shapes` `(n, size)`, one after another."""
        inputs, parts = self.inputs(self.norms[0](hidden)), [hidden[:0]]
        for (count, size), own in zip(shapes, torch.split(inputs, [shape.numel() for shape in shapes]), strict=True):
            # Queries, keys and values, each `(count, heads, size, width of a head)`.
            heads = own.view(count, size, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = heads.unbind(0)
            attended = functional.scaled_dot_product_attention(query, key, value)
            parts.append(attended.transpose(1, 2).reshape(count * size, -1))
        hidden = hidden + self.output(torch.cat(parts))
        result: Tensor = hidden + self.each(self.norms[1](hidden))
        return result


def _linear(width_in: int, width_out: int, generator: torch.Generator | None) -> nn.Linear:
    # Without PyTorch's own initial weights, whose draws would change its global generator.
    layer = nn.Linear(width_in, width_out, device="meta", dtype=torch.float32)
    layer = layer.to_empty(device=torch.get_default_device())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-(width_in**-0.5), width_in**-0.5, generator=generator)
    return layer


def score_rows(model: nn.Module, inputs: Tensor, lists: Lists | None) -> Tensor:
    """Return the scores of rows, whose lists a model with attention reads, too."""
    scores: Tensor = model(inputs, lists) if isinstance(model, AttentionScorer) else model(inputs)
    return scores


def row_blocks(model: nn.Module, n_rows: int, lists: Lists | None) -> Iterator[tuple[slice, Lists | None]]:
    """Yield blocks of about `SCORED_AT_ONCE` rows to score; whole lists, with their limits, if the model reads them."""
    if lists is None or not isinstance(model, AttentionScorer):
        for first in range(0, max(n_rows, 1), SCORED_AT_ONCE):
            yield slice(first, min(first + SCORED_AT_ONCE, n_rows)), None
        return
    block = lists.offsets[:-1] // SCORED_AT_ONCE
    ends = torch.bincount(torch.unique(block, return_inverse=True)[1]).cumsum(0).tolist() or [0]
    for begin, end in pairwise([0, *ends]):
        first, last = lists.offsets[[begin, end]].tolist()
        yield slice(first, last), Lists(lists.offsets[begin : end + 1] - first)


class Given(nn.Module):
    """A model of tensors that are given, and not trained."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


class Steps(Given):
    """The sum of the weights of the thresholds that features exceed.

    Args:
        features: `(n,)`, int64, the feature of each threshold.
        thresholds: `(n,)`, numbers of the features as the model reads them.
        weights: `(n,)`, those of the thresholds.
    """

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], n_features: int) -> "Steps":
        """Return the model of a file; ValueError for tensors that don't fit each other or the features."""
        features, thresholds, weights = (tensors[name] for name in ("features", "thresholds", "weights"))
        if features.dtype != torch.int64 or not features.shape == thresholds.shape == weights.shape == (len(features),):
            raise ValueError("features, thresholds and weights: expected as many indices, numbers and numbers")
        if not len(features) or not 0 <= int(features.min()) <= int(features.max()) < n_features:
            raise ValueError(f"features: found an index that is none of {n_features} features, or no index")
        return cls(features=features, thresholds=thresholds, weights=weights)

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        chosen, thresholds, weights = (self.get_buffer(name) for name in ("features", "thresholds", "weights"))
        # An exported graph has no blocks: their number would be that of the example.
        blocks = [features] if torch.compiler.is_compiling() else torch.split(features, ROWS_OF_STEPS)
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


class NeuralMF(Factorization):
    r"""Neural matrix factorisation (He et al., WWW 2017): a product of factors and a network of others, added up.

    $$s_{ti} = p_t \cdot q_i + \mathrm{MLP}([p'_t, q'_i]) + b_i$$

    The authors' weights of the product's terms are absorbed in its factors.

    Args:
        n_topics, n_items, factors, spread, generator, bias, by_kernel: as in `Factorization`; $p'$ and $q'$ have as
            many dimensions as $p$ and $q$, and start alike.
        hidden, activation: of the network, as in `MLP`.
    """

    def __init__(
        self,
        n_topics: int,
        n_items: int,
        factors: int = 32,
        hidden: Sequence[int] = (64, 32),
        activation: str = "relu",
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_topics, n_items, factors, generator=generator, **options)
        empty = (torch.empty(count, factors, dtype=torch.float32) for count in (n_topics, n_items))
        own = (nn.Parameter(one.uniform_(-INITIAL_RANGE, INITIAL_RANGE, generator=generator)) for one in empty)
        self.topic_inputs, self.item_inputs = own
        self.network = MLP(2 * factors, hidden, activation, generator)

    def forward(self, topics: Tensor, items: Tensor) -> Tensor:
        inputs = self.topic_inputs.index_select(0, topics), self.item_inputs.index_select(0, items)
        scores: Tensor = super().forward(topics, items) + self.network(torch.cat(inputs, 1))
        return scores

    def of_topics(self, topics: Tensor) -> Tensor:
        n_items = len(self.items)
        every = torch.arange(n_items, device=topics.device).repeat(len(topics))
        return score_pairs(self, topics.repeat_interleave(n_items), every).view(len(topics), n_items)


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
        from rankbound.kernels.losses import products

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
        from rankbound.kernels.losses import add_gradients

        factors = ctx.saved_tensors[:2]
        gradients = [torch.zeros_like(tensor) for tensor in factors]
        tensors = (*(tensor.detach() for tensor in ctx.saved_tensors), upstream.contiguous(), *gradients)
        add_gradients(*(tensor.numpy() for tensor in tensors))
        return *gradients, None, None


class Popularity(Given):
    """Scores an item, for all topics alike, by the number of topics that it is relevant to, its `counts`."""

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        return self.get_buffer("counts").expand(len(topics), -1)


class ItemNeighbours(Given):
    r"""Scores an item by its similarity to a topic's relevant items (Deshpande and Karypis 2004; Sarwar et al. 2001).

    $$s(t, i) = \sum_{j \in R_t,\ i \in N_j} \frac{|T_i \cap T_j|}{\sqrt{|T_i|\,|T_j|}}$$

    $R_t$ are the items that are relevant to topic $t$, $T_i$ the topics to which item $i$ is, and $N_j$ the `k` items
    other than $j$ with the highest cosine, by name on ties.

    Args:
        near: `(n_items, k)`, the neighbours of each item.
        cosines: `(n_items, k)`, their similarities; 0 where there are fewer.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        near, cosines, offsets, items = (self.get_buffer(name) for name in ("near", "cosines", "offsets", "items"))
        n_items = len(near)
        row, own = _of_lists(offsets, items, topics)
        scores = torch.zeros(len(topics) * n_items)
        # The copies of neighbours take no more memory than the scores of a block.
        size = max(SCORES_AT_ONCE // max(near.shape[1], 1), 1)
        for rows, some in zip(torch.split(row, size), torch.split(own, size), strict=True):
            scores.index_add_(0, (rows[:, None] * n_items + near[some]).flatten(), cosines[some].flatten())
        scores = scores.view(len(topics), n_items)
        if bool((topics < 0).any()):
            share = torch.bincount(items, minlength=n_items) / max(len(offsets) - 1, 1)
            shares = (share[:, None] * cosines).flatten()
            scores[topics < 0] = torch.zeros(n_items).index_add_(0, near.flatten(), shares)
        return scores


def fit_neighbours(topics: Tensor, items: Tensor, n_topics: int, n_items: int, k: int) -> ItemNeighbours:
    """Return the model of relevant pairs, both `(n,)`, sorted by topic.

    The similarities of a block of items to all others are in memory at once. They are counted by the pairs of items
    that topics have in common: products of sparse tensors of PyTorch warn that they are in beta.
    """
    k = min(k, n_items - 1)
    counts = torch.bincount(topics, minlength=n_topics), torch.bincount(items, minlength=n_items)
    offsets, of_items = (Lists.of_sizes(own).offsets for own in counts)
    by_item = topics[torch.sort(items, stable=True).indices]
    lengths = counts[1].to(torch.float64).clamp(min=1)
    at_once = max(SCORES_AT_ONCE // max(int(offsets.diff().max()), 1), 1)
    near = torch.zeros(n_items, k, dtype=torch.int64)
    cosines = torch.zeros(n_items, k)
    for block in torch.split(torch.arange(n_items), max(SCORES_AT_ONCE // max(n_items, 1), 1)):
        common = torch.zeros(len(block) * n_items)
        blocks = (torch.split(pairs, at_once) for pairs in _of_lists(of_items, by_item, block))
        for rows, shared in zip(*blocks, strict=True):
            place, others = _of_lists(offsets, items, shared)
            common.index_add_(0, rows[place] * n_items + others, torch.ones(len(others)))
        # Equal fractions are equal in single precision, too, so that ties are found.
        products = (lengths[block, None] * lengths).sqrt()
        similar = (common.view(len(block), n_items).to(torch.float64) / products).to(torch.float32)
        similar[torch.arange(len(block)), block] = -1.0
        near[block] = first_of(similar, k)
        cosines[block] = similar.gather(1, near[block]).clamp(min=0)
    return ItemNeighbours(near=near, cosines=cosines, offsets=offsets, items=items)


class Ease(Given):
    r"""Scores an item by weights of a topic's relevant items, the autoencoder EASE (Steck, WWW 2019).

    $$s(t, i) = \sum_{j \in R_t} B_{ji}, \qquad B_{ji} = -\frac{P_{ji}}{P_{ii}}, \quad B_{ii} = 0, \quad
      P = (X^T X + \lambda I)^{-1}$$

    $X_{ti}$ is 1 if item $i$ is relevant to topic $t$. $B$ is the minimum of $\|X - XB\|^2 + \lambda \|B\|^2$ with a
    diagonal of 0.

    Args:
        weights: $B$, `(n_items, n_items)`.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        weights, offsets, items = (self.get_buffer(name) for name in ("weights", "offsets", "items"))
        chosen = _indicators(offsets, items, topics, len(weights)).to(weights)
        if bool((topics < 0).any()):
            chosen[topics < 0] = torch.bincount(items, minlength=len(weights)).to(weights) / max(len(offsets) - 1, 1)
        return chosen @ weights


Counted = Popularity | ItemNeighbours | Ease
"""The models without epochs."""


def fit_ease(topics: Tensor, items: Tensor, n_topics: int, n_items: int, ridge: float) -> Ease:
    """Return the model of relevant pairs, both `(n,)`, sorted by topic; DataError for too many items."""
    if n_items > MOST_ITEMS_OF_EASE:
        raise DataError(
            f"found {n_items} items, but model ease has a weight for each pair of items: expected at most "
            f"{MOST_ITEMS_OF_EASE}; keep the most frequent items, or train model item-knn"
        )
    offsets = Lists.of_sizes(torch.bincount(topics, minlength=n_topics)).offsets
    products = torch.zeros(n_items, n_items, dtype=torch.float64)
    for block in torch.split(torch.arange(n_topics), max(SCORES_AT_ONCE // max(n_items, 1), 1)):
        rows = _indicators(offsets, items, block, n_items)
        products += rows.T @ rows
    products.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(products))
    weights = -inverse / inverse.diagonal()
    weights.fill_diagonal_(0.0)
    return Ease(weights=weights.to(torch.float32).contiguous(), offsets=offsets, items=items)


def _indicators(offsets: Tensor, items: Tensor, topics: Tensor, n_items: int) -> Tensor:
    """Return 1 for the relevant items of each topic, `(n_topics, n_items)`, float64; 0 for others."""
    chosen = torch.zeros(len(topics), n_items, dtype=torch.float64)
    chosen[_of_lists(offsets, items, topics)] = 1.0
    return chosen


def _of_lists(offsets: Tensor, items: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the items of the chosen lists, one list after another, and each one's place in `chosen`; -1 has none."""
    sizes = torch.where(chosen < 0, 0, offsets[chosen + 1] - offsets[chosen])
    row = torch.repeat_interleave(torch.arange(len(chosen)), sizes)
    moved = offsets[chosen] - (sizes.cumsum(0) - sizes)
    return row, items[torch.arange(len(row)) + moved[row]]


def restored_counted(kind: str, tensors: Mapping[str, Tensor], n_topics: int, n_items: int) -> Counted:
    """Return the model of a file; ValueError for tensors that fit neither each other nor the vocabulary."""
    if kind == "popularity":
        if (counts := tensors["counts"]).shape != (n_items,):
            raise ValueError(f"counts: found shape {tuple(counts.shape)}, expected ({n_items},)")
        return Popularity(counts=counts)
    offsets, items = tensors["offsets"], tensors["items"]
    if kind == "ease":
        near, values = items, tensors["weights"]
        shapes = values.shape == (n_items, n_items)
    else:
        near, values = tensors["near"], tensors["cosines"]
        shapes = near.shape == values.shape and len(near) == n_items
    whole = all(tensor.dtype == torch.int64 for tensor in (near, offsets, items))
    if not (whole and shapes and offsets.shape == (n_topics + 1,) and items.dim() == 1):
        raise ValueError("the neighbours do not fit the topics and items")
    for name, indices in (("near", near), ("items", items)):
        if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < n_items:
            raise ValueError(f"{name}: found an index that is none of {n_items} items")
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(items) or bool((offsets.diff() < 0).any()):
        raise ValueError("offsets: expected the limits of all items")
    lists = {"offsets": offsets, "items": items}
    return Ease(weights=values, **lists) if kind == "ease" else ItemNeighbours(near=near, cosines=values, **lists)


def first_of(scores: Tensor, k: int) -> Tensor:
    """Return the places of the `k` highest scores of each row, `(n_rows, k)`, the highest first and ties by place."""
    values, places = scores.topk(k, dim=1)
    if not k:
        return places
    lowest = values[:, -1:]
    # Which of the ties with the last one `topk` takes is not specified.
    cut = torch.nonzero((scores == lowest).sum(1) > (values == lowest).sum(1)).squeeze(1)
    if len(cut):
        tied = scores[cut] == lowest[cut]
        room = k - (scores[cut] > lowest[cut]).sum(1, keepdim=True)
        kept = (scores[cut] > lowest[cut]) | (tied & (tied.cumsum(1) <= room))
        places[cut] = torch.nonzero(kept)[:, 1].view(len(cut), k)
    places = places.sort(1).values
    order = torch.sort(scores.gather(1, places), dim=1, descending=True, stable=True).indices
    return places.gather(1, order)


def score_listed(model: nn.Module, topics: Tensor, items: Tensor, offsets: Tensor) -> Tensor:
    """Return the scores of the items of lists, by the places of the lists' topics and of the items; -1 is unknown.

    The score of an unknown item is the mean over all others, for its topic.
    """
    assert isinstance(model, Counted | Factorization)
    some, scores = topics.new_zeros(1), []
    width = model.of_topics(some).shape[1]
    for block in torch.split(torch.arange(len(topics)), max(SCORES_AT_ONCE // max(width, 1), 1)):
        first, last = int(offsets[block[0]]), int(offsets[block[-1] + 1])
        of_all = model.of_topics(topics[block])
        own = items[first:last]
        row = torch.repeat_interleave(torch.arange(len(block)), offsets[block + 1] - offsets[block])
        of_known = of_all[row, own.clamp(min=0)]
        scores.append(torch.where(own < 0, of_all.mean(1)[row], of_known))
    return torch.cat(scores) if scores else torch.zeros(0)


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
        """Fit a scaling of `kind` to features `(n_items, d)`, or to their `chosen` rows, encoded.

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


class Graph(nn.Module):
    """A model of raw features: encoding, scaling and network in one. With `query` scaling, the rows are one list."""

    def __init__(self, model: nn.Module, scaling: Scaling, encode: Encoder | None) -> None:
        super().__init__()
        self.model, self._scaling, self._encode = deepcopy(model).cpu().eval(), scaling, encode

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n_items,)` of `features` `(n_items, d)`."""
        scaling, encode = self._scaling, self._encode
        if scaling.kind == "query":
            features, encode = features if encode is None else encode(features), None
            low, high = features.amin(0), features.amax(0)
            # A factor that would be infinite is not taken, but an exported graph may compute it.
            spread = torch.where(high > low, high - low, 1.0)
            scaling = Scaling("standard", low, torch.where(high > low, 1 / spread, 0.0))
        scores: Tensor = self.model(ScaledFeatures(scaling, features, None, encode).of_rows(slice(None)))
        return scores
