"""Each layout at the size of a known data set, by configuration alone: from generated files to the leaderboard."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sized_files
import yaml
from project import GENERATED, ROOT, Project

from benchmarks.generated_sets import EDITIONS, LIGHTGBM_TEST, LIGHTGBM_TRAIN, MQ2008, write_ratings

pytestmark = pytest.mark.long

LISTS, RATINGS = "lists", "interactions"
BOUNDINGS = ("none", "min-max")
CONTROLS = {LISTS: ("random", "best-feature", "oracle"), RATINGS: ("random", "popularity", "oracle")}
SMALLER: dict[str, Any] = {
    "losses": ["nDCG"],
    "boundings": list(BOUNDINGS),
    "folds": [1],
    "experiment": [],
    "figures": [],
    "tables": ["table_5_1", "table_leaderboard"],
}
DRAWING = {"threshold": 4, "min_relevant": 10, "nsr": [1], "validation_share": 0.1, "seed": 0}
FACTORS = {
    "model": {"name": "matrix-factorization", "factors": 32},
    "learning_rate": {"honest": 0.02},
    "batch_size": 32,
}
NUMBERED = {"topic": "1", "item": "2", "rating": "3", "timestamp": "4"}


class SizedStudy:
    """A study of one data set called `sized`, made as far as the leaderboard."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.files = folder / "files"
        self.files.mkdir()
        self.project = Project.create(folder / "project", GENERATED)
        shutil.copy(ROOT / "config.yaml", self.project.path("config.yaml"))

    def describe(self, path: Path) -> dict[str, Any]:
        """Let `new` write the configuration; the description that it found."""
        self.project.run("rankbound_study", "new", str(path), "--out", "mine.yaml", "--name", "sized")
        described: dict[str, Any] = yaml.safe_load(self.project.path("mine.yaml").read_text())[self.kind]["sized"]
        return dict(described["source"])

    def configure(self, name: str, section: Mapping[str, Any], training: Mapping[str, Any]) -> None:
        """Write the configuration of a data set by hand."""
        config = {
            "study": "sized",
            "pathvars": {"data": "data/sized", "results": "results/sized", "logs": "logs/sized"},
            "protocols": ["honest"],
            "datasets": [name],
            "seeds": {"honest": [0]},
            "controls": list(CONTROLS[self.kind]),
            "compare": [],
            "leaderboard": {"judged_by": "nDCG"},
            self.kind: {name: section},
            "training": {name: training},
        }
        self.project.path("mine.yaml").write_text(yaml.safe_dump(config))

    def run(self, name: str = "sized", epochs: int = 3, folds: int = 1, **variables: str) -> None:
        """Check the configuration, make the leaderboard, and check that what was planted is found."""
        smaller = {**SMALLER, "folds": list(range(1, folds + 1)), "training": {name: {"epochs": epochs}}}
        self.project.path("smaller.yaml").write_text(yaml.safe_dump(smaller))
        files = ("mine.yaml", "smaller.yaml")
        said = self.project.run("rankbound_study", "check-config", "config.yaml", *files)
        assert said.startswith(f"valid: study 'sized', 1 data set, 2 training jobs, {2 * folds} trainings\n")
        table = "results/sized/tables/table_leaderboard.csv"
        self.project.snakemake("--configfile", *files, "--", table, **variables)
        board = pl.read_csv(self.project.path(table))
        assert sorted(board["bounding"].to_list()) == sorted([*BOUNDINGS, *3 * ["none"]])
        assert board["n_folds"].unique().to_list() == [folds]
        scores = dict(board.filter(pl.col("loss") == "none").select("model", "score").rows())
        assert set(scores) == set(CONTROLS[self.kind])
        assert scores["oracle"] == 1
        trained = board.filter(pl.col("loss") == "nDCG", pl.col("bounding").is_in(BOUNDINGS))["score"].to_list()
        assert len(trained) == len(BOUNDINGS)
        assert min(trained) > scores["random"] + 0.02, (trained, scores)
        assert max(trained) < 1

    def table(self, kind: str, name: str = "sized") -> pl.DataFrame:
        """A table of the data folder."""
        return pl.read_parquet(self.project.path(f"data/sized/{kind}/{name}.parquet"))

    def ratings(self) -> pl.DataFrame:
        """The pairs of all files, once each: the files of folds repeat them."""
        return self.table(RATINGS).unique().sort("topic", "item")

    def split(self, fold: int, name: str) -> set[str]:
        """The queries of a split of the judged lists."""
        folds = self.table("folds").filter(pl.col("fold") == fold, pl.col("split") == name)
        return set(self.table(LISTS)["topic"].gather(folds["list"]).to_list())


