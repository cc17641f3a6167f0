"""Sums over all pairs of a list, without padding: exact, and fast for short lists."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rankbound.lists import Lists

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

    def ranks(self, weights: Tensor) -> Tensor:
        sums = []
        for chunk in self._chunks:
            gaps = self._gaps_of(chunk)
            sums.append(_weighted(torch.sigmoid(gaps), weights, chunk))
            if len(self._chunks) == 1:
                self._gaps = [gaps]
        return torch.cat(sums)

    def gradient(self, weights: Tensor, upstream: Tensor) -> Tensor:
        gradient = torch.zeros_like(self._scores)
        for index, chunk in enumerate(self._chunks):
            slope = _sigmoid_slope(self._gaps[index] if self._gaps else self._gaps_of(chunk))
            above = upstream[chunk.targets]
            gradient[self._targets[chunk.targets]] -= (above * _weighted(slope, weights, chunk)).sum(1)
            for weight, pushed in zip(weights.unbind(1), upstream.unbind(1), strict=True):
                gradient.index_add_(0, chunk.item, weight[chunk.item] * pushed[chunk.target] * slope)
        return gradient

    def _gaps_of(self, chunk: _Chunk) -> Tensor:
        # Divided after the difference: large scores in single precision would lose their distances otherwise.
        gaps = self._scores[chunk.item] - self._scores[self._targets[chunk.target]]
        return gaps if self._temperature == 1 else gaps / self._temperature


def _sigmoid_slope(gaps: Tensor) -> Tensor:
    """The derivative of the sigmoid; `s * (1 - s)` would lose all digits of far items in single precision."""
    decay = torch.exp(-gaps.abs())
    return decay / (1 + decay).square()


def _weighted(kernel: Tensor, weights: Tensor, chunk: _Chunk) -> Tensor:
    """Sum of `kernel * weights` over the items of each target's list, `(n_targets, c)`."""
    columns = [chunk.per_target.sum(kernel * column[chunk.item]) for column in weights.unbind(1)]
    return torch.stack(columns, 1)


def _chunks(lists: Lists, targets: Tensor) -> list[_Chunk]:
    segment = lists.segment[targets]
    ends = lists.sizes[segment].cumsum(0)
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
    counts = lists.sizes[owner]
    begins = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    per_target = Lists(begins)
    item = per_target.position + lists.offsets[owner][per_target.segment]
    return _Chunk(slice(start, stop), per_target.segment + start, item, per_target)
