"""The folds of data: which ratings, judged lists or pictures train, validate and test in each of them.

Ratings are cut at random, by the files of each fold, or by time; judged lists by the files of each fold or by parts
that take turns; pictures at random, near duplicates together.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound.texts import derive_seed, quantity
from rankbound_study.config.sections.description import FEWEST_PARTS
from rankbound_study.data.contracts import (
    FOLDS,
    OPTIONS_KEY,
    PARTS_KEY,
    SPLITS,
    TOPICS_KEY,
    origin,
    read_metadata,
    read_table,
    strings_to_arrow,
    to_arrow,
    to_numpy,
    with_key,
    write_table,
)
from rankbound_study.data.images import Faces, read_faces

FEWEST_TO_CUT = 2  # relevant training items of a user of whom one is held out for validation
_BLOCK = 20  # number of groups of similar age that are distributed together
_MOST_FOLDS = 100

Indices = npt.NDArray[np.int64]
Topics = npt.NDArray[np.int32]
Path = str | os.PathLike[str]


def split_ratings(
    interactions: Path,
    out: Path,
    dataset: str,
    *,
    threshold: float,
    min_relevant: int,
    seed: int,
    folds: Sequence[Mapping[str, Sequence[str]]] = (),
    by_time: Mapping[str, Any] | None = None,
    validation_share: float = 0.1,
    repeats: int = 1,
) -> list[str]:
    """Write the relevant pairs of every fold (and split) of an interactions file; return notes for the user.

    Without files of folds or times, each user's items are cut into five parts at random: each pair has a row with the
    fold 1 .. 5 that tests on it (`split_relevant`) and, with `repeats`, rows with its folds 6 .. 10, 11 .. 15, ....
    Otherwise the file has a row for each pair in a split of a fold. Users without relevant training items are left out
    of a fold, since nothing is known of them; where validation items are drawn from training items, these must be two.

    Args:
        interactions, out: the files.
        dataset: the data set's name, on which what is drawn depends.
        threshold: the smallest relevant rating.
        min_relevant: the smallest number of relevant items of a user, in all files together.
        seed: of what is drawn.
        folds: the files of each fold by split.
        by_time: the keys `cut` and `test_share` of a split by time.
        validation_share: with `by_time`, the share of each user's training items that validate.
        repeats: without files of folds or times, the number of times that items are cut into folds.
    """
    table = read_table(interactions, "interactions")
    topic, item, rating = (table.column(name).to_numpy() for name in ("topic", "item", "rating"))
    relevant = rating >= threshold
    # A pair in several files counts once.
    _, first = np.unique((topic.astype(np.int64) << 32) + item, return_index=True)
    users, counts = np.unique(topic[first][relevant[first]], return_counts=True)
    if not (counts >= min_relevant).any():
        most = f"the most that a user has are {counts.max()}" if len(counts) else f"the highest is {rating.max():g}"
        raise DataError(
            f"{interactions}: no user has {min_relevant} ratings of at least {threshold:g}; {most}: lower the "
            "threshold of a relevant rating, or min_relevant (5 at least)"
        )
    relevant &= np.isin(topic, users[counts >= min_relevant])
    metadata = read_metadata(interactions, "interactions")
    options: dict[str, Any] = {"dataset": dataset, "threshold": threshold, "min_relevant": min_relevant, "seed": seed}
    tables, notes, chosen = [], [], list[dict[str, Indices]]()
    if folds:
        files = _rows_of_files(metadata)
        for number, named in enumerate(folds, start=1):
            rows_of = _named(files, named, number, "ratings", interactions)
            chosen.append({split: rows[relevant[rows]] for split, rows in rows_of.items()})
    elif by_time:
        options |= {"by_time": dict(by_time), "validation_share": validation_share}
        random = np.random.default_rng(derive_seed("by time", dataset, seed))
        times = table.column("timestamp").to_numpy()
        chosen.append(_by_time(topic, times, np.flatnonzero(relevant), random, validation_share, **by_time))
    else:
        for repeat in range(repeats):
            fold = split_relevant(topic[relevant], dataset, seed, repeat)
            tables.append(pa.table({"topic": topic[relevant], "item": item[relevant], "fold": fold}))
    for number, splits in enumerate(chosen, start=1):
        users, counts = np.unique(topic[splits["train"]], return_counts=True)
        known = users[counts >= (1 if "validation" in splits else FEWEST_TO_CUT)]
        with_training = {split: np.sort(rows[np.isin(topic[rows], known)]) for split, rows in splits.items()}
        if not all(len(with_training[split]) for split in ("train", "test")):
            raise DataError(f"{interactions}: fold {number} has no user with relevant items in both train and test")
        if left_out := len(np.unique(topic[np.concatenate(list(splits.values()))])) - len(known):
            notes.append(f"fold {number}: users without enough relevant training items, who are left out: {left_out}")
        for split in filter(with_training.__contains__, SPLITS):
            rows = to_arrow(with_training[split])
            pairs = {name: table.column(name).take(rows) for name in ("topic", "item")}
            tables.append(with_key({"fold": number, "split": split}, pairs, "interaction-splits", len(rows)))
    kept_notes = {**origin(metadata), OPTIONS_KEY: json.dumps(options, sort_keys=True)}
    contract = "interaction-splits" if chosen else "interaction-folds"
    write_table(pa.concat_tables(tables), out, contract, metadata=kept_notes)
    return notes


def split_relevant(topic: Topics, dataset: str, seed: int, repeat: int = 0) -> npt.NDArray[np.int8]:
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


def _by_time(
    topic: Topics,
    time: Indices,
    rows: Indices,
    random: np.random.Generator,
    validation_share: float,
    cut: str,
    test_share: float,
) -> dict[str, Indices]:
    """Return the relevant rows of the splits: the latest for testing, of the others the latest for validation."""
    # Ties in time are in random order: by item, they would favour what was numbered first.
    rows = rows[random.permutation(len(rows))]
    rows = rows[np.lexsort((time[rows], topic[rows]))]
    chosen = {}
    for split, share in {"test": test_share, "validation": validation_share}.items():
        if split == "test" or (share and len(rows)):
            if cut == "user":
                # The last rows of each user, one at least.
                _, starts, counts = np.unique(topic[rows], return_index=True, return_counts=True)
                first = counts - np.maximum(1, np.round(share * counts)).astype(np.int64)
                held_out = np.arange(len(rows)) >= np.repeat(starts + first, counts)
            else:
                # All rows from the moment on after which the share of them lies; rows of one moment stay together.
                held_out = time[rows] >= np.sort(time[rows])[len(rows) - max(1, round(share * len(rows)))]
            chosen[split], rows = rows[held_out], rows[~held_out]
    return {"train": rows, **chosen}


def split_lists(
    lists: Path,
    out: Path,
    dataset: str,
    *,
    folds: Sequence[Mapping[str, Sequence[str]]] = (),
    random_parts: int = 0,
    validation_share: float = 0.2,
    seed: int = 0,
) -> None:
    """Write the lists of every fold and split of a judged-lists file, by their rows in it.

    Of parts 1 .. n, fold k tests on part k - 1, validates on part k - 2 and trains on the others, in order from k on,
    cyclically, as LETOR's Fold1 .. Fold5.

    Args:
        lists, out: the files.
        dataset: the data set's name, on which what is drawn depends.
        folds: the files of each fold by split; none if the files are parts that take turns.
        random_parts: the number of parts to which topics are dealt at random instead of by file; 0 for none.
        validation_share: share of the training topics for validation, in folds without files for it.
        seed: of random parts and validation topics.

    Raises:
        DataError: files whose lists are not noted in `lists`, and topics in two splits of a fold.
    """
    metadata = read_metadata(lists, "lists")
    topics = read_table(lists, "lists", ["topic"]).column("topic").to_pylist()
    if PARTS_KEY not in metadata:
        raise DataError(f"{lists}: the metadata key {PARTS_KEY!r} is missing, which has the lists of each file")
    files = _rows_of_files(metadata)
    used = len(np.unique(np.concatenate(list(files.values()))))
    if used != len(topics):
        raise DataError(f"{lists}: {PARTS_KEY} counts {used} lists, but there are {len(topics)}")
    every: list[dict[str, Indices]] = []
    for fold, of_fold in enumerate(folds, start=1):
        chosen = _named(files, of_fold, fold, "lists", lists)
        if "validation" not in chosen:
            given = chosen["train"]
            count = max(1, round(validation_share * len(given)))
            if count >= len(given):
                raise DataError(
                    f"{lists}: fold {fold} trains on {quantity(len(given), 'topic')}, of which {count} would be held "
                    "out for validation, so that none is left to train on: name a file for validation, or add topics"
                )
            random = np.random.default_rng(derive_seed("validation", dataset, fold, seed))
            held_out = np.zeros(len(given), dtype=bool)
            held_out[random.permutation(len(given))[:count]] = True
            chosen |= {"train": given[~held_out], "validation": given[held_out]}
        every.append(chosen)
    if not folds:
        parts = list(files.values())
        if random_parts > len(topics):
            advice = f"set random_parts to {len(topics)} or less"
            if len(topics) < FEWEST_PARTS:
                advice = f"a study needs {FEWEST_PARTS} topics, one each to train, validate and test on"
            raise DataError(
                f"{lists}: it has {quantity(len(topics), 'topic')}, too few for {random_parts} random parts with one "
                f"each: {advice}"
            )
        if random_parts:
            order = np.random.default_rng(derive_seed("parts", dataset, seed)).permutation(len(topics))
            parts = [np.sort(part) for part in np.array_split(order, random_parts)]
        for first in range(len(parts)):
            *train, validation, test = (*parts[first:], *parts[:first])
            every.append({"train": np.sort(np.concatenate(train)), "validation": validation, "test": test})
    tables = []
    for fold, chosen in enumerate(every, start=1):
        where, owners = f"{dataset}, fold {fold}", dict[str, str]()
        for split in SPLITS:
            for topic in (topics[row] for row in chosen[split].tolist()):
                if (other := owners.get(topic, split)) != split:
                    raise DataError(
                        f"{where}: topic {topic!r} is in {other} and in {split}: remove it from one of them"
                    )
                if topic in owners:
                    raise DataError(
                        f"{where}: a topic is in several files of {split}, or twice in one: remove the copies"
                    )
                owners[topic] = split
            rows = {"list": to_arrow(chosen[split].astype(np.int32))}
            tables.append(with_key({"fold": fold, "split": split}, rows, "list-splits", len(chosen[split])))
    notes = {**origin(metadata), TOPICS_KEY: digest_of(topics)}
    write_table(pa.concat_tables(tables), out, "list-splits", metadata=notes)


def digest_of(topics: Sequence[str]) -> str:
    """Return a digest of the topics' names, by which the folds of other lists are told."""
    return hashlib.blake2b("\n".join(topics).encode(), digest_size=16).hexdigest()


