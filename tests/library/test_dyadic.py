"""The error of a mean over pairs that share members, against every pair of pairs and against its expectation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.compare.statistics import LEAST_MEMBERS, over_members, over_units

RANDOM = np.random.default_rng(30)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Few members, so that pairs share one, or both, or are of a member with itself."""
    members = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, -0.3]), min_size=len(members), max_size=len(members)))
    return np.array(values), np.array(members)


def standard_error(values: Any, members: Any) -> float:
    estimate = over_members(values, members)
    return math.nan if estimate is None else estimate.standard_error


def of_all_pairs_of_pairs(values: Any, members: Any) -> float:
    """The dyadic cluster-robust error of the literature, for any number of members."""
    residuals, n = values - values.mean(), len(values)
    shared = sum(residuals[p] * residuals[q] for p in range(n) for q in range(n) if set(members[p]) & set(members[q]))
    return math.sqrt(max(shared, (residuals**2).sum())) / n


def every_pair(count: int) -> Any:
    return np.array([(i, j) for i in range(count) for j in range(i)])


@pytest.mark.parametrize("members", [every_pair(30), RANDOM.integers(0, 150, (500, 2))])
def test_for_many_members_every_two_pairs_that_share_one_count(members: Any) -> None:
    values = RANDOM.normal(size=150)[members].sum(1) + RANDOM.normal(size=len(members))
    found = standard_error(values, members)
    assert found == pytest.approx(of_all_pairs_of_pairs(values, members), rel=0.08)
    assert found > 1.5 * over_units(values).standard_error


@pytest.mark.parametrize(
    "members",
    [
        every_pair(5),
        every_pair(8),
        np.array([(0, i) for i in range(1, 12)] + [(i, i + 1) for i in range(1, 11)]),
        np.array([(0, 1), (0, 1), (0, 1), (2, 3), (1, 2), (3, 4), (4, 4), (4, 0), (5, 2)]),
    ],
    ids=["5 members", "8 members", "one in half of the pairs", "twice, and with itself"],
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
    enough = len(np.unique(members)) >= LEAST_MEMBERS and not in_all
    estimate = over_members(values, members)
    assert (estimate is not None) == enough
    if estimate is not None:
        assert estimate.standard_error >= 0
        assert 0 < estimate.degrees_of_freedom <= len(np.unique(members)) - 1 + 1e-9


def test_pairs_apart_are_units_each_draw_counts_once_and_few_members_have_their_degrees_of_freedom() -> None:
    values, apart = RANDOM.random(40), RANDOM.permutation(80).reshape(40, 2)
    units = over_units(values)
    for times in (1, 2):
        estimate = over_members(np.repeat(values, times), np.repeat(apart, times, axis=0))
        assert estimate is not None
        assert (estimate.mean, estimate.standard_error) == pytest.approx((units.mean, units.standard_error))
        assert estimate.degrees_of_freedom == pytest.approx(units.degrees_of_freedom)
    members = every_pair(6)
    estimate = over_members(RANDOM.normal(size=6)[members].sum(1), members)
    assert estimate is not None
    assert estimate.degrees_of_freedom == pytest.approx(5)


@pytest.mark.parametrize(("values", "shape"), [(3, (2, 2)), (3, (3,)), (3, (3, 3)), (0, (0, 2))])
def test_members_that_do_not_fit_are_refused(values: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"members: found shape .* expected"):
        over_members(np.zeros(values), np.zeros(shape, np.int64))
