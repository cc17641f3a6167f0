"""Training, validation and test parts of pictures: random splits that keep near duplicates together."""

import json
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound.texts import derive_seed
from rankbound_study.data.arrow import strings_to_arrow, to_arrow, to_numpy
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.data.folds import OPTIONS_KEY
from rankbound_study.data.images import Faces, read_faces
from rankbound_study.data.instances import SPLITS
from rankbound_study.data.schemas import origin

Path = str | os.PathLike[str]
Integers = npt.NDArray[np.int64]

_BLOCK = 20
"""Number of groups of similar age that are distributed together."""

_MOST_FOLDS = 100


@dataclass(frozen=True)
class Splitting:
    """The way to split: the number of random splits ("folds"), the shares of validation and test, the seed."""

    dataset: str
    folds: int
    validation_share: float
    test_share: float
    seed: int


def fold_images(images: Path, out: Path, splitting: Splitting) -> None:
    """Write the split (train, validation or test) of each face of an images file, in its order, for every fold.

    Each fold is an independent random split: the test parts of two folds overlap. Raises ConfigError for invalid shares
    or folds, DataError if a part would be empty.
    """
    _check(splitting)
    faces = read_faces(images)
    tables = []
    for fold in range(1, splitting.folds + 1):
        part = split_groups(faces.groups, faces.ages, fold, splitting)
        check_no_shared_groups(faces, part, f"{images}, fold {fold}")
        for index, split in enumerate(SPLITS):
            if not (part == index).any():
                raise DataError(f"{images}: {len(faces)} faces leave the {split} part of fold {fold} empty")
        tables.append(_fold_table(faces, fold, part))
    options = {key: getattr(splitting, key) for key in ("folds", "seed", "test_share", "validation_share")}
    notes = {**origin(faces.metadata), OPTIONS_KEY: json.dumps(options, sort_keys=True)}
    write_table(pa.concat_tables(tables), out, "image-folds", [len(faces)] * splitting.folds, notes)


def read_image_folds(path: Path, faces: Faces) -> dict[int, Integers]:
    """Read the part (0 train, 1 validation, 2 test) of each face by fold, from a file that `fold_images` wrote.

    Raises DataError if the faces differ from `faces`, or if near duplicates are in two parts.
    """
    table = read_table(path, "image-folds")
    fold = to_numpy(table.column("fold"))
    names, splits = table.column("face").to_pylist(), np.array(table.column("split").to_pylist(), dtype=str)
    parts: dict[int, Integers] = {}
    for number in np.unique(fold).tolist():
        rows = np.flatnonzero(fold == number)
        if [names[row] for row in rows] != list(faces.names):
            raise DataError(f"{path}, fold {number}: its faces are not those of the images file; make the folds anew")
        unknown = sorted(set(splits[rows].tolist()) - set(SPLITS))
        if unknown:
            raise DataError(f"{path}: column 'split' holds {unknown[0]!r}; expected one of {', '.join(SPLITS)}")
        parts[number] = np.select([splits[rows] == split for split in SPLITS], range(len(SPLITS)))
        check_no_shared_groups(faces, parts[number], f"{path}, fold {number}")
    return parts


def split_groups(
    groups: npt.NDArray[np.int32], ages: npt.NDArray[np.int8], fold: int, splitting: Splitting
) -> Integers:
    """Return the part (0 train, 1 validation, 2 test) of each face, stratified by age, whole groups together.

    The groups, ordered by the age of their first face (ties in random order), are cut into blocks of 20. From each
    block, random groups go to each part in proportion to the shares.
    """
    random = np.random.default_rng(derive_seed("image-split", splitting.dataset, splitting.seed, fold))
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    order = np.lexsort((random.random(len(first)), ages[first]))
    block = np.arange(len(order)) // _BLOCK
    shuffled = order[np.lexsort((random.random(len(order)), block))]
    # One offset for all blocks, so that the last, shorter block favours no part on average.
    place = (np.arange(len(order)) % _BLOCK + random.random()) / _BLOCK
    train_share = 1 - splitting.validation_share - splitting.test_share
    part_of_group = np.empty(len(order), dtype=np.int64)
    part_of_group[shuffled] = np.digitize(place, [train_share, train_share + splitting.validation_share])
    part: Integers = part_of_group[group]
    return part


def check_no_shared_groups(faces: Faces, part: Integers, where: str) -> None:
    """Raise DataError, naming two faces, if pictures of one group are in different parts."""
    _, group = np.unique(faces.groups, return_inverse=True)
    lowest = np.full(group.max(initial=-1) + 1, len(SPLITS))
    np.minimum.at(lowest, group, part)
    stray = np.flatnonzero(part != lowest[group])
    if len(stray):
        one = int(stray[0])
        other = int(np.flatnonzero((group == group[one]) & (part == lowest[group[one]]))[0])
        raise DataError(
            f"{where}: {faces.names[other]} is in {SPLITS[part[other]]} and {faces.names[one]} in {SPLITS[part[one]]}, "
            f"but they are near duplicates (group {faces.groups[one]}): make the folds anew"
        )


def _check(splitting: Splitting) -> None:
    if not 1 <= splitting.folds <= _MOST_FOLDS:
        raise ConfigError(f"folds is {splitting.folds}, expected 1 .. {_MOST_FOLDS}")
    shares = (splitting.validation_share, splitting.test_share)
    if min(shares) <= 0 or sum(shares) >= 1:
        raise ConfigError(
            f"validation_share and test_share are {shares[0]} and {shares[1]}: expected above 0, sum below 1"
        )


def _fold_table(faces: Faces, fold: int, part: Integers) -> pa.Table:
    return pa.table(
        {
            "fold": to_arrow(np.full(len(faces), fold, dtype=np.int8)),
            "split": strings_to_arrow([SPLITS[index] for index in part.tolist()]),
            "face": strings_to_arrow(faces.names),
        }
    )
