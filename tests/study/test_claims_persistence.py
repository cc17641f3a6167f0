"""Claims about nRBP(p): runs in which its persistence changes nothing, or everything; tau against scipy's."""

import numpy as np
import pytest

from rankbound.compare.scores import per_unit
from rankbound_study.claims import persistence
from rankbound_study.claims.cells import Column, scores
from rankbound_study.claims.registry import Decider
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from tests.study.planted_cells import BOUNDED, Lists, Made, Study, evidence_of, listed, named, of_bounded, study

stats = pytest.importorskip("scipy.stats", reason="claims are decided by statistics")

__all__ = ["evidence_of"]

ORDERED = [of_bounded(0.02 * step, of="nRBP", bounding=name) for step, name in enumerate(["min-max", "expectation"], 1)]
CONTRARY = of_bounded(-0.1, of="nRBP", bounding="expectation", nsr=2, metric="nRBP(p=0.8)")


def blurred(**by: float):  # type: ignore[no-untyped-def]
    """A plant: noise in nRBP at each persistence, of that size."""

    def plant(lists: Lists) -> np.ndarray:
        size = by.get(lists.metric.removeprefix("nRBP(p=0.").removesuffix(")").join(("p", "")), 0.0)
        return lists.random.normal(0, 1, 1000)[lists.topic] * size

    return plant


CASES = {
    persistence.results_hold_for_other_persistence: {
        CONFIRMED: [study(*ORDERED)],
        REFUTED: [study(*ORDERED, CONTRARY)],
        INCONCLUSIVE: [BOUNDED, study(*ORDERED, of_bounded(0.03, of="nRBP", nsr=None, metric="nRBP(p=0.9)"))],
    },
    persistence.highest_persistence_agrees_best: {
        CONFIRMED: [study(blurred(p8=0.2, p9=0.1))],
        REFUTED: [study(blurred(p95=0.2, p9=0.1))],
        INCONCLUSIVE: [BOUNDED, study(blurred(p8=0.2))],
    },
}


@pytest.mark.parametrize(("decider", "expected", "study"), listed(CASES), ids=named)
def test_a_plant_is_found(decider: Decider, expected: str, study: Study, evidence_of: Made) -> None:
    found = decider(evidence_of(study))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


class TestTau:
    column = Column("movielens", 2)

    def test_it_is_scipys_for_a_single_run(self, evidence_of: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        evidence = evidence_of(study(blurred(p8=0.2, p9=0.1), losses=("AP",), boundings=("none",)))
        monkeypatch.setattr(persistence, "LOSSES", ("AP",))
        found = persistence._agreements(evidence, self.column)
        for one, other in found:
            values = [per_unit(scores(evidence, name, "AP", self.column).values[0]) for name in (one, other)]
            assert found[one, other].value == pytest.approx(stats.kendalltau(*values).statistic)

    def test_its_error_is_that_of_the_bootstrap(self, evidence_of: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        evidence = evidence_of(study(blurred(p8=0.2, p9=0.1), losses=("AP",), boundings=("none",)))
        monkeypatch.setattr(persistence, "LOSSES", ("AP",))
        found = persistence._agreements(evidence, self.column)
        lead = found["nDCG", "nRBP(p=0.9)"].lead(found["nDCG", "nRBP(p=0.8)"])
        columns = [
            per_unit(scores(evidence, name, "AP", self.column).values[0])
            for name in ("nDCG", "nRBP(p=0.8)", "nRBP(p=0.9)")
        ]
        random = np.random.default_rng(0)
        leads = []
        for _ in range(400):
            drawn = random.integers(0, len(columns[0]), len(columns[0]))
            target, low, high = (values[drawn] for values in columns)
            leads.append(stats.kendalltau(target, high).statistic - stats.kendalltau(target, low).statistic)
        assert lead.standard_error == pytest.approx(np.std(leads), rel=0.2)
