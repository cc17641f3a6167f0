r"""All-Age-Faces: the pictures of its archive as pixels, with the ages in their names.

The persons are not known. The publisher says that all are different people, yet some pictures occur again, identical or
slightly changed, mostly with another age. Of exact duplicates all copies are dropped, because it is unknown which age
is right. Near duplicates stay and share a group, which no split may divide: pictures whose perceptual hashes are close.

The hash of a picture consists of the signs of its 16 x 16 lowest frequencies: grey values, averaged to 32 x 32, go
through a discrete cosine transform; each of the frequencies 1 .. 16 in either direction is compared with their median.
That is the well-known DCT hash with 256 bits instead of 64, because aligned portraits are alike: among the 64-bit
hashes of 12,936 faces, thousands of pairs of different people are as close as changed copies.

The threshold was chosen by inspection of random pairs at each distance. Among 84 million pairs of All-Age-Faces at 128
pixels, without exact duplicates, 163 have distances 0 .. 40; the 150 that were inspected are copies (another size,
crop, brightness, or without colour). At 42 .. 50, 15 of 20 are copies, at 52 .. 56 about a fifth of 36; from 58 on,
where chance pairs begin to chain (the largest group grows from 3 to 6, and to 56 at 64), hardly any. The two errors
differ in cost: a missed copy is in two parts of a split and flatters every model; two strangers in one group only share
a part. The threshold is therefore the largest before groups chain. A few copies at 60 are missed; no mirrored copy is
within it.

The hash of the library imagehash (`phash`, 16 x 16) includes the constant frequency and resizes with another filter. At
this threshold it has 208 of the 219 pairs and 76 others; at none from 40 to 64 are the groups the same.
"""

import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from rankbound.errors import DataError
from rankbound_study.data.contracts import DATASET_KEY, open_writer
from rankbound_study.data.images import CHANNELS, IMAGES_KEY, SIDE, Pixels, images_table
from rankbound_study.data.sources import RawFiles, folder_members

Bits = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

FOLDER = "original images"
YOUNGEST, OLDEST = 2, 80

# Smaller pictures would have to be enlarged; larger ones are not portraits of some hundred pixels.
_LONGEST_SIDE, _WIDEST = 4000, 2.0
_NAME = re.compile(r"(\d{5})A(\d{2})\.jpg")
_ROWS = 512  # pictures at a time: 15 MB of pixels

THRESHOLD = 56  # largest Hamming distance, of 256 bits, between the hashes of near duplicates
FREQUENCIES = 16
BITS = FREQUENCIES**2
_GRID = 32
_LUMINANCE = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601, red, green, blue


@dataclass(frozen=True)
class Face:
    """One file of the archive: its member's path, and the number and age in its name."""

    member: str
    name: str
    number: int
    age: int


def convert(raw: RawFiles, out: str | os.PathLike[str]) -> None:
    """Write the images of the archive `raw` to `out`, by number, some hundred per row group.

    The archive is read twice, to find duplicates and to write the rest, and never held whole. Raises DataError for a
    name other than `00012A34.jpg`, a repeated number, an age outside 2 .. 80, or a file that `decode_image` refuses;
    then nothing is written.
    """
    members = folder_members(raw.members, FOLDER, raw.path)
    faces = parse_names([member.name for member in members], str(raw.path))
    found = [(some, perceptual_hashes(pixels)) for some, pixels in _batches(raw, faces)]
    digests, hashes = [one for some, _ in found for one in some], np.concatenate([bits for _, bits in found])
    copies = Counter(digests)
    kept = np.array([copies[digest] == 1 for digest in digests])
    chosen = [face for face, keep in zip(faces, kept.tolist(), strict=True) if keep]
    if not chosen:
        raise DataError(f"{raw.path}: every image in {FOLDER!r} occurs more than once: nothing is left")
    names, (numbers, ages) = [face.name for face in chosen], np.array([(one.number, one.age) for one in chosen]).T
    repeated = [count for count in copies.values() if count > 1]
    facts: dict[str, object] = {"exact_duplicates": sum(repeated), "exact_duplicate_groups": len(repeated)}
    facts |= {"filter": "bilinear", "fit": "squash"}
    blocks = (pixels for _, pixels in _batches(raw, chosen))
    write_images(out, names, numbers, ages, hashes[kept], blocks, {DATASET_KEY: "aaf"}, facts)