def _rows_of_files(metadata: Mapping[str, str]) -> dict[str, Indices]:
    """Return the rows of each file by the metadata `PARTS_KEY`."""
    ranges = json.loads(metadata.get(PARTS_KEY, "{}"))
    return {name: np.concatenate([np.arange(*limits) for limits in [[0, 0], *own]]) for name, own in ranges.items()}


def _named(
    files: Mapping[str, Indices], named: Mapping[str, Sequence[str]], fold: int, what: str, where: Path
) -> dict[str, Indices]:
    """Return the rows of the splits of a fold whose files are named."""
    unknown = next((name for names in named.values() for name in names if name not in files), None)
    if unknown is not None:
        raise DataError(f"{where}: it has no {what} of {unknown!r}, which fold {fold} names; convert the data anew")
    return {split: np.concatenate([files[name] for name in names]) for split, names in named.items()}


def fold_images(
    images: Path, out: Path, dataset: str, *, folds: int, validation_share: float, test_share: float, seed: int
) -> None:
    """Write the split (train, validation or test) of each face of an images file, in its order, for every fold.

    Each of the `folds` is an independent random split by the shares: the test parts of two folds overlap. Raises
    ConfigError for invalid shares or folds, DataError if a part would be empty.
    """
    if not 1 <= folds <= _MOST_FOLDS:
        raise ConfigError(f"folds is {folds}, expected 1 .. {_MOST_FOLDS}")
    if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
        raise ConfigError(
            f"validation_share and test_share are {validation_share} and {test_share}: expected above 0, sum below 1"
        )
    faces = read_faces(images)
    tables = []
    for fold in range(1, folds + 1):
        random = np.random.default_rng(derive_seed("image-split", dataset, seed, fold))
        part = split_groups(faces.groups, faces.ages, validation_share, test_share, random)
        for index, split in enumerate(SPLITS):
            if not (part == index).any():
                raise DataError(f"{images}: {len(faces)} faces leave the {split} part of fold {fold} empty")
        splits = strings_to_arrow([SPLITS[index] for index in part.tolist()])
        columns = {"split": splits, "face": strings_to_arrow(faces.names)}
        tables.append(with_key({"fold": fold}, columns, "image-folds", len(faces)))
    options = {"folds": folds, "seed": seed, "test_share": test_share, "validation_share": validation_share}
    notes = {**origin(faces.metadata), OPTIONS_KEY: json.dumps(options, sort_keys=True)}
    write_table(pa.concat_tables(tables), out, "image-folds", [len(faces)] * folds, notes)


