"""The statistics keep what they promise, over hundreds of simulated studies: errors, power, coverage.

Seeds are fixed, so that nothing here fails by chance. The bands are those of the simulation: a share of `n` studies has
the standard error sqrt(p (1 - p) / n), and three of them are allowed.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from rankbound.compare import comparison
from rankbound.compare.comparison import Measured, against_margin, detectable
from rankbound.compare.scores import PairedScores, per_unit
from rankbound.compare.statistics import Estimate, interval_of_mean, over_trainings, over_units, sign_flip
from tests import simulated_designs as designs
from tests.library.pages import text_of

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

Floats = npt.NDArray[np.float64]
Random = np.random.Generator
STUDIES = 400


def normal(random: Random) -> Floats:
    return random.normal(0, 0.2, 40)


def of_shared_difficulty(random: Random) -> Floats:
    """Two rankers that are one and the same, on topics that are hard or easy for both."""
    difficulty = random.gamma(1.0, 1.0, 40)[:, None]
    return np.subtract(*random.beta(1 + difficulty, 1.5, (40, 2)).T)


def of_few_values(random: Random) -> Floats:
    """P@5: many topics tie."""
    return np.subtract(*random.binomial(5, random.beta(1, 2, 60)[:, None], (60, 2)).T) / 5


def crossed(random: Random, n_units: int = 60, n_seeds: int = 3, training: float = 0.03) -> Floats:
    """MovieLens' design: users have a test list in each of five folds, whose trainings shift all of them."""
    users, trainings = random.normal(0, 0.1, n_units), random.normal(0, training, (5, n_seeds))
    return users[:, None, None] + trainings + random.normal(0, 0.1, (n_units, 5, n_seeds))


def nested(random: Random, n_units: int = 60, n_seeds: int = 3, training: float = 0.06) -> Floats:
    """MQ2008's design: a topic is in the test part of one fold."""
    cells = crossed(random, n_units, n_seeds, training)
    cells[np.arange(n_units)[:, None] % 5 != np.arange(5)] = math.nan
    return cells


def units_of(cells: Floats) -> Floats:
    """The differences of a design's units, by the way that all scores take: one of the systems scores 0."""
    values = np.stack([cells, np.where(np.isfinite(cells), 0.0, math.nan)])
    names = [[str(place) for place in range(size)] for size in cells.shape]
    differences = PairedScores(["A", "B"], names[0], values, names[1], names[2]).pair("A", "B").differences
    np.testing.assert_allclose(differences, per_unit(cells))
    return differences


def expect(share: float, events: Iterable[bool], more: float = 0.0) -> None:
    found = np.array(list(events))
    assert found.mean() == pytest.approx(share, abs=3 * math.sqrt(share * (1 - share) / len(found)) + more)


def cover(intervals: Iterable[tuple[float, float]]) -> list[bool]:
    return [low <= 0 <= high for low, high in intervals]


DESIGNS: dict[str, Callable[[Random], Floats]] = {
    "crossed": lambda random: units_of(crossed(random, training=0.0)),
    "nested": lambda random: units_of(nested(random, training=0.0)),
}


@pytest.mark.parametrize("differences", [normal, of_shared_difficulty, of_few_values, *DESIGNS.values()])
def test_p_values_are_uniform_where_nothing_differs(differences: Callable[[Random], Floats]) -> None:
    random = np.random.default_rng(1)
    found = np.array([sign_flip(differences(random), flips=999) for _ in range(STUDIES)])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    expect(0.05, found <= 0.05)


def test_rankers_that_are_alike_are_found_to_be() -> None:
    random = np.random.default_rng(11)
    found = [against_margin(over_units(random.normal(0, 0.1, 400)), 0.03, "").verdict for _ in range(100)]
    assert found.count("alike") >= 98


@pytest.mark.parametrize("n_units", [12, 40, 150])
def test_the_detectable_difference_is_found_in_four_studies_of_five(n_units: int) -> None:
    random = np.random.default_rng(3)
    true = detectable(Estimate(0.0, 0.2 / math.sqrt(n_units), n_units - 1))
    studies = (true + random.normal(0, 0.2, n_units) for _ in range(STUDIES))
    expect(0.8, (sign_flip(values, flips=399) <= 0.05 for values in studies))


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
    expect(0.95, cover(found))


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("differences", [normal, of_shared_difficulty, None], ids=["normal", "shared", "trainings"])
def test_verdicts_at_the_margin_in_one_study_of_twenty(
    differences: Callable[[Random], Floats] | None, side: int
) -> None:
    random, margin = np.random.default_rng(9), 0.15
    if differences is None:
        studies = (over_trainings(crossed(random) + side * margin) for _ in range(STUDIES))
        estimates = [estimate for estimate in studies if estimate is not None]
    else:
        estimates = [over_units(differences(random) + side * margin) for _ in range(2 * STUDIES)]
    found = [against_margin(one, margin, "") for one in estimates]
    expect(0.05, (one.p_alike <= 0.05 for one in found))
    expect(0.05 if side < 0 else 1.0, (one.p_not_worse <= 0.05 for one in found))


