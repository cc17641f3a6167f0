"""Open files that may be packed by gzip, within limits: a megabyte of it can become a gigabyte."""

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rankbound.errors import DataError

LARGEST_RATIO = 100
"""Times that a file may grow; tables and runs grow five- to thirtyfold."""

ALWAYS_ALLOWED = 2**28
"""Bytes that any file may become."""

_GZIP = b"\x1f\x8b"
# Zstandard and zlib, which polars would unpack without a limit.
_OTHERS = (b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
# Byte order marks.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_unpacked(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file as a stream of bytes, unpacked if its content is gzip, and without the byte order mark of UTF-8.

    Raises:
        DataError: it cannot be read, is packed otherwise or twice, is in UTF-16, or becomes too large.
    """
    try:
        with Path(path).open("rb") as file:
            _refuse_packed(file.peek(4), _OTHERS, path)
            if not file.peek(2).startswith(_GZIP):
                _refuse_utf_16(file.peek(2)[:2], path)
                _skip_mark(file)
                yield file
                return
            limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * os.fstat(file.fileno()).st_size)
            with gzip.GzipFile(fileobj=file) as packed:
                stream = io.BufferedReader(_Limited(packed, limit, path))
                _refuse_packed(stream.peek(4), (_GZIP, *_OTHERS), path)
                _refuse_utf_16(stream.peek(2)[:2], path)
                _skip_mark(stream)
                yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def read_unpacked(path: str | os.PathLike[str]) -> bytes:
    """Return the whole content of a file as `open_unpacked` reads it."""
    with open_unpacked(path) as stream:
        return stream.read()


def _refuse_packed(start: bytes, packed: tuple[bytes, ...], path: str | os.PathLike[str]) -> None:
    if start.startswith(packed):
        raise DataError(f"{path}: found packed content, expected text or gzip of text: unpack the file first")


def _refuse_utf_16(start: bytes, path: str | os.PathLike[str]) -> None:
    # Without a byte order mark, one of the first two bytes of ASCII text is 0.
    if start in _UTF_16 or start.count(0) == 1:
        raise DataError(
            f"{path}: found text in UTF-16, expected UTF-8: save the file as UTF-8, or convert it by "
            "iconv -f UTF-16 -t UTF-8"
        )


def _skip_mark(stream: "io.BufferedReader[Any]") -> None:
    if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))


class _Limited(io.RawIOBase):
    """A stream that refuses to yield more bytes than a limit."""

    def __init__(self, stream: gzip.GzipFile, limit: int, path: str | os.PathLike[str]) -> None:
        self._stream, self._left, self._limit, self._path = stream, limit, limit, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise DataError(
                f"{self._path}: unpacks to more than {self._limit / 2**20:.0f} MiB, {LARGEST_RATIO} times its size or "
                "more: if you trust the file, unpack it (`gunzip`) and read the result"
            )
        return count
