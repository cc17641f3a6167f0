"""Means of methods side by side: what the tables of the report print is what `compare` says."""

import math

import numpy as np
import pytest

from rankbound.compare import PairedScores, compare
from rankbound_study.results.neural_pairs import MethodMeans

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

RANDOM = np.random.default_rng(32)
VALUES = RANDOM.beta(4, 2, (3, 60))
FACES = np.stack([RANDOM.permutation(20)[:2] for _ in range(60)])


@pytest.mark.parametrize("faces", [None, FACES])
def test_they_say_what_a_comparison_says(faces: np.ndarray | None) -> None:
    means = MethodMeans(VALUES, faces)
    theirs = compare(PairedScores.of_matrix(VALUES.T, "ABC", members=faces).pair("A", "C"))
    assert means.difference(0, 2) == pytest.approx((theirs.difference, theirs.low, theirs.high), abs=1e-14)
    assert means.p_value(0, 2) == theirs.p_value
    assert means.means[[0, 2]] == pytest.approx([theirs.mean_a, theirs.mean_b])


def test_lists_that_one_method_lacks_are_left_out_of_its_comparisons_alone() -> None:
    values = VALUES.copy()
    values[0, :7] = math.nan
    means, kept = MethodMeans(values), MethodMeans(values[:, 7:])
    assert means.difference(0, 1) == kept.difference(0, 1)
    assert means.p_value(0, 1) == kept.p_value(0, 1)
    assert means.interval(0) == kept.interval(0)
    assert means.difference(1, 2) == MethodMeans(VALUES).difference(1, 2)


@pytest.mark.parametrize("faces", [None, np.arange(120).reshape(60, 2)])
def test_a_combination_is_the_weighted_sum_of_means(faces: np.ndarray | None) -> None:
    weights, means = np.array([0.5, 0.0, -2.0]), MethodMeans(VALUES, faces)
    found, low, high, p_value = means.combination(weights)
    assert found == pytest.approx(float(weights @ VALUES.mean(1)))
    assert low < found < high
    assert p_value < 0.01
    apart = np.array([1.0, -1.0, 0.0])
    assert means.combination(apart) == pytest.approx((*means.difference(0, 1), means.p_value(0, 1)))


@pytest.mark.parametrize("faces", [None, FACES])
def test_equal_methods_do_not_differ(faces: np.ndarray | None) -> None:
    means = MethodMeans(VALUES[:1].repeat(2, 0), faces)
    assert means.difference(0, 1) == (0, 0, 0)
    assert means.p_value(0, 1) == 1


def test_the_interval_of_a_share_of_pairs_ends_at_one() -> None:
    right = np.ones((1, 60))
    right[0, :1] = 0
    assert MethodMeans(right, FACES).interval(0)[1] == 1
    assert MethodMeans(right, FACES).combination(np.ones(1))[2] > 1


@pytest.mark.parametrize("paired", [False, True])
def test_one_list_and_none_have_means_without_an_error(paired: bool) -> None:
    one, none = (MethodMeans(np.full((2, n), 0.4), np.arange(2 * n).reshape(n, 2) if paired else None) for n in (1, 0))
    assert one.interval(0) == (0.4, 0.4)
    assert math.isnan(one.p_value(0, 1)) if paired else one.p_value(0, 1) == 1
    assert all(map(math.isnan, (*none.interval(0), *none.difference(0, 1), none.p_value(0, 1), none.means[0])))


def test_pairs_of_too_few_faces_have_no_interval() -> None:
    means = MethodMeans(VALUES[:, :4], np.array([[0, 1], [0, 2], [1, 2], [2, 3]]))
    assert all(map(math.isnan, (*means.interval(0), *means.difference(0, 1)[1:], means.p_value(0, 1))))


def test_few_lists_without_a_score_have_an_interval() -> None:
    """The t interval: resamples of two lists reach no further than the two."""
    values = np.full((2, 6), math.nan)
    values[:, :2] = [[0.2, 0.4], [0.3, 0.9]]
    means = MethodMeans(values)
    assert means.interval(0) == pytest.approx(stats.t(1, 0.3, 0.1).interval(0.95))
    low, high = means.difference(1, 0)[1:]
    assert (low, high) == pytest.approx(stats.t(1, 0.3, 0.2).interval(0.95))
