"""Running sums within each list, which keep their digits beside lists of much larger numbers."""

from typing import Any

import torch
from torch import Tensor

from rankbound.fused import usable


def running_sums(values: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of `values` `(c, n)`, float64, before and behind each place, up to where lists start.

    Unlike differences of the batch's running totals, they keep their digits beside lists of much larger numbers.
    """
    if values.requires_grad and torch.is_grad_enabled():
        sums: tuple[Tensor, Tensor] = _RunningSums.apply(values, starts)  # type: ignore[no-untyped-call]
        return sums
    return _summed(values.detach(), starts)


class _RunningSums(torch.autograd.Function):
    """Running sums that can be differentiated repeatedly: those before and behind are each other's transpose."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        ctx.starts = starts
        return _summed(values, starts)

    @staticmethod
    def backward(ctx: Any, by_before: Tensor, by_behind: Tensor) -> tuple[Tensor, None]:
        return running_sums(by_before, ctx.starts)[1] + running_sums(by_behind, ctx.starts)[0], None


def _summed(values: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    if values.device.type == "cpu" and usable():
        from rankbound.fused.scans import running_sums as run

        before, behind = torch.empty_like(values), torch.empty_like(values)
        run(values.contiguous().numpy(), starts.numpy(), before.numpy(), behind.numpy())
        return before, behind
    kept = (~starts).to(torch.float64)
    next_kept = kept.roll(-1)
    enters = kept * values.roll(1, 1), next_kept * values.roll(-1, 1)
    # Both directions are one scan, whose steps cost the same.
    both = torch.stack([kept, next_kept.flip(0)])[:, None]
    scanned = _recurrence(both, torch.stack([enters[0], enters[1].flip(1)]))
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
