"""Compare two systems on one metric: estimates, intervals and tests of the difference."""

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
"""The margin derived from the variance between seeds, instead of a number."""


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        confidence: level of the intervals.
        interval: `BCa`, `percentile` or `t`.
        resamples, flips: number of bootstrap resamples and of sign flips.
        seed: of the resamples and the flips.
        margin: a number in units of the metric, `noise` (the repeatability limit), or None.
        higher_is_better: the direction of the metric.

    Raises:
        ValueError: a setting is out of range.
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
    """Statistics over several seeds; NaN if a fold has only one seed, or seeds under which no topic is scored twice.

    Attributes:
        n_folds, n_seeds: number of folds, and largest number of seeds in a fold, of the trainings both systems have.
        deviation_a, deviation_b: the noise floor, the standard deviation of a mean score between single seeds.
        deviation: the same for the mean difference.
        low, high, p_value: t interval and p-value of the mean difference over units and trainings; NaN also for fewer
            than three trainings.
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
    """Comparison of A with B, as A minus B. Numbers that cannot be computed are NaN, and `notes` give the reason.

    Attributes:
        n_units, n_undefined: number of units with a score of both systems, and of neither.
        mean_a, mean_b, difference: means over the units with both scores, and their difference.
        low, high: interval of the difference.
        p_value: two-sided, by sign flips (by the t distribution for pairs that share members).
        p_adjusted: adjusted by Holm's method over the family; `adjust` fills it in.
        effect: effect sizes; None without units.
        detectable: the minimal detectable difference at 80 % power and level 5 %.
        trainings, margin: statistics over several seeds, and tests against a margin.
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
    """Compare two systems.

    A single unit, constant differences and constant scores are not tested. Differences that only a few units show
    could not be significant whatever they are, and have a p-value, but no interval. `notes` give the reason.
    """
    settings = settings or Settings()
    a, b = per_unit(pair.a), per_unit(pair.b)
    differences, gaps = a - b, pair.gaps
    if not len(differences):
        return Comparison(0, gaps.n_undefined, notes=(*notes.of_gaps(gaps), notes.NO_UNITS))
    comparison = Comparison(
        n_units=len(differences),
        n_undefined=gaps.n_undefined,
        mean_a=math.fsum(a.tolist()) / len(a),
        mean_b=math.fsum(b.tolist()) / len(b),
        difference=math.fsum(differences.tolist()) / len(differences),
        effect=Effect.of(differences, settings.higher_is_better),
        trainings=_counted(pair),
        notes=(
            *notes.of_gaps(gaps),
            *notes.of_scores(a, b, pair.members, settings.confidence),
            *(notes.of_seeds(pair, settings.margin == NOISE) if pair.members is None else ()),
        ),
    )
    return _tested(comparison, pair, differences, settings) if len(differences) > 1 else comparison


def adjust(comparisons: Sequence[Comparison], families: Sequence[str] | None = None) -> list[Comparison]:
    """Return the comparisons with `p_adjusted`, by Holm's method within each family (by default all are one)."""
    names = [""] * len(comparisons) if families is None else list(families)
    adjusted = holm_within([comparison.p_value for comparison in comparisons], names)
    return [replace(comparison, p_adjusted=p_value) for comparison, p_value in zip(comparisons, adjusted, strict=True)]


def _tested(comparison: Comparison, pair: Pair, differences: Floats, settings: Settings) -> Comparison:
    """Add intervals, and tests if the scores vary, as far as the sample allows."""
    shared = pair.members is not None
    estimate = over_members(differences, pair.members) if pair.members is not None else over_units(differences)
    decidable = shared or notes.decidable(differences)
    wider = over_trainings(pair.a - pair.b) if decidable and not shared else None
    comparison = replace(comparison, trainings=_of_trainings(comparison.trainings, pair, wider, settings))
    testable = notes.is_testable(per_unit(pair.a), per_unit(pair.b))
    if testable:
        p_value = p_value_of_mean(differences, pair.members, settings.flips, settings.seed)
        comparison = replace(comparison, p_value=p_value)
    if estimate is None or not decidable:
        return comparison
    if shared or notes.decidable(differences, 1 - settings.confidence):
        low, high = interval_of_mean(
            differences, pair.members, settings.confidence, settings.resamples, settings.interval, settings.seed
        )
        comparison = replace(comparison, low=low, high=high)
    if not testable:
        return replace(comparison, trainings=replace(comparison.trainings, p_value=math.nan))
    margin = _of_margin(pair, estimate, wider, settings)
    if margin is None and wider is not None and settings.margin == NOISE:
        comparison = replace(comparison, notes=(*comparison.notes, notes.NO_NOISE))
    return replace(comparison, detectable=detectable(estimate, POWER, LEVEL), margin=margin)


def _counted(pair: Pair) -> Trainings:
    seeds = notes.seeds_per_fold(pair)
    return Trainings(len(seeds), int(seeds.max(initial=0)))


def _of_trainings(trainings: Trainings, pair: Pair, wider: Estimate | None, settings: Settings) -> Trainings:
    low, high = wider.interval(settings.confidence) if wider is not None else (math.nan, math.nan)
    return replace(
        trainings,
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
