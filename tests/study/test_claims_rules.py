"""From tests to a verdict: families of differences, and the bootstrap of many cells at once."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import Cell, Contrast, cells, contrast, contrasts, estimate, pair
from rankbound_study.claims.rules import Family, collapsed, most, share_of, together
from rankbound_study.claims.statistics import resampled_means
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from rankbound_study.config.data_sets import DataSet
from tests.study.planted_cells import BOUNDED, ONE_SEED, Made, Study, evidence_of, of_bounded, study

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]


def difference(mean: float, error: float = 0.01, margin: float = math.nan) -> Contrast:
    return Contrast(Estimate(mean, error, 100.0), margin, 101)


def of_all(*differences: Contrast) -> Family[int]:
    return Family(dict(enumerate(differences)))


class TestFamilies:
    up, down, open_, alike = difference(0.1), difference(-0.1), difference(0.01), difference(0.0, margin=0.1)

    def test_every_difference_has_its_place(self) -> None:
        family = Family({"up": self.up, "down": self.down, "open": self.open_, "alike": self.alike})
        assert (family.higher, family.lower, family.alike) == (["up"], ["down"], ["alike"])
        assert (family.least(), family.most()) == ("down", "up")
        assert family.worst_p() == family.p_values["alike"] == 1

    def test_one_against_refutes_and_one_open_leaves_open(self) -> None:
        assert of_all(self.up, self.up).all_higher() == CONFIRMED
        assert of_all(self.up, self.open_).all_higher() == INCONCLUSIVE
        assert of_all(self.up, self.down).all_higher() == REFUTED
        assert of_all(self.down, self.down).all_lower() == CONFIRMED
        assert of_all(self.down, self.up).all_lower() == REFUTED

    def test_alike_within_a_margin_refutes_no_small_rise(self) -> None:
        small = difference(0.005, error=0.004, margin=0.1)
        assert of_all(self.up, small).alike
        assert of_all(self.up, small).all_higher(at_least=0.001) == INCONCLUSIVE

    def test_a_difference_that_is_shown_to_be_negligible_refutes_a_rise(self) -> None:
        none = difference(0.0, error=0.0001)
        assert of_all(self.up, none).all_higher() == INCONCLUSIVE
        assert of_all(self.up, none).all_higher(at_least=0.001) == REFUTED
        assert of_all(self.down, none).all_lower(at_least=0.001) == REFUTED

    def test_holm_counts_the_tests(self) -> None:
        alone, among_many = ({place: difference(0.022) for place in range(count)} for count in (1, 20))
        assert Family(alone).higher == [0]
        assert not Family(among_many).higher

    def test_alike_takes_a_margin(self) -> None:
        assert of_all(self.alike).all_alike() == CONFIRMED
        assert of_all(self.alike, difference(0.0)).all_alike() == INCONCLUSIVE
        assert of_all(self.alike, difference(-0.3, margin=0.1)).all_alike() == REFUTED
        assert of_all(self.alike, difference(0.3, margin=0.1)).all_alike() == REFUTED

    def test_parts_and_intervals(self) -> None:
        assert together(CONFIRMED, CONFIRMED) == CONFIRMED
        assert together(CONFIRMED, INCONCLUSIVE) == INCONCLUSIVE
        assert together(INCONCLUSIVE, REFUTED) == REFUTED

    def test_most_takes_more_than_half_whatever_the_dependence(self) -> None:
        shown, open_ = [1e-6] * 3, [0.5] * 2
        assert most(shown + open_, [1.0] * 5) == CONFIRMED
        assert most([0.02] * 3 + open_, [1.0] * 5) == INCONCLUSIVE, "three times 0.02"
        assert most([1.0] * 4, [1e-6] * 2 + [1.0] * 2) == REFUTED, "half is not more than half"
        assert share_of([1e-6] + [0.9] * 2, [1.0] * 3, 1) == CONFIRMED
        assert share_of([1.0] * 3, [1e-6] * 2 + [0.9], 1) == INCONCLUSIVE

    def test_what_collapses_is_shown_to(self) -> None:
        found = {"a": difference(-0.1), "b": difference(-0.02), "c": difference(0.1)}
        assert collapsed(found) == ["a"]


class TestResamples:
    noisy = replace(BOUNDED, noise=0.05, losses=("AP",), controls=False)

    @pytest.mark.parametrize("seeds", [1, 8])
    def test_they_spread_as_the_standard_error_says(self, evidence_of: Made, seeds: int) -> None:
        evidence = evidence_of(replace(self.noisy, seeds=seeds))
        pairs = {cell: pair(evidence, cell) for cell in cells(evidence, ["AP"])}
        found = resampled_means(pairs)
        for number, one in enumerate(pairs.values()):
            assert found[:, number].mean() == pytest.approx(contrast(one).mean, abs=5e-4)
            ratio = found[:, number].std() / contrast(one).estimate.standard_error
            assert 0.8 < ratio < (1.2 if seeds == 1 else math.sqrt(3) * 1.2)

    def test_readings_of_one_source_share_topics(self, evidence_of: Made) -> None:
        evidence = evidence_of(replace(self.noisy, seeds=1))
        cell = next(one for one in cells(evidence, ["AP"]) if one.column.nsr is None)
        other = cell._replace(column=DataSet("mq2008-label2", None))
        found = resampled_means({cell: pair(evidence, cell), other: pair(evidence, cell)})
        assert (found[:, 0] == found[:, 1]).all()


class TestContrasts:
    def test_they_find_what_is_planted(self, evidence_of: Made) -> None:
        evidence = evidence_of(study(of_bounded(0.03, of="AP", bounding="min-max", nsr=2)))
        found = contrasts(evidence, cells(evidence, ["AP"]))
        planted = Cell("AP", "min-max", DataSet("movielens", 2), "AP")
        assert found[planted].mean == pytest.approx(0.03, abs=1e-3)
        assert all(abs(one.mean) < 1e-3 for cell, one in found.items() if cell != planted)
        assert found[planted].margin == pytest.approx(0.01 * 2.77 / math.sqrt(2), rel=0.7)

    def test_one_seed_gives_no_margin(self, evidence_of: Made) -> None:
        evidence = evidence_of(ONE_SEED)
        assert all(math.isnan(one.margin) for one in contrasts(evidence, cells(evidence)).values())

    def test_rounding_is_no_difference(self) -> None:
        assert estimate(np.full((5, 2, 3), 1e-17)).p_value() == 1

    def test_mq2008_comes_from_its_first_label(self, evidence_of: Made) -> None:
        assert {cell.column.dataset for cell in cells(evidence_of(Study()))} == {"movielens", "mq2008-label1"}
