"""Claims that are definitions: the metrics of Murphy's book and of the wiki page, and the three families of losses."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations

import numpy as np
import torch
from scipy.stats import kendalltau

import rankbound as rb
from rankbound_study.claims import by_hand
from rankbound_study.claims.all_orders import Value, agree, values_of_library
from rankbound_study.claims.by_hand import Order
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdict import Verdict, counted
from rankbound_study.claims.worked import GRADES, RELEVANCE, worked_table

RANDOM_LISTS = 100
LONGEST, BEST_GRADE = 15, 3
"""Longest of the random lists, and its highest grade."""

CUTOFF = 5

MOST_PERMUTED = 6
"""Largest number of items for which all orders are compared."""

FAMILIES = {"pointwise": "squared", "pairwise": "hinge", "listwise": "ListMLE"}
"""One loss of each family."""

STEPS, RATE = 15, 0.2
"""Steps and learning rate of gradient descent."""

ByHand = Callable[[Order], Value]


def _relative(dcg: ByHand) -> ByHand:
    """Return a DCG relative to that of the ideal order."""
    return lambda order: float(dcg(order)) / float(dcg(_ideal(order)))


def _ideal(order: Order) -> Order:
    return tuple(sorted(order, reverse=True))


MURPHY: dict[str, ByHand] = {
    **{f"P@{k}": partial(by_hand.precision, k=k) for k in range(1, CUTOFF + 1)},
    "AP": by_hand.average_precision,
    "DCG": by_hand.dcg,
    "DCG(gain=linear,discount=log2(r))": by_hand.dcg_from_rank_two,
    f"DCG@{CUTOFF}": partial(by_hand.dcg, k=CUTOFF),
    f"DCG(gain=linear,discount=log2(r))@{CUTOFF}": partial(by_hand.dcg_from_rank_two, k=CUTOFF),
    "nDCG": by_hand.ndcg,
    "nDCG(gain=linear,discount=log2(r))": _relative(by_hand.dcg_from_rank_two),
}
"""Murphy's metrics: the library's name of each, and its definition."""

WIKI: dict[str, ByHand] = {
    f"CG@{CUTOFF}": partial(by_hand.cumulative_gain, k=CUTOFF),
    "DCG(gain=linear)": by_hand.dcg_of_grades,
    "nDCG(gain=linear)": _relative(by_hand.dcg_of_grades),
    "RR": by_hand.reciprocal_rank,
}
"""The metrics of the wiki page, likewise."""


def _random_orders() -> list[Order]:
    """Return lists of grades from rank 1 down, each with a relevant item; Murphy's examples come first."""
    random = np.random.default_rng(0)
    drawn = [tuple(random.integers(0, BEST_GRADE + 1, random.integers(2, LONGEST + 1)).tolist()) for _ in range(999)]
    return [tuple(GRADES), tuple(RELEVANCE), *[order for order in drawn if any(order)][:RANDOM_LISTS]]


def _agreeing(metrics: dict[str, ByHand], orders: Sequence[Order]) -> int:
    """Count the library's values that equal those of the definitions."""
    return sum(
        agree(values_of_library(rb.metric(text), orders).tolist(), map(by, orders)) for text, by in metrics.items()
    )


@decides("M01")
def murphys_metrics_are_as_defined(evidence: Evidence) -> Verdict:
    """Compare the library with the definitions and with scikit-learn, and the printed table with the library."""
    orders = _random_orders()
    same, cases = _agreeing(MURPHY, orders), len(MURPHY) * len(orders)
    mean_ap = sum(map(by_hand.average_precision, orders)) / len(orders)
    map_agrees = agree([float(values_of_library(rb.metric("AP"), orders).mean())], [mean_ap]) == 1
    public, of_public = _agreeing_with_scikit_learn(orders)
    table = worked_table("table_murphy_9_3")
    ideal = float(values_of_library(rb.metric("DCG(gain=linear,discount=log2(r))"), [_ideal(GRADES)])[0])
    known = table.filter((table["part"] == "9.3") & table["holds"].is_not_null())
    misprints = known.filter(~known["holds"])["printed"].to_list()
    return counted(
        same + public,
        cases + of_public,
        f"P@k, AP, both kinds of DCG and nDCG have the defined value in {same} of {cases} cases ({len(orders)} lists), "
        f"MAP is their mean AP, and AP and nDCG equal scikit-learn's in {public} of {of_public}; {len(misprints)} of "
        f"Table 9.3's {len(known)} numbers are misprinted ({', '.join(misprints)}), because its logarithms were "
        f"rounded first, while its ideal DCG of {ideal:.3f} is right.",
        "share of cases that agree",
        "table_murphy_9_3",
        also=map_agrees,
    )


