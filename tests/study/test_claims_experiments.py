"""Claims that experiments decide: choices, other test lists, losses and orders; what is planted is what is found."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankbound_study.claims import experiments
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.experiments import FIRST, SPREAD
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import RUN_METRICS
from rankbound_study.vocabulary import BOUNDINGS, JUDGED_BY, UNBOUNDED

LOSSES = ("nDCG", "AP", "nRBP")
BOUNDS = ("none", "min-max", "distribution")
TOPICS, FOLDS, SEEDS = 30, (1, 2), (0, 1, 2)
MOVIELENS, MQ2008 = ("movielens", 2), ("mq2008-label1", None)

Data = tuple[str, int | None]
Level = Callable[[str, str], float]
"""The mean score of a loss and a bounding."""
Row = dict[str, Any]
Made = Callable[[Path], Evidence]
"""Writes the results of a study to a folder."""


def usual(loss: str, bounding: str) -> float:
    return 0.7 + 0.02 * LOSSES.index(loss) + 0.005 * BOUNDS.index(bounding) if bounding in BOUNDS else 0.7


def raised(by: float) -> Level:
    return lambda loss, bounding: usual(loss, bounding) + by


def turned(by: float) -> Level:
    """The losses in the opposite order."""
    return lambda loss, bounding: 1.5 - usual(loss, bounding) + by


def rows(
    cell: Data,
    level: Level,
    variant: str = "",
    losses: tuple[str, ...] = LOSSES,
    bounds: tuple[str, ...] = BOUNDS,
    seeds: tuple[int, ...] = SEEDS,
) -> Iterator[Row]:
    """Trainings of one variant: topics differ, trainings differ by chance."""
    for loss in losses:
        for bounding in bounds:
            for seed in seeds:
                chance = np.random.default_rng([seed, len(loss), len(bounding), len(variant)])
                for topic in range(TOPICS):
                    own = 0.05 * np.sin(topic)
                    for fold in FOLDS if cell[1] else (FOLDS[topic % 2],):
                        score = float(np.clip(level(loss, bounding) + own + chance.normal(0, 0.004), 0, 1))
                        yield {**key(cell, variant, loss, bounding, fold, seed), **of_list(str(topic), score)}


def key(cell: Data, variant: str, loss: str, bounding: str, fold: int, seed: int) -> Row:
    rate = re.search(r"-r([0-9.]+)$", variant)
    return {
        "study": f"thesis@{variant}" if variant else "thesis",
        "protocol": "honest",
        "dataset": cell[0],
        "nsr_train": cell[1],
        "nsr_test": cell[1],
        "model": "model",
        "options": json.dumps({"learning_rate": float(rate[1])} if rate else {}),
        "loss": loss,
        "bounding": bounding,
        "fold": fold,
        "seed": seed,
    }


def of_list(topic: str, score: float) -> Row:
    sizes = {"selection": "validation", "topic": topic, "n": 20, "p": 5, "epoch": 3}
    return {**sizes, **dict.fromkeys(RUN_METRICS, score)}


def epoch(cell: Data, variant: str, loss: str, bounding: str, score: float, norm: float, seed: int = 0) -> Row:
    measured = {"epoch": 1, "part": "validation", "mean_loss": 0.5, "gradient_norm": norm}
    scores = dict.fromkeys(("nDCG", "AP", "nRBP(p=0.95)"), score)
    return {**key(cell, variant, loss, bounding, 1, seed), **measured, **scores}


def evidence(
    folder: Path, own: Iterable[Row], varied: Iterable[Row], epochs: Iterable[Row] = (), more: Iterable[Row] = ()
) -> Evidence:
    """Files of the study's own runs and of its experiments."""
    contents = {"runs": own, "experiments": varied, "epochs": epochs, "experiment_epochs": more}
    paths = {}
    for name, content in contents.items():
        if table := list(content):
            paths[name] = folder / f"{name}.parquet"
            write_table(pa.Table.from_pylist(table), paths[name], "epochs" if "epochs" in name else "runs")
    return Evidence("thesis", **paths)


def factors(small: Level, large: Level, **options: Any) -> Made:
    varied = [*rows(MOVIELENS, small, "factors-f16", **options), *rows(MOVIELENS, large, "factors-f64", **options)]
    return lambda folder: evidence(folder, rows(MOVIELENS, usual), varied)


