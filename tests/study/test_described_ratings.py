"""Ratings in splits of any kind and with any names: which pairs are in which split, and what negatives."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from described_steps import Run, convert

from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data.contracts import read_table
from rankbound_study.data.reader import FoldedLists, read_instances
from tests.described_files import splits_of_ratings

DRAWING = {"nsr": 2, "validation_share": 0.25, "min_relevant": 5, "threshold": 4, "seed": 0}
SPLITS = ("train", "validation", "test")


def split(run: Run, description: dict[str, Any], status: int = 0, **changed: Any) -> str:
    splitting = DescriptionKeys.model_validate(description).splitting
    keys = ("threshold", "min_relevant", "seed", *(("validation_share",) if "by_time" in splitting else ()))
    options = json.dumps({**{key: DRAWING[key] for key in keys}, **splitting, **changed})
    return run("split", "mine", "--in", "data.parquet", "--out", "folds.parquet", "--options", options, status=status)


def instances(run: Run, description: dict[str, Any], **changed: Any) -> FoldedLists:
    convert(run, description)
    split(run, description, **{key: value for key, value in changed.items() if key != "nsr"})
    files = ("--in", "data.parquet", "--folds", "folds.parquet", "--out", "instances.parquet")
    run("sample", "mine", *files, "--options", json.dumps({**DRAWING, **changed}))
    return read_instances("instances.parquet")


def pairs(made: FoldedLists, fold: int, part: str, relevance: int = 1) -> set[tuple[str, str]]:
    """The pairs of a split with that relevance, by their names."""
    assert made.item_names is not None
    one = made.split(fold, part)
    topic = np.repeat(one.topics, one.sizes)
    chosen = one.relevance == relevance
    return {
        (made.topics[user], made.item_names[item])
        for user, item in zip(topic[chosen].tolist(), one.items[chosen].tolist(), strict=True)
    }


def of_file(path: Path, least: float = 4) -> set[tuple[str, str]]:
    frame = pl.read_csv(path).filter(pl.col("stars") >= least)
    return set(frame.select(pl.col("user", "movie").cast(pl.String)).iter_rows())


def test_given_splits_are_those_files_and_validation_is_cut_from_training(tmp_path: Path, run: Run) -> None:
    made = instances(run, splits_of_ratings(tmp_path / "splits"))
    assert made.folds == (1, 2, 3)
    every = {pair for path in (tmp_path / "splits").glob("*/*.csv") for pair in of_file(path)}
    for fold in made.folds:
        folder = tmp_path / "splits" / f"fold_{fold - 1}"
        train, validation, test = (pairs(made, fold, part) for part in SPLITS)
        assert train | validation == of_file(folder / "train.csv")
        assert test == of_file(folder / "test.csv")
        assert not train & validation
        assert len(validation) == sum(
            max(1, round(0.25 * count)) for count in pl.DataFrame(list(train | validation), orient="row")
            .group_by("column_0").len()["len"]
        )  # fmt: skip
        negatives = [pairs(made, fold, part, relevance=0) for part in SPLITS]
        assert [len(drawn) for drawn in negatives] == [2 * len(part) for part in (train, validation, test)]
        assert sum(map(len, negatives)) == len(set().union(*negatives)), "a negative is in two splits"
        assert not set().union(*negatives) & every
    assert pairs(made, 1, "test") & pairs(made, 2, "test"), "the test parts of this example overlap"


def test_a_file_for_validation_validates(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    described["fold_pattern"] |= {"validation": described["fold_pattern"]["test"], "test": ["held_out.csv"]}
    held_out = "\n".join(f"{user},{901 + item},5" for user in range(20) for item in range(3))
    (tmp_path / "splits/held_out.csv").write_text(f"user,movie,stars\n{held_out}\n")
    described["fold_pattern"]["count"] = 1
    del described["fold_pattern"]["first"]
    (tmp_path / "splits/fold_0").rename(tmp_path / "splits/fold_1_")
    described = json.loads(json.dumps(described).replace("fold_{fold}/", "fold_{fold}_/"))
    made = instances(run, described)
    assert pairs(made, 1, "validation") == of_file(tmp_path / "splits/fold_1_/test.csv")
    assert pairs(made, 1, "train") == of_file(tmp_path / "splits/fold_1_/train.csv")
    assert len(pairs(made, 1, "test")) == 60


def test_pairs_without_ratings_are_all_relevant(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    del described["columns"]["rating"]
    made = instances(run, described, threshold=1)
    known = of_file(tmp_path / "splits/fold_0/train.csv", 0) | of_file(tmp_path / "splits/fold_0/test.csv", 0)
    assert set().union(*(pairs(made, 1, part) for part in SPLITS)) == known
    assert not set().union(*(pairs(made, 1, part, relevance=0) for part in SPLITS)) & known


def test_a_rating_that_several_files_have_counts_once(tmp_path: Path, run: Run) -> None:
    """At ratio 0, the users without low ratings have no lists, however often their ratings are stored."""
    described = splits_of_ratings(tmp_path / "splits")
    for path in (tmp_path / "splits").glob("*/*.csv"):
        frame = pl.read_csv(path)
        frame.with_columns(pl.when(pl.col("user") < 5).then(5).otherwise(pl.col("stars")).alias("stars")).write_csv(
            path
        )
    made = instances(run, described, nsr=0)
    assert set(made.topics) == {str(user) for user in range(5, 20)}
    low = {
        pair
        for path in (tmp_path / "splits").glob("fold_0/*.csv")
        for pair in of_file(path, 0) - of_file(path)
        if int(pair[0]) >= 5
    }
    assert set().union(*(pairs(made, 1, part, relevance=0) for part in SPLITS)) == low
    files = ("--in", "data.parquet", "--folds", "folds.parquet", "--out", "instances.parquet")
    told = run("sample", "mine", *files, "--options", json.dumps({**DRAWING, "nsr": 0}))
    assert "left out, having no irrelevant items: 5 users" in told


def test_an_archive_of_splits_is_read_as_its_folder(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    convert(run, described)
    expected = read_table("data.parquet", "interactions")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path in (tmp_path / "splits").glob("*/*.csv"):
            archive.write(path, f"deep/{path.parent.name}/{path.name}")
    convert(run, {**described, "path": str(tmp_path / "x.zip")})
    assert read_table("data.parquet", "interactions").equals(expected)


def test_a_user_without_training_items_is_left_out_of_that_fold(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    with (tmp_path / "splits/fold_1/test.csv").open("a") as file:
        file.writelines(f"99,{item},5\n" for item in range(10))
    convert(run, described)
    assert "note: fold 2: users without enough relevant training items, who are left out: 1" in split(run, described)
    folds = read_table("folds.parquet", "interaction-splits").to_pandas()
    assert not (folds["topic"] == 99).any()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_users_and_items_may_be_texts_which_lists_show(tmp_path: Path, run: Run, suffix: str) -> None:
    """The lists are those of the same pairs by numbers."""
    numbers = pl.DataFrame(
        [(user, (7 * user + 13 * item) % 90, 4 + item % 2) for user in range(20) for item in range(12)],
        schema=["who", "what", "stars"],
        orient="row",
    )
    texts = numbers.with_columns(
        pl.format("user é {}", pl.col("who").cast(pl.String).str.zfill(2)).alias("who"),
        pl.format('isbn, "{}"', pl.col("what").cast(pl.String).str.zfill(2)).alias("what"),
    )
    path = tmp_path / f"x{suffix}"
    columns = {"topic": "who", "item": "what", "rating": "stars"}
    described = {"format": "ratings", "path": str(path), "columns": columns}
    made = []
    for frame, ids in ((numbers, "numbers"), (texts, "texts")):
        frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
        made.append(instances(run, {**described, "ids": ids}))
    plain, named = made
    for fold in plain.folds:
        of_numbers = set().union(*(pairs(plain, fold, part) for part in SPLITS))
        of_texts = set().union(*(pairs(named, fold, part) for part in SPLITS))
        assert of_texts == {(f"user é {int(user):02}", f'isbn, "{int(item):02}"') for user, item in of_numbers}


def times(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    """Ratings whose times say everything: user u rates items 0 .. 19 of u's at the times 100 u + item."""
    rows = [(user, 50 * user + item, 5, 100 * user + item) for user in range(4) for item in range(20)]
    pl.DataFrame(rows, schema=["user", "movie", "stars", "time"], orient="row").sample(
        fraction=1, shuffle=True, seed=1
    ).write_csv(tmp_path / "x.csv")
    columns = {"topic": "user", "item": "movie", "rating": "stars", "timestamp": "time"}
    return {"format": "ratings", "path": str(tmp_path / "x.csv"), "columns": columns, "by_time": keys}


