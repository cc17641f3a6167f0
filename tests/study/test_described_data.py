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
from described_steps import Run, convert

from rankbound.io.files import read_lists
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data.contracts import read_table
from rankbound_study.data.reader import FoldedLists, read_features, read_instances
from tests.described_files import LISTS, RATINGS, folds_of_letor, letor, lightgbm, ratings, repeated_splits, searches

DRAWING = {"nsr": 1, "validation_share": 0.1, "min_relevant": 10, "threshold": 4, "seed": 0}


def instances(run: Run, description: dict[str, Any], name: str = "mine") -> FoldedLists:
    """What the workflow's steps make of files by their description."""
    convert(run, description, name)
    is_ratings = description["format"] == "ratings"
    options = DescriptionKeys(**description).splitting
    if is_ratings:
        options |= {key: DRAWING[key] for key in ("threshold", "min_relevant", "seed")}
    run("split", name, "--in", "data.parquet", "--out", "folds.parquet", "--options", json.dumps(options))
    drawing = json.dumps(DRAWING if is_ratings else {"threshold": 1})
    files = ("--in", "data.parquet", "--folds", "folds.parquet", "--out", "instances.parquet")
    run("sample", name, *files, "--options", drawing)
    return read_instances("instances.parquet")


def topics(made: FoldedLists, fold: int, split: str) -> list[str]:
    return [made.topics[topic] for topic in made.split(fold, split).topics]


@pytest.mark.parametrize("name", [*LISTS, *RATINGS])
def test_every_layout_becomes_lists_whose_topics_do_not_mix(tmp_path: Path, run: Run, name: str) -> None:
    described = (LISTS | RATINGS)[name](tmp_path)
    made = instances(run, described, name)
    assert made.folds == tuple(range(1, DescriptionKeys(**described).n_folds + 1))
    for fold in made.folds:
        splits = {split: made.split(fold, split) for split in ("train", "validation", "test")}
        assert all(len(one.topics) for one in splits.values())
        if name in LISTS:
            named = [set(topics(made, fold, split)) for split in splits]
            assert sum(map(len, named)) == len(set().union(*named)), "a topic is in two splits"


def test_folds_of_files_are_those_files(tmp_path: Path, run: Run) -> None:
    made = instances(run, folds_of_letor(tmp_path / "web"))
    for fold in made.folds:
        for split, file in {"train": "train", "validation": "vali", "test": "test"}.items():
            expected = read_lists(tmp_path / "web" / f"Fold{fold}" / f"{file}.txt")
            one = made.split(fold, split)
            assert topics(made, fold, split) == list(expected.topics)
            assert one.sizes.tolist() == np.diff(expected.offsets).tolist()
            np.testing.assert_array_equal(read_features("data.parquet")[one.items], expected.features)
            np.testing.assert_array_equal(one.relevance, expected.relevance >= 1)


def test_lists_that_files_repeat_are_stored_once(tmp_path: Path, run: Run) -> None:
    convert(run, repeated_splits(tmp_path / "splits"))
    assert len(read_table("data.parquet", "lists", ["topic"])) == 30


def test_a_topic_with_other_rows_in_another_file_is_another_list(tmp_path: Path, run: Run) -> None:
    """As where each fold's features are scaled by its own training part."""
    for fold in (1, 2):
        (tmp_path / f"a{fold}").write_text(f"1 qid:1 1:0.{fold}\n0 qid:1 1:0.5\n")
        (tmp_path / f"b{fold}").write_text("1 qid:2 1:0.1\n0 qid:2 1:0.5\n")
        (tmp_path / f"c{fold}").write_text("1 qid:3 1:0.1\n0 qid:3 1:0.5\n")
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


def test_both_layouts_of_a_table_are_the_same_lists(tmp_path: Path, run: Run) -> None:
    made = [instances(run, searches(tmp_path / name)) for name in ("searches.csv", "searches.parquet")]
    for fold in range(1, 5):
        assert [topics(one, fold, "test") for one in made] == [topics(made[0], fold, "test")] * 2
    assert topics(made[0], 1, "test")[0].startswith("shoes, size ")


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


def test_all_layouts_of_ratings_are_the_same_interactions(tmp_path: Path, run: Run) -> None:
    found = []
    for name, separator in {"a.dat": "::", "b.data": "\t", "c.parquet": "", "d.csv": ","}.items():
        convert(run, ratings(tmp_path / name, separator))
        found.append(read_table("data.parquet", "interactions"))
    assert all(table.equals(found[0]) for table in found)
    assert len(found[0]) == 1500


