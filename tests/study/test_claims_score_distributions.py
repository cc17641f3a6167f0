"""Claims about distributions of scores: runs in which low and high lists move as planted."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound_study.claims import score_distributions
from rankbound_study.claims.cells import Cell, Column, pair
from rankbound_study.claims.distances import distance, permuted_p_value
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

stats = pytest.importorskip("scipy.stats", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

MANY = replace(BOUNDED, topics=300)


def stretched(by: float):  # type: ignore[no-untyped-def]
    """A plant: expectation-max bounding of nDCG moves scores away from their middle."""
    bounded = of_bounded(by, of="nDCG", bounding="expectation-max")
    return lambda lists: bounded(lists) * (lists.base - 0.6)


def lifted(share: tuple[float, float, float], by: float = 0.1, *, cost: float = 0.0):  # type: ignore[no-untyped-def]
    """A plant: distribution bounding of AP moves such shares of the lowest tenth, by ratio, and lowers high scores."""
    bounded = of_bounded(1.0, of="AP", bounding="distribution")

    def plant(lists: Lists) -> np.ndarray:
        chosen = lists.topic % 100 < 100 * share[(lists.nsr or 1) - 1]
        low, high = np.quantile(lists.base, [0.1, 0.9])
        if by < 0:
            return bounded(lists) * chosen * by
        return bounded(lists) * (chosen * (lists.base <= low) * by - cost * (lists.base >= high))

    return plant


def low_lists(change: float, **of):  # type: ignore[no-untyped-def]
    bounded = of_bounded(change, **of)
    return lambda lists: bounded(lists) * (lists.base <= np.quantile(lists.base, 0.3))


CASES = {
    score_distributions.expectation_max_of_ndcg_spreads_the_scores: {
        CONFIRMED: [study(stretched(0.5), of=MANY)],
        REFUTED: [study(stretched(-0.5), of=MANY), BOUNDED],
        INCONCLUSIVE: [replace(ONE_SEED, noise=0.03)],
    },
    score_distributions.distribution_bounding_of_ap_lifts_low_scores: {
        CONFIRMED: [study(lifted((0.9, 0.6, 0.3)), of=MANY)],
        REFUTED: [
            study(lifted((0.3, 0.6, 0.9)), of=MANY),
            study(lifted((0.9, 0.6, 0.3), cost=0.3), of=MANY),
            study(lifted((0.2, 0.2, 0.2), -0.5), of=MANY),
        ],
        INCONCLUSIVE: [replace(ONE_SEED, noise=0.03), study(lifted((0.6, 0.6, 0.6)), of=MANY)],
    },
    score_distributions.other_boundings_of_ap_leave_the_distribution: {
        CONFIRMED: [BOUNDED, study(of_bounded(0.2, of="AP", bounding="distribution"))],
        REFUTED: [study(of_bounded(0.2, of="AP", bounding="min-max", nsr=None))],
        INCONCLUSIVE: [ONE_SEED],
    },
    score_distributions.bounded_nrbp_has_fewer_low_scores: {
        CONFIRMED: [study(low_lists(0.3, of="nRBP"), of=MANY)],
        REFUTED: [study(low_lists(0.3, of="nRBP"), of_bounded(-0.5, of="nRBP", bounding="min-max", nsr=2)), BOUNDED],
        INCONCLUSIVE: [replace(ONE_SEED, noise=0.03)],
    },
    score_distributions.bounding_may_lift_the_lowest_lists: {
        CONFIRMED: [study(low_lists(0.1, of="nRBP", bounding="min-max"))],
        REFUTED: [study(low_lists(-0.1)), study(low_lists(-0.1, nsr=1), low_lists(0.2, nsr=2))],
        INCONCLUSIVE: [replace(ONE_SEED, noise=0.03)],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


class TestDistances:
    column = Column("movielens", 1)

    def test_the_largest_one_is_scipys(self, evidence_of: Made) -> None:
        evidence = evidence_of(study(of_bounded(0.05, of="AP", bounding="min-max"), topics=30))
        of = pair(evidence, Cell("AP", "min-max", self.column, "AP"))
        expected = stats.ks_2samp(of.a.ravel(), of.b.ravel()).statistic
        assert distance(of) == pytest.approx(expected)
        assert permuted_p_value(of) < 0.01

    def test_chance_alone_is_not_significant(self, evidence_of: Made) -> None:
        of = pair(evidence_of(replace(ONE_SEED, noise=0.05)), Cell("AP", "expectation", self.column, "AP"))
        assert permuted_p_value(of) > 0.05


def test_choosing_by_the_average_shows_no_regression_to_the_mean(evidence_of: Made) -> None:
    found = score_distributions.bounding_may_lift_the_lowest_lists(evidence_of(replace(MANY, noise=0.1)))
    assert "under 0 of 12" in found.reason
    assert "falls under 0" in found.reason
