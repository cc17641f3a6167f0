"""The folds of ratings: each user's relevant items, cut in five."""

import json
import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.texts import derive_seed
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.data.schemas import origin

FOLDS = 5
OPTIONS_KEY = "rankbound.folds"
"""Metadata of a folds file of interactions: the options it was made with, as sorted JSON."""


def fold_interactions(
    interactions: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    dataset: str,
    threshold: float,
    min_relevant: int,
    seed: int,
    repeats: int = 1,
) -> None:
    """Write the fold 1 .. 5 of each relevant pair of an interactions file, as `split_relevant` assigns it.

    With `repeats`, pairs are split again, into the folds 6 .. 10, 11 .. 15, ...; each pair has a row for each split.
    """
    table = read_table(interactions, "interactions", ["topic", "item", "rating"])
    topic, item, rating = (table.column(name).to_numpy() for name in ("topic", "item", "rating"))
    kept = keep_relevant(topic, rating, threshold, min_relevant)
    if not kept.any():
        raise too_few(interactions, topic, rating, threshold, min_relevant)
    folds = [split_relevant(topic[kept], dataset, seed, repeat) for repeat in range(repeats)]
    options = {"dataset": dataset, "min_relevant": min_relevant, "seed": seed, "threshold": threshold}
    metadata = origin(read_metadata(interactions, "interactions"))
    pairs = {"topic": topic[kept], "item": item[kept]}
    write_table(
        pa.table({**{name: np.tile(ids, repeats) for name, ids in pairs.items()}, "fold": np.concatenate(folds)}),
        out,
        "interaction-folds",
        metadata={**metadata, OPTIONS_KEY: json.dumps(options, sort_keys=True)},
    )


def keep_relevant(
    topic: npt.NDArray[np.int32], rating: npt.NDArray[np.float32], threshold: float, min_relevant: int
) -> npt.NDArray[np.bool_]:
    """Return the rows with a rating of at least `threshold` whose topic has at least `min_relevant` such rows."""
    relevant = rating >= threshold
    topics, index = np.unique(topic, return_inverse=True)
    counts = np.bincount(index[relevant], minlength=len(topics))
    kept: npt.NDArray[np.bool_] = relevant & (counts[index] >= min_relevant)
    return kept


def too_few(
    where: str | os.PathLike[str],
    topic: npt.NDArray[np.int32],
    rating: npt.NDArray[np.float32],
    threshold: float,
    min_relevant: int,
) -> DataError:
    """Return the error of ratings of which no user has enough relevant ones."""
    _, counts = np.unique(topic[rating >= threshold], return_counts=True)
    most = f"the most that a user has are {counts.max()}" if len(counts) else f"the highest is {rating.max():g}"
    return DataError(
        f"{where}: no user has {min_relevant} ratings of at least {threshold:g}; {most}: lower the threshold of a "
        "relevant rating, or min_relevant (5 at least)"
    )


def split_relevant(topic: npt.NDArray[np.int32], dataset: str, seed: int, repeat: int = 0) -> npt.NDArray[np.int8]:
    """Return a fold for each row (rows sorted by topic), stratified by topic: fold sizes differ by at most one.

    The folds are 1 .. 5, those of repeat r 5 r + 1 .. 5 r + 5.

    Each topic's rows are shuffled by a seed of (data set, seed, topic), so a user's folds do not depend on the other
    users. The fold that gets a topic's first surplus row is random as well.
    """
    fold = np.empty(len(topic), dtype=np.int8)
    starts = np.flatnonzero(np.diff(topic, prepend=topic[0] - 1)) if len(topic) else np.empty(0, dtype=np.int64)
    for start, stop in zip(starts, np.append(starts[1:], len(topic)), strict=True):
        again = ("repeat", repeat) if repeat else ()
        random = np.random.default_rng(derive_seed("folds", dataset, seed, int(topic[start]), *again))
        place = random.permutation(stop - start) + random.integers(FOLDS)
        fold[start:stop] = place % FOLDS + 1 + repeat * FOLDS
    return fold
