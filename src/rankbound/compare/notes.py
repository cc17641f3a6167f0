"""Notes on what a comparison leaves out, and on what limits it."""

from collections.abc import Sequence

import numpy as np

from rankbound.compare.effects import LEVEL, TIE
from rankbound.compare.scores import Floats, Gaps, Integers, Pair, any_over
from rankbound.quantities import quantity

NO_UNITS = "not compared: there is no topic for which both have a score"

NO_NOISE = "not tested against a margin: no score changes with the seed"

_FEW = 20
"""Intervals and t tests of fewer units depend on distributional assumptions."""

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


def of_scores(a: Floats, b: Floats) -> list[str]:
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
    differing = int((np.abs(a - b) > TIE).sum())
    if not notes and 2.0 ** (1 - differing) > LEVEL:
        notes.append(f"no difference could be significant: the scores differ in only {quantity(differing, 'topic')}")
    elif n < _FEW:
        notes.append(f"approximate: intervals of {quantity(n, 'topic')} depend on the shape of the distribution")
    return notes


def of_seeds(pair: Pair, margin_of_noise: bool = False) -> list[str]:
    """Return a note if the variance between trainings is unknown; none for files without seeds and margin of noise."""
    seeds = seeds_per_fold(pair)
    if not len(seeds) or seeds.min() > 1 or not (pair.has_seeds or margin_of_noise):
        return []
    which = "one seed" if seeds.max() == 1 else "only one seed in some folds"
    margin = ", and there is no noise to take a margin from" if margin_of_noise else ""
    return [f"{which}: the variance between trainings is unknown{margin}"]


def seeds_per_fold(pair: Pair) -> Integers:
    """Return the number of seeds of each fold that has any."""
    seeds: Integers = any_over(np.isfinite(pair.a), 0).sum(1, dtype=np.int64)
    return seeds[seeds > 0]


def is_testable(a: Floats, b: Floats) -> bool:
    """Return True if both systems' scores and their differences vary."""
    return not any(_is_constant(values) for values in (a, b, a - b))


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= TIE)


def _training(fold: str, seed: str) -> str:
    return ", ".join(f"{what} {name}" for what, name in (("fold", fold), ("seed", seed)) if name)


def _listed(names: Sequence[str], what: str) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{quantity(len(names), what)} ({'; '.join(names[:_SHOWN])}{rest})"
