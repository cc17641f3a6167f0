"""The folds of ratings: cut at random, by the files of each fold, or by time."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.texts import derive_seed
from rankbound_study.data.arrow import repeated, to_arrow
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.data.folds import OPTIONS_KEY, fold_interactions, keep_relevant, too_few
from rankbound_study.data.instances import SPLITS
from rankbound_study.data.schemas import PARTS_KEY, origin

FEWEST_TO_CUT = 2
"""Relevant training items of a user of whom one is held out for validation."""

Indices = npt.NDArray[np.int64]
Path = str | os.PathLike[str]


@dataclass(frozen=True)
class RatingSplitting:
    """How ratings become folds.

    Attributes:
        dataset: the data set's name, on which what is drawn depends.
        threshold: the smallest relevant rating.
        min_relevant: the smallest number of relevant items of a user, in all files together.
        seed: of what is drawn.
        folds: the files of each fold by split.
        by_time: the keys `cut` and `test_share` of a split by time.
        validation_share: with `by_time`, the share of each user's training items that validate.
        repeats: without files of folds or times, the number of times that items are cut into folds.
    """

    dataset: str
    threshold: float
    min_relevant: int
    seed: int
    folds: Sequence[Mapping[str, Sequence[str]]] = ()
    by_time: Mapping[str, Any] = field(default_factory=dict)
    validation_share: float = 0.1
    repeats: int = 1


def split_ratings(interactions: Path, out: Path, splitting: RatingSplitting) -> list[str]:
    """Write the relevant pairs of every fold (and split) of an interactions file; return notes for the user.

    Without files of folds or times, `rankbound_study.data.folds` cuts each user's items into five parts at random.
    Otherwise the file has a row for each pair in a split of a fold. Users without relevant training items are left out
    of a fold, since nothing is known of them; where validation items are drawn from training items, these must be two.
    """
    shared = {key: value for key, value in asdict(splitting).items() if key in ("threshold", "min_relevant", "seed")}
    if not splitting.folds and not splitting.by_time:
        fold_interactions(interactions, out, dataset=splitting.dataset, **shared, repeats=splitting.repeats)
        return []
    table = read_table(interactions, "interactions")
    topic, rating = (table.column(name).to_numpy() for name in ("topic", "rating"))
    relevant = _relevant(topic, table.column("item").to_numpy(), rating, splitting)
    if not relevant.any():
        raise too_few(interactions, topic, rating, splitting.threshold, splitting.min_relevant)
    metadata = read_metadata(interactions, "interactions")
    if splitting.folds:
        ranges = json.loads(metadata.get(PARTS_KEY, "{}"))
        folds = list(_by_file(ranges, relevant, splitting.folds, str(interactions)))
    else:
        time = table.column("timestamp").to_numpy()
        folds = [_by_time(topic, time, np.flatnonzero(relevant), splitting)]
    tables, notes = [], []
    for number, chosen in enumerate(folds, start=1):
        kept, left_out = _with_training(chosen, topic)
        if not all(len(kept[split]) for split in ("train", "test")):
            raise DataError(f"{interactions}: fold {number} has no user with relevant items in both train and test")
        if left_out:
            notes.append(f"fold {number}: users without enough relevant training items, who are left out: {left_out}")
        tables += [_table(number, split, table.take(to_arrow(kept[split]))) for split in SPLITS if split in kept]
    options = {**shared, "dataset": splitting.dataset}
    if splitting.by_time:
        options |= {"by_time": dict(splitting.by_time), "validation_share": splitting.validation_share}
    kept_notes = {**origin(metadata), OPTIONS_KEY: json.dumps(options, sort_keys=True)}
    write_table(pa.concat_tables(tables), out, "interaction-splits", metadata=kept_notes)
    return notes


def _relevant(
    topic: npt.NDArray[np.int32],
    item: npt.NDArray[np.int32],
    rating: npt.NDArray[np.float32],
    splitting: RatingSplitting,
) -> npt.NDArray[np.bool_]:
    """Return the relevant rows of users with enough relevant items; a pair in several files counts once."""
    _, first = np.unique((topic.astype(np.int64) << 32) + item, return_index=True)
    kept = keep_relevant(topic[first], rating[first], splitting.threshold, splitting.min_relevant)
    users: npt.NDArray[np.bool_] = np.isin(topic, np.unique(topic[first][kept]))
    return users & (rating >= splitting.threshold)


def _by_file(
    ranges: Mapping[str, Any],
    relevant: npt.NDArray[np.bool_],
    folds: Sequence[Mapping[str, Sequence[str]]],
    where: str,
) -> Iterator[dict[str, Indices]]:
    for number, named in enumerate(folds, start=1):
        chosen = {}
        for split, names in named.items():
            unknown = next((name for name in names if name not in ranges), None)
            if unknown is not None:
                raise DataError(
                    f"{where}: it has no ratings of {unknown!r}, which fold {number} names; convert the data anew"
                )
            rows = np.concatenate([np.arange(*limits) for name in names for limits in ranges[name]])
            chosen[split] = rows[relevant[rows]]
        yield chosen


def _by_time(
    topic: npt.NDArray[np.int32], time: npt.NDArray[np.int64], rows: Indices, splitting: RatingSplitting
) -> dict[str, Indices]:
    """Return the relevant rows of the splits: the latest for testing, of the others the latest for validation."""
    cut = _user_cut if splitting.by_time["cut"] == "user" else _global_cut
    # Ties in time are in random order: by item, they would favour what was numbered first.
    random = np.random.default_rng(derive_seed("by time", splitting.dataset, splitting.seed))
    rows = rows[random.permutation(len(rows))]
    rows = rows[np.lexsort((time[rows], topic[rows]))]
    held_out = cut(topic[rows], time[rows], splitting.by_time["test_share"])
    chosen = {"test": rows[held_out]}
    rows = rows[~held_out]
    if splitting.validation_share and len(rows):
        held_out = cut(topic[rows], time[rows], splitting.validation_share)
        chosen["validation"], rows = rows[held_out], rows[~held_out]
    return {"train": rows, **chosen}


def _user_cut(topic: npt.NDArray[np.int32], time: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.bool_]:
    """Return the last rows of each user, one at least; rows are sorted by user and time."""
    _, starts, counts = np.unique(topic, return_index=True, return_counts=True)
    held_out = np.maximum(1, np.round(share * counts)).astype(np.int64)
    place = np.arange(len(topic)) - np.repeat(starts, counts)
    cut: npt.NDArray[np.bool_] = place >= np.repeat(counts - held_out, counts)
    return cut


def _global_cut(topic: npt.NDArray[np.int32], time: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.bool_]:
    """Return all rows from the moment on after which the share of them lies; rows of one moment stay together."""
    late = max(1, round(share * len(time)))
    cut: npt.NDArray[np.bool_] = time >= np.sort(time)[len(time) - late]
    return cut


def _with_training(chosen: Mapping[str, Indices], topic: npt.NDArray[np.int32]) -> tuple[dict[str, Indices], int]:
    """Return the splits without the users who have too few training items, and the number of these users."""
    users, counts = np.unique(topic[chosen["train"]], return_counts=True)
    known = users[counts >= (1 if "validation" in chosen else FEWEST_TO_CUT)]
    everyone = np.unique(np.concatenate([topic[rows] for rows in chosen.values()]))
    kept = {split: np.sort(rows[np.isin(topic[rows], known)]) for split, rows in chosen.items()}
    return kept, len(everyone) - len(known)


def _table(fold: int, split: str, pairs: pa.Table) -> pa.Table:
    key = {"fold": repeated(fold, pa.int8(), len(pairs)), "split": repeated(split, pa.string(), len(pairs))}
    return pa.table({**key, "topic": pairs.column("topic"), "item": pairs.column("item")})
