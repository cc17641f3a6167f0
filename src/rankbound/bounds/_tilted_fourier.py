"""Binned distributions of sums over ranks of long lists under tilted orders, one walk per list."""

from math import ceil, inf, pi

import numpy as np

from rankbound.bounds._binning import LARGEST_ERROR, Binned
from rankbound.bounds._fourier import MOST_COEFFICIENTS, STATES, TOLERANCE, SeriesFacts, invert, truncation_error
from rankbound.bounds._scores import Score
from rankbound.bounds._tilted import TiltedOrders, TiltedScore, repeated_score


def binned_tilted(
    score: Score, orders: TiltedOrders, work: float = inf, tolerance: float = LARGEST_ERROR
) -> Binned | None:
    """Return the binned distribution over the score's range, with as many coefficients as its series needs.

    Single orders of a short list can be likelier than `LARGEST_ERROR`, too likely for bins of that error. If the error
    with `MOST_COEFFICIENTS`, or as many as `work` allows, is larger, up to `tolerance` is accepted; otherwise the
    result is `None`.
    """
    of = TiltedScore(score, orders)
    facts = _facts(score, of)
    low, high = (edge * facts.scale for edge in facts.window)
    count = 8 * ceil(2 * (high - low) / of.moments[1] ** 0.5 / 8)
    most = min(MOST_COEFFICIENTS, work / (orders.n * min(orders.p, STATES)))
    coefficients = of.coefficients(2 * pi / (high - low), count)
    while True:
        truncated = truncation_error(facts, high - low, coefficients)
        if truncated <= TOLERANCE or count >= most:
            binned = invert(facts, high - low, coefficients, truncated)
            if binned.error <= LARGEST_ERROR / 2 or count >= most:
                return binned if binned.error <= tolerance else None
        more = of.coefficients(2 * pi / (high - low), min(count, MOST_COEFFICIENTS - count), count + 1)
        coefficients = np.concatenate([coefficients, more])
        count = len(coefficients)


def _facts(score: Score, of: TiltedScore) -> SeriesFacts:
    n, p = of.orders.n, of.orders.p
    scale, low, high = score.scale(p), score.minimum(n, p), score.maximum(n, p)
    margin = 0.02 * (high - low)
    window = max(of.window[0] / scale, low) - margin, min(of.window[1] / scale, high) + margin
    return SeriesFacts(low, high, window, of.moments[1] ** 0.5 / scale, scale, lambda: repeated_score(score, of.orders))
