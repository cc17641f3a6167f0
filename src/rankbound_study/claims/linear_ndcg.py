"""Claims about linear DCG: the theorems of Jin and Geng, over all short lists of ratings."""

from itertools import pairwise, permutations, product

import numpy as np

import rankbound as rb
from rankbound_study.claims.all_orders import agree, binary_orders, values_of_library
from rankbound_study.claims.by_hand import Order, linear_dcg, wrong_pairs
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, counted

MOST_OF_TWO = 8
"""Number of items of the longest lists of two ratings."""

MOST_RATED, RATINGS = 6, (2, 3, 4)
"""Number of items of the longest lists of more ratings, and the numbers of ratings."""

TIED_LISTS, MOST_TIED = 200, 6

TWO_RATINGS = [(n, m) for n in range(2, MOST_OF_TWO + 1) for m in range(1, n)]
"""N items, m of them with the better rating."""


@decides("L01")
def few_exchanges_lead_to_any_order(evidence: Evidence) -> Verdict:
    """Find the fewest exchanges to every order, each of which costs at least 1, by breadth-first search."""
    orders = reached = 0
    for n, m in TWO_RATINGS:
        fewest = _fewest_exchanges((1,) * m + (0,) * (n - m))
        within = [fewest.get(order, n) <= min(m, n - m) for order in binary_orders(n, m)]
        orders, reached = orders + len(within), reached + sum(within)
    return counted(
        reached,
        orders,
        f"{reached} of the {orders} orders of two ratings and 2 to {MOST_OF_TWO} items are reached from the ideal "
        "order by at most as many exchanges as the rarer rating has items, each of which lowers the linear DCG by 1 or "
        "more.",
        "share of orders reached",
        "figure_linear_2",
    )


def _fewest_exchanges(ideal: Order) -> dict[Order, int]:
    """Return the fewest exchanges by reachable order."""
    fewest, front = {ideal: 0}, [ideal]
    while front:
        found = {after: fewest[before] + 1 for before in front for after in _exchanges(before) if after not in fewest}
        fewest |= found
        front = list(found)
    return fewest


def _exchanges(order: Order) -> list[Order]:
    """Return the orders after exchanging two items that lower the linear DCG by at least 1."""
    found = []
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            after = (*order[:i], order[j], *order[i + 1 : j], order[i], *order[j + 1 :])
            if linear_dcg(order) - linear_dcg(after) >= 1:
                found.append(after)
    return found


@decides("L02")
def the_error_counts_wrong_pairs(evidence: Evidence) -> Verdict:
    """Compare DCG errors, weighted wrong pairs and sums of two-rating errors, for all short and random tied lists."""
    orders = [order for of in RATINGS for n in range(1, MOST_RATED + 1) for order in product(range(of), repeat=n)]
    errors = [_dcg_error(order) for order in orders]
    pairs = agree(map(wrong_pairs, orders), errors)
    sums = agree((sum(wrong_pairs(_two_ratings(order, k)) for k in range(1, 4)) for order in orders), errors)
    # The library's errors are undefined where nothing is relevant.
    library = agree(np.nan_to_num(values_of_library(rb.metric("PairError"), orders)).tolist(), errors)
    strict, halved = _of_tied_lists()
    return counted(
        min(pairs, sums, library),
        len(orders),
        f"For lists of 2 to 4 ratings and up to {MOST_RATED} items without tied scores, the DCG error is the weighted "
        f"count of wrong pairs in {pairs:,} of {len(orders):,}, and a sum of two-rating errors in {sums:,}; of "
        f"{TIED_LISTS} lists with ties, the count is right for only {strict}, and for {halved} once half of each tied "
        "pair is added.",
        "share of lists",
        "figure_linear_2 figure_linear_3",
    )


def _dcg_error(order: Order) -> int:
    return linear_dcg(sorted(order, reverse=True)) - linear_dcg(order)


def _two_ratings(order: Order, threshold: int) -> Order:
    return tuple(int(rating >= threshold) for rating in order)


def _of_tied_lists() -> tuple[int, int]:
    """Count the tied lists whose mean DCG error over all tie-breaks is R(f), without and with half of the ties."""
    random = np.random.default_rng(0)
    strict = halved = 0
    for _ in range(TIED_LISTS):
        size = random.integers(2, MOST_TIED + 1)
        scores, ratings = random.integers(0, 3, size).tolist(), random.integers(0, 4, size).tolist()
        wrong = tied = 0.0
        for i, j in product(range(size), repeat=2):
            above = max(0, ratings[i] - ratings[j])
            wrong += above * (scores[i] < scores[j])
            tied += above * (scores[i] == scores[j])
        error = _mean_error(scores, ratings)
        strict += agree([wrong], [error])
        halved += agree([wrong + tied / 2], [error])
    return strict, halved


def _mean_error(scores: list[int], ratings: list[int]) -> float:
    """Return the mean error over all orders of the items that agree with the scores."""
    errors = [
        _dcg_error(tuple(ratings[item] for item in items))
        for items in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(items))
    ]
    return sum(errors) / len(errors)


@decides("L03")
def the_ideal_dcg_of_two_ratings_has_a_formula(evidence: Evidence) -> Verdict:
    """Compare the formula and the library's largest value with all orders."""
    largest = [max(map(linear_dcg, binary_orders(n, m))) for n, m in TWO_RATINGS]
    formula = agree((m * (n - m) + m * (m - 1) / 2 for n, m in TWO_RATINGS), largest)
    library = agree((float(rb.maximum("LinearDCG", n, m)) for n, m in TWO_RATINGS), largest)
    return counted(
        formula,
        len(TWO_RATINGS),
        f"The formula gives the largest linear DCG over all orders for {formula} of the {len(TWO_RATINGS)} lists of "
        f"two ratings and 2 to {MOST_OF_TWO} items.",
        "share of lists",
        "figure_linear_2",
        also=library == len(TWO_RATINGS),
    )
