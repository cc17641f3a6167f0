"""Read instances for training, as flat NumPy arrays per fold and split; and score distributions of their lists.

Arrays are views of Arrow's memory where possible.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound_study.config.data_sets import FULL, SampledName
from rankbound_study.data.contracts import (
    ITEM_COUNT_KEY,
    ITEM_NAMES_KEY,
    REPEATS_KEY,
    SPLITS,
    list_to_numpy,
    one_chunk,
    read_metadata,
    read_row_groups,
    read_table,
    to_arrow,
    to_numpy,
    write_table,
)

if TYPE_CHECKING:
    from rankbound.bounds.tables import DistributionTables

Path = str | os.PathLike[str]

SAMPLES_KEY, TILT_KEY = "rankbound.samples", "rankbound.tilt"
"""Metadata of a file of distributions: the number of random orders, and the tilt if it is not 1."""


@dataclass(frozen=True)
class Split:
    """Flat lists: list t has the items `offsets[t]` .. `offsets[t + 1] - 1` and belongs to topic `topics[t]`.

    topics int64 (n_lists,), indices into `FoldedLists.topics`; items int64 (n_items,), indices of items or rows of the
    lists file; relevance int8 (n_items,); offsets int64 (n_lists + 1,).
    """

    topics: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    relevance: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.topics)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size N of each list."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """The topic of each item."""
        return np.repeat(self.topics, self.sizes)

    @property
    def positives(self) -> npt.NDArray[np.int64]:
        """The number P of items with relevance above 0 in each list."""
        return np.diff(self.keep(self.relevance > 0).offsets)

    def slices(self) -> Iterator[tuple[int, slice]]:
        """Yield the topic of each list, and the places of its items."""
        for topic, (start, stop) in zip(self.topics.tolist(), pairwise(self.offsets.tolist()), strict=True):
            yield topic, slice(start, stop)

    def keep(self, mask: npt.NDArray[np.bool_]) -> "Split":
        """Return the lists of the items where `mask` is true; lists may become empty, but none is removed."""
        before = np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))
        return Split(self.topics, self.items[mask], self.relevance[mask], before[self.offsets])


@dataclass(frozen=True)
class FoldedLists:
    """An instances file: `topics` are all names in order of appearance; `splits` is by fold and split's name.

    `item_count` bounds the item indices; `item_names` gives the raw data's id of each index, and is None for judged
    lists, whose names are in the lists file (`read_item_names`). `repeats` is the number of times that the folds were
    drawn: those of the second time follow those of the first, and so on.
    """

    dataset: str
    nsr: int | None
    topics: tuple[str, ...]
    item_count: int
    item_names: tuple[str, ...] | None
    splits: Mapping[tuple[int, str], Split]
    repeats: int = 1

    def drawing(self, seed: int) -> int:
        """Return the drawing of folds and negatives, from 0, in which a training seed trains: seeds take turns."""
        return seed % self.repeats

    def drawn_fold(self, fold: int, seed: int) -> int:
        """Return the number of the fold in which a training seed trains and tests, among those of all drawings."""
        return fold + len(self.folds) // self.repeats * self.drawing(seed)

    @property
    def folds(self) -> tuple[int, ...]:
        """The folds of the file, ascending."""
        return tuple(sorted({fold for fold, _ in self.splits}))

    def split(self, fold: int, name: str) -> Split:
        """Return the lists of one fold and split; DataError if the file has none."""
        if (fold, name) not in self.splits:
            raise DataError(
                f"{self.dataset}: no lists of fold {fold}, split {name!r}; the folds are "
                f"{', '.join(map(str, self.folds))}, the splits {', '.join(SPLITS)}"
            )
        return self.splits[fold, name]

    def pairs(self) -> set[tuple[int, int]]:
        """Return the distinct (N, P) of all lists with P > 0, also with training and validation merged.

        Bounds are of training lists. Those of other parts are left out where they have the whole catalogue: they would
        only add long lists.
        """
        sampling = SampledName.of(self.dataset).sampling
        left_out = {"test"} if sampling.draws else {"validation", "test"}
        own = [one for (_, name), one in self.splits.items() if sampling.test != FULL or name not in left_out]
        merged = [merge(self.split(fold, "train"), self.split(fold, "validation")) for fold in self.folds]
        sizes = (zip(split.sizes.tolist(), split.positives.tolist(), strict=True) for split in (*own, *merged))
        return {(n, p) for n, p in chain.from_iterable(sizes) if p > 0}


def read_instances(path: Path) -> FoldedLists:
    """Read an instances file; DataError if it breaks the contract or contradicts itself."""
    table = read_table(path, "instances")
    metadata = read_metadata(path, "instances")
    if not re.fullmatch(r"[0-9]{1,18}", metadata.get(ITEM_COUNT_KEY, "")):
        raise DataError(f"{path}: the metadata key {ITEM_COUNT_KEY!r} should be the number of items; make it anew")
    item_count, topics = int(metadata[ITEM_COUNT_KEY]), one_chunk(table.column("topic")).dictionary_encode()
    index, splits, start = to_numpy(topics.indices).astype(np.int64), dict[tuple[int, str], Split](), 0
    for (fold, split), rows in groupby(
        zip(*(table.column(name).to_pylist() for name in ("fold", "split")), strict=True)
    ):
        if split not in SPLITS:
            raise DataError(f"{path}: column 'split' holds {split!r}; expected one of {', '.join(SPLITS)}")
        if (fold, split) in splits:
            raise DataError(f"{path}: the rows of fold {fold}, split {split!r} are not contiguous")
        own, where = table.slice(start, len(list(rows))), f"{path}, fold {fold}, {split}"
        splits[fold, split] = _split(own, index[start : start + len(own)], item_count, where)
        start += len(own)
    item_names: Any = None
    if ITEM_NAMES_KEY in metadata:
        try:
            item_names = json.loads(metadata[ITEM_NAMES_KEY])
        except (ValueError, RecursionError):
            item_names = ()
        if not isinstance(item_names, list) or len(item_names) != item_count:
            expected = f"a list of {item_count} names"
            raise DataError(f"{path}: the metadata key {ITEM_NAMES_KEY!r} should be {expected}; make it anew")
    instances = FoldedLists(
        dataset=str(_single(table, "dataset", path)),
        nsr=_single(table, "nsr", path),
        topics=tuple(topics.dictionary.to_pylist()),
        item_count=item_count,
        item_names=None if item_names is None else tuple(map(str, item_names)),
        splits=splits,
        repeats=count_repeats(path),
    )
    if len(instances.folds) % instances.repeats:
        raise DataError(f"{path}: {len(instances.folds)} folds are not those of {instances.repeats} repeats")
    return instances


def count_repeats(path: Path) -> int:
    """Return the number of times that the folds of an instances file are drawn."""
    text = read_metadata(path, "instances").get(REPEATS_KEY, "1")
    if not re.fullmatch(r"[1-9][0-9]?", text):
        raise DataError(f"{path}: the metadata key {REPEATS_KEY!r} should be a number from 1; make it anew")
    return int(text)


def list_sizes(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """Return the distinct (N, P) with 0 < P < N, ascending, of all lists of instances files (see `pairs`)."""
    pairs = set().union(*(read_instances(path).pairs() for path in paths))
    return sorted((n, p) for n, p in pairs if 0 < p < n)


def write_distributions(tables: "DistributionTables", path: Path) -> None:
    """Write a parquet file of the contract `distributions`: by rename, the same bytes for the same tables.

    The tables are of binary lists, whose distributions have one number of samples.
    """

    def lists(values: npt.NDArray[np.float64]) -> pa.ListArray:
        return pa.ListArray.from_arrays(to_arrow(tables.offsets.astype(np.int32)), to_arrow(values))

    table = pa.table(
        {
            "metric": pa.array([tables.metric] * len(tables), pa.string()),
            "n": to_arrow(tables.n.astype(np.int32)),
            "p": to_arrow(tables.p.astype(np.int32)),
            **{name: to_arrow(column) for name, column in tables.columns.items()},
            "support": lists(tables.support),
            "probability": lists(tables.probability),
        }
    )
    tilt = {} if tables.tilt == 1 else {TILT_KEY: repr(tables.tilt)}
    write_table(table, path, "distributions", metadata={SAMPLES_KEY: str(tables.samples[0]), **tilt})


def read_distributions(path: Path) -> "DistributionTables":
    """Read a file that `write_distributions` wrote.

    Raises:
        DataError: the file is of another kind.
    """
    from rankbound.bounds.tables import COLUMNS, DistributionTables

    metadata = read_metadata(path, "distributions")
    samples, tilt = metadata.get(SAMPLES_KEY, ""), metadata.get(TILT_KEY, "1.0")
    table = read_table(path, "distributions").combine_chunks()
    metrics = table.column("metric").unique().to_pylist()
    if len(metrics) != 1 or not samples.isdigit():
        raise DataError(
            f"{path}: found the metrics {metrics} and {SAMPLES_KEY} {samples!r}, expected one metric and a number; "
            "make the file again with `python -m rankbound_study distributions`"
        )
    columns = {name: to_numpy(table.column(name)) for name in ("n", "p", *COLUMNS)}
    support, probability = (table.column(name).combine_chunks() for name in ("support", "probability"))
    return DistributionTables(
        metric=metrics[0],
        n=columns.pop("n").astype(np.int64),
        p=columns.pop("p").astype(np.int64),
        offsets=to_numpy(support.offsets).astype(np.int64),
        support=to_numpy(support.values),
        probability=to_numpy(probability.values),
        columns=columns,
        samples=np.full(len(table), int(samples)),
        tilt=float(tilt),
    )


def merge(train: Split, validation: Split) -> Split:
    """Join the lists of both splits by topic, items ascending, for the training of the published protocol.

    Whole catalogues have the same irrelevant items in both: each occurs once.
    """
    topics = np.unique(np.concatenate((train.topics, validation.topics)))
    owner = np.concatenate((train.owners, validation.owners))
    items = np.concatenate((train.items, validation.items))
    relevance = np.concatenate((train.relevance, validation.relevance))
    order = np.lexsort((items, owner))
    again = (np.diff(items[order]) == 0) & (np.diff(owner[order]) == 0)
    if again.any():
        order = order[np.append(True, ~again)]
    offsets = np.append(np.searchsorted(owner[order], topics), len(order))
    return Split(topics, items[order], relevance[order], offsets)


def read_features(path: Path) -> npt.NDArray[np.float32]:
    """Read the features of a judged-lists file, (rows, d): row r is item r of its instances.

    Memory is that of the result and one row group; for a million rows, a second copy would take hundreds of megabytes.
    """

    def values(name: str) -> Iterator[pa.Array]:
        """Yield the values of all lists of a column, row group by row group."""
        return (one_chunk(table.column(name)).flatten() for table in read_row_groups(path, "lists", [name]))

    rows = sum(map(len, values("relevance")))
    features: npt.NDArray[np.float32] = np.empty((rows, 0), dtype=np.float32)
    start = 0
    for vectors in values("features"):
        if not start:
            features = np.empty((rows, vectors.type.list_size), dtype=np.float32)
        stop = start + len(vectors)
        if stop <= rows:
            features[start:stop] = to_numpy(vectors.flatten()).reshape(len(vectors), -1)
        start = stop
    if start != rows:
        raise DataError(f"{path}: column 'features' has {start} rows, column 'relevance' {rows}")
    return features


def read_item_names(path: Path) -> list[str]:
    """Read the document names of a judged-lists file, by row."""
    column = read_table(path, "lists", ["items"]).column("items")
    return [name for chunk in column.chunks for name in chunk.flatten().to_pylist()]


def pairs_of_lists(split: Split, count: int | None = None, random: np.random.Generator | None = None) -> Split:
    """Return all pairs of a more and a less relevant item of one list, or `count` of them, as two-item lists.

    Pairs are within a query, without ties, each once (Li and Wu section 3). A pair keeps its list's topic, its items
    keep their indices and labels, and `random` determines their sides (without it, the more relevant item comes first).
    With `count`, that many pairs are drawn by `random` without replacement, uniformly over all pairs of all lists, so
    long lists weigh more, as they do among all pairs; if `count` exceeds the number of pairs, all are taken.

    Time and memory are proportional to the items and the pairs taken, never to all pairs. Raises ValueError if `count`
    is given without `random`, or if no list has two items of different relevance.
    """
    if count is not None and (random is None or count < 1):
        raise ValueError(f"count: found {count} with random {random}, expected 1 or more, and a generator")
    # Items by list and ascending relevance, the lists' starts, and how many of its list are below each item: the number
    # before the first item of its label.
    owner, first = np.repeat(np.arange(len(split)), split.sizes), np.repeat(split.offsets[:-1], split.sizes)
    order = np.lexsort((split.relevance, owner))
    starts = np.diff(split.relevance[order].astype(np.int64), prepend=-1) != 0
    starts[1:] |= np.diff(owner) != 0
    below = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0)) - first
    ends = np.cumsum(below)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        raise ValueError(f"split: none of its {len(split)} lists has two items of different relevance")
    chosen = np.arange(total)
    if count is not None and random is not None and count < total:
        chosen = np.sort(random.choice(total, count, replace=False, shuffle=False))
    # Pair k joins one item with the k-th of all items below it: `better` and `worse` are positions in `order`.
    better = np.searchsorted(ends, chosen, side="right")
    worse = first[better] + chosen - (ends[better] - below[better])
    places = order[np.stack((better, worse), 1)]
    if random is not None:
        places = random.permuted(places, axis=1)
    topics = split.owners[places[:, 0]]
    flat = places.reshape(-1)
    return Split(topics, split.items[flat], split.relevance[flat], 2 * np.arange(len(places) + 1))


def _single(table: pa.Table, column: str, path: Path) -> Any:
    values = table.column(column).unique().to_pylist()
    if len(values) != 1:
        raise DataError(f"{path}: column {column!r} should have one value, found {values[:5] or 'no rows'}")
    return values[0]


def _split(table: pa.Table, topics: npt.NDArray[np.int64], item_count: int, where: str) -> Split:
    (offsets, items), (others, relevance) = (list_to_numpy(table.column(name)) for name in ("items", "relevance"))
    if not np.array_equal(offsets, others):
        raise DataError(f"{where}: the lists of columns 'items' and 'relevance' differ in length")
    if len(np.unique(topics)) != len(topics):
        raise DataError(f"{where}: a topic has more than one list")
    if len(items) and not (items.min() >= 0 and items.max() < item_count):
        raise DataError(f"{where}: column 'items' holds an index outside 0 .. {item_count - 1}")
    if len(relevance) and relevance.min() < 0:
        raise DataError(f"{where}: column 'relevance' holds {relevance.min()}, expected 0 or more")
    return Split(topics, items, relevance, offsets)