def parse_names(members: Sequence[str], where: str) -> list[Face]:
    """Return the faces of these members, by number; DataError names the first malformed name."""
    faces: dict[int, Face] = {}
    for member in members:
        name = PurePosixPath(member).name
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


def _batches(raw: RawFiles, faces: Sequence[Face]) -> Iterator[tuple[list[str], Pixels]]:
    """Yield the SHA-256 of the files' contents, and their pixels `(n, 3, side, side)`, some pictures at a time."""
    contents = raw.read([face.member for face in faces])
    while batch := [
        (hashlib.sha256(content).hexdigest(), decode_image(content, f"{raw.path}: member {member!r}"))
        for member, content in islice(contents, _ROWS)
    ]:
        yield [digest for digest, _ in batch], np.stack([pixels for _, pixels in batch])


def write_images(
    out: str | os.PathLike[str],
    names: Sequence[str],
    numbers: Integers,
    ages: npt.NDArray[Any],
    hashes: Bits,
    blocks: Iterable[Pixels],
    metadata: Mapping[str, str],
    facts: Mapping[str, object],
) -> None:
    """Write an images file: pictures with these hashes, some in a block, each a row group; near duplicates are a group.

    The metadata also hold the `facts`, the hash's parameters and the shape of the pictures.
    """
    groups = connect(len(names), close_pairs(hashes)[0])
    notes = {**facts, "hash_bits": BITS, "hash_threshold": THRESHOLD, "shape": [CHANNELS, SIDE, SIDE]}
    with open_writer(out, "images", {**metadata, IMAGES_KEY: json.dumps(notes, sort_keys=True)}) as write:
        start = 0
        for pixels in blocks:
            part = slice(start, start + len(pixels))
            write(images_table(names[part], numbers[part], ages[part], numbers[groups][part], pixels))
            start += len(pixels)


def perceptual_hashes(pixels: npt.NDArray[np.uint8]) -> Bits:
    """Return hashes `(n, 256)` of the pictures `pixels` `(n, 3, side, side)`."""
    side = pixels.shape[-1]
    # The cosine transform of means, each over the interval of the side that it covers.
    edges = np.linspace(0, side, _GRID + 1)
    low, high = np.maximum.outer(edges[:-1], np.arange(side)), np.minimum.outer(edges[1:], np.arange(1, side + 1))
    averages = np.clip(high - low, 0, None) * (_GRID / side)
    cosines = np.cos(np.pi / _GRID * np.outer(np.arange(1, FREQUENCIES + 1), np.arange(_GRID) + 0.5))
    transform = cosines @ averages
    grey = sum(weight * pixels[:, channel] for channel, weight in enumerate(_LUMINANCE))
    frequencies = (transform @ grey @ transform.T).reshape(len(pixels), BITS)
    bits: Bits = frequencies > np.median(frequencies, axis=1, keepdims=True)
    return bits


def close_pairs(hashes: Bits, threshold: int = THRESHOLD) -> tuple[Integers, Integers]:
    """Return all pairs of rows, first < second `(n_pairs, 2)`, at most `threshold` bits apart, and their distances.

    Sorted by distance, then rows. Every pair is compared, some rows at a time.
    """
    bits = hashes.shape[1]
    signs = np.where(hashes, np.float32(1), np.float32(-1))
    pairs, distances = [], []
    for start in range(0, len(signs), _ROWS):
        # A product of signs counts equal bits minus different ones; it is exact in single precision.
        surplus = signs[start : start + _ROWS] @ signs[start:].T
        first, second = np.nonzero(np.triu(surplus >= bits - 2 * threshold, 1))
        distances.append((bits - surplus[first, second].astype(np.int64)) // 2)
        pairs.append(np.stack((first, second), 1) + start)
    every, apart = np.concatenate([*pairs, np.empty((0, 2), np.int64)]), np.concatenate([*distances, np.empty(0, int)])
    order = np.lexsort((every[:, 1], every[:, 0], apart))
    return every[order], apart[order]


def connect(count: int, pairs: Integers) -> Integers:
    """Return the group of each of `count` things, named by its first member; `pairs` `(n, 2)` share a group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (count, count))
    _, component = connected_components(joined, directed=False)
    _, first = np.unique(component, return_index=True)
    group: Integers = first[component]
    return group
