"""Chosen lists and their items, in NumPy arrays."""

import numpy as np
import numpy.typing as npt

from rankbound.texts import derive_seed

FEWEST_FOLDS = 2

Indices = npt.NDArray[np.int64]


def rows_of_lists(offsets: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """Return the rows of the chosen lists' items, one list after another, and the limits of these lists."""
    sizes = np.diff(offsets)[chosen]
    limits = np.append(0, np.cumsum(sizes))
    return np.repeat(np.asarray(offsets)[chosen] - limits[:-1], sizes) + np.arange(limits[-1]), limits


def dealt_lists(count: int, folds: int, seed: int) -> list[Indices]:
    """Return the lists of each fold, ascending, dealt at random; raise `ValueError` for too few or too many folds."""
    if not FEWEST_FOLDS <= folds <= count:
        raise ValueError(f"folds: found {folds}, expected {FEWEST_FOLDS} to {count}, the number of topics")
    shuffled = np.random.default_rng(derive_seed("folds", seed)).permutation(count)
    return [np.sort(part) for part in np.array_split(shuffled, folds)]
