"""Coverage of 95 % intervals and false positives of tests at 5 %, in simulated studies of every design.

    python -m tests.simulated_designs

prints the tables of docs/statistics.md. A study is a sample of differences with true mean 0: its interval should cover
0 in 95 of 100 studies, and its test should be significant in 5. Differences are normal, or exponential (skewness 2).
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rankbound.compare.comparison import Measured
from rankbound.compare.statistics import Estimate, interval_of_mean, over_members, over_trainings, sign_flip

Floats = npt.NDArray[np.float64]
Draw = Callable[..., Floats]

STUDIES = 2000
DRAWS = 10
"""Studies take turns with as many sets of resamples: those of one would be a little off for all of them alike."""

TOPICS = (6, 10, 20, 50, 100, 200, 500)
MEMBERS = (5, 10, 20, 40, 80, 200)
TRAININGS = {3: (1, 3), 5: (1, 5), 10: (5, 2), 15: (5, 3)}
"""Folds, and seeds of each, by the number of trainings."""

SHARED = (0.0, 0.5, 1.0)
"""Deviations of a member's effect; the variance of a pair is 2."""

BETWEEN = (0.0, 0.5, 2.0)
"""Deviations of the mean between trainings, in those of the mean between topics."""


class Rates(NamedTuple):
    """Shares of studies, in per cent: intervals that cover the true mean, and tests that are significant."""

    covered: float
    significant: float


def normal(random: np.random.Generator, *shape: int) -> Floats:
    return random.normal(size=shape)


def skewed(random: np.random.Generator, *shape: int) -> Floats:
    return random.exponential(size=shape) - 1


