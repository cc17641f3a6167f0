"""Claims about the main runs, each decided on runs in which it is planted as true, as false, and as neither."""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound_study.claims.registry import decide, verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, MissingEvidence
from tests.study.planted import (
    NOISY,
    ONE_SEED,
    STILL,
    Lists,
    Plant,
    World,
    blurred,
    drawn,
    main_runs,
    of_bounded,
    settings,
    study,
    where_bounded,
)

DECIDED = (CONFIRMED, REFUTED, INCONCLUSIVE)
NEED_SCORES_THAT_VARY = ("T34", "T40", "T42", "T43", "T44")

AP_FALLS = of_bounded(-0.03, of="AP", bounding="distribution", nsr=3, metric="AP")
UNSURE = replace(ONE_SEED, chance=0.1)


def place(lists: Lists) -> int:
    """The k of nDCG@k, 0 of other metrics."""
    return int(lists.metric.removeprefix("nDCG@")) if lists.metric.startswith("nDCG@") else 0


def first_places(change: float, *, of: str, bounding: str = "", nsr: int | None = -1, start: int = 1) -> Plant:
    bounded = of_bounded(change, of=of, bounding=bounding, nsr=nsr)
    return lambda lists: bounded(lists) * (place(lists) >= start)


def slope(on_movielens: float, on_mq2008: float) -> Plant:
    return lambda lists: place(lists) * (on_movielens if lists.nsr else on_mq2008)


MANY = replace(STILL, topics=1200)


def stretched(by: float) -> Plant:
    """A plant: expectation-max bounding of nDCG moves scores away from their middle."""
    bounded = of_bounded(by, of="nDCG", bounding="expectation-max")
    return lambda lists: bounded(lists) * (lists.base - 0.6)


def lifted(share: tuple[float, float, float], by: float = 0.1, *, cost: float = 0.0) -> Plant:
    """A plant: distribution bounding of AP moves such shares of the lowest tenth, by ratio, and lowers high scores."""
    bounded = of_bounded(1.0, of="AP", bounding="distribution")

    def plant(lists: Lists) -> np.ndarray:
        chosen = lists.topic % 100 < 100 * share[(lists.nsr or 1) - 1]
        low, high = np.quantile(lists.base, [0.1, 0.9])
        if by < 0:
            return bounded(lists) * chosen * by
        return bounded(lists) * (chosen * (lists.base <= low) * by - cost * (lists.base >= high))

    return plant


def low_lists(change: float, **of: Any) -> Plant:
    bounded = of_bounded(change, **of)
    return lambda lists: bounded(lists) * (lists.base <= np.quantile(lists.base, 0.3))


def falling(lists: Lists) -> float:
    return -0.05 * (lists.nsr or 0)


def scattered(lists: Lists, size: float) -> np.ndarray:
    return lists.random.normal(0, size, len(lists.topic)) * (lists.bounding != "none")


def unrelated(lists: Lists) -> np.ndarray:
    """A plant: distribution bounding scores lists as if they were other ones."""
    return (lists.random.permutation(lists.base) - lists.base) * (lists.bounding == "distribution")


def by_relevant(slope: float, at_fewest: float = 0.0, **of: Any) -> Plant:
    bounded = of_bounded(1.0, **of)
    return lambda lists: bounded(lists) * (at_fewest + slope * (lists.p - 5))


NDCG_AND_AP = main_runs(losses=("nDCG", "AP"), controls={})
OF_MANY = replace(NDCG_AND_AP, topics=1200, folds=1, seeds=1)

ORDERED = [of_bounded(0.02 * step, of="nRBP", bounding=name) for step, name in enumerate(["min-max", "expectation"], 1)]
CONTRARY = of_bounded(-0.2, of="nRBP", nsr=2, metric="nRBP(p=0.8)")


def above_random(level: float) -> Plant:
    """A plant: scores as far above a random order, on the way to the best one; MQ2008 by `level` lower."""

    def plant(lists: Lists) -> np.ndarray:
        if lists.metric not in ("nDCG", "AP", "nRBP(p=0.95)"):
            return np.zeros(len(lists.n))
        expected = rb.expectation(lists.metric, lists.n, lists.p)
        reached = lists.base - level * (lists.nsr is None)
        return expected + (1 - expected) * reached - lists.base

    return plant


