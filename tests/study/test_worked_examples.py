"""Every worked example of the sources, by its id, through the public names of the package.

`tests/reference/worked_examples.csv` holds the rows. A row asserts `expected`, which is the right value also where the
printed one is wrong (status printed-wrong). Quantities that nobody has built yet stand in LATER: their rows must fail,
for want of an evaluator, until somebody writes one and takes them out.
"""

import csv
import math
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses.sampled import warp_penalty, warp_rank
from rankbound.losses.softmax import n_top_k_permutations
from rankbound.ranks import Ranks, descending_order, tie_blocks
from rankbound.training.models import MLP
from rankbound_study.models.cnn import RankCNN

REFERENCE = Path(__file__).parents[1] / "reference" / "worked_examples.csv"

Inputs = dict[str, str]
Values = Sequence[float]

LATER: dict[str, str] = {}
"""Quantity to the part of the project that will compute it."""


def inputs_of(text: str) -> Inputs:
    """`quantity=nDCG; gain=exp2; relevance_by_rank=0,1` as a dictionary."""
    return {key: value for key, _, value in (part.partition("=") for part in text.split("; "))}


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def metric_text(name: str, given: Inputs) -> str:
    """The library's text of a metric with the parameters that the row states."""
    if name in ("nRBP_loss", "smooth_nRBP_loss"):
        return "nRBP"
    parameters = []
    if name in ("nDCG", "DCG", "IDCG"):
        discount = {"max(1,log2(r))": "log2(r)"}.get(given.get("discount", ""), given.get("discount", "log2(r+1)"))
        parameters = [f"gain={given.get('gain', 'exp2')}", f"discount={discount}"]
    elif name in ("RBP", "nRBP"):
        parameters = [f"p={given['p']}"]
    cutoff = f"@{given['k']}" if "k" in given else ""
    return str(rb.metric(name.removeprefix("I") + (f"({','.join(parameters)})" if parameters else "") + cutoff))


def of_order(text: str, relevance_by_rank: Sequence[int]) -> float:
    """A metric of one list whose items stand in the given order."""
    n = len(relevance_by_rank)
    values = rb.metric(text)(np.arange(n, 0.0, -1.0), np.array(relevance_by_rank), np.array([0, n]))
    return float(values[0])


def order(given: Inputs) -> list[int]:
    return integers(given["relevance_by_rank"])


def sizes(given: Inputs) -> tuple[int, int]:
    return int(given["N"]), int(given["P"])


def metric_value(given: Inputs) -> Values:
    return [of_order(metric_text(given["quantity"], given), order(given))]


def shares(text: str, relevance_by_rank: Sequence[int]) -> list[float]:
    """The contribution of each rank: the metric of the list in which only its item is relevant."""
    places = range(len(relevance_by_rank))
    return [of_order(text, [y if i == place else 0 for i, y in enumerate(relevance_by_rank)]) for place in places]


def discounts(given: Inputs) -> Values:
    ranks = integers(given["ranks"])
    gains = shares(metric_text("DCG", given), [1] * max(ranks))
    return [1 / gains[rank - 1] for rank in ranks]


def discounted_gains(given: Inputs) -> Values:
    return shares(metric_text("DCG", given), order(given))


def log2_ranks(given: Inputs) -> Values:
    """log2(r) is the discount log2(r + 1) of the rank before."""
    ranks = torch.tensor(numbers(given["ranks"]), dtype=torch.float64)
    metric = rb.metric("DCG")
    return (1 / metric.discount_at(ranks - 1)).tolist()  # type: ignore[attr-defined]


def rbp_weights(given: Inputs) -> Values:
    ranks, p = integers(given["ranks"]), float(given["p"])
    weights = shares(metric_text("RBP", given), [1] * max(ranks))
    return [weights[rank - 1] / (1 - p) for rank in ranks]


def rbp_gains(given: Inputs) -> Values:
    return [share / (1 - float(given["p"])) for share in shares(metric_text("RBP", given), order(given))]


