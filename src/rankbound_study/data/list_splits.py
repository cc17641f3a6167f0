"""The folds of judged lists: which lists train, validate and test in each of them."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.texts import derive_seed, quantity
from rankbound_study.config.sections.description import FEWEST_PARTS
from rankbound_study.data.arrow import repeated, to_arrow
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.data.instances import SPLITS
from rankbound_study.data.schemas import PARTS_KEY, origin

TOPICS_KEY = "rankbound.topics"
"""Metadata of a splits file: a digest of the topics of the lists that it splits."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ListSplitting:
    """How judged lists become folds.

    Attributes:
        dataset: the data set's name, on which what is drawn depends.
        folds: the files of each fold by split; none if the files are parts that take turns.
        random_parts: the number of parts to which topics are dealt at random instead of by file; 0 for none.
        validation_share: share of the training topics for validation, in folds without files for it.
        seed: of random parts and validation topics.
    """

    dataset: str
    folds: Sequence[Mapping[str, Sequence[str]]] = ()
    random_parts: int = 0
    validation_share: float = 0.2
    seed: int = 0


def split_lists(lists: str | os.PathLike[str], out: str | os.PathLike[str], splitting: ListSplitting) -> None:
    """Write the lists of every fold and split of a judged-lists file, by their rows in it.

    Of parts 1 .. n, fold k tests on part k - 1, validates on part k - 2 and trains on the others, in order from k on,
    cyclically, as LETOR's Fold1 .. Fold5. Raises DataError for files whose lists are not noted in `lists`, and for
    topics in two splits of a fold.
    """
    metadata = read_metadata(lists, "lists")
    topics = read_table(lists, "lists", ["topic"]).column("topic").to_pylist()
    if PARTS_KEY not in metadata:
        raise DataError(f"{lists}: the metadata key {PARTS_KEY!r} is missing, which has the lists of each file")
    files = _rows_of_files(json.loads(metadata[PARTS_KEY]), len(topics), str(lists))
    tables = []
    for fold, chosen in enumerate(_folds(files, len(topics), splitting, str(lists)), start=1):
        _check_topics(topics, chosen, f"{splitting.dataset}, fold {fold}")
        tables += [splits_table(fold, split, chosen[split]) for split in SPLITS]
    notes = {**origin(metadata), TOPICS_KEY: digest_of(topics)}
    write_table(pa.concat_tables(tables), out, "list-splits", metadata=notes)


def digest_of(topics: Sequence[str]) -> str:
    """Return a digest of the topics' names, by which the folds of other lists are told."""
    return hashlib.blake2b("\n".join(topics).encode(), digest_size=16).hexdigest()


def _rows_of_files(places: Any, count: int, where: str) -> dict[str, Indices]:
    rows = {
        name: np.concatenate([np.arange(*limits) for limits in [[0, 0], *ranges]]) for name, ranges in places.items()
    }
    used = np.unique(np.concatenate(list(rows.values())))
    if not np.array_equal(used, np.arange(count)):
        raise DataError(f"{where}: {PARTS_KEY} counts {len(used)} lists, but there are {count}")
    return rows


def _folds(
    files: Mapping[str, Indices], count: int, splitting: ListSplitting, where: str
) -> Iterator[dict[str, Indices]]:
    if splitting.folds:
        for fold, named in enumerate(splitting.folds, start=1):
            yield _given(files, named, fold, splitting, where)
        return
    parts = list(files.values())
    if splitting.random_parts:
        if splitting.random_parts > count:
            raise DataError(
                f"{where}: it has {quantity(count, 'topic')}, too few for {splitting.random_parts} random parts with "
                f"one each: {_fewer_parts(count)}"
            )
        random = np.random.default_rng(derive_seed("parts", splitting.dataset, splitting.seed))
        parts = [np.sort(part) for part in np.array_split(random.permutation(count), splitting.random_parts)]
    for first in range(len(parts)):
        *train, validation, test = (*parts[first:], *parts[:first])
        yield {"train": np.sort(np.concatenate(train)), "validation": validation, "test": test}


def _given(
    files: Mapping[str, Indices], named: Mapping[str, Sequence[str]], fold: int, splitting: ListSplitting, where: str
) -> dict[str, Indices]:
    """Return the lists of a fold's files; without files for validation, a share of the training lists."""
    unknown = next((name for names in named.values() for name in names if name not in files), None)
    if unknown is not None:
        raise DataError(f"{where}: it has no lists of {unknown!r}, which fold {fold} names; convert the data anew")
    chosen = {split: np.concatenate([files[name] for name in names]) for split, names in named.items()}
    if "validation" in chosen:
        return chosen
    train = chosen["train"]
    n_held_out = max(1, round(splitting.validation_share * len(train)))
    if n_held_out >= len(train):
        raise DataError(
            f"{where}: fold {fold} trains on {quantity(len(train), 'topic')}, of which {n_held_out} would be held out "
            "for validation, so that none is left to train on: name a file for validation, or add topics"
        )
    random = np.random.default_rng(derive_seed("validation", splitting.dataset, fold, splitting.seed))
    held_out = np.zeros(len(train), dtype=bool)
    held_out[random.permutation(len(train))[:n_held_out]] = True
    return {"train": train[~held_out], "validation": train[held_out], "test": chosen["test"]}


def _fewer_parts(topics: int) -> str:
    """Return what to do about too few topics for the random parts."""
    if topics < FEWEST_PARTS:
        return f"a study needs {FEWEST_PARTS} topics, one each to train, validate and test on"
    return f"set random_parts to {topics} or less"


def _check_topics(topics: Sequence[str], chosen: Mapping[str, Indices], where: str) -> None:
    owners: dict[str, str] = {}
    count = 0
    for split in SPLITS:
        for row in chosen[split].tolist():
            other = owners.setdefault(topics[row], split)
            if other != split:
                raise DataError(
                    f"{where}: topic {topics[row]!r} is in {other} and in {split}: remove it from one of them"
                )
        count += len(chosen[split])
        if len(owners) != count:
            raise DataError(f"{where}: a topic is in several files of {split}, or twice in one: remove the copies")


def splits_table(fold: int, split: str, rows: Indices) -> pa.Table:
    """Return the lists of a split, by their rows in the file of lists."""
    return pa.table(
        {
            "fold": repeated(fold, pa.int8(), len(rows)),
            "split": repeated(split, pa.string(), len(rows)),
            "list": to_arrow(rows.astype(np.int32)),
        }
    )
