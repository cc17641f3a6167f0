"""Exact kernel sums over all pairs of each list, without padding; fast for short lists."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.kernels import SIGMOID, SIGMOID_SLOPE, Kernel
from rankbound.lists import Lists, Weights

# Limits the memory of one chunk of pairs (a few tensors of 8 bytes per pair).
PAIRS_PER_CHUNK = 4_000_000


@dataclass(frozen=True)
class Chunk:
    """Some targets paired with all items of their lists: pair `k` compares `target[k]` with `item[k]`."""

    targets: slice
    target: Tensor
    item: Tensor
    per_target: Lists


def pair_sums(scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> "OneListSums | PairSums":
    """Return kernel sums of the items `targets` over their lists, pair by pair; implements `smooth_ranks.Sums`."""
    as_matrix = len(lists) == 1 and len(scores) * len(targets) <= PAIRS_PER_CHUNK
    return (OneListSums if as_matrix else PairSums)(scores, lists, targets, temperature)


class OneListSums:
    """Pair sums of a single list, whose pairs fill a matrix."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._targets = targets
        # Division after subtraction preserves the gaps of large scores in single precision.
        gaps = scores - scores.index_select(0, targets).unsqueeze(1)
        self._gaps = gaps if temperature == 1 else gaps / temperature

    def ranks(self, weights: Weights) -> Tensor:
        return self.sums(SIGMOID, weights)

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        return self._weighted(kernel.at(self._gaps), weights)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        slope = SIGMOID_SLOPE.at(self._gaps)
        own = (upstream * self._weighted(slope, weights)).sum(1)
        pushed = zip(weights, (upstream.T @ slope).unbind(0), strict=True)
        gradient = torch.stack([push if weight is None else weight * push for weight, push in pushed]).sum(0)
        return gradient.index_add_(0, self._targets, own, alpha=-1)

    def _weighted(self, values: Tensor, weights: Weights) -> Tensor:
        columns = [values.sum(1) if weight is None else values @ weight for weight in weights]
        return torch.stack(columns, 1)


class PairSums:
    """Pair sums of any lists, in chunks of bounded memory."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._scores, self._targets, self._temperature = scores, targets, temperature
        self._chunks = list(pair_chunks(lists, targets))
        self._gaps: list[Tensor] = []

    def ranks(self, weights: Weights) -> Tensor:
        return self.sums(SIGMOID, weights)

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        sums = []
        for chunk in self._chunks:
            gaps = self._gaps_of(chunk)
            sums.append(_weighted(kernel.at(gaps), weights, chunk))
            if len(self._chunks) == 1:
                self._gaps = [gaps]
        return torch.cat(sums)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        gradient = torch.zeros_like(self._scores)
        for index, chunk in enumerate(self._chunks):
            slope = SIGMOID_SLOPE.at(self._gaps[index] if self._gaps else self._gaps_of(chunk))
            own = (upstream[chunk.targets] * _weighted(slope, weights, chunk)).sum(1)
            gradient.index_add_(0, self._targets[chunk.targets], own, alpha=-1)
            for weight, pushed in zip(weights, upstream.unbind(1), strict=True):
                push = slope * pushed.index_select(0, chunk.target)
                if weight is not None:
                    push *= weight.index_select(0, chunk.item)
                gradient.index_add_(0, chunk.item, push)
        return gradient

    def _gaps_of(self, chunk: Chunk) -> Tensor:
        return pair_gaps(self._scores, self._targets, chunk, self._temperature)


def pair_gaps(scores: Tensor, targets: Tensor, chunk: Chunk, temperature: float) -> Tensor:
    """Return the score of each pair's item minus that of its target, in units of the temperature, `(n_pairs,)`."""
    # Division after subtraction preserves the gaps of large scores in single precision.
    own = scores.index_select(0, targets[chunk.targets])
    gaps = scores.index_select(0, chunk.item) - chunk.per_target.spread(own)
    return gaps if temperature == 1 else gaps / temperature


def pair_chunks(lists: Lists, targets: Tensor) -> list[Chunk]:
    """Return all pairs of the items `targets` with the items of their lists, in chunks that fit in memory."""
    segment = lists.segment.index_select(0, targets)
    ends = lists.sizes.index_select(0, segment).cumsum(0)
    n_pairs = int(ends[-1]) if len(ends) else 0
    chunks: list[Chunk] = []
    start = 0
    while start < len(targets) or not chunks:
        budget = (int(ends[start - 1]) if start else 0) + PAIRS_PER_CHUNK
        stop = len(targets) if n_pairs <= budget else max(start + 1, int(torch.searchsorted(ends, budget)))
        chunks.append(_chunk(lists, segment, start, stop))
        start = stop
    return chunks


def _weighted(values: Tensor, weights: Weights, chunk: Chunk) -> Tensor:
    """Return the sums of `values * weights` over the items of each target's list, `(n_targets, c)`."""
    terms = (values if weight is None else values * weight.index_select(0, chunk.item) for weight in weights)
    return torch.stack([chunk.per_target.sum(term) for term in terms], 1)


def _chunk(lists: Lists, segment: Tensor, start: int, stop: int) -> Chunk:
    owner = segment[start:stop]
    per_target = Lists.of_sizes(lists.sizes.index_select(0, owner))
    item = per_target.position + per_target.spread(lists.offsets.index_select(0, owner))
    return Chunk(slice(start, stop), per_target.segment + start, item, per_target)
