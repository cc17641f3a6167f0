"""Metrics of any ragged batch: what may change a value, what never does, and ties against all tie-breaks."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import torch
from brute_force import METRICS, binary_orders, mean, orders_of_ties
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.metrics import Metric
from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.cascade import ERR
from rankbound.metrics.cumulative_gain import CG, DCG, NDCG
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.pairs import Kendall, PairError, RankSum
from rankbound.metrics.precision import RBP, InterpolatedPrecision, NormalizedRBP, Precision, Recall, RPrecision
from rankbound.ranks import Ranks

Row = list[tuple[int, int]]
"""(score, grade) of each item; few distinct scores, so that most lists have ties."""

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=6)
BATCHES = st.lists(ROWS, min_size=1, max_size=6)


def arrays(batch: list[Row]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    pairs = [pair for row in batch for pair in row]
    offsets = np.cumsum([0, *map(len, batch)])
    return np.array([s for s, _ in pairs], dtype=float), np.array([y for _, y in pairs], dtype=np.int64), offsets


def values(name: str, batch: list[Row]) -> npt.NDArray[np.float64]:
    return np.asarray(rb.metric(name)(*arrays(batch)))


def all_values(batch: list[Row]) -> dict[str, npt.NDArray[np.float64]]:
    """Every metric of the batch, from one sort."""
    found = rb.evaluate(map(rb.metric, METRICS), *arrays(batch))
    assert list(found) == list(METRICS)
    return {name: value.numpy() for name, value in found.items()}


@pytest.mark.parametrize("name", METRICS)
def test_every_order_of_every_short_list(name: str) -> None:
    """One batch of all orders of N <= 8 items with every P: 510 lists."""
    orders = [order for n in range(1, 9) for p in range(n + 1) for order in binary_orders(n, p)]
    batch = [list(zip(range(0, -len(order), -1), order, strict=True)) for order in orders]
    np.testing.assert_allclose(values(name, batch), [mean([METRICS[name](order)]) for order in orders], rtol=1e-12)


@given(ROWS)
def test_ties_count_by_the_mean_over_all_tie_breaks(row: Row) -> None:
    orders = orders_of_ties([score for score, _ in row], [grade for _, grade in row])
    for name, value in all_values([row]).items():
        expected = mean(METRICS[name](order) for order in orders)
        np.testing.assert_allclose(value, [expected], rtol=1e-12, atol=1e-14, err_msg=name)


@given(BATCHES)
def test_a_batch_is_its_lists_one_by_one(batch: list[Row]) -> None:
    alone = [all_values([row]) for row in batch]
    for name, value in all_values(batch).items():
        expected = np.concatenate([each[name] for each in alone])
        np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-15, err_msg=name)


@given(BATCHES, st.randoms(use_true_random=False))
def test_the_order_of_rows_never_changes_a_value(batch: list[Row], random: object) -> None:
    shuffled = [random.sample(row, len(row)) for row in batch]  # type: ignore[attr-defined]
    expected = all_values(batch)
    for name, value in all_values(shuffled).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-13, atol=1e-15, err_msg=name)


@given(BATCHES, st.sampled_from([lambda s: s - 1000, lambda s: 3 * s + 7, np.exp, np.arctan, lambda s: s**3]))
def test_only_the_order_of_scores_counts(batch: list[Row], increasing: object) -> None:
    scores, grades, offsets = arrays(batch)
    moved = rb.evaluate(map(rb.metric, METRICS), increasing(scores), grades, offsets)  # type: ignore[operator]
    for name, expected in all_values(batch).items():
        np.testing.assert_array_equal(moved[name].numpy(), expected, err_msg=name)


@given(BATCHES)
def test_undefined_exactly_where_the_arithmetic_is(batch: list[Row]) -> None:
    for name, value in all_values(batch).items():
        undefined = [METRICS[name](tuple(grade for _, grade in row)) is None for row in batch]
        assert np.isnan(value).tolist() == undefined, name


@given(ROWS)
def test_ideal_orders_score_1_and_nothing_scores_more(row: Row) -> None:
    ideal = [(grade, grade) for _, grade in row]
    for name in ("nDCG", "nDCG@3", "nDCG(gain=linear)", "nRBP(p=0.8)", "AP", "RR", "Hit@1", "Recall@6", "Rprec"):
        best, value = values(name, [ideal])[0], values(name, [row])[0]
        if any(grade > 0 for _, grade in row):
            assert best == pytest.approx(1, abs=1e-12), name
            assert -1e-12 <= value <= 1 + 1e-12, name


@given(st.integers(1, 2000), st.floats(0.001, 0.999))
def test_one_relevant_item_among_n_ties(n: int, p: float) -> None:
    """Closed forms on long blocks: each rank is equally likely."""
    scores, grades, offsets = np.zeros(n), np.arange(n) == n // 2, np.array([0, n])
    ranks = np.arange(1, n + 1)
    expected = {
        "nDCG": (1 / np.log2(ranks + 1)).mean(),
        "AP": (1 / ranks).mean(),
        "RR": (1 / ranks).mean(),
        "nRBP": (ranks - 1).mean(),
        f"RBP(p={p!r})": ((1 - p) * p ** (ranks - 1.0)).mean(),
    }
    for name, value in expected.items():
        assert rb.metric(name)(scores, grades, offsets)[0] == pytest.approx(value, rel=1e-10), name


def test_reciprocal_rank_of_a_long_block_with_many_relevant_items() -> None:
    """First relevant of 300 in 1,000 ties, by the recursion over ranks instead of binomials."""
    n, m, expected, still = 1000, 300, 0.0, 1.0
    for rank in range(1, n - m + 2):
        chance = m / (n - rank + 1)
        expected += still * chance / rank
        still *= 1 - chance
    value = rb.metric("RR")(np.zeros(n), np.arange(n) < m, np.array([0, n]))
    assert value[0] == pytest.approx(expected, rel=1e-9)


CUTOFFS = st.none() | st.integers(1, 10**6)
THRESHOLDS = st.integers(1, 100)
PERSISTENCES = st.floats(0, 1, exclude_max=True)
GAINS = {"gain": st.sampled_from(["exp2", "linear"]), "discount": st.sampled_from(["log2(r+1)", "log2(r)"])}
ANY_METRIC = st.one_of(
    st.builds(NDCG, cutoff=CUTOFFS, **GAINS),
    st.builds(DCG, cutoff=CUTOFFS, **GAINS),
    st.builds(CG, gain=GAINS["gain"], cutoff=st.integers(1, 10**6)),
    st.builds(AveragePrecision, rel=THRESHOLDS, cutoff=CUTOFFS),
    st.builds(ReciprocalRank, rel=THRESHOLDS, cutoff=CUTOFFS),
    st.builds(RPrecision, rel=THRESHOLDS),
    st.builds(InterpolatedPrecision, rel=THRESHOLDS, recall=st.floats(0, 1)),
    st.builds(Recall, rel=THRESHOLDS, cutoff=st.integers(1, 10**6)),
    st.builds(Hit, rel=THRESHOLDS, cutoff=st.integers(1, 10**6)),
    st.builds(ERR, max=st.integers(1, 20), cutoff=CUTOFFS),
    st.builds(PairError, norm=st.sampled_from(["none", "pairs", "max"])),
    st.builds(Kendall, weight=st.sampled_from(["uniform", "difference"])),
    st.builds(Precision, rel=THRESHOLDS, cutoff=st.integers(1, 10**6)),
    st.builds(RBP, rel=THRESHOLDS, p=PERSISTENCES),
    st.builds(NormalizedRBP, rel=THRESHOLDS, p=PERSISTENCES),
    st.builds(RankSum, rel=THRESHOLDS),
)


@given(ANY_METRIC)
def test_the_text_of_any_metric_reads_back_as_itself(metric: Metric) -> None:
    assert rb.metric(str(metric)) == metric


@dataclass(frozen=True, kw_only=True)
class OnlyRanks(Metric):
    """A metric as a user would add it, one function of ranks: here AP, whose closed forms are known."""

    name: ClassVar[str] = "OnlyRanks"
    uses_grades: ClassVar[bool] = False

    def rank_weights(self, relevance: Tensor) -> tuple[Tensor, ...]:
        return (relevance > 0,)

    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        (above,) = ranks.above
        relevant = (relevance > 0).to(ranks.position)
        count = lists.sum(relevant)
        total = lists.sum(relevant * (1 + above) / ranks.position)
        return total / torch.where(count > 0, count, torch.nan)


def test_one_function_of_ranks_is_a_metric() -> None:
    orders = [order for p in range(1, 5) for order in binary_orders(5, p)]
    batch = [list(zip(range(0, -5, -1), order, strict=True)) for order in orders]
    np.testing.assert_allclose(OnlyRanks()(*arrays(batch)), values("AP", batch), rtol=1e-12)


def test_one_function_of_ranks_has_extremes_and_an_expectation() -> None:
    sizes = [(n, p) for n in range(1, 9) for p in range(n + 1)]
    n, p = np.array(sizes).T
    np.testing.assert_allclose(rb.minimum(OnlyRanks(), n, p), rb.minimum("AP", n, p), rtol=1e-12)
    np.testing.assert_allclose(rb.maximum(OnlyRanks(), n, p), rb.maximum("AP", n, p), rtol=1e-12)
    # A mean over 200 random orders: five standard errors of an AP, whose standard deviation is below 0.3.
    sampled = rb.expectation(OnlyRanks(), n, p)
    np.testing.assert_allclose(sampled, rb.expectation("AP", n, p), atol=5 * 0.3 / math.sqrt(200))
    assert np.isnan(sampled).tolist() == (p == 0).tolist()