def widths(narrow: Level, wide: Level) -> Made:
    varied = [
        row
        for name, level in (("w6", narrow), ("w92", wide))
        for row in rows(MQ2008, level, f"widths-{name}", bounds=("none",))
    ]
    return lambda folder: evidence(folder, rows(MQ2008, usual), varied)


def descent(level: Level, rate: str = "r3", **of_lowest: Any) -> Made:
    """One of three rates is good, and validation shows it; with the lowest, only some losses may have trained."""

    def made(folder: Path) -> Evidence:
        varied, more = list[Row](), list[Row]()
        for cell, experiment in ((MOVIELENS, "sgd-movielens"), (MQ2008, "sgd-mq2008")):
            for name in ("r1", "r3", "r9"):
                good, variant = name == rate, f"{experiment}-{name}"
                varied += rows(cell, level if good else raised(-0.3), variant, **(of_lowest if name == "r1" else {}))
                cells = ((loss, bounding) for loss in LOSSES for bounding in BOUNDS)
                more += [epoch(cell, variant, *one, 0.8 if good else 0.4, 1.0) for one in cells]
        return evidence(folder, [*rows(MOVIELENS, usual), *rows(MQ2008, usual)], varied, more=more)

    return made


def vanishing(*, drop: float, gains: float, starts: float, norm: float = 2.0) -> Made:
    """Distribution bounding of nDCG costs so much by itself, with the gain sd, and from other starts."""

    def losing(by: Mapping[str, float]) -> Level:
        return lambda loss, bounding: 0.8 - by.get(bounding, 0.0)

    drawn, sd = "distribution(gain=drawn)", "distribution(gain=sd)"
    norms = {
        ("", "none"): 2.0,
        ("", "distribution"): 0.5,
        ("gains-other", drawn): 0.5,
        ("gains-other", sd): norm,
        ("starts-s50", "none"): 1.0,
        ("starts-s50", "distribution"): norm / 2,
    }
    only: dict[str, Any] = {"losses": ("nDCG",)}

    def made(folder: Path) -> Evidence:
        varied = [
            *rows(MOVIELENS, losing({drawn: 0.1, sd: gains}), "gains-other", **only, bounds=(drawn, sd)),
            *rows(MOVIELENS, losing({"distribution": starts}), "starts-s50", **only, bounds=("none", "distribution")),
        ]
        epochs, more = (
            [
                epoch(MOVIELENS, *cell, 0.5, size * (1 + 0.01 * seed), seed)
                for (variant, bounding), size in norms.items()
                for cell in [(variant, "nDCG", bounding)]
                for seed in SEEDS
                if bool(variant) == of_variants
            ]
            for of_variants in (False, True)
        )
        return evidence(folder, rows(MOVIELENS, losing({"distribution": drop})), varied, epochs, more)

    return made


Gain = Callable[[str, str], float]
"""What bounding changes, by loss and metric."""


def everywhere(by: float) -> Gain:
    return lambda loss, metric: by


def on_own_metric(by: float, on_others: float) -> Gain:
    return lambda loss, metric: by if metric == JUDGED_BY[loss] else on_others


def bounded(
    cell: Data, gain: Gain, variant: str = "", bounds: tuple[str, ...] = BOUNDINGS, noise: float = 0.004
) -> Iterator[Row]:
    """Runs in which all bounded losses differ from the unbounded one by what is planted, on every metric."""
    for loss in LOSSES:
        for bounding in bounds:
            for seed in SEEDS:
                chance = np.random.default_rng([seed, len(loss), len(bounding), len(variant), cell[1] or 0])
                wobble = np.random.default_rng([seed, len(loss), len(variant)]).normal(0, 0.02)
                for topic in range(16):
                    for fold in FOLDS if cell[1] else (FOLDS[topic % 2],):
                        row = {**key(cell, variant, loss, bounding, fold, seed), **of_list(str(topic), 0.6)}
                        own = 0.6 + 0.05 * np.sin(topic) + wobble
                        for metric in JUDGED_BY.values():
                            changed = gain(loss, metric) if bounding != UNBOUNDED else 0.0
                            row[metric] = float(own + changed + chance.normal(0, noise))
                        yield {**row, "nsr_train": 3 if variant else cell[1]}


def crossed(own: Gain, trained_higher: Gain, noise: float = 0.004, change: Callable[[Row], Row] = dict) -> Made:
    def made(folder: Path) -> Evidence:
        runs = [*bounded(MOVIELENS, own, noise=noise), *bounded(MQ2008, own, noise=noise)]
        varied = bounded(MOVIELENS, trained_higher, "ratios-at2", ("none", "distribution"), noise)
        return evidence(folder, runs, filter(None, map(change, varied)))

    return made


