"""Metrics over all orders of a short list, in plain Python: what the library is checked against.

Nothing here comes from rankbound. An order is a tuple of grades from rank 1 down. Values are exact fractions, except
where a logarithm makes them floats; None means that the metric is undefined.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product

Order = tuple[int, ...]
Value = Fraction | float | None


def binary_orders(n: int, p: int) -> list[Order]:
    """All orders of `n` items, `p` of them relevant; each is equally likely."""
    return [tuple(int(rank in held) for rank in range(n)) for held in map(set, combinations(range(n), p))]


def graded_orders(grades: Sequence[int]) -> list[Order]:
    """All distinct orders of a list of grades; each is equally likely."""
    return sorted(set(permutations(grades)))


def orders_of_ties(scores: Sequence[float], grades: Sequence[int]) -> list[Order]:
    """The orders that breaking the ties of `scores` can give, each as often as it comes up."""
    levels = sorted(set(scores), reverse=True)
    blocks = [[grade for score, grade in zip(scores, grades, strict=True) if score == level] for level in levels]
    return [sum(parts, ()) for parts in product(*(permutations(block) for block in blocks))]


def mean(values: Iterable[Value]) -> float:
    """The mean; NaN if a value is undefined."""
    known = list(values)
    if None in known:
        return math.nan
    return float(math.fsum(known) / len(known)) if any(isinstance(v, float) for v in known) else float(_exact(known))


def _exact(values: list[Value]) -> Fraction:
    return sum(values, Fraction()) / len(values)  # type: ignore[arg-type]


def distribution(values: Iterable[Value]) -> list[tuple[float, Fraction]]:
    """Distinct values, ascending, with their probabilities; floats are one value where they agree to 12 digits."""
    known = list(values)
    counts: Counter[Value] = Counter(round(v, 12) if isinstance(v, float) else v for v in known)
    return [(float(value), Fraction(count, len(known))) for value, count in sorted(counts.items())]  # type: ignore


def dcg(gain: str = "exp2", discount: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], float]:
    """Sum over the ranks up to k of gain over discount."""

    def value(order: Order) -> float:
        ranks = enumerate(order[:k], start=1)
        return math.fsum((2**y - 1 if gain == "exp2" else y) / _discount(discount, rank) for rank, y in ranks)

    return value


def _discount(discount: str, rank: int) -> float:
    return math.log2(rank + 1) if discount == "log2(r+1)" else max(1.0, math.log2(rank))


def ndcg(gain: str = "exp2", discount: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], Value]:
    total = dcg(gain, discount, k)

    def value(order: Order) -> Value:
        ideal = total(tuple(sorted(order, reverse=True)))
        return total(order) / ideal if ideal else None

    return value


def average_precision(rel: int = 1) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        ranks = relevant_ranks(order, rel)
        return sum((Fraction(i, rank) for i, rank in enumerate(ranks, start=1)), Fraction()) / len(ranks)

    return _undefined_without_relevant(value, rel)


def reciprocal_rank(rel: int = 1) -> Callable[[Order], Value]:
    return _undefined_without_relevant(lambda order: Fraction(1, relevant_ranks(order, rel)[0]), rel)


def precision(k: int, rel: int = 1) -> Callable[[Order], Value]:
    return lambda order: Fraction(sum(y >= rel for y in order[:k]), k)


def rbp(p: str, rel: int = 1) -> Callable[[Order], Value]:
    persistence = Fraction(p)
    return lambda order: (
        (1 - persistence) * sum((persistence ** (rank - 1) for rank in relevant_ranks(order, rel)), Fraction())
    )


def nrbp(p: str, rel: int = 1) -> Callable[[Order], Value]:
    total = rbp(p, rel)
    return _undefined_without_relevant(
        lambda order: total(order) / (1 - Fraction(p) ** len(relevant_ranks(order, rel))),  # type: ignore[operator]
        rel,
    )


def rank_sum(rel: int = 1) -> Callable[[Order], Value]:
    """Thesis eq. 2.12, as the number of pairs in the wrong order."""

    def value(order: Order) -> Value:
        wrong = (above < rel <= below for above, below in combinations(order, 2))
        return Fraction(sum(wrong))

    return _undefined_without_relevant(value, rel)


def relevant_ranks(order: Order, rel: int = 1) -> list[int]:
    return [rank for rank, y in enumerate(order, start=1) if y >= rel]


def _undefined_without_relevant(value: Callable[[Order], Value], rel: int) -> Callable[[Order], Value]:
    return lambda order: value(order) if relevant_ranks(order, rel) else None


METRICS: dict[str, Callable[[Order], Value]] = {
    "nDCG": ndcg(),
    "nDCG@1": ndcg(k=1),
    "nDCG@3": ndcg(k=3),
    "nDCG@10": ndcg(k=10),
    "nDCG(gain=linear)": ndcg(gain="linear"),
    "nDCG(discount=log2(r))": ndcg(discount="log2(r)"),
    "nDCG(gain=linear,discount=log2(r))@4": ndcg("linear", "log2(r)", 4),
    "DCG": dcg(),
    "DCG@3": dcg(k=3),
    "DCG(gain=linear)": dcg("linear"),
    "DCG(discount=log2(r))": dcg(discount="log2(r)"),
    "DCG(gain=linear)@2": dcg("linear", k=2),
    "AP": average_precision(),
    "AP(rel=2)": average_precision(2),
    "RR": reciprocal_rank(),
    "RR(rel=3)": reciprocal_rank(3),
    "P@1": precision(1),
    "P@3": precision(3),
    "P@10": precision(10),
    "P(rel=2)@2": precision(2, 2),
    "RBP(p=0)": rbp("0"),
    "RBP(p=0.8)": rbp("0.8"),
    "RBP(rel=2,p=0.5)": rbp("0.5", 2),
    "nRBP(p=0)": nrbp("0"),
    "nRBP(p=0.8)": nrbp("0.8"),
    "nRBP(p=0.95)": nrbp("0.95"),
    "nRBP": rank_sum(),
    "nRBP(rel=2)": rank_sum(2),
}
"""Text of the metric to its value of an order."""

UNDEFINED_WITHOUT_RELEVANT = {name for name in METRICS if not name.startswith(("DCG", "P@", "P(", "RBP"))}
"""The metrics that are NaN without relevant items (DESIGN section 4); the others are 0."""
