"""Read members of .zip and .rar archives as byte streams; nothing is ever unpacked to disk.

The format is detected from the first bytes, not from the file's name. RAR is read with libarchive, or with Debian's
`unar` if libarchive is missing or fails (solid RAR4). An archive is refused as a whole if a name points outside, is
malformed or occurs twice, if it holds links, if members overlap, or if sizes (declared or read) exceed the limits.
"""

import io
import os
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from rankbound.errors import DataError
from rankbound.io.text_files import BlockStream
from rankbound_study.data import rar
from rankbound_study.data.rar import Member

ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
RAR_STARTS = (b"Rar!\x1a\x07\x00", b"Rar!\x1a\x07\x01\x00")
MAXIMUM_NAME_LENGTH = 1024
_BUFFER_BYTES = 2**17
_LINK_MODE, _MODE_MASK, _ENCRYPTED = 0o120000, 0o170000, 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A zip's end record: signature, numbers of disks and members, size and offset of its directory, size of a comment.
_END, _END_64, _LOCATOR_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_END_MARK, _END_64_MARK, _LONGEST_COMMENT = b"PK\5\6", b"PK\6\6", 2**16
_LOCAL_HEADER_BYTES = 30
# A member takes its name and about 60 bytes in the directory; this allows plenty on average.
_DIRECTORY_BYTES, _SMALLEST_DIRECTORY = 512, 2**16
_OUTSIDE = re.compile(r"^/|^[A-Za-z]:|(^|/)\.\.(/|$)")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)


@dataclass(frozen=True)
class Limits:
    """Limits of an archive: number of members, bytes of one member, bytes of all."""

    members: int = 10_000
    member_bytes: int = 2 * 2**30
    total_bytes: int = 8 * 2**30


def list_members(path: str | os.PathLike[str], limits: Limits | None = None) -> list[Member]:
    """Return the regular files of an archive, in its order, after every check that needs no content.

    Raises DataError if the file is not an archive, is damaged, or breaks a rule of this module.
    """
    limits = limits or Limits()
    members = _list_zip(path, limits) if _is_zip(path) else rar.list_members(path)
    if len(members) > limits.members:
        raise _refused(path, f"it has {len(members)} members, more than {limits.members}")
    seen: dict[str, str] = {}
    for member in members:
        _check_member(path, member, limits)
        _check_name_is_new(path, member.name, seen)
    total = sum(member.size for member in members)
    if total > limits.total_bytes:
        raise _refused(path, f"its members add up to {total} bytes, more than {limits.total_bytes}")
    return [member for member in members if member.kind == "file"]


def find_member(members: Sequence[Member], wanted: str, path: str | os.PathLike[str]) -> str:
    """Return the one member whose path ends in `wanted` (whole path parts); DataError if there is none or several."""
    matches = [member.name for member in members if f"/{member.name}".endswith(f"/{wanted}")]
    if len(matches) != 1:
        shown = ", ".join(matches or [member.name for member in members][:8]) or "nothing"
        raise DataError(
            f"{path}: expected exactly one member {wanted!r}, found {len(matches)}; the archive has {shown}: "
            "check that this is the right file and that it is complete"
        )
    return matches[0]


@contextmanager
def open_member(path: str | os.PathLike[str], name: str, limits: Limits | None = None) -> Iterator[BinaryIO]:
    """Open the member of that exact name as a stream of bytes, after repeating the checks of `list_members`.

    Reading raises DataError if the archive is damaged or yields another number of bytes than declared. (The RAR readers
    do not verify checksums; `rankbound_study.data.sources` checks the content.)
    """
    with _checked_members(path, limits) as blocks_of:
        yield io.BufferedReader(BlockStream(blocks_of(name)), _BUFFER_BYTES)


