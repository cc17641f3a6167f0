"""What a comparison leaves out or cannot say, in words that stand beside its numbers."""

from collections.abc import Sequence

import numpy as np

from rankbound.compare.effects import LEVEL, TIE
from rankbound.compare.scores import Floats, Gaps, Integers, Pair, any_over

NO_UNITS = "not compared: there is no topic for which both have a score"

NO_NOISE = "not tested against a margin: no score changes with the seed"

_FEW = 20
"""Intervals and t tests of fewer units lean on what their distribution is assumed to be."""

_SHOWN = 3
_NAMES = ("A", "B")


def of_gaps(gaps: Gaps) -> list[str]:
    """What was left out because one system lacks it."""
    found = []
    for who, name in enumerate(_NAMES):
        trainings = [_training(fold, seed) for lacks, fold, seed in gaps.trainings if lacks == who]
        if trainings:
            found.append(f"left out: {_listed(trainings, 'training')} that {name} does not have")
        if gaps.units[who]:
            found.append(f"left out: {_listed(gaps.units[who], 'topic')} without a score of {name}")
    if gaps.n_apart:
        found.append(f"left out: {_count(gaps.n_apart, 'topic')} that the two have in no common training")
    if gaps.n_lists:
        found.append(f"left out: {_count(gaps.n_lists, 'test list')} for which one of the two has no score")
    if gaps.n_undefined:
        found.append(f"left out: {_count(gaps.n_undefined, 'topic')} for which neither has a score")
    return found


def of_scores(a: Floats, b: Floats) -> list[str]:
    """Why there are no tests, or what limits them."""
    n = len(a)
    if n == 1:
        return ["not tested: one topic says nothing about others"]
    found = [
        f"not tested: {name} scores {values[0]:.4g} in every topic"
        for name, values in zip(_NAMES, (a, b), strict=True)
        if _is_constant(values)
    ]
    if not found and _is_constant(a - b):
        same = "score the same" if abs(a[0] - b[0]) <= TIE else f"differ by {a[0] - b[0]:.4g}"
        found = [f"not tested: A and B {same} in every topic"]
    differing = int((np.abs(a - b) > TIE).sum())
    if not found and 2.0 ** (1 - differing) > LEVEL:
        found.append(f"no difference could be significant: only {_count(differing, 'topic')} differ in score")
    elif n < _FEW:
        found.append(f"rough: intervals of {n} topics lean on the shape of their distribution")
    return found


def of_seeds(pair: Pair, margin_of_noise: bool = False) -> list[str]:
    """What the seeds cannot say; nothing of files that know no seeds, unless the margin is to come from them."""
    seeds = seeds_per_fold(pair)
    if not len(seeds) or seeds.min() > 1 or not (pair.has_seeds or margin_of_noise):
        return []
    which = "one seed" if seeds.max() == 1 else "only one seed in some folds"
    lost = ", and there is no noise to take a margin from" if margin_of_noise else ""
    return [f"{which}: nothing here says what other trainings would give{lost}"]


def seeds_per_fold(pair: Pair) -> Integers:
    """The number of seeds of each fold that has any."""
    seeds: Integers = any_over(np.isfinite(pair.a), 0).sum(1, dtype=np.int64)
    return seeds[seeds > 0]


def is_testable(a: Floats, b: Floats) -> bool:
    """Whether both systems' scores vary, and their differences, too."""
    return not any(_is_constant(values) for values in (a, b, a - b))


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= TIE)


def _training(fold: str, seed: str) -> str:
    return ", ".join(f"{what} {name}" for what, name in (("fold", fold), ("seed", seed)) if name)


def _listed(names: Sequence[str], what: str) -> str:
    rest = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{_count(len(names), what)} ({'; '.join(names[:_SHOWN])}{rest})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
