"""The error that a score distribution states, against all orders of short lists in exact arithmetic.

Scores are fractions or decimals of 120 digits: two orders score the same if these are equal, however near others lie.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from brute_force import average_precision, binary_orders, err, graded_orders, nrbp, rbp

import rankbound as rb
from rankbound.bounds.orders import binned_distributions, edges_of, enumerate_orders
from rankbound.bounds.sums import RandomOrders, Sum

Order = Sequence[float]
Exact = Decimal | Fraction
DIGITS = 120


def discount(rank: int, base: str = "log2(r+1)") -> Decimal:
    log = Decimal(rank + 1).ln() if base == "log2(r+1)" else Decimal(max(rank, 2)).ln()
    return Decimal(2).ln() / log


def dcg(gain: str = "exp2", base: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], Decimal]:
    def value(order: Order) -> Decimal:
        gains = [(Decimal(2) ** Decimal(y) - 1) if gain == "exp2" else Decimal(y) for y in order[:k]]
        return sum((g * DISCOUNTS[base][rank] for rank, g in enumerate(gains)), Decimal())

    return value


def ndcg(gain: str = "exp2", base: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], Decimal]:
    total = dcg(gain, base, k)
    return lambda order: total(order) / total(sorted(order, reverse=True))


def pair_error(order: Order) -> Fraction:
    grades = [Fraction(y) for y in order]
    return sum((max(below - above, Fraction()) for above, below in combinations(grades, 2)), Fraction())


with localcontext() as context:
    context.prec = DIGITS
    DISCOUNTS = {base: [discount(rank, base) for rank in range(1, 221)] for base in ("log2(r+1)", "log2(r)")}

METRICS: dict[str, Callable[[Any], Any]] = {
    "nDCG": ndcg(),
    "nDCG@3": ndcg(k=3),
    "nDCG(gain=linear)": ndcg("linear"),
    "nDCG(discount=log2(r))": ndcg(base="log2(r)"),
    "DCG": dcg(),
    "DCG@4": dcg(k=4),
    "DCG(discount=log2(r))": dcg(base="log2(r)"),
    "CG@3": lambda order: sum((Decimal(y) for y in order[:3]), Decimal()),
    "AP": average_precision(),
    "AP@3": average_precision(k=3),
    "RBP(p=0.5)": rbp(0.5),
    "RBP(p=0.8)": rbp(0.8),
    "RBP(p=0.01)": rbp(0.01),
    "RBP(p=0.999999)": rbp(0.999999),
    "RBP(p=0.999999999999999)": rbp(0.999999999999999),
    "RBP(p=0)": rbp(0.0),
    "nRBP(p=0.8)": nrbp(0.8),
    "ERR(max=1)": err(1),
    "ERR(max=4)": err(4),
    "PairError": pair_error,
}
GRADED = {"nDCG", "nDCG@3", "nDCG(gain=linear)", "nDCG(discount=log2(r))", "DCG", "DCG@4", "CG@3", "PairError"}

BINARY = [(7, 3), (9, 4), (10, 9), (12, 2), (4, 4), (40, 39), (40, 1), (60, 59), (14, 12)]
GRADES: list[tuple[float, ...]] = [
    (3, 1, 0, 2, 1),
    (1e-13, 0, 0, 0, 0, 0),
    (1, 1e-9, 1e-13, 0),
    (60, 1, 0, 0, 2),
    (0.1, 0.2, 0.3, 0.1, 0.7),
    (0.5, 0.25, 0, 0, 1),
    (4, 2, 1, 0, 0, 0, 0),
]


def exact_steps(values: Iterator[Exact]) -> tuple[list[Exact], list[Fraction]]:
    """Return the distinct scores, ascending, and the CDF at each, from the scores of equally likely orders."""
    with localcontext() as context:
        context.prec = DIGITS
        counts: Counter[Exact] = Counter()
        for value in values:
            # Decimals of equal numbers may differ in their last digits.
            counts[round(value, DIGITS - 40) if isinstance(value, Decimal) else value] += 1
    total = sum(counts.values())
    support = sorted(counts)
    return support, [Fraction(below, total) for below in accumulate(counts[value] for value in support)]


def require_true(name: str, found: rb.ScoreDistribution, values: Iterator[Exact]) -> None:
    """Fail if the CDF at a score, or anywhere between two that float64 tells apart, is wrong by more than it states."""
    support, steps = exact_steps(values)
    x, truth = np.array([float(value) for value in support]), np.array([float(step) for step in steps])
    apart = np.diff(x) > 1e-10 * x[1:]
    wrong_between = np.abs(found.cdf((x[1:] + x[:-1]) / 2) - truth[:-1])[apart]
    largest = max(np.abs(found.cdf(x) - truth).max(), wrong_between.max(initial=0.0))
    assert largest <= found.error + 1e-12, (name, found.profile, largest, found.error)
    # All scores differ by more than the rounding of a float64 sum.
    if all(float(high - low) > 1e-13 * x[-1] for low, high in pairwise(support)):  # type: ignore[operator]
        assert found.error < 1e-11, (name, found.profile)
        assert len(found.support[found.probability > 0]) == len(support), (name, found.profile)
    assert found.minimum <= found.support[0]
    assert found.support[-1] <= found.maximum
    assert (np.diff(found.support) > 0).all()
    assert found.probability.sum() == pytest.approx(1, abs=1e-12)
    assert found.cdf(found.maximum) == found.cdf(np.inf) == 1.0
    np.testing.assert_allclose(found.cdf(found.support), np.cumsum(found.probability), atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_the_error_covers_all_orders_of_binary_lists(name: str) -> None:
    for n, p in BINARY:
        require_true(name, rb.score_distribution(name, n, p), map(METRICS[name], binary_orders(n, p)))


@pytest.mark.parametrize("name", [name for name in METRICS if name in GRADED or name.startswith(("RBP", "ERR"))])
def test_the_error_covers_all_orders_of_graded_lists(name: str) -> None:
    for grades in GRADES:
        if name.startswith("ERR") and (any(y % 1 for y in grades) or max(grades) > int(name[-2])):
            continue
        if name.startswith("RBP"):
            grades = tuple(float(y >= 1) for y in grades)
        if name == "PairError" and min(grades, key=lambda y: y or 1) < 1e-12:
            # A difference of ranks times grades has the rounding error of the largest grade.
            continue
        require_true(name, rb.score_distribution(name, relevance=grades), map(METRICS[name], graded_orders(grades)))


@pytest.mark.parametrize("name", ["nDCG", "AP", "DCG(discount=log2(r))", "RBP(p=0.9)", "RBP(p=0.99)"])
@pytest.mark.parametrize(
    ("n", "p"),
    [
        *((18, 9), (22, 6), (40, 4), (60, 56)),
        *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((22, 11), (24, 12), (30, 7), (58, 5))),
    ],
)
def test_bins_keep_to_the_error_that_they_state(name: str, n: int, p: int) -> None:
    """Lists short enough to enumerate, by the method for long ones, which refuses what no bins can hold."""
    of = Sum(rb.metric(name), RandomOrders(n, p))
    table = binned_distributions([of], work=3e7).get((n, p))
    binned = rb.score_distribution(name, n, p).binned()
    support, chances, lost, _ = enumerate_orders(of)
    assert lost == 0
    above = np.cumsum(chances)
    tables = [] if table is None else [(edges_of(table.support, table.width), table.probability, table.lost)]
    if binned.width > 0:
        tables.append((edges_of(binned.support, binned.width), binned.probability, binned.error))
    for edges, mass, error in tables:
        linear = np.interp(support, edges, np.concatenate([[0.0], np.cumsum(mass)]))
        assert max(np.abs(linear - above).max(), np.abs(linear - above + chances).max()) <= error


@pytest.mark.parametrize("ranks", [(1, 2, 3), (151, 161, 175), (151, 152, 200), (100, 120, 140), (30, 150, 200)])
def test_scores_of_more_digits_than_a_float64_are_counted(ranks: tuple[int, int, int]) -> None:
    """RBP(p=0.5) of 3 relevant items among 200 orders lists as their ranks do, from the first one on."""
    found, (first, second, third) = rb.score_distribution("RBP(p=0.5)", 200, 3), ranks
    not_above = comb(200 - first, 3) + comb(200 - second, 2) + 201 - third
    score = sum(0.5**rank for rank in ranks)
    assert abs(float(found.cdf(score)) - not_above / comb(200, 3)) <= found.error < 0.01
    if third - first < 50:
        assert float(found.cdf(score)) == pytest.approx(not_above / comb(200, 3), abs=1e-12)


CASES: list[tuple[str, dict[str, Any], float, float]] = [
    ("RBP(p=0.8)", {"n": 200, "p": 3}, 0.0, 0.0),
    (
        "ERR(max=1)",
        {"n": 40, "p": 39},
        sum(0.5**r / r for r in range(1, 31)) + sum(0.5 ** (r - 1) / r for r in range(32, 41)),
        31 / 40,
    ),
    ("DCG", {"relevance": [1e-13, 0, 0, 0, 0, 0]}, 5e-14, 5 / 6),
    ("RBP(p=0.999999)", {"relevance": [0, 1, 4]}, (1 - 0.999999) * (0.999999 + 0.999999**2), 1 / 3),
    ("AP", {"n": 8, "p": 4}, -np.inf, 0.0),
]


@pytest.mark.parametrize(("name", "lists", "score", "expected"), CASES)
def test_scores_that_lie_close_keep_their_share(name: str, lists: Any, score: float, expected: float) -> None:
    assert float(rb.score_distribution(name, **lists).cdf(score)) == pytest.approx(expected, abs=1e-9)
