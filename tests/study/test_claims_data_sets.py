"""Claims that set data sets beside each other, on runs in which the gap is that of the lists, or the model's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound_study.claims import data_sets
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import NOISY, Lists, Made, Study, evidence_of, listed, named, of_bounded, study

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

CASES = {
    data_sets.best_bounding_depends_on_the_data: {
        CONFIRMED: [
            study(of_bounded(0.05, bounding="min-max", nsr=1), of_bounded(0.05, bounding="distribution", nsr=2))
        ],
        REFUTED: [study(of_bounded(0.05, bounding="min-max"))],
        INCONCLUSIVE: [NOISY, study(of_bounded(0.05, bounding="min-max", nsr=1))],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


def _above_random(level: float):  # type: ignore[no-untyped-def]
    """A plant: scores as far above a random order, on the way to the best one; MQ2008 by `level` lower."""

    def plant(lists: Lists) -> np.ndarray:
        if lists.metric not in ("nDCG", "AP", "nRBP(p=0.95)"):
            return np.zeros(len(lists.n))
        expected = rb.expectation(lists.metric, lists.n, lists.p)
        reached = lists.base - level * (lists.nsr is None)
        return expected + (1 - expected) * reached - lists.base

    return plant


class TestTheGapToMq2008:
    def test_it_is_confirmed_where_it_is_that_of_random_orders(self, evidence_of: Made) -> None:
        evidence = evidence_of(Study(_above_random(0.0), topics=100, negatives=12))
        found = data_sets.mq2008_is_lower_by_its_share_of_relevant_items(evidence)
        assert found.verdict == CONFIRMED, found.reason

    def test_it_is_refuted_where_it_remains(self, evidence_of: Made) -> None:
        evidence = evidence_of(Study(_above_random(0.3), topics=100, negatives=12))
        found = data_sets.mq2008_is_lower_by_its_share_of_relevant_items(evidence)
        assert found.verdict == REFUTED, found.reason
        assert found.value == pytest.approx(-0.3, abs=0.05)

    def test_it_is_open_where_no_gap_shows(self, evidence_of: Made) -> None:
        found = data_sets.mq2008_is_lower_by_its_share_of_relevant_items(evidence_of(Study(topics=8, spread=0.3)))
        assert found.verdict == INCONCLUSIVE, found.reason


def test_the_best_bounding_is_picked_by_validation(evidence_of: Made, tmp_path: Path) -> None:
    """On the test part all bounded losses score significantly higher than the one that validation prefers."""
    evidence = evidence_of(study(of_bounded(0.05)))
    by_test = data_sets.best_bounding_depends_on_the_data(evidence)
    assert evidence.epochs is not None
    preferred = pl.when(pl.col("bounding") == "none").then(0.99)
    epochs = pl.read_parquet(evidence.epochs).with_columns(
        preferred.otherwise(pl.col(metric)).alias(metric) for metric in ("nDCG", "AP")
    )
    epochs.write_parquet(tmp_path / "epochs.parquet")
    found = data_sets.best_bounding_depends_on_the_data(replace(evidence, epochs=tmp_path / "epochs.parquet"))
    assert "MQ2008: none, " in found.reason
    assert "none, " not in by_test.reason
