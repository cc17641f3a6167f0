"""Batches in and out of the flat layout: padded tensors, and topics drawn by a PyTorch DataLoader."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rankbound.lists import ArrayLike, Lists, as_tensor


class Topic(NamedTuple):
    """One list, the item of a dataset.

    Args:
        features: `(n, d)`.
        relevance: `(n,)`, grades from 0.
        name: the topic's name.

    >>> rb.Topic(torch.zeros(2, 3), torch.tensor([1, 0]), "a").name
    'a'
    """

    features: Tensor
    relevance: Tensor
    name: str


class Batch(NamedTuple):
    """Lists in the flat layout, as `rankbound.collate` returns them.

    Args:
        features: `(n_items, d)`.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.
        names: the topics' names, one per list.

    >>> batch = rb.collate([rb.Topic(torch.zeros(2, 3), torch.tensor([1, 0]), "a")])
    >>> batch.offsets, batch.names
    (tensor([0, 2]), ['a'])
    """

    features: Tensor
    relevance: Tensor
    offsets: Tensor
    names: list[str]


def from_padded(values: Tensor, mask: Tensor | None = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the items of padded lists in the flat layout, and the offsets of the lists.

    Args:
        values: `(n_lists, longest, ...)`, padded with anything; gradients flow back to the items.
        mask: `(n_lists, longest)`, boolean, true at the items, which may stand anywhere in their row; or
        lengths: `(n_lists,)`, the number of items at the beginning of each row.

    Returns:
        `(n_items, ...)` and `(n_lists + 1,)`, on the device of `values`.

    Raises:
        ValueError: unless one of `mask` and `lengths` is given, for a mask of another shape or type, or lengths that
            are too many, negative or longer than the rows.

    >>> rb.from_padded(torch.tensor([[3.0, 1.0, -9.0], [2.0, -9.0, -9.0]]), lengths=torch.tensor([2, 1]))
    (tensor([3., 1., 2.]), tensor([0, 2, 3]))
    """
    if values.dim() < 2:
        raise ValueError(f"values: found shape {tuple(values.shape)}, expected (n_lists, longest) or more dimensions")
    if (mask is None) == (lengths is None):
        raise ValueError("from_padded: expected either mask or lengths, which tell items from padding")
    if mask is None:
        assert lengths is not None
        mask = _mask_of(lengths, values)
    elif mask.shape != values.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(
            f"mask: found {mask.dtype} of shape {tuple(mask.shape)}, expected torch.bool of shape "
            f"{tuple(values.shape[:2])}, true at the items"
        )
    mask = mask.to(values.device)
    return values[mask], Lists.of_sizes(mask.sum(1)).offsets


def to_padded(values: Tensor, offsets: ArrayLike, fill: float = 0.0) -> Tensor:
    """Return flat values `(n_items, ...)` as padded lists `(n_lists, longest, ...)`, with `fill` after the items.

    Gradients flow back to the values.

    Args:
        values: `(n_items, ...)`.
        offsets: `(n_lists + 1,)`, the lists' limits.
        fill: the value after the items of a row.

    Returns:
        `(n_lists, longest, ...)`.

    Raises:
        ValueError: for invalid offsets.

    >>> rb.to_padded(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 2, 3]), fill=-1)
    tensor([[ 3.,  1.],
            [ 2., -1.]])
    """
    lists = Lists.checked(offsets, len(values), values.device)
    longest = int(lists.sizes.max()) if len(lists) else 0
    padded = values.new_full((len(lists), longest, *values.shape[1:]), fill)
    return padded.index_put((lists.segment, lists.position), values)


def collate(topics: Sequence[tuple[Tensor, Tensor] | Topic]) -> Batch:
    """Return topics as one batch, for `torch.utils.data.DataLoader(lists, collate_fn=rankbound.collate)`.

    Args:
        topics: the items of a dataset, such as `JudgedLists`: features `(n, d)` and relevance `(n,)`, and perhaps a
            name.

    Returns:
        The batch: features `(n_items, d)`, relevance `(n_items,)`, offsets `(n_lists + 1,)` and names.

    Raises:
        ValueError: for a topic whose features and relevance differ in length.

    >>> topics = [(torch.zeros(2, 3), torch.tensor([1, 0])), (torch.ones(1, 3), torch.tensor([2]))]
    >>> rb.collate(topics).offsets
    tensor([0, 2, 3])
    """
    features, relevance = [topic[0] for topic in topics], [topic[1] for topic in topics]
    for place, (rows, labels) in enumerate(zip(features, relevance, strict=True)):
        if len(rows) != len(labels):
            raise ValueError(f"topic {place} of the batch: found {len(rows)} rows of features, {len(labels)} labels")
    names = [topic[2] if len(topic) > 2 else str(place) for place, topic in enumerate(topics)]
    labels = torch.cat(relevance)
    sizes = torch.tensor([len(one) for one in relevance], device=labels.device)
    return Batch(torch.cat(features), labels, Lists.of_sizes(sizes).offsets, names)


def _mask_of(lengths: Tensor, values: Tensor) -> Tensor:
    known = as_tensor(lengths, "lengths").to(values.device)
    longest = values.shape[1]
    if len(known) != len(values) or known.is_floating_point():
        raise ValueError(f"lengths: found {len(known)} of {known.dtype}, expected {len(values)} integers, one per list")
    if len(known) and (int(known.min()) < 0 or int(known.max()) > longest):
        wrong = int(known.min()) if int(known.min()) < 0 else int(known.max())
        raise ValueError(f"lengths: found {wrong}, expected numbers from 0 to {longest}, the length of the rows")
    return torch.arange(longest, device=values.device) < known[:, None]
