"""Claims about the ratio of negatives, decided on runs in which scores fall and scatter with it, or do not."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound_study.claims import ratios
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import BOUNDED, NOISY, Lists, Made, Study, evidence_of, listed, named, study

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]


def falling(lists: Lists) -> float:
    return -0.05 * (lists.nsr or 0)


def _scatter(lists: Lists, size: float) -> np.ndarray:
    return lists.random.normal(0, size, len(lists.topic)) * (lists.bounding != "none")


CASES = {
    ratios.scores_fall_with_the_ratio: {
        CONFIRMED: [study(falling), study(falling, ratios=(1, 3))],
        REFUTED: [study(lambda lists: falling(lists) * (-1) ** (lists.bounding == "min-max"))],
        INCONCLUSIVE: [study(lambda lists: falling(lists) * (lists.loss != "AP"), of=NOISY)],
    },
    ratios.benefit_of_distribution_bounding_shrinks: {
        CONFIRMED: [study(lambda lists: falling(lists) * (lists.bounding == "distribution"))],
        REFUTED: [
            study(lambda lists: falling(lists) * (lists.bounding == "distribution") * (-1) ** (lists.loss == "AP"))
        ],
        INCONCLUSIVE: [NOISY],
    },
    ratios.scatter_grows_with_the_ratio: {
        CONFIRMED: [study(lambda lists: _scatter(lists, 0.02 * (lists.nsr or 1)))],
        REFUTED: [study(lambda lists: _scatter(lists, 0.02 * (4 - (lists.nsr or 1) if lists.loss == "AP" else 1)))],
        INCONCLUSIVE: [replace(BOUNDED, noise=0.02)],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")
