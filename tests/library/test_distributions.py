"""Tables of distributions, and the error that a score distribution states.

Tables: look-up of a batch of lists, what is computed on demand and kept, and what has no table. Errors: against all
orders of short lists in exact arithmetic. Scores are fractions or decimals of 120 digits: two orders score the same if
these are equal, however near others lie.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, combinations, pairwise, product
from math import comb
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from brute_force import average_precision, binary_orders, err, graded_orders, nrbp, rbp
from hypothesis import given
from hypothesis import strategies as st
from test_bounds import require_distribution
from torch import Tensor

import rankbound as rb
from rankbound.bounds.extremes import Facts
from rankbound.bounds.orders import Profile, binned_distributions, edges_of, enumerate_orders
from rankbound.bounds.score_distribution import ScoreDistribution, score_distribution, score_distributions
from rankbound.bounds.sums import RandomOrders, Sum
from rankbound.bounds.tables import DistributionsOnDemand, DistributionTables
from rankbound.errors import ConfigError
from rankbound.lists import Lists

Order = Sequence[float]
GAINS = ("distinct", "drawn", "sd")
PAIRS = [(2, 1), (8, 4), (20, 10), (40, 3), (100, 50), (300, 100), (6, 6), (400, 200)]


@pytest.fixture(scope="module", params=("nDCG", "AP", "nRBP"))
def tables(request: pytest.FixtureRequest) -> DistributionTables:
    return DistributionTables.collect(one.binned() for one in score_distributions(request.param, PAIRS))


def batch(tables: DistributionTables) -> tuple[Tensor, Tensor, Tensor]:
    """Values over the whole range and beyond, in an order unlike the tables'."""
    generator = np.random.default_rng(0)
    pairs = [pair for pair in PAIRS if pair[0] != pair[1]] * 8
    generator.shuffle(pairs)
    known = [tables.of_key(n << 32 | p) for n, p in pairs]
    values = [
        one.expectation + one.sd * generator.normal() * 3 if index % 3 else generator.uniform(one.minimum, one.maximum)
        for index, one in enumerate(known)
    ]
    return torch.tensor(values).double(), *(torch.tensor(column) for column in zip(*pairs, strict=True))  # type: ignore


def of_pairs(tables: DistributionTables, values: Tensor, n: Any, p: Any, gain: Any = "distinct") -> Tensor:
    return tables.smooth(
        values, Facts.of_counts(rb.metric(tables.metric), torch.as_tensor(n), torch.as_tensor(p)), gain
    )


