"""Rules find what is true, false and undecidable, and at the edge err at most at the stated rate."""

import pytest

pytest.importorskip("scipy", reason="claims are decided by statistics")

from scipy import stats

from tests.study.calibrations import CASES, Case

FEW, MANY = 8, 50
SURPRISE = 1e-4
"""A share is beyond its limit if chance would give such a count less often."""


def check(case: Case, repetitions: int) -> None:
    found = case.draw(repetitions)
    for limits, alternative in ((case.at_most, "greater"), (case.at_least, "less")):
        for verdict, share in limits.items():
            p_value = stats.binomtest(found[verdict], repetitions, share, alternative=alternative).pvalue
            assert p_value > SURPRISE, f"{verdict} in {found[verdict]} of {repetitions} studies, limit {share}: {case}"


@pytest.mark.slow
@pytest.mark.parametrize("case", list({case.claim: case for case in reversed(CASES)}.values())[::3], ids=str)
def test_a_few_studies(case: Case) -> None:
    """Of the first world of every third claim."""
    check(case, FEW)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_many_studies(case: Case) -> None:
    check(case, MANY)