def test_ratings_without_stars_or_times_are_ones(tmp_path: Path, run: Run) -> None:
    (tmp_path / "clicks.tsv").write_text("who\tnote\twhat\n2\tx\t7\n1\ty\t9\n")
    described = {"format": "ratings", "path": str(tmp_path / "clicks.tsv"), "separator": "\t"}
    convert(run, {**described, "columns": {"topic": "who", "item": "what"}})
    assert read_table("data.parquet", "interactions").to_pylist() == [
        {"topic": 1, "item": 9, "rating": 1.0, "timestamp": 0},
        {"topic": 2, "item": 7, "rating": 1.0, "timestamp": 0},
    ]


def test_files_may_be_packed(tmp_path: Path, run: Run) -> None:
    text = "".join(letor(first, 2)[0] for first in (10, 20, 30)).encode()
    described = {"format": "letor", "random_parts": 3}
    (tmp_path / "x.txt").write_bytes(text)
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("folder/x.txt", text)
    found = []
    for name in ("x.txt", "x.txt.gz", "x.zip"):
        convert(run, {**described, "path": str(tmp_path / name)})
        found.append(read_table("data.parquet", "lists"))
    assert all(table.equals(found[0]) for table in found)


@pytest.mark.parametrize("described", [searches, lambda path: ratings(path, ",")], ids=["judged items", "ratings"])
@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_tables_may_be_packed(tmp_path: Path, run: Run, name: str, described: Callable[[Path], dict[str, Any]]) -> None:
    keys = described(tmp_path / name)
    contract = "interactions" if keys["format"] == "ratings" else "lists"
    convert(run, keys)
    expected = read_table("data.parquet", contract)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / name, f"folder/{name}")
    convert(run, {**keys, "path": str(tmp_path / "x.zip")})
    assert read_table("data.parquet", contract).equals(expected)


def test_a_packed_table_is_named_by_its_archive(tmp_path: Path, run: Run) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.csv", "query;clicked\n1;1\n")
    described = {"format": "table", "path": str(tmp_path / "x.zip"), "random_parts": 3}
    message = convert(run, {**described, "columns": {"topic": "query", "relevance": "clicked"}}, status=2)
    assert f"{tmp_path}/x.zip: x.csv" in message
    assert "rankbound-" not in message


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


@pytest.mark.parametrize(
    ("described", "topics", "rows"),
    [
        (searches, 40, 240),
        (lambda path: ratings(path, ","), 30, 1500),
        (
            lambda path: repeated_splits(path.with_name("splits")),
            30,
            sum(letor(query, 1)[1][0] for query in range(1, 31)),
        ),
    ],
)
def test_stated_sizes_hold(
    tmp_path: Path, run: Run, described: Callable[[Path], dict[str, Any]], topics: int, rows: int
) -> None:
    keys = described(tmp_path / "x.csv")
    convert(run, {**keys, "sizes": {"topics": topics, "rows": rows}})
    Path("data.parquet").unlink()
    message = convert(run, {**keys, "sizes": {"topics": topics, "rows": rows + 1}}, status=2)
    assert f"found {rows:,} rows of {topics} topics, but the description has {rows + 1:,} of {topics}" in message
    assert not Path("data.parquet").exists()


def of_letor(**keys: Any) -> dict[str, Any]:
    return {"format": "letor", "random_parts": 3, **keys}


def of_ratings(**keys: Any) -> dict[str, Any]:
    return {"format": "ratings", "columns": {"topic": "user", "item": "movie", "rating": "stars"}, **keys}


