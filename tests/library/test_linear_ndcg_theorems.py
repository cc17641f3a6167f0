"""Jin and Geng, Linear NDCG and Pair-wise Loss: Lemma 1 and Theorems 1 to 3, and what ties do to them.

The right-hand sides are written out here; the left-hand sides are the library's metrics.
"""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankbound as rb

Ratings = tuple[int, ...]
Row = tuple[list[int], list[int]]
"""Scores and ratings of one list."""

ALL_RATINGS: list[Ratings] = [row for n in range(1, 7) for row in product(range(4), repeat=n) if any(row)]
TWO_RATINGS: list[Ratings] = [row for n in range(1, 9) for row in product(range(2), repeat=n) if any(row)]

TIED_ROWS = st.lists(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 4)), min_size=1, max_size=12).filter(
        lambda row: any(rating for _, rating in row)
    ),
    min_size=1,
    max_size=4,
)


def ranked(orders: Sequence[Ratings]) -> list[Row]:
    """Lists whose items stand in the given order, no two tied."""
    return [(list(range(len(order), 0, -1)), list(order)) for order in orders]


def values(text: str, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    scores = np.array([score for row, _ in rows for score in row], dtype=float)
    ratings = np.array([rating for _, row in rows for rating in row])
    result: npt.NDArray[np.float64] = rb.metric(text)(scores, ratings, np.cumsum([0, *(len(row) for row, _ in rows)]))
    return result


def dcg(order: Ratings) -> int:
    return sum(rating * (len(order) - rank) for rank, rating in enumerate(order, start=1))


def dcg_error(order: Ratings) -> int:
    return dcg(tuple(sorted(order, reverse=True))) - dcg(order)


def wrong_pairs(row: Row) -> int:
    """R(f) with the strict comparison of eq. 4."""
    pairs = combinations(zip(*row, strict=True), 2)
    return sum(abs(r - q) for (s, r), (t, q) in pairs if (s - t) * (r - q) < 0)


def tied_pairs(row: Row) -> int:
    return sum(abs(r - q) for (s, r), (t, q) in combinations(zip(*row, strict=True), 2) if s == t)


def test_theorems_2_and_3_the_dcg_error_is_the_weighted_number_of_wrong_pairs() -> None:
    rows = ranked(ALL_RATINGS)
    errors = [dcg_error(order) for order in ALL_RATINGS]
    assert errors == [wrong_pairs(row) for row in rows]
    np.testing.assert_allclose(values("PairError", rows), errors, rtol=0, atol=1e-9)
    np.testing.assert_allclose(values("LinearDCG", rows), [dcg(order) for order in ALL_RATINGS], rtol=0, atol=1e-9)


def test_theorem_1_the_error_is_a_sum_of_two_rating_errors() -> None:
    rows = ranked(ALL_RATINGS)
    by_threshold = [np.nan_to_num(values(f"nRBP(rel={k})", rows)) for k in range(1, 4)]
    np.testing.assert_allclose(sum(by_threshold), values("PairError", rows), rtol=0, atol=1e-9)


def test_theorem_2_for_two_ratings_it_is_the_nrbp_loss() -> None:
    rows = ranked(TWO_RATINGS)
    np.testing.assert_allclose(values("nRBP", rows), [dcg_error(order) for order in TWO_RATINGS], rtol=0, atol=1e-9)


@given(TIED_ROWS)
def test_theorem_1_holds_with_ties(rows: list[list[tuple[int, int]]]) -> None:
    lists: list[Row] = [([s for s, _ in row], [r for _, r in row]) for row in rows]
    by_threshold = [np.nan_to_num(values(f"nRBP(rel={k})", lists)) for k in range(1, 5)]
    np.testing.assert_allclose(sum(by_threshold), values("PairError", lists), rtol=0, atol=1e-9)


@given(TIED_ROWS)
def test_theorem_3_with_ties_needs_half_of_each_tied_pair(rows: list[list[tuple[int, int]]]) -> None:
    lists: list[Row] = [([s for s, _ in row], [r for _, r in row]) for row in rows]
    expected = [wrong_pairs(row) + tied_pairs(row) / 2 for row in lists]
    ideal = np.array([dcg(tuple(sorted(ratings, reverse=True))) for _, ratings in lists])
    np.testing.assert_allclose(values("PairError", lists), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ideal - values("LinearDCG", lists), expected, rtol=0, atol=1e-9)


def test_lemma_1_exchanges_lead_to_any_order_and_each_costs_at_least_1() -> None:
    """Exchanging the r-th wrong item of the top m with the r-th wrong one below, as the proof does."""
    for target in TWO_RATINGS:
        m = sum(target)
        order = [1] * m + [0] * (len(target) - m)
        leaving = [i for i in range(m) if target[i] == 0]
        arriving = [j for j in range(m, len(target)) if target[j] == 1]
        assert len(leaving) == len(arriving) <= min(m, len(target) - m)
        for i, j in zip(leaving, arriving, strict=True):
            before = dcg(tuple(order))
            order[i], order[j] = order[j], order[i]
            assert before - dcg(tuple(order)) == j - i >= 1
        assert tuple(order) == target


@pytest.mark.parametrize("n", range(1, 9))
def test_the_ideal_dcg_of_two_ratings_has_a_formula(n: int) -> None:
    m = np.arange(1, n + 1)
    np.testing.assert_allclose(rb.maximum("LinearDCG", n, m), m * (n - m) + m * (m - 1) / 2, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("order", "ideal", "found", "error"), [((1, 0, 1, 0, 0, 1), 12, 8, 4), ((2, 1, 0, 2, 0, 0), 21, 18, 3)]
)
def test_the_drawn_examples(order: Ratings, ideal: int, found: int, error: int) -> None:
    grades, limits = np.array(order), np.array([0, len(order)])
    assert rb.extremes("LinearDCG", grades, limits)[1] == pytest.approx([ideal])
    rows = ranked([order])
    measured = [values(text, rows)[0] for text in ("LinearDCG", "PairError", "LinearNDCG")]
    assert measured == pytest.approx([found, error, found / ideal])


def test_the_papers_normalised_error_can_exceed_1() -> None:
    row = ranked([(0, 1, 2)])
    assert values("PairError(norm=pairs)", row) == pytest.approx([4 / 3])
    assert values("PairError(norm=max)", row) == pytest.approx([1.0])
    assert 1 - values("LinearNDCG", row) == pytest.approx([0.8])
