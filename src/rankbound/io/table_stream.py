"""Judged lists of a table, CSV or parquet, in a stream: memory is that of batches of rows, whatever the file's size.

The file is read twice: first for the topics and the types of the columns, then for the lists. If the rows of a topic
are not adjacent, the rows are sorted outside memory: every batch is sorted and kept in a temporary Arrow file, from
which the topics are gathered, some at a time. Beyond batches, memory grows with the names of the topics, the largest
list and the longest row.
"""

import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io.grouping import require_distinct_items
from rankbound.io.judged import JudgedLists, no_features
from rankbound.io.parquet import memory_bytes
from rankbound.io.table_batches import BATCH_BYTES, open_table
from rankbound.io.table_columns import (
    Columns,
    Shadows,
    Table,
    chosen_names,
    item_names,
    matrix,
    refuse_text,
    relevance_of,
    require_roles,
    text,
    told_apart,
    two_rows,
)


@dataclass
class _Topics:
    """The topics of a table, numbered in the order in which they first appear.

    Attributes:
        numbers: the numbers by name.
        sizes: the number of rows of each.
        adjacent: the rows of every topic are.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    adjacent: bool = True
    _last: int = 0

    def number(self, names: pl.Series) -> npt.NDArray[np.int64]:
        """Return the topics' numbers; new topics get the next ones."""
        distinct = names.unique(maintain_order=True)
        codes = [self.numbers.setdefault(name, len(self.numbers)) for name in distinct]
        return names.replace_strict(distinct, pl.Series(codes, dtype=pl.Int64), return_dtype=pl.Int64).to_numpy()

    def count(self, names: pl.Series) -> None:
        """Count the rows of a batch."""
        code = self.number(names)
        self.adjacent &= bool((np.diff(code, prepend=self._last) >= 0).all())
        self._last = int(code[-1])
        self.sizes += [0] * (len(self.numbers) - len(self.sizes))
        for topic, size in zip(*(part.tolist() for part in np.unique(code, return_counts=True)), strict=True):
            self.sizes[topic] += size


