"""The losses written out in plain Python, list by list: what the library is checked against.

Nothing here comes from rankbound. A function takes the scores and grades of one list, and the scores that its ranks
come from: those are the same scores, except in differences, which must not pass through the weights of a loss that
treats them as constants.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import permutations, product

Scores = Sequence[float]
Grades = Sequence[int]
Arithmetic = Callable[[Scores, Grades, Scores], float]


def squared(gain: str = "linear", reduction: str = "mean") -> Arithmetic:
    return of_items(lambda score, grade: (score - worth(gain, grade)) ** 2, reduction)


def logistic(rel: int = 1, reduction: str = "mean") -> Arithmetic:
    return of_items(lambda score, grade: softplus(-score if grade >= rel else score), reduction)


def ordinal(grades: int = 3, reduction: str = "mean") -> Arithmetic:
    thresholds = [grade - 0.5 for grade in range(1, grades)]
    return of_items(
        lambda score, grade: math.fsum(softplus(score - t if grade < t else t - score) for t in thresholds), reduction
    )


def of_items(loss: Callable[[float, int], float], reduction: str) -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        losses = [loss(score, grade) for score, grade in zip(scores, grades, strict=True)]
        return math.fsum(losses) / (max(len(losses), 1) if reduction == "mean" else 1)

    return value


def rank_errors(temperature: float = 1.0) -> Arithmetic:
    """Over all items; those of one grade share the mean of their ranks."""

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        total = 0.0
        for score, grade in zip(scores, grades, strict=True):
            smooth = 0.5 + math.fsum(1 / (1 + math.exp(min((score - s) / temperature, 700))) for s in scores)
            rank = sum(g > grade for g in grades) + (sum(g == grade for g in grades) + 1) / 2
            total += (smooth - rank) ** 2 / math.log2(rank + 1)
        return total / len(grades) if len(set(grades)) > 1 else 0.0

    return value


def list_net(k: int = 1) -> Arithmetic:
    """Over all ways to fill the first k ranks."""

    def log_chance(values: Sequence[float], first: Sequence[int]) -> float:
        left = set(range(len(values)))
        total = 0.0
        for item in first:
            total += values[item] - log_sum_exp(values[other] for other in left)
            left.remove(item)
        return total

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        tops = permutations(range(len(scores)), min(k, len(scores)))
        return math.fsum(-math.exp(log_chance(grades, top)) * log_chance(scores, top) for top in tops)

    return if_some_relevant(value)


def list_mle(k: int | None = None) -> Arithmetic:
    """Every item against those of its grade and below, times the share of its grade's ranks up to k."""

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        ranked = sorted(grades, reverse=True)
        total = 0.0
        for score, grade in zip(scores, grades, strict=True):
            left = log_sum_exp(other for other, its in zip(scores, grades, strict=True) if its <= grade)
            ranks = [rank for rank, its in enumerate(ranked, start=1) if its == grade]
            total += (left - score) * sum(rank <= (k or math.inf) for rank in ranks) / len(ranks)
        return total

    return if_some_relevant(value)


def softmax(gain: str = "linear") -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        gains, total = [worth(gain, grade) for grade in grades], log_sum_exp(scores)
        return math.fsum(g / sum(gains) * (total - score) for g, score in zip(gains, scores, strict=True))

    return if_some_relevant(value)


def xe_ndcg(gamma: float = 0.5) -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        shares, total = [2.0**grade - gamma for grade in grades], log_sum_exp(scores)
        return math.fsum(g / math.fsum(shares) * (total - score) for g, score in zip(shares, scores, strict=True))

    return if_some_relevant(value)


def multinomial(rel: int = 1) -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        return log_sum_exp(scores) - scores[next(i for i, grade in enumerate(grades) if grade >= rel)]

    return if_some_relevant(value, rel)


Discount = Callable[[int], float]
"""The weight of a rank."""

