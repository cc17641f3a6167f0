"""Every worked example of the sources, by its id, through the public names of the package.

`tests/reference/worked_examples.csv` holds the rows. A row asserts `expected`, which is the right value also where the
printed one is wrong (status printed-wrong)."""

import csv
import math
from collections.abc import Callable, Sequence
from itertools import permutations
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses.sampled import warp_penalty
from rankbound.ranks import Ranks, descending_order, tie_blocks
from rankbound.training.models import MLP
from rankbound_study.claims import worked
from rankbound_study.jobs.cnn import RankCNN
from rankbound_study.report.tables import table_specs

REFERENCE = Path(__file__).parents[1] / "reference" / "worked_examples.csv"

Inputs = dict[str, str]
Values = Sequence[float]


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


def orders(given: Inputs) -> list[list[int]]:
    return [[int(bit) for bit in bits] for bits in given["orders"].split("|")]


def sizes(given: Inputs) -> tuple[int, int]:
    return int(given["N"]), int(given["P"])


def shares(text: str, relevance_by_rank: Sequence[int]) -> list[float]:
    """The contribution of each rank: the metric of the list in which only its item is relevant."""
    places = range(len(relevance_by_rank))
    return [of_order(text, [y if i == place else 0 for i, y in enumerate(relevance_by_rank)]) for place in places]


def rbp_weights(given: Inputs) -> Values:
    ranks, p = integers(given["ranks"]), float(given["p"])
    weights = shares(metric_text("RBP", given), [1] * max(ranks))
    return [weights[rank - 1] / (1 - p) for rank in ranks]


def mean_discount_rank(given: Inputs) -> Values:
    """One list per query, its only relevant item at the rank given."""
    ranks = integers(given["ranks"])
    relevance = np.array([int(place == rank) for rank in ranks for place in range(1, rank + 1)])
    scores = -np.array([place for rank in ranks for place in range(1, rank + 1)], dtype=float)
    return [float(rb.metric("RR")(scores, relevance, np.cumsum([0, *ranks])).mean())]


def first_term(relevance_by_rank: Sequence[int]) -> float:
    """L1, the first sum of eq. 2.12: the loss before P(P - 1)/2 is subtracted."""
    p = sum(relevance_by_rank)
    return of_order("nRBP", relevance_by_rank) + p * (p - 1) / 2


def over_permutations(given: Inputs) -> list[float]:
    """The metric of all N! permutations, duplicates included."""
    n, p = sizes(given)
    value = first_term if given["metric"] == "L1" else lambda each: of_order(metric_text(given["metric"], given), each)
    return [value(each) for each in permutations([1] * p + [0] * (n - p))]


