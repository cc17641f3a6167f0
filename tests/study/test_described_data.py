"""Data from their files to instances: of archives that are known, and of others by a description alone."""

import gzip
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from described_steps import DRAWING, SPLITS, Run, convert, instances, pairs, sample, split, topics

from rankbound.io.files import read_lists
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data import sources
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.reader import read_features, read_instances, read_item_names
from tests.described_files import (
    LISTS,
    RATINGS,
    folds_of_letor,
    letor,
    lightgbm,
    ratings,
    repeated_splits,
    searches,
    splits_of_ratings,
)
from tests.raw_files import changed, convert_as, make_rar, pack, source_of

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


def test_folds_and_groups_of_files_are_as_the_library_reads_them(run: Run, tmp_path: Path) -> None:
    made = instances(run, folds_of_letor(tmp_path / "web"))
    for fold in made.folds:
        for part, file in zip(SPLITS, ("train", "vali", "test"), strict=True):
            expected, one = read_lists(tmp_path / "web" / f"Fold{fold}" / f"{file}.txt"), made.split(fold, part)
            assert topics(made, fold, part) == list(expected.topics)
            assert one.sizes.tolist() == np.diff(expected.offsets).tolist()
            np.testing.assert_array_equal(read_features("data.parquet")[one.items], expected.features)
            np.testing.assert_array_equal(one.relevance, expected.relevance >= 1)
    made = instances(run, lightgbm(tmp_path / "lgb"))
    expected = read_lists(tmp_path / "lgb/rank.test", groups=tmp_path / "lgb/rank.test.query")
    one = made.split(1, "test")
    assert one.sizes.tolist() == np.diff(expected.offsets).tolist()
    np.testing.assert_array_equal(read_features("data.parquet")[one.items], expected.features)
    assert len(made.split(1, "train").topics) + len(made.split(1, "validation").topics) == 40


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


# Ratings in splits of any kind and with any names: which pairs are in which split, and what negatives

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


def test_by_time_tests_on_the_latest_items_and_ties_follow_no_numbers(run: Run, tmp_path: Path) -> None:
    rows = [(user, 50 * user + item, 5, 100 * user + item) for user in range(4) for item in range(20)]
    made = instances(run, timed(tmp_path / "x.csv", rows, cut="user", test_share=0.2))
    assert made.folds == (1,)
    places = {part: sorted({int(item) % 50 for _, item in pairs(made, 1, part)}) for part in SPLITS}
    assert places == {"train": [*range(12)], "validation": [*range(12, 16)], "test": [*range(16, 20)]}
    described = timed(tmp_path / "x.csv", [(user, item, 5, 7) for user in range(40) for item in range(20)], cut="user")
    convert(run, described)
    split(run, described)
    test = pl.from_arrow(read_table("folds.parquet", "interaction-splits")).filter(split="test")  # type: ignore[union-attr]
    assert test.group_by("topic").len()["len"].to_list() == [4] * 40
    assert test["item"].n_unique() == 20


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


# Known data and generated ones, on archives made here

Members = dict[str, bytes]
Place = Callable[..., str]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Packs an archive, which the source of that name then expects, without an address; gives its path."""

    def call(name: str, members: Members, file: str = "raw.zip") -> str:
        path = (make_rar if file.endswith("rar") else pack)(Path(file), members)
        monkeypatch.setattr(sources, "SOURCES", {name: changed(source_of(name, path), addresses=None)})
        return file

    return call


def mq2008_part(part: int) -> bytes:
    """Three queries of two lines each."""
    pairs = " ".join(f"{index}:{index / 100:.6f}" for index in range(1, 47))
    return "".join(
        f"{label} qid:{part}{query} {pairs} #docid = G{part}{query}-{label} inc = 1 prob = 0.1\r\n"
        for query in range(3)
        for label in (2, 0)
    ).encode()


MQ2008 = {f"MQ2008/S{part}.txt": mq2008_part(part) for part in range(1, 6)}


@pytest.mark.parametrize("packing", ["zip", "rar"])
def test_judged_lists_from_archive_to_instances(run: Run, place: Place, packing: str) -> None:
    Path("mirror").mkdir()
    place("mq2008", MQ2008, f"mirror/MQ2008.{packing}")
    printed = run("download", "mq2008", "--out", "data/raw/MQ2008.zip", "--mirror", "mirror")
    assert "no redistribution" in printed
    assert "Introducing LETOR 4.0" in printed
    run("convert", "mq2008", "--raw", "data/raw/MQ2008.zip", "--out", "data.parquet")
    run("split", "mq2008", "--in", "data.parquet", "--out", "folds.parquet")
    sample(run, "mq2008", threshold=2)
    instances = read_instances("instances.parquet")
    assert (instances.dataset, instances.item_count, len(instances.topics)) == ("mq2008-label2", 30, 15)
    assert topics(instances, 1, "test") == ["50", "51", "52"]
    test = instances.split(1, "test")
    assert test.relevance.tolist() == [1, 0] * 3
    names = read_item_names("data.parquet")
    assert [names[item] for item in test.items] == [f"G5{query}-{label}" for query in range(3) for label in (2, 0)]
    expected = np.tile(np.arange(1, 47) / 100, (30, 1)).astype(np.float32)
    np.testing.assert_array_equal(read_features("data.parquet"), expected)


def mslr_part(part: int) -> bytes:
    """Two queries of three lines each, with labels up to 4, without comments, as MSLR-WEB10K's lines are."""
    zeros = " ".join(f"{index}:0" for index in range(2, 137))
    return "".join(
        f"{(part + row) % 5} qid:{part}{query} 1:{part * 1000 + query * 100 + row} {zeros} \n"
        for query in range(2)
        for row in range(3)
    ).encode()


