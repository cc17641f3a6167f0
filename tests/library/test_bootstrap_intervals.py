"""Intervals, pairs that share members, and what holds for any scores: draws as scipy's, errors of no bias."""

import math
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.compare import Comparison, PairedScores, Settings, compare, statistics

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

RANDOM = np.random.default_rng(31)
D = RANDOM.gamma(1.0, 0.2, 50) - 0.15


def mean(values: Any, axis: int = -1) -> Any:
    return values.mean(axis)


@pytest.mark.parametrize("limits", [{}, {"_KEPT_DRAWS": 0, "_DRAWS_AT_ONCE": 7 * 50}], ids=["kept", "in batches"])
def test_means_are_those_of_the_drawn_units(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(statistics, name, value)
    drawn = np.random.default_rng(5).integers(0, 50, (301, 50))
    values = np.stack([D, RANDOM.random(50)])
    assert statistics.drawn_means(values, 301, 5) == pytest.approx(values[:, drawn].mean(2), abs=1e-15)
    assert statistics.drawn_means(D, 301, 5) == pytest.approx(D[drawn].mean(1), abs=1e-15)


class TestIntervals:
    def test_products_of_draws_change_no_digit_of_scipys(self) -> None:
        # Of the sorted values and their mirror image statistics.interval_of_mean draws from the one that comes first.
        low, high = np.sort(D), -np.sort(-D)
        found = statistics.interval_of_mean(D, resamples=999, seed=4)
        level = 2 * stats.norm.cdf(stats.t.ppf(0.975, 49) * math.sqrt(50 / 49)) - 1
        theirs = [statistics.bootstrap(mean, low, level, resamples=999, seed=4)]
        mirrored = statistics.bootstrap(mean, -high, level, resamples=999, seed=4)
        theirs.append((-mirrored[1], -mirrored[0]))
        assert any(found == pytest.approx(one, abs=1e-14) for one in theirs)

    def test_percentiles_leave_undefined_resamples_out(self) -> None:
        known = RANDOM.normal(size=400)
        assert statistics.percentiles(
            np.concatenate([known, [math.nan, math.inf, -math.inf]])
        ) == statistics.percentiles(known)
        assert statistics.percentiles(known, 0.9) == pytest.approx(tuple(np.quantile(known, [0.05, 0.95])))
        assert all(map(math.isnan, statistics.percentiles(np.full(9, math.nan))))


def share(part: Any, whole: Any, axis: int = -1) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return part.sum(axis) / whole.sum(axis)


class TestDegenerate:
    """A warning would fail these tests, as any does."""

    def test_undefined_resamples_are_left_out_and_without_any_it_is_nan(self) -> None:
        # Only one of four units counts: a third of the resamples lack it.
        part, whole = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 2.0])
        assert statistics.bootstrap(share, np.stack([part, whole]), resamples=199) == (0.5, 0.5)
        some = np.stack([np.array([0.3, 0.5, 0.0]), np.array([1.0, 1.0, 0.0])])
        low, high = statistics.bootstrap(share, some, resamples=199)
        assert 0.3 <= low <= high <= 0.5
        for none in (np.zeros((2, 5)), np.ones((2, 1)), np.ones((2, 0))):
            assert all(map(math.isnan, statistics.bootstrap(share, none, resamples=99)))

    def test_without_a_correction_it_is_the_percentile_interval(self) -> None:
        # No single value changes the median of these, so that there is no skewness to correct for.
        def median(values: Any, axis: int = -1) -> Any:
            return np.median(values, axis)

        values = np.array([0.0] * 5 + [1.0] * 2)
        assert statistics.bootstrap(median, values, resamples=999) == (0, 1)
        assert statistics.bootstrap(mean, np.full(6, 0.25), resamples=99) == (0.25, 0.25)

    def test_tiny_samples_have_the_t_interval(self) -> None:
        """The whole range of five topics covers the mean of a normal distribution in 93.75 % of samples."""
        tiny = [0.0, 1.0], [0.0, 0.0, 0.0, 1e-12], [1.0, 1.0, math.nan, 0.5]
        for values, confidence in (*((values, 0.95) for values in tiny), (D[:6], 0.99), (D[:6], 0.95)):
            found, of_t = (
                statistics.interval_of_mean(np.array(values), None, confidence, 199, how) for how in ("BCa", "t")
            )
            is_t = len(values) < 6 or confidence == 0.99
            assert (found == of_t) == is_t
            assert is_t or min(values) <= found[0] < found[1] <= max(values)


