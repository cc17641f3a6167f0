"""Theorems of the other sources, and the check of all: no result decides them, so a change of their code alone does.

Metrics are those of Murphy's book and of the wiki page; linear DCG is Jin and Geng's, over all short lists of ratings;
models of pairs are Li and Wu's: the functions of two items that give an order, and mirror images of pairs. A study
checks theorems in a step of its own, from whose file the claims are decided.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, permutations, product
from pathlib import Path

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor

import rankbound as rb
from rankbound.io.atomic import atomic_path
from rankbound.training.models import MLP
from rankbound_study.claims.thesis_theorems import (
    SAME,
    THEOREMS,
    ByHand,
    Order,
    agree,
    average_precision,
    binary_orders,
    dcg,
    linear_dcg,
    ndcg,
    right_for,
    theorem,
    wrong_pairs,
)
from rankbound_study.claims.verdicts import INCONCLUSIVE, REFUTED, Ruling, counted, holds
from rankbound_study.claims.worked import GRADES, RELEVANCE, values_of_library, worked_table
from rankbound_study.results.study_files import reading


def check() -> dict[str, Ruling]:
    """Return the ruling on each theorem, by its id."""
    return {claim: ruling() for claim, ruling in sorted(THEOREMS.items())}


def write(path: Path, rulings: Mapping[str, Ruling]) -> None:
    """Write rulings as JSON, without what is undefined or empty."""
    # NaN is not itself.
    found = {
        claim: {name: value for name, value in vars(one).items() if (value or value == 0) and value == value}
        for claim, one in rulings.items()
    }
    with atomic_path(path) as temporary:
        # Numbers of NumPy become those of Python.
        text = json.dumps(found, default=np.generic.item, indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(f"{text}\n", "utf-8")


def read(path: Path) -> dict[str, Ruling]:
    """Read the rulings that `python -m rankbound_study theorems` wrote."""
    with reading(path):
        return {claim: Ruling(**fields) for claim, fields in json.loads(path.read_text("utf-8")).items()}


def precision(order: Sequence[int], k: int) -> Fraction:
    """Murphy eq. 9.126."""
    return Fraction(sum(grade > 0 for grade in order[:k]), k)


def kendall(order: Sequence[int], *, by_difference: bool = False) -> Fraction:
    """Murphy eq. 9.130 relative to the order by grades, with pairs of weight 1 or of the difference of their grades."""
    agreement = total = 0
    for above, below in combinations(order, 2):
        weight = abs(above - below) if by_difference else 1
        agreement += weight * (1 + (above > below) - (above < below))
        total += 2 * weight
    return Fraction(agreement, total)


CUTOFF = 5

MURPHY: dict[str, ByHand] = {
    # Eqs. 9.126 to 9.129; the first grade in full, where the discount is log2(i).
    **{f"P@{k}": partial(precision, k=k) for k in range(1, CUTOFF + 1)},
    "AP": average_precision,
    "DCG": dcg,
    "DCG(gain=linear,discount=log2(r))": partial(dcg, linear=True, from_two=True),
    f"DCG@{CUTOFF}": partial(dcg, k=CUTOFF),
    f"DCG(gain=linear,discount=log2(r))@{CUTOFF}": partial(dcg, k=CUTOFF, linear=True, from_two=True),
    "nDCG": ndcg,
    "nDCG(gain=linear,discount=log2(r))": partial(ndcg, linear=True, from_two=True),
}
"""Murphy's metrics: the library's name of each, and its definition."""

WIKI: dict[str, ByHand] = {
    f"CG@{CUTOFF}": lambda order: sum(order[:CUTOFF]),
    "DCG(gain=linear)": partial(dcg, linear=True),
    "nDCG(gain=linear)": partial(ndcg, linear=True),
    "RR": lambda order: Fraction(1, next(rank for rank, grade in enumerate(order, start=1) if grade > 0)),
}
"""The metrics of the wiki page, likewise."""

KENDALL: dict[str, ByHand] = {"Kendall": kendall, "Kendall(weight=difference)": partial(kendall, by_difference=True)}

RANDOM_LISTS = 100
LONGEST, BEST_GRADE = 15, 3  # of the random lists
MOST_PERMUTED = 6  # items for which all orders are compared
FAMILIES = {"pointwise": "squared", "pairwise": "hinge", "listwise": "ListMLE"}
STEPS, RATE = 15, 0.2  # of gradient descent


def _random_orders() -> list[Order]:
    """Return lists of grades from rank 1 down, each with a relevant item; Murphy's examples come first."""
    random = np.random.default_rng(0)
    drawn = [tuple(random.integers(0, BEST_GRADE + 1, random.integers(2, LONGEST + 1)).tolist()) for _ in range(999)]
    return [tuple(GRADES), tuple(RELEVANCE), *[order for order in drawn if any(order)][:RANDOM_LISTS]]


