"""Scores of runs tables, the coefficient of determination, and tests of several hypotheses at once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from rankbound.compare.scores import scores_of_frame
from rankbound.compare.statistics import bootstrap
from rankbound.errors import DataError
from rankbound_study.claims.rules import partial_conjunction
from rankbound_study.results.neural_pairs import r_squared
from rankbound_study.results.scores import names_pairs, scores_of_runs

RANDOM = np.random.default_rng(31)
TRUE = RANDOM.normal(40, 10, 60)
PREDICTED = TRUE + RANDOM.normal(0, 8, 60)


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

    def test_rows_become_scores(self) -> None:
        scores = scores_of_runs(self.ROWS, "AP")
        assert list(scores.systems) == ["mf / AP / none", "popularity / none / none"]
        assert scores.units == ["a", "b"]
        expected = [[[[math.nan, 0.3]], [[0.1, math.nan]]], [[[0.7, 0.7]], [[math.nan, math.nan]]]]
        np.testing.assert_array_equal(scores.values, expected)

    def test_controls_stand_beside_every_seed(self) -> None:
        pair = scores_of_runs(self.ROWS, "AP").pair("mf / AP / none", "popularity / none / none")
        assert list(pair.units) == ["a"]
        assert pair.gaps.trainings == []
        assert list(pair.gaps.units[1]) == ["b"]

    def test_two_scores_of_one_list_are_refused_with_what_differs(self) -> None:
        twice = pl.concat([self.ROWS, self.ROWS.with_columns(n=pl.lit(11))])
        with pytest.raises(DataError, match=r"system mf.*topic a.*2 scores.*n: 10, 11: choose one"):
            scores_of_runs(twice.sort("topic", "n"), "AP")

    def test_topics_that_name_pairs(self) -> None:
        pairs = pl.DataFrame({"system": "A", "topic": ["x y", "y z"], "n": 2, "PairAccuracy": [1.0, 0.0]})
        assert names_pairs(pairs)
        assert not names_pairs(self.ROWS)
        members = scores_of_frame(pairs, "PairAccuracy", members=True).members
        assert members is not None
        assert members.tolist() == [[0, 1], [1, 2]]


class TestPartialConjunction:
    p_values = (0.04, 0.001, 0.5, 0.01)

    def test_one_is_bonferroni_and_all_is_the_largest(self) -> None:
        assert partial_conjunction(self.p_values, 1) == pytest.approx(0.004)
        assert partial_conjunction(self.p_values, 4) == 0.5
        assert partial_conjunction(self.p_values, 2) == pytest.approx(0.03)

    def test_with_all_tests_the_same_it_errs_as_one_of_them(self) -> None:
        """The worst dependence: equal p-values, which a binomial test of their count would take for many."""
        assert partial_conjunction([0.03] * 10, 6) == pytest.approx(0.15)

    def test_a_count_that_cannot_be_is_refused(self) -> None:
        with pytest.raises(ValueError, match="count: found 5, expected a number from 1 to 4"):
            partial_conjunction(self.p_values, 5)


class TestExplainedVariance:
    def test_the_truth_its_mean_and_worse(self) -> None:
        assert r_squared(TRUE, TRUE, resamples=99) == (1, pytest.approx(1), pytest.approx(1))
        value, low, high = r_squared(np.full(60, TRUE.mean()), TRUE, resamples=999)
        assert value == pytest.approx(0, abs=1e-12)
        # In a resample the mean of all is no longer the best constant.
        assert low < high < 1e-9
        assert r_squared(2 * TRUE.mean() - TRUE, TRUE, resamples=99)[0] == pytest.approx(-3)

    @pytest.mark.parametrize("method", ["BCa", "percentile"])
    def test_its_interval_is_scipys(self, method: str) -> None:
        def by_hand(predicted: Any, true: Any, axis: int = -1) -> Any:
            return 1 - ((true - predicted) ** 2).sum(axis) / (true.var(axis) * true.shape[axis])

        value, low, high = r_squared(PREDICTED, TRUE, resamples=499, method=method, seed=7)
        assert value == pytest.approx(1 - ((TRUE - PREDICTED) ** 2).sum() / ((TRUE - TRUE.mean()) ** 2).sum())
        theirs = bootstrap(by_hand, np.stack([PREDICTED, TRUE]), resamples=499, method=method, seed=7)
        assert (low, high) == pytest.approx(theirs, abs=1e-10)

    @pytest.mark.parametrize("shifted", [lambda values: values, lambda values: values + 1e6])
    def test_resamples_of_one_value_are_left_out(self, shifted: Callable[[Any], Any]) -> None:
        true = shifted(np.array([10.0, 30.0]))
        value, low, high = r_squared(true + np.array([1.0, -2.0]), true, resamples=199)
        assert value == pytest.approx(1 - 5 / 200)
        assert (low, high) == pytest.approx((value, value))

    @pytest.mark.parametrize("true", [[], [3.0], [3.0, 3.0]])
    def test_nothing_is_explained_where_nothing_varies(self, true: list[float]) -> None:
        assert all(map(math.isnan, r_squared(np.array(true), np.array(true))))

    @pytest.mark.parametrize("method", ["BCa", "percentile"])
    def test_intervals_hold_it(self, method: str) -> None:
        """Predictions that miss as much as there is to predict: 1 - 1/2, in 95 % of studies but for three errors."""
        random, covered, studies = np.random.default_rng(12), 0, 400
        for study in range(studies):
            predicted, missed = random.normal(40, 10, (2, 120))
            _, low, high = r_squared(predicted, predicted + missed - 40, resamples=499, method=method, seed=study)
            covered += low <= 0.5 <= high
        assert covered / studies == pytest.approx(0.95, abs=0.01 + 3 * math.sqrt(0.95 * 0.05 / studies))
