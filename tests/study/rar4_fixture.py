"""Write a small RAR 2.9/3.x ("RAR4") archive whose members are stored, not compressed (method m0)."""

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

_SIGNATURE = b"Rar!\x1a\x07\x00"
_ARCHIVE, _FILE, _END = 0x73, 0x74, 0x7B
_LONG_BLOCK, _SKIP_IF_UNKNOWN = 0x8000, 0x4000
_DOS_TIME_2010 = (2010 - 1980) << 25 | 1 << 21 | 1 << 16
_UNIX, _VERSION, _STORED = 3, 29, 0x30
REGULAR, LINK = 0o100644, 0o120777


def make_rar(path: Path, members: Mapping[str, bytes], modes: Mapping[str, int] | None = None) -> Path:
    """Write `members` (path with slashes -> content); `modes` gives other Unix modes than a regular file's."""
    with path.open("wb") as file:
        file.write(_SIGNATURE + _header(_ARCHIVE, 0, b"\0" * 6))
        for name, data in members.items():
            mode = (modes or {}).get(name, REGULAR)
            file.write(_header(_FILE, _LONG_BLOCK, _member(name.replace("/", "\\").encode("ascii"), data, mode)))
            file.write(data)
        file.write(_header(_END, _SKIP_IF_UNKNOWN, b""))
    return path


def _member(name: bytes, data: bytes, mode: int) -> bytes:
    size, checksum = len(data), zlib.crc32(data)
    fixed = (size, size, _UNIX, checksum, _DOS_TIME_2010, _VERSION, _STORED, len(name), mode)
    return struct.pack("<IIBIIBBHI", *fixed) + name


def _header(kind: int, flags: int, body: bytes) -> bytes:
    raw = struct.pack("<BHH", kind, flags, 7 + len(body)) + body
    return struct.pack("<H", zlib.crc32(raw) & 0xFFFF) + raw
