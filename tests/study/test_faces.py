"""Faces: from an archive of pictures to pixels, ages, and groups of near duplicates."""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.fft
from PIL import Image

from rankbound.errors import DataError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.data.archives import list_members, read_members
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.faces import (
    BITS,
    FOLDER,
    THRESHOLD,
    close_pairs,
    connect,
    convert,
    decode_image,
    example_pairs,
    parse_names,
    perceptual_hashes,
)
from rankbound_study.data.images import IMAGES_KEY, SIDE, read_faces, read_pixels
from rankbound_study.data.sources import SOURCES, check_content, file_name, folder_members
from tests.raw_files import encode_image, pack, raw_file

Pixels = npt.NDArray[np.uint8]


def picture(seed: int, width: int = 128, height: int = 144) -> Pixels:
    """A smooth random picture, `(3, height, width)`, as different from another seed's as two faces are."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (14, 14, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).transpose(2, 0, 1)


def archive(path: Path, files: dict[str, bytes]) -> Path:
    members = {f"Faces/{FOLDER}/{name}": content for name, content in files.items()}
    return pack(path, {"Faces/image sets/train.txt": b"", **members}, zipfile.ZIP_STORED)


def small(seed: int) -> Pixels:
    return decode_image(encode_image(picture(seed)), "here")


# Decoding


def decoded(content: bytes) -> npt.NDArray[np.int64]:
    return decode_image(content, "here").astype(int)


def test_pixels_are_red_green_blue_in_rows_and_means_of_what_they_cover() -> None:
    halves = np.zeros((3, 144, 128), dtype=np.uint8)
    halves[0, :, :64], halves[2, 72:] = 200, 100
    pixels = decoded(encode_image(halves))
    assert pixels.shape == (3, SIDE, SIDE)
    np.testing.assert_allclose(pixels[0, :, :48], 200, atol=6)
    np.testing.assert_allclose(pixels[0, :, 52:], 0, atol=6)
    np.testing.assert_allclose(pixels[1], 0, atol=20)  # JPEG blurs colours where they meet
    np.testing.assert_allclose(pixels[2, :48], 0, atol=20)
    np.testing.assert_allclose(pixels[2, 52:], 100, atol=20)
    fine = np.indices((200, 200)).sum(0) % 2 * 200  # a chessboard: skipping pixels would leave 0 and 200
    pixels = decoded(encode_image(np.stack([fine] * 3).astype(np.uint8), quality=100))
    np.testing.assert_allclose(pixels[:, 5:-5, 5:-5], 100, atol=4)


def test_other_colours_become_rgb_and_a_turned_camera_is_turned_back() -> None:
    for mode in ("L", "CMYK"):
        grey = Image.fromarray(np.full((120, 120, 3), 90, np.uint8)).convert(mode)
        np.testing.assert_allclose(decoded(saved(grey, "JPEG", quality=100)), 90, atol=3)
    upright = picture(1, 120, 120)
    turned, exif = Image.fromarray(np.rot90(upright, axes=(1, 2)).transpose(1, 2, 0)), Image.Exif()
    exif[0x0112] = 6  # the orientation tag: to be turned clockwise for display
    found = decoded(saved(turned, "JPEG", quality=95, exif=exif))
    np.testing.assert_allclose(found, decoded(encode_image(upright)), atol=20)


def saved(image: Image.Image, kind: str, **how: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **how)
    return stream.getvalue()


PNG = saved(Image.fromarray(picture(0).transpose(1, 2, 0)), "PNG")
BAD_PICTURES = {
    "another format": (PNG, r"not a readable JPEG image of \d+ bytes \(unknown format\)"),
    "nothing": (b"", r"not a readable JPEG image of 0 bytes"),
    "cut off": (encode_image(picture(0))[:1500], r"not a readable JPEG image of 1500 bytes \(image file is truncated"),
    "cut in its header": (encode_image(picture(0))[:100], r"not a readable JPEG image of 100 bytes"),
    "too small": (encode_image(picture(0, 99, 120)), r"found an image of 99 x 120 pixels; expected sides from 100"),
    "too long": (encode_image(picture(0, 120, 241)), r"found an image of 120 x 241 pixels; .* none above 2 times"),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_a_bad_picture_is_named(name: str) -> None:
    content, message = BAD_PICTURES[name]
    with pytest.raises(DataError, match=r"^here: " + message):
        decode_image(content, "here")


# Near duplicates


def test_the_hash_is_the_written_out_transform() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 64, 64), dtype=np.uint8)
    for one, found in zip(pixels, perceptual_hashes(pixels), strict=True):
        grey = 0.299 * one[0] + 0.587 * one[1] + 0.114 * one[2]
        means = grey.reshape(32, 2, 32, 2).mean((1, 3))
        frequencies = scipy.fft.dctn(means)[1:17, 1:17].ravel()
        np.testing.assert_array_equal(found, frequencies > np.median(frequencies))


def test_altered_copies_are_close_and_others_far() -> None:
    original = picture(0)
    grey = np.repeat(original.mean(0, keepdims=True), 3, 0).astype(np.uint8)
    copies = [original, (original * 0.8 + 20).astype(np.uint8), grey, picture(0, 180, 202)]
    contents = [encode_image(copy, quality) for copy, quality in zip(copies, (95, 90, 80, 40), strict=True)]
    pixels = [decode_image(content, "here") for content in contents] + [small(seed) for seed in range(1, 30)]
    pairs, distances = close_pairs(perceptual_hashes(np.stack(pixels)), THRESHOLD)
    assert {tuple(pair) for pair in pairs.tolist()} == {(i, j) for j in range(4) for i in range(j)}
    assert distances.max() > 10  # the threshold is needed


@pytest.mark.parametrize("count", [0, 1, 60, 1100])
def test_close_pairs_are_all_pairs_that_are_close_and_examples_some_of_every_distance(count: int) -> None:
    hashes = np.random.default_rng(count).random((count, 40)) < 0.5
    pairs, distances = close_pairs(hashes, 12)
    apart = np.concatenate([np.empty((0, count), int), *((one != hashes).sum(1)[None] for one in hashes)])
    expected = np.argwhere(np.triu(apart <= 12, 1))
    assert sorted(map(tuple, pairs.tolist())) == list(map(tuple, expected.tolist()))
    assert distances.tolist() == sorted(apart[tuple(pairs.T)].tolist())
    examples = example_pairs(hashes, range(8, 13), per_distance=2)
    assert all(apart[one, other] == distance for distance, one, other in examples)
    assert [d for d, _, _ in examples] == [d for d in range(8, 13) for _ in range(min(2, (distances == d).sum()))]
    assert examples == example_pairs(hashes, range(8, 13), per_distance=2)


def test_groups_are_connected_components_named_by_their_first_member() -> None:
    random = np.random.default_rng(0)
    for count in (1, 5, 40):
        pairs, expected = random.integers(0, count, (count // 2, 2)), list(range(count))
        for _ in range(count):
            for one, other in pairs.tolist():
                expected[one] = expected[other] = min(expected[one], expected[other])
        assert connect(count, pairs).tolist() == expected


# Conversion


def test_an_archive_becomes_pixels_ages_and_groups(tmp_path: Path) -> None:
    twice, near = encode_image(picture(7)), encode_image((picture(3) * 0.9).astype(np.uint8), 70)
    files = {f"{seed:05}A{20 + seed}.jpg": encode_image(picture(seed)) for seed in (5, 3, 4)}
    files |= {"00009A31.jpg": twice, "00001A30.jpg": twice, "00002A66.jpg": near}
    raw = raw_file("aaf", archive(tmp_path / "x.zip", files))
    convert(raw, tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet", "images")
    assert table.column("face").to_pylist() == ["00002A66", "00003A23", "00004A24", "00005A25"]
    assert table.column("number").to_pylist() == [2, 3, 4, 5]
    assert table.column("age").to_pylist() == [66, 23, 24, 25]
    assert table.column("group").to_pylist() == [2, 2, 4, 5]
    faces, pixels = read_faces(tmp_path / "x.parquet"), read_pixels(tmp_path / "x.parquet")
    expected = [decode_image(files[f"{name}.jpg"], "here").reshape(-1) for name in faces.names]
    np.testing.assert_array_equal(pixels, expected)
    assert faces.shape == (3, SIDE, SIDE)
    notes = json.loads(read_metadata(tmp_path / "x.parquet", "images")[IMAGES_KEY])
    assert (notes["exact_duplicates"], notes["exact_duplicate_groups"], notes["hash_bits"]) == (2, 1, BITS)
    convert(raw, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "x.parquet").read_bytes()


GOOD = {"00001A20.jpg": encode_image(picture(1)), "00002A21.jpg": encode_image(picture(2))}
IN = f"Faces/{FOLDER}/"
BAD_ARCHIVES: dict[str, tuple[dict[str, bytes], str]] = {
    "no age in a name": ({**GOOD, "00003.jpg": b""}, f"member '{IN}00003.jpg': expected a name such as"),
    "another file": ({**GOOD, "Thumbs.db": b""}, f"member '{IN}Thumbs.db': expected a name"),
    "too young": ({**GOOD, "00003A01.jpg": b""}, f"'{IN}00003A01.jpg': found the age 1, expected 2 .. 80"),
    "too old": ({**GOOD, "00003A81.jpg": b""}, r"found the age 81, expected 2 .. 80"),
    "one number twice": ({**GOOD, "00001A33.jpg": b""}, r"00001A20.jpg' and .*00001A33.jpg' have the same number"),
    "cut off": ({**GOOD, "00003A30.jpg": GOOD["00001A20.jpg"][:900]}, r"member .*00003A30.jpg': not a readable JPEG"),
    "only duplicates": (dict.fromkeys(GOOD, GOOD["00001A20.jpg"]), r"nothing is left"),
    "no pictures": ({}, r"expected one folder 'original images' with files, found 0"),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_a_bad_archive_names_the_file_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    files, message = BAD_ARCHIVES[name]
    raw = archive(tmp_path / "x.zip", files)
    with pytest.raises(DataError, match=message):
        convert(raw_file("aaf", raw), tmp_path / "out" / "x.parquet")
    assert not list(tmp_path.glob("out/*"))


# The real archive


@pytest.mark.skipif(
    not os.environ.get(MIRROR_VARIABLE),
    reason=f"{MIRROR_VARIABLE} is not set: the real archives are licensed and not part of the project",
)
def test_the_real_archive_has_the_counted_duplicates() -> None:
    raw = Path(os.environ[MIRROR_VARIABLE]) / "All-Age-Faces-128px.zip"
    reference = Path(__file__).parents[1] / "reference" / "data_sets.json"
    expected = json.loads(reference.read_text(encoding="utf-8"))["aaf"]
    check_content(SOURCES["aaf"], raw)
    limits = SOURCES["aaf"].limits
    faces = parse_names([member.name for member in folder_members(list_members(raw, limits), FOLDER, raw)], str(raw))
    contents = read_members(raw, [face.member for face in faces], limits)
    digests = [hashlib.sha256(content).hexdigest() for _, content in contents]
    assert [face.number for face in faces] == list(range(expected["images"]))
    ages = [face.age for face in faces]
    assert [min(ages), max(ages)] == expected["ages"]
    ages_of: dict[str, list[int]] = {}
    for digest, age in zip(digests, ages, strict=True):
        ages_of.setdefault(digest, []).append(age)
    groups = [own for own in ages_of.values() if len(own) > 1]
    assert (sum(map(len, groups)), len(groups)) == (expected["exact_duplicates"], expected["exact_duplicate_groups"])
    assert sum(len(set(own)) > 1 for own in groups) == expected["exact_duplicate_groups_of_several_ages"]
    assert file_name(faces[0].member) == "00000A02.jpg"