def _agreeing(metrics: Mapping[str, ByHand], orders: Sequence[Order]) -> int:
    """Count the library's values that equal those of the definitions."""
    return sum(agree(values_of_library(rb.metric(text), orders), map(by, orders)) for text, by in metrics.items())


@theorem("M01")
def murphys_metrics_are_as_defined() -> Ruling:
    """Compare the library with the definitions and with scikit-learn, and the printed table with the library."""
    from sklearn.metrics import average_precision_score, ndcg_score  # type: ignore[import-untyped,unused-ignore]

    orders = _random_orders()
    same, cases = _agreeing(MURPHY, orders), len(MURPHY) * len(orders)
    mean_ap = float(sum(map(average_precision, orders)) / len(orders))
    map_agrees = agree([float(values_of_library(rb.metric("AP"), orders).mean())], [mean_ap]) == 1
    ap, ndcg_values = (values_of_library(rb.metric(text), orders) for text in ("AP", "nDCG"))
    both = [(np.array(order), -np.arange(float(len(order)))) for order in orders]
    public = agree(ap, [average_precision_score(grades > 0, scores) for grades, scores in both])
    public += agree(ndcg_values, [ndcg_score([2.0**grades - 1], [scores]) for grades, scores in both])
    of_public = 2 * len(orders)
    table = worked_table("table_murphy_9_3")
    known = table.filter((table["part"] == "9.3") & table["holds"].is_not_null())
    misprints = known.filter(~known["holds"])["printed"].to_list()
    ideal = values_of_library(rb.metric("DCG(gain=linear,discount=log2(r))"), [tuple(sorted(GRADES, reverse=True))])
    facts: dict[str, object] = {"same": same, "of_same": cases, "lists": len(orders), "public": public}
    facts |= {"of_public": of_public, "misprinted": len(misprints), "numbers": len(known)}
    facts |= {"misprints": ", ".join(misprints), "ideal": float(ideal[0])}
    return counted(same + public, cases + of_public, facts, also=map_agrees)


@theorem("M02")
def the_kendall_statistic_compares_pairs() -> Ruling:
    """Compare all orders of short lists with the definition and with scipy's tau, and check both ends."""
    orders = [order for n in range(2, MOST_PERMUTED + 1) for order in permutations(range(n))]
    same = _agreeing(KENDALL, orders)
    of_order = {of: dict(zip(orders, values_of_library(rb.metric(of), orders).tolist(), strict=True)) for of in KENDALL}
    taus = (float(kendalltau(range(len(order), 0, -1), order).statistic) for order in orders)
    tau = agree(of_order["Kendall"].values(), (one / 2 + 0.5 for one in taus))
    rising = [tuple(range(n)) for n in range(2, MOST_PERMUTED + 1)]
    ends = sorted({(round(of[one[::-1]], 9), round(of[one], 9) + 0.0) for of in of_order.values() for one in rising})
    facts: dict[str, object] = {"same": same, "of_same": 2 * len(orders), "most": MOST_PERMUTED, "tau": tau}
    facts |= {"of_tau": len(orders)}
    facts |= {"ends": " or ".join(f"{equal:g} for equal and {reverse:g} for reversed" for equal, reverse in ends)}
    return counted(same + tau, 3 * len(orders), facts, also=ends == [(1.0, 0.0)])