def collapse(*ratios: int, of: World = STILL) -> World:
    drops = (of_bounded(-0.08, of="nDCG", bounding="distribution", nsr=nsr) for nsr in ratios)
    return study(*drops, of=of)


CASES = {
    ("T07", CONFIRMED): [STILL, study(of_bounded(0.2, of="AP", bounding="expectation"))],
    ("T07", REFUTED): [study(of_bounded(sign * 0.1, of="AP", bounding="min-max", nsr=2)) for sign in (-1, 1)],
    ("T07", INCONCLUSIVE): [ONE_SEED, replace(NOISY, chance=0.1)],
    ("T14", CONFIRMED): [STILL, study(of_bounded(0.2, of="nRBP", bounding="distribution"))],
    ("T14", REFUTED): [study(of_bounded(0.1, of="nRBP", bounding="expectation", nsr=None))],
    ("T14", INCONCLUSIVE): [ONE_SEED, NOISY],
    ("T16", CONFIRMED): [replace(STILL, sizes=lambda topic: 0 * topic + 9)],
    ("T16", REFUTED): [
        study(of_bounded(0.1, of="AP", bounding="expectation", nsr=None)),
        study(of_bounded(0.1, of="AP", bounding="expectation", nsr=None), sizes=lambda topic: 0 * topic + 9),
    ],
    # Weights that vary, and scores that do not, leave it open.
    ("T16", INCONCLUSIVE): [
        replace(STILL, sizes=lambda topic: 1 + topic % 2 * 40),
        replace(ONE_SEED, sizes=lambda topic: 0 * topic + 9),
    ],
    ("T23", CONFIRMED): [STILL, study(of_bounded(0.2)), study(of_bounded(-0.2, of="nDCG", bounding="distribution"))],
    ("T23", REFUTED): [study(of_bounded(-0.2)), study(of_bounded(-0.2, nsr=1), of_bounded(-0.2, nsr=2))],
    ("T23", INCONCLUSIVE): [replace(ONE_SEED, chance=0.3)],
    ("T24", CONFIRMED): [study(falling), study(falling, of=main_runs((1, 3)))],
    ("T24", REFUTED): [study(lambda lists: falling(lists) * (-1) ** (lists.bounding == "min-max"))],
    ("T24", INCONCLUSIVE): [study(lambda lists: falling(lists) * (lists.loss != "AP"), of=NOISY)],
    ("T25", CONFIRMED): [study(above_random(0.0), level=0.02, topics=100, negatives=12)],
    ("T25", REFUTED): [study(above_random(0.3), topics=100, negatives=12)],
    ("T25", INCONCLUSIVE): [main_runs(topics=8, level=0.3)],
    ("T26", CONFIRMED): [collapse(1, 2, 3)],
    ("T26", REFUTED): [STILL, study(of_bounded(-0.08, of="nDCG", bounding="distribution")), collapse(1, 2)],
    ("T26", INCONCLUSIVE): [collapse(1, 2, 3, of=ONE_SEED)],
    ("T28", CONFIRMED): [STILL, study(of_bounded(-0.2, of="nDCG")), study(of_bounded(0.2, of="AP"))],
    ("T28", REFUTED): [
        study(of_bounded(0.1, of="nDCG", bounding="min-max", nsr=None, metric="nDCG@7")),
        study(of_bounded(0.02, of="nDCG", bounding="min-max", nsr=1, metric="nDCG")),
    ],
    ("T28", INCONCLUSIVE): [NOISY, study(of_bounded(0.002, of="nDCG"))],
    ("T29", CONFIRMED): [study(first_places(0.03, of="AP", bounding="distribution"), AP_FALLS)],
    ("T29", REFUTED): [
        study(first_places(-0.03, of="AP", bounding="distribution"), AP_FALLS),
        study(first_places(0.03, of="AP", bounding="distribution", nsr=2), AP_FALLS),
        study(of_bounded(0.03, of="AP", bounding="distribution")),
    ],
    ("T29", INCONCLUSIVE): [study(AP_FALLS, of=UNSURE)],
    ("T30", CONFIRMED): [study(of_bounded(0.03, of="AP", nsr=None), of_bounded(-0.06, bounding="min-max"))],
    ("T30", REFUTED): [study(of_bounded(-0.03, of="AP", nsr=None), of_bounded(0.06, bounding="min-max"))],
    ("T30", INCONCLUSIVE): [UNSURE],
    ("T31", CONFIRMED): [
        study(of_bounded(0.03, of="nRBP")),
        study(of_bounded(0.03, of="nRBP"), of_bounded(-0.1, of="nRBP", nsr=3, metric="nDCG@2")),
    ],
    ("T31", REFUTED): [study(of_bounded(0.03, of="nRBP"), of_bounded(-0.1, of="nRBP", nsr=2, metric="nDCG@2")), STILL],
    ("T31", INCONCLUSIVE): [UNSURE],
    ("T32", CONFIRMED): [study(slope(-0.01, 0.01))],
    ("T32", REFUTED): [study(slope(-0.01, -0.01)), study(slope(0.01, 0.01))],
    ("T32", INCONCLUSIVE): [STILL],
    ("T33", CONFIRMED): [study(*ORDERED)],
    ("T33", REFUTED): [study(*ORDERED, CONTRARY, folds=5)],
    ("T33", INCONCLUSIVE): [STILL, study(*ORDERED, of_bounded(0.03, of="nRBP", nsr=None, metric="nRBP(p=0.9)"))],
    ("T34", CONFIRMED): [study(blurred(p8=0.2, p9=0.1))],
    ("T34", REFUTED): [study(blurred(p95=0.2, p9=0.1))],
    ("T34", INCONCLUSIVE): [STILL, study(blurred(p8=0.2))],
    ("T35", CONFIRMED): [study(stretched(0.5), of=replace(MANY, seeds=5))],
    ("T35", REFUTED): [study(stretched(-0.5), of=MANY), STILL],
    ("T35", INCONCLUSIVE): [replace(ONE_SEED, chance=0.03)],
    ("T36", CONFIRMED): [study(lifted((0.9, 0.6, 0.3)), of=MANY)],
    ("T36", REFUTED): [
        study(lifted((0.3, 0.6, 0.9)), of=MANY),
        study(lifted((0.9, 0.6, 0.3), cost=0.3), of=MANY),
        study(lifted((0.2, 0.2, 0.2), -0.5), of=MANY),
    ],
    ("T36", INCONCLUSIVE): [replace(ONE_SEED, chance=0.03), study(lifted((0.6, 0.6, 0.6)), of=MANY)],
    ("T37", CONFIRMED): [
        replace(STILL, topics=120),
        study(of_bounded(0.2, of="AP", bounding="distribution"), topics=120),
    ],
    ("T37", REFUTED): [study(of_bounded(0.2, of="AP", bounding="min-max", nsr=None))],
    ("T37", INCONCLUSIVE): [NOISY, study(of_bounded(0.02, of="AP"), topics=20)],
    ("T38", CONFIRMED): [study(low_lists(0.3, of="nRBP"), of=MANY)],
    ("T38", REFUTED): [
        study(low_lists(0.3, of="nRBP"), of_bounded(-0.5, of="nRBP", bounding="distribution", nsr=2)),
        STILL,
    ],
    ("T38", INCONCLUSIVE): [study(low_lists(0.3, of="nRBP"), topics=60)],
    ("T39", CONFIRMED): [study(lambda lists: falling(lists) * (lists.bounding == "distribution"))],
    ("T39", REFUTED): [
        study(lambda lists: falling(lists) * (lists.bounding == "distribution") * (-1) ** (lists.loss == "AP"))
    ],
    ("T39", INCONCLUSIVE): [NOISY],
    ("T40", CONFIRMED): [STILL],
    ("T40", REFUTED): [study(unrelated)],
    ("T40", INCONCLUSIVE): [replace(STILL, topics=12, chance=0.05)],
    ("T41", CONFIRMED): [
        study(low_lists(0.1, of="nRBP", bounding="min-max")),
        study(low_lists(0.1, of="nRBP", bounding="min-max"), low_lists(-0.1, of="nDCG")),
    ],
    ("T41", REFUTED): [study(low_lists(-0.1)), study(low_lists(-0.1, nsr=1), low_lists(0.2, nsr=2))],
    ("T41", INCONCLUSIVE): [replace(ONE_SEED, chance=0.03)],
    ("T42", CONFIRMED): [study(lambda lists: scattered(lists, 0.02 * (lists.nsr or 1)))],
    ("T42", REFUTED): [
        study(lambda lists: scattered(lists, 0.02 * (4 - (lists.nsr or 1) if lists.loss == "AP" else 1)))
    ],
    ("T42", INCONCLUSIVE): [replace(STILL, chance=0.02)],
    ("T43", CONFIRMED): [OF_MANY],
    ("T43", REFUTED): [
        study(by_relevant(sign * 0.01, -sign * 0.2, of="AP", bounding="min-max", nsr=2)) for sign in (-1, 1)
    ],
    ("T43", INCONCLUSIVE): [NDCG_AND_AP, study(by_relevant(0.01, of="nRBP"))],
    ("T44", CONFIRMED): [study(by_relevant(0.01, of="nRBP"))],
    ("T44", REFUTED): [
        study(by_relevant(-0.01, of="nRBP")),
        study(by_relevant(0.01, -0.3, of="nRBP")),
        study(by_relevant(0.01, of="nRBP"), by_relevant(-0.05, of="nRBP", nsr=3)),
    ],
    ("T44", INCONCLUSIVE): [STILL, study(by_relevant(0.01, of="nRBP", nsr=2))],
    ("T45", CONFIRMED): [study(of_bounded(0.02, of="nRBP"))],
    ("T45", REFUTED): [
        STILL,
        study(of_bounded(0.05, of="nRBP"), of_bounded(-0.1, of="nRBP", nsr=None)),
        study(of_bounded(0.02, of="nRBP", nsr=2), of=ONE_SEED),
    ],
    ("T45", INCONCLUSIVE): [replace(ONE_SEED, chance=0.05)],
    ("T46", CONFIRMED): [study(of_bounded(0.05), of_bounded(-0.1, bounding="distribution"))],
    ("T46", REFUTED): [study(of_bounded(-0.05), of_bounded(0.1, bounding="distribution"))],
    ("T46", INCONCLUSIVE): [replace(ONE_SEED, chance=0.1)],
    ("T47", CONFIRMED): [
        study(of_bounded(0.05, bounding="min-max", nsr=1), of_bounded(0.05, bounding="distribution", nsr=2))
    ],
    ("T47", REFUTED): [study(of_bounded(0.05, bounding="min-max"))],
    ("T47", INCONCLUSIVE): [NOISY, study(of_bounded(0.05, bounding="min-max", nsr=1))],
}
"""Claim and verdict -> studies in which that is planted."""
CLAIMS = list(dict.fromkeys(claim for claim, _ in CASES))

