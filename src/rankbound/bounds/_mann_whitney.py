"""The exact distribution of the nRBP loss, the Mann-Whitney U statistic, from a product of sines and one FFT."""

from math import ceil, comb, log, log2, pi

import numpy as np

from rankbound.bounds._scores import Floats

REVIVAL_FREE = 1e40
"""With at least this many orders, the characteristic function stays below 1e-20 once it has fallen below."""
NEGLIGIBLE = 1e-20
WINDOW = 12.0
"""Distance from the mean, in standard deviations, beyond which a long list's U has less than 1e-30 of its mass."""
_FIRST_BLOCK = 128


def rank_sum_distribution(n: int, p: int) -> Floats:
    """Return the probabilities of the scores 0 .. P(N - P) of the nRBP loss (eq. 2.12), shape `(P(N - P) + 1,)`, sum 1.

    The generating function is the Gaussian binomial, prod_{j <= P} (1 - q^(N-P+j)) / (1 - q^j) / C(N, P). On the unit
    circle, centred on the mean, it is real: prod_j sin((N - P + j) w / 2) / sin(j w / 2) / C(N, P). At the frequencies
    2 pi (k + 1/2) / M, with M a power of two, no sine vanishes.
    Source: Mann & Whitney, Ann. Math. Statist. 18 (1947); thesis eq. 2.12.
    """
    count = p * (n - p) + 1
    orders = comb(n, p)
    spread = (p * (n - p) * (n + 1) / 12) ** 0.5
    full_period = orders < REVIVAL_FREE
    needed = count if full_period else min(count, ceil(2 * WINDOW * spread) + 2)
    period = 2 ** max(1, ceil(log2(needed)))
    coefficients = _characteristic(n, p, period, stop_early=not full_period)

    start = 0 if needed == count else max(0, (count - needed) // 2)
    scores = np.arange(start, start + needed)
    frequencies = 2 * pi * (np.arange(len(coefficients)) + 0.5) / period
    spectrum = np.zeros(period, dtype=np.complex128)
    spectrum[: len(coefficients)] = coefficients * np.exp(1j * frequencies * (p * (n - p) / 2 - start))
    waves = np.fft.fft(spectrum)[:needed]
    mass = 2 / period * (waves * np.exp(-1j * pi * (scores - start) / period)).real

    probability = np.zeros(count)
    probability[scores] = np.maximum(mass, 0.0)
    probability = (probability + probability[::-1]) / 2  # U and P(N - P) - U are equally likely
    return np.asarray(probability / probability.sum())


def _characteristic(n: int, p: int, period: int, *, stop_early: bool) -> Floats:
    """Return the centred characteristic function at 2 pi (k + 1/2) / period, k < period / 2 or until negligible."""
    small, large = min(p, n - p), max(p, n - p)
    log_orders = log(comb(n, p))
    factor = np.arange(1.0, small + 1.0)[:, None]
    blocks: list[Floats] = []
    start, stop = 0, _FIRST_BLOCK
    while start < period // 2:
        half = pi * (np.arange(start, min(stop, period // 2)) + 0.5) / period
        above, below = np.sin((large + factor) * half), np.sin(factor * half)
        size = np.exp(np.log(np.abs(above)).sum(0) - np.log(np.abs(below)).sum(0) - log_orders)
        odd = (np.signbit(above) ^ np.signbit(below)).sum(0) % 2
        blocks.append(np.where(odd == 1, -size, size))
        if stop_early and size.max() < NEGLIGIBLE:
            break
        start, stop = stop, 2 * stop
    return np.concatenate(blocks)