def queries(path: Path) -> set[str]:
    return set(re.findall(r"qid:(\d+)", path.read_text()))


def test_letor_folders_as_mq2008_has_them(tmp_path: Path) -> None:
    study = SizedStudy(tmp_path, LISTS)
    sized_files.mq2008(study.files)
    found = study.describe(study.files)
    assert (found["format"], found["fold_pattern"]["count"]) == ("letor", 5)
    study.run(epochs=5, folds=5)
    lists = study.table(LISTS)
    assert (len(lists), lists["items"].list.len().sum()) == (784, 15_211)
    assert lists["features"].explode().dtype == pl.Array(pl.Float32, 46)
    shares = np.bincount(lists["relevance"].explode().to_numpy()) / MQ2008.rows
    assert shares == pytest.approx(np.array(MQ2008.labels) / MQ2008.rows, abs=0.01)
    for fold in range(1, 6):
        for name, file in {"train": "train", "validation": "vali", "test": "test"}.items():
            assert study.split(fold, name) == queries(study.files / f"Fold{fold}/{file}.txt")
    instances = study.table("instances", "sized-graded").filter(pl.col("fold") == 1)
    assert dict(instances["split"].value_counts().rows()) == {"train": 471, "validation": 157, "test": 156}


def test_sparse_text_with_group_files_as_lightgbm_s_example_has_it(tmp_path: Path) -> None:
    study = SizedStudy(tmp_path, LISTS)
    sized_files.lightgbm_example(study.files)
    assert study.describe(study.files)["format"] == "lightgbm"
    study.run(epochs=10)
    lists = study.table(LISTS)
    groups = "".join((study.files / f"rank.{name}.query").read_text() for name in ("train", "test"))
    sizes = [int(line) for line in groups.split()]
    assert lists["items"].list.len().to_list() == sizes
    assert (len(sizes), sum(sizes)) == (201 + 50, 3_005 + 768)
    assert lists["features"].explode().dtype == pl.Array(pl.Float32, 300)
    # What is not written is zero.
    values = lists["features"].explode().arr.explode().to_numpy()
    written = sum((study.files / f"rank.{name}").read_text().count(":") for name in ("train", "test"))
    assert np.count_nonzero(values) == written < 0.3 * len(values)
    folds = study.table("folds")
    places = {name: sorted(rows["list"].to_list()) for (name,), rows in folds.group_by("split")}
    assert places["test"] == list(range(LIGHTGBM_TRAIN.topics, LIGHTGBM_TRAIN.topics + LIGHTGBM_TEST.topics))
    assert sorted(places["train"] + places["validation"]) == list(range(LIGHTGBM_TRAIN.topics))
    assert len(places["validation"]) == 40


def test_ratings_between_colons_as_movielens_1m_has_them(tmp_path: Path) -> None:
    """The known data set, from a mirror: the only step that asks for an archive finds it there."""
    name, mirror = "movielens-1m", tmp_path / "mirror"
    study = SizedStudy(tmp_path, RATINGS)
    mirror.mkdir()
    write_ratings(mirror / "ml-1m.zip", EDITIONS[name])
    study.configure(name, {"archive": "ml-1m.zip", **DRAWING}, FACTORS)
    study.run(name, epochs=1, RANKBOUND_MIRROR=str(mirror))
    ratings = study.table(RATINGS, name)
    assert (len(ratings), ratings["topic"].n_unique()) == (1_000_209, 6_040)
    assert ratings["item"].n_unique() <= 3_706
    assert sorted(ratings["rating"].unique().to_list()) == [1, 2, 3, 4, 5]
    relevant = ratings.filter(pl.col("rating") >= 4).group_by("topic").len().filter(pl.col("len") >= 10)
    folds = study.table("folds", name)
    assert (folds["topic"].n_unique(), len(folds)) == (len(relevant), relevant["len"].sum())
    assert sorted(folds["fold"].unique().to_list()) == [1, 2, 3, 4, 5]
    instances = study.table("instances", f"{name}-nsr1").filter(pl.col("fold") == 1)
    # One negative for each relevant item.
    assert instances["relevance"].list.mean().to_list() == pytest.approx([0.5] * len(instances))
    assert set(instances["topic"].to_list()) == set(map(str, relevant["topic"].to_list()))


