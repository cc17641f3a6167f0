"""Text files of others: unpacked within limits, and as CSV read strictly, whole or in chunks of whole rows.

A megabyte of packed text can become a gigabyte. The messages name the layouts that spreadsheets and other languages'
settings write, with their lines.
"""

import bz2
import codecs
import csv
import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rankbound.errors import DataError
from rankbound.io.atomic import File
from rankbound.io.judged import repeated
from rankbound.lazy import pa, pl
from rankbound.texts import LONGEST_VALUE, quoted, shortened

LARGEST_RATIO = 100
"""Times that a file may grow; tables and runs grow five- to thirtyfold."""

ALWAYS_ALLOWED = 2**28
"""Bytes that any file may become."""

CHUNK_BYTES = 2**23
"""Bytes of CSV text that are parsed at once."""

LONGEST_ROW = 2**26
"""Bytes of a row: after a double quote that nothing closes, the rest of a file would be one row."""

_BLOCK_BYTES = 2**16
_LONGEST_START = 10

# zlib, which polars would unpack without a limit.
_OTHER_PACKING = (b"x\x01", b"x\x9c", b"x\xda")
# Byte order marks.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class _Packing(NamedTuple):
    """A compression: how its content begins, and how it is read and made."""

    start: re.Pattern[bytes]
    opened: Callable[[BinaryIO], Any]
    packed: Callable[[bytes], bytes]


PACKINGS: Mapping[str, _Packing] = {
    ".gz": _Packing(
        re.compile(rb"\x1f\x8b"),
        lambda file: gzip.GzipFile(fileobj=file),
        lambda content: gzip.compress(content, mtime=0),
    ),
    ".bz2": _Packing(re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.BZ2File, bz2.compress),
    ".zst": _Packing(
        re.compile(rb"\x28\xb5\x2f\xfd"),
        lambda file: pa.CompressedInputStream(pa.PythonFile(file), "zstd"),
        lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    ),
}
"""Compressions by the endings of names. What is read is told by its content, what is written by the file's name."""

