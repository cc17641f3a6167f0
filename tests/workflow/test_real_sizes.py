"""Each layout at the size of a known data set, by configuration alone: from generated files to the leaderboard."""

import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from project import Project

from benchmarks import data
from benchmarks.data import EDITIONS, MQ2008, JudgedSet, sizes_of, write_parts

pytestmark = pytest.mark.long

LISTS, RATINGS = "lists", "interactions"
BOUNDINGS = ("none", "min-max")
CONTROLS = {LISTS: ("random", "best-feature", "oracle"), RATINGS: ("random", "popularity", "oracle")}
DRAWING = {"threshold": 4, "min_relevant": 10, "nsr": [1], "validation_share": 0.1, "seed": 0}
FACTORS = {
    "model": {"name": "matrix-factorization", "factors": 32}, "learning_rate": {"honest": 0.02}, "batch_size": 32,
}  # fmt: skip
FOLDS = 5

# The training and the test file of LightGBM's example of lambdarank; the shares of its labels are about these.
LIGHTGBM_TRAIN = JudgedSet(201, 3_005, 300, (40, 32, 20, 6, 2), dense=0.25)
LIGHTGBM_TEST = JudgedSet(50, 768, 300, LIGHTGBM_TRAIN.labels, dense=0.25)

USERS, ARTICLES, PAIRS, TEST_PAIRS, SPLITS = 2_465, 16_980, 157_527, 31_457, 3
"""Of CiteULike-a with the splits of Li, Urbano and Hanjalic, and its users' fewest articles."""
FEWEST_ARTICLES = 25

SEARCHES, RESULTS, COLUMNS = 2_000, 100_000, 20
"""Topics, judged items and features of a table."""


# Files, in which what is relevant can be learnt in part; each function returns what `new` is to look at


def letor_folders(folder: Path) -> Path:
    """Write Fold1 .. Fold5 with train.txt, vali.txt and test.txt, each row into five of the files."""
    paths = list(write_parts(folder, MQ2008, parts=FOLDS))
    parts = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    for fold in range(FOLDS):
        turned = [*parts[fold:], *parts[:fold]]
        (folder / f"Fold{fold + 1}").mkdir()
        for name, texts in {"train": turned[:3], "vali": turned[3:4], "test": turned[4:]}.items():
            (folder / f"Fold{fold + 1}/{name}.txt").write_bytes(b"".join(texts))
    return folder


def grouped_text(folder: Path) -> Path:
    """Write rank.train and rank.test, sparse and without query ids, each with a file of group sizes beside it."""
    for name, judged in {"rank.train": LIGHTGBM_TRAIN, "rank.test": LIGHTGBM_TEST}.items():
        (path,) = write_parts(folder, judged, parts=1)
        text = path.read_text()
        path.unlink()
        sizes = [len([*rows]) for _, rows in groupby(re.findall(r"qid:\d+", text))]
        (folder / name).write_text(re.sub(r" (qid:\d+|\d+:0(\.0+)?)(?= )", "", text))
        (folder / f"{name}.query").write_text("".join(f"{size}\n" for size in sizes))
    return folder


def table(folder: Path) -> Path:
    """Write a table with a row per result; a click depends on three of the features."""
    random = np.random.default_rng(0)
    sizes = sizes_of(random, SEARCHES, RESULTS, spread=0.6)
    features = random.standard_normal((RESULTS, COLUMNS)).astype(np.float32)
    utility = features[:, :3].sum(axis=1) + random.standard_normal(RESULTS)
    named = {
        "query": [f"query {topic}" for topic in np.repeat(np.arange(SEARCHES), sizes)],
        "product": [f"p{row}" for row in range(RESULTS)],
        "clicked": (utility > 2).astype(np.int8),
    }
    frame = pl.DataFrame(named | {f"feature {place}": features[:, place] for place in range(COLUMNS)})
    frame.write_parquet(folder / "searches.parquet")
    return folder / "searches.parquet"


def archive_of_ratings(folder: Path) -> Path:
    """Write a mirror's archive of MovieLens 1M, whose columns are separated by `::`."""
    data.write_ratings(folder / "ml-1m.zip", EDITIONS["movielens-1m"])
    return folder


def tabs_in_folds(folder: Path) -> Path:
    """Write MovieLens 100K's u.data, whose columns are separated by tabs, and its splits u1.base, u1.test, ..."""
    edition, archive = EDITIONS["movielens-100k"], folder / "ml-100k.zip"
    data.write_ratings(archive, edition)
    text = zipfile.ZipFile(archive).read(edition.member)
    archive.unlink()
    (folder / "u.data").write_bytes(text)
    lines = np.array(text.splitlines(keepends=True), dtype=object)
    part = np.random.default_rng(0).permutation(len(lines)) % FOLDS
    for fold in range(FOLDS):
        (folder / f"u{fold + 1}.base").write_bytes(b"".join(lines[part != fold]))
        (folder / f"u{fold + 1}.test").write_bytes(b"".join(lines[part == fold]))
    return folder


