"""Make a file of instances from data and folds: the step `sample`."""

import json
import os
import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import read_metadata, read_table, write_table
from rankbound_study.data.folds import OPTIONS_KEY
from rankbound_study.data.instances import Topics, instances_table, judged_instances
from rankbound_study.data.negatives import Drawing, Pairs, sampled_instances
from rankbound_study.data.schemas import DATASET_KEY, SYNTHETIC_KEY

Path = str | os.PathLike[str]
ITEM_COUNT_KEY = "rankbound.item_count"
"""Metadata of an instances file: items are indices 0 .. this number - 1."""

ITEM_NAMES_KEY = "rankbound.item_names"
"""Metadata of sampled instances: JSON list of the item ids by index. (For judged lists: rows of the lists file.)"""

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
    """Write the instances of judged lists, relevant from `threshold` on; without one, the labels are the relevance.

    `dataset` is the name in the file.

    Raises DataError if the folds do not have the same topics in the same order.
    """
    table = read_table(lists, "lists", ["topic", "relevance"]).combine_chunks()
    parts = read_table(folds, "list-folds")
    names = table.column("topic").to_pylist()
    if parts.column("topic").to_pylist() != names:
        raise DataError(f"{folds}: its topics are not those of {lists}, in the same order; make the folds anew")
    labels = _one_chunk(table.column("relevance"))
    offsets = labels.offsets.to_numpy().astype(np.int64)
    relevance, part = labels.flatten().to_numpy(), parts.column("fold").to_numpy()
    instances = judged_instances(names, offsets - offsets[0], relevance, part, threshold)
    _write(out, dataset, None, instances, lists, {ITEM_COUNT_KEY: str(len(relevance))}, "lists")


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
    item_ids = np.unique(read_table(interactions, "interactions", ["item"]).column("item").to_numpy())
    table = read_table(folds, "interaction-folds").sort_by([("topic", "ascending"), ("item", "ascending")])
    topic, item, fold = (table.column(name).to_numpy() for name in ("topic", "item", "fold"))
    if not len(topic) or not np.isin(item, item_ids).all():
        raise DataError(f"{folds}: empty, or with items missing from {interactions}; make the folds anew")
    pairs = Pairs(topic, np.searchsorted(item_ids, item), fold, len(item_ids))
    metadata = {ITEM_COUNT_KEY: str(len(item_ids)), ITEM_NAMES_KEY: json.dumps(item_ids.tolist())}
    instances = sampled_instances(pairs, drawing)
    _write(out, drawing.dataset, drawing.nsr, instances, interactions, metadata, "interactions")


def _write(
    out: Path,
    dataset: str,
    nsr: int | None,
    made: Iterable[tuple[int, str, Topics]],
    source: Path,
    metadata: dict[str, str],
    contract: str,
) -> None:
    inherited = {key: value for key, value in read_metadata(source, contract).items() if key == SYNTHETIC_KEY}
    if inherited and not dataset.startswith("synthetic-"):
        raise ConfigError(f"{source} is synthetic, so its data set cannot be named {dataset!r}: name it synthetic-...")
    table, sizes = instances_table(dataset, nsr, made)
    write_table(table, out, "instances", sizes, {**inherited, **metadata, DATASET_KEY: dataset})


def _one_chunk(column: pa.ChunkedArray) -> pa.ListArray:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