@theorem("W01")
def the_wiki_pages_metrics_and_families() -> Ruling:
    """Compare the metrics and the hinge loss with their definitions, and train with one loss of each family."""
    orders = _random_orders()
    same, cases = _agreeing(WIKI, orders), len(WIKI) * len(orders)
    # Pairs (a, b) with y(a) > y(b), whose loss is max(0, 1 - (f(a) - f(b))).
    scores = np.random.default_rng(1).normal(size=(RANDOM_LISTS, 2))
    pairs = torch.tensor([1, 0] * RANDOM_LISTS), torch.arange(0, 2 * RANDOM_LISTS + 1, 2)
    found = rb.loss("hinge")(torch.from_numpy(scores.ravel()), *pairs)
    hinges = agree(found.tolist(), np.maximum(0, 1 - (scores[:, 0] - scores[:, 1])).tolist())
    before, after = _trained()
    facts: dict[str, object] = {"same": same, "of_same": cases, "hinges": hinges, "pairs": RANDOM_LISTS}
    facts |= {"before": before}
    facts |= {"after": ", ".join(f"{after[family]:.2f} with {loss} ({family})" for family, loss in FAMILIES.items())}
    rises = all(value > before for value in after.values())
    return counted(same + hinges, cases + RANDOM_LISTS, facts, also=rises)


