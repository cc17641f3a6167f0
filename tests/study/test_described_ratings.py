"""Ratings in splits of any kind and with any names: which pairs are in which split, and what negatives."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from described_steps import DRAWING, SPLITS, Run, convert, instances, pairs, sample, split

from rankbound_study.data.contracts import read_metadata, read_table
from tests.described_files import splits_of_ratings
from tests.raw_files import convert_as

RATED = ("user", "movie", "stars", "time")
COLUMNS = dict(zip(("topic", "item", "rating", "timestamp"), RATED, strict=True))


def of_file(path: Path, least: float = 4) -> set[tuple[str, str]]:
    frame = pl.read_csv(path).filter(pl.col("stars") >= least)
    return set(frame.select(pl.col("user", "movie").cast(pl.String)).iter_rows())


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_rows_are_sorted_by_user_and_movie(tmp_path: Path, line_end: str) -> None:
    rows = ["userId,movieId,rating,timestamp", "2,5,4.5,30", "1,9,0.5,20", "1,3,5,10"]
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as archive:
        archive.writestr("ml-latest-small/ratings.csv", line_end.join(rows))
    convert_as("movielens", tmp_path / "raw.zip", tmp_path / "x.parquet")
    found = read_table(tmp_path / "x.parquet", "interactions").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 3, 5.0, 10), (1, 9, 0.5, 20), (2, 5, 4.5, 30)]
    assert read_metadata(tmp_path / "x.parquet", "interactions")["rankbound.dataset"] == "movielens"


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
        counts = pl.DataFrame(list(train | validation), orient="row").group_by("column_0").len()["len"]
        assert len(validation) == sum(max(1, round(0.25 * count)) for count in counts)
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
    high = pl.when(pl.col("user") < 5).then(5).otherwise(pl.col("stars")).alias("stars")
    for path in (tmp_path / "splits").glob("*/*.csv"):
        pl.read_csv(path).with_columns(high).write_csv(path)
    made = instances(run, described, nsr=0)
    assert set(made.topics) == {str(user) for user in range(5, 20)}
    files = [*(tmp_path / "splits").glob("fold_0/*.csv")]
    low = {pair for path in files for pair in of_file(path, 0) - of_file(path) if int(pair[0]) >= 5}
    assert set().union(*(pairs(made, 1, part, relevance=0) for part in SPLITS)) == low
    assert "left out, having no irrelevant items: 5 users" in sample(run, **{**DRAWING, "nsr": 0})


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
    assert 99 not in read_table("folds.parquet", "interaction-splits")["topic"].to_pylist()


def test_without_enough_relevant_items_nothing_is_split(tmp_path: Path, run: Run) -> None:
    described = splits_of_ratings(tmp_path / "splits")
    convert(run, described)
    assert "no user has 90 ratings of at least 4" in split(run, described, status=2, min_relevant=90)
    told = split(run, described, status=2, folds=[{"train": ["x"], "test": ["y"]}])
    assert "it has no ratings of 'x', which fold 1 names; convert the data anew" in told


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_users_and_items_may_be_texts_which_lists_show(tmp_path: Path, run: Run, suffix: str) -> None:
    """The lists are those of the same pairs by numbers."""
    rows = [(user, (7 * user + 13 * item) % 90, 4 + item % 2) for user in range(20) for item in range(12)]
    numbers = pl.DataFrame(rows, RATED[:3], orient="row")
    texts = numbers.with_columns(
        pl.format("user é {}", pl.col("user").cast(pl.String).str.zfill(2)).alias("user"),
        pl.format('isbn, "{}"', pl.col("movie").cast(pl.String).str.zfill(2)).alias("movie"),
    )
    path, made = tmp_path / f"x{suffix}", []
    columns = {key: COLUMNS[key] for key in ("topic", "item", "rating")}
    for frame, ids in ((numbers, "numbers"), (texts, "texts")):
        frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
        made.append(instances(run, {"format": "ratings", "path": str(path), "columns": columns, "ids": ids}))
    for fold in made[0].folds:
        of_numbers, of_texts = (set().union(*(pairs(one, fold, part) for part in SPLITS)) for one in made)
        assert of_texts == {(f"user é {int(user):02}", f'isbn, "{int(item):02}"') for user, item in of_numbers}


# Splits by time


def timed(path: Path, rows: Sequence[tuple[int, ...]], **keys: Any) -> dict[str, Any]:
    """Ratings with times, in random order."""
    pl.DataFrame(rows, RATED, orient="row").sample(fraction=1, shuffle=True, seed=1).write_csv(path)
    return {"format": "ratings", "path": str(path), "columns": COLUMNS, "by_time": keys}


def test_by_time_tests_on_the_latest_items_of_each_user(tmp_path: Path, run: Run) -> None:
    rows = [(user, 50 * user + item, 5, 100 * user + item) for user in range(4) for item in range(20)]
    made = instances(run, timed(tmp_path / "x.csv", rows, cut="user", test_share=0.2))
    assert made.folds == (1,)
    places = {part: sorted({int(item) % 50 for _, item in pairs(made, 1, part)}) for part in SPLITS}
    assert places == {"train": [*range(12)], "validation": [*range(12, 16)], "test": [*range(16, 20)]}


def test_by_one_moment_tests_on_everything_later(tmp_path: Path, run: Run) -> None:
    """User u's items come at the times 5 u .. 5 u + 19; the last user comes after the test's first moment."""
    rows = [(user, item, 5, 5 * user + item + 100 * (user == 4)) for user in range(5) for item in range(20)]
    described = timed(tmp_path / "x.csv", rows, cut="global", test_share=0.3)
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
    described = timed(tmp_path / "x.csv", [(user, item, 5, 7) for user in range(40) for item in range(20)], cut="user")
    convert(run, described)
    split(run, described)
    test = pl.from_arrow(read_table("folds.parquet", "interaction-splits")).filter(split="test")  # type: ignore[union-attr]
    assert test.group_by("topic").len()["len"].to_list() == [4] * 40
    assert test["item"].n_unique() == 20
