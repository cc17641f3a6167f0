"""The step `compare`, and the scores behind it: selections, means side by side, and several tests at once."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from rankbound.compare import PairedScores
from rankbound.compare import compare as compare_pair
from rankbound.compare.scores import scores_of_frame
from rankbound.compare.statistics import bootstrap
from rankbound.errors import DataError
from rankbound_study.claims.rules import partial_conjunction
from rankbound_study.cli import main
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.results.neural import MethodMeans, r_squared
from rankbound_study.results.scores import names_pairs, scores_of_runs
from tests.comparing import Compare, assert_as_scipy_says
from tests.study.planted import write_runs


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
    return pl.from_arrow(read_table(results / "runs.parquet", "runs")).filter(protocol="honest")


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


MESSAGES = yaml.safe_load((Path(__file__).parents[1] / "reference/compare_problems.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("arguments", "status", "message"), MESSAGES)
def test_messages(results: Path, compare: Compare, arguments: str, status: int, message: str) -> None:
    Path("empty").mkdir(exist_ok=True)
    assert message in compare(*arguments.split(), status=status)


# Scores of runs tables, means of methods side by side, the coefficient of determination, and several tests at once

RANDOM = np.random.default_rng(31)
TRUE = RANDOM.normal(40, 10, 60)
PREDICTED = TRUE + RANDOM.normal(0, 8, 60)
VALUES = np.random.default_rng(32).beta(4, 2, (3, 60))
FACES = np.stack([np.random.default_rng(pair).permutation(20)[:2] for pair in range(60)])


class TestFrames:
    ROWS = pl.DataFrame(
        {
            "model": ["mf", "mf", "mf", "popularity"],
            "loss": ["AP", "AP", "AP", "none"],
            "bounding": "none",
            "epoch": [3, 3, 4, 0],
            "fold": [1, 1, 1, 1],
            "seed": [0, 0, 1, 0],
            "topic": ["b", "a", "a", "a"],
            "n": 10,
            "AP": [0.1, None, 0.3, 0.7],
        }
    )

    def test_rows_become_scores_of_which_a_list_has_one(self) -> None:
        scores = scores_of_runs(self.ROWS, "AP")
        assert list(scores.systems) == ["mf / AP / none", "popularity / none / none"]
        assert scores.units == ["a", "b"]
        # Controls stand beside every seed.
        expected = [[[[math.nan, 0.3]], [[0.1, math.nan]]], [[[0.7, 0.7]], [[math.nan, math.nan]]]]
        np.testing.assert_array_equal(scores.values, expected)
        pair = scores.pair("mf / AP / none", "popularity / none / none")
        assert list(pair.units) == ["a"]
        assert pair.gaps.trainings == []
        assert list(pair.gaps.units[1]) == ["b"]
        twice = pl.concat([self.ROWS, self.ROWS.with_columns(n=pl.lit(11))])
        with pytest.raises(DataError, match=r"system mf.*topic a.*2 scores.*n: 10, 11: choose one"):
            scores_of_runs(twice.sort("topic", "n"), "AP")

    def test_topics_that_name_pairs(self) -> None:
        pairs = pl.DataFrame({"system": "A", "topic": ["x y", "y z"], "n": 2, "PairAccuracy": [1.0, 0.0]})
        assert names_pairs(pairs)
        assert not names_pairs(self.ROWS)
        members = scores_of_frame(pairs, "PairAccuracy", members=True).members
        assert members.tolist() == [[0, 1], [1, 2]]


def test_partial_conjunctions_are_bonferronis_and_the_largest_at_their_ends() -> None:
    p_values = (0.04, 0.001, 0.5, 0.01)
    assert [partial_conjunction(p_values, count) for count in (1, 2, 4)] == pytest.approx([0.004, 0.03, 0.5])
    # The worst dependence: equal p-values, which a binomial test of their count would take for many.
    assert partial_conjunction([0.03] * 10, 6) == pytest.approx(0.15)
    with pytest.raises(ValueError, match="count: found 5, expected a number from 1 to 4"):
        partial_conjunction(p_values, 5)


class TestExplainedVariance:
    def test_the_truth_its_mean_and_worse(self) -> None:
        assert r_squared(TRUE, TRUE, resamples=99) == (1, pytest.approx(1), pytest.approx(1))
        value, low, high = r_squared(np.full(60, TRUE.mean()), TRUE, resamples=999)
        assert value == pytest.approx(0, abs=1e-12)
        # In a resample the mean of all is no longer the best constant.
        assert low < high < 1e-9
        assert r_squared(2 * TRUE.mean() - TRUE, TRUE, resamples=99)[0] == pytest.approx(-3)

    def test_its_interval_is_scipys(self) -> None:
        def by_hand(predicted: Any, true: Any, axis: int = -1) -> Any:
            return 1 - ((true - predicted) ** 2).sum(axis) / (true.var(axis) * true.shape[axis])

        value, low, high = r_squared(PREDICTED, TRUE, resamples=499, seed=7)
        assert value == pytest.approx(1 - ((TRUE - PREDICTED) ** 2).sum() / ((TRUE - TRUE.mean()) ** 2).sum())
        theirs = bootstrap(by_hand, np.stack([PREDICTED, TRUE]), resamples=499, seed=7)
        assert (low, high) == pytest.approx(theirs, abs=1e-10)

    def test_resamples_of_one_value_are_left_out_and_nothing_varies_in_none(self) -> None:
        for true in (np.array([10.0, 30.0]), np.array([10.0, 30.0]) + 1e6):
            value, low, high = r_squared(true + np.array([1.0, -2.0]), true, resamples=199)
            assert value == pytest.approx(1 - 5 / 200)
            assert (low, high) == pytest.approx((value, value))
        for same in ([], [3.0], [3.0, 3.0]):
            assert all(map(math.isnan, r_squared(np.array(same), np.array(same))))


class TestMethodMeans:
    @pytest.mark.parametrize("faces", [None, FACES])
    def test_they_say_what_a_comparison_says(self, faces: np.ndarray | None) -> None:
        means = MethodMeans(VALUES, faces)
        theirs = compare_pair(PairedScores.of_matrix(VALUES.T, "ABC", members=faces).pair("A", "C"))
        *measured, p_value = means.difference(0, 2)
        assert measured == pytest.approx([theirs.difference, theirs.low, theirs.high], abs=1e-14)
        assert p_value == theirs.p_value
        assert means.means[[0, 2]] == pytest.approx([theirs.mean_a, theirs.mean_b])
        found, low, high, p_value = means.combination(np.array([0.5, 0.0, -2.0]))
        assert found == pytest.approx(float(np.array([0.5, 0.0, -2.0]) @ VALUES.mean(1)))
        assert (low < found < high, p_value < 0.01) == (True, True)
        apart = np.array([1.0, -1.0, 0.0])
        assert means.combination(apart) == pytest.approx(means.difference(0, 1))
        assert MethodMeans(VALUES[:1].repeat(2, 0), faces).difference(0, 1) == (0, 0, 0, 1)

    def test_lists_that_one_method_lacks_count_for_others_and_shares_of_pairs_end_at_one(self) -> None:
        values = VALUES.copy()
        values[0, :7] = math.nan
        means, kept = MethodMeans(values), MethodMeans(values[:, 7:])
        assert (means.difference(0, 1), means.interval(0)) == (kept.difference(0, 1), kept.interval(0))
        assert means.difference(1, 2) == MethodMeans(VALUES).difference(1, 2)
        right = np.ones((1, 60))
        right[0, :1] = 0
        assert MethodMeans(right, FACES).interval(0)[1] == 1
        assert MethodMeans(right, FACES).combination(np.ones(1))[2] > 1

    @pytest.mark.parametrize("paired", [False, True])
    def test_few_lists_have_means_without_an_error(self, paired: bool) -> None:
        one, none = (
            MethodMeans(np.full((2, n), 0.4), np.arange(2 * n).reshape(n, 2) if paired else None) for n in (1, 0)
        )
        assert one.interval(0) == (0.4, 0.4)
        assert math.isnan(one.difference(0, 1)[3]) if paired else one.difference(0, 1)[3] == 1
        assert all(map(math.isnan, (*none.interval(0), *none.difference(0, 1), none.means[0])))
        few = MethodMeans(VALUES[:, :4], np.array([[0, 1], [0, 2], [1, 2], [2, 3]]))
        assert all(map(math.isnan, (*few.interval(0), *few.difference(0, 1)[1:])))
        # Two lists with a score: the t interval, for resamples reach no further than the two.
        values = np.full((2, 6), math.nan)
        values[:, :2] = [[0.2, 0.4], [0.3, 0.9]]
        two = MethodMeans(values)
        assert two.interval(0) == pytest.approx(stats.t(1, 0.3, 0.1).interval(0.95))
        assert two.difference(1, 0)[1:3] == pytest.approx(stats.t(1, 0.3, 0.2).interval(0.95))
