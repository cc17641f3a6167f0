r"""Near-duplicate pictures: a perceptual hash, and groups of pictures whose hashes are close.

The hash of a picture consists of the signs of its 16 x 16 lowest frequencies: grey values, averaged to 32 x 32, go
through a discrete cosine transform; each of the frequencies 1 .. 16 in either direction is compared with their median.
That is the well-known DCT hash with 256 bits instead of 64, because aligned portraits are alike: among the 64-bit
hashes of 12,936 faces, thousands of pairs of different people are as close as changed copies.

The threshold was chosen by inspection (`example_pairs`). Among 84 million pairs of All-Age-Faces at 128 pixels, without
exact duplicates, 163 have distances 0 .. 40; the 150 that were inspected are copies (another size, crop, brightness, or
without colour). At 42 .. 50, 15 of 20 are copies, at 52 .. 56 about a fifth of 36; from 58 on, where chance pairs begin
to chain (the largest group grows from 3 to 6, and to 56 at 64), hardly any. The two errors differ in cost: a missed
copy is in two parts of a split and flatters every model; two strangers in one group only share a part. The threshold is
therefore the largest before groups chain. A few copies at 60 are missed; no mirrored copy is within it.

The hash of the library imagehash (`phash`, 16 x 16) includes the constant frequency and resizes with another filter. At
this threshold it has 208 of the 219 pairs and 76 others; at none from 40 to 64 are the groups the same.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound_study.data.contracts import open_writer
from rankbound_study.data.images import CHANNELS, IMAGES_KEY, SIDE, Pixels, images_table

Bits = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

THRESHOLD = 56  # largest Hamming distance, of 256 bits, between the hashes of near duplicates
FREQUENCIES = 16
BITS = FREQUENCIES**2
_GRID = 32
_LUMINANCE = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601, red, green, blue
_ROWS = 512


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


def example_pairs(hashes: Bits, distances: range, per_distance: int = 4, seed: int = 0) -> list[tuple[int, int, int]]:
    """Draw random pairs at each of the distances, for inspection: `(distance, first, second)`."""
    random = np.random.default_rng(seed)
    pairs, apart = close_pairs(hashes, distances[-1])
    examples = []
    for distance in distances:
        at = random.permutation(np.flatnonzero(apart == distance))[:per_distance]
        examples += [(distance, int(first), int(second)) for first, second in pairs[np.sort(at)]]
    return examples