def mslr() -> Members:
    """Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4."""
    members = {}
    for fold in range(5):
        turned = [mslr_part((fold + step) % 5 + 1) for step in range(5)]
        for name, parts in {"train": turned[:3], "vali": turned[3:4], "test": turned[4:]}.items():
            members[f"Fold{fold + 1}/{name}.txt"] = b"".join(parts)
    return members


def test_every_row_of_the_archives_folds_is_stored_once(run: Run, place: Place) -> None:
    """5 parts of 2 queries of 3 rows, not 5 folds of them."""
    run("convert", "mslr-web10k", "--raw", place("mslr-web10k", mslr()), "--out", "data.parquet")
    run("split", "mslr-web10k", "--in", "data.parquet", "--out", "folds.parquet")
    sample(run, "mslr-web10k", graded=True)
    instances, features = read_instances("instances.parquet"), read_features("data.parquet")
    assert (instances.dataset, instances.item_count, features.shape) == ("mslr-web10k-graded", 30, (30, 136))
    for fold in range(1, 6):
        test = instances.split(fold, "test")
        place_in_turn = (fold + 3) % 5 + 1
        assert set((features[test.items, 0] // 1000).astype(int).tolist()) == {place_in_turn}
        assert test.relevance.tolist() == [(place_in_turn + row) % 5 for _ in range(2) for row in range(3)]


def test_a_malformed_line_in_an_archive_is_named(run: Run, place: Place) -> None:
    members = MQ2008 | {"MQ2008/S3.txt": mq2008_part(3).replace(b" 7:", b" 7;", 1)}
    told = run("convert", "mq2008", "--raw", place("mq2008", members), "--out", "lists.parquet", status=2)
    assert "convert: raw.zip: MQ2008/S3.txt, line 1: found '7;0.070000', expected a pair" in told
    assert not Path("lists.parquet").exists()


def test_synthetic_ratings_from_nothing_to_instances(run: Run) -> None:
    name = "synthetic-movielens"
    run("generate", name, "--size", "12", "--out", "data.parquet")
    run("split", name, "--in", "data.parquet", "--out", "folds.parquet", threshold=4)
    sample(run, name, nsr=2, seed=1, validation_share=0.2)
    instances = read_instances("instances.parquet")
    assert (instances.dataset, instances.nsr, len(instances.topics)) == (name, 2, 12)
    assert "negatives at NSR 900, but only" in sample(run, name, status=2, nsr=900)
    full = {"train": "full", "test": "full"}
    for options, suffix in (({"nsr": [1, 2]}, "-mixed-1-2"), ({"nsr": None, "sampling": full}, "-full")):
        sample(run, name, **options)
        assert read_instances("instances.parquet").dataset == name + suffix
    for options, expected in (
        ({"sampling": full}, "'nsr' is 1, expected null"),
        ({"nsr": None}, "'nsr' is null, expected a number of negatives"),
        ({"nsr": []}, "'nsr' is [], expected a value like 1"),
        ({"nsr": [1, "2"]}, "expected a value like 1"),
        ({"nsr": -1}, "expected a value like 1"),
        ({"sampling": {"train": "full", "test": "uniform"}}, '\'sampling\' is {"train": "full"'),
        ({"ratio": 2}, "unknown key 'ratio'; known are min_relevant, nsr, sampling, seed, threshold, validation_share"),
    ):
        assert expected in sample(run, name, status=2, **options)


def test_wrong_files_options_and_sources_are_named(run: Run) -> None:
    run("generate", "synthetic-mq2008", "--size", "10", "--out", "data.parquet")
    run("split", "synthetic-mq2008", "--in", "data.parquet", "--out", "folds.parquet")
    told = sample(run, "synthetic-mq2008", status=2, graded=True, threshold=2)
    assert "has both a threshold and graded labels" in told
    told = run("split", "synthetic-mq2008", "--in", "folds.parquet", "--out", "x.parquet", status=2)
    assert "folds.parquet: the metadata key 'rankbound.schema' should be interactions/1 or lists/1" in told
    assert "unknown key 'nsr'" in run("split", "x", "--in", "data.parquet", "--out", "x.parquet", status=2, nsr=1)
    assert "no source 'netflix'" in run("download", "netflix", "--out", "x.zip", status=2)
    assert "no source 'netflix'" in run("convert", "netflix", "--raw", "x.zip", "--out", "y", status=2)
    assert "vgg16 is not converted: its format is weights" in run(
        "convert", "vgg16", "--raw", "x", "--out", "y", status=2
    )
