"""Score distributions: brute force over all orders, closed forms, long lists, draws, bins, and what is refused."""

import math
from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from brute_force import Order, binary_orders, graded_orders
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from test_bounds import require_distribution
from test_own_metric import METRICS as OWN
from test_own_metric import ORACLES

import rankbound as rb
from rankbound.bounds.orders import binned_distributions, edges_of
from rankbound.bounds.score_distribution import SAMPLES, ScoreDistribution, score_distribution, score_distributions
from rankbound.bounds.sums import RandomOrders, Sum, sums_of_orders
from rankbound.ranks import n_orders
from tests.library.refusals import problems, refusals

THESIS = ("nDCG", "AP", "nRBP")
SUMS = (*THESIS, "DCG", "RBP(p=0.8)")
SIZES = [(n, p) for n in range(1, 9) for p in range(n + 1)]
DRAWN_SIZES = st.integers(2, 70).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))
GRADED: list[Order] = [(0,), (2,), (0, 2), (0, 1, 2), (1, 3, 0, 0), (2, 2, 2), (3, 1, 0, 2, 1), (0, 0, 1, 3, 2, 2)]


def require_all_orders(found: ScoreDistribution, name: str, orders: Sequence[Order], chances: Sequence[float]) -> None:
    """Fail unless scores, chances, moments, gains and both CDFs are those of these orders."""
    known, where = [ORACLES[name](order) for order in orders], f"{name} of {found.profile}, tilt {found.tilt}"
    if None in known:
        assert np.isnan([found.minimum, found.maximum, found.expectation, *found.support, found.cdf(0.5)]).all(), where
        return
    # Floats are one score where they agree to 12 digits; fractions are exact.
    numbers = np.array([round(value, 12) if isinstance(value, float) else float(value) for value in known])  # type: ignore[arg-type]
    share = np.array(chances)
    support, which = np.unique(numbers, return_inverse=True)
    mass, close = np.bincount(which, share), {"rtol": 1e-10, "atol": 1e-11, "err_msg": where}
    assert (np.diff(found.support) > 0).all(), where
    carried = found.probability > 1e-15
    np.testing.assert_allclose(found.support[carried], support, **close)
    np.testing.assert_allclose(found.probability[carried], mass, **close)
    np.testing.assert_allclose(found.cdf(support + 1e-12), np.cumsum(mass), **close)
    np.testing.assert_allclose(found.cdf((support[1:] + support[:-1]) / 2), np.cumsum(mass)[:-1], **close)
    assert (found.cdf(support[0] - 1e-6), found.cdf(support[-1] + 1e-6)) == (0, pytest.approx(1, abs=1e-12)), where
    mean = share @ numbers
    sd = math.sqrt(share @ (numbers - mean) ** 2)
    theirs = [numbers.min(), numbers.max(), mean, sd]
    ours = [found.minimum, found.maximum, found.expectation, found.sd]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-7, err_msg=where)
    if len(support) == 1:
        with pytest.raises(ValueError, match="all its orders have the same score"):
            found.gain()
    elif found.tilt == 1:
        span = support[-1] - support[0]
        for gain, a in (("distinct", len(support) / span), ("drawn", SAMPLES / span), ("sd", 1 / sd)):
            assert found.gain(gain) == pytest.approx(a, rel=1e-9), where  # type: ignore[arg-type]
            x = np.linspace(support[0] - 0.1 * span, support[-1] + 0.1 * span, 23)
            written_out = (mass / (1 + np.exp(-np.clip(a * (x[:, None] - support), -700, 700)))).sum(1)
            # The scores of brute force are rounded to 12 digits.
            smooth = found.smooth_cdf(x, gain=gain)  # type: ignore[arg-type]
            np.testing.assert_allclose(smooth, written_out, rtol=1e-8, atol=1e-12 * a)


