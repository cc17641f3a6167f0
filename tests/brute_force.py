"""Metrics over all orders of a short list, in plain Python: what the library is checked against.

Nothing here comes from rankbound. An order is a tuple of grades from rank 1 down. Values are exact fractions, except
where a logarithm makes them floats; None means that the metric is undefined.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
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


def average_precision(rel: int = 1, k: int | None = None, divisor: str = "relevant") -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        ranks = relevant_ranks(order, rel)
        found = [Fraction(i, r) for i, r in enumerate(ranks, start=1) if r <= (k or r)]
        counts = {"relevant": len(ranks), "cutoff": min(len(ranks), k or len(ranks)), "found": max(len(found), 1)}
        return sum(found, Fraction()) / counts[divisor]

    return _undefined_without_relevant(value, rel)


def reciprocal_rank(rel: int = 1, k: int | None = None) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        first = relevant_ranks(order, rel)[0]
        return Fraction(first <= (k or first), first)

    return _undefined_without_relevant(value, rel)


def precision(k: int, rel: int = 1) -> Callable[[Order], Value]:
    return lambda order: Fraction(sum(y >= rel for y in order[:k]), k)


def r_precision(rel: int = 1) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        ranks = relevant_ranks(order, rel)
        return Fraction(sum(rank <= len(ranks) for rank in ranks), len(ranks))

    return _undefined_without_relevant(value, rel)


def interpolated_precision(recall: str, rel: int = 1) -> Callable[[Order], Value]:
    """The largest precision of all ranks whose recall is at least `recall`."""

    def value(order: Order) -> Value:
        count = len(relevant_ranks(order, rel))
        found = [(rank, len(relevant_ranks(order[:rank], rel))) for rank in range(1, len(order) + 1)]
        return max(Fraction(above, rank) for rank, above in found if Fraction(above, count) >= Fraction(recall))

    return _undefined_without_relevant(value, rel)


def bpref(rel: int = 1) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        ranks = relevant_ranks(order, rel)
        p, others = len(ranks), len(order) - len(ranks)
        worse = [rank - place for place, rank in enumerate(ranks, start=1)]
        return sum((1 - Fraction(min(above, p), min(p, others) or 1) for above in worse), Fraction()) / p

    return _undefined_without_relevant(value, rel)


def inferred_average_precision(rel: int = 1) -> Callable[[Order], Value]:
    """Every item is pooled and judged."""
    epsilon = Fraction(1, 100_000)

    def value(order: Order) -> Value:
        ranks = relevant_ranks(order, rel)
        precisions = [(place + epsilon) / (rank - 1 + 2 * epsilon) for place, rank in enumerate(ranks)]
        terms = [(1 + (rank - 1) * precision) / rank for rank, precision in zip(ranks, precisions, strict=True)]
        return sum(terms, Fraction()) / len(ranks)

    return _undefined_without_relevant(value, rel)


def rbp(p: str | float, rel: int = 1) -> Callable[[Order], Value]:
    persistence = Fraction(p)
    return lambda order: (
        (1 - persistence) * sum((persistence ** (rank - 1) for rank in relevant_ranks(order, rel)), Fraction())
    )


def nrbp(p: str | float, rel: int = 1) -> Callable[[Order], Value]:
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


def recall(k: int, rel: int = 1) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        return Fraction(sum(y >= rel for y in order[:k]), len(relevant_ranks(order, rel)))

    return _undefined_without_relevant(value, rel)


def hit(k: int, rel: int = 1) -> Callable[[Order], Value]:
    return lambda order: Fraction(any(y >= rel for y in order[:k]))


def err(max: int, k: int | None = None) -> Callable[[Order], Value]:
    """Chapelle et al. 2009: the user stops at grade y with the chance (2^y - 1) / 2^max."""

    def value(order: Order) -> Value:
        still, total = Fraction(1), Fraction()
        for rank, y in enumerate(order[:k], start=1):
            stops = Fraction(2**y - 1, 2**max)
            total += still * stops / rank
            still *= 1 - stops
        return total

    return value


def sdcg(max: int, k: int) -> Callable[[Order], Value]:
    ideal = dcg("linear", k=k)((max,) * k)
    return lambda order: dcg("linear", k=k)(order) / ideal


def of_user(max: int, T: float | str = 1, k: int | None = None, adapts: bool = False) -> Callable[[Order], Value]:
    """INSQ and INST: a user who goes on below rank r with the chance ((r + 2T - 1) / (r + 2T))^2, of the T left."""

    def value(order: Order) -> Value:
        gains = [y / max for y in order] + [0.0] * ((k or 0) - len(order))
        weights, needed = [1.0], 2 * float(T)
        for rank, gain in enumerate(gains, start=1):
            needed -= gain * adapts
            weights.append(weights[-1] * ((rank + needed - 1) / (rank + needed)) ** 2)
        # All ranks from the one below the list on are a multiple of inverse squares.
        start = len(gains) + needed
        rest = 0.0 if k else weights[-1] * start**2 * _inverse_squares(start)
        weights = weights[:k] if k else weights[:-1]
        return math.fsum(w * g for w, g in zip(weights, gains, strict=False)) / (math.fsum(weights) + rest)

    return value


def _inverse_squares(start: float) -> float:
    """Sum of 1/(start + j)^2 over j = 0, 1, ..., by the formula of Euler and Maclaurin after 50 terms."""
    x = start + 50
    return math.fsum([*((start + j) ** -2 for j in range(50)), 1 / x, 1 / (2 * x**2), 1 / (6 * x**3), -1 / (30 * x**5)])


def compatibility(p: str = "0.95", k: int | None = None) -> Callable[[Order], Value]:
    """The largest overlap with an ideal ranking, of all their ties' orders, over that of the ideal one with itself."""
    persistence = Fraction(p)

    def overlap(order: Sequence[int], ideal: Sequence[int], depth: int) -> Fraction:
        shared = (len({*order[:d]} & {*ideal[:d]}) for d in range(1, depth + 1))
        return sum((persistence ** (d - 1) * n / d for d, n in enumerate(shared, start=1)), Fraction())

    def value(order: Order) -> Value:
        relevant = [place for place, y in enumerate(order) if y]
        depth = k or len(order)
        # By grade, then as in the list; that no other order of the ties is better is tested.
        ideal = sorted(relevant, key=lambda place: -order[place])
        return overlap(range(len(order)), ideal, depth) / overlap(ideal, ideal, depth)

    return _undefined_without_relevant(value, 1)


