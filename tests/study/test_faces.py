"""Faces: from an archive of pictures to pixels, ages and groups of near duplicates, and to splits and pairs of them."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import scipy.fft
from described_steps import Run, sample
from PIL import Image

from rankbound.errors import ConfigError, DataError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.data.archives import list_members, read_members
from rankbound_study.data.contracts import SPLITS, read_metadata, read_table, write_table
from rankbound_study.data.faces import (
    BITS,
    FOLDER,
    THRESHOLD,
    close_pairs,
    connect,
    convert,
    decode_image,
    parse_names,
    perceptual_hashes,
)
from rankbound_study.data.images import IMAGES_KEY, SIDE, Faces, images_table, read_faces, read_pixels
from rankbound_study.data.reader import read_instances
from rankbound_study.data.sampling import draw_pairs, sample_pairs
from rankbound_study.data.sources import SOURCES, check_content, folder_members
from rankbound_study.data.splits import fold_images, read_image_folds, split_groups
from rankbound_study.data.synthetic import generate
from tests.library.refusals import problems
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


def test_pixels_are_rgb_in_rows_means_of_what_they_cover_and_upright() -> None:
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


def test_hashes_are_the_written_out_transform_and_close_for_altered_copies() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 64, 64), dtype=np.uint8)
    for one, found in zip(pixels, perceptual_hashes(pixels), strict=True):
        grey = 0.299 * one[0] + 0.587 * one[1] + 0.114 * one[2]
        means = grey.reshape(32, 2, 32, 2).mean((1, 3))
        frequencies = scipy.fft.dctn(means)[1:17, 1:17].ravel()
        np.testing.assert_array_equal(found, frequencies > np.median(frequencies))
    original = picture(0)
    grey = np.repeat(original.mean(0, keepdims=True), 3, 0).astype(np.uint8)
    copies = [original, (original * 0.8 + 20).astype(np.uint8), grey, picture(0, 180, 202)]
    contents = [encode_image(copy, quality) for copy, quality in zip(copies, (95, 90, 80, 40), strict=True)]
    pixels = [decode_image(content, "here") for content in contents] + [small(seed) for seed in range(1, 30)]
    pairs, distances = close_pairs(perceptual_hashes(np.stack(pixels)), THRESHOLD)
    assert {tuple(pair) for pair in pairs.tolist()} == {(i, j) for j in range(4) for i in range(j)}
    assert distances.max() > 10  # the threshold is needed


@pytest.mark.parametrize("count", [0, 1, 60, 1100])
def test_close_pairs_are_all_pairs_that_are_close(count: int) -> None:
    hashes = np.random.default_rng(count).random((count, 40)) < 0.5
    pairs, distances = close_pairs(hashes, 12)
    apart = np.concatenate([np.empty((0, count), int), *((one != hashes).sum(1)[None] for one in hashes)])
    expected = np.argwhere(np.triu(apart <= 12, 1))
    assert sorted(map(tuple, pairs.tolist())) == list(map(tuple, expected.tolist()))
    assert distances.tolist() == sorted(apart[tuple(pairs.T)].tolist())


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
    faces = parse_names([member.name for member in folder_members(list_members(raw), FOLDER, raw)], str(raw))
    contents = read_members(raw, [face.member for face in faces])
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
    assert Path(faces[0].member).name == "00000A02.jpg"


# Splits and pairs: no picture is in two parts, and sides tell nothing

SHARES = {"validation_share": 0.2, "test_share": 0.2}
SPLITTING = {"folds": 2, **SHARES, "seed": 0}
DRAWING = {"pairs": {"train": 60, "validation": 20, "test": 20}, "above": 5, "seed": 0}


def toy_faces(count: int = 300, seed: int = 0) -> Faces:
    """Faces of random ages, every tenth a near duplicate of the one before."""
    random = np.random.default_rng(seed)
    groups = np.arange(count, dtype=np.int32)
    groups[9::10] -= 1
    ages = random.integers(2, 81, count).astype(np.int8)
    names = tuple(f"{number:05}A{age:02}" for number, age in enumerate(ages.tolist()))
    return Faces(names, ages, groups, (3, 2, 2), {})


def write_faces(path: Path, faces: Faces) -> Path:
    numbers = np.arange(len(faces))
    table = images_table(faces.names, numbers, faces.ages, faces.groups, np.zeros((len(faces), 3, 2, 2), np.uint8))
    write_table(table, path, "images", metadata={IMAGES_KEY: json.dumps({"shape": faces.shape})})
    return path


def folded(folder: Path, faces: Faces, **changed: Any) -> tuple[Path, Path]:
    """An images file, and the file of its folds."""
    images, folds = write_faces(folder / "x.parquet", faces), folder / "folds.parquet"
    fold_images(images, folds, "toy", **{**SPLITTING, **changed})
    return images, folds


def part_of(faces: Faces, seed: int) -> npt.NDArray[np.int64]:
    return split_groups(faces.groups, faces.ages, **SHARES, random=np.random.default_rng(seed))


# Splits


def test_parts_have_their_shares_of_all_ages_and_folds_and_seeds_differ(tmp_path: Path) -> None:
    faces = toy_faces(2000)
    part = part_of(faces, 1)
    np.testing.assert_allclose(np.bincount(part) / len(faces), [0.6, 0.2, 0.2], atol=0.02)
    for index in range(3):
        assert abs(faces.ages[part == index].mean() - faces.ages.mean()) < 0.5
    for old in range(10, 80, 10):
        of_age = part[(faces.ages >= old) & (faces.ages < old + 10)]
        np.testing.assert_allclose(np.bincount(of_age) / len(of_age), [0.6, 0.2, 0.2], atol=0.06)
    few = toy_faces(500)
    made = [read_image_folds(folded(tmp_path, few, seed=seed)[1], few) for seed in (0, 0, 1)]
    for folds in made:
        for part in folds.values():
            assert len(set(zip(few.groups.tolist(), part.tolist(), strict=True))) == len(set(few.groups.tolist()))
        assert (folds[1] != folds[2]).mean() > 0.3
    np.testing.assert_array_equal(made[0][1], made[1][1])
    assert (made[0][1] != made[2][1]).mean() > 0.3


def test_a_planted_duplicate_in_two_parts_is_refused(tmp_path: Path) -> None:
    """The check must notice one picture moved by hand."""
    faces = toy_faces(60)
    images, folds = folded(tmp_path, faces, folds=1)
    part = read_image_folds(folds, faces)[1]
    moved = int(np.flatnonzero((faces.groups != np.arange(60)) & (part == 0))[0])
    message = rf"{faces.names[moved - 1]} is in train and {faces.names[moved]} in test, but they are near duplicates"
    rewrite(folds, moved, "test")
    for read in (
        lambda: read_image_folds(folds, faces),
        lambda: sample_pairs(images, folds, tmp_path / "pairs.parquet", "toy", **DRAWING),
    ):
        with pytest.raises(DataError, match=message):
            read()
    assert not (tmp_path / "pairs.parquet").exists()


def rewrite(folds: Path, row: int, split: str) -> None:
    table = read_table(folds, "image-folds")
    splits = table.column("split").to_pylist()
    splits[row] = split
    write_table(table.set_column(1, "split", pa.array(splits)), folds, "image-folds")


def test_folds_and_pixels_must_be_of_the_same_faces_and_splits(tmp_path: Path) -> None:
    _, folds = folded(tmp_path, toy_faces(60))
    with pytest.raises(DataError, match=r"fold 1: its faces are not those of the images file"):
        read_image_folds(folds, toy_faces(60, seed=1))
    rewrite(folds, 0, "dev")
    with pytest.raises(DataError, match=r"column 'split' holds 'dev'; expected one of train, validation, test"):
        read_image_folds(folds, toy_faces(60))
    with pytest.raises(DataError, match=r"column 'pixels' holds 12 bytes a row, its shape 18"):
        read_pixels(write_faces(tmp_path / "x.parquet", replace(toy_faces(4), shape=(3, 2, 3))))


@pytest.mark.parametrize(("count", "splitting", "drawing", "message"), problems("splits and pairs of faces"))
def test_what_makes_no_sense_is_refused(tmp_path: Path, count: int, splitting: Any, drawing: Any, message: str) -> None:
    def make() -> None:
        files = folded(tmp_path, toy_faces(count), **splitting)
        sample_pairs(*files, tmp_path / "y.parquet", "toy", **{**DRAWING, **drawing})

    with pytest.raises((ConfigError, DataError), match=message):
        make()
    assert not (tmp_path / "y.parquet").exists()
    assert (tmp_path / "folds.parquet").exists() == bool(drawing)


# Pairs of faces


def drawn(faces: Faces, count: int, above: int = 5, seed: int = 0) -> npt.NDArray[np.int64]:
    return draw_pairs(faces.ages, faces.groups, count, above, np.random.default_rng(seed))


@pytest.mark.parametrize("above", [0, 5, 60])
def test_pairs_are_distinct_and_far_enough_in_age(above: int) -> None:
    faces = toy_faces(120)
    ages = faces.ages.astype(int)
    fits = (np.abs(ages[:, None] - ages) > above) & (faces.groups[:, None] != faces.groups)
    possible = {(i, j) for i, j in np.argwhere(fits).tolist() if i < j}
    with pytest.raises(DataError, match=rf"^{len(possible)} pairs of 120 faces differ by more than {above} years"):
        drawn(faces, len(possible) // 2 + 1, above)
    pairs = drawn(faces, len(possible) // 2, above)
    unordered = {(min(pair), max(pair)) for pair in pairs.tolist()}
    assert len(unordered) == len(pairs) == len(possible) // 2
    assert unordered <= possible


def test_every_face_occurs_about_equally_often_and_sides_tell_nothing() -> None:
    faces = toy_faces(400)
    pairs = drawn(faces, 2000)
    times = np.bincount(pairs.ravel(), minlength=len(faces))
    assert times.mean() == 10
    assert 8 <= times.min() <= times.max() <= 12
    older_first = faces.ages[pairs[:, 0]] > faces.ages[pairs[:, 1]]
    assert abs(older_first.mean() - 0.5) < 0.05
    assert abs((pairs[:, 0] < pairs[:, 1]).mean() - 0.5) < 0.05
    np.testing.assert_array_equal(pairs, drawn(faces, 2000))
    assert not np.array_equal(pairs, drawn(faces, 2000, seed=1))
    # Two children among adults of one age have all the pairs there are, and then nobody is left but adults.
    ages = np.array([10, 11, *[40] * 8], dtype=np.int8)
    few = np.bincount(draw_pairs(ages, np.arange(10, dtype=np.int32), 8, 5, np.random.default_rng(0)).ravel())
    assert (sorted(few[:2].tolist()), few[2:].max() <= 2) == ([4, 4], True)


@pytest.mark.parametrize(("count", "above"), [(1, 80), (10_000, 5)])
def test_too_few_pairs_are_an_error(count: int, above: int) -> None:
    with pytest.raises(DataError, match=r"\d+ pairs of 50 faces differ by more than \d+ years, but drawing \d+"):
        drawn(toy_faces(50), count, above)


def test_pairs_are_lists_of_two_with_the_older_relevant(tmp_path: Path) -> None:
    faces = toy_faces(200)
    files = folded(tmp_path, faces)
    parts = read_image_folds(files[1], faces)
    for name in ("y", "again"):
        sample_pairs(*files, tmp_path / name, "toy", **DRAWING)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "y").read_bytes()
    instances = read_instances(tmp_path / "y")
    assert (instances.dataset, instances.nsr, instances.folds) == ("toy", None, (1, 2))
    assert (instances.item_count, instances.item_names) == (200, faces.names)
    for fold in instances.folds:
        for index, split in enumerate(SPLITS):
            lists = instances.split(fold, split)
            assert len(lists) == DRAWING["pairs"][split]
            assert (lists.sizes == 2).all()
            assert (lists.positives == 1).all()
            items = lists.items.reshape(-1, 2)
            assert (parts[fold][items] == index).all()
            younger, older = np.sort(faces.ages[items].astype(int), axis=1).T
            assert (older - younger > 5).all()
            np.testing.assert_array_equal(lists.relevance.reshape(-1, 2), faces.ages[items] == older[:, None])
            assert instances.topics[lists.topics[0]] == " ".join(faces.names[item] for item in items[0])


# Stand-in and command line


def linear_scores(path: Path) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Return the fitted faces, and the scores of all by ridge regression of age on pixels of half the size."""
    faces, pixels = read_faces(path), read_pixels(path)
    halves = pixels.reshape(-1, 3, SIDE // 2, 2, SIDE // 2, 2).mean((3, 5)).reshape(len(faces), -1) / 255
    fitted = np.arange(len(faces)) % 5 < 3
    centred = halves - halves[fitted].mean(0)
    kernel = centred[fitted] @ centred[fitted].T + 30 * np.eye(fitted.sum())
    return fitted, centred @ (centred[fitted].T @ np.linalg.solve(kernel, faces.ages[fitted] - faces.ages.mean()))


def test_drawn_faces_can_be_learnt_in_part(tmp_path: Path) -> None:
    generate("synthetic-aaf", tmp_path / "x.parquet", seed=0, size="demo")
    faces = read_faces(tmp_path / "x.parquet")
    assert "rankbound.synthetic" in faces.metadata
    assert (len(faces), faces.shape) == (240, (3, SIDE, SIDE))
    assert (faces.ages.min() >= 2) & (faces.ages.max() <= 80)
    _, sizes = np.unique(faces.groups, return_counts=True)
    assert sorted(sizes)[-5:] == [1, 2, 2, 2, 2]  # two per cent of altered copies
    fitted, scores = linear_scores(tmp_path / "x.parquet")
    first, second = np.triu_indices((~fitted).sum(), 1)
    gap, age_gap = (values[~fitted][first] - values[~fitted][second] for values in (scores, faces.ages.astype(float)))
    accuracy = (gap * age_gap > 0)[np.abs(age_gap) > 5].mean()
    assert 0.65 < accuracy < 0.85  # a coin 0.5, an oracle 1


def test_images_from_nothing_to_instances(run: Run) -> None:
    name, counts = "synthetic-aaf", {"train_pairs": 100, "validation_pairs": 30, "test_pairs": 30}
    run("generate", name, "--size", "120", "--out", "data.parquet")
    run("split", name, "--in", "data.parquet", "--out", "folds.parquet", folds=2)
    sample(run, name, **counts, seed=2)
    instances = read_instances("instances.parquet")
    assert "rankbound.synthetic" in read_metadata("instances.parquet", "instances")
    assert [len(instances.split(2, split)) for split in SPLITS] == [100, 30, 30]
    assert "is synthetic, so its data set cannot be named 'aaf'" in sample(run, "aaf", status=2)
    assert "unknown key 'nsr'; known are above, seed" in sample(run, name, status=2, nsr=1)
