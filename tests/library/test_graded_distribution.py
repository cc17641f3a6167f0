"""Distributions over the orders of graded lists, and of any list by the number of items of each grade."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import numpy as np
import pytest
import torch
from brute_force import METRICS, Order, distribution, graded_orders, mean
from hypothesis import given
from hypothesis import strategies as st

import rankbound as rb
from rankbound.bounds.extremes import Facts
from rankbound.bounds.profiles import Profile
from rankbound.bounds.score_distribution import ScoreDistribution
from rankbound.bounds.tables import DistributionsOnDemand, DistributionTables
from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.ranks import n_orders, orders_at

GRADED: list[Order] = [(0,), (2,), (0, 2), (0, 1, 2), (1, 3, 0, 0), (2, 2, 2), (3, 1, 0, 2, 1), (0, 0, 1, 3, 2, 2)]
GAINS = ("distinct", "drawn", "sd")
SAMPLED = (
    "nDCG",
    "nDCG(gain=linear)",
    "nDCG@3",
    "DCG",
    "ERR(max=4)",
    "Kendall",
    "PairError",
    "LinearNDCG",
    "AP(rel=2)",
)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("grades", GRADED, ids=str)
def test_scores_and_chances_are_those_of_all_orders(name: str, grades: Order) -> None:
    known = [METRICS[name](order) for order in graded_orders(grades)]
    found = rb.score_distribution(name, relevance=list(grades))
    if None in known:
        assert np.isnan([found.minimum, found.maximum, found.expectation, *found.support]).all()
        return
    support, chances = np.array([[value, float(chance)] for value, chance in distribution(known)]).T
    carried = found.probability > 1e-15
    np.testing.assert_allclose(found.support[carried], support, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.probability[carried], chances, rtol=1e-10)
    np.testing.assert_allclose(found.cdf(support), np.cumsum(chances), rtol=1e-10)
    lists = np.array(grades), np.array([0, len(grades)])
    expected = [*(values[0] for values in rb.extremes(name, *lists)), mean(known)]
    np.testing.assert_allclose([found.minimum, found.maximum, found.expectation], expected, rtol=1e-10, atol=1e-12)
    assert found.expectation == pytest.approx(rb.expectation(name, relevance=lists[0], offsets=lists[1])[0], abs=1e-12)


@pytest.mark.parametrize("name", SAMPLED)
def test_drawn_orders_agree_with_all_orders(name: str) -> None:
    """Within the Dvoretzky-Kiefer-Wolfowitz distance that 20,000 draws exceed once in 10,000 times."""
    samples = 20_000
    limit = math.sqrt(math.log(2 / 1e-4) / (2 * samples))
    for grades in [(3, 2, 2, 1, 0, 0, 0, 0, 0), (1, 1, 2, 4, 0, 0)]:
        exact = rb.score_distribution(name, relevance=grades)
        drawn = rb.score_distribution(name, relevance=grades, method="sampled", samples=samples)
        middles = (drawn.support[1:] + drawn.support[:-1]) / 2
        assert np.abs(exact.cdf(middles) - drawn.cdf(middles)).max() <= limit
        assert [drawn.minimum, drawn.maximum] == pytest.approx([exact.minimum, exact.maximum], abs=1e-12)
        assert drawn.expectation == pytest.approx(exact.expectation, rel=1e-9)
        assert exact.minimum - 1e-12 <= drawn.low <= drawn.high <= exact.maximum + 1e-12
        again = rb.score_distribution(name, relevance=grades[::-1], method="sampled", samples=samples)
        np.testing.assert_array_equal(drawn.support, again.support)


@pytest.mark.parametrize("name", ["nDCG@3", "DCG@2", "ERR(max=4)@3", "AP(rel=2)@3", "RR@2", "P@3", "CG@3"])
def test_patterns_of_the_first_ranks_are_all_orders(name: str) -> None:
    """A list with too many orders, of which few patterns count, against draws; and its mean against the closed form."""
    grades = (4, 3, 2, 2, 2, 1, 1, 1, 1) + (0,) * 31
    exact = rb.score_distribution(name, relevance=grades)
    assert exact.error < 1e-9
    assert exact.probability.sum() == pytest.approx(1, abs=1e-12)
    expected = rb.expectation(name, relevance=np.array(grades), offsets=np.array([0, len(grades)]))[0]
    assert exact.probability @ exact.support == pytest.approx(expected, rel=1e-9)
    drawn = rb.score_distribution(name, relevance=grades, method="sampled", samples=20_000)
    middles = (exact.support[1:] + exact.support[:-1]) / 2
    assert np.abs(exact.cdf(middles) - drawn.cdf(middles)).max() <= math.sqrt(math.log(2 / 1e-4) / 40_000)


def test_binary_grades_are_the_pair_of_n_and_p() -> None:
    for name, grade in (("nDCG", 1), ("AP(rel=2)", 2), ("P(rel=2)@2", 3)):
        found = rb.score_distribution(name, relevance=np.array([0, grade, 0, grade, 0]))
        expected = rb.score_distribution(name, 5, 2)
        assert (found.n, found.p, found.grades) == (5, 2, None)
        np.testing.assert_array_equal(found.support, expected.support)


def test_lists_that_are_too_long_to_enumerate_say_so() -> None:
    grades = [0] * 30 + [1] * 10 + [2] * 5
    with pytest.raises(
        ValueError, match="over 45 items with 5 of grade 2, 10 of grade 1, 30 of grade 0, but it has no"
    ):
        rb.score_distribution("nDCG", relevance=grades)
    assert len(rb.score_distribution("nDCG", relevance=grades, method="auto", samples=100).support) == 100


def test_orders_beyond_counting_cost_nothing() -> None:
    assert n_orders([500_000, 500_000]) == math.inf
    drawn = rb.score_distribution("nDCG@100", 20_000, 5_000, method="auto", samples=20)
    assert drawn.low < drawn.expectation < drawn.high


LISTS = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), max_size=6), min_size=1, max_size=8)


@given(LISTS)
def test_lists_share_a_key_exactly_if_they_share_their_grades(lists: list[list[float]]) -> None:
    metric = rb.metric("nDCG")
    relevance = torch.tensor([y for grades in lists for y in grades], dtype=torch.float64)
    profiles = Facts(metric, relevance, Lists(torch.tensor([0, *map(len, lists)]).cumsum(0)))
    keys = profiles.keys.tolist()
    for (one, key), (other, other_key) in product(zip(lists, keys, strict=True), repeat=2):
        assert (key == other_key) == (sorted(one) == sorted(other))
    distinct, which = profiles.distinct()
    assert [distinct[index].key for index in which] == keys
    for grades, key in zip(lists, keys, strict=True):
        alone = Facts(metric, torch.tensor(grades, dtype=torch.float64), Lists.of_sizes([len(grades)]))
        assert alone.profile(0).key == key


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_numbered_orders_are_all_orders(counts: list[int]) -> None:
    number = int(n_orders(counts))
    rows = torch.tensor(counts).expand(number, -1)
    found = orders_at(rows, torch.full((number,), number), torch.arange(number))
    expected = graded_orders([kind for kind, count in enumerate(counts) for _ in range(count)])
    assert [tuple(order) for order in found.tolist()] == expected


def smooth(
    name: str, values: Sequence[float], lists: Sequence[Order], gain: str, tables: DistributionsOnDemand
) -> object:
    relevance = torch.tensor([y for grades in lists for y in grades])
    offsets = torch.tensor([0, *map(len, lists)]).cumsum(0)
    profiles = Facts(rb.metric(name), relevance, Lists(offsets))
    return tables.smooth(torch.tensor(values, dtype=torch.float64), profiles, gain).numpy()  # type: ignore[arg-type]


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("name", ["nDCG", "nDCG@3", "ERR(max=4)", "Kendall"])
def test_a_batch_of_binary_and_graded_lists_is_the_written_out_sum(name: str, gain: str) -> None:
    """Sum of sigmoids over all scores (algorithm 2), its gain by eq. 3.13 from brute force."""
    lists = [(0, 1, 2), (1, 0, 0, 1), (3, 1, 0, 2, 1), (2, 1, 0), (0, 1), (0, 0, 1, 3, 2, 2)]
    places = [0.1, 0.5, 0.7, 0.9, 0.3, 1.1]
    values, expected = [], []
    for grades, place in zip(lists, places, strict=True):
        known = [METRICS[name](order) for order in graded_orders(grades)]
        support, chance = np.array([[value, float(share)] for value, share in distribution(known)]).T
        span, sd = support[-1] - support[0], math.sqrt((support - mean(known)) ** 2 @ chance)
        drawn = 300_000 if max(grades) == 1 else 20_000
        a = {"distinct": len(support) / span, "drawn": drawn / span, "sd": 1 / sd}[gain]
        # Beside a score, where a steep step is either 0 or 1.
        values.append(support[0] + place * span + 1e-5 * span)
        expected.append(chance @ (1 / (1 + np.exp(np.clip(-a * (values[-1] - support), -700, 700)))))
    tolerance = 1e-3 if gain == "drawn" else 1e-6
    np.testing.assert_allclose(smooth(name, values, lists, gain, DistributionsOnDemand(name)), expected, atol=tolerance)


def test_distributions_are_found_once_and_as_asked() -> None:
    tables = DistributionsOnDemand("nDCG", method="sampled", samples=400, graded_samples=300, seed=5)
    smooth("nDCG", [0.5], [(0, 1, 2, 0, 0, 1)], "sd", tables)
    smooth("nDCG", [0.5, 0.5, 0.5], [(2, 1, 1, 0, 0, 0), (1, 0, 0, 1, 0), (0, 0, 0, 1, 1)], "sd", tables)
    assert tables._tables is not None
    assert sorted(tables._tables.samples.tolist()) == [300, 400]
    graded = tables._tables.of_key(Profile(6, 3, (2.0, 1.0, 1.0, 0.0, 0.0, 0.0)).key)
    expected = rb.score_distribution("nDCG", relevance=[2, 1, 1, 0, 0, 0], method="sampled", samples=300, seed=5)
    np.testing.assert_array_equal(graded.support, expected.support)
    assert graded.grades == expected.grades == (2, 1, 1, 0, 0, 0)
    assert graded.gain() == expected.gain()
    binary = rb.score_distribution("nDCG", 5, 2, method="sampled", samples=400, seed=5)
    np.testing.assert_array_equal(tables._tables.of(5, 2).probability, binary.probability)


def test_what_is_kept_has_a_limit_and_what_is_dropped_comes_back_the_same() -> None:
    lists = [(0, 1, 2, 0), (0, 2, 2, 1), (1, 0, 0, 2, 1), (2, 0, 0), (1, 1, 2)]
    unlimited, limited = DistributionsOnDemand("nDCG"), DistributionsOnDemand("nDCG", kept=2)
    for batch in (lists[:2], lists[2:], lists[1:3], lists[:2]):
        values = [0.6] * len(batch)
        expected = smooth("nDCG", values, batch, "sd", unlimited)
        np.testing.assert_array_equal(smooth("nDCG", values, batch, "sd", limited), expected)
        assert len(limited._known) == max(2, len(batch))
    assert len(unlimited._known) == len(lists)


def test_an_interrupted_computation_leaves_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, short, others = DistributionsOnDemand("nDCG"), [(1, 0, 0)], [(1, 1, 0, 0), (1, 0, 0, 0, 0)]
    before = smooth("nDCG", [0.6], short, "sd", tables)
    binned, calls = ScoreDistribution.binned, 0

    def interrupted(distribution: ScoreDistribution) -> ScoreDistribution:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return binned(distribution)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreDistribution, "binned", interrupted)
        with pytest.raises(KeyboardInterrupt):
            smooth("nDCG", [0.6, 0.6], others, "sd", tables)
    np.testing.assert_array_equal(smooth("nDCG", [0.6], short, "sd", tables), before)
    for batch in (others[:1], others[1:], others):
        values = [0.6] * len(batch)
        expected = smooth("nDCG", values, batch, "sd", DistributionsOnDemand("nDCG"))
        np.testing.assert_array_equal(smooth("nDCG", values, batch, "sd", tables), expected)


def test_threads_may_share_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two meet while they collect the distributions of their lists, of which fewer are kept than both need."""
    tables, batches = DistributionsOnDemand("nDCG", kept=1), [[(1, 0, 0)], [(1, 1, 0, 0)]]
    expected = [smooth("nDCG", [0.6], batch, "sd", DistributionsOnDemand("nDCG")) for batch in batches]
    collect, both = DistributionTables.collect, Barrier(2, timeout=60)

    def meeting(known: Iterable[ScoreDistribution]) -> DistributionTables:
        both.wait()
        return collect(known)

    monkeypatch.setattr(DistributionTables, "collect", meeting)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda batch: smooth("nDCG", [0.6], batch, "sd", tables), batches))
    np.testing.assert_array_equal(found, expected)


