"""Images files: the faces, their ages and groups, and the pixels."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound_study.data.contracts import (
    read_metadata,
    read_row_groups,
    read_table,
    strings_to_arrow,
    to_arrow,
    to_numpy,
)

Path = str | os.PathLike[str]

CHANNELS = 3
SIDE = 100  # pixels of each side (Li and Wu: 100 x 100 in section 4.2, 3 x 100 x 100 = 30000 features in section 5)

IMAGES_KEY = "rankbound.images"
"""Metadata of an images file, sorted JSON: `shape` (channels, height, width), dropped files, duplicates' threshold."""

_LONGEST_SIDE = 2**14

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Faces:
    """The rows of an images file without their pixels: row r is item r of the instances made from it.

    names; ages int8 (n,); groups int32 (n,), equal for near duplicates, which no split may divide; `shape` of the
    pixels; `metadata` of the file.
    """

    names: tuple[str, ...]
    ages: npt.NDArray[np.int8]
    groups: npt.NDArray[np.int32]
    shape: tuple[int, int, int]
    metadata: dict[str, str]

    def __len__(self) -> int:
        return len(self.names)


def images_table(
    names: Sequence[str], numbers: npt.NDArray[Any], ages: npt.NDArray[Any], groups: npt.NDArray[Any], pixels: Pixels
) -> pa.Table:
    """Return the rows of an images file: `pixels` `(n, 3, side, side)`; a group is named by its smallest number."""
    width = int(np.prod(pixels.shape[1:]))
    buffer = pa.py_buffer(np.ascontiguousarray(pixels))
    return pa.table(
        {
            "face": strings_to_arrow(names),
            "number": to_arrow(numbers.astype(np.int32)),
            "age": to_arrow(ages.astype(np.int8)),
            "group": to_arrow(groups.astype(np.int32)),
            "pixels": pa.Array.from_buffers(pa.binary(width), len(names), [None, buffer]),
        }
    )


def read_faces(path: Path) -> Faces:
    """Read names, ages and groups of an images file; DataError if the names are not distinct."""
    table = read_table(path, "images", ["face", "age", "group"])
    metadata = read_metadata(path, "images")
    names = table.column("face").to_pylist()
    if len(set(names)) != len(names):
        raise DataError(f"{path}: column 'face' holds a name more than once; make the file anew")
    ages, groups = (to_numpy(table.column(name)) for name in ("age", "group"))
    return Faces(tuple(names), ages, groups, _shape(metadata, path), metadata)


def read_pixels(path: Path) -> Pixels:
    """Read the pixels of an images file, `(n, 3 * side * side)`, 0 .. 255: all red, then green, then blue, by row."""
    width = math.prod(_shape(read_metadata(path, "images"), path))
    pixels = np.empty((len(read_table(path, "images", ["number"])), width), dtype=np.uint8)
    start = 0
    for table in read_row_groups(path, "images", ["pixels"]):
        for array in table.column("pixels").chunks:
            if array.type.byte_width != width:
                raise DataError(f"{path}: column 'pixels' holds {array.type.byte_width} bytes a row, its shape {width}")
            flat = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
            pixels[start : start + len(array)] = flat.reshape(-1, width)
            start += len(array)
    return pixels


def read_image_features(path: Path, faces: Faces) -> npt.NDArray[np.float32]:
    """Read the features `(n, d)` of exactly these faces, in their order; DataError if the file has others."""
    table = read_table(path, "image-features")
    if table.column("face").to_pylist() != list(faces.names):
        raise DataError(f"{path}: its faces are not those of the images file, in the same order; make it anew")
    column = table.column("features")
    flat = to_numpy(pa.chunked_array([chunk.flatten() for chunk in column.chunks], pa.float32()))
    features: npt.NDArray[np.float32] = flat.reshape(len(faces), column.type.list_size)
    return features


def _shape(metadata: dict[str, str], path: Path) -> tuple[int, int, int]:
    try:
        channels, height, width = json.loads(metadata[IMAGES_KEY])["shape"]
        if not all(type(side) is int and 1 <= side <= _LONGEST_SIDE for side in (channels, height, width)):
            raise ValueError((channels, height, width))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: the metadata key {IMAGES_KEY!r} should give a shape of three numbers") from error
    return channels, height, width