SMALL = main_runs((1, 3), topics=40, seeds=1, controls={})
ONE_TOPIC = main_runs(topics=1, folds=1)
CONSTANT = main_runs(level=0.0, chance=0.0, shared=0.0)
NO_LOSSES, NO_BOUNDS = main_runs(losses=("softmax",)), main_runs(boundings=("none",))

EACH = [
    pytest.param(claim, expected, one, id=f"{claim}-{expected}-{number}", marks=[pytest.mark.long] * (number > 0))
    for expected in DECIDED
    for claim in CLAIMS
    for number, one in enumerate(CASES[claim, expected])
]


@pytest.mark.parametrize(("claim", "expected", "planted"), EACH)
def test_a_plant_is_found(claim: str, expected: str, planted: World) -> None:
    found = verdict_on(claim, drawn(planted))
    assert found.verdict == expected, found.reason
    assert found.n > 0
    assert found.reason.endswith(".")


@pytest.mark.parametrize("claim", CLAIMS)
class TestSmallStudies:
    def test_demonstrations_and_constant_scores_are_decided_or_named(self, claim: str) -> None:
        small = drawn(SMALL)
        assert verdict_on(claim, small).verdict in DECIDED
        same = drawn(CONSTANT)
        if claim in NEED_SCORES_THAT_VARY:
            with pytest.raises(MissingEvidence, match=r"hardly differ|the same in all"):
                verdict_on(claim, same)
        else:
            assert verdict_on(claim, same).verdict in DECIDED

    def test_a_single_topic_is_named(self, claim: str) -> None:
        with pytest.raises(MissingEvidence, match=r"test takes two|the same in all topics|over 1 topics"):
            verdict_on(claim, drawn(ONE_TOPIC))

    def test_losses_and_boundings_that_did_not_run_are_named(self, claim: str) -> None:
        """T34 is about metrics, whatever boundings were trained."""
        for absent, message in ((NO_LOSSES, "no honest runs of"), (NO_BOUNDS, r"bounding|min-max")):
            with (
                pytest.raises(MissingEvidence, match=message)
                if claim != "T34" or absent is NO_LOSSES
                else nullcontext()
            ):
                verdict_on(claim, drawn(absent))


