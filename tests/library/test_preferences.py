"""Strengths from comparisons and rankings: choix' numbers, greatest likelihoods, errors, and what has no estimate."""

import math
from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from rankbound.preferences import Strengths, bradley_terry, plackett_luce, thurstone
from tests.library.refusals import refusals

# The expected numbers of choix' own tests.
TWENTY = [(7, 3), (2, 0), (5, 2), (4, 2), (2, 1), (4, 5), (6, 3), (5, 4), (7, 0), (2, 3)]
TWENTY += [(4, 0), (0, 4), (6, 5), (3, 2), (3, 4), (3, 4), (5, 2), (7, 3), (7, 6), (6, 5)]
CHOICES = [[7, {6, 3, 1}], [6, {4, 5}], [5, {0, 4, 1}], [0, {3}], [3, {0, 1}]]
CHOIX: list[tuple[Strengths, dict[int, float]]] = [
    (bradley_terry([(0, 1), (1, 2), (2, 0)]), {0: 0.0, 1: 0.0, 2: 0.0}),
    (bradley_terry([(0, 1), (0, 1), (1, 2), (2, 0)]), {0: 0.419617624, 1: -0.419617624, 2: 0.0}),
    (
        bradley_terry(TWENTY, ridge=0.5),
        dict(enumerate((-0.51974, -0.46281, -0.31377, -0.06855, -0.31851, -0.00346, 0.63033, 1.05651))),
    ),
    (plackett_luce([[0, 1, 2], [3, 2, 0], [1, 3]]), {0: -0.44328117, 1: 0.69506219, 2: -0.67061442, 3: 0.4188334}),
    (
        plackett_luce(CHOICES, ridge=0.5),
        {0: -0.12223, 1: -0.53981, 3: -0.08808, 4: -0.40003, 5: 0.24075, 6: 0.30131, 7: 0.60809},
    ),
    # By symmetry: ties alone connect two groups, and a ridge what nothing connects.
    (bradley_terry([(0, 1), (1, 0), (2, 3), (3, 2)], [(0, 2)]), {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0}),
    (thurstone([(0, 1), (1, 0), (2, 3), (3, 2)], ridge=0.1), {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0}),
]


def test_strengths_are_those_of_choix() -> None:
    for found, expected in CHOIX:
        assert dict(zip(found.items, found.values.tolist(), strict=True)) == pytest.approx(expected, abs=2e-4)


def drawn(seed: int, n: int = 5) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    draws = np.random.default_rng(seed)
    pairs = [(a, b) for a, b in permutations(range(n), 2) for _ in range(int(draws.integers(1, 4)))]
    return pairs, [(a, b) for a, b in combinations(range(n), 2) if draws.random() < 0.7]


def log_davidson(theta: Any, wins: Any, ties: Any) -> float:
    *strengths, tie = theta

    def of(a: int, b: int, is_tie: bool) -> float:
        one, other = math.exp(strengths[a]), math.exp(strengths[b])
        shared = math.exp(tie) * math.sqrt(one * other)
        return math.log((shared if is_tie else one) / (one + other + shared))

    return sum(of(a, b, False) for a, b in wins) + sum(of(a, b, True) for a, b in ties)


def log_plackett(theta: Any, rankings: Any) -> float:
    total = 0.0
    for ranking in rankings:
        for place in range(len(ranking) - 1):
            total += theta[ranking[place]] - math.log(sum(math.exp(theta[one]) for one in ranking[place:]))
    return total


RANKINGS = [[0, 1, 2, 3], [3, 1, 0], [2, 0], [1, 3, 2, 0], [2, 3, 1]]
WINS, TIES = drawn(1)
LIKELIHOODS: dict[str, tuple[Strengths, Callable[[Any], float], int]] = {
    "Bradley-Terry": (
        bradley_terry(WINS),
        lambda x: -sum(math.log1p(math.exp(x[b] - x[a])) for a, b in WINS),
        5,
    ),
    "Davidson": (bradley_terry(WINS, TIES), lambda x: log_davidson(x, WINS, TIES), 6),
    "Thurstone": (thurstone(WINS), lambda x: sum(norm.logcdf(x[a] - x[b]) for a, b in WINS), 5),
    "Plackett-Luce": (plackett_luce(RANKINGS), lambda x: log_plackett(x, RANKINGS), 4),
}


@pytest.mark.parametrize("case", LIKELIHOODS)
def test_strengths_have_the_greatest_likelihood_and_its_curvature(case: str) -> None:
    found, log_likelihood, size = LIKELIHOODS[case]
    order = np.argsort(found.items)
    values, covariance = found.values[order], found.covariance[np.ix_(order, order)]
    best = minimize(lambda x: -log_likelihood(x), np.zeros(size), method="BFGS", options={"gtol": 1e-7}).x
    n = len(values)
    assert values == pytest.approx(best[:n] - best[:n].mean(), abs=1e-5)
    full = values if found.tie is None else np.append(values, found.tie)
    assert found.log_likelihood == pytest.approx(log_likelihood(full), abs=1e-10)
    if found.tie is not None:
        assert found.tie == pytest.approx(best[n], abs=1e-5)
    width = 1e-4
    steps = width * np.eye(size)
    hessian = np.array(
        [
            [
                sum(s * t * log_likelihood(full + s * one + t * other) for s in (1, -1) for t in (1, -1))
                for other in steps
            ]
            for one in steps
        ]
    ) / (4 * width**2)
    assert covariance == pytest.approx(np.linalg.pinv(-hessian, rcond=1e-5)[:n, :n], abs=1e-5)


