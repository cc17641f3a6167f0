"""Seeds derived from their purpose, so that random draws are reproducible."""

import hashlib
import json

import numpy as np
import numpy.typing as npt

SEED_BITS = 63


def derive_seed(*parts: str | int | float | None) -> int:
    """Return a seed in 0 .. 2**63 - 1 that depends on `parts` alone: the head of the SHA-256 of their JSON text.

    Unlike `hash`, it is the same on every machine and Python version. By convention the purpose comes first, then data
    set, fold and seed: `derive_seed("negatives", "movielens", 1, 0)`.
    """
    text = json.dumps(parts, ensure_ascii=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


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
