"""Make a file of instances from data and folds: the step `sample`."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound.io.ragged import rows_of_lists
from rankbound_study.data.arrow import list_to_numpy
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.folds import OPTIONS_KEY
from rankbound_study.data.instances import SPLITS, FoldLists, lists_table, origin_of, write_instances
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