LINES = "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25\n"
BAD = {
    "mixed labels": (
        {"x": "1 qid:1 1:1\ngood qid:1 1:2\n"},
        of_letor(),
        r"/x, line 2: found 'good', expected a label",
    ),
    "mixed labels of a table": (
        {"x.csv": "topic,relevance,f\na,1,1\na,good,2\n"},
        {"format": "table", "random_parts": 3},
        r"x\.csv, line 3: .*good",
    ),
    "an unknown column of a table": (
        {"x.csv": "topic,label,f\na,1,1\n"},
        {"format": "table", "random_parts": 3},
        r"x\.csv.*relevance",
    ),
    "another separator of a table": (
        {"x.csv": "topic;relevance;f\na;1;1\n"},
        {"format": "table", "random_parts": 3},
        r"x\.csv.*topic;relevance;f",
    ),
    "queries in two parts": (
        {"S1": LINES, "S2": LINES.replace("qid:1", "qid:2"), "S3": LINES},
        {"format": "letor", "parts": ["S1", "S2", "S3"]},
        r"S3, line 1: .*1",
    ),
    "another label": (
        {"x": "3 qid:1 1:1\n"},
        of_letor(largest_label=2),
        r"/x, line 1: found '3', expected a label",
    ),
    "a larger index": ({"x": LINES}, of_letor(features=1), r"line 1: found '2', expected a feature index .* 1 \.\. 1"),
    "no such file": ({}, of_letor(), r"x: cannot be read: No such file"),
    "no sizes": ({"x": "1 1:2\n"}, {"format": "lightgbm", "random_parts": 3}, r"x\.query: cannot be read|No such file"),
    "an empty file": ({"x": ""}, of_letor(), r"there are no lines in it"),
    "a missing fold": (
        {"Fold1/a": LINES, "Fold1/b": LINES.replace("qid:1", "qid:2")},
        {"format": "letor", "fold_pattern": {"count": 2, "train": ["Fold{fold}/a"], "test": ["Fold{fold}/b"]}},
        r"Fold2/a: cannot be read|No such file",
    ),
    "no such column": (
        {"x": "user,movie\n1,2\n"},
        of_ratings(),
        r"x, line 1: found 'user,movie', which has no column 'stars'; expected the columns' names separated by ','",
    ),
    "another separator": (
        {"x": "user;movie;stars\n1;2;3\n"},
        of_ratings(),
        r"found 'user;movie;stars', which has no column 'user'; expected .* separated by ','",
    ),
    "another separator below": ({"x": "user,movie,stars\n1;2;3\n"}, of_ratings(), r"Expected 3 columns, got 1"),
    "a name for a number": (
        {"x": "user,movie,stars\nann,2,3\n"},
        of_ratings(),
        r"Row #2: .*invalid value 'ann'; expected rows of 3 columns, with whole numbers for users and items",
    ),
    "a rating of no scale": (
        {"x": "user,movie,stars\n1,2,3\n1,3,6\n"},
        of_ratings(scale={"lowest": 1, "highest": 5, "step": 1}),
        r"user 1 rates item 3 with 6; expected 1, 2, \.\. 5",
    ),
    "an infinite rating": ({"x": "user,movie,stars\n1,2,inf\n"}, of_ratings(), r"user 1 rates item 2 with inf"),
    "an item twice": ({"x": "user,movie,stars\n1,2,3\n1,2,4\n"}, of_ratings(), r"user 1 rates item 2 more than once"),
    "half a label": (
        {"x.csv": "topic,relevance,f\na,0.5,1\n"},
        {"format": "table", "random_parts": 3},
        r"x\.csv: found relevance 0\.5, expected whole numbers 0 \.\. 127",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_and_nothing_is_written(tmp_path: Path, run: Run, name: str) -> None:
    files, described, message = BAD[name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    path = tmp_path if {"fold_pattern", "parts"} & set(described) else tmp_path / next(iter(files), "x")
    told = convert(run, {**described, "path": str(path)}, status=2)
    assert re.search(message, told), told
    assert not Path("data.parquet").exists()


UNINFORMATIVE = {
    "constant labels": ("1 qid:{} 1:1\n1 qid:{} 1:2\n", r"another at the threshold 1; the labels are 1 \.\. 1"),
    "no labels": ("0 qid:{} 1:1\n0 qid:{} 1:2\n", r"the labels are 0 \.\. 0: check which column or field holds them"),
    "single items": ("1 qid:{} 1:1\n", r"every topic has a single item, so that there is nothing to rank"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNINFORMATIVE)
def test_lists_that_tell_nothing_are_refused(tmp_path: Path, run: Run, name: str) -> None:
    text, message = UNINFORMATIVE[name]
    (tmp_path / "x").write_text("".join(text.replace("{}", str(query)) for query in range(9)))
    convert(run, of_letor(path=str(tmp_path / "x")))
    run("split", "mine", "--in", "data.parquet", "--out", "folds.parquet", "--options", '{"random_parts": 3}')
    files = ("--in", "data.parquet", "--folds", "folds.parquet", "--out", "instances.parquet")
    told = run("sample", "mine", *files, "--options", '{"threshold": 1}', status=2)
    assert re.search(message, told), told
    assert not Path("instances.parquet").exists()


def test_the_name_of_a_known_data_set_is_taken(tmp_path: Path, run: Run) -> None:
    message = convert(run, searches(tmp_path / "x.csv"), name="movielens", status=2)
    assert "movielens is a data set that the project knows: give data of your own another name" in message


def test_a_wrong_description_is_named(tmp_path: Path, run: Run) -> None:
    described = ("--description", '{"format": "leter"}')
    message = run("convert", "mine", "--raw", "x", "--out", "y", *described, status=2)
    assert '--description: format: is "leter": expected one of letor, lightgbm, table' in message
