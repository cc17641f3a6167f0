"""Score distributions: worked examples, brute force over all orders, closed forms, long lists, draws."""

import csv
from fractions import Fraction
from itertools import combinations
from math import comb, log2
from pathlib import Path

import numpy as np
import pytest

from rankbound.bounds import score_distribution as module
from rankbound.bounds.exact import binned_distributions, enumerate_orders
from rankbound.bounds.sampled import OF_THESIS, RandomOrders
from rankbound.bounds.score_distribution import score_distribution, score_distributions

METRICS = ("nDCG", "AP", "nRBP")
EXAMPLES = Path(__file__).parents[1] / "reference" / "worked_examples.csv"


def all_scores(metric: str, n: int, p: int) -> dict[float, Fraction]:
    """Score -> probability over all orders, by the formulas as the thesis prints them; AP in exact fractions."""
    ideal = sum(1 / log2(rank + 1) for rank in range(1, p + 1))
    found: dict[object, int] = {}
    for ranks in combinations(range(1, n + 1), p):
        value: object
        if metric == "nDCG":
            value = round(sum(1 / log2(rank + 1) for rank in ranks) / ideal, 11)
        elif metric == "AP":
            value = sum(Fraction(index, rank) for index, rank in enumerate(ranks, 1)) / p
        else:
            value = sum(rank - 1 for rank in ranks) - p * (p - 1) // 2
        found[value] = found.get(value, 0) + 1
    return {float(value): Fraction(count, comb(n, p)) for value, count in sorted(found.items())}  # type: ignore


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "p"), [(n, p) for n in range(1, 9) for p in range(1, n + 1)])
def test_agrees_with_brute_force_over_all_orders(metric: str, n: int, p: int) -> None:
    expected = all_scores(metric, n, p)
    found = score_distribution(metric, n, p)
    assert found.width == 0
    np.testing.assert_allclose(found.support, list(expected), atol=1e-10)
    np.testing.assert_allclose(found.probability, [float(share) for share in expected.values()], atol=1e-14)
    np.testing.assert_allclose([found.minimum, found.maximum], [found.support[0], found.support[-1]], atol=1e-12)
    np.testing.assert_allclose(found.cdf(found.support), np.cumsum(found.probability), atol=1e-12)


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in csv.DictReader(EXAMPLES.read_text().splitlines())
        if row["id"] in {"Eq3.13-a", "Eq3.13-b", "Eq3.13-c", "T-A1-min", "T-A2-lo", "T-A2-hi"}
    ],
    ids=lambda row: str(row["id"]),
)
def test_worked_examples_of_the_thesis(row: dict[str, str]) -> None:
    inputs = dict(part.strip().split("=") for part in row["inputs"].split(";"))
    metric = inputs["metric"].removesuffix("_loss")
    one = score_distribution(metric, int(inputs["N"]), int(inputs["P"]))
    found = {
        "gain": lambda: one.gain(),
        "cdf_at_smallest": lambda: float(one.cdf(one.minimum)),
        "smooth_cdf": lambda: float(one.smooth_cdf(one.minimum if inputs["at"] == "min" else one.maximum)),
    }[inputs["quantity"]]()
    assert found == pytest.approx(float(row["expected"]), abs=float(row["tolerance"]))


def test_worked_example_of_the_distribution_bound() -> None:
    """T-db-1: relevance 1, 0, 1 by rank; two of the three orders score the same or lower."""
    value = (1 + 1 / log2(4)) / (1 + 1 / log2(3))
    assert float(score_distribution("nDCG", 3, 2).cdf(value)) == pytest.approx(2 / 3, abs=1e-12)


def test_a_score_equal_to_an_atom_counts_despite_rounding() -> None:
    one = score_distribution("AP", 8, 4)
    for shift in (-1e-14, 0.0, 1e-14):
        np.testing.assert_allclose(one.cdf(one.support + shift), np.cumsum(one.probability), atol=1e-12)
    assert one.cdf(one.support[3] - 1e-6) == pytest.approx(one.probability[:3].sum())


