"""Ratings in delimited text or parquet of any columns, converted to interactions."""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rankbound.errors import DataError
from rankbound.io.block_stream import BlockStream
from rankbound.io.parquet import open_parquet
from rankbound.printable import quoted, shortened
from rankbound_study.config.sections.description import ColumnKeys, DescriptionKeys, ScaleKeys
from rankbound_study.data.contracts import write_table
from rankbound_study.data.plain_files import PlainFiles, Raw
from rankbound_study.data.schemas import CONTRACTS, DATASET_KEY

_TYPES = CONTRACTS["interactions"].columns
_BLOCK_BYTES = 2**24
_ONE_CHARACTER = "\x1f"
"""A separator of one character, which stands for one of several; it occurs in no text."""

_PARQUET = b"PAR1"
_SHOWN = 80


def convert(raw: Raw, described: DescriptionKeys, out: str | os.PathLike[str]) -> None:
    """Write the ratings of `raw` to `out` as interactions, sorted by user and item.

    Ratings are read in blocks; the numbers are in memory. Raises DataError for missing columns, a malformed row, a
    rating that is not of the description's scale, or a user who rates an item twice.
    """
    names = [raw.find(name) for name in described.wanted] or [member.name for member in raw.members]
    if len(names) != 1:
        raise DataError(f"{raw.path}: it has {len(names)} files: name the one with the ratings (files)")
    where = raw.where(names[0])
    assert described.columns is not None
    layout = _Layout(described.columns, described.separator, described.header, where)
    parts = list(_parts(raw, names[0], layout))
    if not parts:
        raise DataError(f"{where}: it has no ratings")
    table = pa.concat_tables(parts)
    table = table.sort_by([("topic", "ascending"), ("item", "ascending")]).combine_chunks()
    _check(table, described.scale, where)
    write_table(table, out, "interactions", metadata={DATASET_KEY: raw.source.name})


@dataclass(frozen=True)
class _Layout:
    """The columns of a table, its separator, and whether its first line names the columns."""

    columns: ColumnKeys
    separator: str
    header: bool
    where: str

    @cached_property
    def named(self) -> dict[str, str]:
        """The columns' names in the file by those of interactions, of which some may be absent."""
        named = {name: getattr(self.columns, name) for name in _TYPES}
        return {name: column for name, column in named.items() if column is not None}

    @property
    def delimiter(self) -> str:
        """The separator as the reader takes it, of one character."""
        return self.separator if len(self.separator) == 1 else _ONE_CHARACTER

    def interactions(self, table: pa.Table) -> pa.Table:
        """Return the rows with all columns of interactions; absent ratings are 1, absent times 0."""
        absent = {"rating": np.ones(len(table), np.float32), "timestamp": np.zeros(len(table), np.int64)}
        columns = {
            name: table.column(self.named[name]) if name in self.named else pa.array(absent[name]) for name in _TYPES
        }
        return pa.table(columns)


def _parts(raw: Raw, name: str, layout: _Layout) -> Iterator[pa.Table]:
    with raw.open(name) as stream:
        start = stream.peek(len(_PARQUET))[: len(_PARQUET)] if hasattr(stream, "peek") else b""
        if start != _PARQUET:
            yield from _of_text(stream, layout)
            return
    if not isinstance(raw, PlainFiles):
        raise DataError(f"{layout.where}: parquet files are not read from archives: unpack it, and give its path")
    yield from _of_parquet(name, layout)


def _of_text(stream: BinaryIO, layout: _Layout) -> Iterator[pa.Table]:
    first = stream.readline()
    names = _column_names(first, layout)
    text = BlockStream(_blocks(first, stream, layout))
    types = {layout.named[name]: kind for name, kind in _TYPES.items() if name in layout.named}
    try:
        reader = pyarrow.csv.open_csv(
            text,
            # Errors give the row only with a single thread.
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=names, skip_rows=int(layout.header)
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
            ),
        )
        for batch in reader:
            yield layout.interactions(pa.Table.from_batches([batch]))
    except pa.ArrowInvalid as error:
        counted = "rows count from 1, the columns' names" if layout.header else "rows count from 1"
        raise DataError(
            f"{layout.where}: {error}; expected rows of {len(names)} columns, with whole numbers for users and items "
            f"and numbers for ratings ({counted})"
        ) from error


def _column_names(first: bytes, layout: _Layout) -> list[str]:
    """Return the names in the first line; without such a line, the columns' numbers."""
    line = first.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").rstrip("\r\n")
    if not line:
        raise DataError(f"{layout.where}: it has no ratings")
    fields = line.split(layout.separator)
    names = fields if layout.header else [str(number) for number in range(1, len(fields) + 1)]
    missing = next((column for column in layout.named.values() if column not in names), None)
    if missing is not None:
        expected = "the columns' names" if layout.header else "columns"
        raise DataError(
            f"{layout.where}, line 1: found {shortened(repr(line), _SHOWN)}, which has no column {missing!r}; "
            f"expected {expected} separated by {layout.separator!r}"
        )
    return names


def _blocks(first: bytes, stream: BinaryIO, layout: _Layout) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines, with separators of one character."""
    found, taken = layout.separator.encode(), layout.delimiter.encode()
    held = first
    while block := stream.read(_BLOCK_BYTES):
        held += block
        cut = held.rfind(b"\n") + 1
        yield held[:cut].replace(found, taken)
        held = held[cut:]
    yield held.replace(found, taken)


def _of_parquet(path: str, layout: _Layout) -> Iterator[pa.Table]:
    file: pq.ParquetFile = open_parquet(path)
    missing = next((column for column in layout.named.values() if column not in file.schema_arrow.names), None)
    if missing is not None:
        shown = shortened(", ".join(file.schema_arrow.names), _SHOWN)
        raise DataError(f"{layout.where}: there is no column {missing!r}; it has {shown}")
    for batch in file.iter_batches(columns=list(layout.named.values())):
        table = layout.interactions(pa.Table.from_batches([batch]))
        for name, kind in _TYPES.items():
            column = table.column(name)
            try:
                table = table.set_column(table.column_names.index(name), name, column.cast(kind))
            except pa.ArrowException as error:
                raise DataError(f"{layout.where}: column {quoted(layout.named[name])}: {error}") from error
        yield table


def _check(table: pa.Table, scale: ScaleKeys | None, where: str) -> None:
    if not table.num_rows:
        raise DataError(f"{where}: it has no ratings")
    rating = table.column("rating").to_numpy()
    wrong = ~np.isfinite(rating)
    expected = "a finite number"
    if scale is not None:
        wrong |= (rating < scale.lowest) | (rating > scale.highest) | ((rating - scale.lowest) % scale.step != 0)
        expected = f"{scale.lowest:g}, {scale.lowest + scale.step:g}, .. {scale.highest:g}"
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{where}: user {table['topic'][row]} rates item {table['item'][row]} with {rating[row]:.4g}; "
            f"expected {expected}"
        )
    topic, item = table.column("topic").to_numpy(), table.column("item").to_numpy()
    twice = (topic[1:] == topic[:-1]) & (item[1:] == item[:-1])
    if twice.any():
        row = int(twice.argmax())
        raise DataError(f"{where}: user {topic[row]} rates item {item[row]} more than once")