def read_members(
    path: str | os.PathLike[str], names: Iterable[str], limits: Limits | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield each of these members with its whole content, in that order; the archive is checked once.

    Raises DataError as `open_member` does.
    """
    with _checked_members(path, limits) as blocks_of:
        for name in names:
            yield name, b"".join(blocks_of(name))


def _is_zip(path: str | os.PathLike[str]) -> bool:
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not start.startswith(ZIP_STARTS + RAR_STARTS):
        raise DataError(
            f"{path}: neither a .zip nor a .rar archive: it begins with {start!r}; "
            "perhaps an error page was saved instead: delete it and fetch it again"
        )
    return start.startswith(ZIP_STARTS)


def _check_member(path: str | os.PathLike[str], member: Member, limits: Limits) -> None:
    name = member.name
    # No control characters, and no marks that make a name look like another one.
    if not name or len(name) > MAXIMUM_NAME_LENGTH or not name.isprintable():
        raise _refused(path, f"a member has the malformed name {name[:80]!r}")
    if _OUTSIDE.search(name):
        raise _refused(path, f"member {name!r} points outside the archive")
    if member.kind == "link":
        raise _refused(path, f"member {name!r} is a link")
    if member.encrypted:
        raise _refused(path, f"member {name!r} is encrypted")
    if not 0 <= member.size <= limits.member_bytes:
        raise _refused(path, f"member {name!r} has {member.size} bytes, more than {limits.member_bytes}")


def _check_name_is_new(path: str | os.PathLike[str], name: str, seen: dict[str, str]) -> None:
    """Refuse names that differ only in case or accent encoding: on some disks they are one file."""
    other = seen.setdefault(unicodedata.normalize("NFC", name).casefold().rstrip("/"), name)
    if other is not name:
        how = "occurs twice" if other == name else f"is the same file as {other!r} on some disks"
        raise _refused(path, f"member {name!r} {how}")


def _refused(path: str | os.PathLike[str], reason: str) -> DataError:
    return DataError(f"{path}: archive refused: {reason}; fetch it again from its publisher")


def _list_zip(path: str | os.PathLike[str], limits: Limits) -> list[Member]:
    try:
        # ZipFile reads the whole directory, whatever its declared size, so check that first.
        size = _directory_bytes(path)
        if size > max(_SMALLEST_DIRECTORY, _DIRECTORY_BYTES * limits.members):
            raise _refused(path, f"its directory has {size} bytes, too many for {limits.members} members")
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except _DAMAGE as error:
        raise rar.damaged(path, error) from error
    _check_layout(path, infos)
    return [_zip_member(info) for info in infos]


def _directory_bytes(path: str | os.PathLike[str]) -> int:
    """Return the size of a zip's directory, from the 64-bit end record if present, else from the plain one."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_COMMENT - _END.size - _LOCATOR_64.size - _END_64.size))
        tail = file.read()
    place = len(tail) - _END.size
    if not tail[max(place, 0) :].startswith(_END_MARK):
        place = tail.rfind(_END_MARK)
    if place < 0 or place + _END.size > len(tail):
        return 0
    large = place - _LOCATOR_64.size - _END_64.size
    if large >= 0 and tail[large:].startswith(_END_64_MARK):
        return int(_END_64.unpack_from(tail, large)[8])
    return int(_END.unpack_from(tail, place)[5])


def _check_layout(path: str | os.PathLike[str], infos: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse members that share bytes: this is how a bomb of a few kilobytes works."""
    infos = sorted(infos, key=lambda info: info.header_offset)
    for info, following in pairwise(infos):
        end = info.header_offset + _LOCAL_HEADER_BYTES + len(info.orig_filename) + info.compress_size
        if end > following.header_offset:
            raise _refused(path, f"members {info.orig_filename!r} and {following.orig_filename!r} overlap")
    for info in infos:
        if info.compress_type not in _METHODS:
            raise _refused(
                path,
                f"member {info.orig_filename!r} is packed by method {info.compress_type}; expected stored or deflated",
            )


def _zip_member(info: zipfile.ZipInfo) -> Member:
    is_link = (info.external_attr >> 16) & _MODE_MASK == _LINK_MODE
    # `orig_filename` keeps a NUL, at which `filename` is cut.
    name = info.orig_filename.replace("\\", "/")
    kind = "link" if is_link else "folder" if name.endswith("/") else "file"
    return Member(name, info.file_size, kind, bool(info.flag_bits & _ENCRYPTED))


@contextmanager
def _checked_members(path: str | os.PathLike[str], limits: Limits | None) -> Iterator[Callable[[str], Iterator[bytes]]]:
    """Yield a function that reads a member by name, block by block, after the checks of `list_members`."""
    sizes = {member.name: member.size for member in list_members(path, limits)}
    with ExitStack() as stack:
        if _is_zip(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            infos = {_zip_member(info).name: info for info in archive.infolist()}

        def blocks_of(name: str) -> Iterator[bytes]:
            if name not in sizes:
                raise DataError(f"{path}: there is no member {name!r}")
            blocks = _zip_blocks(archive, infos[name]) if _is_zip(path) else rar.member_blocks(path, name)
            checked = _checked_blocks(blocks, f"{path}: member {name!r}", sizes[name])
            # A member that is not read to its end keeps the archive open.
            stack.callback(checked.close)
            return checked

        yield blocks_of


def _zip_blocks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as stream:
        yield from iter(partial(stream.read, _BUFFER_BYTES), b"")


def _checked_blocks(blocks: Iterator[bytes], where: str, size: int) -> Generator[bytes, None, None]:
    """Yield blocks that must have `size` bytes in all; any damage is a DataError."""
    count = 0
    try:
        for block in blocks:
            count += len(block)
            if count > size:
                break
            yield block
    except _DAMAGE as error:
        raise rar.damaged(where, error) from error
    if count != size:
        raise rar.damaged(where, f"read {count} bytes, but it declares {size}")
