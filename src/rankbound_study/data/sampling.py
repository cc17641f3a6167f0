"""Make a file of instances from data and folds: the step `sample`."""

import json
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.arrow import list_to_numpy
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.folds import FOLDS, OPTIONS_KEY
from rankbound_study.data.instances import SPLITS, FoldLists, lists_table, origin_of, write_instances
from rankbound_study.data.negatives import Drawing, RelevantPairs, sampled_instances

Path = str | os.PathLike[str]

GRADED = "graded"
"""Suffix of judged lists whose labels are the relevance, without a threshold."""

_READING = re.compile(rf"(.+)-(label\d+|{GRADED})")
_TRAIN_PARTS = 3


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
    and the trainer handle them. Raises DataError if the folds do not have the same topics in the same order.
    """
    table = read_table(lists, "lists", ["topic", "relevance"])
    parts = read_table(folds, "list-folds")
    names = table.column("topic").to_pylist()
    if parts.column("topic").to_pylist() != names:
        raise DataError(f"{folds}: its topics are not those of {lists}, in the same order; make the folds anew")
    offsets, labels = list_to_numpy(table.column("relevance"))
    relevance = labels if threshold is None else (labels >= threshold).astype(np.int8)
    made = _judged_lists(names, offsets, relevance, parts.column("fold").to_numpy())
    origin = origin_of(lists, "lists", dataset)
    write_instances(out, dataset, None, made, item_count=len(labels), origin=origin)


def split_of_part(fold: int, part: npt.NDArray[np.int8]) -> npt.NDArray[np.str_]:
    """Return the split of each LETOR part in fold k: k, k+1, k+2 train, k+3 validation, k+4 test (cyclic)."""
    names = np.array([*["train"] * _TRAIN_PARTS, "validation", "test"])
    chosen: npt.NDArray[np.str_] = names[(part.astype(np.int64) - fold) % FOLDS]
    return chosen


def sample_interactions(
    interactions: Path, folds: Path, out: Path, *, drawing: Drawing, checked: dict[str, float]
) -> None:
    """Write instances with sampled negatives; `checked` options must be those that the folds were made with."""
    made_with = json.loads(read_metadata(folds, "interaction-folds").get(OPTIONS_KEY, "{}"))
    for key, value in checked.items():
        if made_with.get(key) != value:
            raise DataError(
                f"{folds}: the folds were made with {key} {made_with.get(key)}, but the options have {value}: "
                "make the folds anew"
            )
    ids = np.unique(read_table(interactions, "interactions", ["item"]).column("item").to_numpy())
    table = read_table(folds, "interaction-folds").sort_by([("topic", "ascending"), ("item", "ascending")])
    topic, item, fold = (table.column(name).to_numpy() for name in ("topic", "item", "fold"))
    if not len(topic) or not np.isin(item, ids).all():
        raise DataError(f"{folds}: empty, or with items missing from {interactions}; make the folds anew")
    made = sampled_instances(RelevantPairs(topic, np.searchsorted(ids, item), fold, len(ids)), drawing)
    origin = origin_of(interactions, "interactions", drawing.dataset)
    write_instances(
        out, drawing.dataset, drawing.nsr, made, item_count=len(ids), item_names=ids.tolist(), origin=origin
    )


def _judged_lists(
    names: Sequence[str],
    offsets: npt.NDArray[np.int64],
    relevance: npt.NDArray[np.int8],
    part: npt.NDArray[np.int8],
) -> Iterator[FoldLists]:
    sizes = np.diff(offsets)
    for fold in range(1, FOLDS + 1):
        split = split_of_part(fold, part)
        for wanted in SPLITS:
            is_chosen = split == wanted
            items = np.flatnonzero(np.repeat(is_chosen, sizes))
            chosen = np.flatnonzero(is_chosen).tolist()
            ends = np.append(0, np.cumsum(sizes[is_chosen]))
            yield fold, wanted, lists_table([names[topic] for topic in chosen], items, relevance[items], ends)
