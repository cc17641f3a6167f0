"""Read members of .zip and .rar archives as byte streams; nothing is ever unpacked to disk.

The format is detected from the first bytes, not from the file's name. RAR is read with libarchive, or with Debian's
`unar` if libarchive is missing or fails (solid RAR4); a zip with `zipfile`, because libarchive does not show the places
of members, by which those that share bytes are found. An archive is refused as a whole if a name points outside, is
malformed or occurs twice, if it holds links, if members overlap, or if sizes (declared or read) exceed the limits.
"""

import ctypes
import io
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from rankbound.errors import DataError
from rankbound.io.text_files import BlockStream

ARCHIVE_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"Rar!\x1a\x07\x00", b"Rar!\x1a\x07\x01\x00")
"""The first bytes of .zip and .rar archives."""

MOST_MEMBERS, MEMBER_BYTES, TOTAL_BYTES = 50_000, 2 * 2**30, 16 * 2**30
"""Limits of an archive: number of members, bytes of one member, bytes of all."""

MAXIMUM_NAME_LENGTH = 1024
LISTING_SECONDS = 120
_BUFFER_BYTES = 2**17
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LOCAL_HEADER_BYTES = 30
_PLACE_OF_SIZE = 5  # the place of the directory's size in a zip's end record

_DIRECTORY_BYTES = 8 * 2**20  # a member takes its name and about 60 bytes in the directory
_OUTSIDE = re.compile(r"^/|^[A-Za-z]:|(^|/)\.\.(/|$)")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)


@dataclass(frozen=True)
class Member:
    """An entry of an archive: path with forward slashes, declared bytes, and whether it is a file, folder or link."""

    name: str
    size: int
    kind: str
    encrypted: bool = False


def readers() -> list[str]:
    """Return the names of the readers of .rar archives that are installed."""
    programs = all(map(shutil.which, ("lsar", "unar")))
    return [*(["libarchive"] if _import_libarchive() else []), *(["unar"] if programs else [])]