SWAPPED: dict[str, tuple[Callable[[int], float], Discount, bool]] = {
    "nDCG": (lambda y: 2**y - 1, lambda r: 1 / math.log2(r + 1), True),
    "nDCG@3": (lambda y: 2**y - 1, lambda r: (r <= 3) / math.log2(r + 1), True),
    "nDCG(gain=linear)@2": (float, lambda r: (r <= 2) / math.log2(r + 1), True),
    "DCG(discount=log2(r))": (lambda y: 2**y - 1, lambda r: 1 / max(1.0, math.log2(r)), False),
    "RBP(p=0.8)": (lambda y: y >= 1, lambda r: 0.2 * 0.8 ** (r - 1), False),
    "nRBP(p=0.5)": (lambda y: y >= 1, lambda r: 0.5**r, True),
    "P(rel=2)@2": (lambda y: y >= 2, lambda r: (r <= 2) / 2, False),
}
"""Text of a metric: the gain of a grade, the discount of a rank, and whether the ideal order's value divides it."""


def lambda_loss(metric: str = "nDCG", scheme: str = "lambdarank", mu: float = 10, temperature: float = 1) -> Arithmetic:
    """The mean over all orders that breaking the ties gives."""
    gain, discount, normalised = SWAPPED[metric]

    def weight(gains: Sequence[float], i: int, j: int, rank: Sequence[int]) -> float:
        if scheme == "ndcg-loss1":
            return gains[i] * discount(rank[i])
        if gains[i] <= gains[j]:
            return 0.0
        apart = abs(rank[i] - rank[j])
        swapped = abs(discount(rank[i]) - discount(rank[j]))
        delta = abs(discount(apart) - discount(apart + 1))
        factor = {"lambdarank": swapped, "ndcg-loss2": delta, "ndcg-loss2++": swapped + mu * delta}[scheme]
        return (gains[i] - gains[j]) * factor

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        ideal = math.fsum(gain(y) * discount(r) for r, y in enumerate(sorted(grades, reverse=True), start=1))
        if not ideal:
            return 0.0
        gains = [gain(y) / (ideal if normalised else 1) for y in grades]
        totals = [
            math.fsum(
                weight(gains, i, j, rank) * softplus((scores[j] - scores[i]) / temperature)
                for i, j in permutations(range(len(scores)), 2)
            )
            for rank in ranks_of(at)
        ]
        return math.fsum(totals) / len(totals)

    return value


def rank_chances(metric: str, matrix: Callable[[Scores], list[list[float]]]) -> Arithmetic:
    """The negative expectation of a metric, from the chances of ranks (rows) for items (columns)."""
    gain, discount, normalised = SWAPPED[metric]

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        ideal = math.fsum(gain(y) * discount(r) for r, y in enumerate(sorted(grades, reverse=True), start=1))
        if not any(map(gain, grades)):
            return 0.0
        chances = matrix(scores)
        terms = (
            discount(r) * chance * gain(y)
            for r, row in enumerate(chances, start=1)
            for chance, y in zip(row, grades, strict=True)
        )
        return -math.fsum(terms) / (ideal if normalised else 1)

    return value


def rank_binomial(deviation: float = 1.0) -> Callable[[Scores], list[list[float]]]:
    """SoftRank's recursion: the other items come one by one, and each is above by a chance of its own."""

    def matrix(scores: Scores) -> list[list[float]]:
        columns = []
        for i, own in enumerate(scores):
            known = [1.0]
            for j, score in enumerate(scores):
                if j != i:
                    above = math.erfc((own - score) / (2 * deviation)) / 2
                    longer = zip([*known, 0.0], [0.0, *known], strict=True)
                    known = [stays * (1 - above) + falls * above for stays, falls in longer]
            columns.append(known)
        return [list(row) for row in zip(*columns, strict=True)]

    return matrix