LINES_OF_JSON = (".jsonl", ".ndjson")
JSON = (".json", *LINES_OF_JSON)
"""Endings of the names of files of JSON."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_OTHER_SEPARATORS = {"::": "double colons", " ": "spaces"}


@contextmanager
def open_unpacked(path: File) -> Iterator[BinaryIO]:
    """Open a file as a stream of bytes, unpacked if its content is gzip, bzip2 or Zstandard, without UTF-8's mark.

    DataError for one that cannot be read, is packed otherwise or twice, is in UTF-16, or becomes too large.
    """
    try:
        with Path(path).open("rb") as file, ExitStack() as stack:
            stream: io.BufferedReader[Any] = file
            if (packing := _packing_of(file)) is not None:
                limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * os.fstat(file.fileno()).st_size)
                unpacked = stack.enter_context(packing.opened(file))
                stream = io.BufferedReader(BlockStream(_limited(unpacked, limit, path)))
            start = stream.peek(4)[:4]
            if start.startswith(_OTHER_PACKING) or (packing is not None and _packing_of(stream) is not None):
                raise DataError(
                    f"{path}: found packed content, expected text, or text packed once by gzip, bzip2 or zstd: unpack "
                    "the file first"
                )
            # Without a byte order mark, one of the first two bytes of ASCII text in UTF-16 is 0.
            if start.startswith(_UTF_16) or start[:2].count(0) == 1:
                raise DataError(
                    f"{path}: found text in UTF-16, expected UTF-8: save the file as UTF-8, or convert it by "
                    "iconv -f UTF-16 -t UTF-8"
                )
            if start.startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _packing_of(stream: "io.BufferedReader[Any]") -> _Packing | None:
    start = stream.peek(_LONGEST_START)
    return next((one for one in PACKINGS.values() if one.start.match(start)), None)


def read_unpacked(path: File) -> bytes:
    """Return the whole content of a file as `open_unpacked` reads it."""
    with open_unpacked(path) as stream:
        return stream.read()


def _limited(stream: Any, limit: int, path: File) -> Iterator[bytes]:
    left = limit
    while block := stream.read(_BLOCK_BYTES):
        left -= len(block)
        if left < 0:
            raise DataError(
                f"{path}: unpacks to more than {limit / 2**20:.0f} MiB, {LARGEST_RATIO} times its size or more: if you "
                "trust the file, unpack it (`gunzip`, `bunzip2`, `unzstd`) and read the result"
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
    """Write text with the options of polars, packed if the name of the file says so."""
    if path.suffix in PACKINGS:
        write_packed(path, frame.write_csv(**options).encode())
    else:
        frame.write_csv(path, **options)


def write_packed(path: Path, content: bytes) -> None:
    """Write text, packed if the name of the file says so."""
    path.write_bytes(PACKINGS[path.suffix].packed(content) if path.suffix in PACKINGS else content)


def plain_name(path: File) -> str:
    """Return the name of a file without the ending of its compression, `.gz`, `.bz2` or `.zst`."""
    name = Path(path).name
    return name.removesuffix(Path(name).suffix) if Path(name).suffix in PACKINGS else name


def separator_of(path: File) -> str:
    """Return the separator of columns by the name of a file: tabs in `.tsv`, otherwise commas."""
    return "\t" if plain_name(path).endswith(".tsv") else ","


def first_fields(path: File) -> list[str]:
    """Return the fields of the first line of a table that is not empty."""
    with open_unpacked(path) as stream:
        text = stream.read(CHUNK_BYTES).decode(errors="replace")
    with suppress(csv.Error):
        return next(filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=separator_of(path))), [])
    return []


def read_chunks(stream: BinaryIO, where: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield CSV text in chunks of whole rows below the names of the columns, each with the lines left out before it.

    Rows end at line ends outside of double quotes. DataError has the line of a row that is longer than `LONGEST_ROW`.
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


def parse_rows(
    content: bytes, path: File, types: Mapping[str, Any], lines_before: int = 0, *, infer: bool = True
) -> "pl.DataFrame":
    """Return the rows of text whose first line names the columns; `types` are those of some of them.

    With `infer`, other columns have the types of all their values; without, they are text. `lines_before` is the number
    of lines of the file that are left out of `content`.

    Raises:
        DataError: other separators, spaces after them, another encoding, or a row with too many fields; the message
            names line and remedy.
        ValueError, polars.exceptions.PolarsError: other damage.
    """
    separator = separator_of(path)
    try:
        _require_columns(content, separator, path)
        # A word may first occur in the last line.
        length = None if infer else 0
        return pl.read_csv(content, separator=separator, infer_schema_length=length, schema_overrides=types)
    except pl.exceptions.PolarsError:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = lines_before + content.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{path}, line {line}: found the byte 0x{content[error.start]:02x}, expected text in UTF-8: save the "
                "file as UTF-8, or convert it by iconv"
            ) from None
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        with suppress(csv.Error):
            width = len(next(rows, []))
            for row in rows:
                if len(row) > width:
                    raise DataError(
                        f"{path}, line {lines_before + rows.line_num}: found {len(row)} fields, expected {width} as in "
                        "the first line: write numbers with a decimal point, and put names with "
                        f"{_SEPARATORS[separator]} in double quotes"
                    ) from None
        if content.count(b'"') % 2:
            line = lines_before + content.count(b"\n", 0, _end_of_rows(content)) + 1
            raise DataError(
                f"{path}, line {line}: found a double quote that nothing closes; expected an even number in every row: "
                "close it, or remove it"
            ) from None
        raise


def _require_columns(content: bytes, separator: str, path: File) -> None:
    """Raise ValueError or DataError if the first line that is not empty has other separators, or a name twice."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    try:
        names = next(filter(None, csv.reader(lines, delimiter=separator)), [])
    except csv.Error:
        return
    # The reader would rename the second of two columns; those without a name are indexes, or empty.
    if (twice := repeated(list(filter(None, names)))) is not None:
        raise ValueError(f"the column {quoted(twice)} occurs twice in the first line, which names the columns")
    expected = _SEPARATORS[separator]
    # Other separators than the usual ones are looked for where none of these is: names may contain them.
    for separators in (_SEPARATORS, _OTHER_SEPARATORS) if len(names) == 1 else ():
        if (found := max(separators, key=names[0].count)) in names[0]:
            other = {"\t": ", or name it .tsv", ",": ", or name it .csv"}.get(found, "")
            raise DataError(
                f"{path}, line 1: found {separators[found]} between the columns "
                f"({shortened(names[0], LONGEST_VALUE)!r}), expected {expected}: write the file with {expected} and "
                f"decimal points{other}"
            )
    if len(names) > 1 and all(name.startswith(" ") for name in names[1:]):
        raise DataError(
            f"{path}, line 1: found spaces after the {expected} ({quoted(names[1])}), expected none: remove them"
        )


def checksum(stream: BinaryIO, algorithm: str, *, any_ends: bool) -> str:
    """Return the checksum of a stream's content in hexadecimal digits; with `any_ends`, CRLF counts as LF."""
    # Publishers give md5; it guards against damage here, not against an adversary.
    digest, held = hashlib.new(algorithm, usedforsecurity=False), b""
    while data := stream.read(2**20):
        data = held + data
        # A carriage return at the end of a block may be the first half of a CRLF.
        held = b"\r" if any_ends and data.endswith(b"\r") else b""
        data = data[: len(data) - len(held)]
        digest.update(data.replace(b"\r\n", b"\n") if any_ends else data)
    digest.update(held)
    return digest.hexdigest()