def test_tables_of_binary_lists_refuse_graded_ones() -> None:
    tables = DistributionTables.collect([rb.score_distribution("nDCG", 3, 1)])
    loss = rb.SmoothLoss("nDCG", "distribution", tables=tables)
    with pytest.raises(ConfigError, match="no nDCG distribution of this graded list among the 1 tables"):
        loss(torch.zeros(3), torch.tensor([0, 1, 2]), torch.tensor([0, 3]))


def test_a_score_that_is_too_rare_to_be_drawn_still_has_a_gain() -> None:
    """P@1 of 3,000 items with one relevant: 20 draws see only 0."""
    drawn = rb.score_distribution("P@1", 3000, 1, method="sampled", samples=20)
    assert drawn.support.tolist() == [0]
    assert drawn.gain() == 1
    tables = DistributionsOnDemand("P@1", method="sampled", samples=20)
    assert np.isfinite(smooth("P@1", [0.2], [(1,) + (0,) * 2999], "distinct", tables)).all()  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="is undefined: all its orders have the same score"):
        rb.score_distribution("P@5", 3, 1).gain()


@pytest.mark.parametrize("bound", ["distribution", "distribution(gain=sd)"])
def test_a_graded_loss_learns(bound: str) -> None:
    """Gradient steps from tied scores bring graded lists that are too long to enumerate into a better order."""
    generator = torch.Generator().manual_seed(0)
    relevance = torch.tensor([0] * 20 + [1] * 5 + [2] * 3 + [0] * 12 + [1] * 4 + [3] * 2)
    offsets = torch.tensor([0, 28, 46])
    scores = torch.randn(46, generator=generator, dtype=torch.float64).requires_grad_()
    loss = rb.SmoothLoss("nDCG", bound, temperature=0.2)
    before = rb.metric("nDCG")(scores.detach(), relevance, offsets)
    optimizer = torch.optim.SGD([scores], lr=1.0)
    for _ in range(30):
        optimizer.zero_grad()
        loss(scores, relevance, offsets).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert (rb.metric("nDCG")(scores.detach(), relevance, offsets) > before + 0.05).all()
