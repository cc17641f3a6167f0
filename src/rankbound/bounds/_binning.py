"""Bins of equal width for distributions of many scores, with the resulting error of the CDF."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from rankbound.bounds._scores import Floats

LARGEST_ERROR = 1e-4
"""Largest error of a table's CDF (DESIGN, section 4)."""
BINS_PER_SD = 40
"""Linear interpolation inside bins of width sd / 40 has an error of 2e-5 for a normal CDF."""
FEWEST_BINS, MOST_BINS = 1024, 65536


@dataclass(frozen=True)
class Binned:
    """The mass of each bin of equal width from `start`, and a bound on the error of the piecewise linear CDF."""

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
    """Return about 40 bins per standard deviation, between `FEWEST_BINS` and `MOST_BINS`."""
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
    """Bin single scores between the smallest and largest possible score; return `None` if no bins meet the tolerance.

    With `integers`, a bin holds a whole number of integers and ends halfway between two. The error is exact: the step
    CDF and the piecewise linear one differ most at a score, on one side of it (with integers, half a unit above it,
    where the bins' CDF is evaluated).
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
