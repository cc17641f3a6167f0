"""Claims about the first places of lists, decided on runs in which these rise and fall as planted."""

from dataclasses import replace

import pytest

from rankbound_study.claims import cut_offs
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import (
    BOUNDED,
    ONE_SEED,
    Lists,
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

AP_FALLS = of_bounded(-0.03, of="AP", bounding="distribution", nsr=3, metric="AP")
UNSURE = replace(ONE_SEED, noise=0.1)


def place(lists: Lists) -> int:
    """The k of nDCG@k, 0 of other metrics."""
    return int(lists.metric.removeprefix("nDCG@")) if lists.metric.startswith("nDCG@") else 0


def first_places(change: float, *, of: str, bounding: str = "", nsr: int | None = -1, start: int = 1):  # type: ignore[no-untyped-def]
    bounded = of_bounded(change, of=of, bounding=bounding, nsr=nsr)
    return lambda lists: bounded(lists) * (place(lists) >= start)


def slope(on_movielens: float, on_mq2008: float):  # type: ignore[no-untyped-def]
    return lambda lists: place(lists) * (on_movielens if lists.nsr else on_mq2008)


CASES = {
    cut_offs.distribution_bounding_of_ap_raises_first_places: {
        CONFIRMED: [study(first_places(0.03, of="AP", bounding="distribution"), AP_FALLS)],
        REFUTED: [
            study(first_places(-0.03, of="AP", bounding="distribution"), AP_FALLS),
            study(first_places(0.03, of="AP", bounding="distribution", nsr=2), AP_FALLS),
            study(of_bounded(0.03, of="AP", bounding="distribution")),
        ],
        INCONCLUSIVE: [study(AP_FALLS, of=UNSURE)],
    },
    cut_offs.bounded_ap_often_raises_first_places_of_mq2008: {
        CONFIRMED: [study(of_bounded(0.03, of="AP", nsr=None), of_bounded(-0.06, bounding="min-max"))],
        REFUTED: [study(of_bounded(-0.03, of="AP", nsr=None), of_bounded(0.06, bounding="min-max"))],
        INCONCLUSIVE: [UNSURE],
    },
    cut_offs.bounded_nrbp_raises_first_places: {
        CONFIRMED: [
            study(of_bounded(0.03, of="nRBP")),
            study(of_bounded(0.03, of="nRBP"), of_bounded(-0.1, of="nRBP", nsr=3, metric="nDCG@2")),
        ],
        REFUTED: [
            study(of_bounded(0.03, of="nRBP"), of_bounded(-0.1, of="nRBP", nsr=2, metric="nDCG@2")),
            BOUNDED,
        ],
        INCONCLUSIVE: [UNSURE],
    },
    cut_offs.first_places_fall_on_movielens_and_rise_on_mq2008: {
        CONFIRMED: [study(slope(-0.01, 0.01))],
        REFUTED: [study(slope(-0.01, -0.01)), study(slope(0.01, 0.01))],
        INCONCLUSIVE: [BOUNDED],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


def test_slopes_are_those_that_were_planted(evidence_of: Made) -> None:
    found = cut_offs.first_places_fall_on_movielens_and_rise_on_mq2008(evidence_of(study(slope(-0.01, 0.02))))
    assert found.value == pytest.approx(0.03, abs=1e-3)
    assert "for 45 of 45" in found.reason
    assert "+0.0000, +0.0000, +0.0000, +0.0000 (oracle)" in found.reason
