"""Text files of others: unpacked within limits, and as CSV read strictly, whole or in chunks of whole rows.

A megabyte of gzip can become a gigabyte. The messages name the layouts that spreadsheets and other languages' settings
write, with their lines.
"""

import codecs
import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rankbound.errors import DataError
from rankbound.io.atomic import File
from rankbound.texts import LONGEST_VALUE, quoted, shortened

if TYPE_CHECKING:
    import polars as pl

LARGEST_RATIO = 100
"""Times that a file may grow; tables and runs grow five- to thirtyfold."""

ALWAYS_ALLOWED = 2**28
"""Bytes that any file may become."""

CHUNK_BYTES = 2**23
"""Bytes of CSV text that are parsed at once."""

LONGEST_ROW = 2**26
"""Bytes of a row: after a double quote that nothing closes, the rest of a file would be one row."""

_BLOCK_BYTES = 2**16

_GZIP = b"\x1f\x8b"
# Zstandard and zlib, which polars would unpack without a limit.
_OTHER_PACKING = (b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
# Byte order marks.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_OTHER_SEPARATORS = {"::": "double colons", " ": "spaces"}
"""Separators that names of columns may contain; looked for where none of the usual ones is."""


@contextmanager
def open_unpacked(path: File) -> Iterator[BinaryIO]:
    """Open a file as a stream of bytes, unpacked if its content is gzip, and without the byte order mark of UTF-8.

    Raises:
        DataError: it cannot be read, is packed otherwise or twice, is in UTF-16, or becomes too large.
    """
    try:
        with Path(path).open("rb") as file:
            _refuse_packed(file.peek(4), _OTHER_PACKING, path)
            if not file.peek(2).startswith(_GZIP):
                yield _plain(file, path)
                return
            limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * os.fstat(file.fileno()).st_size)
            with gzip.GzipFile(fileobj=file) as packed:
                stream = io.BufferedReader(BlockStream(_limited(packed, limit, path)))
                _refuse_packed(stream.peek(4), (_GZIP, *_OTHER_PACKING), path)
                yield _plain(stream, path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def read_unpacked(path: File) -> bytes:
    """Return the whole content of a file as `open_unpacked` reads it."""
    with open_unpacked(path) as stream:
        return stream.read()


def _refuse_packed(start: bytes, packed: tuple[bytes, ...], path: File) -> None:
    if start.startswith(packed):
        raise DataError(f"{path}: found packed content, expected text or gzip of text: unpack the file first")


def _plain(stream: "io.BufferedReader[Any]", path: File) -> BinaryIO:
    """Return the stream past the mark of UTF-8; DataError for UTF-16."""
    start = stream.peek(2)[:2]
    # Without a byte order mark, one of the first two bytes of ASCII text is 0.
    if start in _UTF_16 or start.count(0) == 1:
        raise DataError(
            f"{path}: found text in UTF-16, expected UTF-8: save the file as UTF-8, or convert it by "
            "iconv -f UTF-16 -t UTF-8"
        )
    if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return stream


def _limited(stream: gzip.GzipFile, limit: int, path: File) -> Iterator[bytes]:
    left = limit
    while block := stream.read(_BLOCK_BYTES):
        left -= len(block)
        if left < 0:
            raise DataError(
                f"{path}: unpacks to more than {limit / 2**20:.0f} MiB, {LARGEST_RATIO} times its size or more: if you "
                "trust the file, unpack it (`gunzip`) and read the result"
            )
        yield block


class BlockStream(io.RawIOBase):
    """A raw stream over blocks of bytes of any size."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._block = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        while not self._block:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._block = memoryview(block)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        return count


def write_rows(path: Path, frame: "pl.DataFrame", **options: Any) -> None:
    """Write text with the options of polars, packed if the name of the file ends in `.gz`."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(frame.write_csv(**options).encode(), mtime=0))
    else:
        frame.write_csv(path, **options)


def separator_of(path: File) -> str:
    """Return the separator of columns by the name of a file: tabs in `.tsv`, otherwise commas; `.gz` may follow."""
    return "\t" if Path(path).name.removesuffix(".gz").endswith(".tsv") else ","


def inferred(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of polars by which columns have the types of all their values, and those of `names` text."""
    import polars as pl

    # A word may first occur in the last line.
    return {"infer_schema_length": None, "schema_overrides": dict.fromkeys(names, pl.String)}


def read_chunks(stream: BinaryIO, where: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield CSV text in chunks of whole rows below the names of the columns, each with the lines left out before it.

    Rows end at line ends outside of double quotes.

    Raises:
        DataError: a row is longer than `LONGEST_ROW`; the message has its line.
    """
    names = held = b""
    line, is_first = 0, True
    while block := stream.read(chunk_bytes):
        held += block
        if not names:
            names = held[: _first_end(held)]
            held, line = held[len(names) :], names.count(b"\n")
        if names and (end := _end_of_rows(held)):
            yield names + held[:end], line - names.count(b"\n")
            line += held.count(b"\n", 0, end)
            held, is_first = held[end:], False
        if len(held) > LONGEST_ROW:
            raise DataError(
                f"{where}, line {line + 1}: found a row of more than {LONGEST_ROW / 2**20:.0f} MiB: look for a double "
                "quote in it that nothing closes"
            )
    if held or is_first:
        yield names + held, line - names.count(b"\n")


def _first_end(text: bytes) -> int:
    """Return the place past the first row that is not empty; 0 if it does not end."""
    end, quotes = len(text) - len(text.lstrip(b"\r\n")), 0
    while (found := text.find(b"\n", end)) >= 0:
        quotes += text.count(b'"', end, found)
        end = found + 1
        if quotes % 2 == 0:
            return end
    return 0


def _end_of_rows(text: bytes) -> int:
    """Return the place past the last row that ends; 0 if none does."""
    end, quotes = len(text), text.count(b'"')
    while (found := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', found, end)
        if quotes % 2 == 0:
            return found + 1
        end = found
    return 0


def parse_rows(content: bytes, path: File, types: Mapping[str, Any], lines_before: int = 0) -> "pl.DataFrame":
    """Return the rows of text whose first line names the columns, with the options of polars in `types`.

    `lines_before` is the number of lines of the file that are left out of `content`.

    Raises:
        DataError: other separators, spaces after them, another encoding, or a row with too many fields; the message
            names line and remedy.
        ValueError, polars.exceptions.PolarsError: other damage.
    """
    import polars as pl

    separator = separator_of(path)
    try:
        _require_separator(_columns(content, separator), separator, path)
        return pl.read_csv(content, separator=separator, **types)
    except pl.exceptions.PolarsError:
        _refuse_encoding(content, path, lines_before)
        _refuse_long_row(content, separator, path, lines_before)
        if content.count(b'"') % 2:
            line = lines_before + content.count(b"\n", 0, _end_of_rows(content)) + 1
            raise DataError(
                f"{path}, line {line}: found a double quote that nothing closes; expected an even number in every row: "
                "close it, or remove it"
            ) from None
        raise


def _columns(content: bytes, separator: str) -> list[str]:
    """Return the fields of the first line that is not empty."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    try:
        names = next(filter(None, csv.reader(lines, delimiter=separator)), [])
    except csv.Error:
        return []
    # The reader would rename the second of two columns; those without a name are indexes, or empty.
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            raise ValueError(f"the column {quoted(name)} occurs twice in the first line, which names the columns")
    return names


def _require_separator(columns: Sequence[str], separator: str, path: File) -> None:
    """Raise DataError for a first line without the separator, but with another one, or with spaces after it."""
    expected = _SEPARATORS[separator]
    if len(columns) == 1:
        found = max(_SEPARATORS, key=columns[0].count)
        if found not in columns[0]:
            found = max(_OTHER_SEPARATORS, key=columns[0].count)
        if found in columns[0]:
            other = {"\t": ".tsv", ",": ".csv"}.get(found)
            raise DataError(
                f"{path}, line 1: found {(_SEPARATORS | _OTHER_SEPARATORS)[found]} between the columns "
                f"({shortened(columns[0], LONGEST_VALUE)!r}), expected {expected}: write the file with {expected} and "
                "decimal points" + (f", or name it {other}" if other else "")
            )
    if len(columns) > 1 and all(name.startswith(" ") for name in columns[1:]):
        raise DataError(
            f"{path}, line 1: found spaces after the {expected} ({quoted(columns[1])}), expected none: remove them"
        )


def _refuse_encoding(content: bytes, path: File, lines_before: int) -> None:
    """Raise DataError for the first byte that is not UTF-8."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: found the byte 0x{content[error.start]:02x}, expected text in UTF-8: save the "
            "file as UTF-8, or convert it by iconv"
        ) from None


def _refuse_long_row(content: bytes, separator: str, path: File, lines_before: int) -> None:
    """Raise DataError for the first row that has more fields than there are columns."""
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator)
    try:
        width = len(next(rows, []))
        for row in rows:
            if len(row) > width:
                raise DataError(
                    f"{path}, line {lines_before + rows.line_num}: found {len(row)} fields, expected {width} as in the "
                    "first line: write numbers with a decimal point, and put names with "
                    f"{_SEPARATORS[separator]} in double quotes"
                )
    except csv.Error:
        return


def require_rows(frame: "pl.DataFrame", path: File) -> None:
    """Raise DataError for a file that has nothing but the names of columns."""
    if frame.is_empty():
        raise DataError(f"{path}: there are no rows in it below the names of the columns; expected a row for each item")


def spaced_columns(frame: "pl.DataFrame") -> list[str]:
    """Return the columns, besides the first, all of whose values begin with a space."""
    import polars as pl

    texts = [column for column in frame.get_columns()[1:] if column.dtype == pl.String]
    return [column.name for column in texts if bool(column.str.starts_with(" ").fill_null(False).all())]


def refuse_spaces(spaced: Sequence[str], frame: "pl.DataFrame", path: File) -> None:
    """Raise DataError for the first of such columns; `frame` has the first row of the file."""
    for name in spaced:
        raise DataError(
            f"{path}, line 2: column {name!r} holds {quoted(frame[name][0])}, and begins with a space in all lines; "
            "expected no spaces after the separators: remove them"
        )