def chance(order: Order, tilt: float) -> float:
    """Return the probability of these relevant ranks: one weighted draw after the other, from the top."""
    product, relevant, others = 1.0, sum(map(bool, order)), len(order) - sum(map(bool, order))
    for flag in map(bool, order):
        weights = tilt * relevant, others
        product *= weights[not flag] / sum(weights)
        relevant, others = relevant - flag, others - (1 - flag)
    return product


@pytest.mark.parametrize("tilt", [1.0, 0.3, 4.0])
@pytest.mark.parametrize("name", ORACLES)
def test_score_distribution_of_every_short_list(name: str, tilt: float) -> None:
    """Its scores and their chances are the shares of all orders, whatever the way to them."""
    metric = OWN.get(name) or rb.metric(name)
    grade = getattr(metric, "rel", 1)
    longest = (8 if name in THESIS else 6) - (tilt != 1)
    for n, p in [(n, p) for n, p in SIZES if n <= longest]:
        orders = [tuple(grade * relevant for relevant in order) for order in binary_orders(n, p)]
        found = rb.score_distribution(metric, n=n, p=p, tilt=tilt)
        require_all_orders(found, name, orders, [chance(order, tilt) for order in orders])


@pytest.mark.parametrize("name", ORACLES)
def test_score_distribution_of_graded_lists(name: str) -> None:
    for grades in GRADED:
        orders = graded_orders(grades)
        found = rb.score_distribution(OWN.get(name, name), relevance=list(grades), samples=SAMPLES)
        require_all_orders(found, name, orders, [1 / len(orders)] * len(orders))


@pytest.mark.parametrize(("n", "p", "tilt"), [(6, 1, 5.0), (6, 3, 0.5), (7, 2, 3.0)])
def test_the_only_score_of_tilted_orders_is_one_distinct_score(n: int, p: int, tilt: float) -> None:
    """Its probability may exceed 1 by rounding."""
    assert rb.score_distribution("P@10", n=n, p=p, tilt=tilt).count == 1


WALKED = [(12, 5, 4.0), (60, 20, 0.25), (40, 2, 4.0), (90, 60, 9.0), (100, 50, 1.0), (40, 1, 1.0), (90, 80, 1.0)]


@pytest.mark.parametrize(("n", "p", "tilt"), WALKED)
def test_nrbp_is_a_walk_over_integers_and_mann_whitneys_statistic(n: int, p: int, tilt: float) -> None:
    """Whichever comes first of what is left: another item stands before all relevant ones that are left."""
    known: dict[tuple[int, int], np.ndarray] = {(0, b): np.ones(1) for b in range(n - p + 1)}
    for a in range(1, p + 1):
        known[a, 0] = np.ones(1)
        for b in range(1, n - p + 1):
            first = tilt * a / (tilt * a + b)
            masses = np.zeros(a * b + 1)
            masses[: (a - 1) * b + 1] += first * known[a - 1, b]
            masses[a:] += (1 - first) * known[a, b - 1]
            known[a, b] = masses
    one, ranks = rb.score_distribution("nRBP", n, p, tilt=tilt), np.arange(p * (n - p) + 1)
    np.testing.assert_array_equal(one.support, ranks)
    np.testing.assert_allclose(one.probability.cumsum(), known[p, n - p].cumsum(), atol=1e-9)
    # Every pair of a relevant and another item is in the wrong order with probability 1 / (1 + t).
    assert one.probability @ ranks == pytest.approx(p * (n - p) / (1 + tilt), rel=1e-8)
    if tilt == 1:
        table = stats._mannwhitneyu._MWU(min(p, n - p), max(p, n - p))
        np.testing.assert_allclose(one.probability, table.pmf(ranks), atol=1e-14, rtol=1e-7)


