"""From many single scores to bins of equal width, with the error that this costs."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from rankbound.bounds._scores import Floats

LARGEST_ERROR = 1e-4
"""No table's CDF is further from the exact one (DESIGN, section 4)."""
BINS_PER_SD = 40
"""Linear interpolation inside bins of sd / 40 costs a normal CDF 2e-5."""
FEWEST_BINS, MOST_BINS = 1024, 65536


@dataclass(frozen=True)
class Binned:
    """Mass per bin of equal width from `start` on, and a bound on the error of its piecewise linear CDF."""

    start: float
    width: float
    probability: Floats
    error: float

    @property
    def middles(self) -> Floats:
        return np.asarray(self.start + self.width * (np.arange(len(self.probability)) + 0.5))

    @property
    def edges(self) -> Floats:
        return np.asarray(self.start + self.width * np.arange(len(self.probability) + 1))


def number_of_bins(span: float, sd: float) -> int:
    """About 40 a standard deviation, within sensible limits."""
    return min(max(ceil(BINS_PER_SD * span / sd), FEWEST_BINS), MOST_BINS)


def bin_scores(
    support: Floats,
    probability: Floats,
    extremes: tuple[float, float],
    sd: float,
    *,
    integers: bool,
    tolerance: float = LARGEST_ERROR,
) -> Binned | None:
    """Single scores in bins from the smallest to the largest possible score; None if none keep to the tolerance.

    `integers`: a bin holds a whole number of integers and ends halfway between two. The error is computed: the step CDF
    and the piecewise linear one are furthest apart at a score, on one side of it (with integers: at the bins' own
    value for a score, half a unit above it).
    """
    start, stop = extremes
    bins = number_of_bins(stop - start, sd)
    while bins <= min(MOST_BINS, len(support)):
        if integers:
            width = max(1.0, (stop - start) // bins)
            start, count = extremes[0] - 0.5, ceil((stop - extremes[0] + 1) / width)
        else:
            width, count = (stop - start) / bins, bins
        index = np.clip(((support - start) / width).astype(np.int64), 0, count - 1)
        mass: Floats = np.bincount(index, probability, minlength=count).astype(np.float64)
        binned = Binned(start, width, mass, 0.0)
        error = _distance(support, probability, binned, half=0.5 if integers else 0.0)
        if error <= tolerance:
            return Binned(start, width, mass, error)
        bins *= 2
    return None


def _distance(support: Floats, probability: Floats, binned: Binned, half: float) -> float:
    below = np.concatenate([[0.0], np.cumsum(probability)])
    linear = np.interp(support + half, binned.edges, np.concatenate([[0.0], np.cumsum(binned.probability)]))
    above = float(np.abs(linear - below[1:]).max())
    return above if half else max(above, float(np.abs(linear - below[:-1]).max()))
