"""Distributions over tilted orders, against all orders of small lists with their Plackett-Luce probabilities."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rankbound as rb
from rankbound.bounds.base import Distribution, bound
from rankbound.bounds.sampled import RandomOrders, Score
from rankbound.bounds.tables import DistributionsOnDemand, DistributionTables
from rankbound.bounds.tilted import binned_tilted
from rankbound.losses.smooth import SmoothLoss

SUMS = ("nDCG", "AP", "nRBP", "DCG", "RBP(p=0.8)")
OTHERS = ("P@2", "Recall@3", "RR", "RR@2", "Hit@2", "nDCG@3", "AP@2", "LinearDCG", "PairError")
TILTS = (0.3, 4.0)


def chance(flags: tuple[int, ...], tilt: float) -> float:
    """Return the probability of these relevant ranks: one weighted draw after the other, from the top."""
    product, relevant, others = 1.0, sum(flags), len(flags) - sum(flags)
    for flag in flags:
        weights = tilt * relevant, others
        product *= weights[not flag] / sum(weights)
        relevant, others = relevant - flag, others - (1 - flag)
    return product


def orders(n: int, p: int) -> list[tuple[int, ...]]:
    return [flags for flags in itertools.product((1, 0), repeat=n) if sum(flags) == p]


def value(metric: str, flags: tuple[int, ...]) -> float:
    scores = -np.arange(len(flags), dtype=np.float64)
    return float(rb.metric(metric)(scores, np.array(flags), np.array([0, len(flags)]))[0])


def shapes(longest: int) -> Iterator[tuple[int, int]]:
    return ((n, p) for n in range(2, longest + 1) for p in range(1, n))


@pytest.mark.parametrize("metric", [*SUMS, *OTHERS])
@pytest.mark.parametrize("tilt", TILTS)
def test_it_is_that_of_all_orders(metric: str, tilt: float) -> None:
    for n, p in shapes(7 if metric in SUMS else 5):
        chances = np.array([chance(flags, tilt) for flags in orders(n, p)])
        values = np.array([value(metric, flags) for flags in orders(n, p)])
        found = rb.score_distribution(metric, n=n, p=p, tilt=tilt)
        assert chances.sum() == pytest.approx(1, abs=1e-12)
        assert found.probability.sum() == pytest.approx(1, abs=1e-12)
        expected = [chances[values <= one + 1e-9].sum() for one in values]
        np.testing.assert_allclose(found.cdf(values + 1e-9), expected, atol=1e-12)
        mean = chances @ values
        assert found.expectation == pytest.approx(mean, abs=1e-9)
        assert found.sd == pytest.approx((chances @ (values - mean) ** 2) ** 0.5, abs=1e-7)


@pytest.mark.parametrize("metric", [*SUMS, *OTHERS])
def test_support_and_extremes_are_those_of_random_orders(metric: str) -> None:
    for n, p in ((5, 0), (5, 5), (1, 1), (6, 2), (7, 4)):
        tilted, uniform = (rb.score_distribution(metric, n=n, p=p, tilt=tilt) for tilt in (4.0, 1.0))
        np.testing.assert_allclose(tilted.support, uniform.support, atol=1e-12)
        np.testing.assert_array_equal([tilted.minimum, tilted.maximum], [uniform.minimum, uniform.maximum])


@pytest.mark.parametrize("metric", [*SUMS, "P@2", "RR"])
@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_a_tilt_of_one_is_no_tilt(metric: str, method: str) -> None:
    options = {"n": 8, "p": 3, "method": method, "samples": 500}
    tilted, plain = (rb.score_distribution(metric, **options, **more) for more in ({"tilt": 1.0}, {}))  # type: ignore[arg-type]
    np.testing.assert_array_equal(tilted.support, plain.support)
    np.testing.assert_array_equal(tilted.probability, plain.probability)
    assert (tilted.count, tilted.low, tilted.high) == (plain.count, plain.low, plain.high)


@pytest.mark.parametrize("name", ["nDCG", "AP", "nRBP"])
def test_the_walks_of_a_tilt_near_one_agree_with_the_formulas(name: str) -> None:
    walked, known = (rb.score_distribution(name, 40, 15, tilt=tilt, samples=1000) for tilt in (1 + 1e-12, 1.0))
    assert walked.expectation == pytest.approx(known.expectation, rel=1e-11)
    assert walked.sd == pytest.approx(known.sd, rel=1e-10)
    x = np.linspace(known.minimum, known.maximum, 301)
    np.testing.assert_allclose(walked.cdf(x), known.cdf(x), atol=walked.error + known.error)


@settings(max_examples=settings.default.max_examples // 2)
@given(n=st.integers(2, 12), share=st.floats(0, 1), tilts=st.tuples(st.floats(0.1, 10), st.floats(1.2, 3)))
def test_expectations_rise_with_the_tilt(n: int, share: float, tilts: tuple[float, float]) -> None:
    p = 1 + round(share * (n - 2))
    for name, sign in (("nDCG", 1), ("AP", 1), ("nRBP", -1)):
        low, high = (rb.score_distribution(name, n, p, tilt=tilts[0] * factor).expectation for factor in (1, tilts[1]))
        assert sign * (high - low) > 0


@pytest.mark.parametrize(("n", "p", "tilt"), [(12, 5, 4.0), (60, 20, 4.0), (60, 20, 0.25), (40, 2, 4.0), (90, 60, 9.0)])
def test_the_nrbp_loss_has_the_probabilities_of_a_walk_over_integers(n: int, p: int, tilt: float) -> None:
    found = rb.score_distribution("nRBP", n, p, tilt=tilt).probability
    np.testing.assert_allclose(found.cumsum(), walked(p, n - p, tilt).cumsum(), atol=1e-9)
    # Every pair of a relevant and another item is in the wrong order with probability 1 / (1 + t).
    assert found @ np.arange(len(found)) == pytest.approx(p * (n - p) / (1 + tilt), rel=1e-8)


def walked(relevant: int, others: int, tilt: float) -> np.ndarray:
    """Whichever comes first of what is left: another item stands before all relevant ones that are left."""
    known: dict[tuple[int, int], np.ndarray] = {(0, b): np.ones(1) for b in range(others + 1)}
    for a in range(1, relevant + 1):
        known[a, 0] = np.ones(1)
        for b in range(1, others + 1):
            first = tilt * a / (tilt * a + b)
            masses = np.zeros(a * b + 1)
            masses[: (a - 1) * b + 1] += first * known[a - 1, b]
            masses[a:] += (1 - first) * known[a, b - 1]
            known[a, b] = masses
    return known[relevant, others]


@pytest.mark.parametrize("name", ["nDCG", "AP"])
@pytest.mark.parametrize(("n", "p", "tilt"), [(60, 20, 4.0), (150, 100, 0.3)])
def test_long_lists_agree_with_drawn_orders(name: str, n: int, p: int, tilt: float) -> None:
    exact, drawn = (
        rb.score_distribution(name, n=n, p=p, tilt=tilt, method=method, samples=20_000)  # type: ignore[arg-type]
        for method in ("exact", "sampled")
    )
    assert exact.error < 1e-4
    assert np.abs(exact.cdf(drawn.support) - drawn.probability.cumsum()).max() < drawn.error
    assert exact.probability @ exact.support == pytest.approx(exact.expectation, abs=1e-5)
    assert exact.expectation == pytest.approx(float(drawn.probability @ drawn.support), abs=5 * exact.sd / 141)


@pytest.mark.parametrize(("name", "n", "p"), [("nDCG", 22, 8), ("AP", 24, 16)])
def test_bins_of_rugged_lists_keep_to_the_error_that_they_state(name: str, n: int, p: int) -> None:
    singles = rb.score_distribution(name, n=n, p=p, tilt=4.0)
    assert singles.width == 0
    binned = binned_tilted(Score(rb.metric(name)), RandomOrders(n, p, 4.0), tolerance=1.0)
    assert binned is not None
    linear = np.interp(singles.support, binned.edges, np.concatenate([[0.0], binned.probability.cumsum()]))
    assert np.abs(linear - singles.probability.cumsum()).max() < binned.error


def test_the_number_of_distinct_scores_is_that_of_drawn_orders() -> None:
    exact = rb.score_distribution("nDCG", n=27, p=13, tilt=4.0, samples=20_000)
    drawn = rb.score_distribution("nDCG", n=27, p=13, tilt=4.0, samples=20_000, method="sampled", seed=1)
    assert exact.width > 0
    assert exact.count == pytest.approx(drawn.count, rel=0.05)


def test_tables_know_their_tilt() -> None:
    made = [rb.score_distribution("AP", n=n, p=3, tilt=2.5) for n in (8, 9)]
    tables = DistributionTables.collect(made)
    assert tables.tilt == tables.of(8, 3).tilt == 2.5
    with pytest.raises(ValueError, match="one tilt"):
        DistributionTables.collect([made[0], rb.score_distribution("AP", n=9, p=3)])


@pytest.mark.parametrize("text", ["distribution", "distribution(tilt=4)", "distribution(gain=sd,tilt=0.5)"])
def test_the_bound_is_its_text(text: str) -> None:
    assert str(bound(text)) == text
    assert bound(str(bound(text))) == bound(text)


@pytest.mark.parametrize("tilt", ["0", "-1", "inf", "nan"])
def test_a_tilt_is_above_zero(tilt: str) -> None:
    with pytest.raises(ValueError, match="tilt"):
        bound(f"distribution(tilt={tilt})")
    with pytest.raises(ValueError, match="tilt"):
        rb.score_distribution("AP", n=5, p=2, tilt=float(tilt))


def test_grades_have_no_tilt() -> None:
    with pytest.raises(ValueError, match="binary"):
        rb.score_distribution("nDCG", relevance=[2, 1, 0, 0], tilt=4.0)


def test_bounds_and_losses_read_the_tilted_distribution() -> None:
    relevance, offsets = np.array([1, 0, 1, 0, 0]), np.array([0, 5])
    scores = np.array([0.1, 0.5, 0.3, 0.2, 0.0])
    bounded = rb.bounded("AP", "distribution(tilt=4)")(scores, relevance, offsets)
    known = rb.score_distribution("AP", n=5, p=2, tilt=4.0)
    assert bounded[0] == pytest.approx(float(known.cdf(rb.metric("AP")(scores, relevance, offsets))[0]))

    plain, tilted = (DistributionTables.collect([rb.score_distribution("AP", n=5, p=2, tilt=t)]) for t in (1.0, 4.0))
    tensors = torch.from_numpy(scores), torch.from_numpy(relevance), torch.from_numpy(offsets)
    own = SmoothLoss("AP", "distribution(tilt=4)")(*tensors)
    assert own == SmoothLoss("AP", Distribution(tilt=4.0), tables=tilted)(*tensors)
    assert own == SmoothLoss("AP", "distribution(tilt=4)", tables=DistributionsOnDemand("AP", tilt=4.0))(*tensors)
    assert own != SmoothLoss("AP", "distribution", tables=plain)(*tensors)
    with pytest.raises(ValueError, match="tilted by 1"):
        SmoothLoss("AP", "distribution(tilt=4)", tables=plain)
