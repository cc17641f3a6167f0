"""Subsets of a data set's lists, for training in batches and for evaluation."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics.base import values_of


@dataclass(frozen=True)
class Part:
    """A subset of a data set's lists.

    Attributes:
        names: the topic's name of each list, for messages and results.
        topics: `(n_lists,)`, the topic's index of each list.
        items: `(n_items,)`, the model's input: indices of items, or of rows of features.
        relevance: `(n_items,)`, the relevance labels.
        lists: the limits of the lists.
        list_weights: `(n_lists,)`, numbers from 0 by which a training multiplies the lists' losses; None for ones.
    """

    names: Sequence[str]
    topics: Tensor
    items: Tensor
    relevance: Tensor
    lists: Lists
    list_weights: Tensor | None = None

    def batch(self, index: Tensor) -> "Part":
        """Return the lists of `index`, in that order, without names."""
        sizes = self.lists.sizes.index_select(0, index)
        lists = Lists.of_sizes(sizes)
        moved = self.lists.offsets.index_select(0, index) - lists.offsets[:-1]
        n_items = int(lists.offsets[-1])
        picked = torch.repeat_interleave(moved, sizes, output_size=n_items)
        picked += torch.arange(n_items, device=index.device)
        topics, items, relevance = (
            values.index_select(0, where)
            for values, where in ((self.topics, index), (self.items, picked), (self.relevance, picked))
        )
        weights = None if self.list_weights is None else self.list_weights.index_select(0, index)
        return Part([], topics, items, relevance, lists, weights)

    def split(self, counts: Sequence[int]) -> list["Part"]:
        """Return the parts of the first `counts[0]` lists, the next `counts[1]`, and so on, without names or copies."""
        ends = list(accumulate(counts, initial=0))
        limits = self.lists.offsets[ends].tolist()
        return [
            Part(
                [],
                self.topics[first:last],
                self.items[start:stop],
                self.relevance[start:stop],
                Lists(self.lists.offsets[first : last + 1] - start),
                None if self.list_weights is None else self.list_weights[first:last],
            )
            for (first, last), (start, stop) in zip(pairwise(ends), pairwise(limits), strict=True)
        ]


# Returns the scores of all items of a part, flat.
Scorer = Callable[[nn.Module, Part], Tensor]

# Draws the lists of the next epoch.
Draw = Callable[[], Part]


def predict(model: nn.Module, scorer: Scorer, part: Part) -> Tensor:
    """Return the scores of all items of `part`, without gradients."""
    model.eval()
    with torch.no_grad():
        return scorer(model, part)


Name = TypeVar("Name", bound=Hashable)


class Measuring(Generic[Name]):
    """Computes the mean metrics of several parts, whose lists are scored and sorted together.

    `by_kernel` is as in `rankbound.metrics.base.values_of`: a choice of speed alone.
    """

    def __init__(self, parts: Mapping[Name, Part], metrics: Sequence[Metric], by_kernel: bool | None = None) -> None:
        self._metrics, self._names, self._by_kernel = metrics, list(parts), by_kernel
        self._sizes = [len(part.lists) for part in parts.values()]
        self._joined = joined(list(parts.values()))

    @property
    def joined(self) -> Part:
        """The lists of all parts, one part after the other."""
        return self._joined

    def means(self, scores: Tensor) -> dict[Name, dict[str, float]]:
        """Return the mean metrics of each part, from the scores of `joined`."""
        joined = self._joined
        arguments = scores, joined.relevance, joined.lists.offsets
        values = values_of(self._metrics, *arguments, by_kernel=self._by_kernel)
        means: dict[Name, dict[str, float]] = {name: {} for name in self._names}
        for metric, all_values in values.items():
            for name, of_part in zip(self._names, torch.split(all_values, self._sizes), strict=True):
                means[name][metric] = of_part.nanmean().item()
        return means


def joined(parts: Sequence[Part]) -> Part:
    """Concatenate the lists of all `parts`."""
    if len(parts) == 1:
        return parts[0]
    sizes = torch.cat([part.lists.sizes for part in parts])
    topics, items, relevance = (
        torch.cat(values) for values in zip(*((part.topics, part.items, part.relevance) for part in parts), strict=True)
    )
    names = [name for part in parts for name in part.names]
    return Part(names, topics, items, relevance, Lists.of_sizes(sizes), _joined_weights(parts))


def _joined_weights(parts: Sequence[Part]) -> Tensor | None:
    """Return the weights of all lists, ones for parts that have none; None if no part has any."""
    known = [part.list_weights for part in parts if part.list_weights is not None]
    if not known:
        return None
    return torch.cat(
        [known[0].new_ones(len(part.lists)) if part.list_weights is None else part.list_weights for part in parts]
    )