def test_by_time_tests_on_the_latest_items_of_each_user(tmp_path: Path, run: Run) -> None:
    made = instances(run, times(tmp_path, cut="user", test_share=0.2))
    assert made.folds == (1,)
    places = {part: sorted({int(item) % 50 for _, item in pairs(made, 1, part)}) for part in SPLITS}
    assert places == {"train": [*range(12)], "validation": [*range(12, 16)], "test": [*range(16, 20)]}


def test_by_one_moment_tests_on_everything_later(tmp_path: Path, run: Run) -> None:
    """User u's items come at the times 5 u .. 5 u + 19; the last user comes after the test's first moment."""
    rows = [(user, item, 5, 5 * user + item + 100 * (user == 4)) for user in range(5) for item in range(20)]
    pl.DataFrame(rows, schema=["user", "movie", "stars", "time"], orient="row").write_csv(tmp_path / "y.csv")
    described = {**times(tmp_path, cut="global", test_share=0.3), "path": str(tmp_path / "y.csv")}
    convert(run, described)
    assert "note: fold 1: users without enough relevant training items, who are left out: 1" in split(run, described)
    moment = sorted(time for *_, time in rows)[-30]
    before = sorted(time for *_, time in rows if time < moment)
    earlier = before[-round(0.25 * len(before))]
    for row in read_table("folds.parquet", "interaction-splits").to_pylist():
        time = 5 * row["topic"] + row["item"]
        assert row["split"] == ("test" if time >= moment else "validation" if time >= earlier else "train")
        assert row["topic"] != 4


