"""Cut CSV text into chunks of whole rows, each below the names of the columns, so that every chunk reads as a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from rankbound.errors import DataError

CHUNK_BYTES = 2**23
"""Bytes of text that are parsed at once."""

LONGEST_ROW = 2**26
"""Bytes of a row: after a double quote that nothing closes, the rest of a file would be one row."""


@dataclass(frozen=True)
class Chunk:
    """Rows of text below the names of the columns; `lines_before` lines of the file are left out."""

    text: bytes
    lines_before: int


def read_chunks(stream: BinaryIO, where: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield the text of a stream; rows end at line ends outside of double quotes.

    Raises:
        DataError: a row is longer than `LONGEST_ROW`; the message has its line.
    """
    names, held = _names(stream, where, chunk_bytes)
    lines_of_names = names.count(b"\n")
    line, is_first = lines_of_names, True
    while block := stream.read(chunk_bytes):
        held += block
        end = end_of_rows(held)
        if end:
            yield Chunk(names + held[:end], line - lines_of_names)
            line += held.count(b"\n", 0, end)
            held, is_first = held[end:], False
        _require_short(held, where, line)
    end = end_of_rows(held)
    _require_short(held[end:], where, line + held.count(b"\n", 0, end))
    if held or is_first:
        yield Chunk(names + held, line - lines_of_names)


def _names(stream: BinaryIO, where: str, chunk_bytes: int) -> tuple[bytes, bytes]:
    """Return the first row that is not empty, with the empty lines before it, and what was read beyond."""
    held = b""
    while block := stream.read(chunk_bytes):
        held += block
        if end := _first_end(held):
            return held[:end], held[end:]
        _require_short(held, where, 0)
    return held, b""


def _require_short(row: bytes, where: str, lines: int) -> None:
    if len(row) > LONGEST_ROW:
        raise DataError(
            f"{where}, line {lines + 1}: found a row of more than {LONGEST_ROW / 2**20:.0f} MiB: look for a double "
            "quote in it that nothing closes"
        )


def _first_end(text: bytes) -> int:
    """Return the place past the first row that is not empty; 0 if it does not end."""
    start = end = len(text) - len(text.lstrip(b"\r\n"))
    quotes = 0
    while (found := text.find(b"\n", end)) >= 0:
        quotes += text.count(b'"', end, found)
        if quotes % 2 == 0 and found > start:
            return found + 1
        end = found + 1
    return 0


def end_of_rows(text: bytes) -> int:
    """Return the place past the last row that ends; 0 if none does."""
    end = len(text)
    quotes = text.count(b'"')
    while (found := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', found, end)
        if quotes % 2 == 0:
            return found + 1
        end = found
    return 0
