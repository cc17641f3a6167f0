"""Raw files: which content is right. (`publishers` has their addresses and terms.)

An archive may be repacked (the publisher ships MQ2008 as .rar, mirrors as .zip), so the content counts: every member
named here must have its checksum, with CRLF line ends read as LF if `normalise` says so, and a folder named here must
hold its files. A file that is not an archive has its own checksum.

Steps read raw files only through `RawFile`, which makes this comparison first.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound_study.config.sections.description import ContentKeys, DescriptionKeys, FolderKeys, LimitKeys
from rankbound_study.config.sections.known_sets import known_names, known_set
from rankbound_study.data.archives import Limits, find_member, list_members, open_member, read_members
from rankbound_study.data.folders import Folder, check_folder
from rankbound_study.data.rar import Member

_MEGABYTE = 2**20
_READ_BYTES = _MEGABYTE


@dataclass(frozen=True, kw_only=True)
class RawSource:
    """A raw archive, or a single file.

    For an archive, `members` maps the end of a member's path to its checksum by `algorithm`, and `folder` describes a
    folder of many files; for a single file, `checksum` is its SHA-256. `remark` states the limits of the check.
    """

    name: str
    title: str
    algorithm: str = "sha256"
    normalise: bool = False
    members: Mapping[str, str] = field(default_factory=dict)
    folder: Folder | None = None
    checksum: str = ""
    limits: Limits = field(default_factory=Limits)
    remark: str = ""

    @property
    def is_checked(self) -> bool:
        """Its content has checksums."""
        return bool(self.members or self.folder or self.checksum)


def source_of(name: str, described: DescriptionKeys) -> RawSource:
    """Return the source of a data set's raw files by its description."""
    content, limits = (
        described.content or ContentKeys.model_validate({}),
        described.limits or LimitKeys.model_validate({}),
    )
    return RawSource(
        name=name,
        title=described.title or name,
        algorithm=content.algorithm,
        normalise=content.line_ends == "any",
        members=content.members,
        folder=_folder_of(described.folder),
        checksum=content.file or "",
        limits=Limits(limits.members, limits.member_megabytes * _MEGABYTE, limits.megabytes * _MEGABYTE),
        remark=described.remark or "",
    )


def _folder_of(keys: FolderKeys | None) -> Folder | None:
    if keys is None:
        return None
    editions = {int(size): checksum for size, checksum in keys.editions.items()}
    unknown_from = None if keys.unknown_from is None else keys.unknown_from * _MEGABYTE
    return Folder(keys.path, keys.count, keys.names, editions, unknown_from)


SOURCES: Mapping[str, RawSource] = {name: source_of(name, known_set(name)) for name in known_names()}
"""The raw files of the data sets that the project knows."""


def find_source(name: str) -> RawSource:
    """Return the source of that name; ConfigError lists the names if there is none."""
    if name not in SOURCES:
        raise ConfigError(
            f"there is no source {name!r}; known are {', '.join(SOURCES)}; others need a description (docs/data.md)"
        )
    return SOURCES[name]


@dataclass(frozen=True)
class RawFile:
    """A raw file whose content has been compared with its source; every step reads raw data through it.

    The comparison is made here, whatever the file's origin, so no step can omit it. The file itself is never changed.

    Raises SourceError, which states what was expected, what was found, and how to get the right file.
    """

    source: RawSource
    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
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
    def members(self) -> Sequence[Member]:
        """The regular files of an archive, in its order."""
        return list_members(self.path, self.source.limits)

    def find(self, wanted: str) -> str:
        """Return the name of the one member whose path ends in `wanted`; DataError if there is none or several."""
        return find_member(self.members, wanted, self.path)

    def where(self, name: str) -> str:
        """Return what the member of that exact name is called in messages."""
        return f"{self.path}: {name}"

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open the member of that exact name as a stream of bytes."""
        return open_member(self.path, name, self.source.limits)

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield each of these members with its whole content, in that order."""
        return read_members(self.path, names, self.source.limits)


def check_content(source: RawSource, path: str | os.PathLike[str]) -> None:
    """Compare the file with the checksums of its source: its own, or those of its members and folder.

    Raises SourceError, which names the member, the expected checksum and the one found; also if the archive cannot be
    opened, is unsafe (see `rankbound_study.data.archives`), or lacks a member.
    """
    try:
        if source.checksum:
            _check_file(source, path)
            return
        if source.folder is not None:
            check_folder(source.folder, path, source.limits)
        members = list_members(path, source.limits) if source.members else []
        for wanted, expected in source.members.items():
            name = find_member(members, wanted, path)
            require_checksum(source, expected, member_checksum(path, name, source), f"{path}: the content of {name!r}")
    except DataError as error:
        raise SourceError(str(error)) from error


def require_checksum(source: RawSource, expected: str, found: str, what: str) -> None:
    """Raise SourceError for another checksum than that of the source; `what` names the content that has it."""
    if found != expected:
        how = f"{source.algorithm}{', CRLF read as LF' if source.normalise else ''}"
        raise SourceError(f"{what} is not that of {source.title}: expected {expected} ({how}), found {found}")


def member_checksum(path: str | os.PathLike[str], name: str, source: RawSource) -> str:
    """Return the checksum of one member, by the source's algorithm and line-end rule."""
    with open_member(path, name, source.limits) as stream:
        return checksum_of(stream, source)


def checksum_of(stream: BinaryIO, source: RawSource) -> str:
    """Return the checksum of a stream's content, by the source's algorithm and line-end rule."""
    # The publisher gives md5; it guards against damage here, not against an adversary.
    digest = hashlib.new(source.algorithm, usedforsecurity=False)
    _update(digest.update, stream.read, source.normalise)
    return digest.hexdigest()


def _check_file(source: RawSource, path: str | os.PathLike[str]) -> None:
    try:
        with Path(path).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    if found != source.checksum:
        raise SourceError(
            f"{path}: not {source.title}: expected the SHA-256 {source.checksum}, found {found} "
            f"of {Path(path).stat().st_size} bytes; it may be truncated"
        )


def _update(update: Callable[[bytes], None], read: Callable[[int], bytes], normalise: bool) -> None:
    held = b""
    while data := read(_READ_BYTES):
        data = held + data
        # A carriage return at the end of a block may be the first half of a CRLF.
        held = b"\r" if normalise and data.endswith(b"\r") else b""
        data = data[: len(data) - len(held)]
        update(data.replace(b"\r\n", b"\n") if normalise else data)
    update(held)
