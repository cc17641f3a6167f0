"""Rankers without factors, from what topics have in common: popularity, nearest neighbours, and a linear regression.

Like `Factorization`, they score items for topics by the places of both in a vocabulary; place -1 is an unknown topic,
whose scores are the means over all topics.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.training.models import Factorization

PAIRS_AT_ONCE = 2**21
"""The number of scores of topics by items that are in memory at once."""

MOST_ITEMS_OF_EASE = 20_000
"""The weights between so many items take 1.6 GB, and their computation in double precision 10 GB."""


class Popularity(nn.Module):
    """Scores an item, for all topics alike, by the number of topics that it is relevant to."""

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.register_buffer("counts", counts)

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        return self.get_buffer("counts").expand(len(topics), -1)


class ItemNeighbours(nn.Module):
    r"""Scores an item by its similarity to a topic's relevant items (Deshpande and Karypis 2004; Sarwar et al. 2001).

    $$s(t, i) = \sum_{j \in R_t,\ i \in N_j} \frac{|T_i \cap T_j|}{\sqrt{|T_i|\,|T_j|}}$$

    $R_t$ are the items that are relevant to topic $t$, $T_i$ the topics to which item $i$ is, and $N_j$ the `k` items
    other than $j$ with the highest cosine, by name on ties.

    Args:
        near: `(n_items, k)`, the neighbours of each item.
        cosines: `(n_items, k)`, their similarities; 0 where there are fewer.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def __init__(self, near: Tensor, cosines: Tensor, offsets: Tensor, items: Tensor) -> None:
        super().__init__()
        for name, tensor in {"near": near, "cosines": cosines, "offsets": offsets, "items": items}.items():
            self.register_buffer(name, tensor)

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        near, cosines, offsets, items = (self.get_buffer(name) for name in ("near", "cosines", "offsets", "items"))
        n_items = len(near)
        row, own = _of_lists(offsets, items, topics)
        scores = torch.zeros(len(topics) * n_items)
        # The copies of neighbours take no more memory than the scores of a block.
        size = max(PAIRS_AT_ONCE // max(near.shape[1], 1), 1)
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
    offsets, of_items = (
        torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(index, minlength=count).cumsum(0)])
        for index, count in ((topics, n_topics), (items, n_items))
    )
    by_item = topics[torch.sort(items, stable=True).indices]
    counts = of_items.diff().to(torch.float64).clamp(min=1)
    at_once = max(PAIRS_AT_ONCE // max(int(offsets.diff().max()), 1), 1)
    near = torch.zeros(n_items, k, dtype=torch.int64)
    cosines = torch.zeros(n_items, k)
    for block in torch.split(torch.arange(n_items), max(PAIRS_AT_ONCE // max(n_items, 1), 1)):
        common = torch.zeros(len(block) * n_items)
        blocks = (torch.split(pairs, at_once) for pairs in _of_lists(of_items, by_item, block))
        for rows, shared in zip(*blocks, strict=True):
            place, others = _of_lists(offsets, items, shared)
            common.index_add_(0, rows[place] * n_items + others, torch.ones(len(others)))
        # Equal fractions are equal in single precision, too, so that ties are found.
        lengths = (counts[block, None] * counts).sqrt()
        similar = (common.view(len(block), n_items).to(torch.float64) / lengths).to(torch.float32)
        similar[torch.arange(len(block)), block] = -1.0
        near[block] = first_of(similar, k)
        cosines[block] = similar.gather(1, near[block]).clamp(min=0)
    return ItemNeighbours(near, cosines, offsets, items)


class Ease(nn.Module):
    r"""Scores an item by weights of a topic's relevant items, the autoencoder EASE (Steck, WWW 2019).

    $$s(t, i) = \sum_{j \in R_t} B_{ji}, \qquad B_{ji} = -\frac{P_{ji}}{P_{ii}}, \quad B_{ii} = 0, \quad
      P = (X^T X + \lambda I)^{-1}$$

    $X_{ti}$ is 1 if item $i$ is relevant to topic $t$. $B$ is the minimum of $\|X - XB\|^2 + \lambda \|B\|^2$ with a
    diagonal of 0.

    Args:
        weights: $B$, `(n_items, n_items)`.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def __init__(self, weights: Tensor, offsets: Tensor, items: Tensor) -> None:
        super().__init__()
        for name, tensor in {"weights": weights, "offsets": offsets, "items": items}.items():
            self.register_buffer(name, tensor)

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
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(topics, minlength=n_topics).cumsum(0)])
    products = torch.zeros(n_items, n_items, dtype=torch.float64)
    for block in torch.split(torch.arange(n_topics), max(PAIRS_AT_ONCE // max(n_items, 1), 1)):
        rows = _indicators(offsets, items, block, n_items)
        products += rows.T @ rows
    products.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(products))
    weights = -inverse / inverse.diagonal()
    weights.fill_diagonal_(0.0)
    return Ease(weights.to(torch.float32).contiguous(), offsets, items)


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


def restored(kind: str, tensors: Mapping[str, Tensor], n_topics: int, n_items: int) -> Counted:
    """Return the model of a file; ValueError for tensors that fit neither each other nor the vocabulary."""
    if kind == "popularity":
        if (counts := tensors["counts"]).shape != (n_items,):
            raise ValueError(f"counts: found shape {tuple(counts.shape)}, expected ({n_items},)")
        return Popularity(counts)
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
    return Ease(values, offsets, items) if kind == "ease" else ItemNeighbours(near, values, offsets, items)


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
    for block in torch.split(torch.arange(len(topics)), max(PAIRS_AT_ONCE // max(width, 1), 1)):
        first, last = int(offsets[block[0]]), int(offsets[block[-1] + 1])
        of_all = model.of_topics(topics[block])
        own = items[first:last]
        row = torch.repeat_interleave(torch.arange(len(block)), offsets[block + 1] - offsets[block])
        of_known = of_all[row, own.clamp(min=0)]
        scores.append(torch.where(own < 0, of_all.mean(1)[row], of_known))
    return torch.cat(scores) if scores else torch.zeros(0)
