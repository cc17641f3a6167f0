r"""Compare two systems on one metric: estimates, intervals, effect sizes and tests of the difference, or of a margin.

A difference that is not significant shows neither "no worse" nor "alike". With the margin $\Delta$, in units of the
metric, and the mean gain $g$ of A over B (the difference, negated where lower is better):

- *no worse* (non-inferiority): $g \le -\Delta$ is rejected at 5 %, one-sided;
- *alike* (equivalence, two one-sided tests): both $g \le -\Delta$ and $g \ge \Delta$ are rejected at 5 %, that is, the
  90 % interval lies inside the margin.

Both are t tests: sign flips assume exchangeable systems, which contradicts a hypothesis with a margin.

Source: Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankbound.compare import statistics
from rankbound.compare.scores import Floats, Gaps, Integers, Pair, any_over, per_unit
from rankbound.compare.statistics import Estimate, over_members, over_units, seed_deviation
from rankbound.lazy import optimize, stats
from rankbound.texts import html, html_notes, html_table, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POWER = 0.8
LEVEL = 0.05
"""The significance level of every test, after correction for multiple tests."""

TIE = 1e-9
"""Scores that differ by less count as equal: means over seeds differ by rounding."""

MARGIN = 0.01
"""The default margin, for metrics from 0 to 1. A margin is a judgement of what matters, made before measuring."""

REPEATABILITY = 1.959963984540054 * math.sqrt(2)
"""The repeatability limit of ISO 5725 in standard deviations: 95 % of the differences between two results that differ
by chance alone lie within it."""

NOISE = "noise"
"""The margin derived from the variance between seeds, instead of a number."""

_SHOWN = 3
_INTERVAL, _SIGNIFICANT = (93, 97), 6
"""Measured figures within these need no note: 93.5 to 96.5 % and 4 to 6 %, and the error of 2,000 studies, half a per
cent."""


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        confidence: level of the intervals.
        interval: `BCa`, a bootstrap, or `t`.
        resamples, flips: number of bootstrap resamples and of sign flips.
        seed: of the resamples and the flips.
        test: of the difference over topics: `flips` (random sign flips), `t` (Student's, paired) or `wilcoxon`. Margins
            and trainings have t tests, whatever it is; pairs that share members have one instead of the first two.
        correction: of p-values for several tests: `holm`, `bonferroni` or `bh` (Benjamini-Hochberg, of the false
            discovery rate).
        margin: a number in units of the metric, `noise` (the repeatability limit), or None.
        higher_is_better: the direction of the metric.

    Raises:
        ValueError: a setting is out of range, or a number of flips is given for a test without them.
    """

    confidence: float = statistics.CONFIDENCE
    interval: str = statistics.METHODS[0]
    resamples: int = statistics.RESAMPLES
    flips: int = statistics.FLIPS
    seed: int = 0
    test: str = "flips"
    correction: str = "holm"
    margin: float | str | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence: found {self.confidence}, expected a share such as 0.95")
        known_tests = {"interval": statistics.METHODS, "test": statistics.TESTS, "correction": statistics.CORRECTIONS}
        for name, known in known_tests.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(known)}")
        for name in ("resamples", "flips"):
            if getattr(self, name) < 99:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 99")
        if self.test != "flips" and self.flips != statistics.FLIPS:
            raise ValueError(f"flips: found {self.flips} beside test {self.test!r}, which has none: leave one out")
        if isinstance(self.margin, str) and self.margin != NOISE:
            raise ValueError(f"margin: found {self.margin!r}, expected a number or {NOISE!r}")


