"""Whatever the scores are: the order of the topics changes nothing, and B against A is A against B mirrored."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.compare import Comparison, PairedScores, Settings, compare
from rankbound.compare.statistics import holm

pytest.importorskip("scipy.stats", reason="the statistics need scipy")

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


@given(designs())
def test_the_order_of_units_changes_nothing(design: tuple[Any, Any]) -> None:
    values, order = design
    assert_same(numbers(of(values[:, order])), numbers(of(values)))


@given(designs())
def test_b_against_a_is_a_against_b_the_other_way_round(design: tuple[Any, Any]) -> None:
    values, _ = design
    found, turned = of(values), of(values, "B", "A")
    assert_same(turned.difference, -found.difference)
    assert_same((turned.low, turned.high), (-found.high, -found.low))
    assert_same((turned.mean_a, turned.mean_b), (found.mean_b, found.mean_a))
    assert_same(turned.p_value, found.p_value)
    assert_same(turned.detectable, found.detectable)
    assert_same((turned.trainings.low, turned.trainings.high), (-found.trainings.high, -found.trainings.low))
    if found.effect is not None and turned.effect is not None:
        assert (turned.effect.wins, turned.effect.losses) == (found.effect.losses, found.effect.wins)
        assert_same(turned.effect.superiority, 1 - found.effect.superiority)
        assert_same(turned.effect.standardised, -found.effect.standardised)
    if found.margin is not None and turned.margin is not None:
        assert_same(turned.margin.p_alike, found.margin.p_alike)


@given(designs())
def test_lower_is_better_is_b_against_a_but_for_the_sign(design: tuple[Any, Any]) -> None:
    values, _ = design
    found, turned = of(values, changed=replace(QUICK, higher_is_better=False)), of(values, "B", "A")
    if found.margin is not None and turned.margin is not None and found.effect is not None:
        assert found.margin.verdict == turned.margin.verdict
        assert found.effect.wins == turned.effect.wins if turned.effect else False


@given(designs())
def test_what_is_missing_says_so(design: tuple[Any, Any]) -> None:
    found = of(design[0])
    assert found.n_units + found.n_undefined <= design[0].shape[1]
    if math.isnan(found.p_value):
        assert [note for note in found.notes if note.startswith(("not tested", "not compared"))]
    else:
        assert 0 < found.p_value <= 1
        assert found.low <= found.high or [note for note in found.notes if note.startswith("no ")]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p_value <= one <= 1 for p_value, one in zip(p_values, adjusted, strict=True))
    assert min(adjusted) == min(1.0, len(p_values) * min(p_values))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def assert_same(found: Any, expected: Any) -> None:
    """To rounding; NaN is like NaN."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_same(found[name], value)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
