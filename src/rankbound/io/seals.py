"""Seal files with the SHA-256 of their own bytes, to detect damage before anything is computed from them.

A seal is a text in the file's metadata: a mark and the 64 hexadecimal digits of the checksum, computed with zeros in
place of the digits. A seal covers the whole file; parquet's page checksums and safetensors' lengths leave out the
header. Files without a seal, written by other programs, are not checked.
"""

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from rankbound.errors import DataError

KEY = "rankbound.seal"
"""The metadata key of the seal."""

_MARK = "rankbound-sha256:"
_DIGITS = 64
UNSEALED = _MARK + "0" * _DIGITS
"""The placeholder that a writer puts into the metadata; `seal` fills it in."""

_PARQUET = b"PAR1"
_BLOCK_BYTES = 2**20
_LENGTH_BYTES = 8
# Longest header searched, in bytes; headers are usually kilobytes, and megabytes with the names of all documents.
_LONGEST_HEADER = 2**28


def seal(path: str | os.PathLike[str]) -> None:
    """Fill in the seal of a file written with `UNSEALED` in its metadata; ValueError without that placeholder."""
    with Path(path).open("rb+") as file:
        place = _find(file)
        if place is None:
            raise ValueError(f"{path}: there is no seal to fill in; write the file with {KEY}: {UNSEALED[:20]}...")
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)


def check_seal(path: str | os.PathLike[str], remedy: str = "delete it and run the step that makes it again") -> None:
    """Raise DataError if a file does not match its seal; missing and unsealed files pass."""
    try:
        state = Path(path).stat()
    except OSError:
        return
    damage = _damage(os.fspath(path), state.st_ino, state.st_size, state.st_mtime_ns)
    if damage:
        raise DataError(f"{path}: damaged: {damage}; {remedy} (if the disk is failing, check your other files, too)")


@lru_cache(maxsize=1024)
def _damage(path: str, inode: int, size: int, time: int) -> str:
    """Describe a file's corruption, if any; cached for unchanged files."""
    with Path(path).open("rb") as file:
        place = _find(file)
        if place is None:
            return ""
        file.seek(place)
        written, actual = file.read(_DIGITS), _digest(file, place)
    if written == actual:
        return ""
    return f"its bytes have the SHA-256 {actual.decode()[:16]}..., not {written.decode(errors='replace')[:16]}..."


def _find(file: BinaryIO) -> int | None:
    """Return the position of the seal's digits: near the end of a parquet file, at the start of a safetensors file."""
    start, header = _header(file)
    place = header.rfind(_MARK.encode())
    return None if place < 0 or place + len(UNSEALED) > len(header) else start + place + len(_MARK)


def _header(file: BinaryIO) -> tuple[int, bytes]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LENGTH_BYTES))
    end = file.read(_LENGTH_BYTES)
    if end.endswith(_PARQUET):
        length = int.from_bytes(end[:4], "little")
        start = max(0, size - _LENGTH_BYTES - min(length, _LONGEST_HEADER))
        file.seek(start)
        return start, file.read(size - _LENGTH_BYTES - start)
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    return _LENGTH_BYTES, file.read(length) if length <= min(size - _LENGTH_BYTES, _LONGEST_HEADER) else b""


def _digest(file: BinaryIO, place: int) -> bytes:
    digest = hashlib.sha256()
    for block in _blocks(file, 0, place):
        digest.update(block)
    digest.update(b"0" * _DIGITS)
    for block in _blocks(file, place + _DIGITS, None):
        digest.update(block)
    return digest.hexdigest().encode()


def _blocks(file: BinaryIO, start: int, stop: int | None) -> Iterable[bytes]:
    file.seek(start)
    while block := file.read(_BLOCK_BYTES if stop is None else min(_BLOCK_BYTES, stop - file.tell())):
        yield block
