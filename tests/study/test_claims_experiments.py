"""Claims that experiments decide: choices, other test lists, losses and orders; what is planted is what is found."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from rankbound_study.claims import experiments
from rankbound_study.claims.experiments import FIRST, SPREAD
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.vocabulary import BOUNDINGS, JUDGED_BY, UNBOUNDED
from tests.study.planted import LOSSES, Effect, Lists, Setting, World, beside, joint, raised, settings, usual
from tests.study.test_calibrations import THREE_SIZES, remedied, sgd

MOVIELENS, MQ2008 = 2, None


def turned(one: Setting) -> float:
    """The losses in the opposite order."""
    return 0.1 - usual(one)


def factors(small: Effect, large: Effect, **changes: Any) -> World:
    return beside(MOVIELENS, {"factors-f16": small, "factors-f64": large}, **changes)


def widths(narrow: Effect, wide: Effect, **noise: Any) -> World:
    return replace(beside(MQ2008, {"widths-w6": narrow, "widths-w92": wide}, bounds=(UNBOUNDED,)), **noise)


def only(world: World, kept: Callable[[Setting], bool]) -> World:
    return replace(world, settings=[one for one in world.settings if kept(one)])


Gain = Callable[[str, str], float]  # what bounding changes, by loss and metric


def everywhere(by: float) -> Gain:
    return lambda loss, metric: by


def on_own_metric(by: float, on_others: float) -> Gain:
    return lambda loss, metric: by if metric == JUDGED_BY[loss] else on_others


def crossed(own: Gain, trained_higher: Gain, **changes: Any) -> World:
    """Bounded losses differ from the unbounded one by what is planted, by the ratio of the training."""

    def gain(lists: Lists) -> float:
        planted = trained_higher if lists.variant else own
        return planted(lists.loss, lists.metric) * (lists.bounding != UNBOUNDED)

    other = settings(LOSSES, ("none", "distribution"), (MOVIELENS,), "ratios-at2", trained_at=3)
    some = [*settings(LOSSES, BOUNDINGS, (MOVIELENS, MQ2008)), *other]
    size = {"topics": 20, "own": 0.002, "training": 0.003, "chance": 0.004}
    return World(lambda one: 0.0, some, plant=gain, **(size | changes))


def shorter(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    """Every other list lost a negative, and bounded losses score lower there."""
    lost = (pl.col("topic").cast(pl.Int32) % 2) * bool(one.variant)
    down = 0.2 * lost * (one.bounding != UNBOUNDED)
    return rows.with_columns(pl.col("n") - lost, *(pl.col(metric) - down for metric in JUDGED_BY.values()))


def all_shorter(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("n") - bool(one.variant))


def one_relevant(
    better: Mapping[str, float], at: str = "", best: str = "", losses: tuple[str, ...] = ("softmax", "RankNet", "AP")
) -> World:
    """Losses score better by so much at one of two rates, or at both; `best` is the loss whose low rate is picked."""
    of_both = dict.fromkeys(
        ("one-relevant-usual", "one-relevant-low"), lambda one: better.get(one.loss, 0.0) * one.variant.endswith(at)
    )
    validation = {True: "low", False: "usual"}
    found = beside(MOVIELENS, of_both, losses=losses, bounds=(UNBOUNDED,))
    return replace(found, validation=lambda one: 0.9 if one.variant.endswith(validation[one.loss == best]) else 0.1)


def warp(gain: float, **changes: Any) -> World:
    """On both data sets, trainings differ by 0.02 and ten weights are better than one by so much."""

    def better(one: Setting) -> float:
        return gain * (one.loss == SPREAD)

    some = {"losses": (FIRST, SPREAD), "bounds": (UNBOUNDED,)}
    both = [beside(cell, {"warp-p10": better}, **some) for cell in (MQ2008, MOVIELENS)]
    return replace(joint(*both), **({"training": 0.005} | changes))


EVERY = dict.fromkeys(LOSSES, 0.05)
ALL = {MOVIELENS: EVERY, MQ2008: EVERY}


def tilted(changes: Mapping[int | None, Mapping[str, float]], **noise: Any) -> World:
    """By how much a loss is higher with tilted orders, by data set."""

    def higher(one: Setting) -> float:
        return usual(replace(one, bounding="distribution")) + changes[one.nsr].get(one.loss, 0.0)

    of_cells = [beside(cell, {"tilts-t4": higher}, bounds=("distribution(tilt=4)",)) for cell in changes]
    of_cells += [beside(cell, {}) for cell in (MOVIELENS, MQ2008)]
    return replace(joint(*of_cells), **({"own": 0.0005, "training": 0.004, "chance": 0.0005} | noise))


SAME = everywhere(0.05)
DROP = remedied(0.0, 0.0)
QUIET = {"own": 0.0005, "chance": 0.0005, "training": 0.0001}
SMALL = crossed(everywhere(0.0005), everywhere(-0.0005), chance=0.001, training=0.0002, topics=200)
SGD_TURNED = replace(sgd(0.0), effect=lambda one: 0.2 + turned(one) if one.variant else usual(one))
CASES: list[tuple[str, str, World, str, tuple[str, ...]]] = [
    ("T20", "a trend without another order", THREE_SIZES, CONFIRMED, ()),
    ("T20", "a falling trend", factors(raised(0.05), raised(-0.05)), REFUTED, ()),
    ("T20", "another order", factors(raised(-0.05), turned), REFUTED, ()),
    ("T20", "a size that did not run", beside(MOVIELENS, {"factors-f16": usual}), INCONCLUSIVE, ("2 of 3 sizes",)),
    ("T20", "one seed", factors(raised(-0.05), raised(0.05), seeds=1), INCONCLUSIVE, ()),
    ("T21", "equal scores", widths(usual, usual, **QUIET), CONFIRMED, ("6 are alike",)),
    ("T21", "one width far off", widths(raised(-0.05), usual), REFUTED, ("that of width 6 with",)),
    ("T21", "a difference at the margin", widths(raised(-0.002), usual), INCONCLUSIVE, ()),
    ("T22", "better everywhere in the same order", sgd(0.03), CONFIRMED, ()),
    *(
        ("T22", f"the rate {at} at an end", sgd(0.03, at), INCONCLUSIVE, ("end of the grid for 9 of 9 on MovieLens",))
        for at in ("r1", "r3")
    ),
    (
        *("T22", "most did not train at the lowest rate"),
        only(sgd(0.03), lambda one: not one.variant.endswith("r1") or (one.loss, one.bounding) == ("nDCG", "none")),
        *(CONFIRMED, ("better than Adam in 18 of 18 distinct losses",)),
    ),
    ("T22", "worse at the end of the grid", sgd(-0.03, "r3"), INCONCLUSIVE, ()),
    ("T22", "worse everywhere", sgd(-0.03), REFUTED, ()),
    ("T22", "another order", SGD_TURNED, REFUTED, ()),
    (
        *("T27", "every remedy removes the drop", DROP, CONFIRMED),
        ("with the gain sd (gradient times 1", "gradient is not significantly larger: the gain drawn"),
    ),
    ("T27", "the drop stays", remedied(1.0, 0.9), REFUTED, ()),
    ("T27", "one remedy fails", remedied(0.0, 1.0), REFUTED, ()),
    ("T27", "half of the drop stays", remedied(0.0, 0.5), INCONCLUSIVE, ()),
    (
        *("T27", "no gradient is lifted", replace(DROP, gradient=lambda one: 1.0), INCONCLUSIVE),
        ("no remedy, as the gradient is not significantly larger",),
    ),
    ("T27", "no drop", replace(DROP, effect=lambda one: 0.0), INCONCLUSIVE, ("no drop to explain",)),
    (
        *("T49", "verdicts turn on both sides", crossed(on_own_metric(0.05, -0.05), everywhere(-0.05)), CONFIRMED),
        ("3 of 3 verdicts", "40 of 40 differences have significantly opposite signs"),
    ),
    ("T49", "the same verdicts", crossed(SAME, SAME), REFUTED, ()),
    ("T49", "differences that do not matter", SMALL, REFUTED, ()),
    # Effects are the same, and significant, on all metrics; seeds differ as much as the smaller of them.
    ("T49", "the margin of one metric", crossed(on_own_metric(0.05, 0.004), everywhere(-0.05)), INCONCLUSIVE, ()),
    ("T49", "the ratio alone", crossed(SAME, everywhere(-0.05)), REFUTED, ()),
    ("T49", "the metric alone", crossed(on_own_metric(0.05, -0.05), on_own_metric(0.05, -0.05)), REFUTED, ()),
    ("T49", "lists that lost what was seen", crossed(SAME, SAME, change=shorter), REFUTED, ()),
    ("T49", "noise", crossed(everywhere(0.01), everywhere(0.0), chance=0.3), INCONCLUSIVE, ()),
    ("M04", "all alike", one_relevant({}), CONFIRMED, ()),
    ("M04", "softmax is better", one_relevant({"softmax": 0.1}), CONFIRMED, ()),
    ("M04", "AP is better", one_relevant({"AP": 0.05}), REFUTED, ("lowest against AP",)),
    ("M04", "at the margin", one_relevant({"AP": 0.005}), INCONCLUSIVE, ()),
    ("M04", "AP at another rate", one_relevant({"AP": 0.1}, "low"), CONFIRMED, ()),
    ("M04", "AP at its picked rate", one_relevant({"AP": 0.1}, "low", "AP"), REFUTED, ()),
    ("M03", "a gain", warp(0.05), CONFIRMED, ("In 426 of 426 short lists",)),
    ("M03", "a loss", warp(-0.05), REFUTED, ("In 426 of 426 short lists",)),
    ("M03", "no change", warp(0.0, own=0.005, chance=0.005, training=0.0005), REFUTED, ("In 426 of 426 short lists",)),
    ("M03", "noise", warp(0.02, own=0.5), INCONCLUSIVE, ("In 426 of 426 short lists",)),
    ("T48", "higher scores", tilted(ALL), CONFIRMED, ("higher in 6 of 6 cells and lower in 0",)),
    ("T48", "one higher score", tilted({MOVIELENS: {"nDCG": 0.1}, MQ2008: {}}), CONFIRMED, ()),
    ("T48", "one lower score", tilted({MOVIELENS: {"AP": -0.05}, MQ2008: {}}), REFUTED, ()),
    ("T48", "equal scores", tilted({MOVIELENS: {}, MQ2008: {}}, own=0.001, chance=0.001, training=0.0002), REFUTED, ()),
    ("T48", "both directions", tilted({MOVIELENS: {"nDCG": 0.05, "AP": -0.05}, MQ2008: {}}), INCONCLUSIVE, ()),
    ("T48", "trainings differ", tilted({MOVIELENS: EVERY}, training=0.15), INCONCLUSIVE, ()),
    ("T48", "one seed", tilted({MOVIELENS: {}}, seeds=1, folds=2, training=0.0), INCONCLUSIVE, ()),
    ("T48", "one data set", tilted({MQ2008: EVERY}), CONFIRMED, ()),
]
"""A claim, what is planted, the verdict, and words of its reason."""

OTHER = beside(MOVIELENS, {"rates-low": usual})  # another experiment than the claim's

MISSING: list[tuple[str, str, World, str]] = [
    *((claim, "another experiment", OTHER, name) for claim, name in (("T20", "factors"), ("T49", "ratios"))),
    *((claim, "another experiment", OTHER, name) for claim, name in (("M03", "warp"), ("T48", "tilts"))),
    (
        *("T48", "other boundings of the experiment"),
        *(beside(MOVIELENS, {"tilts-t4": raised(0.1)}, bounds=("distribution(gain=sd)",)), "tilts"),
    ),
    ("T49", "all lists lost negatives", crossed(SAME, SAME, change=all_shorter), "lost negatives"),
    ("M04", "no softmax", one_relevant({}, losses=("RankNet", "AP")), "softmax"),
    (
        *("M03", "lists of ten items", warp(0.0, change=lambda one, rows: rows.with_columns(n=pl.lit(10)))),
        "longer than 10",
    ),
]


def of(cases: list[Any]) -> list[Any]:
    return [pytest.param(claim, *rest, id=f"{claim}: {what}") for claim, what, *rest in cases]


@pytest.mark.parametrize(("claim", "world", "verdict", "words"), of(CASES))
def test_a_plant_is_found(claim: str, world: World, verdict: str, words: tuple[str, ...]) -> None:
    found = verdict_on(claim, world.draw())
    assert found.verdict == verdict, found.reason
    assert [one for one in words if one not in found.reason] == []


@pytest.mark.parametrize(("claim", "world", "message"), of(MISSING))
def test_what_is_missing_is_named(claim: str, world: World, message: str) -> None:
    with pytest.raises(MissingEvidence, match=message):
        verdict_on(claim, world.draw())


def test_a_penalty_that_is_no_error_of_the_top_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "warp_penalty", lambda rank, *_: rank)
    assert verdict_on("M03", warp(0.05).draw()).verdict == REFUTED


@pytest.mark.parametrize(("planted", "value", "words"), [(ALL, 0.05, ""), ({MOVIELENS: {"AP": -0.05}}, -0.05, "AP on")])
def test_tilted_orders_have_the_planted_difference(planted: Any, value: float, words: str) -> None:
    found = verdict_on("T48", tilted(planted).draw())
    assert found.value == pytest.approx(value, abs=0.01)
    assert words in found.statistic
    assert found.low > 0 or found.high < 0