def test_standard_errors_cover_planted_strengths() -> None:
    draws, planted = np.random.default_rng(0), np.array([1.0, 0.5, 0.0, -0.5, -1.0])
    chances = 1 / (1 + np.exp(planted[None, :] - planted[:, None]))
    covered = []
    for _ in range(100):
        pairs = np.array(list(combinations(range(5), 2)) * 40)
        won = draws.random(len(pairs)) < chances[pairs[:, 0], pairs[:, 1]]
        found = bradley_terry(np.where(won[:, None], pairs, pairs[:, ::-1]))
        order = np.argsort(found.items)
        errors = np.abs(found.values - planted[found.items])[order]
        covered += (errors < 1.96 * found.standard_errors[order]).tolist()
        gap, error = found.difference(0, 4)
        covered.append(abs(gap - 2.0) < 1.96 * error)
    assert 0.93 < np.mean(covered) < 0.97


def test_rankings_of_two_are_comparisons() -> None:
    by_pairs, by_rankings = bradley_terry(WINS), plackett_luce(WINS)
    assert by_rankings.values == pytest.approx(by_pairs.values, abs=1e-9)
    assert by_rankings.covariance == pytest.approx(by_pairs.covariance, abs=1e-9)
    # The parameter of ties grows with them.
    pairs = list(combinations(range(5), 2))
    few, many = (bradley_terry(WINS, pairs * times) for times in (1, 20))
    assert few.tie is not None
    assert many.tie is not None
    assert many.tie > few.tie + 1


def test_pairs_may_come_in_anything_of_two_columns() -> None:
    frame, expected = pl.DataFrame(WINS, schema=["winner", "loser"], orient="row"), bradley_terry(WINS)
    for source in (np.array(WINS), iter(WINS), frame, frame.to_pandas()):
        found = bradley_terry(source)
        assert found.items == expected.items
        assert (found.values == expected.values).all()


def test_a_factor_of_the_data_and_the_names_make_no_difference() -> None:
    once, twice = thurstone(WINS), thurstone([(f"item {a}", f"item {b}") for a, b in WINS * 2])
    assert twice.values == pytest.approx(once.values, abs=1e-9)
    assert twice.covariance * 2 == pytest.approx(once.covariance, abs=1e-9)
    assert str(twice).splitlines()[0].split() == ["item", "strength", "standard", "error"]
    best = twice.to_polars()["item"][0]
    assert twice.probability(best, "item 0") + twice.probability("item 0", best) == pytest.approx(1)


test_what_has_no_estimate_is_refused_by_name = refusals(
    [
        (lambda: bradley_terry([]), "wins: found none"),
        (lambda: bradley_terry([("a", "b"), ("a", "a")]), "as number 2, expected a pair of different items"),
        (lambda: thurstone([("a", "b", "c")]), "expected a pair"),
        (lambda: bradley_terry([], [("a", "b")]), "found none beside ties"),
        # Never lost, apart, and in a chain.
        (
            lambda: bradley_terry([("c", "d"), ("d", "c"), ("a", "b"), ("b", "a"), ("a", "c")]),
            "2 groups of items, .* a, b | c, d;",
        ),
        (lambda: thurstone([("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]), "2 groups of items"),
        (lambda: plackett_luce([["c", "a", "b"]]), r"c \| a \| b;"),
        (lambda: plackett_luce([list("abcdefgh")]), r"8 groups of items.* a \| b \| c \| d \| e \| \.\.\.;"),
        (lambda: plackett_luce([]), "rankings: found none"),
        *(
            (lambda last=last: plackett_luce([["a", "b"], last]), "as number 2, expected two or more distinct items")
            for last in (["a"], [], ["a", "b", "a"])
        ),
        (lambda: plackett_luce([["a", {"b"}, "c"]]), "found a set inside ranking 1"),
        (lambda: bradley_terry([("a", "b")], ridge=-1), "ridge: found -1"),
        (lambda: bradley_terry(WINS).difference(0, 9), "item: found 9"),
    ],
    error=ValueError,
)


@pytest.mark.parametrize("fit", [bradley_terry, thurstone, plackett_luce])
def test_a_ridge_gives_what_has_no_finite_estimate(fit: Callable[..., Strengths]) -> None:
    found = fit([("a", "b"), ("b", "c")], ridge=0.1)
    assert (np.diff(found.values) < 0).all()
    assert found.values.sum() == pytest.approx(0, abs=1e-12)
    assert (found.standard_errors > 0).all()
