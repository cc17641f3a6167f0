"""Data that the project does not know, from their files to instances, by a description alone."""

import gzip
import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from described_steps import SPLITS, Run, convert, instances, sample, split, topics

from rankbound.io.files import read_lists
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data.contracts import read_table
from rankbound_study.data.reader import read_features
from tests.described_files import LISTS, RATINGS, folds_of_letor, letor, lightgbm, ratings, repeated_splits, searches

Described = Callable[[Path], dict[str, Any]]


@pytest.mark.parametrize("name", [*LISTS, *RATINGS])
def test_every_layout_becomes_lists_whose_topics_do_not_mix(tmp_path: Path, run: Run, name: str) -> None:
    described = (LISTS | RATINGS)[name](tmp_path)
    made = instances(run, described, name)
    assert made.folds == tuple(range(1, DescriptionKeys(**described).n_folds + 1))
    for fold in made.folds:
        named = [set(topics(made, fold, part)) for part in SPLITS]
        assert all(named)
        if name in LISTS:
            assert sum(map(len, named)) == len(set().union(*named)), "a topic is in two splits"


def test_folds_of_files_are_those_files(tmp_path: Path, run: Run) -> None:
    made = instances(run, folds_of_letor(tmp_path / "web"))
    for fold in made.folds:
        for part, file in zip(SPLITS, ("train", "vali", "test"), strict=True):
            expected, one = read_lists(tmp_path / "web" / f"Fold{fold}" / f"{file}.txt"), made.split(fold, part)
            assert topics(made, fold, part) == list(expected.topics)
            assert one.sizes.tolist() == np.diff(expected.offsets).tolist()
            np.testing.assert_array_equal(read_features("data.parquet")[one.items], expected.features)
            np.testing.assert_array_equal(one.relevance, expected.relevance >= 1)


def test_a_topic_with_other_rows_in_another_file_is_another_list(tmp_path: Path, run: Run) -> None:
    """As where each fold's features are scaled by its own training part."""
    for fold in (1, 2):
        for query, (name, value) in enumerate({"a": f"0.{fold}", "b": "0.1", "c": "0.1"}.items(), start=1):
            (tmp_path / f"{name}{fold}").write_text(f"1 qid:{query} 1:{value}\n0 qid:{query} 1:0.5\n")
    pattern = {"count": 2, "train": ["a{fold}"], "validation": ["b{fold}"], "test": ["c{fold}"]}
    made = instances(run, {"format": "letor", "path": str(tmp_path), "fold_pattern": pattern})
    first = [read_features("data.parquet")[made.split(fold, "train").items, 0].tolist() for fold in (1, 2)]
    assert first == [[np.float32(0.1), 0.5], [np.float32(0.2), 0.5]]
    assert len(read_table("data.parquet", "lists", ["topic"])) == 4


def test_text_of_lightgbm_becomes_the_lists_of_its_groups(tmp_path: Path, run: Run) -> None:
    made = instances(run, lightgbm(tmp_path / "lgb"))
    expected = read_lists(tmp_path / "lgb/rank.test", groups=tmp_path / "lgb/rank.test.query")
    one = made.split(1, "test")
    assert one.sizes.tolist() == np.diff(expected.offsets).tolist()
    np.testing.assert_array_equal(read_features("data.parquet")[one.items], expected.features)
    assert len(made.split(1, "train").topics) + len(made.split(1, "validation").topics) == 40


def test_an_index_and_a_position_are_no_features_of_a_study(tmp_path: Path, run: Run) -> None:
    described = searches(tmp_path / "x.csv")
    convert(run, described)
    expected = read_table("data.parquet", "lists")
    frame = pl.read_csv(tmp_path / "x.csv")
    rows = pl.Series(range(len(frame)))
    frame.select(rows.alias(""), pl.all(), (rows % 6).alias("Position")).write_csv(tmp_path / "x.csv")
    told = convert(run, described)
    left_out = "'' (without a name), Position (given by a ranking)"
    assert f"note: {tmp_path / 'x.csv'}: left out, as `features` does not name them: {left_out}\n" in told
    assert read_table("data.parquet", "lists").equals(expected)
    frame.with_columns(place=rows % 6).write_csv(tmp_path / "x.csv")
    assert "better than it is: place (numbers the rows of each topic); if" in convert(run, described)


