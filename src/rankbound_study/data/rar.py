"""Read .rar archives with libarchive, or with the `unar` and `lsar` programs if it fails."""

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any

from rankbound.errors import DataError

LISTING_SECONDS = 120
_BUFFER_BYTES = 2**17


@dataclass(frozen=True)
class Member:
    """An entry of an archive: path with forward slashes, declared bytes, and whether it is a file, folder or link."""

    name: str
    size: int
    kind: str
    encrypted: bool = False


def readers() -> list[str]:
    """Return the names of the readers that are installed."""
    programs = all(shutil.which(name) for name in ("lsar", "unar"))
    return [*(["libarchive"] if _import_libarchive() else []), *(["unar"] if programs else [])]


def list_members(path: str | os.PathLike[str]) -> list[Member]:
    """Return all entries of a .rar; DataError, with what to do by hand, if neither reader can read it."""
    libarchive = _import_libarchive()
    reason: object = "libarchive is not installed"
    if libarchive is not None:
        try:
            with libarchive.file_reader(os.fspath(path)) as archive:
                return [_libarchive_member(entry, libarchive) for entry in archive]
        except libarchive.ArchiveError as error:
            reason = error
    if shutil.which("lsar") is None:
        raise damaged(path, reason, "no second reader: `unar` is not installed")
    return [_lsar_member(entry) for entry in _run_lsar(path)]


def member_blocks(path: str | os.PathLike[str], name: str) -> Iterator[bytes]:
    """Yield the content of the member of that name; OSError or DataError if neither reader can read it."""
    libarchive = _import_libarchive()
    reason: object = "libarchive is not installed"
    if libarchive is not None:
        try:
            blocks = _libarchive_blocks(libarchive, path, name)
            # Read the first block here: libarchive opens archives that it cannot decompress.
            first = next(blocks, b"")
        except libarchive.ArchiveError as error:
            reason = error
        else:
            try:
                yield from chain([first], blocks)
            except libarchive.ArchiveError as error:
                raise OSError(str(error)) from error
            return
    if shutil.which("unar") is None:
        raise damaged(path, reason, "no second reader: `unar` is not installed")
    yield from _unar_blocks(path, name)


def damaged(path: str | os.PathLike[str], error: object, more: str = "") -> DataError:
    """Return the error for an unreadable archive, with what to do about it."""
    return DataError(
        f"{path}: cannot be unpacked ({error}{'; ' + more if more else ''}): it may be truncated or damaged, so "
        "fetch it again; if it opens elsewhere, unpack it by hand and pack the same files into a .zip"
    )


def _import_libarchive() -> ModuleType | None:
    try:
        import libarchive
    except (ImportError, OSError, AttributeError, TypeError):
        # The Python binding fails in any of these ways if the system's library is missing or too old.
        return None
    return libarchive if isinstance(libarchive, ModuleType) else None


def _libarchive_member(entry: Any, libarchive: ModuleType) -> Member:
    is_link = entry.islnk or not (entry.isfile or entry.isdir)
    kind = "link" if is_link else "folder" if entry.isdir else "file"
    # The binding has no function for this.
    is_encrypted = libarchive.ffi.libarchive.archive_entry_is_data_encrypted
    encrypted = bool(is_encrypted(ctypes.c_void_p(entry._entry_p)))
    return Member(_name(entry), int(entry.size or 0), kind, encrypted)


def _name(entry: Any) -> str:
    # Bytes if it is not text; None if the archive has no name for it.
    name = entry.pathname or ""
    return _slashes(os.fsdecode(name))


def _slashes(name: str) -> str:
    return name.replace("\\", "/")


def _libarchive_blocks(libarchive: ModuleType, path: str | os.PathLike[str], name: str) -> Iterator[bytes]:
    with libarchive.file_reader(os.fspath(path)) as archive:
        for entry in archive:
            if _name(entry) == name:
                yield from entry.get_blocks()
                return
    raise DataError(f"{path}: there is no member {name!r}")


def _run_lsar(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    command = ["lsar", "-j", os.fspath(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=LISTING_SECONDS)
        entries: list[dict[str, Any]] = json.loads(done.stdout)["lsarContents"]
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        raise damaged(path, f"lsar: {error}") from error
    return entries


def _lsar_member(entry: dict[str, Any]) -> Member:
    is_link = bool(entry.get("XADIsLink") or entry.get("XADLinkDestination"))
    kind = "link" if is_link else "folder" if entry.get("XADIsDirectory") else "file"
    name, size = _slashes(str(entry["XADFileName"])), int(entry.get("XADFileSize", 0))
    return Member(name, size, kind, bool(entry.get("XADIsEncrypted")))


def _unar_blocks(path: str | os.PathLike[str], name: str) -> Iterator[bytes]:
    # By index, not by name: unar reads a name as a pattern.
    indices = [entry["XADIndex"] for entry in _run_lsar(path) if _slashes(str(entry["XADFileName"])) == name]
    if not indices:
        raise DataError(f"{path}: there is no member {name!r}")
    command = ["unar", "-quiet", "-output-directory", "-", "-indexes", os.fspath(path), str(indices[0])]
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
