"""Make a file of instances from data and folds: the step `sample`."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.errors import ConfigError, DataError
from rankbound.io.ragged import rows_of_lists
from rankbound_study.data.arrow import list_to_numpy
from rankbound_study.data.contracts import contract_of, read_metadata, read_table
from rankbound_study.data.folds import OPTIONS_KEY
from rankbound_study.data.instances import (
    ITEM_NAMES_KEY,
    SPLITS,
    TOPIC_NAMES_KEY,
    FoldLists,
    lists_table,
    origin_of,
    write_instances,
)
from rankbound_study.data.list_splits import TOPICS_KEY, digest_of
from rankbound_study.data.negatives import Drawing, RelevantPairs, sampled_instances

Path = str | os.PathLike[str]

GRADED = "graded"
"""Suffix of judged lists whose labels are the relevance, without a threshold."""

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
    and the trainer handle them. Raises DataError if the folds do not have the same topics in the same order.
    """
    table = read_table(lists, "lists", ["topic", "relevance"])
    splits = read_table(folds, "list-splits")
    names = table.column("topic").to_pylist()
    if read_metadata(folds, "list-splits").get(TOPICS_KEY) != digest_of(names):
        raise DataError(f"{folds}: its topics are not those of {lists}, in the same order; make the folds anew")
    offsets, labels = list_to_numpy(table.column("relevance"))
    relevance = labels if threshold is None else (labels >= threshold).astype(np.int8)
    made = _judged_lists(_Judged(names, offsets, relevance), splits)
    origin = origin_of(lists, "lists", dataset)
    write_instances(out, dataset, None, made, item_count=len(labels), origin=origin)


def sample_interactions(
    interactions: Path, folds: Path, out: Path, *, drawing: Drawing, checked: dict[str, float]
) -> None:
    """Write instances with sampled negatives; `checked` options must be those that the folds were made with."""
    contract = contract_of(folds, ("interaction-folds", "interaction-splits"))
    made_with = json.loads(read_metadata(folds, contract).get(OPTIONS_KEY, "{}"))
    for key, value in checked.items():
        if made_with.get(key) != value:
            raise DataError(
                f"{folds}: the folds were made with {key} {made_with.get(key)}, but the options have {value}: "
                "make the folds anew"
            )
    ids = np.unique(read_table(interactions, "interactions", ["item"]).column("item").to_numpy())
    metadata = read_metadata(interactions, "interactions")
    item_names = json.loads(metadata[ITEM_NAMES_KEY]) if ITEM_NAMES_KEY in metadata else ids.tolist()
    topic_names = json.loads(metadata[TOPIC_NAMES_KEY]) if TOPIC_NAMES_KEY in metadata else None
    table = read_table(folds, contract).sort_by([("topic", "ascending"), ("item", "ascending")])
    topic, item, fold = (table.column(name).to_numpy() for name in ("topic", "item", "fold"))
    if not len(topic) or not np.isin(item, ids).all():
        raise DataError(f"{folds}: empty, or with items missing from {interactions}; make the folds anew")
    split = _split_places(table.column("split"), folds) if contract == "interaction-splits" else None
    pairs = RelevantPairs(topic, np.searchsorted(ids, item), fold, len(ids), split, topic_names)
    made = sampled_instances(pairs, drawing)
    origin = origin_of(interactions, "interactions", drawing.dataset)
    write_instances(out, drawing.dataset, drawing.nsr, made, item_count=len(ids), item_names=item_names, origin=origin)


def _split_places(column: pa.ChunkedArray, folds: Path) -> npt.NDArray[np.int8]:
    """Return the place in `SPLITS` of each name of a split."""
    places = pc.index_in(column, pa.array(SPLITS))
    if places.null_count:
        raise DataError(f"{folds}: column 'split' has other names than {', '.join(SPLITS)}; make the folds anew")
    numbers: npt.NDArray[np.int8] = places.to_numpy().astype(np.int8)
    return numbers


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