def neural_sort(temperature: float = 1.0, scalings: int = 0) -> Callable[[Scores], list[list[float]]]:
    """The softmax of each row, then columns and rows divided by their totals, again and again."""

    def matrix(scores: Scores) -> list[list[float]]:
        n, rows = len(scores), []
        for rank in range(1, n + 1):
            logits = [((n + 1 - 2 * rank) * s - math.fsum(abs(s - t) for t in scores)) / temperature for s in scores]
            total = log_sum_exp(logits)
            rows.append([math.exp(logit - total) for logit in logits])
        for _ in range(scalings):
            totals = [math.fsum(column) for column in zip(*rows, strict=True)]
            if max(abs(total - 1) for total in totals) <= 1e-6:
                break
            rows = [[cell / max(total, 1e-10) for cell, total in zip(row, totals, strict=True)] for row in rows]
            rows = [[cell / math.fsum(row) for cell in row] for row in rows]
        return rows

    return matrix


def rank_cosine(gain: str = "linear") -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        gains = [worth(gain, grade) for grade in grades]
        lengths = math.hypot(*scores) * math.hypot(*gains)
        product = math.fsum(score * g for score, g in zip(scores, gains, strict=True))
        return (1 - (product / lengths if lengths else 0.0)) / 2

    return if_some_relevant(value)


def tfmap(rel: int = 1) -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        own = [score for score, grade in zip(scores, grades, strict=True) if grade >= rel]
        return -math.fsum(logistic_of(s) * math.fsum(logistic_of(t - s) for t in own) for s in own) / len(own)

    return if_some_relevant(value, rel)


def climf(rel: int = 1) -> Arithmetic:
    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        own = [score for score, grade in zip(scores, grades, strict=True) if grade >= rel]
        return math.fsum(softplus(-s) + math.fsum(softplus(t - s) for t in own) for s in own)

    return if_some_relevant(value, rel)


def ranks_of(scores: Scores) -> Iterator[list[int]]:
    """The ranks of the items in each of the orders that breaking ties gives."""
    levels = sorted(set(scores), reverse=True)
    blocks = [[item for item, score in enumerate(scores) if score == level] for level in levels]
    for parts in product(*(permutations(block) for block in blocks)):
        order = sum(parts, ())
        yield [order.index(item) + 1 for item in range(len(scores))]


def pair_loss(link: Callable[[float], float], reduction: str = "mean", weight: str = "uniform") -> Arithmetic:
    """Over all pairs of different grades, of the winner's score less the loser's."""

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        pairs = [(i, j) for i, j in permutations(range(len(scores)), 2) if grades[i] > grades[j]]
        weights = [grades[i] - grades[j] if weight == "difference" else 1 for i, j in pairs]
        total = math.fsum(w * link(scores[i] - scores[j]) for w, (i, j) in zip(weights, pairs, strict=True))
        return total / (max(len(pairs), 1) if reduction == "mean" else 1)

    return value


def hinge(margin: float = 1.0) -> Callable[[float], float]:
    return lambda gap: max(0.0, margin - gap)


def ranknet(temperature: float = 1.0) -> Callable[[float], float]:
    return lambda gap: softplus(-gap / temperature)


def direct_ranker(temperature: float = 1.0) -> Callable[[float], float]:
    return lambda gap: softplus(-math.tanh(gap / temperature))


def warp(alpha: str = "harmonic", k: int | None = None, margin: float = 1.0, rel: int = 1) -> Arithmetic:
    """The mean over the relevant items of L(r) times the mean hinge of the r violators, L at the ranks of `at`."""

    def value(scores: Scores, grades: Grades, at: Scores) -> float:
        relevant = [item for item, grade in enumerate(grades) if grade >= rel]
        others = [item for item, grade in enumerate(grades) if grade < rel]
        total = 0.0
        for item in relevant:
            violators = [other for other in others if at[other] > at[item] - margin]
            alphas = [1 / j if alpha == "harmonic" else 1 for j in range(1, len(violators) + 1)][:k]
            hinges = math.fsum(margin - scores[item] + scores[other] for other in violators)
            total += math.fsum(alphas) * hinges / max(len(violators), 1)
        return total / max(len(relevant), 1)

    return value


def of_link(link: Callable[..., Callable[[float], float]]) -> Callable[..., Arithmetic]:
    return lambda reduction="mean", weight="uniform", **own: pair_loss(link(**own), reduction, weight)