class TableStream:
    """The judged lists of a file, CSV or parquet, in the order of `rankbound.io.tables.read_judged`.

    Attributes:
        feature_names: the features.
        left_out: the columns that are no features unless they are chosen, with what they are.

    Raises:
        DataError: as `read_judged`; if a file has several mistakes, the one that is named may be another.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Columns, features: Sequence[str] | None = None) -> None:
        self._columns, self._table, self._topics = columns, open_table(path, columns), _Topics()
        for table in self._table.looked_at():
            if not self._topics.sizes:
                self._require_columns(features)
            self._topics.count(text(table, columns.topic))
        if not self._topics.sizes:
            self._require_columns(features)
            raise DataError(f"{self._table.where}: there are no rows in it; expected a row for each item")
        others = {name: self._table.left_out_as(name) for name in self._table.names if name not in columns.roles}
        self.feature_names, self.left_out = told_apart(others) if features is None else (list(features), {})
        if not self.feature_names:
            raise DataError(f"{self._table.where}: {no_features(self.left_out)}")
        # Chosen features are taken as they are.
        self._suspects = self.feature_names if features is None else []
        self._shadows = Shadows(self._suspects, sum(self._topics.sizes))
        self._require_numbers()
        self._require_memory()

    @property
    def doubtful(self) -> dict[str, str]:
        """The features that `rankbound.io.table_columns.Shadows` finds, after all lists have been read."""
        return self._shadows.found()

    def __iter__(self) -> Iterator[JudgedLists]:
        """Yield lists of whole topics, at most about a batch of rows at a time."""
        names = list(self._topics.numbers)
        self._shadows = Shadows(self._suspects, sum(self._topics.sizes))
        # Closed at once after an error, too: a temporary file may be open.
        with closing(self._adjacent() if self._topics.adjacent else self._gathered()) as parts:
            for rows in parts:
                yield self._judged(rows, names)

    def _require_columns(self, features: Sequence[str] | None) -> None:
        empty = pl.DataFrame({name: [] for name in self._table.names})
        table = Table(empty, self._table.where, self._table.row_name, 0)
        require_roles(table, self._columns)
        if features is not None:
            chosen_names(table, self._columns, features)

    def _require_numbers(self) -> None:
        """Raise DataError for the first mistake in a column of numbers that is read as text."""
        for name in (self._columns.relevance, *self.feature_names):
            if self._table.dtype(name) == pl.String:
                refuse_text(self._table.batches([name]), name)

    def _require_memory(self) -> None:
        topic = int(np.argmax(self._topics.sizes))
        size = self._topics.sizes[topic]
        if size * self._row_bytes > memory_bytes():
            raise DataError(
                f"{self._table.where}: topic {list(self._topics.numbers)[topic]!r} has {size} rows, which need "
                f"{size * self._row_bytes / 2**30:.0f} GiB at least, and this machine has "
                f"{memory_bytes() / 2**30:.0f}: look for a column of topics with more names"
            )

    @property
    def _row_bytes(self) -> int:
        return 4 * len(self.feature_names) + 32

    def _batches(self) -> Iterator[pa.Table]:
        """Yield the rows with the numbers of their topics, and their numbers in the file."""
        columns = self._columns
        has_items = columns.item is not None or columns.items in self._table.names
        names = [columns.topic, *([columns.items] if has_items else []), columns.relevance, *self.feature_names]
        for table in self._table.batches(list(dict.fromkeys(names))):
            rows = {
                "topic": self._topics.number(text(table, columns.topic)),
                "item": item_names(table, columns).to_arrow().cast(pa.large_string()),
                "relevance": relevance_of(table, columns),
                "features": _vectors(matrix(table, self.feature_names)),
                "row": np.arange(table.first_row, table.first_row + len(table.frame)),
            }
            self._shadows.read_rows(table, rows["relevance"])
            yield pa.table(rows)

    def _adjacent(self) -> Generator[pa.Table, None, None]:
        """Yield the rows of whole topics; the last topic of a batch may continue in the next one."""
        held: list[pa.Table] = []
        for rows in self._batches():
            topic = rows.column("topic").to_numpy()
            start = int(np.searchsorted(topic, topic[-1]))
            if held and (start or held[-1].column("topic")[-1].as_py() != topic[-1]):
                yield pa.concat_tables([*held, rows.slice(0, start)])
                held = []
            elif start:
                yield rows.slice(0, start)
            held.append(rows.slice(start))
        yield pa.concat_tables(held)

    def _gathered(self) -> Generator[pa.Table, None, None]:
        """Yield the rows of some topics at a time, from a temporary file of sorted batches."""
        with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
            path = Path(folder, "sorted.arrow")
            self._write_sorted(path)
            with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as file:
                batches = [file.get_batch(index) for index in range(file.num_record_batches)]
                for first, last in self._ranges():
                    parts = (_part(batch, first, last) for batch in batches)
                    yield _sorted(pa.Table.from_batches(part for part in parts if len(part)))

    def _write_sorted(self, path: Path) -> None:
        try:
            batches = self._batches()
            rows = _sorted(next(batches))
            with pa.OSFile(os.fspath(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
                for rows in batches:
                    writer.write_table(_sorted(rows))
        except OSError as error:
            raise DataError(f"{self._table.where}: cannot be sorted by topic in {path.parent}: {error}") from error

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of topics, the first and the one past the last, whose rows are about a batch."""
        most, first, size = BATCH_BYTES // self._row_bytes, 0, 0
        for topic, more in enumerate(self._topics.sizes):
            if size and size + more > most:
                yield first, topic
                first, size = topic, 0
            size += more
        yield first, len(self._topics.sizes)

    def _judged(self, rows: pa.Table, names: Sequence[str]) -> JudgedLists:
        rows = rows.combine_chunks()
        topic = rows.column("topic").to_numpy()
        starts = np.flatnonzero(np.diff(topic, prepend=-1))
        items = pl.Series(pl.from_arrow(rows.column("item")))
        numbers = rows.column("row").to_numpy()
        topics = [names[code] for code in topic[starts].tolist()]
        require_distinct_items(
            pl.DataFrame({"topic": topic, "item": items}),
            self._table.where,
            names,
            rows=lambda places: two_rows(self._table.row_name, numbers[places]),
        )
        flat = rows.column("features").combine_chunks().flatten().to_numpy()
        features, offsets = flat.reshape(len(rows), len(self.feature_names)), np.append(starts, len(rows))
        self._shadows.read_topics(features, offsets)
        return JudgedLists(
            topics=topics,
            items=items,
            relevance=rows.column("relevance").to_numpy(),
            offsets=offsets,
            features=features,
            feature_names=self.feature_names,
        )


def _vectors(values: npt.NDArray[np.float32]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _sorted(rows: pa.Table) -> pa.Table:
    """Return the rows in the order of their topics, otherwise as they are."""
    return rows.take(np.argsort(rows.column("topic").to_numpy(), kind="stable")).combine_chunks()


def _part(batch: pa.RecordBatch, first: int, last: int) -> pa.RecordBatch:
    """Return the rows of a range of topics in a sorted batch."""
    start, stop = np.searchsorted(batch.column("topic").to_numpy(), (first, last)).tolist()
    return batch.slice(start, stop - start)
