"""The publishers' raw files: where they are, under which terms, and the checksums of what is in them.

An archive may be packed anew (the publisher ships MQ2008 as .rar, mirrors as .zip), so what counts is the content:
every member named here must have its checksum, after CRLF line ends became LF where `normalise` says so.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rankbound.data.archives import Limits, find_member, list_members, open_member
from rankbound.errors import ConfigError, DataError, SourceError

_MEGABYTE = 2**20
_READ_BYTES = _MEGABYTE


@dataclass(frozen=True)
class Source:
    """One raw archive.

    `file_names` are the archive's possible names on a mirror or placed by hand, best first; `addresses` the
    publisher's; `members` maps the end of a member's path to its checksum by `algorithm`.
    """

    name: str
    title: str
    file_names: tuple[str, ...]
    addresses: tuple[str, ...]
    homepage: str
    algorithm: str
    normalise: bool
    members: Mapping[str, str]
    limits: Limits
    terms: str
    citation: str


SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="movielens",
            title="MovieLens latest-small (September 2018)",
            file_names=("ml-latest-small.zip",),
            addresses=("https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",),
            homepage="https://grouplens.org/datasets/movielens/latest/",
            algorithm="md5",
            normalise=False,
            members={
                "ratings.csv": "325a6f09399d1c45671f187505e1a100",
                "movies.csv": "ed94fab72b62442ef8150d9446e000d6",
                "tags.csv": "1b2d21a7be1cc23d327b11155a4a6aea",
                "links.csv": "316913f95cdad64c745ca22f3630e230",
            },
            limits=Limits(members=100, member_bytes=64 * _MEGABYTE, total_bytes=256 * _MEGABYTE),
            terms="Research use; redistribution only under the same terms (README.txt in the archive).",
            citation=(
                "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
                "ACM Transactions on Interactive Intelligent Systems 5, 4: 19:1-19:19. "
                "https://doi.org/10.1145/2827872"
            ),
        ),
        Source(
            name="mq2008",
            title="LETOR 4.0 MQ2008 (supervised ranking)",
            file_names=("MQ2008.zip", "MQ2008.rar"),
            addresses=("https://s3-us-west-2.amazonaws.com/xgboost-examples/MQ2008.rar",),
            homepage="https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/",
            algorithm="sha256",
            normalise=True,
            members={
                "S1.txt": "cbd42504549a2388f6c0aefdb506f22074225b574c7a5df10194174c9b00e4e0",
                "S2.txt": "055ac792cb8f7d5a029090b8acbfb6c57323339d1371251bf2465ac182aa8605",
                "S3.txt": "a03fe2b6e76479de60fecdb37d560a40a4e899b0cd685553d2da31ea205af1ab",
                "S4.txt": "a239850bc6fe960ad08c2b7b0d99db90fe976dd93a15358e98036591b4e7a2ac",
                "S5.txt": "c68c52feb1ecae7f17b64c8e2fda2098302681bbd4ea5fad8c73a1d32a1cf2b2",
            },
            limits=Limits(members=1000, member_bytes=256 * _MEGABYTE, total_bytes=1024 * _MEGABYTE),
            terms="Research use; no redistribution.",
            citation=(
                "Tao Qin and Tie-Yan Liu. 2013. Introducing LETOR 4.0 Datasets. arXiv:1306.2597. "
                "https://arxiv.org/abs/1306.2597"
            ),
        ),
    )
}


def find_source(name: str) -> Source:
    """The source of that name; ConfigError lists the names if there is none."""
    if name not in SOURCES:
        raise ConfigError(f"there is no source {name!r}; known are {', '.join(SOURCES)}")
    return SOURCES[name]


def check_content(source: Source, path: str | os.PathLike[str]) -> None:
    """Open the archive and compare the checksum of every member that the source names.

    Raises SourceError that says which member, the sum expected and the sum found; also where the archive cannot
    be opened, is unsafe (see `rankbound.data.archives`), or lacks a member.
    """
    try:
        members = list_members(path, source.limits)
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


def member_checksum(path: str | os.PathLike[str], name: str, source: Source) -> str:
    """The checksum of one member, by the source's algorithm and line-end rule."""
    # md5 is what the publisher gives; it guards against damage here, not against an adversary.
    digest = hashlib.new(source.algorithm, usedforsecurity=False)
    with open_member(path, name, source.limits) as stream:
        _update(digest.update, stream.read, source.normalise)
    return digest.hexdigest()


def _update(update: Callable[[bytes], None], read: Callable[[int], bytes], normalise: bool) -> None:
    held = b""
    while data := read(_READ_BYTES):
        data = held + data
        # A carriage return at the end of a block may be the first half of a CRLF.
        held = b"\r" if normalise and data.endswith(b"\r") else b""
        data = data[: len(data) - len(held)]
        update(data.replace(b"\r\n", b"\n") if normalise else data)
    update(held)
