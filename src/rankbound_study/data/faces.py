"""All-Age-Faces: the pictures of its archive as pixels, with the ages in their names.

The persons are not known. The publisher says that all are different people, yet some pictures occur again, identical or
slightly changed, mostly with another age. Of exact duplicates all copies are dropped, because it is unknown which age
is right. Near duplicates stay and share a group, which no split may divide.
"""

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from tqdm import tqdm

from rankbound.errors import DataError
from rankbound_study.data.contracts import DATASET_KEY
from rankbound_study.data.image_hash import perceptual_hashes, write_images
from rankbound_study.data.images import SIDE, Pixels
from rankbound_study.data.sources import RawFile, file_name, folder_members

FOLDER = "original images"
YOUNGEST, OLDEST = 2, 80
FILTER = "bilinear"
FIT = "squash"

# Smaller pictures would have to be enlarged; larger ones are not portraits of some hundred pixels.
_LONGEST_SIDE, _WIDEST = 4000, 2.0
_NAME = re.compile(r"(\d{5})A(\d{2})\.jpg")
_ROWS = 512  # 15 MB of pixels


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
        found = [(some, perceptual_hashes(pixels)) for some, pixels in _batches(raw, faces, progress)]
        digests, hashes = [one for some, _ in found for one in some], np.concatenate([bits for _, bits in found])
        copies = Counter(digests)
        kept = np.array([copies[digest] == 1 for digest in digests])
        chosen = [face for face, keep in zip(faces, kept.tolist(), strict=True) if keep]
        if not chosen:
            raise DataError(f"{raw.path}: every image in {FOLDER!r} occurs more than once: nothing is left")
        names, (numbers, ages) = [face.name for face in chosen], np.array([(one.number, one.age) for one in chosen]).T
        repeated = [count for count in copies.values() if count > 1]
        facts: dict[str, object] = {"exact_duplicates": sum(repeated), "exact_duplicate_groups": len(repeated)}
        facts |= {"filter": FILTER, "fit": FIT}
        blocks = (pixels for _, pixels in _batches(raw, chosen, progress))
        write_images(out, names, numbers, ages, hashes[kept], blocks, {DATASET_KEY: "aaf"}, facts)


def parse_names(members: Sequence[str], where: str) -> list[Face]:
    """Return the faces of these members, by number; DataError names the first malformed name."""
    faces: dict[int, Face] = {}
    for member in members:
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
        other = faces.setdefault(number, Face(member, name.removesuffix(".jpg"), number, age)).member
        if other != member:
            raise DataError(f"{where}: {other!r} and {member!r} have the same number")
    return [faces[number] for number in sorted(faces)]


def decode_image(content: bytes, where: str) -> Pixels:
    """Return the pixels of a JPEG file, `(3, SIDE, SIDE)`, red, green and blue, 0 .. 255.

    The whole picture is squashed into the square, not cropped: most of the faces are 8 : 9, so all are changed alike,
    and chin and hair, which indicate the age, stay in. Pillow's bilinear filter averages over all pixels that a smaller
    one covers. The camera's orientation is applied; grey and CMYK become RGB.

    Raises DataError for content that is not a JPEG, is truncated, or has a size that no such portrait has.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            short, long = sorted(image.size)
            if short < SIDE or long > min(_LONGEST_SIDE, _WIDEST * short):
                raise DataError(
                    f"{where}: found an image of {image.width} x {image.height} pixels; expected sides from {SIDE} to "
                    f"{_LONGEST_SIDE}, none above {_WIDEST:.0f} times the other"
                )
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = "unknown format" if isinstance(error, UnidentifiedImageError) else error
        raise DataError(f"{where}: not a readable JPEG image of {len(content)} bytes ({reason})") from error
    small = upright.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(small, dtype=np.uint8).transpose(2, 0, 1))


def _batches(raw: RawFile, faces: Sequence[Face], progress: tqdm) -> Iterator[tuple[list[str], Pixels]]:
    """Yield the SHA-256 of the files' contents, and their pixels `(n, 3, side, side)`, some pictures at a time."""
    contents = raw.read([face.member for face in faces])
    while batch := [
        (hashlib.sha256(content).hexdigest(), decode_image(content, f"{raw.path}: member {member!r}"))
        for member, content in islice(contents, _ROWS)
    ]:
        progress.update(len(batch))
        yield [digest for digest, _ in batch], np.stack([pixels for _, pixels in batch])
