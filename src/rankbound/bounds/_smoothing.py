"""Algorithm 2 of the thesis in closed form, for single scores and for bins, in numpy."""

import numpy as np

from rankbound.bounds._scores import Floats

FINE_GAIN = 1.0
"""Up to this gain, integers blur into a continuum (to 1e-7 of one score's mass); above, they are separate steps."""
_CHUNK = 2_000_000


def integers_of_bins(support: Floats, probability: Floats, width: float) -> tuple[Floats, Floats]:
    """Split bins into their integers, with equal shares of the bin's mass."""
    size = int(width)
    middle = np.repeat(support, size) + np.tile(np.arange(size) - (size - 1) / 2, len(support))
    return middle, np.repeat(probability / size, size)


def smooth_cdf(x: Floats, support: Floats, probability: Floats, width: float, gain: float) -> Floats:
    """Return sum_k probability_k kernel(gain (x - support_k)) for every x, in the shape of `x`.

    The kernel of a single score is the sigmoid; that of a bin from l to l + width is the sigmoid's mean over it,
    (softplus(a (x - l)) - softplus(a (x - l - width))) / (a width). For bins, the sum is the convolution of the
    sigmoid's density with the piecewise linear CDF.
    """
    flat = x.reshape(-1)
    rows = max(1, _CHUNK // len(support))
    parts = [
        _kernel(gain * (flat[start : start + rows, None] - support), gain * width) @ probability
        for start in range(0, len(flat), rows)
    ]
    return np.concatenate(parts).reshape(x.shape) if parts else np.empty(x.shape)


def _kernel(distance: Floats, width: float) -> Floats:
    """Return the smoothed step at `distance` (in units of 1 / gain) from a bin's middle."""
    if width == 0:
        return 0.5 * (1.0 + np.tanh(0.5 * distance))
    left, right = distance + width / 2, distance - width / 2
    # softplus(u) = max(u, 0) + log1p(exp(-|u|)); the difference of the first terms is the linear step.
    step = np.clip(left, 0.0, width)
    return np.asarray((step + np.log1p(np.exp(-np.abs(left))) - np.log1p(np.exp(-np.abs(right)))) / width)
