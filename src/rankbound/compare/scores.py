"""Designs: the scores of several systems on the same units, over folds and seeds, and tables of them.

A *unit* is an independent draw from the population: a topic, a user, a query. A *training* is a seed in a fold. Every
design reduces a unit to one number per system:

- seeds are averaged within each test list first, then the lists of a unit over its folds;
- topics nested in folds (MQ2008) are in the test split of one fold, users crossed with folds (MovieLens) in those of
  all; in both designs a unit is resampled with all its lists;
- folds that are drawn several times are as many folds, which know their drawing;
- pairs that share members (faces) are not independent; `members` identifies the members of each pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.io.judged import repeated
from rankbound.lazy import pl

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NO_TRAININGS = ("",)
"""The folds, or seeds, of scores without folds, or seeds."""

SYSTEM = "system"
TRAINING = ("fold", "seed")
"""Columns of tables with a row per system, topic, fold and seed, such as the runs table."""

DRAWING = "drawing"
"""Column of tables whose folds are drawn several times: with it, a fold is one of a drawing."""

_UNTRAINED = "none"
"""The loss of controls."""


@dataclass(frozen=True)
class PairedScores:
    """Scores of systems on the same units.

    Attributes:
        systems, units, folds, seeds: distinct names.
        values: `(n_systems, n_units, n_folds, n_seeds)`, NaN where there is no score.
        members: `(n_units, 2)`, numbers that identify the two members of each unit, if units are pairs.
        drawings: `(n_folds,)`, numbers that identify the drawing of each fold, if they are drawn several times.
        metric: the name of the metric, if it is known.

    Raises:
        ValueError: the shapes do not match the names, a name occurs twice, or a score is infinite.
    """

    systems: Sequence[str]
    units: Sequence[str]
    values: Floats
    folds: Sequence[str] = NO_TRAININGS
    seeds: Sequence[str] = NO_TRAININGS
    members: Integers | None = None
    drawings: Integers | None = None
    metric: str = ""

    def __post_init__(self) -> None:
        expected = (len(self.systems), len(self.units), len(self.folds), len(self.seeds))
        if self.values.shape != expected:
            raise ValueError(f"values: found shape {self.values.shape}, expected {expected}: systems, units, ...")
        for what in ("systems", "units", "folds", "seeds"):
            if (twice := repeated(getattr(self, what))) is not None:
                raise ValueError(f"{what}: found {twice!r} twice, expected distinct names")
        if np.isinf(self.values).any():
            raise ValueError("values: found inf, expected numbers, or NaN where a score is undefined")
        if self.members is not None and self.members.shape != (len(self.units), 2):
            raise ValueError(f"members: found shape {self.members.shape}, expected {(len(self.units), 2)}")
        if self.drawings is not None and self.drawings.shape != (len(self.folds),):
            raise ValueError(f"drawings: found shape {self.drawings.shape}, expected {(len(self.folds),)}")

    @classmethod
    def of_matrix(
        cls, matrix: Any, systems: Sequence[str], units: Sequence[str] | None = None, members: Integers | None = None
    ) -> "PairedScores":
        """Return the scores of a matrix `(n_units, n_systems)`: one run per system, without folds and seeds."""
        values = np.asarray(matrix, dtype=np.float64)
        names = [str(place) for place in range(len(values))] if units is None else units
        return cls(systems, names, values.T[:, :, None, None], members=members)

    @property
    def matrix(self) -> Floats:
        """Scores `(n_units, n_systems)` averaged over seeds and folds; NaN if undefined."""
        return per_unit(self.values).T

    def pair(self, system: str, other: str) -> "Pair":
        """Return two systems' scores on the units and trainings that both have; ValueError for an unknown system."""
        for name in (system, other):
            if name not in self.systems:
                raise ValueError(f"system {name!r} is not one of {', '.join(self.systems)}")
        values = self.values[[list(self.systems).index(name) for name in (system, other)]]
        scored = np.isfinite(values)
        trained, has_any = any_over(scored, 1), any_over(scored, (0, 2, 3))
        both: Mask = scored[0] & scored[1]
        # A training that one side lacks altogether is one gap, not one per unit.
        shared: Mask = scored & trained.all(0)
        defined = any_over(both, (1, 2))
        lacks = ~any_over(shared, (2, 3)) & any_over(shared, (0, 2, 3))
        units, first, second = (list(compress(self.units, chosen)) for chosen in (defined, *lacks))
        gaps = Gaps(
            trainings=[
                (side, self.folds[fold], self.seeds[seed])
                for side, fold, seed in np.argwhere(trained[::-1] & ~trained).tolist()
            ],
            units=(first, second),
            n_apart=int((has_any & ~defined & ~lacks.any(0)).sum()),
            n_lists=int((shared[0] ^ shared[1])[defined].sum()),
            n_undefined=int((~has_any).sum()),
        )
        members = None if self.members is None else self.members[defined]
        a, b = np.where(both, values, np.nan)[:, defined]
        has_seeds = list(self.seeds) != list(NO_TRAININGS)
        return Pair(a, b, units, gaps, members, has_seeds, self.drawings, self.metric)