# Coverage and false positives of every design, against the figures that notes and docs name

NOTED: Mapping[str, tuple[Mapping[int, Measured], Callable[[int], Measured]]] = {
    "topics": (comparison.OF_TOPICS, designs.topics),
    "members": (comparison.OF_MEMBERS, designs.members),
    "trainings": (comparison.OF_TRAININGS, designs.trainings),
}
ROWS = [(what, count) for what, (figures, _) in NOTED.items() for count in figures]


@pytest.mark.long
@pytest.mark.parametrize(("what", "count"), ROWS)
def test_figures_of_notes_are_those_of_simulated_studies(what: str, count: int) -> None:
    figures, measure = NOTED[what]
    assert measure(count) == pytest.approx(figures[count], abs=1)


@pytest.mark.parametrize(("what", "count"), ROWS)
def test_designs_without_a_note_keep_to_95_and_5(what: str, count: int) -> None:
    """To 93.5 to 96.5 % and 4 to 6 %, and the error of 2,000 studies, half a per cent, or more; the largest do."""
    figures = NOTED[what][0]
    found, noted = figures[count], comparison.approximate(figures, count, what)
    in_band = min(found.least, found.skewed) >= 93 and found.most <= 97 and found.significant <= 6
    assert count < max(figures) or (min(found.least, found.skewed) >= 93 and found.significant <= 6)
    assert in_band or [note for note in noted if f" cover {found.least} " in note]


def test_the_page_has_the_figures_of_the_notes() -> None:
    rows = re.findall(r"^\| \d+ (?:topics|members|trainings) \|.*$", text_of("statistics.md"), re.MULTILINE)
    printed = {tuple(map(int, re.findall(r"\d+", row))) for row in rows}
    assert printed == {(count, *found) for figures, _ in NOTED.values() for count, found in figures.items()}


SAMPLE: list[tuple[Callable[..., designs.Rates], tuple[float, ...]]] = [
    *((designs.of_topics, (n,)) for n in (10, 50)),
    *((designs.of_members, sizes) for sizes in ((5, 1.0), (80, 0.7))),
    *((designs.of_trainings, (*sizes, 0.5, 2.0)) for sizes in ((10, 1, 3), (10, 5, 2))),
    *((designs.of_trainings, (*sizes, 0.0, between)) for sizes in ((40, 5, 2), (60, 5, 3)) for between in (0.0, 2.0)),
]


@pytest.mark.parametrize(("measure", "sizes"), SAMPLE)
def test_a_sample_of_the_studies(measure: Callable[..., designs.Rates], sizes: tuple[float, ...]) -> None:
    found = measure(*sizes, designs.normal, 500)
    assert 92.5 <= found.covered <= 97.5
    assert 2.5 <= found.significant <= 7.5


OF_FEW = (88, 98.5)
"""Coverage where a source of variance has one degree of freedom: two drawings, two folds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", designs.DESIGNS)
def test_intervals_hold_topics_drawings_folds_and_seeds(name: str) -> None:
    """Without a true difference, as between two copies of one loss: at most 7 % of the tests are significant."""
    one = designs.DESIGNS[name]
    low, high = OF_FEW if 2 in (len(one.seeds), one.folds) else (93, 97)
    for source, parts in designs.known_sources(one).items():
        found = designs.of_sources(one, parts, 300)
        error = 200 * math.sqrt(0.05 * 0.95 / 300)
        assert low - error <= found.covered <= high + error, f"{found.covered} % with {source}"
        assert found.significant == pytest.approx(100 - found.covered, abs=1)


def test_a_training_weighs_as_much_as_its_list_lets_it() -> None:
    """Seeds are averaged within a list first: the mean does not lean to the drawing with more of them."""
    cells = np.full((20, 4, 5), math.nan)
    cells[:, :2] = 1.0
    cells[:, 2:, :2] = 0.0
    found = over_trainings(cells, np.array([0, 0, 1, 1]))
    assert found is not None
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(0.5)
    assert found.degrees_of_freedom == pytest.approx(1)


def test_folds_of_one_seed_have_the_interval_of_their_means() -> None:
    """Where each topic is in one fold, folds of the same size are a sample of independent means."""
    random = np.random.default_rng(0)
    cells = np.full((50, 5, 1), math.nan)
    cells[np.arange(50), np.arange(50) % 5, 0] = random.normal(size=50) + random.normal(0, 2, 5)[np.arange(50) % 5]
    found, means = over_trainings(cells), np.nanmean(cells[:, :, 0], axis=0)
    assert found is not None
    assert found.standard_error == pytest.approx(means.std(ddof=1) / math.sqrt(5))
    assert found.degrees_of_freedom == pytest.approx(4)