def rbp_gain_sum(given: Inputs) -> Values:
    return [of_order(metric_text("RBP", given), order(given)) / (1 - float(given["p"]))]


def precision_at_relevant(given: Inputs) -> Values:
    return [of_order(f"P@{rank}", order(given)) for rank, relevant in enumerate(order(given), start=1) if relevant]


def precision_sum(given: Inputs) -> Values:
    return [of_order("AP", order(given)) * sum(order(given))]


def precision_at_k(given: Inputs) -> Values:
    return [of_order(f"P@{k}", order(given)) for k in integers(given["k"])]


def ideal_dcg(given: Inputs) -> Values:
    grades = np.array(order(given))
    return [float(rb.extremes(metric_text("IDCG", given), grades, np.array([0, len(grades)]))[1][0])]


def sorted_relevance(given: Inputs) -> Values:
    grades = torch.tensor(order(given))
    return grades[descending_order(grades, Lists(torch.tensor([0, len(grades)])))].tolist()


def mean_discount_rank(given: Inputs) -> Values:
    """One list per query, its only relevant item at the rank given."""
    ranks = integers(given["ranks"])
    relevance = np.array([int(place == rank) for rank in ranks for place in range(1, rank + 1)])
    scores = -np.array([place for rank in ranks for place in range(1, rank + 1)], dtype=float)
    return [float(rb.metric("RR")(scores, relevance, np.cumsum([0, *ranks])).mean())]


def extreme(given: Inputs) -> Values:
    function = {"minimum": rb.minimum, "maximum": rb.maximum, "expectation": rb.expectation}[given["quantity"]]
    return [float(function(metric_text(given["metric"], given), *sizes(given)))]


def first_term(relevance_by_rank: Sequence[int]) -> float:
    """L1, the first sum of eq. 2.12: the loss before P(P - 1)/2 is subtracted."""
    p = sum(relevance_by_rank)
    return of_order("nRBP", relevance_by_rank) + p * (p - 1) / 2


def over_permutations(given: Inputs) -> list[float]:
    """The metric of all N! permutations, duplicates included."""
    n, p = sizes(given)
    value = first_term if given["metric"] == "L1" else lambda each: of_order(metric_text(given["metric"], given), each)
    return [value(each) for each in permutations([1] * p + [0] * (n - p))]


def mean_over_orders(given: Inputs) -> Values:
    return [float(np.mean(over_permutations(given)))]


def sum_over_permutations(given: Inputs) -> Values:
    return [sum(over_permutations(given))]


def of_orders(given: Inputs) -> Values:
    value = first_term if given["quantity"] == "L1_of_orders" else lambda each: of_order("AP", each)
    return [value([int(bit) for bit in bits]) for bits in given["orders"].split("|")]


def n_orders(given: Inputs) -> Values:
    """The ideal order is one of all: its nDCG of 1 has the probability 1 / C(N, P)."""
    return [1 / rb.score_distribution("nDCG", *sizes(given)).probability[-1]]


def n_permutations(given: Inputs) -> Values:
    """N! from the share of the ideal order: P!(N - P)! permutations leave it as it is."""
    n, p = sizes(given)
    return [n_orders(given)[0] * math.factorial(p) * math.factorial(n - p)]


def n_nonzero_per_rank(given: Inputs) -> Values:
    return [float(rb.expectation("P@1", *sizes(given))) * n_permutations(given)[0]]


def gain(given: Inputs) -> Values:
    return [rb.score_distribution(metric_text(given["metric"], given), *sizes(given)).gain(given["count"])]


def cdf_at_smallest(given: Inputs) -> Values:
    name = metric_text(given["metric"], given)
    return [float(rb.score_distribution(name, *sizes(given)).cdf(float(rb.minimum(name, *sizes(given)))))]


def smooth_cdf(given: Inputs) -> Values:
    name = metric_text(given["metric"], given)
    at = {"min": rb.minimum, "max": rb.maximum}[given["at"]](name, *sizes(given))
    return [float(rb.score_distribution(name, *sizes(given)).smooth_cdf(float(at)))]