def read_image_folds(path: Path, faces: Faces) -> dict[int, Indices]:
    """Read the part (0 train, 1 validation, 2 test) of each face by fold, from a file that `fold_images` wrote.

    Raises DataError if the faces differ from `faces`, or if near duplicates are in two parts.
    """
    table = read_table(path, "image-folds")
    fold = to_numpy(table.column("fold"))
    names, splits = table.column("face").to_pylist(), np.array(table.column("split").to_pylist(), dtype=str)
    parts: dict[int, Indices] = {}
    for number in np.unique(fold).tolist():
        rows = np.flatnonzero(fold == number)
        if [names[row] for row in rows] != list(faces.names):
            raise DataError(f"{path}, fold {number}: its faces are not those of the images file; make the folds anew")
        unknown = sorted(set(splits[rows].tolist()) - set(SPLITS))
        if unknown:
            raise DataError(f"{path}: column 'split' holds {unknown[0]!r}; expected one of {', '.join(SPLITS)}")
        part = parts[number] = np.select([splits[rows] == split for split in SPLITS], range(len(SPLITS)))
        order = np.lexsort((part, faces.groups))
        differ = (np.diff(faces.groups[order]) == 0) & (np.diff(part[order]) != 0)
        if differ.any():
            one, other = order[int(differ.argmax()) :][:2].tolist()
            raise DataError(
                f"{path}, fold {number}: {faces.names[one]} is in {SPLITS[part[one]]} and {faces.names[other]} in "
                f"{SPLITS[part[other]]}, but they are near duplicates (group {faces.groups[one]}): make the folds anew"
            )
    return parts


def split_groups(
    groups: npt.NDArray[np.int32],
    ages: npt.NDArray[np.int8],
    validation_share: float,
    test_share: float,
    random: np.random.Generator,
) -> Indices:
    """Return the part (0 train, 1 validation, 2 test) of each face, stratified by age, whole groups together.

    The groups, ordered by the age of their first face (ties in random order), are cut into blocks of 20. From each
    block, random groups go to each part in proportion to the shares.
    """
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    order = np.lexsort((random.random(len(first)), ages[first]))
    block = np.arange(len(order)) // _BLOCK
    shuffled = order[np.lexsort((random.random(len(order)), block))]
    # One offset for all blocks, so that the last, shorter block favours no part on average.
    place = (np.arange(len(order)) % _BLOCK + random.random()) / _BLOCK
    train_share = 1 - validation_share - test_share
    part_of_group = np.empty(len(order), dtype=np.int64)
    part_of_group[shuffled] = np.digitize(place, [train_share, train_share + validation_share])
    part: Indices = part_of_group[group]
    return part