@dataclass(frozen=True)
class Effect:
    """Effect sizes of a difference.

    Attributes:
        standardised: mean over standard deviation of the differences (Cohen's d_z); NaN if they are constant.
        superiority: the probability that A is better on a unit; a tie counts half.
        wins, ties, losses: number of units on which A is better, equal (within 1e-9) and worse.
    """

    standardised: float
    superiority: float
    wins: int
    ties: int
    losses: int

    @classmethod
    def of(cls, differences: Floats, higher_is_better: bool = True) -> "Effect":
        """Return the effect sizes of the differences A - B `(n_units,)`, of at least one unit."""
        gains = differences if higher_is_better else -differences
        wins, losses = int((gains > TIE).sum()), int((gains < -TIE).sum())
        ties = len(gains) - wins - losses
        spread = float(differences.std(ddof=1)) if len(differences) > 1 and np.ptp(differences) > TIE else math.nan
        return cls(float(differences.mean()) / spread, (wins + ties / 2) / len(gains), wins, ties, losses)


@dataclass(frozen=True)
class MarginTest:
    """Tests of a difference against a margin.

    Attributes:
        margin: in units of the metric.
        low, high: the 90 % interval of the difference A - B, which decides both tests at 5 %.
        p_not_worse, p_alike: p-values of the non-inferiority and the equivalence test.
        covers: the sources of variance: "topics", or "topics and trainings" with several seeds.
        verdict: A compared with B at 5 %: "alike", "no worse", "worse" (by more than the margin) or "undecided".
    """

    margin: float
    low: float
    high: float
    p_not_worse: float
    p_alike: float
    covers: str
    verdict: str


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
        p_value: two-sided, by the test of the settings (by the t distribution for pairs that share members).
        p_adjusted: adjusted for all tests of the family; `adjust` fills it in.
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

    def _repr_html_(self) -> str:
        """Return the numbers and the notes in HTML, as notebooks show them."""
        row = [html(Cells().format(cell, self)) for cell in DIFFERENCES.values()]
        return html_table([[html(name) for name in DIFFERENCES], row], ()) + html_notes(self.notes)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the difference with its interval; a filled dot is significant.

        Args:
            ax: the axes of Matplotlib to draw on; by default, those of a new figure.

        Returns:
            The axes.
        """
        # Not the module: what compares would depend on what draws.
        import rankbound as rb

        return rb.plot.differences({"": self}, LEVEL, ax)


DIFFERENCES = {
    "topics": "{0.n_units}",
    "A": "{0.mean_a:.4f}",
    "B": "{0.mean_b:.4f}",
    "A - B": "{0.difference:+.4f}",
    "interval": "[{0.low:+.4f}, {0.high:+.4f}]",
    "p": "{0.p_value:p}",
    "adjusted": "{0.p_adjusted:p}",
    "effect": "{0.effect.standardised:+.2f}",
    "P(A > B)": "{0.effect.superiority:.2f}",
    "win/tie/loss": "{0.effect.wins}/{0.effect.ties}/{0.effect.losses}",
    "detectable": "{0.detectable:.4f}",
}
"""Columns of a table of comparisons: a header, and the template of a comparison's cell."""


class Cells(Formatter):
    """Fills templates: `-` for numbers that a comparison lacks; the format `p` is that of p-values."""

    def vformat(self, format_string: str, args: Any, kwargs: Any) -> str:
        try:
            text = super().vformat(format_string, args, kwargs)
        except AttributeError:
            return "-"
        return "-" if "nan" in text else text

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "p":
            return "< 0.0001" if value < 0.0001 else format(value, ".4f")
        return format(value, format_spec)


