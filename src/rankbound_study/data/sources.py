"""The publishers' raw files: which content is right. (`publishers` has their addresses and terms.)

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


SOURCES: Mapping[str, RawSource] = {
    source.name: source
    for source in (
        RawSource(
            name="movielens",
            title="MovieLens latest-small (September 2018)",
            algorithm="md5",
            members={
                "ratings.csv": "325a6f09399d1c45671f187505e1a100",
                "movies.csv": "ed94fab72b62442ef8150d9446e000d6",
                "tags.csv": "1b2d21a7be1cc23d327b11155a4a6aea",
                "links.csv": "316913f95cdad64c745ca22f3630e230",
            },
            limits=Limits(members=100, member_bytes=64 * _MEGABYTE, total_bytes=256 * _MEGABYTE),
        ),
        RawSource(
            name="mq2008",
            title="LETOR 4.0 MQ2008 (supervised ranking)",
            normalise=True,
            members={
                "S1.txt": "cbd42504549a2388f6c0aefdb506f22074225b574c7a5df10194174c9b00e4e0",
                "S2.txt": "055ac792cb8f7d5a029090b8acbfb6c57323339d1371251bf2465ac182aa8605",
                "S3.txt": "a03fe2b6e76479de60fecdb37d560a40a4e899b0cd685553d2da31ea205af1ab",
                "S4.txt": "a239850bc6fe960ad08c2b7b0d99db90fe976dd93a15358e98036591b4e7a2ac",
                "S5.txt": "c68c52feb1ecae7f17b64c8e2fda2098302681bbd4ea5fad8c73a1d32a1cf2b2",
            },
            limits=Limits(members=1000, member_bytes=256 * _MEGABYTE, total_bytes=1024 * _MEGABYTE),
        ),
        RawSource(
            name="mslr-web10k",
            title="MSLR-WEB10K (Microsoft learning to rank)",
            # As listed in the library pytorchltr (datasets/svmrank/mslr10k.py), where every part occurs twice with the
            # same checksum, for the fold that tests on it and for the one that validates on it.
            members={
                "Fold2/test.txt": "44add582ccd674cf63af24d3bf6e1074e87a678db77f00b44c37980a3010917a",
                "Fold3/test.txt": "c0a5a3c6bd7790d0b4ff3d5e961d0c8c5f8ff149089ce492540fa63035801b7a",
                "Fold4/test.txt": "dc6083c24a5f0c03df3c91ad3eed7542694115b998acf046e51432cb7a22b848",
                "Fold5/test.txt": "e86fb3fe7e8a5f16479da7ce04f783ae85735f17f66016786c3ffc797dd9d4db",
                "Fold1/test.txt": "33fe002374a4fce58c4e12863e4eee74745d5672a26f3e4ddacc20ccfe7d6ba0",
            },
            limits=Limits(members=1000, member_bytes=2048 * _MEGABYTE, total_bytes=16384 * _MEGABYTE),
            remark=(
                "the five test parts, which hold every row once, were compared with the checksums that the library "
                "pytorchltr lists; the train and validation files repeat these rows and are not read"
            ),
        ),
        RawSource(
            name="aaf",
            title="All-Age-Faces",
            folder=Folder(
                path="original images",
                count=13_322,
                names="59c09fa135928dbc2fd8f6cd2cca52be9569de0af7bcb2e6053eb84b78585120",
                # The edition whose shorter sides are 128 pixels; the publisher's full-size one has about 190 MB.
                editions={60_738_605: "b030c724ec13bdbd40315ea3e22291039490c983d3bd63060dbd744d6999d0e1"},
                unknown_from=120 * _MEGABYTE,
            ),
            limits=Limits(members=100_000, member_bytes=512 * _MEGABYTE, total_bytes=8192 * _MEGABYTE),
            remark=(
                "for the full-size edition only the 13,322 names were compared: the checksum of its contents is not "
                "known; the edition with 128 pixels a side is compared byte by byte"
            ),
        ),
        RawSource(
            name="vgg16",
            title="VGG16 weights trained on ImageNet (torchvision)",
            # The publisher puts the first eight digits into the file's name.
            checksum="397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
        ),
    )
}


def find_source(name: str) -> RawSource:
    """Return the source of that name; ConfigError lists the names if there is none."""
    if name not in SOURCES:
        raise ConfigError(f"there is no source {name!r}; known are {', '.join(SOURCES)}")
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
            found = member_checksum(path, name, source)
            if found != expected:
                how = f"{source.algorithm}{', CRLF read as LF' if source.normalise else ''}"
                raise SourceError(
                    f"{path}: the content of {name!r} is not that of {source.title}: "
                    f"expected {expected} ({how}), found {found}"
                )
    except DataError as error:
        raise SourceError(str(error)) from error


def member_checksum(path: str | os.PathLike[str], name: str, source: RawSource) -> str:
    """Return the checksum of one member, by the source's algorithm and line-end rule."""
    # The publisher gives md5; it guards against damage here, not against an adversary.
    digest = hashlib.new(source.algorithm, usedforsecurity=False)
    with open_member(path, name, source.limits) as stream:
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