@pytest.mark.parametrize("name", THESIS)
@pytest.mark.parametrize(("n", "p"), [(100, 50), (121, 6), (400, 100), (700, 20), (1500, 375), (300, 290)])
def test_long_lists_have_the_moments_and_the_range_of_the_closed_forms(name: str, n: int, p: int) -> None:
    one = score_distribution(name, n, p)
    assert one.error <= 1e-4
    if name == "nRBP":
        assert len(one.support) == p * (n - p) + 1
        np.testing.assert_array_equal(one.probability, one.probability[::-1])
    else:
        assert one.width > 0
        assert len(one.support) <= 65536
    closed = [float(function(name, n, p)) for function in (rb.minimum, rb.maximum, rb.expectation)]
    assert [one.minimum, one.maximum, one.expectation] == pytest.approx(closed)
    edges = one.support[[0, -1]] + 0.5 * one.width * np.array([-1, 1])
    np.testing.assert_allclose(edges, [one.minimum, one.maximum], atol=1e-12)
    require_distribution(one)
    mean = (one.probability * one.support).sum()
    spread = ((one.probability * (one.support - mean) ** 2).sum() - one.width**2 / 12) ** 0.5
    assert mean == pytest.approx(one.expectation, abs=1e-5 * one.sd)
    assert spread == pytest.approx(one.sd, rel=2e-4)


@pytest.mark.parametrize("metric", THESIS)
def test_a_batch_of_pairs_equals_one_by_one(metric: str) -> None:
    pairs = [(90, 30), (8, 4), (60, 20), (75, 25), (90, 45), (61, 20)]
    for (n, p), one in zip(pairs, score_distributions(metric, pairs), strict=True):
        alone = score_distribution(metric, n, p)
        assert (one.n, one.p) == (n, p)
        np.testing.assert_allclose(one.support, alone.support, rtol=1e-12)
        x = np.linspace(one.minimum, one.maximum, 501)
        np.testing.assert_allclose(one.cdf(x), alone.cdf(x), atol=2e-6)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.sampled_from([*SUMS[:4], "RR", "P@1", "nDCG@2", "Kendall", "LinearNDCG"]), DRAWN_SIZES)
def test_gains_and_smooth_cdfs_of_drawn_sizes_are_in_range(name: str, sizes: tuple[int, int]) -> None:
    n, p = sizes
    if 200_000 < comb(n, p) <= 5_000_000:  # enumeration is tested elsewhere, and takes a second
        n, p = 12, min(p, 11)
    one = score_distribution(name, n, p)
    assert one.minimum <= one.low <= one.high <= one.maximum
    assert 0 < one.count <= min(one.samples, comb(one.n, one.p)) * (1 + 1e-9)
    assert 0 <= one.error <= 1e-4
    x = one.minimum + np.linspace(-0.5, 1.5, 21) * (one.maximum - one.minimum)
    for values in (one.smooth_cdf(x), one.smooth_cdf(x, "sd")):
        assert np.all(np.diff(values) >= -1e-12)
        assert 0 <= values.min() <= values.max() <= 1 + 1e-12
    # A huge gain gives the discrete CDF between the scores: some of them, as each is compared with the whole support.
    between = (one.support[1:] + one.support[:-1]) / 2 if one.width == 0 else one.support[:-1] + one.width / 2
    between = between[np.unique(np.linspace(0, len(between) - 1, 100).astype(int))] if len(between) else between
    steep = one.smooth_cdf(between, gain=1e4 / np.diff(one.support).min(initial=1.0))
    tolerance = 1e-9 if one.width == 0 else 1e-3 * one.probability.max()
    np.testing.assert_allclose(steep, one.cdf(between), atol=tolerance)


