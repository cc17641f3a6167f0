r"""Sums of exponential kernels over each list, exact in one sort and two scans of the sorted scores.

In descending order $x_1 \ge x_2 \ge \dots$ with weights $w_k$, the weights of the items before, which decay with their
gaps, follow from those of the neighbour; those of the items behind do so from the other end:

$$A_k = \sum_{j < k} w_j e^{-(x_j - x_k)} = e^{-(x_{k-1} - x_k)} (A_{k-1} + w_{k-1}).$$

Exponents are gaps between neighbours, never above 0, so that nothing overflows whatever the spread of the scores. The
order of tied items does not matter where a kernel is continuous. All lists are scanned at once: a factor of 0 at its
first item separates a list from the one before. Everything is computed in float64.
"""

from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankbound.fused import usable
from rankbound.kernels import LAPLACE, LAPLACE_SLOPE, Kernel
from rankbound.lists import Lists, Weights
from rankbound.ranks import block_starts, descending_order


class _Weight(NamedTuple):
    """The weight of each item, `(c, n_items)` in descending order of score, and those before and behind, decayed."""

    own: Tensor
    before: Tensor
    behind: Tensor


class ScannedSums:
    """Sums of Laplace steps of the items `targets` over their lists, by scans; implements `smooth_ranks.Sums`."""

    def __init__(self, scores: Tensor, lists: Lists, targets: Tensor, temperature: float) -> None:
        self._lists, self._targets = lists, targets
        self._order = descending_order(scores, lists)
        place = torch.arange(len(scores), device=scores.device)
        self._place = torch.empty_like(place).index_copy_(0, self._order, place)
        self._ranked = scores.index_select(0, self._order).to(torch.float64)
        gaps = torch.diff(self._ranked, prepend=self._ranked[:1]) / temperature
        self._decay = torch.exp(gaps).masked_fill(lists.position == 0, 0.0)
        self._weight: _Weight | None = None

    def ranks(self, weights: Weights) -> Tensor:
        self._weight = self._decayed(weights)
        return self._at(self._targets, LAPLACE, self._weight)

    def gradient(self, weights: Weights, upstream: Tensor) -> Tensor:
        upstream = upstream.to(torch.float64)
        pushes = [upstream.new_zeros(len(self._order)).index_copy_(0, self._targets, g) for g in upstream.unbind(1)]
        pushed = self._at(None, LAPLACE_SLOPE, self._decayed(tuple(pushes))).unbind(1)
        terms = [push if weight is None else weight * push for weight, push in zip(weights, pushed, strict=True)]
        assert self._weight is not None, "ranks come first"
        own = (upstream * self._at(self._targets, LAPLACE_SLOPE, self._weight)).sum(1)
        return sum(terms[1:], start=terms[0]).index_add(0, self._targets, own, alpha=-1)

    def sums(self, kernel: Kernel, weights: Weights) -> Tensor:
        """Return the sums of a kernel with `exponentials` for each target, `(n_targets, c)`."""
        assert kernel.exponentials is not None
        return self._at(self._targets, kernel, self._decayed(weights, kernel.exponentials.rate))

    def _decayed(self, weights: Weights, rate: float = 1.0) -> _Weight:
        ones = torch.ones_like(self._ranked)
        own = torch.stack([ones if w is None else w.to(torch.float64).index_select(0, self._order) for w in weights])
        return _Weight(own, *decayed_sums(self._decay if rate == 1 else self._decay**rate, own))

    def _at(self, items: Tensor | None, kernel: Kernel, weight: _Weight) -> Tensor:
        """Return the kernel sums of the items (`None`: all), `(n, c)`."""
        assert kernel.exponentials is not None
        by_gap, (own, before, behind) = kernel.exponentials, weight
        if by_gap.odd:
            # Tied items count 0, on either side.
            first, last = self._ends_of_ties
            before, behind, own = before.index_select(1, first), behind.index_select(1, last), torch.zeros_like(own)
        sums = by_gap.higher * before + by_gap.lower * (own + behind)
        if kernel.above:
            sums += kernel.above * running_sums(weight.own, self._lists.position == 0)[0]
        return sums.index_select(1, self._place if items is None else self._place.index_select(0, items)).T

    @cached_property
    def _ends_of_ties(self) -> tuple[Tensor, Tensor]:
        """The places of the first and the last item that ties with each, `(n_items,)`."""
        starts = block_starts(self._ranked, self._lists)
        n, place = len(starts), torch.arange(len(starts), device=starts.device)
        first = torch.where(starts, place, 0).cummax(0).values
        last = torch.where(starts.roll(-1), place, n).flip(0).cummin(0).values.flip(0)
        return first, last


def decayed_sums(decay: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of the weights `(c, n)` before and behind each place, which decay by `decay` `(n,)` per step."""
    if weights.device.type == "cpu" and usable():
        from rankbound.fused.decayed_sums import decayed_sums as run

        before, behind = torch.empty_like(weights), torch.empty_like(weights)
        run(weights.contiguous().numpy(), decay.numpy(), before.numpy(), behind.numpy())
        return before, behind
    towards = decay.roll(-1)
    enters = decay * weights.roll(1, 1), towards * weights.roll(-1, 1)
    # Both directions are one scan, whose steps cost the same.
    both = torch.stack([decay, towards.flip(0)])[:, None]
    scanned = _recurrence(both, torch.stack([enters[0], enters[1].flip(1)]))
    return scanned[0], scanned[1].flip(1)


def running_sums(values: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of `values` `(c, n)`, float64, before and behind each place, up to where lists start.

    Unlike differences of the batch's running totals, they keep their digits beside lists of much larger numbers.
    """
    decay = (~starts).to(torch.float64)
    if values.requires_grad and torch.is_grad_enabled():
        sums: tuple[Tensor, Tensor] = _RunningSums.apply(values, decay)  # type: ignore[no-untyped-call]
        return sums
    return decayed_sums(decay, values.detach())


class _RunningSums(torch.autograd.Function):
    """Running sums that can be differentiated repeatedly: those before and behind are each other's transpose."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        ctx.starts = decay == 0
        return decayed_sums(decay, values)

    @staticmethod
    def backward(ctx: Any, by_before: Tensor, by_behind: Tensor) -> tuple[Tensor, None]:
        return running_sums(by_before, ctx.starts)[1] + running_sums(by_behind, ctx.starts)[0], None


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
