"""Splits and pairs of faces: no picture is in two parts, and sides tell nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from described_steps import Run, sample

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.contracts import SPLITS, read_metadata, read_table, write_table
from rankbound_study.data.images import IMAGES_KEY, SIDE, Faces, images_table, read_faces, read_pixels
from rankbound_study.data.reader import read_instances
from rankbound_study.data.sampling import Partners, draw_pairs, sample_pairs
from rankbound_study.data.splits import check_no_shared_groups, fold_images, read_image_folds, split_groups
from rankbound_study.data.synthetic import generate

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
            check_no_shared_groups(few, part, "here")
        assert (folds[1] != folds[2]).mean() > 0.3
    np.testing.assert_array_equal(made[0][1], made[1][1])
    assert (made[0][1] != made[2][1]).mean() > 0.3


def test_a_planted_duplicate_in_two_parts_is_refused(tmp_path: Path) -> None:
    """The check must notice one picture moved by hand, wherever folds are written or read."""
    faces = toy_faces(60)
    images, folds = folded(tmp_path, faces, folds=1)
    part = read_image_folds(folds, faces)[1]
    moved = int(np.flatnonzero((faces.groups != np.arange(60)) & (part == 0))[0])
    part[moved] = 2
    message = rf"{faces.names[moved - 1]} is in train and {faces.names[moved]} in test, but they are near duplicates"
    with pytest.raises(DataError, match=message):
        check_no_shared_groups(faces, part, "here")
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


EMPTY_TEST = {**DRAWING["pairs"], "test": 0}


@pytest.mark.parametrize(
    ("count", "splitting", "drawing", "error", "message"),
    [
        (60, {"folds": 0}, {}, ConfigError, r"folds is 0, expected 1 \.\. 100"),
        (60, {"test_share": 0.0}, {}, ConfigError, r"validation_share and test_share are 0.2 and 0.0"),
        (60, {"test_share": 0.9}, {}, ConfigError, r"test_share are 0.2 and 0.9: expected above 0, sum below 1"),
        (2, {}, {}, DataError, r"2 faces leave the (train|validation|test) part of fold 1 empty"),
        (60, {}, {"pairs": EMPTY_TEST}, ConfigError, "test_pairs is 0: expected 1 or more"),
        (60, {}, {"above": -1}, ConfigError, "above is -1: expected 0 years or more"),
        (60, {}, {"above": 78}, DataError, r"toy, fold 1, train: \d+ pairs of \d+ faces differ by more than 78"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, count: int, splitting: dict[str, Any], drawing: dict[str, Any], error: Any, message: str
) -> None:
    def make() -> None:
        files = folded(tmp_path, toy_faces(count), **splitting)
        sample_pairs(*files, tmp_path / "y.parquet", "toy", **{**DRAWING, **drawing})

    with pytest.raises(error, match=message):
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
    partners = Partners(faces.ages, faces.groups, above)
    assert partners.n_pairs == len(possible)
    assert partners.counts.tolist() == fits.sum(1).tolist()
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
