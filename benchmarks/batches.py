"""Generated lists: scores and relevance as flat tensors with offsets, or padded for libraries that need padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RELEVANT_SHARE = 0.1
"""Share of relevant items in single lists."""

MOVIELENS_RELEVANT = {0.0: 25, 0.1: 29, 0.25: 39, 0.5: 65.5, 0.75: 137, 0.9: 245, 0.95: 304, 0.99: 607, 1.0: 1227}
"""Quantile -> relevant movies per user, counted over the 412 users of MovieLens latest-small with at least 25."""

NEGATIVES_PER_RELEVANT = (1, 2, 3)
"""The thesis' negative sampling ratios: a list has 2, 3 or 4 times as many items as relevant ones."""


@dataclass(frozen=True)
class Batch:
    """Concatenated lists: `scores` (float32) and `relevance` (0 or 1) of all items, `sizes` of the lists."""

    scores: Tensor
    relevance: Tensor
    sizes: list[int]

    @property
    def offsets(self) -> Tensor:
        return torch.tensor([0, *np.cumsum(self.sizes)])

    @property
    def relevant(self) -> tuple[int, ...]:
        """The number of relevant items of each list."""
        return tuple(int(part.sum()) for part in torch.split(self.relevance, self.sizes))

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, relevance and the mask of items, each `(n_lists, longest)`, padded with 0."""
        mask = torch.arange(max(self.sizes)) < torch.tensor(self.sizes)[:, None]
        scores, relevance = (
            torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)
            for values in (self.scores, self.relevance)
        )
        return scores, relevance, mask


def one_list(n: int, seed: int = 0) -> Batch:
    """Return a list of `n` items with standard normal scores, a tenth of them relevant."""
    return lists_of([(n, max(1, round(RELEVANT_SHARE * n)))], seed)


def movielens_lists(count: int, seed: int = 0) -> Batch:
    """Return `count` lists at equally spaced quantiles of MovieLens' sizes; the negative sampling ratios alternate."""
    return lists_of(movielens_sizes(count), seed)


def lists_of(sizes: Sequence[tuple[int, int]], seed: int = 0) -> Batch:
    """Return lists of these numbers of items and relevant items, with standard normal scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(n for n, _ in sizes), generator=generator)
    relevance = torch.cat([(torch.randperm(n, generator=generator) < p).to(torch.int64) for n, p in sizes])
    return Batch(scores, relevance, [n for n, _ in sizes])


def movielens_sizes(count: int) -> list[tuple[int, int]]:
    """Return the numbers of items and relevant items of `count` lists, by linear interpolation of the quantiles."""
    quantiles = (np.arange(count) + 0.5) / count
    relevant = np.interp(quantiles, list(MOVIELENS_RELEVANT), list(MOVIELENS_RELEVANT.values())).round().astype(int)
    ratios = np.resize(NEGATIVES_PER_RELEVANT, count)
    return [(int(p * (1 + ratio)), int(p)) for p, ratio in zip(relevant, ratios, strict=True)]