@pytest.mark.parametrize(("n", "p"), [(100, 50), (60, 3), (130, 65), (200, 7), (90, 80)])
def test_nrbp_is_mann_whitneys_statistic(n: int, p: int) -> None:
    statistics = pytest.importorskip("scipy.stats")
    one = score_distribution("nRBP", n, p)
    table = statistics._mannwhitneyu._MWU(min(p, n - p), max(p, n - p))
    np.testing.assert_allclose(one.probability, table.pmf(np.arange(p * (n - p) + 1)), atol=1e-14, rtol=1e-7)


@pytest.mark.parametrize(("n", "p"), [(2454, 1227), (1500, 20), (1000, 3)])
def test_nrbp_of_long_lists_stays_a_distribution(n: int, p: int) -> None:
    one = score_distribution("nRBP", n, p)
    assert len(one.support) == p * (n - p) + 1
    assert one.probability.min() >= 0
    assert one.probability.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_array_equal(one.probability, one.probability[::-1])
    variance = (one.probability * (one.support - one.expectation) ** 2).sum()
    assert variance == pytest.approx(p * (n - p) * (n + 1) / 12, rel=1e-9)


@pytest.mark.parametrize("metric", ["nDCG", "AP"])
@pytest.mark.parametrize(("n", "p"), [(22, 11), (24, 12), (26, 9), (30, 7), (58, 5), (60, 56)])
def test_fourier_tables_keep_to_the_error_that_they_state(metric: str, n: int, p: int) -> None:
    """Lists that can still be enumerated, sent through the long lists' method: rugged CDFs, the hardest for it."""
    support, probability, _ = enumerate_orders(OF_THESIS[metric], RandomOrders(n, p))
    table = binned_distributions(OF_THESIS[metric], [(n, p)])[n, p]
    linear = np.interp(support, table.edges, np.concatenate([[0.0], np.cumsum(table.probability)]))
    above = np.cumsum(probability)
    distance = max(np.abs(linear - above).max(), np.abs(linear - above + probability).max())
    assert distance <= table.error <= 1e-4


@pytest.mark.parametrize("metric", ["nDCG", "AP"])
@pytest.mark.parametrize(("n", "p"), [(100, 50), (121, 6), (400, 100), (1500, 375), (2454, 1227), (300, 290)])
def test_fourier_tables_of_long_lists(metric: str, n: int, p: int) -> None:
    one = score_distribution(metric, n, p)
    edges = one.support[0] + one.width * (np.arange(len(one.support) + 1) - 0.5)
    assert one.width > 0
    assert one.error <= 1e-4
    assert len(one.support) <= 65536
    np.testing.assert_allclose([edges[0], edges[-1]], [one.minimum, one.maximum], atol=1e-12)
    assert one.probability.min() >= 0
    assert one.probability.sum() == pytest.approx(1, abs=1e-12)
    mean = (one.probability * one.support).sum()
    spread = ((one.probability * (one.support - mean) ** 2).sum() - one.width**2 / 12) ** 0.5
    assert mean == pytest.approx(one.expectation, abs=1e-5 * one.sd)
    assert spread == pytest.approx(one.sd, rel=2e-4)


@pytest.mark.parametrize(("n", "p"), [(60, 20), (150, 75)])
@pytest.mark.parametrize("metric", ["nDCG", "AP"])
def test_fourier_tables_agree_with_a_fine_walk(metric: str, n: int, p: int) -> None:
    """A walk over (rank, relevant so far, binned score so far + expected rest), mass split over three points."""
    one = score_distribution(metric, n, p)
    x, below = walk(metric, n, p, points=6000)
    middle = (x[1:] + x[:-1]) / 2
    assert np.abs(one.cdf(middle) - below[:-1]).max() <= one.error + 2e-4


