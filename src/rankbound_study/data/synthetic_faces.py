"""A seeded stand-in for All-Age-Faces: drawn faces whose hair and skin indicate the age in part.

Hair turns grey with age: a linear sign, blurred by hair colours. Wrinkles are stripes whose strength grows with age but
whose place is random: no linear model detects them. Some pictures are altered copies of others with another age, as in
the real set.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.texts import derive_seed
from rankbound_study.data.contracts import open_writer
from rankbound_study.data.image_hash import BITS, THRESHOLD, close_pairs, connect, perceptual_hashes
from rankbound_study.data.images import CHANNELS, IMAGES_KEY, SIDE, Pixels, images_table

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

# All-Age-Faces without exact duplicates: ages 2 .. 80, and the shares of the decades.
_DECADES = np.array([2, 10, 20, 30, 40, 50, 60, 70, 81])
_SHARES = np.array([0.080, 0.095, 0.238, 0.255, 0.155, 0.086, 0.053, 0.038])
_COPY_SHARE = 0.02

_BLOCK = 240
_TEXTURE_GRID, _TEXTURE = 13, 24.0
_HAIR_NOISE, _GREYNESS, _WRINKLES = 30.0, 110.0, 30.0
_BACKGROUND, _SKIN = (90, 220), (120, 210)

Block = tuple[Pixels, Integers]


def generate_faces(out: str | os.PathLike[str], count: int, seed: int, metadata: Mapping[str, str]) -> None:
    """Write an images file of `count` drawn faces with 3 x 100 x 100 pixels."""
    hashes = np.concatenate([perceptual_hashes(pixels) for pixels, _ in _blocks(count, seed)])
    groups = connect(count, close_pairs(hashes)[0])
    notes = {"hash_bits": BITS, "hash_threshold": THRESHOLD, "shape": [CHANNELS, SIDE, SIDE]}
    numbers = np.arange(count)
    with open_writer(out, "images", {**metadata, IMAGES_KEY: json.dumps(notes, sort_keys=True)}) as write:
        start = 0
        # Drawn twice instead of held in memory: the real set's size would take 400 MB.
        for pixels, ages in _blocks(count, seed):
            part = slice(start, start + len(pixels))
            names = [f"{number:05}A{age:02}" for number, age in zip(numbers[part].tolist(), ages.tolist(), strict=True)]
            write(images_table(names, numbers[part], ages, groups[part], pixels))
            start += len(pixels)


def _blocks(count: int, seed: int) -> Iterator[Block]:
    for start in range(0, count, _BLOCK):
        random = np.random.default_rng(derive_seed("synthetic", "synthetic-aaf", seed, count, start))
        yield _block(random, min(_BLOCK, count - start))


def _block(random: np.random.Generator, count: int) -> Block:
    """Return some faces and their ages; the last ones are altered copies of the first ones."""
    decade = random.choice(len(_SHARES), count, p=_SHARES / _SHARES.sum())
    ages = random.integers(_DECADES[decade], _DECADES[decade + 1])
    drawn = _draw(random, ages)
    copies = int(_COPY_SHARE * count)
    if copies:
        drawn[-copies:] = 0.8 * drawn[:copies] + 25 + 2 * random.standard_normal(drawn[:copies].shape)
    return np.clip(np.round(drawn), 0, 255).astype(np.uint8), ages


def _draw(random: np.random.Generator, ages: Integers) -> Floats:
    """Return faces `(n, 3, side, side)` before rounding: background, hair, wrinkled skin, and a texture over all."""
    count = len(ages)
    age = ((ages - _DECADES[0]) / (_DECADES[-1] - 1 - _DECADES[0])).astype(np.float32)
    place = np.linspace(-1, 1, SIDE, dtype=np.float32)
    across, down = place[None, None, :], place[None, :, None]
    width = _spread(0.45 + 0.06 * _normal(random, count))
    face = (across / width) ** 2 + (down / 0.7) ** 2 < 1
    hair = ((across / (width + 0.12)) ** 2 + ((down + 0.2) / 0.75) ** 2 < 1) & ~(face & (down > -0.35))
    stripes = np.sin(_spread(random.uniform(25, 35, count)) * down + _spread(random.uniform(0, 2 * np.pi, count)))
    canvas = np.empty((count, CHANNELS, SIDE, SIDE), dtype=np.float32)
    grey = 30 + _GREYNESS * age + _HAIR_NOISE * np.abs(_normal(random, count))
    for channel in range(CHANNELS):
        background, skin = (_spread(random.uniform(*reach, count)) for reach in (_BACKGROUND, _SKIN))
        wrinkled = skin + _WRINKLES * _spread(age) * stripes
        canvas[:, channel] = np.where(hair, _spread(grey), np.where(face, wrinkled, background))
    return canvas + _TEXTURE * _texture(random, count)[:, None]


def _texture(random: np.random.Generator, count: int) -> Floats:
    """Return smooth noise `(n, side, side)`, which makes all pictures different."""
    knots = np.linspace(0, SIDE - 1, _TEXTURE_GRID)
    weights = np.clip(1 - np.abs(np.arange(SIDE)[:, None] - knots) / knots[1], 0, None).astype(np.float32)
    coarse = random.standard_normal((count, _TEXTURE_GRID, _TEXTURE_GRID), dtype=np.float32)
    smooth: Floats = weights @ coarse @ weights.T
    return smooth


def _normal(random: np.random.Generator, count: int) -> Floats:
    return random.standard_normal(count, dtype=np.float32)


def _spread(values: npt.NDArray[Any]) -> Floats:
    """Return a value per face, for all its pixels."""
    return values.astype(np.float32)[:, None, None]
