"""Claims about formulas: decided without runs, as is known."""

import pytest

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")

CONFIRMED_ONES = (
    *(f"T{number:02}" for number in (1, 2, 3, 4, 8, 9, 10, 11, 12, 15, 18)),
    *("N05", "N16", "M01", "M02", "W01", "L01", "L02", "L03"),
)
REFUTED_ONES = (*(f"T{number:02}" for number in (5, 6, 13, 17, 19)), "N04")

SAID = {
    "T03": ["0.63"],
    # Only lists with one relevant item have an ideal DCG of 1.
    "T04": ["right for 8 of 44 lists"],
    "T05": ["from 5 relevant items on", "AP in 0;"],
    "T06": ["hard ranks, 0 of", "0 with AP, 0 with nRBP"],
    "T08": ["right for 0 of 44"],
    # 1 / C(9, 4) of the longest list with most orders.
    "T17": [f"{1 / 126:.4f} to 0.50"],
    "L02": ["6,678", "200 once half"],
    "M01": ["8 numbers are misprinted (1.887, 0.772, 8.09, 0.9306)", "8.693"],
    "M02": ["1 for equal and 0 for reversed"],
    "N04": ["200,000 of 200,000"],
    "N05": ["50 of 50 differences"],
    "N16": ["first item in 0"],
}
"""Numbers that the reason names."""


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [*((claim, CONFIRMED) for claim in CONFIRMED_ONES), *((claim, REFUTED) for claim in REFUTED_ONES)],
)
def test_they_are_decided(claim: str, verdict: str) -> None:
    found = verdict_on(claim, EVIDENCE)
    assert found.verdict == verdict
    for words in SAID.get(claim, ()):
        assert words in found.reason
