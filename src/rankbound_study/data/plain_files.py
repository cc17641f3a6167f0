"""Raw data that are no archive: files of somebody's own, read where they lie."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rankbound.errors import DataError, SourceError
from rankbound.io.text_files import open_unpacked
from rankbound_study.data.archives import RAR_STARTS, ZIP_STARTS, find_member
from rankbound_study.data.rar import Member
from rankbound_study.data.sources import RawFile, RawSource, checksum_of, require_checksum

_BUFFER_BYTES = 2**20


@dataclass(frozen=True)
class PlainFiles:
    """Files that have been compared with the checksums of their source, if it has any; gzip is unpacked.

    Raises SourceError for other content, which names the file, the checksum expected and the one found.
    """

    source: RawSource
    paths: Sequence[Path]

    def __post_init__(self) -> None:
        for wanted, expected in self.source.members.items():
            name = self.find(wanted)
            with self.open(name) as stream:
                require_checksum(self.source, expected, checksum_of(stream, self.source), f"{name}: its content")

    @property
    def path(self) -> str:
        """What they are called in messages: the file, or the folder that holds all of them."""
        return os.path.commonpath(self.paths)

    @cached_property
    def members(self) -> Sequence[Member]:
        """The files by their paths."""
        return [Member(path.as_posix(), path.stat().st_size, "file") for path in self.paths]

    def find(self, wanted: str) -> str:
        """Return the one path that ends in `wanted`; DataError if there is none or several."""
        return find_member(self.members, wanted, self.path)

    def where(self, name: str) -> str:
        """Return what that file is called in messages."""
        return name

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open the file of that path as a stream of bytes."""
        with open_unpacked(name) as stream:
            yield stream


Raw = RawFile | PlainFiles


def raw_data(source: RawSource, paths: Sequence[Path], own: bool) -> Raw:
    """Return what was fetched, or an archive, as a `RawFile`; somebody's own files as they lie."""
    if len(paths) == 1 and (not own or is_archive(paths[0])):
        return RawFile(source, paths[0])
    return PlainFiles(source, paths)


@contextmanager
def as_file(raw: Raw, name: str) -> Iterator[Path]:
    """Yield a path of the file of that name; a member of an archive is unpacked to the system's folder for such files.

    For formats that are not read in one pass. Raises DataError if there is no room for it.
    """
    if isinstance(raw, PlainFiles):
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="rankbound-") as folder:
        path = Path(folder, PurePosixPath(name).name)
        try:
            with raw.open(name) as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, _BUFFER_BYTES)
        except OSError as error:
            raise DataError(f"{raw.where(name)}: cannot be unpacked to {folder}: {error.strerror}") from error
        yield path


def is_archive(path: Path) -> bool:
    """Return whether a file is a .zip or .rar archive, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(8).startswith(ZIP_STARTS + RAR_STARTS)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
