"""Two systems compared on one metric: everything that a row of a table of comparisons says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankbound.compare import notes
from rankbound.compare.effects import LEVEL, POWER, TIE, Effect, detectable
from rankbound.compare.estimates import Estimate, over_members, over_trainings, over_units, seed_deviation
from rankbound.compare.intervals import CONFIDENCE, METHODS, RESAMPLES
from rankbound.compare.margins import MarginTest, against_margin, noise_margin
from rankbound.compare.means import interval_of_mean, p_value_of_mean
from rankbound.compare.randomisation import FLIPS, holm_within
from rankbound.compare.scores import Floats, Pair, per_unit

NOISE = "noise"
"""The margin that the spread between seeds gives, instead of a number."""


@dataclass(frozen=True)
class Settings:
    """How to compare. `margin` is a number in units of the metric, `noise` (the repeatability limit), or None.

    Raises:
        ValueError: for a confidence or number that makes no sense.
    """

    confidence: float = CONFIDENCE
    interval: str = METHODS[0]
    resamples: int = RESAMPLES
    flips: int = FLIPS
    seed: int = 0
    margin: float | str | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence: found {self.confidence}, expected a share such as 0.95")
        if self.interval not in METHODS:
            raise ValueError(f"interval: found {self.interval!r}, expected one of {', '.join(METHODS)}")
        for name in ("resamples", "flips"):
            if getattr(self, name) < 99:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 99")
        if isinstance(self.margin, str) and self.margin != NOISE:
            raise ValueError(f"margin: found {self.margin!r}, expected a number or {NOISE!r}")


@dataclass(frozen=True)
class Trainings:
    """What several seeds say; NaN where a fold has one seed only.

    Attributes:
        n_folds, n_seeds: of the trainings that both systems have (the largest number of seeds of a fold).
        deviation_a, deviation_b: the noise floor, the standard deviation of a mean score between single seeds.
        deviation: that of the mean difference.
        low, high, p_value: of the mean difference over units and trainings, by the t distribution.
    """

    n_folds: int
    n_seeds: int
    deviation_a: float = math.nan
    deviation_b: float = math.nan
    deviation: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


@dataclass(frozen=True)
class Comparison:
    """A minus B. Numbers that could not be computed are NaN, and `notes` say why.

    Attributes:
        n_units, n_undefined: units with a score of both, and those where neither has one.
        mean_a, mean_b, difference, low, high: over the units with both; the interval is of the difference.
        p_value: two-sided, by sign flips (of the normal distribution for pairs that share members).
        p_adjusted: by Holm over the family, which `adjust` fills in.
        effect: sizes of the difference; None without units.
        detectable: the minimal detectable difference, at 80 % power and 5 %.
        trainings, margin: what several seeds and a margin say.
    """

    n_units: int
    n_undefined: int
    mean_a: float = math.nan
    mean_b: float = math.nan
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    effect: Effect | None = None
    detectable: float = math.nan
    trainings: Trainings = Trainings(0, 0)
    margin: MarginTest | None = None
    notes: tuple[str, ...] = ()


def compare(pair: Pair, settings: Settings | None = None) -> Comparison:
    """Compare two systems. One unit, equal differences and constant scores are not tested, and `notes` say so."""
    settings = settings or Settings()
    a, b = per_unit(pair.a), per_unit(pair.b)
    differences, gaps = a - b, pair.gaps
    if not len(differences):
        return Comparison(0, gaps.n_undefined, notes=(*notes.of_gaps(gaps), notes.NO_UNITS))
    found = Comparison(
        n_units=len(differences),
        n_undefined=gaps.n_undefined,
        mean_a=math.fsum(a.tolist()) / len(a),
        mean_b=math.fsum(b.tolist()) / len(b),
        difference=math.fsum(differences.tolist()) / len(differences),
        effect=Effect.of(differences, settings.higher_is_better),
        trainings=_counted(pair),
        notes=(*notes.of_gaps(gaps), *notes.of_scores(a, b), *notes.of_seeds(pair, settings.margin == NOISE)),
    )
    return _tested(found, pair, differences, settings) if len(differences) > 1 else found


def adjust(comparisons: Sequence[Comparison], families: Sequence[str] | None = None) -> list[Comparison]:
    """The comparisons with `p_adjusted`: by Holm over each family of tests (all are one family if none are named)."""
    names = [""] * len(comparisons) if families is None else list(families)
    adjusted = holm_within([one.p_value for one in comparisons], names)
    return [replace(one, p_adjusted=p_value) for one, p_value in zip(comparisons, adjusted, strict=True)]


def _tested(found: Comparison, pair: Pair, differences: Floats, settings: Settings) -> Comparison:
    """With intervals, and with tests where there is anything to test."""
    estimate = over_units(differences) if pair.members is None else over_members(differences, pair.members)
    wider = over_trainings(pair.a - pair.b) if pair.members is None else None
    testable = notes.is_testable(per_unit(pair.a), per_unit(pair.b))
    low, high = interval_of_mean(
        differences, pair.members, settings.confidence, settings.resamples, settings.interval, settings.seed
    )
    found = replace(found, low=low, high=high, trainings=_of_trainings(found.trainings, pair, wider, settings))
    if not testable:
        return replace(found, trainings=replace(found.trainings, p_value=math.nan))
    margin = _of_margin(pair, estimate, wider, settings)
    if margin is None and wider is not None and settings.margin == NOISE:
        found = replace(found, notes=(*found.notes, notes.NO_NOISE))
    return replace(
        found,
        p_value=p_value_of_mean(differences, pair.members, settings.flips, settings.seed),
        detectable=detectable(estimate, POWER, LEVEL),
        margin=margin,
    )


def _counted(pair: Pair) -> Trainings:
    seeds = notes.seeds_per_fold(pair)
    return Trainings(len(seeds), int(seeds.max(initial=0)))


def _of_trainings(found: Trainings, pair: Pair, wider: Estimate | None, settings: Settings) -> Trainings:
    low, high = wider.interval(settings.confidence) if wider is not None else (math.nan, math.nan)
    return replace(
        found,
        deviation_a=seed_deviation(pair.a),
        deviation_b=seed_deviation(pair.b),
        deviation=seed_deviation(pair.a - pair.b),
        low=low,
        high=high,
        p_value=wider.p_value() if wider is not None else math.nan,
    )


def _of_margin(pair: Pair, estimate: Estimate, wider: Estimate | None, settings: Settings) -> MarginTest | None:
    margin = noise_margin(pair) if isinstance(settings.margin, str) else settings.margin
    if margin is None or (isinstance(settings.margin, str) and not margin > TIE):
        return None
    covers = "topics" if wider is None else "topics and trainings"
    return against_margin(estimate if wider is None else wider, margin, covers, settings.higher_is_better)
