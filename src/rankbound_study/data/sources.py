"""Raw files: which content is right, and its comparison before use. (`fetch` has their addresses and terms.)

An archive may be repacked (the publisher ships MQ2008 as .rar, mirrors as .zip), so the content counts: every member
the description names must have its checksum, with CRLF line ends read as LF if it says so, and a folder must hold its
files. A file that is not an archive has its own checksum.

Steps read raw data only through `RawFiles`, which make this comparison first.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io.text_files import checksum, open_unpacked
from rankbound_study.config.sections.description import (
    ContentKeys,
    DescriptionKeys,
    FolderKeys,
    known_sets,
)
from rankbound_study.data.archives import (
    ARCHIVE_STARTS,
    Member,
    find_member,
    list_members,
    open_member,
    read_members,
)

_MEGABYTE = 2**20


@dataclass(frozen=True)
class RawSource:
    """The raw files of a data set: its name, and the description that says which content is right."""

    name: str
    described: DescriptionKeys

    @property
    def title(self) -> str:
        """What the data set is called in messages."""
        return self.described.title or self.name

    @cached_property
    def content(self) -> ContentKeys:
        """Checksums of members, by the ends of their paths, or of a file that is no archive."""
        return self.described.content or ContentKeys.model_validate({})

    @property
    def is_checked(self) -> bool:
        """Its content has checksums."""
        return bool(self.content.members or self.content.file or self.described.folder)

    def checksum(self, stream: BinaryIO) -> str:
        """Return the checksum of a stream's content, by the algorithm and the rule of line ends of its description."""
        return checksum(stream, self.content.algorithm, any_ends=self.content.line_ends == "any")


SOURCES: Mapping[str, RawSource] = {name: RawSource(name, described) for name, described in known_sets().items()}
"""The raw files of the data sets that the project knows."""


def find_source(name: str) -> RawSource:
    """Return the source of that name; ConfigError lists the names if there is none."""
    if name not in SOURCES:
        raise ConfigError(
            f"there is no source {name!r}; known are {', '.join(SOURCES)}; others need a description (docs/data.md)"
        )
    return SOURCES[name]


@dataclass(frozen=True)
class RawFiles:
    """Raw files whose content has been compared with their source; every step reads raw data through them.

    They are one archive or one file, as it was fetched, or *plain*: somebody's own files, of which compressed ones are
    unpacked. The comparison is made here, whatever the files' origin, so no step can omit it. The files themselves are
    never changed.

    Raises SourceError, which states what was expected, what was found, and how to get the right file.
    """

    source: RawSource
    paths: Sequence[Path]

    def __post_init__(self) -> None:
        if self.are_plain:
            for wanted, expected in self.source.content.members.items():
                name = self.find(wanted)
                with self.open(name) as stream:
                    _require_checksum(self.source, expected, stream, f"{name}: its content")
            return
        try:
            check_content(self.source, self.path)
        except SourceError as error:
            if self.source.name not in SOURCES:
                raise
            raise SourceError(
                f"{error}. To get the right file, run "
                f"`python -m rankbound_study download {self.source.name} --out {self.path}`, which sets a wrong file "
                "aside and, where it cannot download, says what to save by hand"
            ) from error

    @cached_property
    def are_plain(self) -> bool:
        """They are somebody's own files, and no archive."""
        return len(self.paths) > 1 or (self.source.described.path is not None and not is_archive(self.paths[0]))

    @property
    def path(self) -> str:
        """What they are called in messages: the only file, or the folder that holds all of them."""
        return os.path.commonpath(self.paths)

    @cached_property
    def members(self) -> Sequence[Member]:
        """The regular files of an archive, in its order; plain files by their paths."""
        if self.are_plain:
            return [Member(path.as_posix(), path.stat().st_size, "file") for path in self.paths]
        return list_members(self.path)

    def wanted(self) -> dict[str, str]:
        """Return the names of the members to read by what the description calls them: those that it names, or the one.

        Raises DataError if a member that is named is not there, or if none is named of several.
        """
        described = self.source.described
        if described.wanted:
            return {wanted: self.find(wanted) for wanted in described.wanted}
        beside = described.groups if described.format == "lightgbm" else None
        names = [member.name for member in self.members if beside is None or not member.name.endswith(beside)]
        if len(names) != 1:
            shown = ", ".join(names[:8])
            raise DataError(f"{self.path}: it has {len(names)} files ({shown}): name those to read (files)")
        return {PurePosixPath(names[0]).name: names[0]}

    def find(self, wanted: str) -> str:
        """Return the name of the one member whose path ends in `wanted`; DataError if there is none or several."""
        return find_member(self.members, wanted, self.path)

    def where(self, name: str) -> str:
        """Return what the member of that exact name is called in messages."""
        return name if self.are_plain else f"{self.path}: {name}"

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open the member of that exact name as a stream of bytes."""
        return open_unpacked(name) if self.are_plain else open_member(self.path, name)

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield each of these members of an archive with its whole content, in that order."""
        return read_members(self.path, names)