def f_measure(k: int, rel: int = 1, beta: int = 1) -> Callable[[Order], Value]:
    def value(order: Order) -> Value:
        p, r = precision(k, rel)(order), recall(k, rel)(order)
        return (1 + beta**2) * p * r / (beta**2 * p + r) if p else Fraction()  # type: ignore[operator]

    return _undefined_without_relevant(value, rel)


def cg(gain: str = "linear", k: int | None = None) -> Callable[[Order], Value]:
    return lambda order: sum((Fraction(2**y - 1 if gain == "exp2" else y) for y in order[:k]), Fraction())


def linear_dcg(order: Order) -> Value:
    """Seed 004 eq. 1."""
    return Fraction(sum(y * (len(order) - rank) for rank, y in enumerate(order, start=1)))


def linear_ndcg(order: Order) -> Value:
    ideal = linear_dcg(tuple(sorted(order, reverse=True)))
    return linear_dcg(order) / ideal if ideal else None  # type: ignore[operator]


def pair_error(norm: str = "none") -> Callable[[Order], Value]:
    """Seed 004 eqs. 3 and 4."""

    def value(order: Order) -> Value:
        wrong = sum(below - above for above, below in combinations(order, 2) if above < below)
        gaps = [abs(u - v) for u, v in combinations(order, 2)]
        if norm == "none":
            return Fraction(wrong) if any(order) else None
        divisor = sum(gap > 0 for gap in gaps) if norm == "pairs" else sum(gaps)
        return Fraction(wrong, divisor) if divisor else None

    return value


def pair_accuracy(order: Order) -> Value:
    pairs = [above > below for above, below in combinations(order, 2) if above != below]
    return Fraction(sum(pairs), len(pairs)) if pairs else None


