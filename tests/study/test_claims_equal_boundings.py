"""Claims that boundings are alike, decided on runs in which they are, are not, and in which none can say."""

from dataclasses import replace

import pytest

from rankbound_study.claims import equal_boundings
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import (
    BOUNDED,
    NOISY,
    ONE_SEED,
    Made,
    Study,
    evidence_of,
    listed,
    named,
    of_bounded,
    study,
)

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

CASES = {
    equal_boundings.min_max_hardly_changes_ap: {
        CONFIRMED: [BOUNDED, study(of_bounded(0.2, of="AP", bounding="expectation"))],
        REFUTED: [study(of_bounded(sign * 0.1, of="AP", bounding="min-max", nsr=2)) for sign in (-1, 1)],
        INCONCLUSIVE: [ONE_SEED, NOISY],
    },
    equal_boundings.nrbp_boundings_are_alike: {
        CONFIRMED: [BOUNDED, study(of_bounded(0.2, of="nRBP", bounding="distribution"))],
        REFUTED: [study(of_bounded(0.1, of="nRBP", bounding="expectation", nsr=None))],
        INCONCLUSIVE: [ONE_SEED, NOISY],
    },
    equal_boundings.expectation_max_is_as_expectation: {
        CONFIRMED: [replace(BOUNDED, relevant=lambda topic: 0 * topic + 9)],
        REFUTED: [
            BOUNDED,
            study(of_bounded(0.1, of="AP", bounding="expectation", nsr=None), relevant=lambda topic: 0 * topic + 9),
        ],
        INCONCLUSIVE: [replace(ONE_SEED, relevant=lambda topic: 0 * topic + 9)],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")