@pytest.mark.parametrize("gain", GAINS)
def test_a_batch_is_its_lists_one_by_one_and_its_gradient_the_slope(tables: DistributionTables, gain: Any) -> None:
    values, n, p = batch(tables)
    known = [tables.of_key(int(items) << 32 | int(relevant)) for items, relevant in zip(n, p, strict=True)]
    found = of_pairs(tables, values, n, p, gain)
    expected = [float(one.smooth_cdf(float(value), gain)) for one, value in zip(known, values, strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
    for index in (0, 7, 20):
        part = slice(index, index + 1)
        torch.testing.assert_close(of_pairs(tables, values[part], n[part], p[part], gain), found[part])
    # A unit of distance for every list, so that the step of the differences suits all: 1 / gain.
    scale = torch.tensor([1 / one.gain(gain) for one in known])
    units = (values / scale).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda u: of_pairs(tables, u * scale, n, p, gain), (units,), eps=1e-4, atol=1e-5, fast_mode=gain != "distinct"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_outside_the_scores_are_finite_and_nan_stays_nan(tables: DistributionTables, dtype: torch.dtype) -> None:
    values = torch.tensor([-1e30, -5.0, 2.0, 1e30, math.nan], dtype=dtype, requires_grad=True)
    result = of_pairs(tables, values, [100] * 5, [50] * 5)
    result[:4].sum().backward()  # type: ignore[no-untyped-call]
    assert result.dtype == dtype
    assert result.isnan().tolist() == [False, False, False, False, True]
    assert values.grad[:4].isfinite().all()
    assert result[[0, 3]].tolist() == pytest.approx([0, 1], abs=1e-6)
    none = torch.empty(0, dtype=torch.int64)
    assert of_pairs(tables, torch.empty(0), none, none).shape == (0,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_agrees(tables: DistributionTables) -> None:
    values, n, p = batch(tables)
    found = of_pairs(tables, values.cuda(), n.cuda(), p.cuda())
    torch.testing.assert_close(found.cpu(), of_pairs(tables, values, n, p))


def test_tables_equal_the_distributions_that_they_were_made_of(tables: DistributionTables) -> None:
    for n, p, gain, message in (
        ([8, 7], [4, 3], "sd", "7 items with 3 relevant .* or tabulate it as well"),
        ([8, 6], [4, 6], "sd", "6 items with 6 relevant"),
        ([8, 8], [4, 4], "wide", "gain: found wide, expected one of distinct"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            of_pairs(tables, torch.tensor([0.5, 0.5]), n, p, gain)
    ones = [score_distribution("AP", 9, 4, tilt=2.5), score_distribution("AP", 7, 2, tilt=2.5)]
    tables = DistributionTables.collect(ones)
    assert list(zip(tables.n, tables.p, strict=True)) == [(7, 2), (9, 4)]
    assert tables.tilt == tables.of_key(9 << 32 | 4).tilt == 2.5
    for gain in GAINS:
        assert tables.gains(gain)[1] == tables.of_key(9 << 32 | 4).gain(gain) == ones[0].gain(gain)  # type: ignore[arg-type]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), max_size=6), min_size=1, max_size=8))
def test_lists_share_a_key_exactly_if_they_share_their_grades(lists: list[list[float]]) -> None:
    metric = rb.metric("nDCG")
    relevance = torch.tensor([y for grades in lists for y in grades], dtype=torch.float64)
    facts = Facts(metric, relevance, Lists.of_sizes(list(map(len, lists))))
    keys = facts.keys.tolist()
    for (one, key), (other, other_key) in product(zip(lists, keys, strict=True), repeat=2):
        assert (key == other_key) == (sorted(one) == sorted(other))
    distinct, which = facts.distinct()
    assert [distinct[index].key for index in which] == keys
    backwards = facts.select(torch.arange(len(keys)).flip(0))
    assert [backwards.profile(index).key for index in range(len(keys))] == backwards.keys.tolist() == keys[::-1]
    for grades, key in zip(lists, keys, strict=True):
        alone = Facts(metric, torch.tensor(grades, dtype=torch.float64), Lists.of_sizes([len(grades)]))
        assert alone.profile(0).key == key


def smooth(
    lists: Sequence[Order], tables: DistributionsOnDemand, gain: Any = "sd", values: Sequence[float] | None = None
) -> np.ndarray:
    relevance = torch.tensor([y for grades in lists for y in grades])
    facts = Facts(rb.metric(tables.metric), relevance, Lists.of_sizes(list(map(len, lists))))
    at = [0.6] * len(lists) if values is None else values
    found: np.ndarray = tables.smooth(torch.tensor(at, dtype=torch.float64), facts, gain).numpy()
    return found


def test_distributions_are_found_once_and_kept_up_to_a_limit() -> None:
    """What is dropped comes back the same; of P@1 over 3,000 items with one relevant, 20 draws see only 0."""
    tables = DistributionsOnDemand("nDCG", method="sampled", samples=400, graded_samples=300, seed=5)
    smooth([(0, 1, 2, 0, 0, 1)], tables)
    smooth([(2, 1, 1, 0, 0, 0), (1, 0, 0, 1, 0), (0, 0, 0, 1, 1)], tables)
    assert tables._tables.samples.tolist() == [300, 400]
    graded = tables._tables.of_key(Profile(6, 3, (2.0, 1.0, 1.0, 0.0, 0.0, 0.0)).key)
    expected = rb.score_distribution("nDCG", relevance=[2, 1, 1, 0, 0, 0], method="sampled", samples=300, seed=5)
    np.testing.assert_array_equal(graded.support, expected.support)
    assert graded.grades == expected.grades == (2, 1, 1, 0, 0, 0)
    binary = rb.score_distribution("nDCG", 5, 2, method="sampled", samples=400, seed=5)
    np.testing.assert_array_equal(tables._tables.of_key(5 << 32 | 2).probability, binary.probability)
    lists: list[Order] = [(0, 1, 2, 0), (0, 2, 2, 1), (1, 0, 0, 2, 1), (2, 0, 0), (1, 1, 2)]
    unlimited, limited = DistributionsOnDemand("nDCG"), DistributionsOnDemand("nDCG", kept=2)
    for part in (lists[:2], lists[2:], lists[1:3], lists[:2]):
        np.testing.assert_array_equal(smooth(part, limited), smooth(part, unlimited))
        assert len(limited._known) == max(2, len(part))
    assert len(unlimited._known) == len(lists)
    drawn = rb.score_distribution("P@1", 3000, 1, method="sampled", samples=20)
    assert (drawn.support.tolist(), drawn.gain()) == ([0], 1)
    tables = DistributionsOnDemand("P@1", method="sampled", samples=20)
    assert np.isfinite(smooth([(1,) + (0,) * 2999], tables, "distinct", [0.2])).all()


def test_an_interrupted_computation_leaves_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, short, others = DistributionsOnDemand("nDCG"), [(1, 0, 0)], [(1, 1, 0, 0), (1, 0, 0, 0, 0)]
    before, binned, calls = smooth(short, tables), ScoreDistribution.binned, []

    def interrupted(distribution: ScoreDistribution) -> ScoreDistribution:
        calls.append(distribution)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return binned(distribution)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreDistribution, "binned", interrupted)
        with pytest.raises(KeyboardInterrupt):
            smooth(others, tables)
    np.testing.assert_array_equal(smooth(short, tables), before)
    for part in (others[:1], others[1:], others):
        np.testing.assert_array_equal(smooth(part, tables), smooth(part, DistributionsOnDemand("nDCG")))


def test_threads_may_share_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two meet while they collect the distributions of their lists, of which fewer are kept than both need."""
    tables, batches = DistributionsOnDemand("nDCG", kept=1), [[(1, 0, 0)], [(1, 1, 0, 0)]]
    expected = [smooth(part, DistributionsOnDemand("nDCG")) for part in batches]
    collect, both = DistributionTables.collect, Barrier(2, timeout=60)

    def meeting(known: Iterable[ScoreDistribution]) -> DistributionTables:
        both.wait()
        return collect(known)

    monkeypatch.setattr(DistributionTables, "collect", meeting)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda part: smooth(part, tables), batches))
    np.testing.assert_array_equal(found, expected)


def test_bounds_and_losses_read_the_tables_of_their_lists_and_tilt() -> None:
    scores, relevance, offsets = torch.tensor([0.1, 0.5, 0.3, 0.2, 0.0]), torch.tensor([1, 0, 1, 0, 0]), [0, 5]
    bounded = rb.bounded("AP", "distribution(tilt=4)")(scores, relevance, offsets)
    known = rb.score_distribution("AP", n=5, p=2, tilt=4.0)
    assert bounded[0] == pytest.approx(float(known.cdf(rb.metric("AP")(scores, relevance, offsets))[0]))
    plain, tilted = (DistributionTables.collect([rb.score_distribution("AP", n=5, p=2, tilt=t)]) for t in (1.0, 4.0))

    def loss(bound: str, tables: Any = None, relevance: Tensor = relevance) -> Tensor:
        return rb.SmoothLoss("AP", bound, tables=tables)(scores, relevance, offsets)

    own = loss("distribution(tilt=4)")
    assert own == loss("distribution(tilt=4)", tilted)
    assert own == loss("distribution(tilt=4)", DistributionsOnDemand("AP", tilt=4.0))
    assert own != loss("distribution", plain)
    with pytest.raises(ValueError, match="tilted by 1"):
        loss("distribution(tilt=4)", plain)
    ndcg = DistributionTables.collect([rb.score_distribution("nDCG", 3, 1)])
    with pytest.raises(ConfigError, match="no nDCG distribution of this graded list among the 1 tables"):
        rb.SmoothLoss("nDCG", "distribution", tables=ndcg)(torch.zeros(3), torch.tensor([0, 1, 2]), [0, 3])


# The error that a distribution states
Exact = Decimal | Fraction
DIGITS = 120


def discount(rank: int, base: str = "log2(r+1)") -> Decimal:
    log = Decimal(rank + 1).ln() if base == "log2(r+1)" else Decimal(max(rank, 2)).ln()
    return Decimal(2).ln() / log


def dcg(gain: str = "exp2", base: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], Decimal]:
    def value(order: Order) -> Decimal:
        gains = [(Decimal(2) ** Decimal(y) - 1) if gain == "exp2" else Decimal(y) for y in order[:k]]
        return sum((g * DISCOUNTS[base][rank] for rank, g in enumerate(gains)), Decimal())

    return value


def ndcg(gain: str = "exp2", base: str = "log2(r+1)", k: int | None = None) -> Callable[[Order], Decimal]:
    total = dcg(gain, base, k)
    return lambda order: total(order) / total(sorted(order, reverse=True))


def pair_error(order: Order) -> Fraction:
    grades = [Fraction(y) for y in order]
    return sum((max(below - above, Fraction()) for above, below in combinations(grades, 2)), Fraction())


with localcontext() as context:
    context.prec = DIGITS
    DISCOUNTS = {base: [discount(rank, base) for rank in range(1, 221)] for base in ("log2(r+1)", "log2(r)")}

METRICS: dict[str, Callable[[Any], Any]] = {
    "nDCG": ndcg(),
    "nDCG@3": ndcg(k=3),
    "nDCG(gain=linear)": ndcg("linear"),
    "nDCG(discount=log2(r))": ndcg(base="log2(r)"),
    "DCG": dcg(),
    "DCG@4": dcg(k=4),
    "DCG(discount=log2(r))": dcg(base="log2(r)"),
    "CG@3": lambda order: sum((Decimal(y) for y in order[:3]), Decimal()),
    "AP": average_precision(),
    "AP@3": average_precision(k=3),
    **{f"RBP(p={p})": rbp(float(p)) for p in ("0.5", "0.8", "0.01", "0.999999", "0.999999999999999", "0")},
    "nRBP(p=0.8)": nrbp(0.8),
    "ERR(max=1)": err(1),
    "ERR(max=4)": err(4),
    "PairError": pair_error,
}
GRADED = {"nDCG", "nDCG@3", "nDCG(gain=linear)", "nDCG(discount=log2(r))", "DCG", "DCG@4", "CG@3", "PairError"}

BINARY = [(7, 3), (9, 4), (10, 9), (12, 2), (4, 4), (40, 39), (40, 1), (60, 59), (14, 12)]
GRADES: list[tuple[float, ...]] = [
    *((3, 1, 0, 2, 1), (60, 1, 0, 0, 2), (4, 2, 1, 0, 0, 0, 0), (1e-13, 0, 0, 0, 0, 0), (1, 1e-9, 1e-13, 0)),
    *((0.1, 0.2, 0.3, 0.1, 0.7), (0.5, 0.25, 0, 0, 1)),
]


def exact_steps(values: Iterator[Exact]) -> tuple[list[Exact], list[Fraction]]:
    """Return the distinct scores, ascending, and the CDF at each, from the scores of equally likely orders."""
    with localcontext() as context:
        context.prec = DIGITS
        counts: Counter[Exact] = Counter()
        for value in values:
            # Decimals of equal numbers may differ in their last digits.
            counts[round(value, DIGITS - 40) if isinstance(value, Decimal) else value] += 1
    total = sum(counts.values())
    support = sorted(counts)
    return support, [Fraction(below, total) for below in accumulate(counts[value] for value in support)]


def require_true(name: str, found: rb.ScoreDistribution, values: Iterator[Exact]) -> None:
    """Fail if the CDF at a score, or anywhere between two that float64 tells apart, is wrong by more than it states."""
    support, steps = exact_steps(values)
    x, truth = np.array([float(value) for value in support]), np.array([float(step) for step in steps])
    apart = np.diff(x) > 1e-10 * x[1:]
    wrong_between = np.abs(found.cdf((x[1:] + x[:-1]) / 2) - truth[:-1])[apart]
    largest = max(np.abs(found.cdf(x) - truth).max(), wrong_between.max(initial=0.0))
    assert largest <= found.error + 1e-12, (name, found.profile, largest, found.error)
    # All scores differ by more than the rounding of a float64 sum.
    if all(float(high - low) > 1e-13 * x[-1] for low, high in pairwise(support)):  # type: ignore[operator]
        assert found.error < 1e-11, (name, found.profile)
        assert len(found.support[found.probability > 0]) == len(support), (name, found.profile)
    require_distribution(found)
    np.testing.assert_allclose(found.cdf(found.support), np.cumsum(found.probability), atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_the_error_covers_all_orders_of_binary_lists(name: str) -> None:
    for n, p in BINARY:
        require_true(name, rb.score_distribution(name, n, p), map(METRICS[name], binary_orders(n, p)))


@pytest.mark.parametrize("name", [name for name in METRICS if name in GRADED or name.startswith(("RBP", "ERR"))])
def test_the_error_covers_all_orders_of_graded_lists(name: str) -> None:
    for grades in GRADES:
        if name.startswith("ERR") and (any(y % 1 for y in grades) or max(grades) > int(name[-2])):
            continue
        if name.startswith("RBP"):
            grades = tuple(float(y >= 1) for y in grades)
        if name == "PairError" and min(grades, key=lambda y: y or 1) < 1e-12:
            # A difference of ranks times grades has the rounding error of the largest grade.
            continue
        require_true(name, rb.score_distribution(name, relevance=grades), map(METRICS[name], graded_orders(grades)))


@pytest.mark.parametrize("name", ["nDCG", "AP", "DCG(discount=log2(r))", "RBP(p=0.9)", "RBP(p=0.99)"])
@pytest.mark.parametrize(
    ("n", "p"),
    [
        *((16, 8), (20, 6), (30, 4), (40, 36)),
        *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((22, 11), (24, 12), (30, 7), (58, 5))),
    ],
)
def test_bins_keep_to_the_error_that_they_state(name: str, n: int, p: int) -> None:
    """Lists short enough to enumerate, by the method for long ones, which refuses what no bins can hold."""
    of = Sum(rb.metric(name), RandomOrders(n, p))
    table = binned_distributions([of], work=3e7).get((n, p))
    binned = rb.score_distribution(name, n, p).binned()
    support, chances, lost, _ = enumerate_orders(of)
    assert lost == 0
    above = np.cumsum(chances)
    tables = [] if table is None else [(edges_of(table.support, table.width), table.probability, table.lost)]
    if binned.width > 0:
        tables.append((edges_of(binned.support, binned.width), binned.probability, binned.error))
    for edges, mass, error in tables:
        linear = np.interp(support, edges, np.concatenate([[0.0], np.cumsum(mass)]))
        assert max(np.abs(linear - above).max(), np.abs(linear - above + chances).max()) <= error


@pytest.mark.parametrize("ranks", [(1, 2, 3), (151, 161, 175), (151, 152, 200), (100, 120, 140), (30, 150, 200)])
def test_scores_of_more_digits_than_a_float64_are_counted(ranks: tuple[int, int, int]) -> None:
    """RBP(p=0.5) of 3 relevant items among 200 orders lists as their ranks do, from the first one on."""
    found, (first, second, third) = rb.score_distribution("RBP(p=0.5)", 200, 3), ranks
    not_above = comb(200 - first, 3) + comb(200 - second, 2) + 201 - third
    score = sum(0.5**rank for rank in ranks)
    assert abs(float(found.cdf(score)) - not_above / comb(200, 3)) <= found.error < 0.01
    if third - first < 50:
        assert float(found.cdf(score)) == pytest.approx(not_above / comb(200, 3), abs=1e-12)
