"""The statistics keep what they promise, over hundreds of simulated studies: errors, power, coverage.

Seeds are fixed, so that nothing here fails by chance. The bands are those of the simulation: a share of `n` studies has
the standard error sqrt(p (1 - p) / n), and three of them are allowed.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pytest

from rankbound.compare.margins import against_margin, detectable
from rankbound.compare.scores import PairedScores, per_unit
from rankbound.compare.statistics import (
    Estimate,
    interval_of_mean,
    over_members,
    over_trainings,
    over_units,
    sign_flip,
)

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

STUDIES = 400


def normal(random: np.random.Generator) -> Floats:
    return random.normal(0, 0.2, 40)


def of_shared_difficulty(random: np.random.Generator) -> Floats:
    """Two rankers that are one and the same, on topics that are hard or easy for both."""
    difficulty = random.gamma(1.0, 1.0, 40)[:, None]
    a, b = random.beta(1 + difficulty, 1.5, (40, 2)).T
    found: Floats = a - b
    return found


def of_few_values(random: np.random.Generator) -> Floats:
    """P@5: many topics tie."""
    a, b = random.binomial(5, random.beta(1, 2, 60)[:, None], (60, 2)).T / 5
    found: Floats = a - b
    return found


def crossed(random: np.random.Generator, n_units: int = 60, n_seeds: int = 3, training: float = 0.03) -> Floats:
    """MovieLens' design: users have a test list in each of five folds, whose trainings shift all of them."""
    users, trainings = random.normal(0, 0.1, n_units), random.normal(0, training, (5, n_seeds))
    return users[:, None, None] + trainings + random.normal(0, 0.1, (n_units, 5, n_seeds))


def nested(random: np.random.Generator, n_units: int = 60, n_seeds: int = 3, training: float = 0.06) -> Floats:
    """MQ2008's design: a topic is in the test part of one fold."""
    cells = crossed(random, n_units, n_seeds, training)
    cells[np.arange(n_units)[:, None] % 5 != np.arange(5)] = math.nan
    return cells


@pytest.mark.parametrize("differences", [normal, of_shared_difficulty, of_few_values])
def test_p_values_are_uniform_where_nothing_differs(differences: Callable[[np.random.Generator], Floats]) -> None:
    random = np.random.default_rng(1)
    found = np.array([sign_flip(differences(random), flips=999) for _ in range(STUDIES)])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert (found <= 0.05).mean() == pytest.approx(0.05, abs=band(0.05))


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


@pytest.mark.parametrize("method", ["BCa", "percentile", "t"])
@pytest.mark.parametrize("differences", [normal, of_shared_difficulty])
def test_intervals_hold_the_true_mean(differences: Callable[[np.random.Generator], Floats], method: str) -> None:
    random = np.random.default_rng(4)
    # Other draws each time: those of one seed would be a little off for all studies alike.
    found = [
        interval_of_mean(differences(random), resamples=499, method=method, seed=study) for study in range(STUDIES)
    ]
    assert covered(found) == pytest.approx(0.95, abs=band(0.95))


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


def test_intervals_of_pairs_that_share_faces() -> None:
    random, found = np.random.default_rng(8), []
    for _ in range(STUDIES):
        faces = random.permuted(np.tile(np.arange(80), (160, 1)), axis=1)[:, :2]
        differences = random.normal(0, 0.5, 80)[faces].sum(1) + random.normal(0, 0.5, 160)
        estimate = over_members(differences, faces)
        assert estimate is not None
        found.append((estimate.interval(0.95), over_units(differences).interval(0.95)))
    assert covered(one for one, _ in found) == pytest.approx(0.95, abs=band(0.95) + 0.01)
    assert covered(other for _, other in found) < 0.9


@pytest.mark.parametrize("differences", [normal, of_shared_difficulty])
@pytest.mark.parametrize("side", [-1, 1])
def test_at_the_margin_alike_and_no_worse_are_said_in_one_study_of_twenty(
    differences: Callable[[np.random.Generator], Floats], side: int
) -> None:
    random, margin = np.random.default_rng(9), 0.15
    found = [against_margin(over_units(differences(random) + side * margin), margin, "") for _ in range(2 * STUDIES)]
    alike = np.mean([one.p_alike <= 0.05 for one in found])
    assert alike == pytest.approx(0.05, abs=band(0.05, 2 * STUDIES))
    not_worse = np.mean([one.p_not_worse <= 0.05 for one in found])
    assert not_worse == pytest.approx(0.05 if side < 0 else 1.0, abs=band(0.05, 2 * STUDIES))


def test_at_the_margin_with_trainings() -> None:
    random, said = np.random.default_rng(10), []
    for _ in range(STUDIES):
        estimate = over_trainings(crossed(random) - 0.05)
        assert estimate is not None
        said.append(against_margin(estimate, 0.05, "").p_not_worse <= 0.05)
    assert np.mean(said) == pytest.approx(0.05, abs=band(0.05))


def test_rankers_that_are_alike_are_found_to_be() -> None:
    random = np.random.default_rng(11)
    found = [against_margin(over_units(random.normal(0, 0.1, 400)), 0.03, "").verdict for _ in range(100)]
    assert found.count("alike") >= 98


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
