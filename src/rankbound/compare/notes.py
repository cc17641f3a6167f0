"""Notes on what a comparison leaves out, and on what limits it."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankbound.compare.effects import LEVEL, TIE
from rankbound.compare.estimates import LEAST_MEMBERS, LEAST_TRAININGS, over_members, seed_deviation
from rankbound.compare.intervals import can_reach
from rankbound.compare.scores import Floats, Gaps, Integers, Pair, any_over
from rankbound.texts import quantity

NO_UNITS = "not compared: there is no topic for which both have a score"

NO_NOISE = "not tested against a margin: no score changes with the seed"


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
    3: Measured(93, 98, 93, 7),
    5: Measured(94, 97, 94, 6),
    10: Measured(94, 97, 94, 6),
    15: Measured(94, 96, 94, 6),
}
"""Figures by the number of topics, members, or trainings, each up to the next number. The table of docs/statistics.md
has them with their designs, and tests/library/test_coverage.py measures them.
"""

_INTERVAL, _SIGNIFICANT = (93, 97), 6
"""Figures within these need no note: 93.5 to 96.5 % and 4 to 6 %, and the error of 2,000 studies, half a per cent."""

_SHOWN = 3
_NAMES = ("A", "B")


def of_gaps(gaps: Gaps) -> list[str]:
    """Return notes on what is left out because a system lacks it."""
    notes = []
    for side, name in enumerate(_NAMES):
        trainings = [_training(fold, seed) for lacking, fold, seed in gaps.trainings if lacking == side]
        if trainings:
            notes.append(f"left out: {_listed(trainings, 'training')} that {name} does not have")
        if gaps.units[side]:
            notes.append(f"left out: {_listed(gaps.units[side], 'topic')} without a score of {name}")
    if gaps.n_apart:
        notes.append(f"left out: {quantity(gaps.n_apart, 'topic')} with no common training of A and B")
    if gaps.n_lists:
        notes.append(f"left out: {quantity(gaps.n_lists, 'test list')} for which one of the two has no score")
    if gaps.n_undefined:
        notes.append(f"left out: {quantity(gaps.n_undefined, 'topic')} for which neither has a score")
    return notes


def of_scores(a: Floats, b: Floats, members: Integers | None = None, confidence: float = 0.95) -> list[str]:
    """Return notes on why the scores are not tested, or on what limits the tests."""
    n = len(a)
    if n == 1:
        return ["not tested: a test takes more than one topic"]
    notes = [
        f"not tested: {name} scores {values[0]:.4g} in every topic"
        for name, values in zip(_NAMES, (a, b), strict=True)
        if _is_constant(values)
    ]
    if not notes and _is_constant(a - b):
        same = "score the same" if abs(a[0] - b[0]) <= TIE else f"differ by {a[0] - b[0]:.4g}"
        notes = [f"not tested: A and B {same} in every topic"]
    if members is not None:
        return [*notes, *_of_members(a - b, members)]
    only = f"the scores differ in only {quantity(_differing(a - b), 'topic')}"
    if not decidable(a - b):
        return notes or [f"no interval, and no difference could be significant: {only}"]
    if not decidable(a - b, 1 - confidence):
        notes.append(f"no {confidence * 100:g} % interval: {only}")
    return [*notes, *approximate(OF_TOPICS, n, "topic")]


def of_seeds(pair: Pair, margin_of_noise: bool = False) -> list[str]:
    """Return notes on what is unknown of the variance between trainings; none for files without seeds."""
    seeds = seeds_per_fold(pair)
    if not len(seeds) or not (pair.has_seeds or margin_of_noise):
        return []
    if seeds.min() == 1:
        which = "one seed" if seeds.max() == 1 else "only one seed in some folds"
        margin = ", and there is no noise to take a margin from" if margin_of_noise else ""
        return [f"{which}: the variance between trainings is unknown{margin}"]
    if math.isnan(seed_deviation(pair.a - pair.b)):
        return ["the variance between trainings is unknown: seeds of a fold have no topic in common"]
    if seeds.sum() < LEAST_TRAININGS:
        return ["two trainings: an interval that covers new trainings takes at least three"]
    return approximate(OF_TRAININGS, int(seeds.sum()), "training")


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


def decidable(differences: Floats, level: float = LEVEL) -> bool:
    """Return True if enough units differ for a sign-flip test to reject at this level, and at 5 %."""
    return can_reach(_differing(differences), min(level, LEVEL))


def seeds_per_fold(pair: Pair) -> Integers:
    """Return the number of seeds of each fold that has any."""
    seeds: Integers = any_over(np.isfinite(pair.a), 0).sum(1, dtype=np.int64)
    return seeds[seeds > 0]


def is_testable(a: Floats, b: Floats) -> bool:
    """Return True if both systems' scores and their differences vary."""
    return not any(_is_constant(values) for values in (a, b, a - b))


def _of_members(differences: Floats, members: Integers) -> list[str]:
    """Return notes on pairs that share members."""
    count = len(np.unique(members))
    if over_members(differences, members) is None:
        few = f"the pairs have only {count} members, and a test takes {LEAST_MEMBERS}"
        return [f"not tested: {few if count < LEAST_MEMBERS else 'one member is in all pairs'}"]
    note = f"the pairs share {count} members: intervals and p are of the t distribution, with their dyadic error"
    return [note, *approximate(OF_MEMBERS, count, "member")]


def _differing(differences: Floats) -> int:
    return int((np.abs(differences) > TIE).sum())


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= TIE)


def _training(fold: str, seed: str) -> str:
    return ", ".join(f"{what} {name}" for what, name in (("fold", fold), ("seed", seed)) if name)


def _listed(names: Sequence[str], what: str) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{quantity(len(names), what)} ({'; '.join(names[:_SHOWN])}{rest})"