def require_drawn(exact: ScoreDistribution, drawn: ScoreDistribution) -> None:
    """Fail unless draws agree with the exact distribution by a distance that is exceeded once in 1e9 runs."""
    bound = (np.log(2e9) / (2 * drawn.samples)) ** 0.5 + exact.error
    # Between the scores, where a step and its neighbour can't be confused by rounding.
    middles = (drawn.support[1:] + drawn.support[:-1]) / 2
    assert np.abs(drawn.cdf(middles) - exact.cdf(middles)).max(initial=0.0) <= bound
    mean = drawn.probability @ drawn.support
    assert mean == pytest.approx(exact.expectation, abs=7 * exact.sd / drawn.samples**0.5)
    assert drawn.count == len(drawn.support)
    assert [drawn.minimum, drawn.maximum] == pytest.approx([exact.minimum, exact.maximum], abs=1e-12)
    assert exact.minimum - 1e-12 <= drawn.low <= drawn.high <= exact.maximum + 1e-12


DRAWN = st.sampled_from([*THESIS, "nDCG@3", "AP@2", "RR", "P@3", "Hit@3", "RBP(p=0.8)", "Kendall", "DCG"])


@given(DRAWN, DRAWN_SIZES, st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 4)
def test_samples_agree_within_dvoretzky_kiefer_wolfowitz(name: str, sizes: tuple[int, int], seed: int) -> None:
    n, p = sizes
    if 200_000 < comb(n, p) <= 5_000_000 or name in ("nDCG@3", "AP@2"):
        n, p = min(n, 12), min(p, 11, n - 1)
    options: dict[str, Any] = {"method": "sampled", "samples": 20_000, "seed": seed}
    drawn, again = (score_distribution(name, n, p, **options) for _ in range(2))
    require_drawn(score_distribution(name, n, p), drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKBOUND_FAST", "0")
        plain = score_distribution(name, n, p, **options)
    for other in (again, plain):
        np.testing.assert_allclose(other.support, drawn.support, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(other.probability, drawn.probability)


LONG_GRADED = (4, 3, 2, 2, 2, 1, 1, 1, 1) + (0,) * 31


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        *((name, {"relevance": (3, 2, 2, 1, 0, 0, 0, 0, 0)}) for name in ("nDCG", "ERR(max=4)", "AP(rel=2)")),
        *((name, {"relevance": (1, 1, 2, 4, 0, 0)}) for name in ("nDCG(gain=linear)", "Kendall", "PairError")),
        # Lists with too many orders, of which few patterns of the first ranks count.
        *((name, {"relevance": LONG_GRADED}) for name in ("nDCG@3", "ERR(max=4)@3", "AP(rel=2)@3", "RR@2", "CG@3")),
        *((name, {"n": 60, "p": 20, "tilt": 4.0}) for name in ("nDCG", "AP")),
        ("nDCG", {"n": 150, "p": 100, "tilt": 0.3}),
        ("AP", {"n": 150, "p": 100, "tilt": 0.3}),
    ],
)
def test_drawn_orders_of_graded_and_tilted_lists_agree(name: str, lists: dict[str, Any]) -> None:
    exact = rb.score_distribution(name, **lists)
    require_drawn(exact, rb.score_distribution(name, **lists, method="sampled", samples=20_000))
    assert exact.error < 1e-4
    assert exact.probability.sum() == pytest.approx(1, abs=1e-12)
    assert exact.probability @ exact.support == pytest.approx(exact.expectation, abs=1e-5)
    if "relevance" in lists:
        grades = np.array(lists["relevance"])
        expected = rb.expectation(name, relevance=grades, offsets=np.array([0, len(grades)]))[0]
        assert exact.expectation == pytest.approx(expected, rel=1e-9)
        ones = [rb.score_distribution(name, relevance=y, method="sampled", samples=99) for y in (grades, grades[::-1])]
        np.testing.assert_array_equal(ones[0].support, ones[1].support)


