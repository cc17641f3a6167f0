"""Numbers as the report writes them."""

import pytest

from rankbound_study.report.columns import signed
from rankbound_study.results import specs
from rankbound_study.results.specs import probability


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234567, "+0.1235"),
        (-0.5, "−0.5000"),
        (-0.00004, "+0.0000"),
        (0.0, "+0.0000"),
        (-0.0, "+0.0000"),
        (None, "–"),
    ],
)
def test_differences_have_a_sign_and_nothing_has_no_minus(value: float | None, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "<0.0001"), (0.00005, "0.0001"), (1.0, "1.0000")])
def test_a_p_value_is_never_zero(value: float, text: str) -> None:
    assert probability(value) == text


@pytest.mark.parametrize("pairs", [3, 15, 1635, 1641])
def test_a_number_and_its_copy_in_a_file_have_the_same_digits(pairs: int) -> None:
    """Shares of 2,400 pairs often end in a five at the fifth place, and sums of them just below or above it."""
    share = pairs / 2400
    for near in (share - 1e-15, share, share + 1e-15):
        assert specs.signed(near) == specs.signed(float(f"{near:.6f}"))
        assert specs.score(near) == specs.score(float(f"{near:.6f}"))
