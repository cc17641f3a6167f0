"""Jin and Geng, Linear NDCG and Pair-wise Loss: Theorems 1 to 3, and what ties do to them.

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

Row = list[tuple[int, int]]
"""Scores and ratings of one list."""

TIED_ROWS = st.lists(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 4)), min_size=1, max_size=12).filter(
        lambda row: any(rating for _, rating in row)
    ),
    min_size=1,
    max_size=4,
)


def ranked(order: Sequence[int]) -> Row:
    """A list whose items stand in the given order, no two tied."""
    return list(zip(range(len(order), 0, -1), order, strict=True))


ALL_RATINGS = [ranked(row) for n in range(1, 7) for row in product(range(4), repeat=n) if any(row)]
TWO_RATINGS = [ranked(row) for n in range(1, 9) for row in product(range(2), repeat=n) if any(row)]


def values(text: str, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    scores, ratings = np.array([item for row in rows for item in row]).T
    result: npt.NDArray[np.float64] = rb.metric(text)(scores.astype(float), ratings, np.cumsum([0, *map(len, rows)]))
    return result


def ideal(row: Row) -> int:
    return sum(rating * rank for rank, rating in enumerate(sorted(rating for _, rating in row)))


def wrong_pairs(row: Row) -> float:
    """R(f) with the strict comparison of eq. 4, and half of each tied pair."""
    pairs = combinations(row, 2)
    return sum(abs(r - q) * (0.5 if s == t else (s - t) * (r - q) < 0) for (s, r), (t, q) in pairs)


def require_theorems(rows: list[Row]) -> None:
    """Theorems 1 to 3: the DCG error is the weighted number of wrong pairs, and a sum of two-rating errors."""
    errors = values("PairError", rows)
    np.testing.assert_allclose(errors, [wrong_pairs(row) for row in rows], rtol=0, atol=1e-9)
    np.testing.assert_allclose(values("LinearDCG", rows), [*map(ideal, rows)] - errors, rtol=0, atol=1e-9)
    by_threshold = [np.nan_to_num(values(f"nRBP(rel={k})", rows)) for k in range(1, 5)]
    np.testing.assert_allclose(sum(by_threshold), errors, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rows", [ALL_RATINGS, TWO_RATINGS])
def test_the_theorems_hold_for_all_orders(rows: list[Row]) -> None:
    require_theorems(rows)
    if rows is TWO_RATINGS:
        np.testing.assert_allclose(values("nRBP", rows), values("PairError", rows), rtol=0, atol=1e-9)


@given(TIED_ROWS)
def test_the_theorems_hold_with_ties(rows: list[Row]) -> None:
    require_theorems(rows)


@pytest.mark.parametrize("n", range(1, 9))
def test_the_ideal_dcg_of_two_ratings_has_a_formula(n: int) -> None:
    m = np.arange(1, n + 1)
    np.testing.assert_allclose(rb.maximum("LinearDCG", n, m), m * (n - m) + m * (m - 1) / 2, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((1, 0, 1, 0, 0, 1), {"LinearDCG": 8, "PairError": 4, "LinearNDCG": 8 / 12}),
        ((2, 1, 0, 2, 0, 0), {"LinearDCG": 18, "PairError": 3, "LinearNDCG": 18 / 21}),
        # The paper's normalised error can exceed 1.
        ((0, 1, 2), {"PairError(norm=pairs)": 4 / 3, "PairError(norm=max)": 1, "LinearNDCG": 0.2}),
    ],
)
def test_the_drawn_examples(order: tuple[int, ...], expected: dict[str, float]) -> None:
    assert {text: values(text, [ranked(order)])[0] for text in expected} == pytest.approx(expected)
