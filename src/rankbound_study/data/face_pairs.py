"""Pairs of faces, as lists of two items of which the older face is relevant."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound.texts import derive_seed
from rankbound_study.data.image_splits import read_image_folds
from rankbound_study.data.images import Faces, read_faces
from rankbound_study.data.instances import SPLITS, FoldLists, lists_table, origin_of, write_instances

Path = str | os.PathLike[str]
Integers = npt.NDArray[np.int64]

_CHOICES = 8
"""Number of candidate partners: more make the selection more even."""

_ROUNDS_PER_FACE = 8
"""Maximal number of rounds per face."""


@dataclass(frozen=True)
class PairDrawing:
    """The drawing of pairs: pairs per part, the largest age difference that is excluded (years), the seed."""

    dataset: str
    pairs: Mapping[str, int]
    above: int
    seed: int


def sample_pairs(images: Path, folds: Path, out: Path, drawing: PairDrawing) -> None:
    """Write the pairs of every fold and part as instances: topics named by both faces, items rows of `images`.

    Relevance is 1 for the older face and 0 for the younger one. Raises DataError if near duplicates are in two
    parts, or if a part has too few pairs to draw from.
    """
    for split in SPLITS:
        if drawing.pairs[split] < 1:
            raise ConfigError(
                f"{split}_pairs is {drawing.pairs[split]}: expected 1 or more, an empty set trains nothing"
            )
    if drawing.above < 0:
        raise ConfigError(f"above is {drawing.above}: expected 0 years or more")
    origin = origin_of(images, "images", drawing.dataset)
    faces = read_faces(images)
    parts = _parts(faces, read_image_folds(folds, faces), drawing)
    write_instances(out, drawing.dataset, None, parts, item_count=len(faces), item_names=faces.names, origin=origin)


def draw_pairs(
    ages: npt.NDArray[np.int8], groups: npt.NDArray[np.int32], count: int, above: int, random: np.random.Generator
) -> Integers:
    """Draw `count` distinct pairs of faces `(count, 2)` whose ages differ by more than `above` years.

    "Evenly selected" (Li and Wu section 5) is read as: every face about equally often, so that no single person
    dominates and the ages keep their shares. In each round, the faces drawn least often so far get a partner: among
    random faces of sufficient age difference that are neither near duplicates nor already paired with them, the one
    drawn least often. The side of the older face is random.

    Raises DataError if there are fewer than twice as many such pairs.
    """
    partners = Partners(ages, groups, above)
    if partners.n_pairs < 2 * count:
        raise DataError(
            f"{partners.n_pairs} pairs of {len(ages)} faces differ by more than {above} years, but drawing {count} "
            "distinct ones requires twice as many: lower pairs or above, or use more faces"
        )
    drawn = np.empty(0, dtype=np.int64)
    times = np.zeros(len(ages), dtype=np.int64)
    while len(drawn) < count:
        waiting = np.flatnonzero(times < partners.counts)
        least = waiting[np.lexsort((random.random(len(waiting)), times[waiting]))]
        first = least[: min(count - len(drawn), 1 + len(waiting) // _ROUNDS_PER_FACE)]
        second, fits = partners.draw(first, random)
        keys = np.minimum(first[:, None], second) * len(ages) + np.maximum(first[:, None], second)
        fits &= ~np.isin(keys, drawn)
        chosen = np.where(fits, times[second] + random.random(second.shape), np.inf).argmin(1)
        taken = np.flatnonzero(np.take_along_axis(fits, chosen[:, None], 1)[:, 0])
        # No face is chosen twice in a round.
        taken = taken[np.unique(second[taken, chosen[taken]], return_index=True)[1]]
        new = np.unique(keys[taken, chosen[taken]])
        times += np.bincount(np.concatenate(np.divmod(new, len(ages))), minlength=len(ages))
        drawn = np.append(drawn, new)
    pairs = random.permutation(np.stack(np.divmod(drawn, len(ages)), 1))
    sides: Integers = random.permuted(pairs, axis=1)
    return sides


class Partners:
    """The possible partners of each face: ages more than `above` years apart, another group.

    `counts` has the number of partners of each face, `n_pairs` the number of pairs.
    """

    def __init__(self, ages: npt.NDArray[np.int8], groups: npt.NDArray[np.int32], above: int) -> None:
        wide, self._groups = ages.astype(np.int64), groups
        self._by_age = np.argsort(wide, kind="stable")
        ordered = wide[self._by_age]
        self._younger = np.searchsorted(ordered, wide - above, side="left")
        self._not_older = np.searchsorted(ordered, wide + above, side="right")
        self._far = self._younger + len(ages) - self._not_older
        self.counts: Integers = self._far.copy()
        names, sizes = np.unique(groups, return_counts=True)
        for name in names[sizes > 1]:
            own = np.flatnonzero(groups == name)
            self.counts[own] -= (np.abs(wide[own, None] - wide[own]) > above).sum(1)
        self.n_pairs = int(self.counts.sum()) // 2

    def draw(self, faces: Integers, random: np.random.Generator) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Draw faces `(n, 8)` of sufficient age difference for each face, with repeats; flag those of another group."""
        place = random.integers(self._far[faces, None], size=(len(faces), _CHOICES))
        younger, gap = self._younger[faces, None], (self._not_older - self._younger)[faces, None]
        found: Integers = self._by_age[np.where(place < younger, place, place + gap)]
        return found, self._groups[found] != self._groups[faces, None]


def _parts(faces: Faces, part_of_fold: Mapping[int, Integers], drawing: PairDrawing) -> Iterator[FoldLists]:
    for fold, part in part_of_fold.items():
        for index, split in enumerate(SPLITS):
            rows = np.flatnonzero(part == index)
            random = np.random.default_rng(
                derive_seed("face-pairs", drawing.dataset, split, fold, drawing.seed, drawing.above)
            )
            try:
                pairs = draw_pairs(faces.ages[rows], faces.groups[rows], drawing.pairs[split], drawing.above, random)
            except DataError as error:
                raise DataError(f"{drawing.dataset}, fold {fold}, {split}: {error}") from error
            yield fold, split, _as_lists(faces, rows[pairs])


def _as_lists(faces: Faces, pairs: Integers) -> pa.Table:
    older = (faces.ages[pairs] == faces.ages[pairs].max(1, keepdims=True)).astype(np.int8)
    names = [f"{faces.names[first]} {faces.names[second]}" for first, second in pairs.tolist()]
    return lists_table(names, pairs.reshape(-1), older.reshape(-1), 2 * np.arange(len(pairs) + 1))
