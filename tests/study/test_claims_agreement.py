"""Claims of correlations: lists that score alike under two losses, or not; changes that follow the relevant items."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound_study.claims import agreement, relevant_items
from rankbound_study.claims.correlations import PEARSON, SPEARMAN, correlation
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from tests.study.planted_cells import BOUNDED, Lists, Made, Study, evidence_of, listed, named, of_bounded, study

stats = pytest.importorskip("scipy.stats", reason="claims are decided by statistics")

__all__ = ["evidence_of"]


def unrelated(lists: Lists) -> np.ndarray:
    """A plant: distribution bounding scores lists as if they were other ones."""
    return (lists.random.permutation(lists.base) - lists.base) * (lists.bounding == "distribution")


def by_relevant(slope: float, at_fewest: float = 0.0, **of):  # type: ignore[no-untyped-def]
    bounded = of_bounded(1.0, **of)
    return lambda lists: bounded(lists) * (at_fewest + slope * (lists.p - 5))


NDCG_AND_AP = Study(losses=("nDCG", "AP"), controls=False)
MANY = replace(NDCG_AND_AP, topics=1200, folds=1, seeds=1)

CASES = {
    agreement.lists_score_alike: {
        CONFIRMED: [BOUNDED],
        REFUTED: [study(unrelated)],
        INCONCLUSIVE: [replace(BOUNDED, topics=12, noise=0.05)],
    },
    relevant_items.change_is_unrelated_to_relevant_items: {
        CONFIRMED: [MANY],
        REFUTED: [study(by_relevant(sign * 0.01, of="AP", bounding="min-max", nsr=2)) for sign in (-1, 1)],
        INCONCLUSIVE: [NDCG_AND_AP, study(by_relevant(0.01, of="nRBP"))],
    },
    relevant_items.many_relevant_items_gain_more_under_nrbp: {
        CONFIRMED: [study(by_relevant(0.01, of="nRBP"))],
        REFUTED: [
            study(by_relevant(-0.01, of="nRBP")),
            study(by_relevant(0.01, -0.3, of="nRBP")),
            study(by_relevant(0.01, of="nRBP"), by_relevant(-0.05, of="nRBP", bounding="expectation", nsr=3)),
        ],
        INCONCLUSIVE: [BOUNDED, study(by_relevant(0.01, of="nRBP", nsr=2))],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


class TestCorrelation:
    random = np.random.default_rng(3)
    x = random.normal(0, 1, 500)
    y = x + random.normal(0, 1, 500)

    def test_it_is_scipys(self) -> None:
        assert correlation(self.x, self.y, PEARSON).value == pytest.approx(stats.pearsonr(self.x, self.y).statistic)
        assert correlation(self.x, self.y, SPEARMAN).value == pytest.approx(stats.spearmanr(self.x, self.y).statistic)

    def test_of_independent_lists_its_interval_is_fishers(self) -> None:
        found = correlation(self.x, self.y)
        assert found.interval == pytest.approx(stats.pearsonr(self.x, self.y).confidence_interval(), abs=0.015)
        assert found.p_above(0.5) < 0.05 < found.p_above(found.value)
        assert found.p_below(0.9) < 0.05

    def test_lists_of_one_topic_count_once(self) -> None:
        alone = correlation(self.x, self.y)
        repeated = correlation(np.repeat(self.x[:, None], 5, 1), np.repeat(self.y[:, None], 5, 1))
        assert repeated.value == pytest.approx(alone.value)
        assert repeated.error == pytest.approx(alone.error)

    def test_what_has_none_is_named(self) -> None:
        with pytest.raises(MissingEvidence, match="the same in all lists"):
            correlation(np.ones(9), np.arange(9.0))
        with pytest.raises(MissingEvidence, match="over 2 topics"):
            correlation(np.arange(2.0), np.arange(2.0))

    def test_equal_scores_correlate_wholly(self) -> None:
        found = correlation(self.x, self.x)
        assert found.value == pytest.approx(1)
        assert found.p_above(0.7) < 1e-9
