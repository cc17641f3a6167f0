"""Whatever the scores are: the order of the topics changes nothing, and B against A is A against B mirrored."""

import math
from dataclasses import asdict, replace
from operator import attrgetter
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


# Fields of A - B and of B - A, and the factor between them.
MIRRORED = [
    *[(name, name, -1) for name in ("difference", "effect.standardised")],
    *[(name, name, 1) for name in ("p_value", "detectable", "margin.p_alike")],
    *[("low", "high", -1), ("high", "low", -1), ("trainings.low", "trainings.high", -1)],
    *[("mean_a", "mean_b", 1), ("mean_b", "mean_a", 1), ("effect.wins", "effect.losses", 1)],
]


@given(designs())
def test_order_and_sides(design: tuple[Any, Any]) -> None:
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