@pytest.mark.parametrize(("n", "p"), [(5, 2), (7, 4), (6, 6), (9, 1)])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.usefixtures("each_way")
def test_every_set_of_ranks_is_equally_likely(n: int, p: int, counts: bool) -> None:
    """Metrics share their orders, seeds do not: the rank sum decides nRBP, and the same ranks decide nDCG."""
    counted = np.zeros(n) if counts else None
    sets = {float(sum(2**rank for rank in chosen)) for chosen in combinations(range(n), p)}
    drawn, found = np.unique(sums_of_orders(2.0 ** np.arange(n), counted, p, 50_000, 7), return_counts=True)
    assert set(drawn) == sets
    assert len(sets) == 1 or stats.chisquare(found).pvalue > 0.001
    ranks = np.arange(1.0, 31.0)
    one, other = (sums_of_orders(fixed, None, 1, 200, 3) for fixed in (ranks, 1 / ranks))
    np.testing.assert_allclose(one * other, 1.0)
    assert not np.array_equal(one, sums_of_orders(ranks, None, 1, 200, 4))


def test_atoms_count_despite_rounding_and_extremes_of_the_draws() -> None:
    one = score_distribution("AP", 8, 4)
    for shift in (-1e-14, 0.0, 1e-14):
        np.testing.assert_allclose(one.cdf(one.support + shift), np.cumsum(one.probability), atol=1e-12)
    assert one.cdf(one.support[3] - 1e-6) == pytest.approx(one.probability[:3].sum())
    assert (one.low, one.high) == (one.minimum, one.maximum)
    long = score_distribution("nRBP", 400, 200)
    # The median extreme of 300,000 normal draws lies 4.58 standard deviations out.
    assert (long.high - long.expectation) / long.sd == pytest.approx(4.58, abs=0.05)
    assert long.high + long.low == pytest.approx(2 * long.expectation, abs=1.5)


@pytest.mark.parametrize(
    ("name", "n", "p", "tilt", "samples"),
    [("nDCG", 60, 6, 1.0, 300_000), ("AP", 30, 8, 1.0, 300_000), ("nDCG", 20, 8, 4.0, 20_000)],
)
def test_expected_distinct_scores_are_those_of_a_sample(name: str, n: int, p: int, tilt: float, samples: int) -> None:
    """AP is a sum of fractions: one draw in ten repeats an earlier score here."""
    exact, drawn = (
        score_distribution(name, n, p, tilt=tilt, samples=samples, method=method)  # type: ignore[arg-type]
        for method in ("exact", "sampled")
    )
    assert exact.count != samples
    assert exact.count == pytest.approx(drawn.count, rel=0.05)


def test_large_lists_do_not_overflow_and_are_sampled_beyond_the_memory() -> None:
    """A list of 100,000 items, half of them relevant, would take several arrays of 20 GB."""
    for metric, dtype in product(("nRBP", "AP", "P@10"), (np.int16, np.int32, np.int64)):
        found, expected = score_distribution(metric, dtype(300), dtype(150)), score_distribution(metric, 300, 150)
        assert (found.expectation, found.sd, found.gain()) == (expected.expectation, expected.sd, expected.gain())
        assert found.profile.key == expected.profile.key
    found = score_distribution("nRBP", 100_000, 50_000, method="auto", samples=20)
    assert 0 < len(found.support) <= 20
    assert abs(found.support.mean() - found.expectation) < 6 * found.sd / 20**0.5
    assert n_orders([500_000, 500_000]) == math.inf
    drawn = rb.score_distribution("nDCG@100", 20_000, 5_000, method="auto", samples=20)
    assert drawn.low < drawn.expectation < drawn.high
    assert len(rb.score_distribution("nDCG", relevance=MANY, method="auto", samples=100).support) == 100