def shorter(row: Row) -> Row:
    """Every other list lost a negative, and bounded losses score lower there."""
    lost = int(row["topic"]) % 2
    changed = {metric: row[metric] - 0.2 for metric in JUDGED_BY.values()} if lost and row["bounding"] != "none" else {}
    return {**row, **changed, "n": row["n"] - lost}


def all_shorter(row: Row) -> Row:
    return {**row, "n": row["n"] - 1}


def few(cell: Data) -> Iterator[Row]:
    """Runs of the study that only say which columns there are."""
    return rows(cell, usual, losses=("AP",), bounds=("none",), seeds=(0,))


def one_relevant(
    level: Level, best: Mapping[str, str] | None = None, losses: tuple[str, ...] = ("softmax", "RankNet", "AP")
) -> Made:
    """Two rates, at which losses score by their name and that of the rate; `best` names the rate that is picked."""

    def made(folder: Path) -> Evidence:
        varied = [
            row
            for name in ("usual", "low")
            for row in rows(
                *(MOVIELENS, lambda loss, bounding, at=name: level(loss, at), f"one-relevant-{name}"),
                losses=losses,
                bounds=("none",),
            )
        ]
        more = [
            {
                **epoch(MOVIELENS, row["study"].removeprefix("thesis@"), loss, "none", 0.5, 1.0),
                "RR": 0.9 if picked else 0.1,
            }
            for (study, loss), row in {(row["study"], row["loss"]): row for row in varied}.items()
            for picked in [study.endswith((best or {}).get(loss, "usual"))]
        ]
        return evidence(folder, few(MOVIELENS), varied, more=more)

    return made


def warp(gain: float, noise: float = 0.0, **changes: Any) -> Made:
    def level(loss: str, bounding: str) -> float:
        return 0.6 + gain * (loss == SPREAD)

    def made(folder: Path) -> Evidence:
        varied = [
            {**row, "P@10": row["P@10"] + 0.02 * row["seed"] + float(chance.normal(0, noise)), **changes}
            for cell in (MQ2008, MOVIELENS)
            for chance in [np.random.default_rng(5)]
            for row in rows(cell, level, "warp-p10", losses=(FIRST, SPREAD), bounds=("none",))
        ]
        return evidence(folder, [*few(MQ2008), *few(MOVIELENS)], varied)

    return made


EVERY = dict.fromkeys(LOSSES, 0.05)


def tilted(changes: Mapping[Data, Mapping[str, float]], noise: float = 0.0, seeds: tuple[int, ...] = SEEDS) -> Made:
    """By how much a loss is higher with tilted orders, by data set; `noise` is that of single trainings."""

    def scores(row: Row, change: float) -> dict[str, float]:
        by = change + noise * (1 if (row["seed"] + row["fold"]) % 2 else -1)
        by += 0.0002 * np.sin(7 * int(row["topic"]) + row["seed"])
        return {name: value + by for name, value in row.items() if isinstance(value, float)}

    def made(folder: Path) -> Evidence:
        own = [row for cell in (MOVIELENS, MQ2008) for row in rows(cell, usual, seeds=seeds)]
        named = {"study": "thesis@tilts-t4", "bounding": "distribution(tilt=4)"}
        varied = [
            {**row, **named, **scores(row, change.get(row["loss"], 0.0))}
            for cell, change in changes.items()
            for row in rows(cell, usual, bounds=("distribution",), seeds=seeds)
        ]
        return evidence(folder, own, varied)

    return made


def without(cell: Data, *, level: Level = usual, variant: str = "rates-low", **options: Any) -> Made:
    """Another experiment than the claim's."""
    return lambda folder: evidence(folder, rows(cell, usual), rows(cell, level, variant, **options))