def best_ranks(given: Inputs) -> tuple[Ranks, torch.Tensor, Lists]:
    """Eq. 2.1 gives all tied items the first rank of their block, and eq. 2.8 counts all relevant ones down to it."""
    scores, relevance = torch.tensor(numbers(given["scores"])), torch.tensor(integers(given["relevance"]))
    lists = Lists(torch.tensor([0, len(scores)]))
    blocks = tie_blocks(scores, lists)
    held = blocks.sum(relevance)
    position, above = torch.zeros(2, len(scores), dtype=torch.float64)
    position[blocks.order] = blocks.first[blocks.block].to(torch.float64)
    above[blocks.order] = (blocks.before(held) + held - 1)[blocks.block]
    return Ranks(position, lists.sizes, (above,)), relevance, lists


def of_best_ranks(given: Inputs) -> Values:
    name = given["quantity"].partition("_")[0]
    return [float(rb.metric(name).of_ranks(*best_ranks(given))[0])]


def scored(given: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = torch.tensor(numbers(given["scores"]), dtype=torch.float64)
    return scores, torch.tensor(integers(given["relevance"])), torch.tensor([0, len(scores)])


def smooth_rank(given: Inputs) -> Values:
    """Both ways to sum, which must agree to be one value."""
    scores = torch.tensor(numbers(given["scores"]), dtype=torch.float64)
    direct, interpolated = (
        rb.smooth_rank(scores, torch.tensor([0, len(scores)]), method=method) for method in ("direct", "interpolated")
    )
    torch.testing.assert_close(interpolated, direct, rtol=1e-7, atol=0)
    return direct.tolist()


def smooth_value(given: Inputs) -> Values:
    return bounded_smooth({"bound": "none", "metric": given["quantity"].removeprefix("smooth_")} | given)


def bounded_smooth(given: Inputs) -> Values:
    """The bounded value of smooth ranks: the loss, with the sign of the metric."""
    loss = rb.SmoothLoss(metric_text(given["metric"], given), given["bound"])
    sign = -1 if loss.metric.higher_is_better else 1
    return [sign * float(loss(*scored(given))[0])]


def bounded(given: Inputs) -> Values:
    """Called as a metric, and from the metric's value and the list's size."""
    name, relevance = metric_text(given["metric"], given), order(given)
    n, p = len(relevance), sum(relevance)
    bounded_metric = rb.bounded(name, given["bound"])
    called = bounded_metric(np.arange(n, 0.0, -1.0), np.array(relevance), np.array([0, n]))
    from_value = bounded_metric.from_value(of_order(name, relevance), n, p)
    assert float(called[0]) == pytest.approx(float(from_value), abs=1e-12)
    return [float(from_value)]


def pair_loss(text: str, difference: float) -> float:
    """A pair loss of two items, the better one first, whose scores differ by so much."""
    scores = torch.tensor([difference, 0.0], dtype=torch.float64)
    return float(rb.loss(text)(scores, torch.tensor([1, 0]), torch.tensor([0, 2])))


def hinge(given: Inputs) -> Values:
    return [pair_loss("hinge", float(given["f_a"]) - float(given["f_b"]))]


def pair_probability(given: Inputs) -> Values:
    """The probability whose negative logarithm is the cross-entropy of a pair."""
    name = "RankNet" if given["quantity"] == "sigmoid" else "DirectRanker"
    return [math.exp(-pair_loss(name, float(given.get("x", given.get("difference", "")))))]


def nsr1_identity(given: Inputs) -> Values:
    return [float(2 * rb.expectation("nDCG", *sizes(given)) - 1 - rb.minimum("nDCG", *sizes(given)))]


def kendall(given: Inputs) -> Values:
    assert given["weights"] == "1"
    positions, reference = (np.array(integers(given[key])) for key in ("pi", "reference"))
    return [float(rb.metric("Kendall")(positions, reference, np.array([0, len(positions)]))[0])]


def ratings(given: Inputs) -> list[int]:
    return integers(given["ratings_by_rank"])


def ideal_linear_dcg(given: Inputs) -> Values:
    m, n = int(given["m"]), int(given["n"])
    return [float(rb.maximum("LinearDCG", m + n, m))]


def mean_dcg_error(given: Inputs) -> Values:
    """The ideal order's DCG less the mean over tie-breaks, which is the pair error with ties half."""
    scores, grades = np.array(numbers(given["scores"])), np.array(integers(given["ratings"]))
    offsets = np.array([0, len(scores)])
    error = rb.extremes("LinearDCG", grades, offsets)[1] - rb.metric("LinearDCG")(scores, grades, offsets)
    np.testing.assert_allclose(rb.metric("PairError")(scores, grades, offsets), error, rtol=1e-12)
    return error.tolist()


def strict_pair_accuracy(given: Inputs) -> Values:
    """A list per pair, its first item the better one; Li and Wu counts a tie, half right here, as wrong."""
    chances = np.array(numbers(given["p"]))
    scores = np.stack([np.log(chances / (1 - chances)), np.zeros(len(chances))], 1).ravel()
    right = rb.metric("PairAccuracy")(scores, np.tile([1, 0], len(chances)), np.arange(0, len(scores) + 1, 2))
    return [float((right == 1).mean())]


def binarised(given: Inputs) -> Values:
    """The labels that a metric with that threshold counts as relevant."""
    return rb.metric(f"P(rel={given['threshold']})@1").relevant(torch.tensor(integers(given["labels"]))).tolist()


def n_parameters(given: Inputs) -> Values:
    widths = integers(given["layers"])
    assert widths[-1] == 1
    with torch.device("meta"):  # counts the parameters without their memory
        network = MLP(n_features=widths[0], hidden=tuple(widths[1:-1]))
    return [sum(parameter.numel() for parameter in network.parameters())]


def image_features(given: Inputs) -> Values:
    channels, height, width = integers(given["factors"])
    assert height == width
    with torch.device("meta"):
        return [RankCNN(side=height, channels=(channels, 6, 16)).n_features]


def cnn_flat(given: Inputs) -> Values:
    channels = (3, *[int(given["channels"])] * int(given["layers"]))
    with torch.device("meta"):
        return [RankCNN(side=int(given["side"]), channels=channels, kernel=int(given["kernel"])).n_flat]


def cnn_n_parameters(given: Inputs) -> Values:
    (before, middle, kernel), (same, after, other) = (integers(layer) for layer in given["conv"].split("|"))
    flat, *hidden, last = integers(given["layers"])
    assert (same, other, last) == (middle, kernel, 1)
    with torch.device("meta"):
        network = RankCNN(channels=(before, middle, after), kernel=kernel, hidden=hidden)
    assert network.n_flat == flat
    return [sum(parameter.numel() for parameter in network.parameters())]


def softmax(given: Inputs) -> Values:
    """The chance of each item from the loss of a list in which it is the relevant one."""
    scores = torch.tensor(numbers(given["scores"]), dtype=torch.float64)
    loss, n = rb.loss("multinomial"), len(scores)
    one_each = torch.eye(n).flatten()
    return torch.exp(-loss(scores.repeat(n), one_each, torch.arange(0, n * n + 1, n))).tolist()


EVALUATORS: dict[str, Callable[[Inputs], Values]] = {
    **dict.fromkeys(("nDCG", "DCG", "CG", "AP", "RR", "RBP", "nRBP", "nRBP_loss"), metric_value),
    **dict.fromkeys(("minimum", "maximum", "expectation"), extreme),
    **dict.fromkeys(("L1_of_orders", "AP_of_orders"), of_orders),
    **dict.fromkeys(("smooth_nDCG", "smooth_AP", "smooth_nRBP_loss"), smooth_value),
    **dict.fromkeys(("nDCG_eq27", "AP_eq28"), of_best_ranks),
    "discounts": discounts,
    "discounted_gains": discounted_gains,
    "discounted_gains_from_2": lambda given: discounted_gains(given)[1:],
    "log2_ranks": log2_ranks,
    "rbp_weights": rbp_weights,
    "rbp_gains": rbp_gains,
    "rbp_gain_sum": rbp_gain_sum,
    "precision_at_relevant": precision_at_relevant,
    "precision_sum": precision_sum,
    "precision_at_k": precision_at_k,
    "IDCG": ideal_dcg,
    "sorted_relevance": sorted_relevance,
    "MRR": mean_discount_rank,
    "mean_over_orders": mean_over_orders,
    "sum_over_permutations": sum_over_permutations,
    "n_orders": n_orders,
    "n_permutations": n_permutations,
    "n_nonzero_per_rank": n_nonzero_per_rank,
    "gain": gain,
    "cdf_at_smallest": cdf_at_smallest,
    "smooth_cdf": smooth_cdf,
    "smooth_rank": smooth_rank,
    "bounded_smooth": bounded_smooth,
    "bounded": bounded,
    "softmax": softmax,
    "n_top_k_permutations": lambda given: [n_top_k_permutations(int(given["m"]), int(given["k"]))],
    "hinge": hinge,
    **dict.fromkeys(("sigmoid", "directranker_probability"), pair_probability),
    "directranker_min_cross_entropy": lambda given: [pair_loss("DirectRanker", 1e4)],
    "warp_rank": lambda given: [warp_rank(np.array(numbers(given["scores"])), int(given["true"]))],
    "warp_loss": lambda given: [float(warp_penalty(int(given["rank"]), np.array(numbers(given["alpha"]))))],
    "nsr1_identity": nsr1_identity,
    "n_parameters": n_parameters,
    "kendall_9_130": kendall,
    "DCG_beta": lambda given: [of_order("LinearDCG", ratings(given))],
    "R": lambda given: [of_order("PairError", ratings(given))],
    "R_hat": lambda given: [of_order("PairError(norm=pairs)", ratings(given))],
    # Seed 004 eq. 7: R_k counts ratings above k as relevant.
    "R_k": lambda given: [of_order(f"nRBP(rel={k + 1})", ratings(given)) for k in range(int(given["L"]) - 1)],
    "ideal_DCG_beta_bipartite": ideal_linear_dcg,
    "mean_DCG_error": mean_dcg_error,
    "pair_accuracy": strict_pair_accuracy,
    "binarise": binarised,
    "product": image_features,
    "cnn_flat": cnn_flat,
    "cnn_n_parameters": cnn_n_parameters,
}


def rows() -> list[dict[str, str]]:
    with REFERENCE.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def parameters() -> list[object]:
    """One per row: its inputs, what is expected, how near; the rows of LATER as strict expected failures."""
    found = []
    for row in rows():
        given = inputs_of(row["inputs"])
        reason = LATER.get(given["quantity"])
        marks = [pytest.mark.xfail(strict=True, raises=NotImplementedError, reason=reason)] if reason else []
        expected, tolerance = numbers(row["expected"]), float(row["tolerance"])
        found.append(pytest.param(given, expected, tolerance, id=row["id"], marks=marks))
    return found


@pytest.mark.parametrize(("given", "expected", "tolerance"), parameters())
def test_worked_example(given: Inputs, expected: Values, tolerance: float) -> None:
    if given["quantity"] not in EVALUATORS:
        raise NotImplementedError(given["quantity"])
    assert EVALUATORS[given["quantity"]](given) == pytest.approx(expected, rel=0, abs=tolerance)


def test_all_rows_are_there_and_none_is_both_built_and_awaited() -> None:
    assert len({row["id"] for row in rows()}) == len(rows()) == 122
    quantities = {inputs_of(row["inputs"])["quantity"] for row in rows()}
    assert set(LATER) | set(EVALUATORS) == quantities
    assert not set(LATER) & set(EVALUATORS)