@contextmanager
def as_file(raw: RawFiles, name: str) -> Iterator[Path]:
    """Yield a path of the file of that name; a member of an archive is unpacked to the system's folder for such files.

    For formats that are not read in one pass. Raises DataError if there is no room for it.
    """
    if raw.are_plain:
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
        path = Path(folder, PurePosixPath(name).name)
        try:
            with raw.open(name) as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, _MEGABYTE)
        except OSError as error:
            raise DataError(f"{raw.where(name)}: cannot be unpacked to {folder}: {error.strerror}") from error
        yield path


def is_archive(path: Path) -> bool:
    """Return whether a file is a .zip or .rar archive, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(8).startswith(ARCHIVE_STARTS)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error


def check_content(source: RawSource, path: str | os.PathLike[str]) -> None:
    """Compare the file with the checksums of its source: its own, or those of its members and folder.

    Raises SourceError, which names the member, the expected checksum and the one found; also if the archive cannot be
    opened, is unsafe (see `rankbound_study.data.archives`), or lacks a member.
    """
    try:
        if expected := source.content.file:
            with Path(path).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                raise SourceError(
                    f"{path}: not {source.title}: expected the SHA-256 {expected}, found {found} "
                    f"of {Path(path).stat().st_size} bytes; it may be truncated"
                )
            return
        if source.described.folder is not None:
            _check_folder(source.described.folder, path)
        members = list_members(path) if source.content.members else []
        for wanted, expected in source.content.members.items():
            name = find_member(members, wanted, path)
            with open_member(path, name) as stream:
                _require_checksum(source, expected, stream, f"{path}: the content of {name!r}")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    except DataError as error:
        raise SourceError(str(error)) from error


def _require_checksum(source: RawSource, expected: str, stream: BinaryIO, what: str) -> None:
    """Raise SourceError for another checksum than that of the source; `what` names the content of the stream."""
    if (found := source.checksum(stream)) != expected:
        how = f"{source.content.algorithm}{', CRLF read as LF' if source.content.line_ends == 'any' else ''}"
        raise SourceError(f"{what} is not that of {source.title}: expected {expected} ({how}), found {found}")


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


def sum_of(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines that end in LF; for contents, the lines of `sha256sum *` in that folder."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def require_sizes(raw: RawFiles, topics: int, rows: int) -> None:
    """Raise DataError if files have other numbers of topics and rows than their description states."""
    described = raw.source.described
    if (stated := described.sizes) is None or (topics, rows) == (stated.topics, stated.rows):
        return
    raise DataError(
        f"{raw.path}: found {rows:,} rows of {topics:,} topics, but {described.title or 'the description'} has "
        f"{stated.rows:,} of {stated.topics:,}: it is incomplete, or of another edition; fetch it again, or "
        "describe it under another name (docs/data.md)"
    )


def _check_folder(folder: FolderKeys, path: str | os.PathLike[str]) -> None:
    """Raise DataError if the archive's folder does not hold the files of `folder`."""
    members = folder_members(list_members(path), folder.path, path)
    names = [PurePosixPath(member.name).name for member in members]
    where = f"{path}: folder {folder.path!r}"
    if len(names) != folder.count or sum_of(names) != folder.names:
        raise DataError(
            f"{where}: expected {folder.count} files, whose names have the checksum {folder.names}, "
            f"found {len(names)} with {sum_of(names)}"
        )
    size = sum(member.size for member in members)
    expected = folder.editions.get(str(size))
    if expected is None:
        if folder.unknown_from is not None and size >= folder.unknown_from * _MEGABYTE:
            return
        known = sorted(map(int, folder.editions))
        raise DataError(f"{where}: its files have {size} bytes; known editions have {known}")
    contents = read_members(path, [member.name for member in members])
    found = sum_of(f"{hashlib.sha256(content).hexdigest()}  {PurePosixPath(name).name}" for name, content in contents)
    if found != expected:
        raise DataError(f"{where}: the checksum of its contents should be {expected}, found {found}")
