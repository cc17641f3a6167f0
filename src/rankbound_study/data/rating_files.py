"""Ratings in one file, delimited text or parquet of any columns, read in blocks."""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.models import open_parquet
from rankbound.io.text_files import BlockStream
from rankbound.texts import is_number, quoted, shortened
from rankbound_study.config.sections.description import TEXTS, DescriptionKeys
from rankbound_study.data.plain_files import Raw, as_file
from rankbound_study.data.schemas import CONTRACTS

IDS = ("topic", "item")
"""The columns of users and items."""

TIME = "timestamp"
TIMES = "whole numbers, or dates such as 2026-01-31 or 2026-01-31T12:00:00"
"""What times may be."""

_TYPES = CONTRACTS["interactions"].columns
_TEXT = pa.dictionary(pa.int32(), pa.string())
_BLOCK_BYTES = 2**24
_ONE_CHARACTER = "\x1f"
"""A separator of one character, which stands for one of several; it occurs in no text."""

_ZONE = re.compile(r":\d\d(\.\d+)?\s*(Z|[+-]\d\d(:?\d\d)?)$")
"""The end of a time with a time zone."""

_MICROSECONDS = 1e6
_PARQUET = b"PAR1"
_SHOWN = 80


@dataclass(frozen=True)
class RatingFile:
    """A file of ratings: its name among the raw files, and the description of its layout."""

    raw: Raw
    name: str
    described: DescriptionKeys

    @property
    def where(self) -> str:
        """What it is called in messages."""
        return self.raw.where(self.name)

    @cached_property
    def is_parquet(self) -> bool:
        """It is a parquet file, by its first bytes."""
        with self.raw.open(self.name) as stream:
            return stream.read(len(_PARQUET)) == _PARQUET

    def row(self, index: int) -> str:
        """Return what the row of that index is called in messages: rows count from 1, a line of names included."""
        names = self.described.header and not self.is_parquet
        return f"{self.where}, row {index + 1 + names}"

    def tables(self) -> Iterator[pa.Table]:
        """Yield its rows with the columns of interactions; users and items that are texts as dictionaries.

        Raises DataError for missing columns, and for values of another type.
        """
        if not self.is_parquet:
            with self.raw.open(self.name) as stream:
                yield from self._of_text(stream)
            return
        with as_file(self.raw, self.name) as path:
            yield from self._of_parquet(str(path))

    @cached_property
    def _named(self) -> dict[str, str]:
        """The columns' names in the file by those of interactions, of which some may be absent."""
        assert self.described.columns is not None
        named = {name: getattr(self.described.columns, name) for name in _TYPES}
        return {name: column for name, column in named.items() if column is not None}

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        texts = self.described.ids == TEXTS
        return {name: _TEXT if texts and name in IDS else kind for name, kind in _TYPES.items()}

    @property
    def _delimiter(self) -> str:
        """The separator as the reader takes it, of one character."""
        return self.described.separator if len(self.described.separator) == 1 else _ONE_CHARACTER

    def _interactions(self, table: pa.Table) -> pa.Table:
        """Return the rows with all columns of interactions; absent ratings are 1, absent times 0."""
        absent = {"rating": np.ones(len(table), np.float32), TIME: np.zeros(len(table), np.int64)}
        columns = {
            name: table.column(self._named[name]) if name in self._named else pa.array(absent[name]) for name in _TYPES
        }
        return pa.table({**columns, TIME: _whole_times(columns[TIME])})

    def _of_text(self, stream: BinaryIO) -> Iterator[pa.Table]:
        header = self.described.header
        first = stream.readline()
        names = self._column_names(first)
        second = stream.readline() if header else b""
        types = {own: self._types[name] for name, own in self._named.items()}
        values = dict(zip(names, self._fields(second if header else first), strict=False))
        if self._named.get(TIME) in values:
            types[self._named[TIME]] = _type_of_time(values[self._named[TIME]])
        try:
            reader = pyarrow.csv.open_csv(
                BlockStream(self._blocks(first + second, stream)),
                # Errors give the row only with a single thread.
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, column_names=names, skip_rows=int(header)
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
                ),
            )
            for batch in reader:
                yield self._interactions(pa.Table.from_batches([batch]))
        except pa.ArrowInvalid as error:
            texts = self.described.ids == TEXTS
            ids = "" if texts else "whole numbers for users and items (any texts with ids: texts) and "
            times = f", and for times {TIMES}" if TIME in self._named else ""
            counted = "rows count from 1, the columns' names" if header else "rows count from 1"
            raise DataError(
                f"{self.where}: {error}; expected rows of {len(names)} columns, with {ids}numbers for ratings{times} "
                f"({counted})"
            ) from error

    def _column_names(self, first: bytes) -> list[str]:
        """Return the names in the first line; without such a line, the columns' numbers."""
        fields = self._fields(first)
        if not fields:
            raise DataError(f"{self.where}: it has no ratings")
        names = fields if self.described.header else [str(number) for number in range(1, len(fields) + 1)]
        missing = next((column for column in self._named.values() if column not in names), None)
        if missing is not None:
            expected = "the columns' names" if self.described.header else "columns"
            raise DataError(
                f"{self.where}, line 1: found {_shown(first)}, which has no column {missing!r}; "
                f"expected {expected} separated by {self.described.separator!r}"
            )
        return names

    def _fields(self, line: bytes) -> list[str]:
        """Return the values of a line, without the quotes around some of them."""
        text = line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").rstrip("\r\n")
        return fields_of(text, self.described.separator) if text else []

    def _blocks(self, first: bytes, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the text in blocks of whole lines, with separators of one character."""
        found, taken = self.described.separator.encode(), self._delimiter.encode()
        held = first
        while block := stream.read(_BLOCK_BYTES):
            held += block
            cut = held.rfind(b"\n") + 1
            yield held[:cut].replace(found, taken)
            held = held[cut:]
        yield held.replace(found, taken)

    def _of_parquet(self, path: str) -> Iterator[pa.Table]:
        file: pq.ParquetFile = open_parquet(path)
        missing = next((column for column in self._named.values() if column not in file.schema_arrow.names), None)
        if missing is not None:
            shown = shortened(", ".join(file.schema_arrow.names), _SHOWN)
            raise DataError(f"{self.where}: there is no column {missing!r}; it has {shown}")
        rows, time_type = 0, None
        for batch in file.iter_batches(columns=list(self._named.values())):
            table = pa.Table.from_batches([batch])
            for place, (name, own) in enumerate(self._named.items()):
                column = table.column(own)
                if column.null_count:
                    row = self.row(rows + pc.index(column.is_null(), value=True).as_py())
                    raise DataError(f"{row}: column {quoted(own)} is empty; expected a value in every row")
                try:
                    if name == TIME and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                        time_type = time_type or _type_of_time(column[0].as_py())
                        column = column.cast(time_type)
                    column = _whole_times(column) if name == TIME else _cast(column, self._types[name])
                except pa.ArrowException as error:
                    expected = f"; expected {TIMES}" if name == TIME else ""
                    raise DataError(f"{self.where}: column {quoted(own)}: {error}{expected}") from error
                table = table.set_column(place, own, column)
            rows += len(table)
            yield self._interactions(table)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind != _TEXT:
        return column.cast(kind)
    return column.cast(pa.string()).dictionary_encode()


def _shown(line: bytes) -> str:
    return shortened(repr(line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").rstrip("\r\n")), _SHOWN)


def fields_of(line: str, separator: str) -> list[str]:
    """Return the values of a line of delimited text; with a separator of one character, quotes may enclose them."""
    if len(separator) > 1:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        # For a carriage return inside the line, or a value too long; the reader's message follows.
        return line.split(separator)


def _type_of_time(text: str) -> pa.DataType:
    """Return how times are read that are written like this one."""
    if is_number(text):
        return pa.float64() if re.search(r"[.eE]", text) else pa.int64()
    return pa.timestamp("us", tz="UTC" if _ZONE.search(text) else None)


def _whole_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole numbers: as they are, or dates, and seconds with a fraction, in microseconds since 1970."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return pc.round(pc.multiply(column, _MICROSECONDS)).cast(pa.int64())
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    return column.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64())
