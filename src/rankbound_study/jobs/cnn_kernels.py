"""The compiled product of spectra for the convolutional ranker. One thread; sums have a fixed order."""

import numpy as np

from rankbound.kernels import compiled, part

BLOCK = 512  # number of frequencies that are multiplied together: their parts stay in the processor's first cache


@part
def _scratch(rows):
    """Return memory for the real and imaginary parts of a block of each row, apart: vector instructions need that."""
    return np.empty((rows, 2, BLOCK), np.float32)


@part
def _split(spectrum, start, count, parts, sign):
    real, imaginary = parts[0], parts[1]
    for f in range(count):
        real[f] = spectrum[start + f].real
    for f in range(count):
        imaginary[f] = sign * spectrum[start + f].imag


@part
def _add_product(left, right, count, sums):
    a, b, c, d = left[0], left[1], right[0], right[1]
    real, imaginary = sums[0], sums[1]
    for f in range(count):
        real[f] += a[f] * c[f] - b[f] * d[f]
    for f in range(count):
        imaginary[f] += a[f] * d[f] + b[f] * c[f]


@part
def _join(parts, count, spectrum, start):
    real, imaginary = parts[0], parts[1]
    for f in range(count):
        spectrum[start + f] = complex(real[f], imaginary[f])


@compiled("void(c8[:,:,::1],c8[:,:,::1],b1,c8[:,:,::1])")
def filtered(values, filters, conjugate, sums):
    """Write the spectra `sums` `(n, j, f)`: the sums over k of `values` `(n, k, f)` times `filters` `(j, k, f)`.

    With `conjugate`, the filters' conjugates are taken: a correlation instead of a convolution.
    """
    inner, frequencies = values.shape[1:]
    outer = len(filters)
    sign = np.float32(-1.0 if conjugate else 1.0)
    of_values, of_filters, of_sums = _scratch(inner), _scratch(outer * inner), _scratch(1)
    for start in range(0, frequencies, BLOCK):
        count = min(BLOCK, frequencies - start)
        for row in range(outer * inner):
            _split(filters[row // inner, row % inner], start, count, of_filters[row], sign)
        for i in range(len(values)):
            for k in range(inner):
                _split(values[i, k], start, count, of_values[k], np.float32(1.0))
            for j in range(outer):
                of_sums[:] = 0.0
                for k in range(inner):
                    _add_product(of_values[k], of_filters[j * inner + k], count, of_sums[0])
                _join(of_sums[0], count, sums[i, j], start)
