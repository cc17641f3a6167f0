"""The error of a mean over pairs that share members, against every pair of pairs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.compare.dyadic import standard_error
from rankbound.compare.estimates import over_members, over_units

RANDOM = np.random.default_rng(30)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Few members, so that pairs share one, or both, or are of a member with itself."""
    members = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, -0.3]), min_size=len(members), max_size=len(members)))
    return np.array(values), np.array(members)


def of_all_pairs_of_pairs(values: Any, members: Any) -> float:
    residuals, n = values - values.mean(), len(values)
    shared = sum(residuals[p] * residuals[q] for p in range(n) for q in range(n) if set(members[p]) & set(members[q]))
    return math.sqrt(max(shared, (residuals**2).sum())) / n


@given(pairs())
def test_it_counts_every_two_pairs_that_share_a_member(drawn: tuple[Any, Any]) -> None:
    values, members = drawn
    assert standard_error(values, members) == pytest.approx(of_all_pairs_of_pairs(values, members), abs=1e-7)


def test_sharing_decides_and_not_only_the_lower_limit() -> None:
    effects = RANDOM.normal(size=12)
    members = np.array([(i, j) for i in range(12) for j in range(i)])
    values = effects[members].sum(1)
    alone = values.std() / math.sqrt(len(values))
    assert standard_error(values, members) == pytest.approx(of_all_pairs_of_pairs(values, members))
    assert standard_error(values, members) > 2 * alone


@given(pairs(), st.integers(0, 99))
def test_neither_names_nor_order_matter(drawn: tuple[Any, Any], seed: int) -> None:
    values, members = drawn
    random = np.random.default_rng(seed)
    order = random.permutation(len(values))
    named = random.permutation(100)[members[order]] - 50
    turned = np.where(random.random(len(values))[:, None] < 0.5, named, named[:, ::-1])
    assert standard_error(values[order], turned) == pytest.approx(standard_error(values, members), abs=1e-9)


def test_pairs_that_share_nothing_are_independent() -> None:
    values = RANDOM.random(40)
    apart = RANDOM.permutation(80).reshape(40, 2)
    assert standard_error(values, apart) == pytest.approx(values.std() / math.sqrt(40))
    estimate, units = over_members(values, apart), over_units(values)
    assert estimate.standard_error == pytest.approx(units.standard_error * math.sqrt(39 / 40))
    assert estimate.mean == units.mean
    assert estimate.degrees_of_freedom == math.inf


def test_a_pair_that_stands_twice_counts_as_one_draw() -> None:
    values, apart = RANDOM.random(20), np.arange(40).reshape(20, 2)
    twice = standard_error(np.repeat(values, 2), np.repeat(apart, 2, axis=0))
    assert twice == pytest.approx(standard_error(values, apart))


def test_one_member_in_all_right_pairs_widens_the_interval() -> None:
    values = np.tile([1.0, 0.0], 20)
    shared = np.arange(80).reshape(40, 2) + 1
    alone = standard_error(values, shared)
    shared[::2, 0] = 0
    assert standard_error(values, shared) > 1.5 * alone


@pytest.mark.parametrize(("values", "shape"), [(3, (2, 2)), (3, (3,)), (3, (3, 3)), (0, (0, 2))])
def test_members_that_do_not_fit_are_refused(values: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"members: found shape .* expected"):
        standard_error(np.zeros(values), np.zeros(shape, np.int64))