def kendall(weight: str = "uniform") -> Callable[[Order], Value]:
    """Murphy eq. 9.130; scores descend."""

    def value(order: Order) -> Value:
        pairs = list(combinations(order, 2))
        weights = [1 if weight == "uniform" else abs(u - v) for u, v in pairs]
        agreement = sum(w * (1 + (u > v) - (u < v)) for w, (u, v) in zip(weights, pairs, strict=True))
        return Fraction(agreement, 2 * sum(weights)) if sum(weights) else None

    return value


def relevant_ranks(order: Order, rel: int = 1) -> list[int]:
    return [rank for rank, y in enumerate(order, start=1) if y >= rel]


def _undefined_without_relevant(value: Callable[[Order], Value], rel: int) -> Callable[[Order], Value]:
    return lambda order: value(order) if relevant_ranks(order, rel) else None


KINDS: dict[str, Callable[..., Callable[[Order], Value]]] = {
    "nDCG": ndcg,
    "DCG": dcg,
    "CG": cg,
    "AP": average_precision,
    "RR": reciprocal_rank,
    "P": precision,
    "Recall": recall,
    "F": f_measure,
    "Hit": hit,
    "ERR": err,
    "SDCG": sdcg,
    "INSQ": of_user,
    "INST": partial(of_user, adapts=True),
    "Compat": compatibility,
    "Rprec": r_precision,
    "IPrec": interpolated_precision,
    "Bpref": bpref,
    "infAP": inferred_average_precision,
    "RBP": rbp,
    "nRBP": lambda p=None, rel=1: rank_sum(rel) if p is None else nrbp(p, rel),
    "LinearDCG": lambda: linear_dcg,
    "LinearNDCG": lambda: linear_ndcg,
    "PairError": pair_error,
    "PairAccuracy": lambda: pair_accuracy,
    "Kendall": kendall,
}
"""Name of a metric to the function that has its parameters."""


def of_text(text: str) -> Callable[[Order], Value]:
    """The arithmetic of a metric's text, whose cut-off is `k`."""
    name, inside, k = re.fullmatch(r"(\w+)(?:\((.*)\))?(?:@(\d+))?", text).groups()  # type: ignore[union-attr]
    given = dict(part.split("=") for part in inside.split(",")) if inside else {}
    given |= {"k": k} if k else {}
    return KINDS[name](**{key: int(value) if value.isdigit() else value for key, value in given.items()})


TEXTS = """
    nDCG nDCG@1 nDCG@3 nDCG@10 nDCG(gain=linear) nDCG(discount=log2(r)) nDCG(gain=linear,discount=log2(r))@4 DCG
    DCG@3 DCG(gain=linear) DCG(discount=log2(r)) DCG(gain=linear)@2 CG@3 CG(gain=exp2)@2 AP AP@1 AP@3 AP(rel=2)
    AP(rel=2)@4 AP(divisor=cutoff)@3 AP(divisor=found)@3 AP(rel=2,divisor=found)@2 RR RR@2 RR(rel=3) RR(rel=2)@3 P@1
    P@3 P@10 P(rel=2)@2 Recall@1 Recall@3 Recall(rel=2)@4 F@1 F@3 F(rel=2,beta=2)@4 Hit@1 Hit@3 Hit@10 Hit(rel=2)@2
    ERR(max=4) ERR(max=4)@1 ERR(max=4)@3 ERR(max=6)@10 SDCG(max=5)@1 SDCG(max=4)@5 INSQ(max=4) INSQ(max=4,T=2.5)@4
    INST(max=4) INST(max=4)@3 INST(max=5,T=2.5)@10 Compat Compat(p=0) Compat(p=0.5)@3 Compat(p=0.8)@20 Rprec
    Rprec(rel=2) IPrec(recall=0) IPrec(recall=0.3) IPrec(recall=0.5) IPrec(rel=2,recall=1) Bpref Bpref(rel=2) infAP
    infAP(rel=2) RBP(p=0) RBP(p=0.8) RBP(rel=2,p=0.5) nRBP(p=0) nRBP(p=0.8) nRBP(p=0.95) nRBP nRBP(rel=2) LinearDCG
    LinearNDCG PairError PairError(norm=pairs) PairError(norm=max) PairAccuracy Kendall Kendall(weight=difference)
"""
METRICS = {text: of_text(text) for text in TEXTS.split()}
"""Text of the metric to its value of an order."""
