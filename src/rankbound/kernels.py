r"""Smooth functions of the gap between two scores, which pairs of items are compared by.

A kernel $k$ takes the gap $x = (s_j - s_i)/\tau$ from the item $i$ in question up to another item $j$. Interpolation
needs two things of it: no pole nearer than about 2.5 to the real line, and from 18 on a known form, far above a
constant or the gap itself, far below a constant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Kernel:
    """The function `at` of gaps; far above it is `above` or, if `linear`, the gap itself, and far below `below`."""

    at: Callable[[Tensor], Tensor]
    above: float = 0.0
    below: float = 0.0
    linear: bool = False

    @cached_property
    def mirrored(self) -> "Kernel":
        """The kernel of the opposite gap: `k(-x)`, as the other item of a pair sees it."""
        if self.linear:
            raise ValueError("kernel: found one that grows, expected one that ends in constants on both sides")
        return Kernel(lambda gap: self.at(-gap), self.below, self.above)


def sigmoid_slope(gap: Tensor) -> Tensor:
    """The derivative of the sigmoid; `s * (1 - s)` would lose all digits of far items in single precision."""
    lesser = gap.abs().neg_().sigmoid_()
    return lesser * (1 - lesser)


def sigmoid_curvature(gap: Tensor) -> Tensor:
    """The second derivative of the sigmoid, an odd function."""
    return -torch.tanh(gap / 2) * sigmoid_slope(gap)


def softplus(gap: Tensor) -> Tensor:
    """log(1 + exp(x)), the loss of a pair whose loser stands a gap of x above its winner."""
    # PyTorch's own threshold of 20 is a step of 2e-9, which double precision sees.
    return functional.softplus(gap, threshold=40)


def tanh_link(gap: Tensor) -> Tensor:
    """log(1 + exp(tanh(x/2)))."""
    return functional.softplus(torch.tanh(gap / 2))


def tanh_link_slope(gap: Tensor) -> Tensor:
    """The derivative of `tanh_link`: tanh(x/2) has the derivative 2 sigma'(x)."""
    return 2 * sigmoid_slope(gap) * torch.sigmoid(torch.tanh(gap / 2))


def tanh_link_curvature(gap: Tensor) -> Tensor:
    """The second derivative of `tanh_link`."""
    bent, slope = torch.tanh(gap / 2), 2 * sigmoid_slope(gap)
    return slope * torch.sigmoid(bent) * (slope * torch.sigmoid(-bent) - bent)


SIGMOID = Kernel(torch.sigmoid, above=1.0)
SIGMOID_SLOPE = Kernel(sigmoid_slope)
SIGMOID_SLOPE_SQUARED = Kernel(lambda gap: sigmoid_slope(gap).square())
SIGMOID_CURVATURE = Kernel(sigmoid_curvature)
SOFTPLUS = Kernel(softplus, linear=True)

# DirectRanker's link, in gaps of half the width, whose nearest singularities lie at 2.5i instead of 1.3i.
TANH_LINK = Kernel(tanh_link, above=1.3132616875182228, below=0.31326168751822286)
TANH_LINK_SLOPE = Kernel(tanh_link_slope)
TANH_LINK_CURVATURE = Kernel(tanh_link_curvature)