# Few values, so that ties, zero differences and constant scores are common.
SCORES = st.sampled_from([math.nan, 0.0, 0.1, 0.25, 0.5, 0.8, 1.0])
SHAPES = st.tuples(st.integers(1, 18), st.integers(1, 2), st.integers(1, 2))
QUICK = Settings(resamples=99, flips=99, margin=0.05)


@st.composite
def designs(draw: st.DrawFn) -> tuple[Any, Any]:
    shape = draw(SHAPES)
    size = math.prod(shape)
    values = draw(st.lists(SCORES, min_size=2 * size, max_size=2 * size))
    array = np.array(values).reshape(2, *shape)
    return array, np.array(draw(st.permutations(range(shape[0]))))


def of(values: Any, system: str = "A", other: str = "B", changed: Settings = QUICK) -> Comparison:
    names = [[str(place) for place in range(size)] for size in values.shape[1:]]
    return compare(PairedScores(["A", "B"], names[0], values, names[1], names[2]).pair(system, other), changed)


def numbers(found: Comparison) -> dict[str, Any]:
    """Without the notes, whose examples of topics may be others."""
    return {name: value for name, value in asdict(found).items() if name != "notes"}


# Fields of A - B and of B - A, and the factor between them.
MIRRORED = [
    *[(name, name, -1) for name in ("difference", "effect.standardised")],
    *[(name, name, 1) for name in ("p_value", "detectable", "margin.p_alike")],
    *[("low", "high", -1), ("high", "low", -1), ("trainings.low", "trainings.high", -1)],
    *[("mean_a", "mean_b", 1), ("mean_b", "mean_a", 1), ("effect.wins", "effect.losses", 1)],
]


@given(designs())
def test_order_and_sides_and_what_is_missing_says_so(design: tuple[Any, Any]) -> None:
    """The order of units changes nothing, and B - A mirrors A - B: so does a metric whose lower values are better."""
    values, order = design
    found, turned = of(values), of(values, "B", "A")
    assert_same(numbers(of(values[:, order])), numbers(found))
    for of_found, of_turned, factor in MIRRORED:
        if getattr(found, of_found.partition(".")[0]) is not None:
            assert_same(factor * attrgetter(of_found)(found), attrgetter(of_turned)(turned))
    lower = of(values, changed=replace(QUICK, higher_is_better=False))
    for part, field in (("margin", "verdict"), ("effect", "wins"), ("effect", "superiority")):
        assert getattr(getattr(lower, part), field, None) == getattr(getattr(turned, part), field, None)
    assert found.n_units + found.n_undefined <= values.shape[1]
    if math.isnan(found.p_value):
        assert [note for note in found.notes if note.startswith(("not tested", "not compared"))]
    else:
        assert 0 < found.p_value <= 1
        assert found.low <= found.high or [note for note in found.notes if note.startswith("no ")]


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_same(found[name], value)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


