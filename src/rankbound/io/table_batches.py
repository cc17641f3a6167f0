"""Read tables with a row per item, CSV and parquet, as batches of rows: memory is that of a batch."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io import csv_chunks
from rankbound.io.csv_chunks import Chunk
from rankbound.io.csv_text import inferred, parse_rows, refuse_spaces, require_rows, spaced_columns
from rankbound.io.table_columns import Columns, Notation, Table, left_out_as
from rankbound.io.tables import explained_damage, polars_of, require_distinct_names
from rankbound.io.unpacked import open_unpacked

BATCH_BYTES = 2**23
"""Bytes of a batch of rows of a parquet file, at 8 for a value."""

_VALUE_BYTES = 8
_PAGE_BYTES = 2**16
"""Bytes of a column that are read ahead."""

_WIDER: Mapping[frozenset[pl.DataType], pl.DataType] = {
    frozenset((pl.Int64(), pl.Float64())): pl.Float64(),
    frozenset((pl.Int64(), pl.Int128())): pl.Int128(),
}
"""The types of columns whose values are of two types; those of other pairs are text."""

_LOOSE = (b"+", b" ", b".e", b".E")
"""What occurs in numbers that polars parses, but takes for texts when it infers types: `+5`, ` 5`, `5.e3`."""

_LARGEST_WHOLE = 2**63
"""Whole numbers beyond are of another type."""


class _TypedColumns:
    """The columns of a file, after `looked_at`: their types, and how their texts are written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = str(path)
        self._types: dict[str, pl.DataType | None] = {}
        self._notations: dict[str, Notation] = {}

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self._types)

    def dtype(self, name: str) -> pl.DataType:
        """Return the type of a column; one without values is text."""
        return self._types[name] or pl.String()

    def left_out_as(self, name: str) -> str | None:
        """Return as what a column is left out unless it is chosen; None for a feature."""
        return left_out_as(name, self.dtype(name), self._notations[name])

    def _set(self, types: Mapping[str, pl.DataType | None]) -> None:
        self._types, self._notations = dict(types), {name: Notation() for name in types}


class CsvTable(_TypedColumns):
    """CSV text; `looked_at` gives the columns the types of all their values together."""

    row_name = "line"

    def __init__(self, path: str | os.PathLike[str], columns: Columns) -> None:
        super().__init__(path)
        self._inferred = inferred((columns.topic, columns.items))

    def looked_at(self) -> Iterator[Table]:
        """Yield all rows, and note the types of the columns."""
        beginning, spaced = pl.DataFrame(), list[str]()
        for table in self._tables(self._looked_at):
            if not self._types:
                require_rows(table.frame, self.where)
                beginning, spaced = table.frame.head(1), spaced_columns(table.frame)
                self._set(dict.fromkeys(table.frame.columns))
            spaced = sorted(set(spaced) & set(spaced_columns(table.frame)), key=spaced.index)
            for column in table.frame.get_columns():
                self._types[column.name] = _wider(self._types[column.name], column)
                self._notations[column.name].read(column)
            yield table
        refuse_spaces(spaced, beginning, self.where)

    def batches(self, names: Sequence[str]) -> Iterator[Table]:
        """Yield the rows of these columns, after `looked_at`."""
        for table in self._tables(self._typed):
            yield Table(table.frame.select(names), table.where, table.row_name, table.first_row)

    def _looked_at(self, chunk: Chunk) -> pl.DataFrame:
        """Return rows with the types of their values, or with those of the columns so far if all values are of them.

        Inference takes five times as long as parsing.
        """
        if self._types and not any(loose in chunk.text for loose in _LOOSE):
            with suppress(DataError, pl.exceptions.PolarsError):
                frame = self._typed(chunk)
                if all(known is not None and _is_of_its_type(frame[name]) for name, known in self._types.items()):
                    return frame
        return parse_rows(chunk.text, self.where, self._inferred, chunk.lines_before)

    def _typed(self, chunk: Chunk) -> pl.DataFrame:
        types = {name: self.dtype(name) for name in self._types}
        options = {"infer_schema_length": 0, "schema_overrides": types}
        return parse_rows(chunk.text, self.where, options, chunk.lines_before)

    def _tables(self, parse: Callable[[Chunk], pl.DataFrame]) -> Iterator[Table]:
        # The first row is line 2, below the names.
        first = 2
        with open_unpacked(self.where) as stream:
            for chunk in csv_chunks.read_chunks(stream, self.where):
                with explained_damage(self.where, "CSV"):
                    frame = parse(chunk)
                yield Table(frame, self.where, self.row_name, first)
                first += len(frame)


class ParquetTable(_TypedColumns):
    """A parquet file, whose schema has the types; `looked_at` reads the columns of texts."""

    row_name = "row"

    def __init__(self, path: str | os.PathLike[str], columns: Columns) -> None:
        super().__init__(path)
        self._topic = columns.topic
        with explained_damage(path, "parquet"), pq.ParquetFile(path) as file:
            require_distinct_names(file.schema_arrow)
            # Without rows, types that are unknown to polars would not fail until they are read.
            empty = polars_of(file.schema_arrow.empty_table())
        self._set(empty.schema)

    def looked_at(self) -> Iterator[Table]:
        """Yield the topics and the columns of texts, and note what those hold."""
        texts = [name for name, dtype in self._types.items() if dtype == pl.String or name == self._topic]
        for table in self.batches(texts):
            for column in table.frame.get_columns():
                self._notations[column.name].read(column)
            yield table

    def batches(self, names: Sequence[str]) -> Iterator[Table]:
        """Yield the rows of these columns."""
        first, size = 1, max(BATCH_BYTES // (_VALUE_BYTES * max(len(names), 1)), 1)
        with (
            explained_damage(self.where, "parquet"),
            # Neither whole columns nor whole row groups are read ahead.
            pq.ParquetFile(self.where, buffer_size=_PAGE_BYTES, pre_buffer=False) as file,
        ):
            batches = file.iter_batches(size, columns=list(names), use_threads=False)
            for frame in filter(len, map(_frame_of, batches)):
                yield Table(frame.select(names), self.where, self.row_name, first)
                first += len(frame)


def open_table(path: str | os.PathLike[str], columns: Columns) -> CsvTable | ParquetTable:
    """Open a file of rows, parquet or CSV by its name."""
    return ParquetTable(path, columns) if Path(path).suffix == ".parquet" else CsvTable(path, columns)


def _is_of_its_type(column: pl.Series) -> bool:
    """Return whether types that are inferred from the values of a parsed column would not change its type."""
    if column.dtype == pl.Float64:
        return bool(column.is_finite().all()) and bool((column.abs() < _LARGEST_WHOLE).all())
    return column.dtype in (pl.Int64, pl.String)


def _wider(known: pl.DataType | None, column: pl.Series) -> pl.DataType | None:
    """Return the type of a column with the values of another batch."""
    if column.dtype == pl.String and column.null_count() == len(column):
        return known
    if known is None or known == column.dtype:
        return column.dtype
    return _WIDER.get(frozenset((known, column.dtype)), pl.String())


def _frame_of(batch: pa.RecordBatch) -> pl.DataFrame:
    # Text that is not UTF-8 would panic in polars.
    batch.validate(full=True)
    return polars_of(batch)
