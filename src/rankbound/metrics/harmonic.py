r"""Harmonic numbers of large arguments without cancellation.

$H_b - H_a = \ln\frac{b + 1/2}{a + 1/2} + c(b) - c(a)$ with $c$ a series in $(x + 1/2)^{-2}$ that is exact in double
precision for $x \ge 32$; smaller numbers come from a table.
"""

from functools import lru_cache

import torch
from torch import Tensor

TABLE_SIZE = 32
SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


def harmonic_difference(start: Tensor, count: Tensor) -> Tensor:
    """Return the sum of 1/(start + j) over j = 1 .. count, for integers from 0, float64."""
    low = _table(start.device).index_select(0, (start + count).clamp(max=TABLE_SIZE))
    low = low - _table(start.device).index_select(0, start.clamp(max=TABLE_SIZE))
    large, beyond = (x.clamp(min=TABLE_SIZE).to(torch.float64) + 0.5 for x in (start, start + count))
    return low + torch.log1p((beyond - large) / large) + _correction(beyond) - _correction(large)


def mean_worst_share(others: Tensor, count: Tensor) -> Tensor:
    r"""Return the mean of i/(others + i) over i = 1 .. count, $1 - \frac{M}{C} (H_{M+C} - H_M)$, float64; 0 if C = 0.

    For M > C the value is near 0, and cancellation is avoided by the form, with $u = C/(M + 1/2)$,
    $\frac{1/2}{M + 1/2} + \frac{M}{C}(u - \ln(1 + u) - c(M + C) + c(M))$.
    """
    m, c = others.to(torch.float64), count.clamp(min=1).to(torch.float64)
    plain = 1 - m / c * harmonic_difference(others, count)
    u = c / (m + 0.5)
    corrections = _correction(m + c + 0.5) - _correction(m + 0.5)
    careful = 0.5 / (m + 0.5) + m / c * (_less_log1p(u.clamp(max=1)) - corrections)
    return torch.where(count == 0, 0.0, torch.where((others >= TABLE_SIZE) & (others > count), careful, plain))


def _less_log1p(u: Tensor) -> Tensor:
    r"""Return $u - \ln(1 + u)$ for 0 <= u <= 1, with $\ln(1 + u) = 2\,\mathrm{artanh}\, z$, $z = u / (2 + u)$."""
    z = u / (2 + u)
    tail = torch.zeros_like(u)
    for odd in range(35, 1, -2):
        tail = (tail + 1 / odd) * z.square()
    return z * (u - 2 * tail)


def _correction(half: Tensor) -> Tensor:
    """Return the series c in 1/half^2, half = x + 1/2."""
    inverse = 1 / half.square()
    total = torch.zeros_like(inverse)
    for coefficient in reversed(SERIES):
        total = (total + coefficient) * inverse
    return total


@lru_cache(maxsize=8)
def _table(device: torch.device) -> Tensor:
    terms = 1 / torch.arange(1, TABLE_SIZE + 1, dtype=torch.float64, device=device)
    return torch.cat([terms.new_zeros(1), terms.cumsum(0)])