def compare(pair: Pair, settings: Settings | None = None, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two systems, which notes call by `names`.

    A single unit, constant differences and constant scores are not tested. Differences that only a few units show
    could not be significant by sign flips or ranks, and have a p-value, but no interval. `notes` give the reason.

    Raises:
        ValueError: Wilcoxon's test for pairs that share members.
    """
    settings = settings or Settings()
    a, b, members = per_unit(pair.a), per_unit(pair.b), pair.members
    differences, n = a - b, len(a)
    if not n:
        note = "not compared: there is no topic for which both have a score"
        return Comparison(0, pair.gaps.n_undefined, notes=(*_on_gaps(pair.gaps, names), note))
    seeds = _seeds_per_fold(pair)
    found: dict[str, Any] = {
        "mean_a": math.fsum(a.tolist()) / n,
        "mean_b": math.fsum(b.tolist()) / n,
        "difference": math.fsum(differences.tolist()) / n,
        "effect": Effect.of(differences, settings.higher_is_better),
    }
    trainings: dict[str, float] = {}
    notes = [*_on_gaps(pair.gaps, names), *_on_scores(a, b, members, settings, names)]
    notes += _on_seeds(pair, settings.margin == NOISE) if members is None else []
    if n > 1:
        estimate = over_units(differences) if members is None else over_members(differences, members)
        differing = _differing(differences)
        decidable = members is not None or statistics.can_reach(differing, LEVEL)
        covered = members is not None or statistics.can_reach(differing, min(LEVEL, 1 - settings.confidence))
        # The table of trainings is that of a noise floor, which takes two seeds in every fold.
        has_noise = members is None and decidable and len(seeds) > 0 and seeds.min() > 1
        wider = statistics.over_trainings(pair.a - pair.b, pair.drawings) if has_noise else None
        testable = not any(map(_is_constant, (a, b, differences)))
        if testable:
            of_test = (settings.flips, settings.seed, settings.test)
            found["p_value"] = statistics.p_value_of_mean(differences, members, *of_test)
        if estimate is not None and covered:
            how = (settings.confidence, settings.resamples, settings.interval, settings.seed)
            found["low"], found["high"] = statistics.interval_of_mean(differences, members, *how)
        if estimate is not None and decidable and testable:
            found["detectable"] = detectable(estimate)
            margin = noise_margin(pair) if isinstance(settings.margin, str) else settings.margin
            # Of one seed, the noise is not known.
            if margin is not None and not (settings.margin == NOISE and not margin > TIE):
                covers = "topics" if wider is None else "topics and trainings"
                found["margin"] = against_margin(wider or estimate, margin, covers, settings.higher_is_better)
            elif margin is not None and wider is not None:
                notes.append("not tested against a margin: no score changes with the seed")
        sides = {"deviation_a": pair.a, "deviation_b": pair.b, "deviation": pair.a - pair.b}
        trainings = {name: seed_deviation(cells) for name, cells in sides.items()}
        if wider is not None:
            trainings["low"], trainings["high"] = wider.interval(settings.confidence)
            trainings["p_value"] = wider.p_value() if testable else math.nan
    found["trainings"] = Trainings(len(seeds), int(seeds.max(initial=0)), **trainings)
    return Comparison(n, pair.gaps.n_undefined, notes=tuple(notes), **found)


def adjust(comparisons: Sequence[Comparison], correction: str = "holm") -> list[Comparison]:
    """Return the comparisons of a family of tests with `p_adjusted`, by a correction of `Settings`."""
    adjusted = statistics.corrected([comparison.p_value for comparison in comparisons], correction)
    return [replace(comparison, p_adjusted=p_value) for comparison, p_value in zip(comparisons, adjusted, strict=True)]


def detectable(estimate: Estimate) -> float:
    """Return the minimal detectable difference: the smallest true difference that a test finds with `POWER`.

    It is computed for the two-sided t test at `LEVEL`, by the noncentral t distribution (normal for infinite degrees of
    freedom); the randomisation test has the same power.
    """
    return _in_errors(estimate.degrees_of_freedom) * estimate.standard_error


@lru_cache(maxsize=1024)
def _in_errors(freedom: float) -> float:
    """Return the minimal detectable difference in standard errors of the mean."""
    critical = float(stats.t.isf(LEVEL / 2, freedom))

    def missing(shift: float) -> float:
        if math.isinf(freedom):
            return float(stats.norm.sf(critical - shift)) - POWER
        return float(stats.nct.sf(critical, freedom, shift)) - POWER

    # The root lies between 0 and a shift far beyond the critical value.
    return float(optimize.brentq(missing, 0.0, 10.0 + 3.0 * critical))


def against_margin(estimate: Estimate, margin: float, covers: str, higher_is_better: bool = True) -> MarginTest:
    """Test an estimated difference for non-inferiority and equivalence; ValueError unless the margin is above 0."""
    if not (margin > 0 and math.isfinite(margin)):
        raise ValueError(f"margin: found {margin}, expected a number above 0, in units of the metric")
    above, below = estimate.p_above(-margin), estimate.p_below(margin)
    gain = estimate if higher_is_better else replace(estimate, mean=-estimate.mean)
    not_worse, alike = gain.p_above(-margin), max(above, below)
    worse = gain.p_below(-margin)
    verdicts = {"alike": alike, "no worse": not_worse, "worse": worse, "undecided": 0.0}
    verdict = next(name for name, p_value in verdicts.items() if p_value <= LEVEL)
    return MarginTest(margin, *estimate.interval(1 - 2 * LEVEL), not_worse, alike, covers, verdict)


def noise_margin(pair: Pair) -> float:
    r"""Return the repeatability limit of two trainings of one system, in units of the metric; NaN for one seed.

    $$\Delta = 1.96 \sqrt 2 \sqrt{(s_A^2 + s_B^2) / 2}$$

    with the standard deviations $s_A$ and $s_B$ of the systems' means between seeds. The margin is estimated from the
    data that it is applied to, with a large error for few seeds.
    """
    squares = [seed_deviation(values) ** 2 for values in (pair.a, pair.b)]
    return REPEATABILITY * math.sqrt(sum(squares) / 2)


class Measured(NamedTuple):
    """Coverage of a 95 % interval in simulated studies, in per cent.

    Attributes:
        least, most: of normal differences, over the ratios of the sources of variance.
        skewed: the least, if differences are as skewed as an exponential distribution.
        significant: of tests of equal means, the largest share that is significant if differences are that skewed.
    """

    least: int
    most: int
    skewed: int
    significant: int


OF_TOPICS: Mapping[int, Measured] = {
    6: Measured(92, 92, 89, 7),
    10: Measured(94, 94, 92, 9),
    20: Measured(95, 95, 93, 9),
    50: Measured(94, 94, 94, 7),
    100: Measured(94, 94, 95, 5),
    200: Measured(95, 95, 94, 6),
    500: Measured(95, 95, 94, 6),
}
OF_MEMBERS: Mapping[int, Measured] = {
    5: Measured(95, 99, 86, 14),
    10: Measured(93, 98, 90, 10),
    20: Measured(94, 97, 92, 8),
    40: Measured(95, 97, 93, 7),
    80: Measured(94, 96, 93, 7),
    200: Measured(95, 96, 96, 5),
}
OF_TRAININGS: Mapping[int, Measured] = {
    3: Measured(95, 98, 94, 6),
    5: Measured(95, 96, 95, 5),
    10: Measured(95, 97, 94, 6),
    15: Measured(94, 98, 94, 6),
}
"""Figures by the number of topics, members, or trainings, each up to the next number. The table of docs/statistics.md
has them with their designs, and tests/library/test_statistics_simulations.py measures them.
"""


def approximate(measured: Mapping[int, Measured], count: int, what: str) -> list[str]:
    """Return a note with the figures that were measured for the next smaller number; none for large ones."""
    known = [number for number in measured if number <= count]
    if not known:
        return []
    found = measured[known[-1]]
    least, most = _INTERVAL
    if min(found.least, found.skewed) >= least and found.most <= most and found.significant <= _SIGNIFICANT:
        return []
    normal = f"{found.least}" if found.least == found.most else f"{found.least} to {found.most}"
    return [
        f"approximate: with {quantity(count, what)}, 95 % intervals cover {normal} % for normal differences and "
        f"{found.skewed} % for skewed ones, of which up to {found.significant} % are significant by chance"
    ]


def _on_gaps(gaps: Gaps, names: tuple[str, str]) -> list[str]:
    """Return notes on what is left out because a system lacks it."""
    notes = []
    for side, name in enumerate(names):
        keys = [(("fold", fold), ("seed", seed)) for lacking, fold, seed in gaps.trainings if lacking == side]
        trainings = [", ".join(f"{what} {value}" for what, value in key if value) for key in keys]
        if trainings:
            notes.append(f"left out: {_listed(trainings, 'training')} that {name} does not have")
        if gaps.units[side]:
            notes.append(f"left out: {_listed(gaps.units[side], 'topic')} without a score of {name}")
    others = (
        (gaps.n_apart, "topic", f"with no common training of {names[0]} and {names[1]}"),
        (gaps.n_lists, "test list", "for which one of the two has no score"),
        (gaps.n_undefined, "topic", "for which neither has a score"),
    )
    return [*notes, *(f"left out: {quantity(count, what)} {why}" for count, what, why in others if count)]


def _on_scores(a: Floats, b: Floats, members: Integers | None, settings: Settings, names: tuple[str, str]) -> list[str]:
    """Return notes on why the scores are not tested, or on what limits the tests."""
    differences = a - b
    if len(a) == 1:
        return ["not tested: a test takes more than one topic"]
    sides = zip(names, (a, b), strict=True)
    notes = [f"not tested: {name} scores {own[0]:.4g} in every topic" for name, own in sides if _is_constant(own)]
    if not notes and _is_constant(differences):
        same = "score the same" if abs(differences[0]) <= TIE else f"differ by {differences[0]:.4g}"
        notes = [f"not tested: {names[0]} and {names[1]} {same} in every topic"]
    if members is not None:
        count = len(np.unique(members))
        if over_members(differences, members) is None:
            few = f"the pairs have only {count} members, and a test takes {statistics.LEAST_MEMBERS}"
            return [*notes, f"not tested: {few if count < statistics.LEAST_MEMBERS else 'one member is in all pairs'}"]
        notes.append(
            f"the pairs share {count} members: intervals and p are of the t distribution, with their dyadic error"
        )
        return [*notes, *approximate(OF_MEMBERS, count, "member")]
    differing = _differing(differences)
    only = f"the scores differ in only {quantity(differing, 'topic')}"
    if not statistics.can_reach(differing, LEVEL):
        none = "" if settings.test == "t" else ", and no difference could be significant"
        return notes or [f"no interval{none}: {only}"]
    if not statistics.can_reach(differing, 1 - settings.confidence):
        notes.append(f"no {settings.confidence * 100:g} % interval: {only}")
    return [*notes, *approximate(OF_TOPICS, len(a), "topic")]


def _on_seeds(pair: Pair, margin_of_noise: bool) -> list[str]:
    """Return notes on what is unknown of the variance between trainings; none for files without seeds."""
    seeds = _seeds_per_fold(pair)
    if not len(seeds) or not (pair.has_seeds or margin_of_noise):
        return []
    if seeds.min() == 1:
        which = "one seed" if seeds.max() == 1 else "only one seed in some folds"
        margin = ", and there is no noise to take a margin from" if margin_of_noise else ""
        return [f"{which}: the variance between trainings is unknown{margin}"]
    if math.isnan(seed_deviation(pair.a - pair.b)):
        return ["the variance between trainings is unknown: seeds of a fold have no topic in common"]
    if seeds.sum() < statistics.LEAST_TRAININGS:
        return ["two trainings: an interval that covers new trainings takes at least three"]
    return approximate(OF_TRAININGS, int(seeds.sum()), "training")


def _seeds_per_fold(pair: Pair) -> Integers:
    """Return the number of seeds of each fold that has any."""
    seeds: Integers = any_over(np.isfinite(pair.a), 0).sum(1, dtype=np.int64)
    return seeds[seeds > 0]


def _differing(differences: Floats) -> int:
    return int((np.abs(differences) > TIE).sum())


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= TIE)


def _listed(names: Sequence[str], what: str) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{quantity(len(names), what)} ({'; '.join(names[:_SHOWN])}{rest})"
