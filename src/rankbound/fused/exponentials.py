"""The exponential of many numbers, in a loop that compilers turn into vector instructions; that of the C library isn't.

With $k = \\lfloor x / \\ln 2 + 1/2 \\rfloor$ and $r = x - k \\ln 2$, $|r| \\le \\ln(2)/2$, $e^x = 2^k e^r$: a Taylor
polynomial, and an exponent that is put together as an integer. The relative error is at most 4e-16.
"""

import math

import numpy as np

from rankbound.fused.compiler import ordered_part

# The digits of ln 2 that a product with k keeps, and the rest.
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
LOWEST = -708.0
COEFFICIENTS = tuple(1 / math.factorial(degree) for degree in range(14))
# The exponent of 1, and the place of the exponent in the bits of a float.
BIAS = 1023
MANTISSA_BITS = np.int64(52)
# A sum with a small integer ends in that integer's bits. Instructions that convert whole vectors are rare: AVX-512.
AS_BITS = np.float64(1.5 * 2**52 + BIAS)
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = COEFFICIENTS[2:]


@ordered_part
def exponentials(values, n, powers):
    """Write the exponentials of the first n numbers, which are at most 700; below -708 they are that of -708."""
    for i in range(n):
        x = max(values[i], LOWEST)
        k = np.floor(x * (1.0 / math.log(2.0)) + 0.5)
        r = (x - k * LN2_HIGH) - k * LN2_LOW
        high = C8 + r * (C9 + r * (C10 + r * (C11 + r * (C12 + r * C13))))
        low = C2 + r * (C3 + r * (C4 + r * (C5 + r * (C6 + r * (C7 + r * high)))))
        # Bits of single numbers: those of an array, read back from memory, cost short lists more than the arithmetic.
        two_to_k = np.int64(np.float64(k + AS_BITS).view(np.int64) << MANTISSA_BITS).view(np.float64)
        powers[i] = (1.0 + r + r * r * low) * two_to_k