def test_ties_in_time_do_not_follow_the_items_numbers(tmp_path: Path, run: Run) -> None:
    rows = [(user, item, 5, 7) for user in range(40) for item in range(20)]
    pl.DataFrame(rows, schema=["user", "movie", "stars", "time"], orient="row").write_csv(tmp_path / "x.csv")
    described = {**times(tmp_path / "..", cut="user"), "path": str(tmp_path / "x.csv")}
    convert(run, described)
    split(run, described)
    folds = pl.from_arrow(read_table("folds.parquet", "interaction-splits"))
    test = folds.filter(pl.col("split") == "test")
    assert test.group_by("topic").len()["len"].to_list() == [4] * 40
    assert test["item"].n_unique() == 20


OF_SPLITS: dict[str, Any] = {
    "format": "ratings",
    "columns": {"topic": "user", "item": "movie", "rating": "stars"},
    "folds": [{"train": ["a.csv"], "test": ["b.csv"]}, {"train": ["c.csv"], "test": ["d.csv"]}],
}
HEAD = "user,movie,stars\n"
RIGHT = {"a.csv": "1,1,5\n1,2,5\n", "b.csv": "1,3,5\n", "c.csv": "1,3,5\n1,2,5\n", "d.csv": "1,1,5\n"}
BAD = {
    "an item in train and test": (
        {"b.csv": "1,3,5\n1,2,5\n"},
        r"b\.csv, row 3: user 1 rates item 2 in test of fold 1, and in train, .*a\.csv, row 3; remove one of the rows",
    ),
    "an item twice": (
        {"a.csv": "1,1,5\n1,2,5\n1,1,5\n"},
        r"a\.csv, row 4: user 1 rates item 1 more than once, first in .*a\.csv, row 2; keep one of the rows",
    ),
    "two editions": (
        {"c.csv": "1,3,5\n1,2,4\n"},
        r"c\.csv, row 3: user 1 rates item 2 with the rating 4, but .*a\.csv, row 3 has 5: these files are of two edit",
    ),
    "a missing fold": ({"d.csv": None}, r"d\.csv: No such file"),
    "no ratings": ({"d.csv": ""}, r"d\.csv: it has no ratings"),
    "an unknown column": (
        {"d.csv": "user,film,stars\n1,1,5\n"},
        r"d\.csv, line 1: found 'user,film,stars', which has no column 'movie'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_files_that_contradict_each_other_are_named(tmp_path: Path, run: Run, name: str) -> None:
    changed, message = BAD[name]
    for file, text in {**RIGHT, **changed}.items():
        if text is not None:
            (tmp_path / file).write_text(text if text.startswith("user") else HEAD + text)
    told = convert(run, {**OF_SPLITS, "path": str(tmp_path)}, status=2)
    assert re.search(message, told), told
    assert not Path("data.parquet").exists()


def test_the_right_files_of_these_examples_are_accepted(tmp_path: Path, run: Run) -> None:
    for file, text in RIGHT.items():
        (tmp_path / file).write_text(HEAD + text)
    convert(run, {**OF_SPLITS, "path": str(tmp_path)})
    assert read_table("data.parquet", "interactions").num_rows == 6


@pytest.mark.parametrize("text", ["user,movie,stars\nann,,5\n", 'user,movie,stars\n"",x,5\n'])
def test_empty_names_are_refused(tmp_path: Path, run: Run, text: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    described = {"format": "ratings", "columns": OF_SPLITS["columns"], "path": str(tmp_path / "x.csv")}
    message = convert(run, {**described, "ids": "texts"}, status=2)
    assert re.search(r"x\.csv, row 2: the name of the (user|item) is empty; expected a text", message), message


def test_without_enough_relevant_items_nothing_is_split(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    convert(run, described)
    assert "no user has 90 ratings of at least 4" in split(run, described, status=2, min_relevant=90)
    told = split(run, described, status=2, folds=[{"train": ["x"], "test": ["y"]}])
    assert "it has no ratings of 'x', which fold 1 names; convert the data anew" in told


PLAIN = {"format": "ratings", "path": "x", "columns": {"topic": "u", "item": "i", "timestamp": "t"}}
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "times of lists": ({"format": "letor", "columns": None, "by_time": {}}, "by_time: is for ratings: name the files"),
    "no times": ({"columns": {"topic": "u", "item": "i"}, "by_time": {}}, "columns: needs a timestamp, by which"),
    "two ways": ({"by_time": {}, "folds": [{"train": ["a"], "test": ["b"]}]}, "has folds and by_time: give one"),
    "parts": ({"parts": ["a", "b", "c"]}, "parts: is for judged lists"),
    "a share of lists": ({"validation_share": 0.5}, "validation_share: is for judged lists: for ratings it stands"),
    "files twice": ({"files": ["a"], "folds": [{"train": ["a"], "test": ["b"]}]}, "files: is set beside the files of"),
    "another cut": ({"by_time": {"cut": "item"}}, 'by_time.cut: is "item": expected one of user, global'),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_descriptions_are_named(tmp_path: Path, run: Run, name: str) -> None:
    changed, message = CONTRADICTIONS[name]
    described = {key: value for key, value in {**PLAIN, **changed}.items() if value is not None}
    told = run("convert", "mine", "--raw", "x", "--out", "y", "--description", json.dumps(described), status=2)
    assert message in told, told