def list_members(path: str | os.PathLike[str]) -> list[Member]:
    """Return the regular files of an archive, in its order, after every check that needs no content.

    Raises DataError if the file is not an archive, is damaged, or breaks a rule of this module.
    """
    if _is_zip(path):
        members = _list_zip(path)
    else:
        try:
            with _libarchive_entries(path) as entries:
                members = list(map(_libarchive_member, entries))
        except OSError as error:
            members = [member for _, member in _run_lsar(path, error)]
    if len(members) > MOST_MEMBERS:
        raise _refused(path, f"it has {len(members)} members, more than {MOST_MEMBERS}")
    seen: set[str] = set()
    for member in members:
        name, size = member.name, member.size
        # No control characters, and no marks that make a name look like another one.
        malformed = not name or len(name) > MAXIMUM_NAME_LENGTH or not name.isprintable()
        for is_wrong, reason in (
            (malformed, f"a member has the malformed name {name[:80]!r}"),
            (_OUTSIDE.search(name), f"member {name!r} points outside the archive"),
            (member.kind == "link", f"member {name!r} is a link"),
            (member.encrypted, f"member {name!r} is encrypted"),
            (
                not 0 <= size <= MEMBER_BYTES,
                f"member {name!r} has {size} bytes, more than {MEMBER_BYTES}",
            ),
            (name in seen, f"member {name!r} occurs twice"),
        ):
            if is_wrong:
                raise _refused(path, reason)
        seen.add(name)
    total = sum(member.size for member in members)
    if total > TOTAL_BYTES:
        raise _refused(path, f"its members add up to {total} bytes, more than {TOTAL_BYTES}")
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
def open_member(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    """Open the member of that exact name as a stream of bytes, after repeating the checks of `list_members`.

    Reading raises DataError if the archive is damaged or yields another number of bytes than declared. (The RAR readers
    do not verify checksums; `rankbound_study.data.sources` checks the content.)
    """
    # A member that is not read to its end is closed here, too.
    with closing(_contents(path, [name])) as contents:
        yield io.BufferedReader(BlockStream(next(contents)[1]), _BUFFER_BYTES)


def read_members(path: str | os.PathLike[str], names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each of these members with its whole content, in that order; the archive is checked once.

    Raises DataError as `open_member` does.
    """
    for name, blocks in _contents(path, names):
        yield name, b"".join(blocks)


def _is_zip(path: str | os.PathLike[str]) -> bool:
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not start.startswith(ARCHIVE_STARTS):
        raise DataError(
            f"{path}: neither a .zip nor a .rar archive: it begins with {start!r}; "
            "perhaps an error page was saved instead: delete it and fetch it again"
        )
    return start.startswith(b"PK")


def _refused(path: str | os.PathLike[str], reason: str) -> DataError:
    return DataError(f"{path}: archive refused: {reason}; fetch it again from its publisher")


def _damaged(path: str | os.PathLike[str], error: object, more: str = "") -> DataError:
    return DataError(
        f"{path}: cannot be unpacked ({error}{'; ' + more if more else ''}): it may be truncated or damaged, so "
        "fetch it again; if it opens elsewhere, unpack it by hand and pack the same files into a .zip"
    )


def _list_zip(path: str | os.PathLike[str]) -> list[Member]:
    try:
        # ZipFile reads the whole directory, whatever its declared size: that is checked first, by its own reader.
        with Path(path).open("rb") as file:
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        size = end[_PLACE_OF_SIZE] if end else 0
        if size > _DIRECTORY_BYTES:
            raise _refused(path, f"its directory has {size} bytes, more than {_DIRECTORY_BYTES}")
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    ordered = sorted(infos, key=lambda info: info.header_offset)
    # This is how a bomb of a few kilobytes works.
    for info, following in pairwise(ordered):
        end = info.header_offset + _LOCAL_HEADER_BYTES + len(info.orig_filename) + info.compress_size
        if end > following.header_offset:
            raise _refused(path, f"members {info.orig_filename!r} and {following.orig_filename!r} overlap")
    for info in ordered:
        if info.compress_type not in _METHODS:
            method = f"packed by method {info.compress_type}; expected stored or deflated"
            raise _refused(path, f"member {info.orig_filename!r} is {method}")
    return list(map(_zip_member, infos))


def _zip_member(info: zipfile.ZipInfo) -> Member:
    # `orig_filename` keeps a NUL, at which `filename` is cut.
    name = info.orig_filename.replace("\\", "/")
    is_link = stat.S_ISLNK(info.external_attr >> 16)
    kind = "link" if is_link else "folder" if name.endswith("/") else "file"
    return Member(name, info.file_size, kind, bool(info.flag_bits & _ENCRYPTED))


def _contents(path: str | os.PathLike[str], names: Iterable[str]) -> Generator[tuple[str, Iterator[bytes]], None, None]:
    """Yield each of these members with its blocks, after the checks of `list_members`."""
    sizes = {member.name: member.size for member in list_members(path)}
    with ExitStack() as stack:
        infos: dict[str, zipfile.ZipInfo] | None = None
        if _is_zip(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            infos = {_zip_member(info).name: info for info in archive.infolist()}

        def blocks_of(name: str) -> Generator[bytes, None, None]:
            """Yield blocks of the declared size in all; any damage is a DataError."""
            count, where = 0, f"{path}: member {name!r}"
            try:
                for block in _rar_blocks(path, name) if infos is None else _zip_blocks(archive, infos[name]):
                    count += len(block)
                    if count > sizes[name]:
                        break
                    yield block
            except _DAMAGE as error:
                raise _damaged(where, error) from error
            if count != sizes[name]:
                raise _damaged(where, f"read {count} bytes, but it declares {sizes[name]}")

        for name in names:
            if name not in sizes:
                raise DataError(f"{path}: there is no member {name!r}")
            # A member that is not read to its end keeps the archive open.
            with closing(blocks_of(name)) as blocks:
                yield name, blocks


def _zip_blocks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as stream:
        yield from iter(partial(stream.read, _BUFFER_BYTES), b"")


def _rar_blocks(path: str | os.PathLike[str], name: str) -> Iterator[bytes]:
    """Yield the content of the member of that name; OSError or DataError if neither reader can read it."""
    has_started = False
    try:
        with _libarchive_entries(path) as entries:
            for block in next(entry for entry in entries if _libarchive_member(entry).name == name).get_blocks():
                has_started = True
                yield block
            return
    except OSError as error:
        # libarchive opens archives that it cannot decompress.
        if has_started:
            raise
        # By index, not by name: unar reads a name as a pattern.
        index = next(index for index, member in _run_lsar(path, error) if member.name == name)
    command = ["unar", "-quiet", "-output-directory", "-", "-indexes", os.fspath(path), str(index)]
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, stdin=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            with process.stdout as stdout:
                yield from iter(partial(stdout.read, _BUFFER_BYTES), b"")
                if process.wait() != 0:
                    messages.seek(0)
                    text = messages.read(500).decode(errors="replace").strip()
                    raise OSError(f"unar ended with status {process.returncode}: {text}")
        finally:
            process.kill()
            process.wait()


def _import_libarchive() -> ModuleType | None:
    try:
        import libarchive
    except (ImportError, OSError, AttributeError, TypeError):
        # The Python binding fails in any of these ways if the system's library is missing or too old.
        return None
    return libarchive if isinstance(libarchive, ModuleType) else None


@contextmanager
def _libarchive_entries(path: str | os.PathLike[str]) -> Iterator[Iterable[Any]]:
    """Yield the entries of an archive; OSError if libarchive is missing or fails."""
    libarchive = _import_libarchive()
    if libarchive is None:
        raise OSError("libarchive is not installed")
    try:
        with libarchive.file_reader(os.fspath(path)) as entries:
            yield entries
    except libarchive.ArchiveError as error:
        raise OSError(str(error)) from error


def _libarchive_member(entry: Any) -> Member:
    from libarchive.ffi import libarchive  # type: ignore[import-untyped,unused-ignore]

    is_link = entry.islnk or not (entry.isfile or entry.isdir)
    kind = "link" if is_link else "folder" if entry.isdir else "file"
    # The binding has no function for this.
    encrypted = bool(libarchive.archive_entry_is_data_encrypted(ctypes.c_void_p(entry._entry_p)))
    # Bytes if it is not text; None if the archive has no name for it.
    name = os.fsdecode(entry.pathname or "").replace("\\", "/")
    return Member(name, int(entry.size or 0), kind, encrypted)


def _run_lsar(path: str | os.PathLike[str], reason: object) -> list[tuple[int, Member]]:
    """Return unar's number of each entry, and the entry; `reason` says why libarchive did not read it."""
    if "unar" not in readers():
        raise _damaged(path, reason, "no second reader: `unar` is not installed")
    command = ["lsar", "-j", os.fspath(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=LISTING_SECONDS)
        entries: list[dict[str, Any]] = json.loads(done.stdout)["lsarContents"]
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        raise _damaged(path, f"lsar: {error}") from error
    found = []
    for entry in entries:
        is_link = entry.get("XADIsLink") or entry.get("XADLinkDestination")
        kind = "link" if is_link else "folder" if entry.get("XADIsDirectory") else "file"
        name, size = str(entry["XADFileName"]).replace("\\", "/"), int(entry.get("XADFileSize", 0))
        found.append((entry["XADIndex"], Member(name, size, kind, bool(entry.get("XADIsEncrypted")))))
    return found