SAME, ALL = everywhere(0.05), {MOVIELENS: EVERY, MQ2008: EVERY}
CASES: list[tuple[str, str, Made, str, tuple[str, ...]]] = [
    ("T20", "a trend without another order", factors(raised(-0.05), raised(0.05)), CONFIRMED, ()),
    ("T20", "a falling trend", factors(raised(0.05), raised(-0.05)), REFUTED, ()),
    ("T20", "another order", factors(raised(-0.05), turned(0.1)), REFUTED, ()),
    ("T20", "a size that did not run", without(MOVIELENS, variant="factors-f16"), INCONCLUSIVE, ("2 of 3 sizes",)),
    ("T20", "one seed", factors(raised(-0.05), raised(0.05), seeds=(0,)), INCONCLUSIVE, ()),
    ("T21", "equal scores", widths(usual, raised(0.001)), CONFIRMED, ()),
    ("T21", "one width far off", widths(raised(-0.05), usual), REFUTED, ()),
    ("T21", "a difference at the margin", widths(raised(-0.01), usual), INCONCLUSIVE, ()),
    ("T22", "better everywhere in the same order", descent(raised(0.03)), CONFIRMED, ()),
    (
        "T22",
        "the lowest rate",
        descent(raised(0.03), "r1"),
        INCONCLUSIVE,
        ("at an end of the grid for 9 of 9 on MovieLens",),
    ),
    (
        "T22",
        "the highest rate",
        descent(raised(0.03), "r9"),
        INCONCLUSIVE,
        ("at an end of the grid for 9 of 9 on MovieLens",),
    ),
    (
        *("T22", "most did not train at the lowest rate"),
        *(descent(raised(0.03), losses=("nDCG",), bounds=("none",)), CONFIRMED),
        ("better than Adam in 18 of 18 distinct losses",),
    ),
    ("T22", "worse at the end of the grid", descent(raised(-0.03), "r9"), INCONCLUSIVE, ()),
    ("T22", "worse everywhere", descent(raised(-0.03)), REFUTED, ()),
    ("T22", "another order", descent(turned(0.2)), REFUTED, ()),
    (
        *("T27", "every remedy removes the drop", vanishing(drop=0.1, gains=0.0, starts=0.003), CONFIRMED),
        ("with the gain sd (gradient times 4)", "gradient is not significantly larger: the gain drawn"),
    ),
    ("T27", "the drop stays", vanishing(drop=0.1, gains=0.1, starts=0.09), REFUTED, ()),
    ("T27", "one remedy fails", vanishing(drop=0.1, gains=0.0, starts=0.1), REFUTED, ()),
    ("T27", "half of the drop stays", vanishing(drop=0.1, gains=0.0, starts=0.05), INCONCLUSIVE, ()),
    (
        *("T27", "no gradient is lifted", vanishing(drop=0.1, gains=0.1, starts=0.1, norm=0.5), INCONCLUSIVE),
        ("no remedy, as the gradient is not significantly larger",),
    ),
    ("T27", "no drop", vanishing(drop=0.0, gains=0.0, starts=0.0), INCONCLUSIVE, ("no drop to explain",)),
    (
        *("T49", "verdicts turn on both sides", crossed(on_own_metric(0.05, -0.05), everywhere(-0.05)), CONFIRMED),
        ("3 of 3 verdicts", "40 of 40 differences have significantly opposite signs"),
    ),
    ("T49", "the same verdicts", crossed(SAME, SAME), REFUTED, ()),
    ("T49", "differences within the noise", crossed(everywhere(0.002), everywhere(-0.002)), REFUTED, ()),
    # Effects are the same, and significant, on all metrics; seeds differ on the own metric alone.
    ("T49", "the margin of one metric", crossed(on_own_metric(0.05, 0.004), everywhere(-0.05)), INCONCLUSIVE, ()),
    ("T49", "the ratio alone", crossed(SAME, everywhere(-0.05)), REFUTED, ()),
    ("T49", "the metric alone", crossed(on_own_metric(0.05, -0.05), on_own_metric(0.05, -0.05)), REFUTED, ()),
    ("T49", "lists that lost what was seen", crossed(SAME, SAME, change=shorter), REFUTED, ()),
    ("T49", "noise", crossed(everywhere(0.01), everywhere(0.0), noise=0.3), INCONCLUSIVE, ()),
    ("M04", "all alike", one_relevant(lambda loss, at: 0.6), CONFIRMED, ()),
    ("M04", "softmax is better", one_relevant(lambda loss, at: 0.6 + 0.1 * (loss == "softmax")), CONFIRMED, ()),
    (
        "M04",
        "AP is better",
        one_relevant(lambda loss, at: 0.6 + 0.05 * (loss == "AP")),
        REFUTED,
        ("lowest against AP",),
    ),
    ("M04", "at the margin", one_relevant(lambda loss, at: 0.6 + 0.01 * (loss == "AP")), INCONCLUSIVE, ()),
    (
        "M04",
        "AP at another rate",
        one_relevant(lambda loss, at: 0.6 + 0.1 * ((loss, at) == ("AP", "low"))),
        CONFIRMED,
        (),
    ),
    (
        *("M04", "AP at its picked rate"),
        *(one_relevant(lambda loss, at: 0.6 + 0.1 * ((loss, at) == ("AP", "low")), {"AP": "low"}), REFUTED, ()),
    ),
    ("M03", "a gain", warp(0.05), CONFIRMED, ("In 426 of 426 short lists",)),
    ("M03", "a loss", warp(-0.05), REFUTED, ("In 426 of 426 short lists",)),
    ("M03", "no change", warp(0.0), REFUTED, ("In 426 of 426 short lists",)),
    ("M03", "noise", warp(0.02, 0.5), INCONCLUSIVE, ("In 426 of 426 short lists",)),
    ("T48", "higher scores", tilted(ALL), CONFIRMED, ("higher in 6 of 6 cells and lower in 0",)),
    ("T48", "one higher score", tilted({MOVIELENS: {"nDCG": 0.1}, MQ2008: {}}), CONFIRMED, ()),
    ("T48", "one lower score", tilted({MOVIELENS: {"AP": -0.05}, MQ2008: {}}), REFUTED, ()),
    ("T48", "equal scores", tilted({MOVIELENS: {}, MQ2008: {}}), REFUTED, ()),
    ("T48", "both directions", tilted({MOVIELENS: {"nDCG": 0.05, "AP": -0.05}, MQ2008: {}}), INCONCLUSIVE, ()),
    ("T48", "trainings differ", tilted({MOVIELENS: EVERY}, noise=0.15), INCONCLUSIVE, ()),
    ("T48", "one seed", tilted({MOVIELENS: {}}, seeds=(0,)), INCONCLUSIVE, ("one seed",)),
    ("T48", "one data set", tilted({MQ2008: EVERY}), CONFIRMED, ()),
]
"""A claim, what is planted, the verdict, and words of its reason."""

