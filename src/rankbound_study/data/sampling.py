"""Make a file of instances from data and folds: the step `sample`."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.errors import ConfigError, DataError
from rankbound.io.ragged import rows_of_lists
from rankbound.texts import quantity
from rankbound_study.config.samplings import OWN, sampled_name
from rankbound_study.data.arrow import list_to_numpy, to_arrow
from rankbound_study.data.contracts import contract_of, read_metadata, read_table
from rankbound_study.data.draws import Drawing, Ratings, RelevantPairs
from rankbound_study.data.folds import OPTIONS_KEY
from rankbound_study.data.instances import (
    ITEM_NAMES_KEY,
    REPEATS_KEY,
    SPLITS,
    TOPIC_NAMES_KEY,
    FoldLists,
    lists_table,
    origin_of,
    write_instances,
)
from rankbound_study.data.list_splits import TOPICS_KEY, digest_of
from rankbound_study.data.negatives import sampled_instances
from rankbound_study.data.schemas import PARTS_KEY

Path = str | os.PathLike[str]

GRADED = "graded"
"""Suffix of judged lists whose labels are the relevance, without a threshold."""

LARGEST_GRADE = 108
"""The largest label that is read as a grade: sums of larger gains 2^y - 1 may exceed single precision."""

_READING = re.compile(rf"(.+)-(label\d+|{GRADED})")


def label_dataset(name: str, threshold: int | None) -> str:
    """Return the name of judged lists with that threshold: `mq2008-label2` for `mq2008` or for itself.

    Each threshold makes another data set, and so do the labels themselves (None): `mslr-web10k-graded`. Raises
    ConfigError if the name implies another reading.
    """
    match = _READING.fullmatch(name)
    base, given = match.groups() if match else (name, None)
    reading = GRADED if threshold is None else f"label{threshold}"
    if given not in (None, reading):
        raise ConfigError(f"the data set is named {name!r}, but its labels are read as {reading}")
    return f"{base}-{reading}"


def sample_lists(lists: Path, folds: Path, out: Path, *, dataset: str, threshold: int | None) -> None:
    """Write whole judged lists, relevant from `threshold` on; without one, the labels are the relevance.

    `dataset` is the name in the file; items are row indices of `lists`. Lists without relevant items are kept; metrics
    and the trainer handle them. Raises DataError if the folds do not have the same topics in the same order, or if no
    list, or none of a fold's training part, has items of different relevance.
    """
    table = read_table(lists, "lists", ["topic", "relevance"])
    splits = read_table(folds, "list-splits")
    names = table.column("topic").to_pylist()
    if read_metadata(folds, "list-splits").get(TOPICS_KEY) != digest_of(names):
        raise DataError(f"{folds}: its topics are not those of {lists}, in the same order; make the folds anew")
    offsets, labels = list_to_numpy(table.column("relevance"))
    relevance = labels if threshold is None else (labels >= threshold).astype(np.int8)
    _require_informative(offsets, labels, relevance, threshold, str(lists))
    if threshold is None and labels.max() > LARGEST_GRADE:
        raise DataError(
            f"{lists}: the labels are {labels.min()} .. {labels.max()}, grades at most {LARGEST_GRADE}, because "
            "their gain is 2^y - 1: set a threshold of relevant labels, or write fewer grades"
        )
    made = _trainable(_judged_lists(_Judged(names, offsets, relevance), splits), str(lists))
    origin = origin_of(lists, "lists", dataset)
    write_instances(out, dataset, None, made, item_count=len(labels), origin=origin)


def sample_interactions(
    interactions: Path, folds: Path, out: Path, *, drawing: Drawing, checked: dict[str, float]
) -> dict[str, int]:
    """Write instances with sampled negatives; `checked` options must be those that the folds were made with.

    Returns:
        The numbers of `users` and `lists` that were left out because they have no irrelevant item (ratio 0 alone).
    """
    contract = contract_of(folds, ("interaction-folds", "interaction-splits"))
    made_with = json.loads(read_metadata(folds, contract).get(OPTIONS_KEY, "{}"))
    for key, value in checked.items():
        if made_with.get(key) != value:
            raise DataError(
                f"{folds}: the folds were made with {key} {made_with.get(key)}, but the options have {value}: "
                "make the folds anew"
            )
    ids, ratings = _read_ratings(interactions)
    metadata = read_metadata(interactions, "interactions")
    item_names = json.loads(metadata[ITEM_NAMES_KEY]) if ITEM_NAMES_KEY in metadata else ids.tolist()
    topic_names = json.loads(metadata[TOPIC_NAMES_KEY]) if TOPIC_NAMES_KEY in metadata else None
    table = read_table(folds, contract).sort_by([("topic", "ascending"), ("item", "ascending")])
    topic, item, fold = (table.column(name).to_numpy() for name in ("topic", "item", "fold"))
    if not len(topic) or not np.isin(item, ids).all():
        raise DataError(f"{folds}: empty, or with items missing from {interactions}; make the folds anew")
    split = _split_places(table.column("split"), folds) if contract == "interaction-splits" else None
    pairs = RelevantPairs(topic, np.searchsorted(ids, item), fold, len(ids), split, topic_names, ratings)
    left_out: dict[str, int] = {}
    if drawing.nsr == OWN:
        pairs = _with_own_negatives(pairs, drawing.dataset, left_out)
    made = sampled_instances(pairs, drawing)
    parts = _with_both_kinds(made, left_out) if drawing.nsr == OWN else made
    name, nsr = sampled_name(drawing.dataset, drawing.sampling, drawing.nsr)
    origin = origin_of(interactions, "interactions", drawing.dataset)
    origin |= {REPEATS_KEY: str(pairs.repeats)} if pairs.repeats > 1 else {}
    write_instances(out, name, nsr, parts, item_count=len(ids), item_names=item_names, origin=origin, left_out=left_out)
    return left_out


def _split_places(column: pa.ChunkedArray, folds: Path) -> npt.NDArray[np.int8]:
    """Return the place in `SPLITS` of each name of a split."""
    places = pc.index_in(column, pa.array(SPLITS))
    if places.null_count:
        raise DataError(f"{folds}: column 'split' has other names than {', '.join(SPLITS)}; make the folds anew")
    numbers: npt.NDArray[np.int8] = places.to_numpy().astype(np.int8)
    return numbers


def _read_ratings(interactions: Path) -> tuple[npt.NDArray[np.int32], Ratings]:
    """Return the ids of all rated items, ascending, and all ratings, of which files of folds may repeat some."""
    table = read_table(interactions, "interactions", ["topic", "item"])
    topic, item = (table.column(name).to_numpy() for name in ("topic", "item"))
    if PARTS_KEY in read_metadata(interactions, "interactions"):
        pairs = np.unique((topic.astype(np.int64) << 32) + item)
        topic, item = (pairs >> 32).astype(np.int32), (pairs & (2**32 - 1)).astype(np.int32)
    ids, places = np.unique(item, return_inverse=True)
    order = np.argsort(topic, kind="stable")
    return ids, Ratings(topic[order], places[order])


def _with_own_negatives(pairs: RelevantPairs, dataset: str, left_out: dict[str, int]) -> RelevantPairs:
    """Return the pairs of the users who rated some item that is not relevant; count the others."""
    # A pair may have several rows, one after the other.
    is_new = np.append(True, (np.diff(pairs.topic) != 0) | (np.diff(pairs.item) != 0))
    users, relevant = np.unique(pairs.topic[is_new], return_counts=True)
    rated = np.searchsorted(pairs.ratings.topic, users, "right") - np.searchsorted(pairs.ratings.topic, users)
    kept = users[rated > relevant]
    if not len(kept):
        raise DataError(
            f"{dataset}: no user rated an item below the threshold, so there are no negatives at ratio {OWN}: draw some"
        )
    left_out["users"] = len(users) - len(kept)
    mask = np.isin(pairs.topic, kept)
    split = None if pairs.split is None else pairs.split[mask]
    return replace(pairs, topic=pairs.topic[mask], item=pairs.item[mask], fold=pairs.fold[mask], split=split)


def _with_both_kinds(parts: Iterable[FoldLists], left_out: dict[str, int]) -> Iterator[FoldLists]:
    """Yield the parts without lists that have no irrelevant item; count these."""
    left_out["lists"] = 0
    for fold, split, lists in parts:
        offsets, relevance = list_to_numpy(lists.column("relevance"))
        irrelevant = np.concatenate(([0], np.cumsum(relevance == 0)))
        kept = np.flatnonzero(irrelevant[offsets[1:]] > irrelevant[offsets[:-1]])
        left_out["lists"] += lists.num_rows - len(kept)
        yield fold, split, lists.take(to_arrow(kept))


def _require_informative(
    offsets: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int8],
    relevance: npt.NDArray[np.int8],
    threshold: int | None,
    where: str,
) -> None:
    """Raise DataError if no list has items of different relevance: nothing could be trained or compared."""
    if _informative(offsets, relevance):
        return
    if (np.diff(offsets) <= 1).all():
        raise DataError(f"{where}: every topic has a single item, so that there is nothing to rank; expected lists")
    reading = "" if threshold is None else f" at the threshold {threshold}"
    raise DataError(
        f"{where}: in no list is an item more relevant than another{reading}; the labels are {labels.min()} .. "
        f"{labels.max()}: check which column or field holds them, and thresholds"
    )


def _informative(offsets: npt.NDArray[Any], relevance: npt.NDArray[np.int8]) -> int:
    """Count the lists with items of different relevance."""
    starts = offsets[:-1][np.diff(offsets) > 0]
    if not len(starts):
        return 0
    relevance = relevance[: offsets[-1]]
    return int((np.minimum.reduceat(relevance, starts) < np.maximum.reduceat(relevance, starts)).sum())


def _trainable(parts: Iterable[FoldLists], where: str) -> Iterator[FoldLists]:
    """Yield the parts; DataError for a training part on which nothing can be trained."""
    for fold, split, lists in parts:
        if split == "train" and not _informative(*list_to_numpy(lists.column("relevance"))):
            raise DataError(
                f"{where}: in none of the {quantity(lists.num_rows, 'training list')} of fold {fold} is an item more "
                "relevant than another, so that nothing can be trained: check the files of the folds, or choose other "
                "thresholds or fewer parts"
            )
        yield fold, split, lists


@dataclass(frozen=True)
class _Judged:
    """All lists of a data set: names of topics, limits of lists, relevance of items."""

    names: list[str]
    offsets: npt.NDArray[np.int64]
    relevance: npt.NDArray[np.int8]


def _judged_lists(judged: _Judged, splits: pa.Table) -> Iterator[FoldLists]:
    fold, split = splits.column("fold").to_numpy(), np.array(splits.column("split").to_pylist(), dtype=str)
    rows = splits.column("list").to_numpy().astype(np.int64)
    for number in np.unique(fold).tolist():
        for wanted in SPLITS:
            chosen = rows[(fold == number) & (split == wanted)]
            items, ends = rows_of_lists(judged.offsets, chosen)
            names = [judged.names[row] for row in chosen.tolist()]
            yield number, wanted, lists_table(names, items, judged.relevance[items], ends)