def test_the_files_of_a_data_set_have_the_same_features_by_name(tmp_path: Path, run: Run) -> None:
    names = ["a.csv", "b.csv", "c.csv"]
    for number, name in enumerate(names):
        frame = pl.DataFrame({"topic": [f"q{number}"] * 2, "relevance": [0, 1], "f": [1.5, 2.5], "g": [-1.5, -2.5]})
        frame.select("topic", "relevance", *("fg" if number else "gf")).write_csv(tmp_path / name)
    convert(run, {"format": "table", "path": str(tmp_path), "parts": names})
    assert read_features("data.parquet").tolist() == [[-1.5, 1.5], [-2.5, 2.5]] * 3
    (tmp_path / "c.csv").write_text("topic,relevance,f\nq2,0,1\n")
    told = convert(run, {"format": "table", "path": str(tmp_path), "parts": names}, status=2)
    assert "c.csv: there is no column 'g'; it has topic, relevance, f; the features to read" in told


def in_text(path: Path) -> dict[str, Any]:
    path.write_text("".join(letor(first, 2)[0] for first in (10, 20, 30)))
    return {"format": "letor", "path": str(path), "random_parts": 3}


SAME: dict[str, tuple[str, Described, tuple[str, ...]]] = {
    "judged lists": ("lists", in_text, ("x.txt", "x.txt.gz", "x.txt.zip")),
    "judged items": ("lists", searches, ("x.csv", "x.parquet", "x.csv.zip", "x.parquet.zip")),
    "ratings": (
        "interactions",
        lambda path: ratings(path, {".dat": "::", ".data": "\t", ".csv": ",", ".parquet": ""}[path.suffix]),
        ("x.dat", "x.data", "x.csv", "x.parquet", "x.csv.zip", "x.parquet.zip"),
    ),
}