def of_topics(n: int, draw: Draw, studies: int = STUDIES) -> Rates:
    """Measure the BCa interval and the sign flips of `n` topics."""
    random, covered, significant = np.random.default_rng(n), 0, 0
    for study in range(studies):
        values = draw(random, n)
        low, high = interval_of_mean(values, resamples=999, seed=study * DRAWS // studies)
        covered += low <= 0 <= high
        significant += sign_flip(values, flips=199, seed=study) <= 0.05
    return Rates(100 * covered / studies, 100 * significant / studies)


def of_members(n: int, shared: float, draw: Draw, studies: int = STUDIES) -> Rates:
    """Measure the t interval of pairs of `n` members: all pairs, or four for each member if there are many."""
    random = np.random.default_rng(n)
    every = np.stack(np.triu_indices(n, 1), 1)

    def study() -> Estimate | None:
        pairs = every if n <= 40 else every[random.permutation(len(every))[: 4 * n]]
        effects = shared * draw(random, n)
        return over_members(effects[pairs].sum(1) + math.sqrt(2 - 2 * shared**2) * draw(random, len(pairs)), pairs)

    return _rates(study() for _ in range(studies))


def of_trainings(
    n: int, folds: int, seeds: int, missing: float, between: float, draw: Draw, studies: int = STUDIES
) -> Rates:
    """Measure the t interval of `n` topics and all trainings; 50 or more are each in the test split of one fold."""
    random = np.random.default_rng(n)

    def study() -> Estimate | None:
        cells = draw(random, n, 1, 1) + draw(random, n, folds, seeds)
        cells += between * math.sqrt(folds / n) * random.normal(size=(folds, seeds))
        if n >= 50:
            cells[np.arange(n)[:, None] % folds != np.arange(folds)] = math.nan
        cells[random.random(cells.shape) < missing] = math.nan
        return over_trainings(cells[np.isfinite(cells).any((1, 2))])

    return _rates(study() for _ in range(studies))


class Design(NamedTuple):
    """Drawings of folds, their folds, the seeds in each drawing, and whether every topic is in one fold alone."""

    seeds: tuple[int, ...]
    folds: int = 5
    nested: bool = False
    topics: int = 100


DESIGNS = {
    "queries in one of 5 folds, 5 seeds": Design((5,), nested=True, topics=200),
    "queries in one of 5 folds, 1 seed": Design((1,), nested=True, topics=200),
    "5 drawings of 5 folds, 1 seed each": Design((1, 1, 1, 1, 1)),
    "5 drawings of 5 folds, 5, 2, 2, 2, 2 seeds": Design((5, 2, 2, 2, 2)),
    "1 fold in each of 5 drawings, 1 seed each": Design((1, 1, 1, 1, 1), folds=1),
    "2 drawings of 5 folds, 3 and 2 seeds": Design((3, 2)),
    "2 drawings of 2 folds, 2 seeds each": Design((2, 2), folds=2),
    "2 folds, 3 seeds": Design((3,), folds=2),
    "1 fold, 5 seeds": Design((5,), folds=1),
}
"""Designs with topics, drawings, folds and seeds, by what the table calls them."""

SOURCES = {"none": (0, 0, 0), "seeds": (0, 0, 1), "folds": (0, 1, 0), "drawings": (1, 0, 0), "all": (0.7, 0.7, 0.7)}
"""Deviations of the mean due to drawings, folds and seeds, in those due to topics, by the sources that matter."""


def of_sources(design: Design, sources: tuple[float, float, float], studies: int = STUDIES) -> Rates:
    """Measure the t interval of topics, drawings, folds (with what their seeds share) and seeds."""
    random, (of_drawings, of_folds, of_seeds) = np.random.default_rng(design.topics), sources
    drawn, most, n = len(design.seeds), max(design.seeds), design.topics
    count, error = drawn * design.folds, math.sqrt(1 / n)
    drawings = np.repeat(np.arange(drawn), design.folds)
    missing = np.arange(most) >= np.array(design.seeds)[drawings, None]

    def study() -> Estimate | None:
        cells = random.normal(size=(n, 1, 1)) + 0.3 * random.normal(size=(n, count, 1))
        cells = cells + 0.3 * random.normal(size=(n, count, most))
        cells += of_drawings * error * math.sqrt(drawn) * random.normal(size=drawn)[drawings, None]
        cells += of_folds * error * math.sqrt(count) * random.normal(size=(count, 1))
        cells += of_seeds * error * math.sqrt((~missing).sum()) * random.normal(size=(count, most))
        cells[:, missing] = math.nan
        if design.nested:
            cells[np.arange(n)[:, None] % count != np.arange(count)] = math.nan
        return over_trainings(cells, drawings)

    return _rates(study() for _ in range(studies))


def known_sources(design: Design) -> dict[str, tuple[float, float, float]]:
    """Return the sources of variance that a design has."""
    present = len(design.seeds) > 1, len(design.seeds) * design.folds > 1, True
    found = {}
    for name, sizes in SOURCES.items():
        of_drawings, of_folds, of_seeds = (size * one for size, one in zip(sizes, present, strict=True))
        if any((of_drawings, of_folds, of_seeds)) == (name != "none"):
            found[name] = of_drawings, of_folds, of_seeds
    return found


def _rates(estimates: Iterator[Estimate | None]) -> Rates:
    """Count the studies that have an estimate."""
    known = [estimate for estimate in estimates if estimate is not None]
    significant = 100 * float(np.mean([estimate.p_value() <= 0.05 for estimate in known]))
    intervals = [estimate.interval(0.95) for estimate in known]
    return Rates(100 * float(np.mean([low <= 0 <= high for low, high in intervals])), significant)


def measured(design: Callable[[Draw], list[Rates]]) -> Measured:
    """Return the figures of a design, from its rates for every ratio of the sources of variance."""
    of_normal, of_skewed = design(normal), design(skewed)
    covered = [rates.covered for rates in of_normal]
    return Measured(
        round(min(covered)),
        round(max(covered)),
        round(min(rates.covered for rates in of_skewed)),
        round(max(rates.significant for rates in of_normal + of_skewed)),
    )


def topics(n: int) -> Measured:
    return measured(lambda draw: [of_topics(n, draw)])


def members(n: int) -> Measured:
    return measured(lambda draw: [of_members(n, shared, draw) for shared in SHARED])


def trainings(n: int) -> Measured:
    """Vary topics, missing scores and the variance between trainings; `topics` tells what skew does to 10 topics."""

    def design(draw: Draw) -> list[Rates]:
        cases = product((10 if draw is normal else 50, 200), (0.0, 0.5), BETWEEN)
        return [of_trainings(count, *TRAININGS[n], *case, draw) for count, *case in cases]

    return measured(design)


def main() -> None:
    """Print a row of the table per design."""
    sizes = ((topics, "topics", TOPICS), (members, "members", MEMBERS), (trainings, "trainings", TRAININGS))
    for design, what, counts in sizes:
        for count in counts:
            print(f"| {count} {what} | {' | '.join(map(str, design(count)))} |", flush=True)
    for name, one in DESIGNS.items():
        found = {source: of_sources(one, parts).covered for source, parts in known_sources(one).items()}
        cells = (f"{found[source]:.0f}" if source in found else "" for source in SOURCES)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