def test_numbers_and_slopes_are_those_that_were_planted() -> None:
    planted = study(of_bounded(0.02, of="nRBP"), of_bounded(0.03, of="nRBP", bounding="distribution", nsr=2))
    evidence = drawn(planted)
    found = verdict_on("T45", evidence)
    assert found.value == pytest.approx(0.02, abs=0.001)
    assert found.low < 0.02 < found.high
    assert "rises in 8 of 8 distinct cells, significantly in 8" in found.reason
    assert "+0.05" in found.reason or "+0.0499" in found.reason
    assert verdict_on("T46", evidence).value >= 8 / 40
    gap = verdict_on("T25", drawn(study(above_random(0.3), topics=100, negatives=12)))
    assert gap.value == pytest.approx(-0.3, abs=0.05)
    found = verdict_on("T32", drawn(study(slope(-0.01, 0.02))))
    assert found.value == pytest.approx(0.03, abs=1e-3)
    assert "for 45 of 45" in found.reason
    assert "+0.0000, +0.0000, +0.0000, +0.0000 (oracle)" in found.reason
    # Lists with at least ten relevant items fall, all others rise, on both data sets.

    def by_size(lists: Lists) -> np.ndarray:
        return place(lists) * np.where(lists.p >= 10, -0.01, 0.02)

    reason = verdict_on("T32", drawn(study(by_size))).reason
    slopes = [float(text) for text in re.findall(r"[+-]0\.\d+", reason.partition("in all others, by ")[2])[:4]]
    assert slopes == pytest.approx([0.02, -0.01] * 2, abs=1e-3)