def _agreeing_with_scikit_learn(orders: Sequence[Order]) -> tuple[int, int]:
    """Count the values of AP and nDCG that equal scikit-learn's; return that count and the number of values."""
    from sklearn.metrics import average_precision_score, ndcg_score  # type: ignore[import-untyped,unused-ignore]

    ap, ndcg = (values_of_library(rb.metric(text), orders).tolist() for text in ("AP", "nDCG"))
    scores = [-np.arange(float(len(order))) for order in orders]
    public_ap = [average_precision_score(np.array(order) > 0, row) for order, row in zip(orders, scores, strict=True)]
    public_ndcg = [ndcg_score([2.0 ** np.array(order) - 1], [row]) for order, row in zip(orders, scores, strict=True)]
    return agree(ap, public_ap) + agree(ndcg, public_ndcg), 2 * len(orders)


@decides("M02")
def the_kendall_statistic_compares_pairs(evidence: Evidence) -> Verdict:
    """Compare all orders of short lists with the definition and with scipy's tau, and check both ends."""
    orders = [order for n in range(2, MOST_PERMUTED + 1) for order in permutations(range(n))]
    unit, weighted = (
        values_of_library(rb.metric(text), orders).tolist() for text in ("Kendall", "Kendall(weight=difference)")
    )
    same = agree(unit, map(by_hand.kendall, orders)) + agree(
        weighted, (by_hand.kendall(order, by_difference=True) for order in orders)
    )
    taus = (float(kendalltau(range(len(order), 0, -1), order).statistic) for order in orders)
    tau = agree(unit, (one / 2 + 0.5 for one in taus))
    ends = sorted({found for values in (unit, weighted) for found in _ends(values, orders)})
    at_ends = " or ".join(f"{equal:g} for equal and {reverse:g} for reversed" for equal, reverse in ends)
    return counted(
        same + tau,
        3 * len(orders),
        f"With unit weights and with weights by difference the statistic has the defined value in {same} of "
        f"{2 * len(orders)} cases (all orders of 2 to {MOST_PERMUTED} items), is {at_ends} orders, and "
        f"with unit weights equals (1 + Kendall's tau) / 2 in {tau} of {len(orders)}.",
        "share of cases that agree",
        also=ends == [(1.0, 0.0)],
    )


def _ends(values: Sequence[float], orders: Sequence[Order]) -> list[tuple[float, float]]:
    """Return the values of each length's equal and reversed order."""
    of_order = dict(zip(orders, values, strict=True))
    lengths = sorted({len(order) for order in orders})
    return [(round(of_order[tuple(range(n))[::-1]], 9), round(of_order[tuple(range(n))], 9) + 0.0) for n in lengths]


@decides("W01")
def the_wiki_pages_metrics_and_families(evidence: Evidence) -> Verdict:
    """Compare the metrics and the hinge loss with their definitions, and train with one loss of each family."""
    orders = _random_orders()
    same, cases = _agreeing(WIKI, orders), len(WIKI) * len(orders)
    hinges = _agreeing_hinges()
    before, after = _trained()
    trained = ", ".join(f"{after[family]:.2f} with {loss} ({family})" for family, loss in FAMILIES.items())
    return counted(
        same + hinges,
        cases + RANDOM_LISTS,
        f"CG, DCG, nDCG and reciprocal rank have the defined value in {same} of {cases} cases, the hinge loss in "
        f"{hinges} of {RANDOM_LISTS} random pairs; trained on lists with a planted order, a linear model's nDCG rises "
        f"from {before:.2f} to {trained}.",
        "share of cases that agree",
        also=all(value > before for value in after.values()),
    )


def _agreeing_hinges() -> int:
    """Count the pairs (a, b) with y(a) > y(b) whose loss is max(0, 1 - (f(a) - f(b)))."""
    scores = np.random.default_rng(1).normal(size=(RANDOM_LISTS, 2))
    found = rb.loss("hinge")(
        torch.from_numpy(scores.ravel()),
        torch.tensor([1, 0] * RANDOM_LISTS),
        torch.arange(0, 2 * RANDOM_LISTS + 1, 2),
    )
    return agree(found.tolist(), np.maximum(0, 1 - (scores[:, 0] - scores[:, 1])).tolist())


def _trained() -> tuple[float, dict[str, float]]:
    """Return the mean nDCG of a linear model before training, and after training with a loss of each family."""
    generator = torch.Generator().manual_seed(0)
    n_lists, n_items, n_features = 20, 10, 5
    features = torch.randn(n_lists * n_items, n_features, generator=generator, dtype=torch.float64)
    planted, start = torch.randn(2, n_features, generator=generator, dtype=torch.float64)
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
