"""Sums over all pairs of a list, without padding: exact, and fast for short lists."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists, Weights

# Bounds the memory of one chunk of pairs (a few tensors of 8 bytes a pair).
PAIRS_PER_CHUNK = 4_000_000


@dataclass(frozen=True)
class _Chunk:
    """Some targets with all items of their lists: pair `k` compares `target[k]` with `item[k]`."""

    targets: slice
    target: Tensor
    item: Tensor
    per_target: Lists


class PairSums:
    """Kernel sums of the items `targets` over the items of their lists, pair by pair (`smooth_ranks.Sums`)."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._scores, self._targets, self._temperature = scores, targets, temperature
        self._chunks = list(_chunks(lists, targets))
        self._gaps: list[Tensor] = []

    def ranks(self, weights: Weights) -> Tensor:
        sums = []
        for chunk in self._chunks:
            gaps = self._gaps_of(chunk)
            sums.append(_weighted(torch.sigmoid(gaps), weights, chunk))
            if len(self._chunks) == 1:
                self._gaps = [gaps]
        return torch.cat(sums)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        gradient = torch.zeros_like(self._scores)
        for index, chunk in enumerate(self._chunks):
            slope = _sigmoid_slope(self._gaps[index] if self._gaps else self._gaps_of(chunk))
            own = (upstream[chunk.targets] * _weighted(slope, weights, chunk)).sum(1)
            gradient.index_add_(0, self._targets[chunk.targets], own, alpha=-1)
            for weight, pushed in zip(weights, upstream.unbind(1), strict=True):
                push = slope * pushed.index_select(0, chunk.target)
                if weight is not None:
                    push *= weight.index_select(0, chunk.item)
                gradient.index_add_(0, chunk.item, push)
        return gradient

    def _gaps_of(self, chunk: _Chunk) -> Tensor:
        # Divided after the difference: large scores in single precision would lose their distances otherwise.
        own = self._scores.index_select(0, self._targets[chunk.targets])
        gaps = self._scores.index_select(0, chunk.item) - chunk.per_target.spread(own)
        return gaps if self._temperature == 1 else gaps / self._temperature


def _sigmoid_slope(gaps: Tensor) -> Tensor:
    """The derivative of the sigmoid; `s * (1 - s)` would lose all digits of far items in single precision."""
    decay = torch.exp(-gaps.abs())
    return decay / (1 + decay).square()


def _weighted(kernel: Tensor, weights: Weights, chunk: _Chunk) -> Tensor:
    """Sum of `kernel * weights` over the items of each target's list, `(n_targets, c)`."""
    terms = (kernel if weight is None else kernel * weight.index_select(0, chunk.item) for weight in weights)
    return torch.stack([chunk.per_target.sum(values) for values in terms], 1)


def _chunks(lists: Lists, targets: Tensor) -> list[_Chunk]:
    segment = lists.segment.index_select(0, targets)
    ends = lists.sizes.index_select(0, segment).cumsum(0)
    n_pairs = int(ends[-1]) if len(ends) else 0
    chunks: list[_Chunk] = []
    start = 0
    while start < len(targets) or not chunks:
        budget = (int(ends[start - 1]) if start else 0) + PAIRS_PER_CHUNK
        stop = len(targets) if n_pairs <= budget else max(start + 1, int(torch.searchsorted(ends, budget)))
        chunks.append(_chunk(lists, segment, start, stop))
        start = stop
    return chunks


def _chunk(lists: Lists, segment: Tensor, start: int, stop: int) -> _Chunk:
    owner = segment[start:stop]
    counts = lists.sizes.index_select(0, owner)
    begins = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    per_target = Lists(begins)
    item = per_target.position + per_target.spread(lists.offsets.index_select(0, owner))
    return _Chunk(slice(start, stop), per_target.segment + start, item, per_target)
