"""The logarithms of many numbers, in a loop that compilers turn into vector instructions; that of the C library isn't.

With $v = 1 + q = 2^k m$, $\\sqrt{1/2} \\le m < \\sqrt 2$, and $z = (m - 1)/(m + 1)$,
$\\ln v = k \\ln 2 + 2 (z + z^3/3 + z^5/5 + \\dots)$; $(q - (v - 1))/v$ are the digits that $v$ lost. The relative error
is below 1e-15.
"""

import math

import numpy as np

from rankbound.fused.compiler import ordered_part

LN2 = math.log(2.0)
# The bits of 1 and of the root of 1/2: their difference moves the mantissa from 1 .. 2 to the range of m.
ONE = np.int64(np.float64(1.0).view(np.int64))
ROOT = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
MANTISSA = np.int64((1 << 52) - 1)


@ordered_part
def logarithms_of_next(q, n, logs):
    """Write log(1 + q) of the first n numbers, at least 0 and at most 1e300."""
    for i in range(n):
        v = 1.0 + q[i]
        bits = np.float64(v).view(np.int64) + (ONE - ROOT)
        k = float((bits >> 52) - 1023)
        m = np.int64((bits & MANTISSA) + ROOT).view(np.float64)
        z = (m - 1.0) / (m + 1.0)
        w = z * z
        high = 1 / 11 + w * (1 / 13 + w * (1 / 15 + w * (1 / 17 + w * (1 / 19))))
        tail = w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w * high))))
        logs[i] = k * LN2 + (2.0 * (z + z * tail) + (q[i] - (v - 1.0)) / v)
