"""Coherence of a loss' gradients: is a relevant item pushed up at least as strongly as an irrelevant one?

Marcuzzi, Lucchese and Orlando (CIKM 2023, "LambdaRank gradients are incoherent") call a gradient incoherent if a more
relevant item gets the smaller push. Here the smooth losses are examined, with and without bounds, on random lists.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

import rankbound as rb

SIZES = ((8, 3), (12, 4), (20, 5))
"""Numbers of items and of relevant items of the random lists."""

LISTS = 50
"""Lists of each size."""

SPREAD = 4.0
"""Standard deviation of the scores, in temperatures: close scores alone have coherent gradients."""


@dataclass(frozen=True)
class Coherence:
    """Pairs of a relevant and an irrelevant item of one list, under a loss and a bound."""

    loss: str
    bound: str
    pairs: int
    incoherent: int


def coherence(loss: str, bound: str) -> Coherence:
    """Count the pairs in which the irrelevant item is pushed up more, or down less, than the relevant one."""
    random = np.random.default_rng(0)
    counts = [size for size in SIZES for _ in range(LISTS)]
    relevance = np.concatenate([np.arange(n) < p for n, p in counts])
    offsets = np.concatenate([[0], np.cumsum([n for n, _ in counts])])
    scores = torch.tensor(random.normal(0, SPREAD, len(relevance)), dtype=torch.float64, requires_grad=True)
    rb.SmoothLoss(loss, bound)(scores, relevance.astype(np.int64), offsets).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    push = -scores.grad.numpy()
    pairs = incoherent = 0
    for start, end in pairwise(offsets.tolist()):
        wanted = relevance[start:end]
        smaller = push[start:end][wanted][:, None] < push[start:end][~wanted][None, :]
        pairs, incoherent = pairs + smaller.size, incoherent + int(smaller.sum())
    return Coherence(loss, bound, pairs, incoherent)
