"""The statistics keep what they promise, over hundreds of simulated studies: errors, power, coverage.

Seeds are fixed, so that nothing here fails by chance. The bands are those of the simulation: a share of `n` studies has
the standard error sqrt(p (1 - p) / n), and three of them are allowed.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pytest

from rankbound.compare.margins import detectable
from rankbound.compare.scores import PairedScores, per_unit
from rankbound.compare.statistics import (
    Estimate,
    interval_of_mean,
    over_trainings,
    over_units,
    sign_flip,
)

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

STUDIES = 400


def crossed(random: np.random.Generator, n_units: int = 60, n_seeds: int = 3, training: float = 0.03) -> Floats:
    """MovieLens' design: users have a test list in each of five folds, whose trainings shift all of them."""
    users, trainings = random.normal(0, 0.1, n_units), random.normal(0, training, (5, n_seeds))
    return users[:, None, None] + trainings + random.normal(0, 0.1, (n_units, 5, n_seeds))


def nested(random: np.random.Generator, n_units: int = 60, n_seeds: int = 3, training: float = 0.06) -> Floats:
    """MQ2008's design: a topic is in the test part of one fold."""
    cells = crossed(random, n_units, n_seeds, training)
    cells[np.arange(n_units)[:, None] % 5 != np.arange(5)] = math.nan
    return cells


@pytest.mark.parametrize("design", [crossed, nested])
def test_p_values_are_uniform_in_every_design(design: Callable[..., Floats]) -> None:
    """Units carry their lists and seeds as a whole; counting lists as units would find differences everywhere."""
    random = np.random.default_rng(2)
    studies = [design(random, training=0.0) for _ in range(STUDIES)]
    found = np.array([sign_flip(units_of(cells), flips=499) for cells in studies])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    if design is crossed:
        lists = np.array([sign_flip(cells.mean(2).reshape(-1), flips=199) for cells in studies])
        assert (lists <= 0.05).mean() > 0.2


@pytest.mark.parametrize("n_units", [12, 40, 150])
def test_the_detectable_difference_is_found_in_four_studies_of_five(n_units: int) -> None:
    random = np.random.default_rng(3)
    true = detectable(Estimate(0.0, 0.2 / math.sqrt(n_units), n_units - 1))
    found = [sign_flip(true + random.normal(0, 0.2, n_units), flips=399) <= 0.05 for _ in range(STUDIES)]
    assert np.mean(found) == pytest.approx(0.8, abs=band(0.8))


@pytest.mark.parametrize("design", [crossed, nested])
def test_intervals_over_units_hold_what_these_trainings_do_on_other_topics(design: Callable[..., Floats]) -> None:
    random, found = np.random.default_rng(5), []
    for study in range(STUDIES):
        cells = design(random, training=0.0)
        # What the trainings do is given here: the mean over all topics of these very trainings.
        given = random.normal(0, 0.06, (5, 3))
        of_folds = given.mean() if design is crossed else np.repeat(given.mean(1), 12).mean()
        low, high = interval_of_mean(units_of(cells + given), resamples=499, seed=study)
        found.append((low - of_folds, high - of_folds))
    assert covered(found) == pytest.approx(0.95, abs=band(0.95))


@pytest.mark.parametrize("design", [crossed, nested])
@pytest.mark.parametrize("n_seeds", [2, 5])
def test_intervals_over_trainings_hold_the_mean_of_all_trainings(design: Callable[..., Floats], n_seeds: int) -> None:
    """Those over topics alone do not: with seeds that matter this much they are far too narrow."""
    random = np.random.default_rng(6)
    studies = [design(random, n_seeds=n_seeds, training=0.1) for _ in range(STUDIES)]
    estimates = [over_trainings(cells) for cells in studies]
    assert covered(one.interval(0.95) for one in estimates if one) == pytest.approx(0.95, abs=band(0.95))
    narrow = covered(over_units(units_of(cells)).interval(0.95) for cells in studies)
    assert narrow < 0.95 - band(0.95)


@pytest.mark.parametrize("design", [crossed, nested])
def test_intervals_over_trainings_are_not_too_wide_where_seeds_do_not_matter(design: Callable[..., Floats]) -> None:
    random = np.random.default_rng(7)
    studies = [design(random, training=0.0) for _ in range(STUDIES)]
    estimates = [over_trainings(cells) for cells in studies]
    assert covered(one.interval(0.95) for one in estimates if one) == pytest.approx(0.96, abs=band(0.95))
    ratios = [
        one.standard_error / over_units(units_of(cells)).standard_error
        for one, cells in zip(estimates, studies, strict=True)
        if one
    ]
    assert np.mean(ratios) < 1.1


def units_of(cells: Floats) -> Floats:
    """The differences of a design's units, by the way that all scores take: one of the systems scores 0."""
    values = np.stack([cells, np.where(np.isfinite(cells), 0.0, math.nan)])
    names = [[str(place) for place in range(size)] for size in cells.shape]
    differences = PairedScores(["A", "B"], names[0], values, names[1], names[2]).pair("A", "B").differences
    np.testing.assert_allclose(differences, per_unit(cells))
    return differences


def covered(intervals: Iterable[Interval]) -> float:
    """Count the intervals that contain 0."""
    return float(np.mean([low <= 0 <= high for low, high in intervals]))


def band(share: float, studies: int = STUDIES) -> float:
    return 3 * math.sqrt(share * (1 - share) / studies)