MISSING: list[tuple[str, str, Made, str]] = [
    ("T20", "another experiment", without(MOVIELENS), "factors"),
    ("T49", "another experiment", without(MOVIELENS), "ratios"),
    ("M03", "another experiment", without(MQ2008, variant="widths-w6"), "warp"),
    ("T48", "another experiment", without(MOVIELENS), "tilts"),
    (
        *("T48", "other boundings of the experiment"),
        *(without(MOVIELENS, level=raised(0.1), variant="tilts-t4", bounds=("distribution(gain=sd)",)), "tilts"),
    ),
    ("T49", "all lists lost negatives", crossed(SAME, SAME, change=all_shorter), "lost negatives"),
    ("M04", "no softmax", one_relevant(lambda loss, at: 0.6, losses=("RankNet", "AP")), "softmax"),
    ("M03", "lists of ten items", warp(0.0, n=10), "longer than 10"),
]


def of(cases: list[Any]) -> list[Any]:
    return [pytest.param(claim, *rest, id=f"{claim}: {what}") for claim, what, *rest in cases]


@pytest.mark.parametrize(("claim", "made", "verdict", "words"), of(CASES))
def test_a_plant_is_found(tmp_path: Path, claim: str, made: Made, verdict: str, words: tuple[str, ...]) -> None:
    found = verdict_on(claim, made(tmp_path))
    assert found.verdict == verdict, found.reason
    assert [one for one in words if one not in found.reason] == []


@pytest.mark.parametrize(("claim", "made", "message"), of(MISSING))
def test_what_is_missing_is_named(tmp_path: Path, claim: str, made: Made, message: str) -> None:
    with pytest.raises(MissingEvidence, match=message):
        verdict_on(claim, made(tmp_path))


def test_a_penalty_that_is_no_error_of_the_top_refutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "warp_rank", lambda scores, true: int((scores > scores[true]).sum()))
    assert verdict_on("M03", warp(0.05)(tmp_path)).verdict == REFUTED


@pytest.mark.parametrize(("planted", "value", "words"), [(ALL, 0.05, ""), ({MOVIELENS: {"AP": -0.05}}, -0.05, "AP on")])
def test_tilted_orders_have_the_planted_difference(tmp_path: Path, planted: Any, value: float, words: str) -> None:
    found = verdict_on("T48", tilted(planted)(tmp_path))
    assert found.value == pytest.approx(value, abs=0.01)
    assert words in found.statistic
    assert found.p_value < 0.05
