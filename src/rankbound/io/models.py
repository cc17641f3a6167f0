"""Files of models and tables that carry their own checksum: parquet and safetensors, refused if they are damaged.

A *seal* is a text in the file's metadata: a mark and the 64 hexadecimal digits of a SHA-256, computed over the whole
file with zeros in place of the digits. It covers the header, too, which parquet's page checksums and safetensors'
lengths leave out. Files without a seal, written by other programs, are not checked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.errors import DataError
from rankbound.io.atomic import File, atomic_path
from rankbound.lazy import pa, pq

if TYPE_CHECKING:
    from torch import Tensor

KEY = "rankbound.seal"
"""The metadata key of the seal."""

_MARK = b"rankbound-sha256:"
_DIGITS = 64
UNSEALED = _MARK.decode() + "0" * _DIGITS
"""The placeholder that a writer puts into the metadata; `seal` fills it in."""

_BLOCK_BYTES = 2**20
_LENGTH_BYTES = 8
# Longest header searched, in bytes; headers are usually kilobytes, and megabytes with the names of all documents.
_LONGEST_HEADER = 2**28
_PLACE_BYTES = 4


def seal(path: File) -> None:
    """Fill in the seal of a file written with `UNSEALED` in its metadata; ValueError without that placeholder."""
    place, _, digest = _seal_of(path)
    if place is None:
        raise ValueError(f"{path}: there is no seal to fill in; write the file with {KEY}: {UNSEALED[:20]}...")
    with Path(path).open("rb+") as file:
        file.seek(place)
        file.write(digest)


def check_seal(path: File, remedy: str = "delete it and run the step that makes it again") -> None:
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
    place, written, actual = _seal_of(path)
    if place is None or written == actual:
        return ""
    return f"its bytes have the SHA-256 {actual.decode()[:16]}..., not {written.decode(errors='replace')[:16]}..."


def _seal_of(path: File) -> tuple[int | None, bytes, bytes]:
    """Return the position of the seal's digits (None without a seal), the digits, and those of the actual checksum."""
    with Path(path).open("rb") as file:

        def read(start: int, length: int) -> bytes:
            file.seek(start)
            return file.read(length)

        # Parquet ends with its header, the header's length in four bytes, and its name; safetensors begins with the
        # length in eight bytes.
        size = file.seek(0, os.SEEK_END)
        end, most = read(max(0, size - _LENGTH_BYTES), _LENGTH_BYTES), min(size - _LENGTH_BYTES, _LONGEST_HEADER)
        start, length = _LENGTH_BYTES, int.from_bytes(read(0, _LENGTH_BYTES), "little")
        if end.endswith(b"PAR1"):
            length = max(0, min(int.from_bytes(end[:4], "little"), most))
            start = max(0, size - _LENGTH_BYTES - length)
        header = read(start, length) if length <= most else b""
        found = header.rfind(_MARK) + len(_MARK)
        written = header[found : found + _DIGITS]
        if found < len(_MARK) or len(written) < _DIGITS:
            return None, b"", b""
        place, digest = start + found, hashlib.sha256()
        for first, last in ((0, place), (place + _DIGITS, size)):
            file.seek(first)
            while block := file.read(min(last - file.tell(), _BLOCK_BYTES)):
                digest.update(block)
            digest.update(b"0" * _DIGITS if first == 0 else b"")
        return place, written, digest.hexdigest().encode()


def damage() -> tuple[type[Exception], ...]:
    """Return what libraries raise for damaged files."""
    # ValueError: names and texts that are not UTF-8, and invalid sizes.
    return pa.ArrowException, OSError, ValueError, MemoryError


def open_parquet(path: File) -> pq.ParquetFile:
    """Open a file; DataError if it is missing, does not match the seal that it may have, or is not parquet."""
    with readable(path):
        check_seal(path)
        return pq.ParquetFile(path, memory_map=False)


@contextmanager
def readable(path: File, kind: str = "parquet") -> Iterator[None]:
    """Turn what libraries raise for a file that is missing or damaged into a DataError with the remedy."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the step that makes it first") from error
    except damage() as error:
        raise unreadable(path, error, kind) from error


def check_memory(file: pq.ParquetFile, path: File) -> None:
    """Raise DataError for a table larger than this machine's memory: a constant column takes no space in a file."""
    # Only rows and types are used: with a damaged footer, Arrow's column metadata may end the process.
    size, memory = 0, memory_bytes()
    for column in file.schema_arrow:
        try:
            size += file.metadata.num_rows * int(column.type.byte_width)
        except ValueError:
            # Text and lists take an offset at least.
            size += file.metadata.num_rows * _PLACE_BYTES
    if not 0 <= size <= memory:
        raise DataError(
            f"{path}: its {file.metadata.num_rows} rows take {size / 2**30:.0f} GiB at least, and this machine has "
            f"{memory / 2**30:.0f}; if that size is implausible, the file is damaged: delete it and run the step that "
            "makes it again"
        )


def memory_bytes() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count_nulls(column: pa.ChunkedArray) -> int:
    """Return the number of nulls in a column, including those inside its lists."""
    nulls: int = column.null_count
    while nulls == 0 and (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        nulls = column.null_count
    return nulls


def unreadable(path: File, error: Exception, kind: str = "parquet") -> DataError:
    """Return the error for a file that Arrow cannot read."""
    reason = str(error).split(". ")[0]
    return DataError(
        f"{path}: not a readable {kind} file ({reason}); it may be cut off or damaged: "
        "delete it and run the step that makes it again"
    )


def write_tensors(tensors: Mapping[str, Tensor], path: Path, note: str = "") -> None:
    """Write named tensors, with a note on their origin."""
    write_sealed(tensors, path, {KEY: f"{UNSEALED} {note}".strip()})


def write_sealed(tensors: Mapping[str, Tensor], path: File, metadata: dict[str, str]) -> None:
    """Write named tensors; `metadata` has one key, whose text contains `UNSEALED`.

    safetensors writes several keys in varying order, so there is only one. The bytes are written here because
    `save_file` replaces the temporary file, which would release its lock.
    """
    from safetensors.torch import save

    with atomic_path(path) as temporary:
        temporary.write_bytes(save(dict(tensors), metadata))
        seal(temporary)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file, on the CPU; DataError if it is missing, damaged, or of another format."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_seal(path)
    with readable(path, "safetensors"):
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(str(error)) from error
