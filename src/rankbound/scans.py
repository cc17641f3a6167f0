r"""Sums of exponential kernels over each list, exact in one sort and two scans of the sorted scores.

Items of equal scores form blocks $x_1 > x_2 > \dots$ with total weights $W_b$. The weights of the higher blocks,
discounted by their gaps, follow from those of the block before, and those of the lower blocks likewise from below:

$$A_b = \sum_{a < b} W_a e^{-(x_a - x_b)} = e^{-(x_{b-1} - x_b)} (A_{b-1} + W_{b-1}).$$

Exponents are gaps between neighbours, never above 0, so that nothing overflows whatever the spread of the scores. All
lists are scanned at once: a factor of 0 at its first block separates a list from the one before. Everything is computed
in float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rankbound.kernels import LAPLACE, LAPLACE_SLOPE, Kernel
from rankbound.lists import Lists, Weights
from rankbound.ranks import tie_blocks


class _Weight(NamedTuple):
    """The weight at each block of tied items, `(c, n_blocks)`, and those of the higher and lower ones, discounted."""

    tied: Tensor
    higher: Tensor
    lower: Tensor


class ScannedSums:
    """Sums of Laplace steps of the items `targets` over their lists, by scans; implements `smooth_ranks.Sums`."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._targets, self._blocks = targets, tie_blocks(scores, lists)
        self._block = torch.empty_like(self._blocks.block).index_copy_(0, self._blocks.order, self._blocks.block)
        self._decay = self._decays(scores, temperature)
        self._weight: _Weight | None = None

    def ranks(self, weights: Weights) -> Tensor:
        self._weight = self._discounted(weights)
        return self._at(self._targets, LAPLACE, self._weight)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        upstream = upstream.to(torch.float64)
        pushes = [upstream.new_zeros(len(self._block)).index_copy_(0, self._targets, g) for g in upstream.unbind(1)]
        pushed = self._at(None, LAPLACE_SLOPE, self._discounted(tuple(pushes))).unbind(1)
        terms = [push if weight is None else weight * push for weight, push in zip(weights, pushed, strict=True)]
        weight = self._discounted(weights) if self._weight is None else self._weight
        own = (upstream * self._at(self._targets, LAPLACE_SLOPE, weight)).sum(1)
        return sum(terms[1:], start=terms[0]).index_add(0, self._targets, own, alpha=-1)

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        """Return the sums of a kernel with `exponentials` for each target, `(n_targets, c)`."""
        assert kernel.exponentials is not None
        return self._at(self._targets, kernel, self._discounted(weights, kernel.exponentials.rate))

    def _discounted(self, weights: Weights, rate: float = 1.0) -> _Weight:
        size = self._blocks.size.to(torch.float64)
        tied = torch.stack([size if w is None else self._blocks.sum(w.to(torch.float64)) for w in weights])
        return _Weight(tied, *_discounted(self._decay if rate == 1 else self._decay**rate, tied))

    def _at(self, items: Tensor | None, kernel: Kernel, weight: _Weight) -> Tensor:
        """Return the kernel sums of the items (`None`: all), `(n, c)`."""
        assert kernel.exponentials is not None
        by_gap = kernel.exponentials
        sums = by_gap.higher * weight.higher + by_gap.tied * weight.tied + by_gap.lower * weight.lower
        if kernel.above:
            sums += kernel.above * torch.stack([self._blocks.before(total) for total in weight.tied])
        return sums.index_select(1, self._block if items is None else self._block.index_select(0, items)).T

    def _decays(self, scores: Tensor, temperature: float) -> Tensor:
        """Return the exponential of minus the gap to the block before, `(n_blocks,)`; 0 at the first of a list."""
        blocks = self._blocks
        first_item = blocks.order.index_select(0, blocks.size.cumsum(0) - blocks.size)
        height = scores.index_select(0, first_item).to(torch.float64)
        gaps = torch.diff(height, prepend=height[:1]) / temperature
        return torch.exp(gaps).masked_fill(blocks.lists.position == 0, 0.0)


def _discounted(decay: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the discounted sums of the weights `(c, n)` before and behind each entry, with `decay` `(n,)` between."""
    before = decay * weights.roll(1, 1)
    towards = decay.roll(-1)
    behind = towards * weights.roll(-1, 1)
    # Both directions are one scan, whose steps cost the same.
    scanned = _recurrence(torch.stack([decay, towards.flip(0)])[:, None], torch.stack([before, behind.flip(1)]))
    return scanned[0], scanned[1].flip(1)


def _recurrence(decay: Tensor, values: Tensor) -> Tensor:
    r"""Return $a_k = d_k a_{k-1} + v_k$ along the last dimension, $a_{-1} = 0$, in linear time and few steps.

    Two steps of the recurrence are one step of the same form; the recurrence of these has half the length, and gives
    every other number.
    """
    n = values.shape[-1]
    if n < 2:
        return values
    even = n - n % 2
    second = decay[..., 1:even:2]
    odd = _recurrence(decay[..., 0:even:2] * second, second * values[..., 0:even:2] + values[..., 1:even:2])
    scanned = values.clone()
    scanned[..., 1::2] = odd
    scanned[..., 2::2] += decay[..., 2::2] * odd[..., : (n - 1) // 2]
    return scanned