def repeated_splits(folder: Path) -> Path:
    """Write three random splits of the same pairs, whose test parts overlap: fold_0 .. fold_2."""
    random = np.random.default_rng(0)
    sizes = FEWEST_ARTICLES - 1 + sizes_of(random, USERS, PAIRS - USERS * (FEWEST_ARTICLES - 1), spread=1.0)
    tested = np.diff(np.round(np.cumsum(sizes) * TEST_PAIRS / PAIRS).astype(np.int64), prepend=0)
    user, item = np.repeat(np.arange(USERS), sizes), data.popular_items(random, sizes, ARTICLES)
    pairs = pl.DataFrame({"user": user, "item": random.permutation(ARTICLES)[item], "rating": 1})
    # A user's rows with the smallest random numbers.
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    for fold in range(SPLITS):
        order = np.lexsort((random.random(PAIRS), user))
        is_test = np.empty(PAIRS, dtype=bool)
        is_test[order] = np.arange(PAIRS) - starts < np.repeat(tested, sizes)
        (folder / f"fold_{fold}").mkdir()
        pairs.filter(~is_test).write_csv(folder / f"fold_{fold}/train.csv")
        pairs.filter(is_test).write_csv(folder / f"fold_{fold}/test.csv")
    return folder


# Studies


@dataclass(frozen=True)
class Sized:
    """A study of one data set: its files and size, what `new` finds in them, or the section written by hand."""

    kind: str
    write: Callable[[Path], Path]
    topics: int
    rows: int
    found: Mapping[str, Any] = field(default_factory=dict)
    section: Mapping[str, Any] = field(default_factory=dict)
    name: str = "sized"
    epochs: int = 3
    folds: int = 1


TABS = {
    "format": "ratings", "separator": "\t", "header": False,
    "columns": {"topic": "1", "item": "2", "rating": "3", "timestamp": "4"},
    "fold_pattern": {"count": 5, "train": ["u{fold}.base"], "test": ["u{fold}.test"]},
    "sizes": {"topics": 943, "rows": 100_000},
}  # fmt: skip
REPEATED = {"count": 3, "first": 0, **{split: [f"fold_{{fold}}/{split}.csv"] for split in ("train", "test")}}
STUDIES = {
    "LETOR folders": Sized(LISTS, letor_folders, 784, 15_211, {"format": "letor"}, epochs=5, folds=5),
    "groups": Sized(LISTS, grouped_text, 201 + 50, 3_005 + 768, {"format": "lightgbm"}, epochs=10),
    "a table": Sized(
        LISTS, table, SEARCHES, RESULTS,
        {"columns": {"topic": "query", "item": "product", "relevance": "clicked"}, "random_parts": 5}, epochs=2,
    ),
    "colons": Sized(
        RATINGS, archive_of_ratings, 6_040, 1_000_209, section={"archive": "ml-1m.zip"}, name="movielens-1m", epochs=1,
    ),
    "tabs in folds": Sized(RATINGS, tabs_in_folds, 943, 100_000, section={"source": TABS}, epochs=5, folds=2),
    "repeated splits": Sized(RATINGS, repeated_splits, USERS, PAIRS, {"fold_pattern": REPEATED}, folds=3),
}  # fmt: skip


@pytest.mark.parametrize("layout", STUDIES)
def test_a_layout_at_its_size(tmp_path: Path, layout: str) -> None:
    study, files = STUDIES[layout], tmp_path / "files"
    files.mkdir()
    project = Project.create(tmp_path / "project")
    configure(project, study, study.write(files))
    board = leaderboard(project, study, files)
    assert sorted(board["bounding"].to_list()) == sorted([*BOUNDINGS, *3 * ["none"]])
    assert board["n_folds"].unique().to_list() == [study.folds]
    scores = dict(board.filter(pl.col("loss") == "none").select("model", "score").rows())
    assert set(scores) == set(CONTROLS[study.kind])
    trained = board.filter(pl.col("loss") == "nDCG", pl.col("bounding").is_in(BOUNDINGS))["score"].to_list()
    assert len(trained) == len(BOUNDINGS)
    assert scores["random"] + 0.02 < min(trained) <= max(trained) < scores["oracle"] == 1, (trained, scores)
    made = (pl.read_parquet(project.path(f"data/sized/{one}/{study.name}.parquet")) for one in (study.kind, "folds"))
    (check_lists if study.kind == LISTS else check_ratings)(study, files, *made)


