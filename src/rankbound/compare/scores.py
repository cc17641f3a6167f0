r"""Designs: the scores of several systems on the same units, over folds and seeds.

A *unit* is what could have been drawn otherwise, independently of the others: a topic, a user, a query. A *training* is
a seed in a fold. Whatever the design, a unit ends as one number per system, so that no unit counts twice:

- seeds are averaged within each test list first, then the lists of a unit over its folds;
- topics nested in folds (MQ2008) stand in the test part of one fold, users crossed with folds (MovieLens) in those of
  all: either way the unit is resampled whole, with all its lists;
- pairs that share members (faces) are units that are not independent: `members` says who is in each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


NO_TRAININGS = ("",)
"""The folds, or seeds, of scores that know of none."""


@dataclass(frozen=True)
class PairedScores:
    """Scores of systems on the same units: `values` `(n_systems, n_units, n_folds, n_seeds)`, NaN where there is none.

    `members` `(n_units, 2)`: numbers of the two things that each unit is a pair of, if units are pairs.

    Raises:
        ValueError: for names that don't fit the values, or stand twice.
    """

    systems: Sequence[str]
    units: Sequence[str]
    values: Floats
    folds: Sequence[str] = NO_TRAININGS
    seeds: Sequence[str] = NO_TRAININGS
    members: Integers | None = None

    def __post_init__(self) -> None:
        expected = (len(self.systems), len(self.units), len(self.folds), len(self.seeds))
        if self.values.shape != expected:
            raise ValueError(f"values: found shape {self.values.shape}, expected {expected}: systems, units, ...")
        for what in ("systems", "units", "folds", "seeds"):
            names = list(getattr(self, what))
            if len(set(names)) < len(names):
                twice = next(name for place, name in enumerate(names) if name in names[:place])
                raise ValueError(f"{what}: found {twice!r} twice, expected names")
        if np.isinf(self.values).any():
            raise ValueError("values: found inf, expected numbers, or NaN where a score is undefined")
        if self.members is not None and self.members.shape != (len(self.units), 2):
            raise ValueError(f"members: found shape {self.members.shape}, expected {(len(self.units), 2)}")

    @classmethod
    def of_matrix(
        cls,
        matrix: Any,
        systems: Sequence[str],
        units: Sequence[str] | None = None,
        members: Integers | None = None,
    ) -> "PairedScores":
        """Scores `(n_units, n_systems)` of one run each, without folds and seeds."""
        values = np.asarray(matrix, dtype=np.float64)
        names = [str(place) for place in range(len(values))] if units is None else units
        return cls(systems, names, values.T[:, :, None, None], members=members)

    @property
    def matrix(self) -> Floats:
        """A score per unit and system `(n_units, n_systems)`, seeds and folds averaged; NaN where undefined."""
        return per_unit(self.values).T

    @property
    def is_crossed(self) -> bool:
        """Whether any unit has test lists in several folds."""
        return bool((any_over(np.isfinite(self.values), (0, 3)).sum(1) > 1).any())

    def pair(self, system: str, other: str) -> "Pair":
        """Two of the systems side by side, on what both have."""
        for name in (system, other):
            if name not in self.systems:
                raise ValueError(f"system {name!r} is not one of {', '.join(self.systems)}")
        places = [list(self.systems).index(name) for name in (system, other)]
        return Pair.of(self.values[places[0]], self.values[places[1]], self)


@dataclass(frozen=True)
class Pair:
    """Scores of two systems, `(n_units, n_folds, n_seeds)` each, where both have one and NaN elsewhere.

    Attributes:
        units: their names.
        gaps: what was left out to get there.
        members: as in `PairedScores`.
        has_seeds: whether the scores know the seeds that they come from.
    """

    a: Floats
    b: Floats
    units: Sequence[str]
    gaps: "Gaps"
    members: Integers | None = None
    has_seeds: bool = True

    @classmethod
    def of(cls, a: Floats, b: Floats, scores: PairedScores) -> "Pair":
        """Keep what both have, and note what that leaves out."""
        gaps = Gaps.of(np.isfinite(np.stack([a, b])), scores)
        both = np.isfinite(a) & np.isfinite(b)
        defined = any_over(both, (1, 2))
        a, b = (np.where(both, values, np.nan)[defined] for values in (a, b))
        members = None if scores.members is None else scores.members[defined]
        names = [scores.units[unit] for unit in np.flatnonzero(defined).tolist()]
        return cls(a, b, names, gaps, members, list(scores.seeds) != list(NO_TRAININGS))

    @property
    def differences(self) -> Floats:
        """A minus B of each unit `(n_units,)`."""
        found: Floats = per_unit(self.a) - per_unit(self.b)
        return found


@dataclass(frozen=True)
class Gaps:
    """What a comparison leaves out.

    Attributes:
        trainings: those (fold, seed) that one system alone has: (0 or 1: who lacks it, fold, seed).
        units: for either system those that only the other one has a score for, in trainings that both have.
        n_apart: units that both have, but in no training together.
        n_lists: further test lists, of units that stay, that one system alone has a score for.
        n_undefined: units for which neither has a score.
    """

    trainings: Sequence[tuple[int, str, str]] = ()
    units: tuple[Sequence[str], Sequence[str]] = ((), ())
    n_apart: int = 0
    n_lists: int = 0
    n_undefined: int = 0

    @classmethod
    def of(cls, found: Mask, scores: PairedScores) -> "Gaps":
        """The gaps between two systems, `found` `(2, n_units, n_folds, n_seeds)`: where they have scores."""
        trained = any_over(found, 1)
        # A training that one side lacks altogether is one gap, not one per unit.
        shared: Mask = found & trained.all(0)
        both: Mask = shared[0] & shared[1]
        defined = any_over(both, (1, 2))
        has_any = any_over(found, (0, 2, 3))
        lacks = ~any_over(shared, (2, 3)) & any_over(shared, (0, 2, 3))
        without = [[scores.units[unit] for unit in np.flatnonzero(row).tolist()] for row in lacks]
        return cls(
            trainings=[
                (who, scores.folds[fold], scores.seeds[seed])
                for who, fold, seed in np.argwhere(trained[::-1] & ~trained).tolist()
            ],
            units=(without[0], without[1]),
            n_apart=int((has_any & ~defined & ~lacks.any(0)).sum()),
            n_lists=int((shared[0] ^ shared[1])[defined].sum()),
            n_undefined=int((~has_any).sum()),
        )


def per_unit(values: Floats) -> Floats:
    """Mean over seeds (last axis), then over folds (the one before), of what is there; NaN where nothing is."""
    return mean_of_known(mean_of_known(values))


def any_over(mask: Mask, axes: int | tuple[int, ...]) -> Mask:
    """Whether any value along the axes is true."""
    found: Mask = np.any(mask, axis=axes)
    return found


def mean_of_known(values: Floats) -> Floats:
    """Mean over the last axis without the NaNs."""
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0.0).sum(-1), known.sum(-1)
    found: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return found