def _trained() -> tuple[float, dict[str, float]]:
    """Return the mean nDCG of a linear model before training, and after training with a loss of each family."""
    generator = torch.Generator().manual_seed(0)
    n_lists, n_items, n_features = 20, 10, 5
    features = _random(n_lists * n_items, n_features, generator=generator)
    planted, start = _random(2, n_features, generator=generator)
    offsets = torch.arange(0, n_lists * n_items + 1, n_items)
    places = (features @ planted).view(n_lists, n_items).argsort(dim=1).argsort(dim=1)
    relevance = (places // 3).clamp(max=BEST_GRADE).flatten()

    def mean_ndcg(weights: torch.Tensor) -> float:
        return float(rb.metric("nDCG")(features @ weights, relevance, offsets).mean())

    after = {}
    for family, text in FAMILIES.items():
        loss, weights = rb.loss(text), start.clone().requires_grad_()
        for _ in range(STEPS):
            (slope,) = torch.autograd.grad(loss(features @ weights, relevance, offsets).mean(), weights)
            weights = (weights - RATE * slope).detach().requires_grad_()
        after[family] = mean_ndcg(weights.detach())
    return mean_ndcg(start), after


def _random(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


MOST_OF_TWO = 8  # items of the longest lists of two ratings
TWO_RATINGS = [(n, m) for n in range(2, MOST_OF_TWO + 1) for m in range(1, n)]  # m items with the better rating
MOST_RATED, RATINGS = 6, (2, 3, 4)  # items of the longest lists of more ratings, and the numbers of ratings
TIED_LISTS = 200


@theorem("L01")
def few_exchanges_lead_to_any_order() -> Ruling:
    """Find the fewest exchanges to every order, each of which costs at least 1, by breadth-first search."""
    within = []
    for n, m in TWO_RATINGS:
        fewest = fewest_exchanges((1,) * m + (0,) * (n - m))
        within += [fewest.get(order, n) <= min(m, n - m) for order in binary_orders(n, m)]
    return counted(sum(within), len(within), {"most": MOST_OF_TWO})


def fewest_exchanges(ideal: Order) -> dict[Order, int]:
    """Return the fewest exchanges of two items, each lowering the linear DCG by at least 1, by reachable order."""
    fewest = front = {ideal: 0}
    while front:
        before, front = front, {}
        for order, (i, j) in product(before, combinations(range(len(ideal)), 2)):
            after = (*order[:i], order[j], *order[i + 1 : j], order[i], *order[j + 1 :])
            if after not in fewest and linear_dcg(order) - linear_dcg(after) >= 1:
                front[after] = fewest[order] + 1
        fewest = fewest | front
    return fewest


@theorem("L02")
def the_error_counts_wrong_pairs() -> Ruling:
    """Compare DCG errors, weighted wrong pairs and sums of two-rating errors, for all short and random tied lists."""
    orders = [order for of in RATINGS for n in range(1, MOST_RATED + 1) for order in product(range(of), repeat=n)]
    errors = [_dcg_error(order) for order in orders]
    pairs = agree(map(wrong_pairs, orders), errors)
    two_ratings = (sum(wrong_pairs([int(rating >= k) for rating in order]) for k in range(1, 4)) for order in orders)
    sums = agree(two_ratings, errors)
    # The library's errors are undefined where nothing is relevant.
    library = agree(np.nan_to_num(values_of_library(rb.metric("PairError"), orders)).tolist(), errors)
    # Tied lists whose mean DCG error over all tie-breaks is R(f), without and with half of the ties.
    random = np.random.default_rng(0)
    strict = halved = 0
    for _ in range(TIED_LISTS):
        size = random.integers(2, 7)
        scores, ratings = random.integers(0, 3, size).tolist(), random.integers(0, 4, size).tolist()
        wrong = tied = 0.0
        for i, j in product(range(size), repeat=2):
            above = max(0, ratings[i] - ratings[j])
            wrong += above * (scores[i] < scores[j])
            tied += above * (scores[i] == scores[j])
        tie_breaks = (
            items for items in permutations(range(size)) if all(scores[a] >= scores[b] for a, b in pairwise(items))
        )
        errors_of_ties = [_dcg_error(tuple(ratings[item] for item in items)) for items in tie_breaks]
        error = sum(errors_of_ties) / len(errors_of_ties)
        strict += agree([wrong], [error])
        halved += agree([wrong + tied / 2], [error])
    facts = {"most": MOST_RATED, "pairs": pairs, "sums": sums, "tied": TIED_LISTS, "strict": strict, "halved": halved}
    return counted(min(pairs, sums, library), len(orders), facts)


def _dcg_error(order: Order) -> int:
    return linear_dcg(sorted(order, reverse=True)) - linear_dcg(order)


@theorem("L03")
def the_ideal_dcg_of_two_ratings_has_a_formula() -> Ruling:
    """Compare the formula and the library's largest value with all orders."""
    formula, library = (
        right_for("LinearDCG", max, of, TWO_RATINGS)
        for of in (lambda n, m: m * (n - m) + m * (m - 1) / 2, lambda n, m: rb.maximum("LinearDCG", n, m))
    )
    return counted(formula, len(TWO_RATINGS), {"most": MOST_OF_TWO}, also=library == len(TWO_RATINGS))


FEATURES, HIDDEN = 5, (16,)
TRIPLES = 200_000  # of random items, for transitivity
POINTS = 100  # differences at which a function's gradient is taken
NETWORKS, ITEMS = 50, 30  # random networks, and the items whose pairs each scores
PAIRS = 40
LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "RankNet": torch.sigmoid,
    "DirectRanker": lambda difference: torch.sigmoid(torch.tanh(difference)),
}
"""F of Li and Wu's eq. 1: the probability that the first item wins, given the difference of the scores."""


COUNTER_EXAMPLE = "tanh(w·d (1 + (v·d)²))"


def counter_example(d: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """A second network: a function of the differences d of features."""
    return torch.tanh(d @ w * (1 + (d @ v) ** 2))


@theorem("N04")
def direct_ranker_can_only_be_ranknet() -> Ruling:
    """Decide by whether the counter-example is odd, transitive and not a function of one linear score of d."""
    generator = torch.Generator().manual_seed(0)
    w, v = _random(2, FEATURES, generator=generator)
    a, b, c = _random(3, TRIPLES, FEATURES, generator=generator)
    first, second, third = (counter_example(difference, w, v) for difference in (a - b, b - c, a - c))
    odd = bool(torch.equal(counter_example(b - a, w, v), -first))
    chains = (first > 0) & (second > 0)
    broken = int((chains & (third <= 0)).sum())
    # The rank of the gradients at many points is 1 for any function of one linear score.
    points = (0.1 * _random(POINTS, FEATURES, generator=generator)).requires_grad_()
    (slopes,) = torch.autograd.grad(counter_example(points, w, v).sum(), points)
    directions = int(torch.linalg.matrix_rank(slopes, rtol=1e-6))
    facts: dict[str, object] = {"formula": COUNTER_EXAMPLE, "odd": "" if odd else "not ", "broken": broken}
    facts |= {"chains": int(chains.sum()), "directions": directions}
    facts |= {"as_scored": int(((first > 0) == ((a - b) @ w > 0)).sum()), "triples": TRIPLES}
    refuted = odd and broken == 0 and directions > 1
    return Ruling(REFUTED if refuted else INCONCLUSIVE, facts, directions, n=TRIPLES)


@theorem("N05")
def a_network_of_the_joined_pair_is_not_transitive() -> Ruling:
    """Test random networks of both items' features, and random differences of two scores."""
    generator = torch.Generator().manual_seed(0)
    joined = sum(intransitive(_of_joined_pairs(generator))[1] for _ in range(NETWORKS))
    differences = [_of_differences(generator) for _ in range(NETWORKS)]
    lawful = sum(
        bool((chances.diagonal() == 0.5).all() and ((chances + chances.T - 1).abs() <= SAME).all())
        and not intransitive(chances)[0]
        for chances in differences
    )
    facts = {"joined": joined, "networks": NETWORKS, "items": ITEMS, "lawful": lawful}
    held = holds(joined > NETWORKS / 2 and lawful == NETWORKS)
    return Ruling(held, facts, joined / NETWORKS, n=2 * NETWORKS)


@torch.no_grad()
def _of_joined_pairs(generator: torch.Generator) -> Tensor:
    """Return the probability that each item beats each other one, by a network of both items' features."""
    network = MLP(2 * FEATURES, HIDDEN, "tanh", generator).double()
    items = _random(ITEMS, FEATURES, generator=generator)
    pairs = torch.cat([items.repeat_interleave(ITEMS, 0), items.repeat(ITEMS, 1)], dim=1)
    return torch.sigmoid(network(pairs)).view(ITEMS, ITEMS)


@torch.no_grad()
def _of_differences(generator: torch.Generator) -> Tensor:
    """Return the same probabilities by the difference of the items' scores."""
    network = MLP(FEATURES, HIDDEN, "tanh", generator).double()
    scores = network(_random(ITEMS, FEATURES, generator=generator))
    return torch.sigmoid(scores[:, None] - scores)


def intransitive(chances: Tensor) -> tuple[bool, bool]:
    """Check for items of which a beats b and b beats c, but a does not beat c; and for those of which c beats a."""
    itself = torch.eye(len(chances), dtype=torch.bool)
    wins = (chances > 0.5) & ~itself
    broken = ((wins.double() @ wins.double()) > 0) & ~wins & ~itself
    return bool(broken.any()), bool((broken & wins.T).any())


@theorem("N16")
def the_mirror_image_says_nothing_new() -> Ruling:
    """Compare loss and gradient of pairs and of their mirror images, without and with a bias for the first item.

    Each pair has a random network of its own.
    """
    agreeing = {0.0: 0, 0.5: 0}
    for bias, link in product(agreeing, LINKS.values()):
        generator = torch.Generator().manual_seed(0)
        for _ in range(PAIRS):
            network = MLP(FEATURES, HIDDEN, "tanh", generator).double()
            items = _random(2, FEATURES, generator=generator)
            of_both = []
            for pair, won in ((items, 1), (items.flip(0), -1)):
                # Li and Wu's eq. 2, with corrected sign; `won` is 1 if the first item won, else -1.
                first, second = network(pair)
                chance = link(first - second + bias)
                loss = -((1 + won) / 2 * chance.log() + (1 - won) / 2 * (1 - chance).log())
                slopes = torch.autograd.grad(loss, list(network.parameters()))
                of_both.append(torch.cat([loss.detach().reshape(1), *(slope.flatten() for slope in slopes)]))
            agreeing[bias] += torch.allclose(of_both[0], of_both[1], rtol=0, atol=SAME)
    facts: dict[str, object] = {"links": " and ".join(LINKS), "biased": agreeing[0.5]}
    return counted(agreeing[0.0], len(LINKS) * PAIRS, facts)
