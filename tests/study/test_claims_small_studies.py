"""What the claims about the main runs say of studies that are too small, or lack what they need."""

import pytest

from rankbound_study.claims import (
    agreement,
    cut_offs,
    data_sets,
    equal_boundings,
    mean_scores,
    persistence,
    ratios,
    relevant_items,
    score_distributions,
)
from rankbound_study.claims.registry import Decider, deciders
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from tests.study.planted_cells import Made, Study, evidence_of

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

SUBJECTS = (
    agreement,
    cut_offs,
    data_sets,
    equal_boundings,
    mean_scores,
    persistence,
    ratios,
    relevant_items,
    score_distributions,
)
DECIDERS = [one for one in deciders().values() if one.__module__ in {subject.__name__ for subject in SUBJECTS}]
NEED_SCORES_THAT_VARY = (
    agreement.lists_score_alike,
    persistence.highest_persistence_agrees_best,
    ratios.scatter_grows_with_the_ratio,
    relevant_items.change_is_unrelated_to_relevant_items,
    relevant_items.many_relevant_items_gain_more_under_nrbp,
)


@pytest.mark.parametrize("decider", DECIDERS, ids=lambda one: one.__name__)
class TestSmallStudies:
    def test_a_demonstration_is_decided(self, decider: Decider, evidence_of: Made) -> None:
        small = evidence_of(Study(topics=40, folds=2, seeds=1, ratios=(1, 3), controls=False))
        assert decider(small).verdict in (CONFIRMED, REFUTED, INCONCLUSIVE)

    def test_a_single_topic_is_named(self, decider: Decider, evidence_of: Made) -> None:
        with pytest.raises(MissingEvidence, match=r"test takes two|the same in all topics|over 1 topics"):
            decider(evidence_of(Study(topics=1, folds=1)))

    def test_constant_scores_are_decided_or_named(self, decider: Decider, evidence_of: Made) -> None:
        same = evidence_of(Study(spread=0.0, noise=0.0, wobble=0.0))
        if decider in NEED_SCORES_THAT_VARY:
            with pytest.raises(MissingEvidence, match=r"hardly differ|the same in all"):
                decider(same)
        else:
            assert decider(same).verdict in (CONFIRMED, REFUTED, INCONCLUSIVE)

    def test_a_loss_that_did_not_run_is_named(self, decider: Decider, evidence_of: Made) -> None:
        with pytest.raises(MissingEvidence, match="no honest runs of"):
            decider(evidence_of(Study(losses=())))

    def test_a_bounding_that_did_not_run_is_named(self, decider: Decider, evidence_of: Made) -> None:
        if decider is persistence.highest_persistence_agrees_best:
            pytest.skip("it is about metrics, whatever was trained")
        with pytest.raises(MissingEvidence, match=r"bounding|min-max"):
            decider(evidence_of(Study(boundings=("none",))))
