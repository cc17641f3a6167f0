"""Files that carry the SHA-256 of their own bytes, so that damage is found before anything is computed from it.

A seal is a text in a file's own metadata: a mark and 64 digits, of the file's bytes with zeros in the digits' place.
Neither the checksums of pages that parquet offers nor safetensors' lengths cover a file's header; a seal covers all.
A file without one, which another program wrote, is taken as it is.
"""

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from rankbound.errors import DataError

KEY = "rankbound.seal"
"""The key of the metadata that holds it."""

_MARK = "rankbound-sha256:"
_DIGITS = 64
UNSEALED = _MARK + "0" * _DIGITS
"""What a writer puts into the metadata; `seal` fills it in."""

_PARQUET = b"PAR1"
_BLOCK_BYTES = 2**20
_LENGTH_BYTES = 8
# Of the headers that are searched; those of our files have some kilobytes, with the names of all documents megabytes.
_LONGEST_HEADER = 2**28


def seal(path: str | os.PathLike[str]) -> None:
    """Fill in the seal of a file that was written with `UNSEALED` in its metadata; ValueError if it is not there."""
    with Path(path).open("rb+") as file:
        place = _find(file)
        if place is None:
            raise ValueError(f"{path}: there is no seal to fill in: write it with {KEY}: {UNSEALED[:20]}...")
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)


def check_seal(path: str | os.PathLike[str], remedy: str = "delete it and run the step that makes it again") -> None:
    """Raise DataError if a file's bytes are not those that were sealed. A file that is not there has no seal."""
    try:
        state = Path(path).stat()
    except OSError:
        return
    found = _check(os.fspath(path), state.st_ino, state.st_size, state.st_mtime_ns)
    if found:
        raise DataError(f"{path}: damaged: {found}; {remedy} (if the disk is failing, this will not be the only file)")


@lru_cache(maxsize=1024)
def _check(path: str, inode: int, size: int, time: int) -> str:
    """What is wrong with the bytes of a file; of one that stays as it is, once in a process."""
    with Path(path).open("rb") as file:
        place = _find(file)
        if place is None:
            return ""
        file.seek(place)
        written, found = file.read(_DIGITS), _digest(file, place)
    if written == found:
        return ""
    return f"its bytes have the SHA-256 {found.decode()[:16]}..., not {written.decode(errors='replace')[:16]}..."


def _find(file: BinaryIO) -> int | None:
    """Where the digits of the seal are: in the last bytes of a parquet file, in the first of a safetensors file."""
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
