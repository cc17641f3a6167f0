"""Check folders of many files inside an archive at once: their names, and one checksum over all contents."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rankbound.errors import DataError
from rankbound_study.data.archives import Limits, list_members, read_members
from rankbound_study.data.rar import Member


@dataclass(frozen=True)
class Folder:
    """The expected content of a folder.

    `path` is the folder's name; `count` the number of files; `names` the checksum of their names (see `sum_of`).
    `editions` maps the bytes of all files together to the checksum of their contents. An edition of `unknown_from`
    bytes or more has no known checksum; only its names are checked.
    """

    path: str
    count: int
    names: str
    editions: Mapping[int, str] = field(default_factory=dict)
    unknown_from: int | None = None


def folder_members(members: Sequence[Member], folder: str, path: str | os.PathLike[str]) -> list[Member]:
    """Return the files of the one folder of that name, without subfolders, by name; DataError if there is not one."""
    files = [member for member in members if f"/{member.name}".rpartition("/")[0].endswith(f"/{folder}")]
    places = sorted({member.name.rpartition("/")[0] for member in files})
    if len(places) != 1:
        shown = ", ".join(places) or ", ".join(member.name for member in members[:8]) or "nothing"
        raise DataError(
            f"{path}: expected one folder {folder!r} with files, found {len(places)}; the archive has {shown}: "
            "check that this is the right file, and that it is complete"
        )
    return sorted(files, key=lambda member: member.name)


def check_folder(folder: Folder, path: str | os.PathLike[str], limits: Limits) -> None:
    """Raise DataError if the archive's folder does not hold the files of `folder`."""
    members = folder_members(list_members(path, limits), folder.path, path)
    names = [file_name(member.name) for member in members]
    where = f"{path}: folder {folder.path!r}"
    if len(names) != folder.count or sum_of(names) != folder.names:
        raise DataError(
            f"{where}: expected {folder.count} files, whose names have the checksum {folder.names}, "
            f"found {len(names)} with {sum_of(names)}"
        )
    size = sum(member.size for member in members)
    if size not in folder.editions:
        if folder.unknown_from is not None and size >= folder.unknown_from:
            return
        raise DataError(f"{where}: its files have {size} bytes; known editions have {sorted(folder.editions)}")
    contents = read_members(path, [member.name for member in members], limits)
    checksum = sum_of(f"{hashlib.sha256(content).hexdigest()}  {file_name(name)}" for name, content in contents)
    if checksum != folder.editions[size]:
        raise DataError(f"{where}: the checksum of its contents should be {folder.editions[size]}, found {checksum}")


def sum_of(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines that end in LF; for contents, the lines of `sha256sum *` in that folder."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def file_name(member: str) -> str:
    """Return the last part of a member's path."""
    return member.rpartition("/")[2]