def test_ratings_between_tabs_in_given_folds_as_movielens_100k_has_them(tmp_path: Path) -> None:
    study = SizedStudy(tmp_path, RATINGS)
    sized_files.movielens_100k(study.files)
    layout = {"format": "ratings", "separator": "\t", "header": False, "columns": NUMBERED, "path": str(study.files)}
    pattern = {"count": 5, "train": ["u{fold}.base"], "test": ["u{fold}.test"]}
    stated = {"sizes": {"topics": 943, "rows": 100_000}}
    study.configure("sized", {"source": {**layout, **stated, "fold_pattern": pattern}, **DRAWING}, FACTORS)
    study.run(epochs=5, folds=2)
    ratings = study.ratings()
    written = pl.read_csv(study.files / "u.data", separator="\t", has_header=False, new_columns=ratings.columns)
    assert ratings.equals(written.cast(dict(ratings.schema)).sort("topic", "item"))  # type: ignore[arg-type]
    assert_given(study, {fold: study.files / f"u{fold}.test" for fold in range(1, 6)}, written, separator="\t")


def test_repeated_splits_as_citeulike_a_has_them(tmp_path: Path) -> None:
    study = SizedStudy(tmp_path, RATINGS)
    sized_files.citeulike(study.files)
    found = study.describe(study.files)
    expected = {"count": 3, "first": 0, "train": ["fold_{fold}/train.csv"], "test": ["fold_{fold}/test.csv"]}
    assert (found["format"], found["fold_pattern"]) == ("ratings", expected)
    study.run(epochs=3, folds=3)
    ratings = study.ratings()
    assert (len(ratings), ratings["topic"].n_unique()) == (157_527, 2_465)
    tests = {fold + 1: study.files / f"fold_{fold}/test.csv" for fold in range(3)}
    tested = [set(assert_given(study, {fold: file}, ratings)) for fold, file in tests.items()]
    assert [len(pairs) for pairs in tested] == [31_457] * 3
    # Independent splits share a fifth of a fifth.
    assert len(tested[0] & tested[1]) == pytest.approx(31_457 / 5, rel=0.1)


def assert_given(
    study: SizedStudy, files: Mapping[int, Path], ratings: pl.DataFrame, separator: str = ","
) -> list[tuple[int, int]]:
    """Check that the test parts are the relevant pairs of the users who stay, and the rest is for training."""
    threshold = yaml.safe_load(study.project.path("mine.yaml").read_text())[RATINGS]["sized"]["threshold"]
    relevant = ratings.filter(pl.col("rating") >= threshold)
    kept = relevant.group_by("topic").len().filter(pl.col("len") >= 10)["topic"]
    folds, all_tested = study.table("folds"), []
    for fold, file in files.items():
        given = pl.read_csv(file, separator=separator, has_header=separator == ",", columns=[0, 1, 2])
        given = given.rename(dict(zip(given.columns, ("topic", "item", "rating"), strict=True)))
        expected = given.filter(pl.col("rating") >= threshold, pl.col("topic").is_in(kept.to_list()))
        own = folds.filter(pl.col("fold") == fold)
        tested = own.filter(pl.col("split") == "test").select("topic", "item").rows()
        assert sorted(tested) == sorted(expected.select("topic", "item").rows())
        assert len(own) == relevant["topic"].is_in(kept.to_list()).sum()
        all_tested += tested
    return all_tested


def test_a_table_of_judged_items(tmp_path: Path) -> None:
    study = SizedStudy(tmp_path, LISTS)
    path = study.files / "searches.parquet"
    sized_files.searches(path)
    columns = {"topic": "query", "item": "product", "relevance": "clicked"}
    assert study.describe(path) == {"format": "table", "path": str(path), "columns": columns, "random_parts": 5}
    study.run(epochs=2)
    lists, written = study.table(LISTS), pl.read_parquet(path)
    assert (len(lists), lists["items"].list.len().sum()) == (2_000, 100_000)
    assert lists["items"].explode().to_list() == written["product"].to_list()
    assert lists["features"].explode().dtype == pl.Array(pl.Float32, 20)
    features = lists["features"].explode().to_numpy()
    assert np.array_equal(features, written.select(pl.col("^feature .*$")).to_numpy())
    parts = [study.split(fold, "test") for fold in range(1, 6)]
    assert sorted(map(len, parts)) == [400] * 5
    assert set.union(*parts) == set(written["query"].to_list())
