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


class TestResults:
    def test_two_selections_of_one_table(self, results: Path, compare: Compare) -> None:
        choice = ["--dataset", "movielens", "--loss", "AP", "--a", "bounding=none", "--b", "bounding=min-max"]
        found = compare.json(results, *choice, "-m", "AP")
        assert (found["a"], found["b"]) == ("results, bounding none", "results, bounding min-max")
        assert [row["cell"] for row in found["comparisons"]] == ["NSR 1", "NSR 2"]
        row = found["comparisons"][0]
        assert row["common"]["protocol"] == "honest"
        assert row["common"]["selection"] == "validation"
        assert (row["n_units"], row["trainings"]["n_folds"], row["trainings"]["n_seeds"]) == (30, 2, 3)
        runs = self.rows(results).filter(pl.col("dataset") == "movielens", pl.col("nsr_test") == 1, loss="AP")
        a, b = (self.by_topic(runs.filter(bounding=name), "AP") for name in ("none", "min-max"))
        assert row["difference"] == pytest.approx((a - b).mean())
        assert_as_scipy_says(row, a, b)

    def test_nested_topics_are_pooled_over_folds(self, results: Path, compare: Compare) -> None:
        choice = ["--dataset", "mq2008-label1", "--loss", "AP", "--a", "bounding=none", "--b", "bounding=min-max"]
        (row,) = compare.json(results, *choice, "-m", "AP")["comparisons"]
        runs = self.rows(results).filter(pl.col("dataset") == "mq2008-label1", loss="AP")
        a, b = (self.by_topic(runs.filter(bounding=name), "AP") for name in ("none", "min-max"))
        assert row["n_units"] == np.isfinite(a).sum()
        assert row["n_undefined"] == np.isnan(a).sum() > 0
        assert row["difference"] == pytest.approx(np.nanmean(a - b))

    def test_one_side_is_enough(self, results: Path, compare: Compare) -> None:
        found = compare.json(results, "--dataset", "mq2008-label1", "--loss", "AP", "--a", "bounding=none", "-m", "AP")
        assert [row["cell"] for row in found["comparisons"]] == ["vs expectation", "vs min-max"]

    def test_a_control_stands_beside_every_seed_of_all_models(self, results: Path, compare: Compare) -> None:
        choice = ["--nsr", 1, "--a", "model=popularity", "--b", "loss=nDCG"]
        found = compare.json(results, *choice, "-m", "nDCG")
        assert [row["cell"] for row in found["comparisons"]] == ["vs expectation", "vs min-max", "vs none"]
        assert {row["trainings"]["n_seeds"] for row in found["comparisons"]} == {3}
        assert max(row["trainings"]["deviation_a"] for row in found["comparisons"]) < 1e-12

    def test_the_oracle_is_not_tested(self, results: Path, compare: Compare) -> None:
        choice = ["--nsr", 1, "--a", "model=oracle", "--b", "loss=nDCG", "bounding=none", "-m", "AP"]
        assert "* not tested: A scores 1 in every topic" in compare(results, *choice)

    def test_two_folders(self, results: Path, compare: Compare, tmp_path: Path) -> None:
        runs = self.rows(results, protocol=None)
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

    def test_a_margin_of_noise_where_there_is_none(self, results: Path, compare: Compare) -> None:
        choice = ["--nsr", 1, "--a", "model=popularity", "--b", "model=random", "-m", "AP", "--margin", "noise"]
        assert "there is no noise to take a margin from" in compare(results, *choice)

    def test_other_lists_are_compared_only_by_name(self, results: Path, compare: Compare) -> None:
        choice = ["--dataset", "movielens", "--loss", "AP", "--bounding", "none", "-m", "AP"]
        (row,) = compare.json(results, *choice, "--a", "nsr=1", "--b", "nsr=2")["comparisons"]
        assert (row["a_key"]["nsr_test"], row["b_key"]["nsr_test"]) == (1, 2)

    def test_the_published_protocol_by_name(self, results: Path, compare: Compare) -> None:
        choice = ["--nsr", 1, "--loss", "AP", "--a", "bounding=none", "--b", "bounding=min-max", "-m", "AP"]
        (row,) = compare.json(results, *choice, "--protocol", "published")["comparisons"]
        assert (row["common"]["protocol"], row["common"]["selection"]) == ("published", "test")

    def test_pairs_of_faces_know_their_members(self, tmp_path: Path, compare: Compare, results: Path) -> None:
        random = np.random.default_rng(0)
        runs = self.rows(results).filter(nsr_test=1, loss="AP", fold=1, seed=0)
        runs = runs.filter(pl.col("bounding").is_in(["none", "min-max"])).sort("bounding", "topic")
        faces = [" ".join(map(str, random.permutation(12)[:2])) for _ in range(30)]
        pairs = runs.with_columns(
            topic=pl.Series(faces * 2),
            n=pl.lit(2, pl.Int32),
            PairAccuracy=pl.Series(random.integers(0, 2, len(runs)).astype(float)),
        ).unique(["bounding", "topic"], maintain_order=True)
        write_table(pairs.to_arrow(), tmp_path / "faces.parquet", "runs")
        (row,) = compare.json(tmp_path / "faces.parquet", "--a", "bounding=none", "--b", "bounding=min-max")[
            "comparisons"
        ]
        assert row["metric"] == "PairAccuracy"
        middle = (row["low"] + row["high"]) / 2
        assert middle == pytest.approx(row["difference"])  # of a normal distribution, not of a bootstrap

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["results"], "A and B are the same runs"),
            (["results", "--dataset", "mslr"], "A has no such runs; it has movielens, mq2008-label1"),
            (["results", "--a", "bounding"], "expected KEY=VALUE"),
            (["results", "--a", "bound=none"], "expected KEY=VALUE with one of the keys study"),
            (["results", "--a", "bounding=none", "-m", "P@7"], "there is no metric 'P@7'; it has nDCG, AP"),
            (["results", "--a", "model=network", "--b", "loss=AP", "nsr=1"], "no runs in common"),
            (["empty"], "empty/runs.parquet: there is no such file"),
        ],
    )
    def test_messages(self, results: Path, compare: Compare, arguments: list[str], message: str) -> None:
        Path("empty").mkdir(exist_ok=True)
        assert message in compare(*arguments, status=2)

    @staticmethod
    def rows(results: Path, protocol: str | None = "honest") -> pl.DataFrame:
        frame = pl.from_arrow(read_table(results / "runs.parquet", "runs"))
        assert isinstance(frame, pl.DataFrame)
        return frame if protocol is None else frame.filter(protocol=protocol)

    @staticmethod
    def by_topic(runs: pl.DataFrame, metric: str) -> np.ndarray[Any, Any]:
        of_lists = runs.group_by("topic", "fold").agg(pl.col(metric).mean())
        return of_lists.group_by("topic").agg(pl.col(metric).mean()).sort("topic")[metric].to_numpy()

    def test_a_family_beyond_the_flips_is_named(self, results: Path, compare: Compare) -> None:
        text = compare(results, "--a", "bounding=none", "-m", "nDCG", "-m", "AP", "-m", "RR", "-m", "P@5")
        assert "can be below" in text
        assert "raise --flips" in text
