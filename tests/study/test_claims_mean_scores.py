"""Claims about mean scores, decided on runs in which they are planted as true, as false, and as neither."""

from dataclasses import replace

import pytest

from rankbound_study.claims import mean_scores
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import BOUNDED, ONE_SEED, Made, Study, evidence_of, listed, named, of_bounded, study

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

CASES = {
    mean_scores.bounded_losses_do_as_well: {
        CONFIRMED: [BOUNDED, study(of_bounded(0.2)), study(of_bounded(-0.2, of="nDCG", bounding="distribution"))],
        REFUTED: [study(of_bounded(-0.2))],
        INCONCLUSIVE: [ONE_SEED, study(of_bounded(-0.2, nsr=1), of_bounded(-0.2, nsr=2))],
    },
    mean_scores.distribution_bounding_hurts_ndcg_on_movielens: {
        CONFIRMED: [study(*(of_bounded(-0.08, of="nDCG", bounding="distribution", nsr=nsr) for nsr in (1, 2, 3)))],
        REFUTED: [
            BOUNDED,
            study(of_bounded(-0.08, of="nDCG", bounding="distribution")),
            study(*(of_bounded(-0.08, of="nDCG", bounding="distribution", nsr=nsr) for nsr in (1, 2))),
        ],
        INCONCLUSIVE: [
            study(*(of_bounded(-0.08, of="nDCG", bounding="distribution", nsr=nsr) for nsr in (1, 2, 3)), of=ONE_SEED)
        ],
    },
    mean_scores.bounding_brings_ndcg_no_gain: {
        CONFIRMED: [BOUNDED, study(of_bounded(-0.2, of="nDCG")), study(of_bounded(0.2, of="AP"))],
        REFUTED: [study(of_bounded(0.1, of="nDCG", bounding="min-max", nsr=None, metric="nDCG@7"))],
        INCONCLUSIVE: [ONE_SEED],
    },
    mean_scores.bounding_raises_nrbp: {
        CONFIRMED: [study(of_bounded(0.02, of="nRBP"))],
        REFUTED: [
            BOUNDED,
            study(of_bounded(0.05, of="nRBP"), of_bounded(-0.1, of="nRBP", bounding="min-max", nsr=None)),
        ],
        INCONCLUSIVE: [replace(ONE_SEED, noise=0.05), study(of_bounded(0.02, of="nRBP", nsr=2), of=ONE_SEED)],
    },
    mean_scores.bounding_raises_most_means: {
        CONFIRMED: [study(of_bounded(0.05), of_bounded(-0.1, bounding="distribution"))],
        REFUTED: [study(of_bounded(-0.05), of_bounded(0.1, bounding="distribution"))],
        INCONCLUSIVE: [study(of_bounded(-0.05), of_bounded(0.1, nsr=1), of_bounded(0.1, nsr=None))],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


def test_numbers_are_those_that_were_planted(evidence_of: Made) -> None:
    planted = study(of_bounded(0.02, of="nRBP"), of_bounded(0.03, of="nRBP", bounding="min-max", nsr=2))
    evidence = evidence_of(planted)
    found = mean_scores.bounding_raises_nrbp(evidence)
    assert found.value == pytest.approx(0.02, abs=0.001)
    assert found.low < 0.02 < found.high
    assert "rises in 16 of 16 cells, significantly in 16" in found.reason
    assert "+0.05" in found.reason or "+0.0499" in found.reason
    assert mean_scores.bounding_raises_most_means(evidence).value >= 16 / 48