def of_ranks(matrix: Callable[..., Callable[[Scores], list[list[float]]]]) -> Callable[..., Arithmetic]:
    return lambda metric="nDCG", **own: rank_chances(metric, matrix(**own))


def if_some_relevant(value: Arithmetic, rel: int = 1) -> Arithmetic:
    """0 for a list without relevant items."""
    return lambda scores, grades, at: value(scores, grades, at) if max(grades, default=0) >= rel else 0.0


def worth(gain: str, grade: int) -> float:
    return 2.0**grade - 1 if gain == "exp2" else float(grade)


def logistic_of(x: float) -> float:
    return math.exp(-softplus(-x))


def softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def log_sum_exp(values: Iterable[float]) -> float:
    known = list(values)
    top = max(known)
    return top + math.log(math.fsum(math.exp(value - top) for value in known))


KINDS: dict[str, Callable[..., Arithmetic]] = {
    "squared": squared,
    "logistic": logistic,
    "ordinal": ordinal,
    "ADR-MSE": rank_errors,
    "RankNet": of_link(ranknet),
    "DirectRanker": of_link(direct_ranker),
    "hinge": of_link(hinge),
    "WARP": warp,
    "ListNet": list_net,
    "ListMLE": list_mle,
    "softmax": softmax,
    "XE-NDCG": xe_ndcg,
    "multinomial": multinomial,
    "LambdaRank": lambda_loss,
    "LambdaLoss": partial(lambda_loss, scheme="ndcg-loss2++"),
    "RankCosine": rank_cosine,
    "TFMAP": tfmap,
    "CLiMF": climf,
    "SoftRank": of_ranks(rank_binomial),
    "PiRank": of_ranks(neural_sort),
    "NeuralNDCG": of_ranks(partial(neural_sort, scalings=50)),
}
"""Name of a loss to the function that has its parameters."""

TEXTS = """
    squared squared(gain=exp2,reduction=sum) logistic logistic(rel=2,reduction=sum)
    ordinal ordinal(grades=5,reduction=sum) ordinal(grades=5,learn=true)
    ADR-MSE ADR-MSE(temperature=0.5) ADR-MSE(method=interpolated)
    RankNet RankNet(reduction=sum,weight=difference) RankNet(weight=difference,temperature=0.5)
    RankNet(method=interpolated) RankNet(temperature=0.25,method=interpolated)
    DirectRanker DirectRanker(temperature=2,method=interpolated) DirectRanker(method=interpolated)
    DirectRanker(reduction=sum,weight=difference) hinge hinge(margin=2,reduction=sum,weight=difference)
    WARP WARP(alpha=constant)@1 WARP@2 WARP(margin=0.5) WARP(margin=0.5,rel=2)@2
    ListNet@1 ListNet@2 ListNet@9 ListMLE ListMLE@2 softmax softmax(gain=exp2) XE-NDCG XE-NDCG(gamma=0.25)
    multinomial multinomial(rel=2) LambdaRank LambdaRank(temperature=0.5)
    LambdaLoss LambdaLoss(mu=2.5) LambdaLoss(metric=RBP(p=0.8),temperature=2) LambdaLoss(scheme=lambdarank)
    LambdaLoss(scheme=ndcg-loss1) LambdaLoss(metric=nDCG@3,scheme=ndcg-loss1)
    LambdaLoss(scheme=ndcg-loss2) LambdaLoss(metric=nDCG@3,scheme=ndcg-loss2)
    RankCosine RankCosine(gain=exp2) TFMAP TFMAP(rel=2) CLiMF CLiMF(rel=2)
    SoftRank SoftRank(deviation=0.5) PiRank PiRank(temperature=3) NeuralNDCG NeuralNDCG(temperature=3)
"""
"""The losses, with the parameters that are tried."""

WITHOUT_CURVATURE = (
    "ADR-MSE",
    "ListNet@2",
    "ListNet@9",
    "RankCosine",
    "TFMAP",
    "CLiMF",
    "SoftRank",
    "PiRank",
    "NeuralNDCG",
)
"""Losses whose Hessian's diagonal has no closed form."""