@pytest.mark.parametrize("kind", SAME)
def test_all_layouts_and_packings_are_the_same_data(tmp_path: Path, run: Run, kind: str) -> None:
    contract, describe, names = SAME[kind]
    found = []
    for name in names:
        plain = tmp_path / name.removesuffix(".zip").removesuffix(".gz")
        described = describe(plain)
        if name.endswith(".gz"):
            (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
        elif name.endswith(".zip"):
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.write(plain, f"folder/{plain.name}")
        convert(run, {**described, "path": str(tmp_path / name)})
        found.append(read_table("data.parquet", contract))
    assert all(table.equals(found[0]) for table in found)
    assert len(found[0]) == {"judged lists": 6, "judged items": 40, "ratings": 1500}[kind]


def test_ratings_without_stars_or_times_are_ones_and_files_of_folds_may_share_some(tmp_path: Path, run: Run) -> None:
    for file, text in PROBLEMS["right"].items():
        (tmp_path / file).write_text(HEAD + text)
    convert(run, {**PROBLEMS["folds"], "path": str(tmp_path)})
    assert read_table("data.parquet", "interactions").num_rows == 6
    (tmp_path / "clicks.tsv").write_text("who\tnote\twhat\n2\tx\t7\n1\ty\t9\n")
    described = {"format": "ratings", "path": str(tmp_path / "clicks.tsv"), "separator": "\t"}
    convert(run, {**described, "columns": {"topic": "who", "item": "what"}})
    assert read_table("data.parquet", "interactions").to_pylist() == [
        {"topic": 1, "item": 9, "rating": 1.0, "timestamp": 0},
        {"topic": 2, "item": 7, "rating": 1.0, "timestamp": 0},
    ]


def test_checksums_hold_for_own_files(tmp_path: Path, run: Run) -> None:
    described = searches(tmp_path / "searches.csv")
    right = hashlib.sha256((tmp_path / "searches.csv").read_bytes()).hexdigest()
    content = {"members": {"searches.csv": right}}
    convert(run, {**described, "content": content})
    with (tmp_path / "searches.csv").open("a") as file:
        file.write("boots,s1,1,0.5,0.5\n")
    Path("data.parquet").unlink()
    message = convert(run, {**described, "content": content}, status=2)
    assert f"searches.csv: its content is not that of mine: expected {right} (sha256), found " in message
    assert not Path("data.parquet").exists()


SIZES: dict[str, tuple[Described, int, int]] = {
    "table": (searches, 40, 240),
    "ratings": (lambda path: ratings(path, ","), 30, 1500),
    "letor": (
        lambda path: repeated_splits(path.with_name("splits")),
        30,
        sum(letor(query, 1)[1][0] for query in range(1, 31)),
    ),
}


@pytest.mark.parametrize("kind", SIZES)
def test_stated_sizes_hold(tmp_path: Path, run: Run, kind: str) -> None:
    describe, topics, rows = SIZES[kind]
    keys = describe(tmp_path / "x.csv")
    convert(run, {**keys, "sizes": {"topics": topics, "rows": rows}})
    Path("data.parquet").unlink()
    message = convert(run, {**keys, "sizes": {"topics": topics, "rows": rows + 1}}, status=2)
    assert f"found {rows:,} rows of {topics} topics, but the description has {rows + 1:,} of {topics}" in message
    assert not Path("data.parquet").exists()


PROBLEMS = yaml.safe_load((Path(__file__).parents[1] / "reference/described_problems.yaml").read_text("utf-8"))
HEAD = "user,movie,stars\n"


@pytest.mark.parametrize("name", PROBLEMS["bad_files"])
def test_bad_files_are_named_and_nothing_is_written(tmp_path: Path, run: Run, name: str) -> None:
    files, described, message = PROBLEMS["bad_files"][name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        if file.endswith(".zip"):
            with zipfile.ZipFile(tmp_path / file, "w") as archive:
                archive.writestr("x.csv", text or "")
        elif text is not None:
            (tmp_path / file).write_text(HEAD + text if "folds" in described else text)
    path = tmp_path if {"fold_pattern", "folds", "parts"} & set(described) else tmp_path / next(iter(files))
    told = convert(run, {**described, "path": str(path)}, status=2)
    assert re.search(message, told), told
    assert not Path("data.parquet").exists()


UNINFORMATIVE = {
    "constant labels": ("1 qid:{} 1:1\n1 qid:{} 1:2\n", r"another at the threshold 1; the labels are 1 \.\. 1"),
    "no labels": ("0 qid:{} 1:1\n0 qid:{} 1:2\n", r"the labels are 0 \.\. 0: check which column or field holds them"),
    "single items": ("1 qid:{} 1:1\n", r"every topic has a single item, so that there is nothing to rank"),
}


@pytest.mark.parametrize("name", UNINFORMATIVE)
def test_lists_that_tell_nothing_are_refused(tmp_path: Path, run: Run, name: str) -> None:
    text, message = UNINFORMATIVE[name]
    (tmp_path / "x").write_text("".join(text.replace("{}", str(query)) for query in range(9)))
    described = {**PROBLEMS["letor"], "path": str(tmp_path / "x")}
    convert(run, described)
    split(run, described)
    told = sample(run, status=2, threshold=1)
    assert re.search(message, told), told
    assert not Path("instances.parquet").exists()


PLAIN = {"format": "ratings", "path": "x", "columns": {"topic": "u", "item": "i", "timestamp": "t"}}


@pytest.mark.parametrize("name", PROBLEMS["contradictions"])
def test_contradictory_descriptions_are_named(run: Run, name: str) -> None:
    changed, message = PROBLEMS["contradictions"][name]
    described = {key: value for key, value in {**PLAIN, **changed}.items() if value is not None}
    named = "movielens" if name == "a known name" else "mine"
    told = run("convert", named, "--raw", "x", "--out", "y", "--description", json.dumps(described), status=2)
    assert message in told, told