@dataclass(frozen=True)
class Pair:
    """Scores of two systems, `(n_units, n_folds, n_seeds)` each; NaN unless both have a score.

    Attributes:
        units: the units' names.
        gaps: the scores left out because one system lacks them.
        members, drawings, metric: as in `PairedScores`.
        has_seeds: False if the scores come without seeds.
    """

    a: Floats
    b: Floats
    units: Sequence[str]
    gaps: "Gaps"
    members: Integers | None = None
    has_seeds: bool = True
    drawings: Integers | None = None
    metric: str = ""

    @property
    def differences(self) -> Floats:
        """A minus B for each unit `(n_units,)`."""
        differences: Floats = per_unit(self.a) - per_unit(self.b)
        return differences


@dataclass(frozen=True)
class Gaps:
    """The scores that a comparison leaves out.

    Attributes:
        trainings: trainings that only one system has, as (index of the system that lacks it, fold, seed).
        units: for each system, the units that only the other one has a score for, in trainings that both have.
        n_apart: number of units with scores of both systems, but in no common training.
        n_lists: number of other test lists, of units that are kept, with a score of only one system.
        n_undefined: number of units without a score of either system.
    """

    trainings: Sequence[tuple[int, str, str]] = ()
    units: tuple[Sequence[str], Sequence[str]] = ((), ())
    n_apart: int = 0
    n_lists: int = 0
    n_undefined: int = 0


def scores_of_frame(frame: "pl.DataFrame", metric: str, *, members: bool = False) -> PairedScores:
    """Return the scores of rows with the columns `system`, `topic`, the metric and, if known, `fold` and `seed`.

    With a column `drawing` of several values, a fold of each drawing is a fold of its own. Null and NaN are undefined
    scores. Controls (loss `none`) are not trained: their single run is paired with every seed of the others. With
    `members`, topics name the two members of a pair (`face1 face2`).

    Raises:
        DataError: a system has a topic twice in one training; the message names the columns in which the rows differ.
    """
    drawings: Integers | None = None
    if DRAWING in frame.columns and frame[DRAWING].n_unique() > 1:
        frame = frame.with_columns(fold=pl.format("{} of drawing {}", "fold", DRAWING))
        drawings = frame.select("fold", DRAWING).unique().sort("fold")[DRAWING].to_numpy().astype(np.int64)
    key = [SYSTEM, "topic", *(name for name in TRAINING if name in frame.columns)]
    twice = frame.filter(frame.select(key).is_duplicated())
    if not twice.is_empty():
        first = twice.select(key).row(0, named=True)
        same = twice.filter(**first)
        texts = [name for name in same.columns if name not in key and not same[name].dtype.is_float()]
        differing = {name: same[name].unique().sort().to_list() for name in texts if same[name].n_unique() > 1}
        what = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in differing.items())
        raise DataError(
            f"{', '.join(f'{name} {value}' for name, value in first.items())}: found {len(same)} scores, expected one; "
            + (f"the rows differ in {what}: choose one" if what else "the rows differ only in their scores")
        )
    axes: dict[str, Sequence[str]] = dict.fromkeys((SYSTEM, "topic", *TRAINING), NO_TRAININGS)
    places: dict[str, Any] = dict.fromkeys(axes, 0)
    for name in key:
        distinct = frame[name].unique().sort()
        axes[name] = distinct.cast(str).to_list()
        places[name] = frame[name].replace_strict(distinct, np.arange(len(distinct))).to_numpy()
    systems, units, folds, seeds = axes.values()
    values: Floats = np.full([len(names) for names in axes.values()], np.nan)
    values[tuple(places.values())] = frame[metric].cast(float).fill_null(float("nan")).to_numpy()
    if "loss" in frame.columns:
        untrained = set(frame[SYSTEM].filter(frame["loss"] == _UNTRAINED))
        for scores in (values[place] for place, name in enumerate(systems) if name in untrained):
            scored = np.isfinite(scores).any((0, 1))
            if scored.sum() == 1:
                scores[:] = scores[:, :, scored]
    pairs = np.unique([unit.split(" ") for unit in units], return_inverse=True)[1].reshape(-1, 2) if members else None
    of_pairs = None if pairs is None else pairs.astype(np.int64)
    return PairedScores(systems, units, values, folds, seeds, of_pairs, drawings, metric)


def per_unit(values: Floats) -> Floats:
    """Return the mean over seeds (last axis), then over folds (the axis before), ignoring NaNs; NaN without scores."""
    return mean_of_known(mean_of_known(values))


def any_over(mask: Mask, axes: int | tuple[int, ...]) -> Mask:
    """Return True where any value along the axes is true."""
    reduced: Mask = np.any(mask, axis=axes)
    return reduced


def mean_of_known(values: Floats) -> Floats:
    """Return the mean over the last axis, ignoring NaNs; NaN without values."""
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0.0).sum(-1), known.sum(-1)
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means