def test_choosing_by_the_average_shows_no_regression_to_the_mean() -> None:
    found = verdict_on("T41", drawn(replace(MANY, chance=0.1)))
    assert "under 0 of 10" in found.reason
    assert "falls under 0" in found.reason


def test_the_best_bounding_is_picked_by_validation() -> None:
    """On the test part all bounded losses score significantly higher than the one that validation prefers."""
    world = study(of_bounded(0.05))
    by_test = verdict_on("T47", drawn(world))
    preferred = replace(world, validation=lambda one: 0.99 if one.bounding == "none" else 0.6)
    assert "all boundings on" in verdict_on("T47", drawn(preferred)).reason
    assert "no bounding" not in by_test.reason
    assert "all boundings" not in by_test.reason


@pytest.mark.slow
def test_claims_are_decided_if_every_seed_has_a_drawing_of_its_own(tmp_path: Path) -> None:
    """No two seeds share a list then, whose scores would say how much lists differ between seeds."""
    world = World(where_bounded(0.01), settings(), topics=40)
    missing = []
    for drawings in (1, 3):
        (folder := tmp_path / str(drawings)).mkdir()
        decided = decide(replace(world, drawings=drawings).files(folder))
        missing.append({claim.id for claim, verdict in decided if verdict.verdict == NOT_RUN})
    assert missing[0] == missing[1]
    assert "T42" not in missing[1]
