"""The exact distribution of the nRBP loss over uniform or tilted orders, one probability per integer."""

from math import ceil, floor, pi

import numpy as np

from rankbound.bounds._mann_whitney import rank_sum_distribution
from rankbound.bounds._scores import Floats, score
from rankbound.bounds._tilted import UNIFORM, TiltedOrders, TiltedScore

NEGLIGIBLE = 1e-9
"""The characteristic function is cut after a stretch whose second half stays below this."""
WALK_ERROR = 1e-8
"""Error of the CDF, including the mass outside the window."""
_FIRST_STRETCH = 32


def rank_sums(n: int, p: int, tilt: float = UNIFORM) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss, shape `(P(N - P) + 1,)`, sum 1."""
    return rank_sum_distribution(n, p) if tilt == UNIFORM else _tilted_rank_sums(TiltedOrders(n, p, tilt))


def _tilted_rank_sums(orders: TiltedOrders) -> Floats:
    """Return the probabilities by one FFT of the characteristic function at 2 pi k / M, in a window of M integers.

    Tilted items aren't exchangeable, so the closed form of the Mann-Whitney U doesn't apply; a walk gives the
    characteristic function.
    """
    of = TiltedScore(score("nRBP"), orders)
    largest = orders.p * (orders.n - orders.p)
    low, high = max(0, floor(of.window[0])), min(largest, ceil(of.window[1]))
    period = high - low + 1
    stretches, known, length = [np.ones(1, dtype=np.complex128)], 1, _FIRST_STRETCH
    while known <= period // 2:
        stretch = of.coefficients(2 * pi / period, min(length, period // 2 + 1 - known), known)
        stretches.append(stretch)
        known += len(stretch)
        length *= 2
        if np.abs(stretch[len(stretch) // 2 :]).max() < NEGLIGIBLE:
            break
    values = np.concatenate(stretches) * np.exp(-2j * pi / period * low * np.arange(known))
    spectrum = np.zeros(period // 2 + 1, dtype=np.complex128)
    spectrum[: len(values)] = values
    probability = np.zeros(largest + 1)
    # Conjugated, since a mass at m has the characteristic function exp(+ i w m).
    probability[low : high + 1] = np.maximum(np.fft.irfft(spectrum.conj(), period), 0.0)
    return np.asarray(probability / probability.sum())