DYADIC = np.random.default_rng(30)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Few members, so that pairs share one, or both, or are of a member with itself."""
    members = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, -0.3]), min_size=len(members), max_size=len(members)))
    return np.array(values), np.array(members)


def standard_error(values: Any, members: Any) -> float:
    estimate = statistics.over_members(values, members)
    return math.nan if estimate is None else estimate.standard_error


def of_all_pairs_of_pairs(values: Any, members: Any) -> float:
    """The dyadic cluster-robust error of the literature, for any number of members."""
    residuals, n = values - values.mean(), len(values)
    shared = sum(residuals[p] * residuals[q] for p in range(n) for q in range(n) if set(members[p]) & set(members[q]))
    return math.sqrt(max(shared, (residuals**2).sum())) / n


def every_pair(count: int) -> Any:
    return np.array([(i, j) for i in range(count) for j in range(i)])


@pytest.mark.parametrize("members", [every_pair(30), DYADIC.integers(0, 150, (500, 2))])
def test_for_many_members_every_two_pairs_that_share_one_count(members: Any) -> None:
    values = DYADIC.normal(size=150)[members].sum(1) + DYADIC.normal(size=len(members))
    found = standard_error(values, members)
    assert found == pytest.approx(of_all_pairs_of_pairs(values, members), rel=0.08)
    assert found > 1.5 * statistics.over_units(values).standard_error


@pytest.mark.parametrize(
    "members",
    [
        every_pair(5),
        every_pair(8),
        np.array([(0, i) for i in range(1, 12)] + [(i, i + 1) for i in range(1, 11)]),
        np.array([(0, 1), (0, 1), (0, 1), (2, 3), (1, 2), (3, 4), (4, 4), (4, 0), (5, 2)]),
    ],
)
def test_the_variance_has_no_bias_for_few_members(members: Any) -> None:
    """Effects of members so large that the variance is hardly ever that of independent pairs."""
    random = np.random.default_rng(2)
    _, first = np.unique(np.sort(members, axis=1), axis=0, return_inverse=True)
    both = np.where(members[:, :1] == members[:, 1:], [1, 0], 1)
    estimates, means = [], []
    for _ in range(1500):
        own = 0.2 * random.normal(size=first.max() + 1)[first.reshape(-1)]
        values = (random.normal(size=12)[members] * both).sum(1) + own
        means.append(values.mean())
        estimates.append(standard_error(values, members) ** 2)
    assert np.mean(estimates) == pytest.approx(np.var(means), rel=0.1)


@given(pairs(), st.integers(0, 99))
def test_neither_names_nor_order_matter_and_members_must_tell_of_others(drawn: tuple[Any, Any], seed: int) -> None:
    values, members = drawn
    random = np.random.default_rng(seed)
    order = random.permutation(len(values))
    named = random.permutation(100)[members[order]] - 50
    turned = np.where(random.random(len(values))[:, None] < 0.5, named, named[:, ::-1])
    assert standard_error(values[order], turned) == pytest.approx(
        standard_error(values, members), abs=1e-7, nan_ok=True
    )
    in_all = set.intersection(*({*pair} for pair in members.tolist()))
    enough = len(np.unique(members)) >= statistics.LEAST_MEMBERS and not in_all
    estimate = statistics.over_members(values, members)
    assert (estimate is not None) == enough
    if estimate is not None:
        assert estimate.standard_error >= 0
        assert 0 < estimate.degrees_of_freedom <= len(np.unique(members)) - 1 + 1e-9


def test_pairs_apart_are_units_each_draw_counts_once_and_few_members_have_their_degrees_of_freedom() -> None:
    values, apart = DYADIC.random(40), DYADIC.permutation(80).reshape(40, 2)
    units = statistics.over_units(values)
    for times in (1, 2):
        estimate = statistics.over_members(np.repeat(values, times), np.repeat(apart, times, axis=0))
        assert (estimate.mean, estimate.standard_error) == pytest.approx((units.mean, units.standard_error))
        assert estimate.degrees_of_freedom == pytest.approx(units.degrees_of_freedom)
    members = every_pair(6)
    estimate = statistics.over_members(DYADIC.normal(size=6)[members].sum(1), members)
    assert estimate.degrees_of_freedom == pytest.approx(5)


@pytest.mark.parametrize(("values", "shape"), [(3, (2, 2)), (3, (3,)), (3, (3, 3)), (0, (0, 2))])
def test_members_that_do_not_fit_are_refused(values: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"members: found shape .* expected"):
        statistics.over_members(np.zeros(values), np.zeros(shape, np.int64))