@pytest.mark.parametrize(("metric", "n", "p"), [("nDCG", 22, 8), ("nRBP", 260, 130), ("nRBP", 2000, 1000)])
def test_binning_bounds_the_error_of_large_tables(metric: str, n: int, p: int) -> None:
    atoms, small = score_distribution(metric, n, p), score_distribution(metric, 12, 6)
    bins = atoms.binned()
    assert bins.width > 0
    assert len(bins.support) < len(atoms.support) / 4
    assert bins.error <= 1e-4 + atoms.error
    assert np.abs(bins.cdf(atoms.support) - atoms.cdf(atoms.support)).max() <= bins.error
    assert bins.probability.sum() == pytest.approx(1, abs=1e-12)
    assert small.binned() is small
    if n == 260:
        x = np.array([8000.0, 8000.4, 8000.99, 8001.0])
        np.testing.assert_allclose(bins.cdf(x), atoms.cdf(x), atol=2e-5)
        assert bins.cdf(x)[0] == bins.cdf(x)[2] < bins.cdf(x)[3], "they still step at the integers"
        np.testing.assert_allclose(bins.smooth_cdf(x, gain=60.0), atoms.smooth_cdf(x, gain=60.0), atol=2e-5)


@pytest.mark.parametrize(("name", "n", "p"), [("nDCG", 22, 8), ("AP", 22, 15)])
def test_bins_of_rugged_lists_keep_to_the_error_that_they_state(name: str, n: int, p: int) -> None:
    singles = rb.score_distribution(name, n=n, p=p, tilt=4.0)
    assert singles.width == 0
    bins = binned_distributions([Sum(rb.metric(name), RandomOrders(n, p, 4.0))], tolerance=1.0)[n, p]
    edges = edges_of(bins.support, bins.width)
    linear = np.interp(singles.support, edges, np.concatenate([[0.0], bins.probability.cumsum()]))
    assert np.abs(linear - singles.probability.cumsum()).max() < bins.lost


def test_texts_grades_and_methods_that_mean_the_same() -> None:
    """Auto is exact where that can be had, and else draws."""
    for text, other in (("nDCG(gain=exp2)", "nDCG"), ("nDCG(gain=linear)", "nDCG"), ("nRBP(rel=2)", "nRBP")):
        found, expected = rb.score_distribution(text, 60, 20), rb.score_distribution(other, 60, 20)
        assert found.metric == str(rb.metric(text))
        np.testing.assert_array_equal(found.support, expected.support)
        np.testing.assert_array_equal(found.probability, expected.probability)
        np.testing.assert_array_equal(found.smooth_cdf([1, 400.5]), expected.smooth_cdf([1, 400.5]))
    for name, grade in (("nDCG", 1), ("AP(rel=2)", 2), ("P(rel=2)@2", 3)):
        found = rb.score_distribution(name, relevance=np.array([0, grade, 0, grade, 0]))
        assert (found.n, found.p, found.grades) == (5, 2, None)
        np.testing.assert_array_equal(found.support, rb.score_distribution(name, 5, 2).support)
    exact, sampled = ("nDCG", "RR", "P@10", "nDCG@5", "DCG"), ("nDCG@20", "RBP(p=0.3)")
    for name in (*exact, *sampled):
        ways: tuple[Any, ...] = ("auto", "exact" if name in exact else "sampled")
        found, expected = (rb.score_distribution(name, 60, 20, method=way, samples=500) for way in ways)
        np.testing.assert_array_equal(found.support, expected.support)


MANY = [0] * 30 + [1] * 10 + [2] * 5
test_distributions_that_cannot_be_are_refused = refusals(
    [
        *problems("distributions"),
        ({"relevance": MANY}, "over 45 items with 5 of grade 2, 10 of grade 1, 30 of grade 0, but it has no"),
    ],
    lambda keywords: rb.score_distribution(**({"metric": "nDCG"} | keywords)),
)
test_gains_that_cannot_be_are_refused = refusals(
    [
        (lambda: score_distribution("AP", 5, 2).gain("wide"), "gain: found wide, expected one of distinct, drawn, sd"),  # type: ignore[arg-type]
        (lambda: score_distribution("AP", 5, 5).gain(), "all its orders have the same score"),
        (lambda: score_distribution("nRBP", 5, 0).smooth_cdf(0.5), "5 items with 0 relevant"),
        (lambda: score_distribution("P@5", 3, 1).gain(), "is undefined: all its orders have the same score"),
    ]
)
