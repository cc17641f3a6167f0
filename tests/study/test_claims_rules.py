"""From tests to a verdict: families of differences, and the bootstrap of many cells at once."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rankbound.compare.statistics import Estimate
from rankbound_study.claims.cells import Cell, Contrast, cells, contrast, contrasts, estimate, pair
from rankbound_study.claims.rules import RULES, Family, collapsed, share_of, together
from rankbound_study.claims.statistics import resampled_means
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from rankbound_study.config.data_sets import DataSet
from tests.study.planted import ONE_SEED, STILL, Made, Study, evidence_of, of_bounded, study

pytest.importorskip("scipy", reason="claims are decided by statistics")

__all__ = ["evidence_of"]


def difference(mean: float, error: float = 0.01, margin: float = math.nan) -> Contrast:
    return Contrast(Estimate(mean, error, 100.0), margin, 101)


def of_all(*differences: Contrast) -> Family[int]:
    return Family(dict(enumerate(differences)), 0.05)


UP, DOWN, OPEN, ALIKE = difference(0.1), difference(-0.1), difference(0.01), difference(0.0, margin=0.1)
FAR, NONE, AT = difference(0.3), difference(0.0, error=0.0001), difference(0.05)
OVER, WIDE = difference(0.3, margin=0.1), difference(0.0)
SMALL = difference(0.005, error=0.004, margin=0.1)
"""Alike within a margin that exceeds the rise, which it does not refute."""

VERDICTS: dict[str, dict[str, list[list[Contrast]]]] = {
    "all are higher": {CONFIRMED: [[UP, UP]], INCONCLUSIVE: [[UP, OPEN], [UP, NONE]], REFUTED: [[UP, DOWN]]},
    "all are lower": {CONFIRMED: [[DOWN, DOWN]], INCONCLUSIVE: [[DOWN, NONE]], REFUTED: [[DOWN, UP]]},
    "none is lower": {CONFIRMED: [[UP, UP]], INCONCLUSIVE: [[UP, ALIKE]], REFUTED: [[UP, DOWN]]},
    "all rise": {CONFIRMED: [[UP, UP]], INCONCLUSIVE: [[UP, SMALL]], REFUTED: [[UP, NONE], [UP, DOWN]]},
    "all fall": {CONFIRMED: [[DOWN, DOWN]], REFUTED: [[DOWN, NONE], [DOWN, UP]]},
    "all are above": {CONFIRMED: [[UP, FAR]], INCONCLUSIVE: [[UP, AT], []], REFUTED: [[UP, OPEN]]},
    "all are below": {CONFIRMED: [[DOWN, OPEN]], INCONCLUSIVE: [[AT], []], REFUTED: [[DOWN, FAR]]},
    "none falls": {CONFIRMED: [[ALIKE, OVER]], INCONCLUSIVE: [[UP, OPEN]], REFUTED: [[UP, DOWN]]},
    "none falls beyond noise": {
        CONFIRMED: [[ALIKE, OVER]],
        INCONCLUSIVE: [[ALIKE, DOWN]],
        REFUTED: [[ALIKE, difference(-0.3, margin=0.1)]],
    },
    "all are within": {CONFIRMED: [[OPEN]], INCONCLUSIVE: [[OPEN, AT], []], REFUTED: [[OPEN, FAR]]},
    "all tend to be higher": {CONFIRMED: [[UP]], INCONCLUSIVE: [[UP, ALIKE]], REFUTED: [[UP, DOWN], [ALIKE, ALIKE]]},
    "some are higher": {CONFIRMED: [[UP, DOWN]], INCONCLUSIVE: [[DOWN, OPEN]], REFUTED: [[DOWN, ALIKE]]},
    "some are higher, none lower": {
        CONFIRMED: [[UP, OPEN]],
        INCONCLUSIVE: [[UP, DOWN], [OPEN, ALIKE]],
        REFUTED: [[DOWN, OPEN], [ALIKE, ALIKE]],
    },
    "most rise": {CONFIRMED: [[UP, UP, DOWN]], INCONCLUSIVE: [[UP, OPEN]], REFUTED: [[DOWN, DOWN, UP, UP]]},
    "most are no worse": {
        CONFIRMED: [[NONE, NONE, DOWN]],
        INCONCLUSIVE: [[UP, difference(0.0), DOWN]],
        REFUTED: [[DOWN, UP]],
    },
}
"""What each rule says of some differences."""


@pytest.mark.parametrize("rule", VERDICTS)
def test_rules_follow_from_the_tests_of_all_differences(rule: str) -> None:
    """The limit, of rules that have one, is 0.05."""
    for verdict, families in VERDICTS[rule].items():
        for some in families:
            assert RULES[rule](of_all(*some)) == verdict, some


def test_without_a_limit_differences_are_compared_with_their_noise_margins() -> None:
    cases = {CONFIRMED: [ALIKE], INCONCLUSIVE: [ALIKE, difference(0.0)], REFUTED: [ALIKE, OVER]}
    for verdict, some in cases.items():
        assert RULES["all are within"](Family(dict(enumerate(some)))) == verdict


def test_every_difference_has_its_place() -> None:
    family = Family({"up": UP, "down": DOWN, "open": OPEN, "alike": ALIKE})
    assert (family.higher, family.lower, family.alike) == (["up"], ["down"], ["alike"])
    assert (family.least(), family.most()) == ("down", "up")
    assert family.worst_p() == family.p_values["alike"] == 1
    # Holm counts the tests.
    alone, among_many = ({place: difference(0.022) for place in range(count)} for count in (1, 20))
    assert (Family(alone).higher, Family(among_many).higher) == ([0], [])
    assert collapsed({"a": UP, "b": difference(-0.02), "c": DOWN}) == ["c"]


def test_parts_of_a_claim_and_shares_of_cases() -> None:
    assert together(CONFIRMED, CONFIRMED) == CONFIRMED
    assert together(CONFIRMED, INCONCLUSIVE) == INCONCLUSIVE
    assert together(INCONCLUSIVE, REFUTED) == REFUTED
    shown, open_ = [1e-6] * 3, [0.5] * 2
    assert share_of(shown + open_, [1.0] * 5, 3) == CONFIRMED
    assert share_of([0.02] * 3 + open_, [1.0] * 5, 3) == INCONCLUSIVE, "three times 0.02"
    assert share_of([1.0] * 4, [1e-6] * 2 + [1.0] * 2, 3) == REFUTED
    assert share_of([1e-6] + [0.9] * 2, [1.0] * 3, 1) == CONFIRMED
    assert share_of([1.0] * 3, [1e-6] * 2 + [0.9], 1) == INCONCLUSIVE


class TestResamples:
    noisy = replace(STILL, noise=0.05, losses=("AP",), controls=False)

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
