r"""Kernels: functions of the gap between two scores, and the smooth steps from which smooth ranks are made.

A kernel $k$ takes the gap $x = (s_j - s_i)/\tau$ from an item $i$ to another item $j$. Interpolation requires that $k$
has no pole nearer than about 2.5 to the real line, and that for $|x| > 18$ it is constant or, above, the gap itself.
Scans require that $k$ is a constant plus a multiple of $e^{-r|x|}$ on each side of 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Exponentials:
    r"""The multiples of $e^{-r|x|}$, $r$ the `rate`, in a kernel: below a gap of 0, and above it.

    The kernel is continuous at 0, or `odd`: it jumps there, and is 0 itself.
    """

    lower: float
    higher: float
    rate: float = 1.0
    odd: bool = False


@dataclass(frozen=True)
class Kernel:
    """The function `at` of gaps, constant at `below` for low gaps and `above` for high ones (if `linear`: the gap).

    `exponentials` are what is added to 0 for gaps up to 0 and to `above` for others, if nothing else is.
    """

    at: Callable[[Tensor], Tensor]
    above: float = 0.0
    below: float = 0.0
    linear: bool = False
    exponentials: Exponentials | None = None

    @cached_property
    def mirrored(self) -> "Kernel":
        """The kernel `k(-x)` of the opposite gap."""
        if self.linear or self.exponentials is not None:
            found = "a linear one" if self.linear else "one of exponentials"
            raise ValueError(f"kernel: found {found}, expected a smooth one that tends to constants on both sides")
        return Kernel(lambda gap: self.at(-gap), self.below, self.above)


def sigmoid_slope(gap: Tensor) -> Tensor:
    """Return the derivative of the sigmoid; `s * (1 - s)` would lose all digits of large gaps in single precision."""
    lesser = gap.abs().neg_().sigmoid_()
    return lesser * (1 - lesser)


def sigmoid_curvature(gap: Tensor) -> Tensor:
    """Return the second derivative of the sigmoid, an odd function."""
    return -torch.tanh(gap / 2) * sigmoid_slope(gap)


def laplace(gap: Tensor) -> Tensor:
    """Return the distribution function of the Laplace distribution: exp(x)/2 below 0, 1 - exp(-x)/2 from there on."""
    tail = laplace_slope(gap)
    return torch.where(gap < 0, tail, 1 - tail)


def laplace_slope(gap: Tensor) -> Tensor:
    """Return the density of the Laplace distribution, exp(-|x|)/2."""
    return gap.abs().neg_().exp_().div_(2)


def laplace_curvature(gap: Tensor) -> Tensor:
    """Return the density's derivative, an odd function; 0 at 0, where it jumps."""
    return -torch.sign(gap) * laplace_slope(gap)


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
SIGMOID_SLOPE_SQUARED = Kernel(lambda gap: sigmoid_slope(gap).square())
SIGMOID_CURVATURE = Kernel(sigmoid_curvature)
LAPLACE = Kernel(laplace, above=1.0, exponentials=Exponentials(0.5, -0.5))
LAPLACE_SLOPE = Kernel(laplace_slope, exponentials=Exponentials(0.5, 0.5))
LAPLACE_SLOPE_SQUARED = Kernel(lambda gap: laplace_slope(gap).square(), exponentials=Exponentials(0.25, 0.25, rate=2.0))
LAPLACE_CURVATURE = Kernel(laplace_curvature, exponentials=Exponentials(0.5, -0.5, odd=True))
SOFTPLUS = Kernel(softplus, linear=True)

# DirectRanker's link tanh(gap) as a function of x = 2 gap, whose nearest singularities lie at 2.5i instead of 1.3i.
TANH_LINK = Kernel(tanh_link, above=1.3132616875182228, below=0.31326168751822286)
TANH_LINK_SLOPE = Kernel(tanh_link_slope)
TANH_LINK_CURVATURE = Kernel(tanh_link_curvature)


@dataclass(frozen=True)
class Step:
    """A smooth step from 0 to 1, 1/2 at 0, with the kernels of its derivatives."""

    value: Kernel
    slope: Kernel
    slope_squared: Kernel
    curvature: Kernel

    @cached_property
    def slope_at_0(self) -> float:
        """The slope at the gap of an item to itself; the curvature there is 0."""
        return float(self.slope.at(torch.zeros(1, device="cpu")))


SIGMOID_STEP = Step(SIGMOID, SIGMOID_SLOPE, SIGMOID_SLOPE_SQUARED, SIGMOID_CURVATURE)
LAPLACE_STEP = Step(LAPLACE, LAPLACE_SLOPE, LAPLACE_SLOPE_SQUARED, LAPLACE_CURVATURE)

STEPS = {"sigmoid": SIGMOID_STEP, "laplace": LAPLACE_STEP}
"""The steps by the names that users give them."""