def scored(given: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = torch.tensor(numbers(given["scores"]), dtype=torch.float64)
    return scores, torch.tensor(integers(given.get("relevance", "0"))), torch.tensor([0, len(scores)])


def best_ranks(given: Inputs) -> tuple[Ranks, torch.Tensor, Lists]:
    """Eq. 2.1 gives all tied items the first rank of their block, and eq. 2.8 counts all relevant ones down to it."""
    scores, relevance, offsets = scored(given)
    lists = Lists(offsets)
    blocks = tie_blocks(scores, lists)
    held = blocks.sum(relevance)
    position, above = torch.zeros(2, len(scores), dtype=torch.float64)
    position[blocks.order] = blocks.first[blocks.block].to(torch.float64)
    above[blocks.order] = (blocks.before(held) + held - 1)[blocks.block]
    return Ranks(position, lists.sizes, (above,)), relevance, lists


def smooth_rank(given: Inputs) -> Values:
    """Both ways to sum, which must agree to be one value."""
    scores, _, offsets = scored(given)
    direct, interpolated = (rb.smooth_rank(scores, offsets, method=method) for method in ("direct", "interpolated"))
    torch.testing.assert_close(interpolated, direct, rtol=1e-7, atol=0)
    return direct.tolist()


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


def warp_rank(given: Inputs) -> Values:
    """The rank that WARP's loss multiplies the true label's score by, up to its sign."""
    scores = torch.tensor(numbers(given["scores"]), dtype=torch.float64, requires_grad=True)
    relevance = (torch.arange(len(scores)) == int(given["true"])).long()
    loss = rb.loss("WARP(alpha=constant,margin=1e-9)")(scores, relevance, torch.tensor([0, len(scores)]))
    return [-float(torch.autograd.grad(loss.sum(), scores)[0][int(given["true"])])]


def warp_loss(given: Inputs) -> Values:
    weights: tuple[str, int | None] = {"1,0,0": ("constant", 1)}.get(given["alpha"], ("harmonic", None))
    return [float(warp_penalty(torch.tensor(int(given["rank"])), *weights, 3))]


def kendall(given: Inputs) -> Values:
    assert given["weights"] == "1"
    positions, reference = (np.array(integers(given[key])) for key in ("pi", "reference"))
    return [float(rb.metric("Kendall")(positions, reference, np.array([0, len(positions)]))[0])]


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
    scores, n = scored(given)[0], len(numbers(given["scores"]))
    loss = rb.loss("multinomial")(scores.repeat(n), torch.eye(n).flatten(), torch.arange(0, n * n + 1, n))
    return torch.exp(-loss).tolist()


def n_orders(given: Inputs) -> float:
    """The ideal order is one of all: its nDCG of 1 has the probability 1 / C(N, P)."""
    return 1 / rb.score_distribution("nDCG", *sizes(given)).probability[-1]


def n_permutations(given: Inputs) -> float:
    """N! from the share of the ideal order: P!(N - P)! permutations leave it as it is."""
    n, p = sizes(given)
    return n_orders(given) * math.factorial(p) * math.factorial(n - p)


def range_of(given: Inputs, which: str) -> float:
    """A metric's minimum, maximum or expectation over the orders of N items, P of them relevant."""
    function = {"minimum": rb.minimum, "maximum": rb.maximum, "expectation": rb.expectation}[which]
    return float(function(metric_text(given["metric"], given), *sizes(given)))


def distribution(given: Inputs) -> Any:
    return rb.score_distribution(metric_text(given["metric"], given), *sizes(given))


def dcg_shares(given: Inputs, relevance: Sequence[int]) -> list[float]:
    return shares(metric_text("DCG", given), relevance)


EVALUATORS: dict[str, Callable[[Inputs], Values]] = {
    **dict.fromkeys(
        ("nDCG", "DCG", "CG", "AP", "RR", "RBP", "nRBP", "nRBP_loss"),
        lambda given: [of_order(metric_text(given["quantity"], given), order(given))],
    ),
    **dict.fromkeys(("minimum", "maximum", "expectation"), lambda given: [range_of(given, given["quantity"])]),
    "L1_of_orders": lambda given: [first_term(one) for one in orders(given)],
    "AP_of_orders": lambda given: [of_order("AP", one) for one in orders(given)],
    **dict.fromkeys(
        ("smooth_nDCG", "smooth_AP", "smooth_nRBP_loss"),
        lambda given: bounded_smooth({"bound": "none", "metric": given["quantity"].removeprefix("smooth_")} | given),
    ),
    **dict.fromkeys(
        ("nDCG_eq27", "AP_eq28"),
        lambda given: [float(rb.metric(given["quantity"].partition("_")[0]).of_ranks(*best_ranks(given))[0])],
    ),
    "discounts": lambda given: [1 / dcg_shares(given, [1] * rank)[-1] for rank in integers(given["ranks"])],
    "discounted_gains": lambda given: dcg_shares(given, order(given)),
    "discounted_gains_from_2": lambda given: dcg_shares(given, order(given))[1:],
    # log2(r) is the discount log2(r + 1) of the rank before.
    "log2_ranks": lambda given: (
        1 / rb.metric("DCG").discount_at(torch.tensor(numbers(given["ranks"]), dtype=torch.float64) - 1)
    ).tolist(),
    "rbp_weights": rbp_weights,
    "rbp_gains": lambda given: [
        one / (1 - float(given["p"])) for one in shares(metric_text("RBP", given), order(given))
    ],
    "rbp_gain_sum": lambda given: [of_order(metric_text("RBP", given), order(given)) / (1 - float(given["p"]))],
    "precision_at_relevant": lambda given: [
        of_order(f"P@{rank}", order(given)) for rank, relevant in enumerate(order(given), start=1) if relevant
    ],
    "precision_sum": lambda given: [of_order("AP", order(given)) * sum(order(given))],
    "precision_at_k": lambda given: [of_order(f"P@{k}", order(given)) for k in integers(given["k"])],
    "IDCG": lambda given: rb.extremes(metric_text("IDCG", given), order(given), [0, len(order(given))])[1].tolist(),
    "sorted_relevance": lambda given: [
        order(given)[item]
        for item in descending_order(torch.tensor(order(given)), Lists(torch.tensor([0, len(order(given))])))
    ],
    "MRR": mean_discount_rank,
    "mean_over_orders": lambda given: [float(np.mean(over_permutations(given)))],
    "sum_over_permutations": lambda given: [sum(over_permutations(given))],
    "n_orders": lambda given: [n_orders(given)],
    "n_permutations": lambda given: [n_permutations(given)],
    "n_nonzero_per_rank": lambda given: [float(rb.expectation("P@1", *sizes(given))) * n_permutations(given)],
    "gain": lambda given: [distribution(given).gain(given["count"])],
    "cdf_at_smallest": lambda given: [float(distribution(given).cdf(range_of(given, "minimum")))],
    "smooth_cdf": lambda given: [float(distribution(given).smooth_cdf(range_of(given, f"{given['at']}imum")))],
    "smooth_rank": smooth_rank,
    "bounded_smooth": bounded_smooth,
    "bounded": bounded,
    "softmax": softmax,
    "n_top_k_permutations": lambda given: [math.perm(int(given["m"]), int(given["k"]))],
    "hinge": lambda given: [pair_loss("hinge", float(given["f_a"]) - float(given["f_b"]))],
    # The probability whose negative logarithm is the cross-entropy of a pair.
    "sigmoid": lambda given: [math.exp(-pair_loss("RankNet", float(given["x"])))],
    "directranker_probability": lambda given: [math.exp(-pair_loss("DirectRanker", float(given["difference"])))],
    "directranker_min_cross_entropy": lambda given: [pair_loss("DirectRanker", 1e4)],
    "warp_rank": warp_rank,
    "warp_loss": warp_loss,
    "nsr1_identity": lambda given: [
        float(2 * rb.expectation("nDCG", *sizes(given)) - 1 - rb.minimum("nDCG", *sizes(given)))
    ],
    "n_parameters": n_parameters,
    "kendall_9_130": kendall,
    "DCG_beta": lambda given: [of_order("LinearDCG", integers(given["ratings_by_rank"]))],
    "R": lambda given: [of_order("PairError", integers(given["ratings_by_rank"]))],
    "R_hat": lambda given: [of_order("PairError(norm=pairs)", integers(given["ratings_by_rank"]))],
    # Seed 004 eq. 7: R_k counts ratings above k as relevant.
    "R_k": lambda given: [
        of_order(f"nRBP(rel={k + 1})", integers(given["ratings_by_rank"])) for k in range(int(given["L"]) - 1)
    ],
    "ideal_DCG_beta_bipartite": lambda given: [
        float(rb.maximum("LinearDCG", int(given["m"]) + int(given["n"]), int(given["m"])))
    ],
    "mean_DCG_error": mean_dcg_error,
    "pair_accuracy": strict_pair_accuracy,
    # The labels that a metric with that threshold counts as relevant.
    "binarise": lambda given: (
        rb.metric(f"P(rel={given['threshold']})@1").relevant(torch.tensor(integers(given["labels"]))).tolist()
    ),
    "product": image_features,
    "cnn_flat": cnn_flat,
    "cnn_n_parameters": cnn_n_parameters,
}


with REFERENCE.open(newline="", encoding="utf-8") as lines:
    ROWS = {row["id"]: row for row in csv.DictReader(lines)}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
def test_worked_example(row: dict[str, str]) -> None:
    given, expected = inputs_of(row["inputs"]), numbers(row["expected"])
    assert EVALUATORS[given["quantity"]](given) == pytest.approx(expected, rel=0, abs=float(row["tolerance"]))


def test_all_rows_and_tables_are_there_with_evaluators_and_captions() -> None:
    assert len(ROWS) == 122
    assert {inputs_of(row["inputs"])["quantity"] for row in ROWS.values()} == set(EVALUATORS)
    assert [name for name, spec in table_specs().items() if spec.section == "worked"] == list(worked.WORKED_TABLES)


# The worked tables: the library's numbers round to the printed ones, but for the misprints that are known

MISPRINTED = {"table_murphy_9_3": {"1.887", "0.772", "8.09", "0.9306"}}
"""Table 9.3 rounds log2(i) to two decimals first; 3 / 1.59 = 1.887, where 3 / log2(3) = 1.893."""


@pytest.mark.parametrize("name", list(worked.WORKED_TABLES))
def test_every_other_printed_value_holds(name: str) -> None:
    table = worked.worked_table(name)
    assert set(table.filter(~pl.col("holds"))["printed"]) == MISPRINTED.get(name, set())
    assert table.select(pl.col("holds").is_null() == (pl.col("printed") == "")).to_series().all()


def test_lost_values_are_computed_and_holds_follows_the_printed_rounding() -> None:
    rbp = worked.worked_table("table_2_3").filter(pl.col("part") == "ideal", pl.col("printed") == "")
    assert dict(rbp.select("row", "ours").rows()) == pytest.approx({"sum": 2.19, "times (1-p)": 0.657})
    expected = worked.worked_table("table_3_1").filter(pl.col("row") == "mean")["ours"].to_list()
    assert expected == pytest.approx([(1 + 1 / log2(3)) / 2, 4 / 6 * (1 + 1 / log2(3) + 1 / 2)], abs=1e-9)
    for printed, right, wrong in (
        ("0.63", [0.6309, 0.635], [0.6351, 0.6249]),
        ("29/36", [29 / 36], [29 / 36 + 1e-6]),
        ("(1/1+2/3)/2", [5 / 6], [0.75]),
        ("3", [3.0], [3.1]),
    ):
        assert all(worked.holds(one, printed) for one in right)
        assert not any(worked.holds(one, printed) for one in wrong)
    assert worked.holds(1.0, "") is None
