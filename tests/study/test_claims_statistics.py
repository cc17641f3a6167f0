"""The statistics that claims are decided by, compared with scipy's: distances, correlations, Kendall's tau."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound.compare.scores import per_unit
from rankbound_study.claims import lists
from rankbound_study.claims.cells import Cell, pair, scores
from rankbound_study.claims.statistics import PEARSON, SPEARMAN, correlation, distance, permuted_p_value
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from tests.study.planted import ONE_SEED, Made, blurred, evidence_of, of_bounded, study

stats = pytest.importorskip("scipy.stats", reason="claims are decided by statistics")

__all__ = ["evidence_of"]


class TestDistances:
    column = DataSet("movielens", 1)

    def test_the_largest_one_is_scipys(self, evidence_of: Made) -> None:
        evidence = evidence_of(study(of_bounded(0.05, of="AP", bounding="min-max"), topics=30))
        of = pair(evidence, Cell("AP", "min-max", self.column, "AP"))
        expected = stats.ks_2samp(of.a.ravel(), of.b.ravel()).statistic
        assert distance(of) == pytest.approx(expected)
        assert permuted_p_value(of) < 0.01

    def test_chance_alone_is_not_significant(self, evidence_of: Made) -> None:
        of = pair(evidence_of(replace(ONE_SEED, noise=0.05)), Cell("AP", "expectation", self.column, "AP"))
        assert permuted_p_value(of) > 0.05


class TestCorrelation:
    random = np.random.default_rng(3)
    x = random.normal(0, 1, 500)
    y = x + random.normal(0, 1, 500)

    def test_it_is_scipys(self) -> None:
        assert correlation(self.x, self.y, PEARSON).mean == pytest.approx(stats.pearsonr(self.x, self.y).statistic)
        assert correlation(self.x, self.y, SPEARMAN).mean == pytest.approx(stats.spearmanr(self.x, self.y).statistic)

    def test_of_independent_lists_its_interval_is_fishers(self) -> None:
        found = correlation(self.x, self.y)
        assert found.interval == pytest.approx(stats.pearsonr(self.x, self.y).confidence_interval(), abs=0.015)
        assert found.p_above(0.5) < 0.05 < found.p_above(found.mean)
        assert found.p_below(0.9) < 0.05

    def test_lists_of_one_topic_count_once(self) -> None:
        alone = correlation(self.x, self.y)
        repeated = correlation(np.repeat(self.x[:, None], 5, 1), np.repeat(self.y[:, None], 5, 1))
        assert repeated.mean == pytest.approx(alone.mean)
        assert repeated.estimate.standard_error == pytest.approx(alone.estimate.standard_error)

    def test_what_has_none_is_named(self) -> None:
        with pytest.raises(MissingEvidence, match="the same in all lists"):
            correlation(np.ones(9), np.arange(9.0))
        with pytest.raises(MissingEvidence, match="over 2 topics"):
            correlation(np.arange(2.0), np.arange(2.0))

    def test_equal_scores_correlate_wholly(self) -> None:
        found = correlation(self.x, self.x)
        assert found.mean == pytest.approx(1)
        assert found.p_above(0.7) < 1e-9


class TestTau:
    column = DataSet("movielens", 2)

    def test_it_is_scipys_for_a_single_run(self, evidence_of: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        evidence = evidence_of(study(blurred(p8=0.2, p9=0.1), losses=("AP",), boundings=("none",)))
        monkeypatch.setattr(lists, "LOSSES", ("AP",))
        found = lists._agreements(evidence, self.column)
        for one, other in found:
            values = [per_unit(scores(evidence, name, "AP", self.column).values[0]) for name in (one, other)]
            assert found[one, other].value == pytest.approx(stats.kendalltau(*values).statistic)

    def test_its_error_is_that_of_the_bootstrap(self, evidence_of: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        evidence = evidence_of(study(blurred(p8=0.2, p9=0.1), losses=("AP",), boundings=("none",)))
        monkeypatch.setattr(lists, "LOSSES", ("AP",))
        found = lists._agreements(evidence, self.column)
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