def walk(metric: str, n: int, p: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The grid of scores and the cumulative mass at it."""
    kind = OF_THESIS[metric]
    low, high = kind.minimum(n, p), kind.maximum(n, p)
    step = (high - low) / (points - 1)
    margin = points // 2
    rest = np.zeros((n + 1, p + 2))
    increments = np.zeros((n + 1, p + 1))
    for rank in range(n, 0, -1):
        left = n - rank + 1
        for found in range(min(p, rank - 1), -1, -1):
            chance = min(max((p - found) / left, 0), 1)
            added = float(kind.increment(np.float64(rank), np.float64(found + 1))) / kind.scale(p)
            increments[rank, found] = added
            rest[rank - 1, found] = chance * (added + rest[rank, found + 1]) + (1 - chance) * rest[rank, found]
    mass = np.zeros((p + 2, points + 2 * margin))
    start = low - margin * step
    spread(mass[0], np.array([1.0]), (rest[0, 0] - start) / step, 0)
    for rank in range(1, n + 1):
        new = np.zeros_like(mass)
        for found in range(max(0, p - (n - rank + 1)), min(p, rank - 1) + 1):
            chance = (p - found) / (n - rank + 1)
            up = increments[rank, found] + rest[rank, found + 1] - rest[rank - 1, found]
            down = rest[rank, found] - rest[rank - 1, found]
            if chance > 0:
                spread(new[found + 1], chance * mass[found], up / step, None)
            if chance < 1:
                spread(new[found], (1 - chance) * mass[found], down / step, None)
        mass = new
    return start + step * np.arange(mass.shape[1]), np.cumsum(mass[p])


def spread(target: np.ndarray, mass: np.ndarray, shift: float, at: int | None) -> None:
    """Add `mass`, moved by `shift` grid steps, keeping mean and variance: quadratic weights on three points."""
    whole = round(shift)
    part = shift - whole
    for offset, weight in ((-1, part * (part - 1) / 2), (0, 1 - part**2), (1, part * (part + 1) / 2)):
        if at is not None:
            target[whole + offset] += weight * mass[0]
        else:
            target += weight * np.roll(mass, whole + offset)


@pytest.mark.parametrize("metric", METRICS)
def test_a_batch_of_pairs_equals_one_by_one(metric: str) -> None:
    pairs = [(90, 30), (8, 4), (60, 20), (75, 25), (90, 45), (61, 20)]
    for (n, p), one in zip(pairs, score_distributions(metric, pairs), strict=True):
        alone = score_distribution(metric, n, p)
        assert (one.n, one.p) == (n, p)
        np.testing.assert_allclose(one.support, alone.support, rtol=1e-12)
        x = np.linspace(one.minimum, one.maximum, 501)
        np.testing.assert_allclose(one.cdf(x), alone.cdf(x), atol=2e-6)


@pytest.mark.parametrize("metric", ["nDCG", "AP"])
def test_the_expected_distinct_scores_are_those_of_a_sample(metric: str) -> None:
    """AP is a sum of fractions: one draw in ten repeats an earlier score here."""
    for n, p in ((30, 8), (60, 6)):
        drawn = score_distribution(metric, n, p, method="sampled", samples=100_000, seed=3)
        exact = score_distribution(metric, n, p)
        assert (drawn.count, exact.samples) != (100_000, 100_000)
        assert exact.count == pytest.approx(score_distribution(metric, n, p, method="sampled").count, rel=0.02)


def test_extremes_of_the_draws() -> None:
    tiny = score_distribution("AP", 8, 4)
    assert (tiny.low, tiny.high) == (tiny.minimum, tiny.maximum)
    long = score_distribution("nRBP", 400, 200)
    # The median extreme of 300,000 normal draws lies 4.58 standard deviations out.
    assert (long.high - long.expectation) / long.sd == pytest.approx(4.58, abs=0.05)
    assert long.high + long.low == pytest.approx(2 * long.expectation, abs=1.5)


@pytest.mark.parametrize("metric", METRICS)
def test_certain_scores(metric: str) -> None:
    whole = score_distribution(metric, 5, 5)
    assert whole.support.tolist() == [0.0 if metric == "nRBP" else 1.0]
    assert whole.cdf(whole.support[0]) == 1.0
    with pytest.raises(ValueError, match="all its orders have the same score"):
        whole.gain()
    none = score_distribution(metric, 5, 0)
    assert np.isnan(none.support).tolist() == [True]
    assert np.isnan(none.cdf(0.5))
    with pytest.raises(ValueError, match="5 items with 0 relevant"):
        none.smooth_cdf(0.5)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_integers_of_numpy_do_not_overflow(dtype: type) -> None:
    for metric in ("nRBP", "AP", "P@10"):
        found, expected = score_distribution(metric, dtype(300), dtype(150)), score_distribution(metric, 300, 150)
        assert (found.expectation, found.sd, found.gain()) == (expected.expectation, expected.sd, expected.gain())
        assert found.profile.key == expected.profile.key
    (found,) = score_distributions("nRBP", [(dtype(300), dtype(150))])
    assert found.sd == score_distribution("nRBP", 300, 150).sd


def test_a_loss_with_more_scores_than_memory_holds_is_sampled_or_refused() -> None:
    """A list of 100,000 items, half of them relevant, would take several arrays of 20 GB."""
    found = score_distribution("nRBP", 100_000, 50_000, method="auto", samples=20)
    assert 0 < len(found.support) <= 20
    assert abs(found.support.mean() - found.expectation) < 6 * found.sd / 20**0.5
    with pytest.raises(ValueError, match="it has 2,500,000,001 scores, more than 50,000,000"):
        score_distribution("nRBP", 100_000, 50_000)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="Did you mean nDCG"):
        score_distribution("nDGC", 5, 2)
    for wrong in ({}, {"n": 5}, {"n": 5, "p": 2, "relevance": [1, 0]}, {"p": 2, "relevance": [1, 0]}):
        with pytest.raises(ValueError, match=r"^score_distribution: expected either n and p, or relevance="):
            score_distribution("AP", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^relevance: found -1.0, expected grades from 0"):
        score_distribution("nDCG", relevance=[1, -1])
    with pytest.raises(ValueError, match="found 0 items"):
        score_distribution("nDCG", relevance=[])
    with pytest.raises(ValueError, match="found 5 items with 6 relevant"):
        score_distribution("AP", 5, 6)
    with pytest.raises(ValueError, match=r"^n, p: found 5\.0 and 2, expected integers"):
        score_distribution("AP", 5.0, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method 'guess'"):
        score_distribution("AP", 5, 2, method="guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gain 'wide' is not one of distinct, drawn, sd"):
        score_distribution("AP", 5, 2).gain("wide")  # type: ignore[arg-type]


def test_binning_keeps_small_tables_and_bounds_the_error_of_large_ones() -> None:
    small = score_distribution("nDCG", 12, 6)
    assert small.binned() is small
    for metric, n, p in (("nDCG", 22, 8), ("nRBP", 260, 130), ("nRBP", 2000, 1000)):
        atoms = score_distribution(metric, n, p)
        bins = atoms.binned()
        assert bins.width > 0
        assert len(bins.support) < len(atoms.support) / 4
        assert bins.error <= 1e-4 + atoms.error
        assert np.abs(bins.cdf(atoms.support) - atoms.cdf(atoms.support)).max() <= bins.error
        assert bins.probability.sum() == pytest.approx(1, abs=1e-12)


def test_nrbp_bins_still_step_at_the_integers() -> None:
    atoms = score_distribution("nRBP", 300, 150)
    bins = atoms.binned()
    x = np.array([11000.0, 11000.4, 11000.99, 11001.0])
    np.testing.assert_allclose(bins.cdf(x), atoms.cdf(x), atol=2e-5)
    assert bins.cdf(x)[0] == bins.cdf(x)[2] < bins.cdf(x)[3]
    np.testing.assert_allclose(bins.smooth_cdf(x, gain=60.0), atoms.smooth_cdf(x, gain=60.0), atol=2e-5)


def test_the_constants_agree_with_the_thesis() -> None:
    assert module.SAMPLES == 300_000
