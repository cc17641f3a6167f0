r"""Kernels: functions of the gap between two scores.

A kernel $k$ takes the gap $x = (s_j - s_i)/\tau$ from an item $i$ to another item $j$. Interpolation requires that $k$
has no pole nearer than about 2.5 to the real line, and that for $|x| > 18$ it is constant or, above, the gap itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Kernel:
    """The function `at` of gaps, constant at `below` for low gaps and `above` for high ones (if `linear`: the gap)."""

    at: Callable[[Tensor], Tensor]
    above: float = 0.0
    below: float = 0.0
    linear: bool = False

    @cached_property
    def mirrored(self) -> "Kernel":
        """The kernel `k(-x)` of the opposite gap."""
        if self.linear:
            raise ValueError("kernel: found a linear one, expected a smooth one that tends to constants on both sides")
        return Kernel(lambda gap: self.at(-gap), self.below, self.above)


def sigmoid_slope(gap: Tensor) -> Tensor:
    """Return the derivative of the sigmoid; `s * (1 - s)` would lose all digits of large gaps in single precision."""
    lesser = gap.abs().neg_().sigmoid_()
    return lesser * (1 - lesser)


def sigmoid_curvature(gap: Tensor) -> Tensor:
    """Return the second derivative of the sigmoid, an odd function."""
    return -torch.tanh(gap / 2) * sigmoid_slope(gap)


def softplus(gap: Tensor) -> Tensor:
    """Return log(1 + exp(x)), the logistic loss of a pair whose less relevant item scores x higher."""
    # PyTorch's default threshold of 20 causes a step of 2e-9, visible in double precision.
    return functional.softplus(gap, threshold=40)


def tanh_link(gap: Tensor) -> Tensor:
    """Return log(1 + exp(tanh(x/2)))."""
    return functional.softplus(torch.tanh(gap / 2))


def tanh_link_slope(gap: Tensor) -> Tensor:
    """Return the derivative of `tanh_link`; that of tanh(x/2) is 2 sigma'(x)."""
    return 2 * sigmoid_slope(gap) * torch.sigmoid(torch.tanh(gap / 2))


def tanh_link_curvature(gap: Tensor) -> Tensor:
    """Return the second derivative of `tanh_link`."""
    bent, slope = torch.tanh(gap / 2), 2 * sigmoid_slope(gap)
    return slope * torch.sigmoid(bent) * (slope * torch.sigmoid(-bent) - bent)


SIGMOID = Kernel(torch.sigmoid, above=1.0)
SIGMOID_SLOPE = Kernel(sigmoid_slope)
SIGMOID_CURVATURE = Kernel(sigmoid_curvature)
SOFTPLUS = Kernel(softplus, linear=True)

# DirectRanker's link tanh(gap) as a function of x = 2 gap, whose nearest singularities lie at 2.5i instead of 1.3i.
TANH_LINK = Kernel(tanh_link, above=1.3132616875182228, below=0.31326168751822286)
TANH_LINK_SLOPE = Kernel(tanh_link_slope)
TANH_LINK_CURVATURE = Kernel(tanh_link_curvature)
