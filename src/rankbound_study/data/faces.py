"""All-Age-Faces: the pictures of its archive as pixels, with the ages in their names.

The persons are not known. The publisher says that all are different people, yet some pictures occur again, identical or
slightly changed, mostly with another age. Of exact duplicates all copies are dropped, because it is unknown which age
is right. Near duplicates stay and share a group, which no split may divide.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rankbound.errors import DataError
from rankbound_study.data.contracts import open_writer
from rankbound_study.data.folders import file_name, folder_members
from rankbound_study.data.image_decoding import FILTER, FIT, decode_image
from rankbound_study.data.image_hash import BITS, THRESHOLD, Bits, close_pairs, connect, perceptual_hashes
from rankbound_study.data.images import CHANNELS, IMAGES_KEY, SIDE, Pixels, images_table
from rankbound_study.data.schemas import DATASET_KEY
from rankbound_study.data.sources import RawFile

FOLDER = "original images"
YOUNGEST, OLDEST = 2, 80

_NAME = re.compile(r"(\d{5})A(\d{2})\.jpg")
_ROWS = 512  # 15 MB of pixels

Picture = tuple[str, Pixels]
"""The SHA-256 of a file's content, and its pixels `(3, side, side)`."""


@dataclass(frozen=True)
class Face:
    """One file of the archive: its member's path, and the number and age in its name."""

    member: str
    name: str
    number: int
    age: int


def convert(raw: RawFile, out: str | os.PathLike[str]) -> None:
    """Write the images of the archive `raw` to `out`, by number, some hundred per row group.

    The archive is read twice, to find duplicates and to write the rest, and never held whole. Raises DataError for a
    name other than `00012A34.jpg`, a repeated number, an age outside 2 .. 80, or a file that `decode_image` refuses;
    then nothing is written.
    """
    members = folder_members(raw.members, FOLDER, raw.path)
    faces = parse_names([member.name for member in members], str(raw.path))
    with tqdm(total=2 * len(faces), unit="image", desc="faces", disable=None) as progress:
        digests, hashes = _fingerprints(_pictures(raw, faces, progress))
        kept = ~is_repeated(digests)
        chosen = [face for face, keep in zip(faces, kept.tolist(), strict=True) if keep]
        if not chosen:
            raise DataError(f"{raw.path}: every image in {FOLDER!r} occurs more than once: nothing is left")
        groups = connect(len(chosen), close_pairs(hashes[kept])[0])
        numbers = np.array([face.number for face in chosen])
        notes = {DATASET_KEY: "aaf", IMAGES_KEY: describe(np.asarray(digests)[~kept])}
        with open_writer(out, "images", notes) as write:
            start = 0
            for _, pixels in _batches(_pictures(raw, chosen, progress)):
                stop = start + len(pixels)
                names, ages = zip(*((face.name, face.age) for face in chosen[start:stop]), strict=True)
                part = slice(start, stop)
                write(images_table(names, numbers[part], np.array(ages), numbers[groups][part], pixels))
                start = stop


def parse_names(members: Sequence[str], where: str) -> list[Face]:
    """Return the faces of these members, by number; DataError names the first malformed name."""
    faces = [_parse(member, where) for member in members]
    by_number: dict[int, Face] = {}
    for face in faces:
        other = by_number.setdefault(face.number, face)
        if other is not face:
            raise DataError(f"{where}: {other.member!r} and {face.member!r} have the same number")
    return sorted(faces, key=lambda face: face.number)


def is_repeated(digests: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which of these occur more than once, the first occurrence included."""
    _, index, counts = np.unique(np.asarray(digests), return_inverse=True, return_counts=True)
    repeated: npt.NDArray[np.bool_] = counts[index] > 1
    return repeated


def describe(repeated: npt.NDArray[np.str_]) -> str:
    """Return the metadata as sorted JSON; `repeated` are the digests of the dropped files."""
    return json.dumps(
        {
            "exact_duplicates": len(repeated),
            "exact_duplicate_groups": len(np.unique(repeated)),
            "filter": FILTER,
            "fit": FIT,
            "hash_bits": BITS,
            "hash_threshold": THRESHOLD,
            "shape": [CHANNELS, SIDE, SIDE],
        },
        sort_keys=True,
    )


def _parse(member: str, where: str) -> Face:
    name = file_name(member)
    match = _NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{where}: member {member!r}: expected a name such as 00012A34.jpg: five digits of a number, "
            "the letter A, two digits of an age"
        )
    number, age = int(match[1]), int(match[2])
    if not YOUNGEST <= age <= OLDEST:
        raise DataError(f"{where}: member {member!r}: found the age {age}, expected {YOUNGEST} .. {OLDEST}")
    return Face(member, name.removesuffix(".jpg"), number, age)


def _pictures(raw: RawFile, faces: Sequence[Face], progress: tqdm) -> Iterator[Picture]:
    for member, content in raw.read([face.member for face in faces]):
        yield hashlib.sha256(content).hexdigest(), decode_image(content, f"{raw.path}: member {member!r}")
        progress.update()


def _batches(pictures: Iterator[Picture]) -> Iterator[tuple[list[str], Pixels]]:
    """Yield digests and pixels `(n, 3, side, side)`, some pictures at a time."""
    while batch := list(islice(pictures, _ROWS)):
        yield [digest for digest, _ in batch], np.stack([pixels for _, pixels in batch])


def _fingerprints(pictures: Iterator[Picture]) -> tuple[list[str], Bits]:
    """Return the SHA-256 of each file's content, and the hash of each picture."""
    digests: list[str] = []
    hashes = []
    for some, pixels in _batches(pictures):
        digests += some
        hashes.append(perceptual_hashes(pixels))
    return digests, np.concatenate(hashes)
