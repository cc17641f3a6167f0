"""The step `compare`: two selections of results, and what they may lack."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rankbound_study.cli import main
from rankbound_study.data.contracts import read_table, write_table
from tests.comparing import Compare, assert_as_scipy_says
from tests.study.synthetic_runs import write_runs


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds `results`, which no test changes."""
    folder = tmp_path_factory.mktemp("compared")
    sets = (("movielens", 1), ("movielens", 2), ("mq2008-label1", None))
    write_runs(
        folder / "results" / "runs.parquet",
        sets=sets,
        boundings=("none", "min-max", "expectation"),
        protocols=("published", "honest"),
        topics=30,
        folds=2,
        seeds=3,
    )
    return folder


@pytest.fixture
def results(written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(written)
    return Path("results")


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    return Compare(main, capsys)


def rows(results: Path) -> pl.DataFrame:
    frame = pl.from_arrow(read_table(results / "runs.parquet", "runs"))
    assert isinstance(frame, pl.DataFrame)
    return frame.filter(protocol="honest")


def by_topic(runs: pl.DataFrame, bounding: str) -> np.ndarray[Any, Any]:
    of_lists = runs.filter(bounding=bounding).group_by("topic", "fold").agg(pl.col("AP").mean())
    return of_lists.group_by("topic").agg(pl.col("AP").mean()).sort("topic")["AP"].to_numpy()


BOTH = ("--loss", "AP", "--a", "bounding=none", "--b", "bounding=min-max", "-m", "AP")


def test_two_selections_of_one_table(results: Path, compare: Compare) -> None:
    found = compare.json(results, "--dataset", "movielens", *BOTH)
    assert (found["a"], found["b"]) == ("results, bounding none", "results, bounding min-max")
    assert [row["cell"] for row in found["comparisons"]] == ["NSR 1", "NSR 2"]
    row = found["comparisons"][0]
    assert (row["common"]["protocol"], row["common"]["selection"]) == ("honest", "validation")
    assert (row["n_units"], row["trainings"]["n_folds"], row["trainings"]["n_seeds"]) == (30, 2, 3)
    runs = rows(results).filter(pl.col("dataset") == "movielens", pl.col("nsr_test") == 1, loss="AP")
    a, b = (by_topic(runs, name) for name in ("none", "min-max"))
    assert row["difference"] == pytest.approx((a - b).mean())
    assert_as_scipy_says(row, a, b)
    # Nested topics are pooled over folds.
    (row,) = compare.json(results, "--dataset", "mq2008-label1", *BOTH)["comparisons"]
    a, b = (by_topic(rows(results).filter(dataset="mq2008-label1", loss="AP"), name) for name in ("none", "min-max"))
    assert row["n_units"] == np.isfinite(a).sum()
    assert row["n_undefined"] == np.isnan(a).sum() > 0
    assert row["difference"] == pytest.approx(np.nanmean(a - b))


def test_controls_and_other_lists_are_compared_by_name(results: Path, compare: Compare) -> None:
    of_queries = compare.json(results, "--dataset", "mq2008-label1", "--loss", "AP", "--a", "bounding=none", "-m", "AP")
    assert [row["cell"] for row in of_queries["comparisons"]] == ["vs expectation", "vs min-max"], "of one side"
    found = compare.json(results, "--nsr", 1, "--a", "model=popularity", "--b", "loss=nDCG", "-m", "nDCG")
    assert [row["cell"] for row in found["comparisons"]] == ["vs expectation", "vs min-max", "vs none"]
    assert {row["trainings"]["n_seeds"] for row in found["comparisons"]} == {3}, "it stands beside every seed"
    assert max(row["trainings"]["deviation_a"] for row in found["comparisons"]) < 1e-12
    of_ap = ["--dataset", "movielens", "--loss", "AP", "--bounding", "none", "-m", "AP"]
    (row,) = compare.json(results, *of_ap, "--a", "nsr=1", "--b", "nsr=2")["comparisons"]
    assert (row["a_key"]["nsr_test"], row["b_key"]["nsr_test"]) == (1, 2)
    (row,) = compare.json(results, "--nsr", 1, *BOTH, "--protocol", "published")["comparisons"]
    assert (row["common"]["protocol"], row["common"]["selection"]) == ("published", "test")


def test_two_folders(results: Path, compare: Compare, tmp_path: Path) -> None:
    runs = pl.from_arrow(read_table(results / "runs.parquet", "runs"))
    assert isinstance(runs, pl.DataFrame)
    fewer = runs.filter(
        ~((pl.col("fold") == 2) & (pl.col("seed") == 1) & (pl.col("nsr_test") == 1)),
        pl.col("dataset") == "movielens",
        pl.col("bounding") != "expectation",
    )
    (tmp_path / "other").mkdir()
    write_table(fewer.to_arrow(), tmp_path / "other" / "runs.parquet", "runs")
    text = compare(results, tmp_path / "other", "--model", "matrix-factorisation", "-m", "AP")
    assert "left out: 1 training (fold 2, seed 1) that B does not have" in text
    assert "left out: bounding: only A has expectation" in text
    assert "not tested: A and B score the same in every topic" in text
    assert "NSR 2, AP, min-max" in text


def test_pairs_of_faces_know_their_members(tmp_path: Path, compare: Compare, results: Path) -> None:
    random = np.random.default_rng(0)
    runs = rows(results).filter(nsr_test=1, loss="AP", fold=1, seed=0)
    runs = runs.filter(pl.col("bounding").is_in(["none", "min-max"])).sort("bounding", "topic")
    faces = [" ".join(map(str, random.permutation(12)[:2])) for _ in range(30)]
    accuracy = random.integers(0, 2, len(runs)).astype(float)
    pairs = runs.with_columns(topic=pl.Series(faces * 2), n=pl.lit(2, pl.Int32), PairAccuracy=pl.Series(accuracy))
    pairs = pairs.unique(["bounding", "topic"], maintain_order=True)
    write_table(pairs.to_arrow(), tmp_path / "faces.parquet", "runs")
    (row,) = compare.json(tmp_path / "faces.parquet", "--a", "bounding=none", "--b", "bounding=min-max")["comparisons"]
    assert row["metric"] == "PairAccuracy"
    # Of a normal distribution, not of a bootstrap.
    assert (row["low"] + row["high"]) / 2 == pytest.approx(row["difference"])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("results", 2, "A and B are the same runs"),
        ("results --dataset mslr", 2, "A has no such runs; it has movielens, mq2008-label1"),
        ("results --a bounding", 2, "expected KEY=VALUE"),
        ("results --a bound=none", 2, "expected KEY=VALUE with one of the keys study"),
        ("results --a bounding=none -m P@7", 2, "there is no metric 'P@7'; it has nDCG, AP"),
        ("results --a model=network --b loss=AP nsr=1", 2, "no runs in common"),
        ("empty", 2, "empty/runs.parquet: there is no such file"),
        (
            "results --nsr 1 --a model=oracle --b loss=nDCG bounding=none -m AP",
            *(0, "* not tested: A scores 1 in every topic"),
        ),
        (
            "results --nsr 1 --a model=popularity --b model=random -m AP --margin noise",
            *(0, "there is no noise to take a margin from"),
        ),
        ("results --a bounding=none -m nDCG -m AP -m RR -m P@5", 0, "can be below"),
        ("results --a bounding=none -m nDCG -m AP -m RR -m P@5", 0, "raise --flips"),
    ],
)
def test_messages(results: Path, compare: Compare, arguments: str, status: int, message: str) -> None:
    Path("empty").mkdir(exist_ok=True)
    assert message in compare(*arguments.split(), status=status)