def configure(project: Project, study: Sized, path: Path) -> None:
    """Let `new` write the configuration, or write the section of the data set by hand."""
    if study.found:
        project.run("rankbound_study", "new", str(path), "--out", "mine.yaml", "--name", "sized")
        described = yaml.safe_load(project.path("mine.yaml").read_text())[study.kind]["sized"]["source"]
        assert {key: described[key] for key in study.found} == study.found
        return
    section = {**study.section, **DRAWING}
    if "source" in section:
        section["source"] = {**section["source"], "path": str(path)}
    config = {
        "study": "sized",
        "pathvars": {"data": "data/sized", "results": "results/sized", "logs": "logs/sized"},
        "protocols": ["honest"],
        "datasets": [study.name],
        "seeds": {"honest": [0]},
        "controls": list(CONTROLS[study.kind]),
        "compare": [],
        "leaderboard": {"judged_by": "nDCG"},
        study.kind: {study.name: section},
        "training": {study.name: FACTORS},
    }
    project.path("mine.yaml").write_text(yaml.safe_dump(config))


def leaderboard(project: Project, study: Sized, files: Path) -> pl.DataFrame:
    """Check the configuration, with fewer folds, losses and epochs, and make the leaderboard."""
    smaller: dict[str, Any] = {"losses": ["nDCG"], "boundings": list(BOUNDINGS), "experiment": [], "figures": []}
    smaller |= {"tables": ["table_5_1", "table_leaderboard"], "folds": list(range(1, study.folds + 1))}
    smaller |= {"training": {study.name: {"epochs": study.epochs}}}
    project.path("smaller.yaml").write_text(yaml.safe_dump(smaller))
    both = ("mine.yaml", "smaller.yaml")
    said = project.run("rankbound_study", "check-config", "config.yaml", *both)
    assert said.startswith(f"valid: study 'sized', 1 data set, 2 training jobs, {2 * study.folds} trainings\n")
    name = "results/sized/tables/table_leaderboard.csv"
    project.snakemake("--configfile", *both, "--", name, RANKBOUND_MIRROR=str(files))
    return pl.read_csv(project.path(name))


def check_lists(study: Sized, files: Path, lists: pl.DataFrame, folds: pl.DataFrame) -> None:
    assert (len(lists), lists["items"].list.len().sum()) == (study.topics, study.rows)
    rows = folds.filter(split="test").group_by("fold", maintain_order=True).agg("list")["list"]
    tested = [set(lists["topic"].gather(part).to_list()) for part in rows]
    if study.write is letor_folders:
        written = [(files / f"Fold{fold}/test.txt").read_text() for fold in range(1, 6)]
        assert tested == [set(re.findall(r"qid:(\d+)", text)) for text in written]
    elif study.write is grouped_text:
        groups = "".join((files / f"rank.{name}.query").read_text() for name in ("train", "test"))
        assert lists["items"].list.len().to_list() == [int(line) for line in groups.split()]
        # What is not written is zero.
        values = lists["features"].explode().arr.explode().to_numpy()
        numbers = sum((files / f"rank.{name}").read_text().count(":") for name in ("train", "test"))
        assert np.count_nonzero(values) == numbers < 0.3 * len(values)
    else:
        written = pl.read_parquet(files / "searches.parquet")
        assert lists["items"].explode().to_list() == written["product"].to_list()
        features = written.select(pl.col("^feature .*$")).to_numpy()
        assert np.array_equal(lists["features"].explode().to_numpy(), features)
        assert [len(part) for part in tested] == [400] * 5


def check_ratings(study: Sized, files: Path, ratings: pl.DataFrame, folds: pl.DataFrame) -> None:
    """The pairs of all files, once each: the files of folds repeat them."""
    ratings = ratings.unique().sort("topic", "item")
    assert (len(ratings), ratings["topic"].n_unique()) == (study.rows, study.topics)
    least = 1 if study.write is repeated_splits else 4
    relevant = ratings.filter(pl.col("rating") >= least)
    kept = relevant.group_by("topic").len().filter(pl.col("len") >= 10)["topic"].to_list()
    if study.write is archive_of_ratings:
        assert len(folds) == relevant["topic"].is_in(kept).sum()
        return
    separator = "\t" if study.write is tabs_in_folds else ","
    names = sorted([*files.glob("u*.test"), *files.glob("fold_*/test.csv")])
    for fold, path in enumerate(names, start=1):
        given = pl.read_csv(path, separator=separator, has_header=separator == ",", columns=[0, 1, 2])
        given = given.rename(dict(zip(given.columns, ("topic", "item", "rating"), strict=True)))
        expected = given.filter(pl.col("rating") >= least, pl.col("topic").is_in(kept))
        own = folds.filter(pl.col("fold") == fold)
        tested = own.filter(pl.col("split") == "test").select("topic", "item").rows()
        assert sorted(tested) == sorted(expected.select("topic", "item").rows())
        assert len(own) == relevant["topic"].is_in(kept).sum()
