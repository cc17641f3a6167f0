"""Worlds in which a claim is true, false, at the edge of both, or undecidable, and the verdicts that they must give.

    python -m tests.study.test_calibrations --repetitions 200

draws so many studies of each world and prints the shares of verdicts as a table. Rules find what is true, false and
undecidable, and at the edge err at most at the stated rate.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy import stats

from rankbound_study.claims.methods import trends
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED
from rankbound_study.results.neural import GAP_COLUMNS, SCORE_COLUMNS, FeatureResults
from rankbound_study.vocabulary import BOUNDINGS, LOSSES
from tests.study.planted import RUNS, STUDY, Held, Setting, World, settings, verdicts, where_bounded

WRONG, POWER = 0.05, 0.8
"""Largest share of wrong verdicts, and smallest share of right ones where effects are as large as those published."""

Draw = Callable[[int], Counter[str]]  # counts the verdicts on so many studies


class Case(NamedTuple):
    """A claim, what is true of it in a world whose studies are drawn, and limits of the shares of verdicts."""

    claim: str
    truth: str
    draw: Draw
    at_most: Mapping[str, float]
    at_least: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.claim}: {self.truth}"


LIMITS: Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]] = {
    "true": ({REFUTED: WRONG}, {CONFIRMED: POWER}),
    "false": ({CONFIRMED: WRONG}, {REFUTED: POWER}),
    "undecidable": ({CONFIRMED: WRONG, REFUTED: WRONG}, {INCONCLUSIVE: POWER}),
}
"""What is true in a world, and the limits of its verdicts; at an edge, wrong ones are as frequent as they can be."""


def _case(kind: str, claim: str, what: str, drawn: World | Draw, *wrong: str) -> Case:
    draw = (lambda count: verdicts(claim, drawn, count)) if isinstance(drawn, World) else drawn
    return Case(claim, f"{kind}: {what}", draw, *LIMITS.get(kind, (dict.fromkeys(wrong, WRONG), {})))


true, false, edge, undecidable = (partial(_case, kind) for kind in ("true", "false", "edge", "undecidable"))

TABLE = World(where_bounded(0.0), settings(), topics=40, folds=5, own=0.005, training=0.001, chance=0.01)
"""The cells of Table 5.1; errors of differences are near 0.001, as on MovieLens."""

ONLY_NRBP = replace(TABLE, settings=settings(["nRBP"]), topics=60, folds=3)
ONLY_AP = replace(TABLE, settings=settings(["AP"], ratios=(None,)), topics=100)
NOISY = {"own": 0.3, "chance": 0.3}


def at_ratio_2(there: float, elsewhere: float) -> Callable[[Setting], float]:
    return where_bounded(lambda one: there if one.nsr == 2 else elsewhere)


def in_half(here: float, there: float) -> Callable[[Setting], float]:
    return where_bounded(lambda one: here if one.nsr in (1, 2) else there)


MEANS = [
    true("T23", "no effect", TABLE),
    false("T23", "-0.02 in all cells", replace(TABLE, effect=where_bounded(-0.02))),
    edge("T23", "-0.01 in half of the cells", replace(TABLE, effect=in_half(-0.01, 0.0)), CONFIRMED),
    undecidable("T23", "no effect, in noise", replace(TABLE, **NOISY)),
    true("T30", "+0.02 at all cut-offs", replace(ONLY_AP, effect=where_bounded(0.02))),
    false("T30", "-0.02 at all cut-offs", replace(ONLY_AP, effect=where_bounded(-0.02))),
    edge("T30", "no effect, ten equal cut-offs", ONLY_AP, CONFIRMED, REFUTED),
    true("T45", "+0.006 in all cells", replace(ONLY_NRBP, effect=where_bounded(0.006))),
    false("T45", "-0.006 at ratio 2, +0.006 elsewhere", replace(ONLY_NRBP, effect=at_ratio_2(-0.006, 0.006))),
    edge("T45", "0 at ratio 2, +0.02 elsewhere", replace(ONLY_NRBP, effect=at_ratio_2(0.0, 0.02)), CONFIRMED),
    edge("T45", "+0.001 in all cells", replace(ONLY_NRBP, effect=where_bounded(0.001)), REFUTED),
    undecidable("T45", "+0.006 in all cells, in noise", replace(ONLY_NRBP, effect=where_bounded(0.006), **NOISY)),
    true("T46", "+0.02 in all cells", replace(TABLE, effect=where_bounded(0.02))),
    false("T46", "-0.02 in all cells", replace(TABLE, effect=where_bounded(-0.02))),
    edge("T46", "0 in half of the cells, +0.02 in the others", replace(TABLE, effect=in_half(0.0, 0.02)), CONFIRMED),
    edge("T46", "no effect", TABLE, CONFIRMED, REFUTED),
    true("T28", "-0.02 in all cells", replace(TABLE, effect=where_bounded(-0.02))),
    false("T28", "+0.01 at one ratio", replace(TABLE, effect=where_bounded(lambda one: 0.01 * (one.nsr == 2)))),
    edge("T28", "+0.001 in all cells", replace(TABLE, effect=where_bounded(0.001)), CONFIRMED, REFUTED),
    undecidable("T28", "no effect, in noise", replace(TABLE, **NOISY)),
]


def _collapse(one: Setting) -> bool:
    return one.loss == "nDCG" and one.bounding == "distribution" and one.nsr is not None


COLLAPSED = where_bounded(lambda one: -0.06 if _collapse(one) else 0.0)
SIZES = World(
    COLLAPSED,
    settings(["nDCG", "AP"]),
    topics=600,
    folds=1,
    seeds=1,
    own=0.02,
    relevant=lambda one: 0.1 if _collapse(one) else 0.0,
)


def _of_min_max(size: float) -> Callable[[Setting], float]:
    return lambda one: size if (one.loss, one.bounding, one.nsr) == ("AP", "min-max", 1) else 0.0


def _strength(correlation: float, share: float = 3**-0.5) -> float:
    """Return what the number of relevant items must add for such a correlation with the change of SIZES."""
    error = np.sqrt(2 * (SIZES.own**2 + SIZES.chance**2))
    return float(error * correlation / np.sqrt(1 - correlation**2) / share)


ONE_UP = where_bounded(lambda one: 0.05 if (one.loss, one.bounding) == ("AP", "min-max") else -0.05)
FALLEN = replace(
    TABLE,
    effect=where_bounded(lambda one: -0.15 if _collapse(one) else 0.0),
    scatter=lambda one: 0.2 if _collapse(one) else 0.0,
)
OF_AP = replace(ONLY_AP, settings=settings(["AP"]))

RELATED = replace(TABLE, own=0.0, training=0.0, chance=float(np.sqrt(0.0104 * 0.3 / 0.7)))

LISTS = [
    true("T37", "no effect, 400 topics", replace(OF_AP, topics=400, own=0.002, chance=0.002)),
    false("T37", "+0.05 in all cells", replace(OF_AP, effect=where_bounded(0.05))),
    undecidable("T37", "no effect, 20 topics", replace(OF_AP, topics=20)),
    false("T41", "-0.05 in all cells", replace(TABLE, effect=where_bounded(-0.05))),
    true("T41", "+0.05 with one bound, -0.05 with the others", replace(TABLE, effect=ONE_UP)),
    edge("T41", "no effect", TABLE, CONFIRMED),
    true("T40", "correlations of 0.9, and a collapse", FALLEN),
    false("T40", "one correlation of 0.5", replace(TABLE, topics=100, scatter=_of_min_max(0.16))),
    edge("T40", "all correlations are 0.7", RELATED, CONFIRMED),
    true("T43", "unrelated, and a collapse that is related", SIZES),
    false("T43", "one correlation of 0.5", replace(SIZES, relevant=_of_min_max(_strength(0.5)))),
    edge("T43", "one correlation of 0.21", replace(SIZES, relevant=_of_min_max(_strength(0.22))), CONFIRMED),
    undecidable("T43", "unrelated, 60 users", replace(SIZES, topics=60)),
]

FACTORS = {"factors-f16": -0.004, "": 0.0, "factors-f64": 0.004}
THREE_SIZES = World(
    lambda one: FACTORS[one.variant] + _level(one),
    [*chain(*(settings(ratios=(2,), variant=name) for name in FACTORS))],
    topics=60,
    own=0.004,
    training=0.0005,
    chance=0.004,
)


def _level(one: Setting) -> float:
    return 0.01 * (LOSSES.index(one.loss) * len(BOUNDINGS) + BOUNDINGS.index(one.bounding))


def _swapped(by: float) -> Callable[[Setting], float]:
    """Unbounded AP leads unbounded nDCG by so much at the smallest size, and lags as much behind it at the largest."""

    def effect(one: Setting) -> float:
        sign = {"factors-f16": 1, "factors-f64": -1}.get(one.variant, 0)
        level = 0.5 if one.bounding == "none" and one.loss in ("nDCG", "AP") else _level(one)
        return FACTORS[one.variant] + level + sign * by * (one.loss == "AP") * (level == 0.5)

    return effect


def sgd(gain: float, picked: str = "r2") -> World:
    """SGD at three rates on both data sets, one of which validation prefers."""
    columns = {"movielens": 2, "mq2008": None}
    rates = {f"sgd-{name}-r{rate}": (ratio, rate) for name, ratio in columns.items() for rate in (1, 2, 3)}
    boundings = ("none", "min-max", "distribution")
    of_sgd = [
        replace(one, options=f'{{"learning_rate": {rate}}}')
        for name, (ratio, rate) in rates.items()
        for one in settings(boundings=boundings, ratios=(ratio,), variant=name)
    ]
    return replace(
        THREE_SIZES,
        effect=lambda one: (gain if one.variant else 0.0) + _level(one),
        settings=[*settings(boundings=boundings, ratios=(2, None)), *of_sgd],
        validation=lambda one: 0.5 + 0.1 * one.variant.endswith(picked),
    )


ALL_EQUAL = replace(THREE_SIZES, effect=lambda one: FACTORS[one.variant])

CHOICES = [
    true("T20", "+0.004 with each size, one order", THREE_SIZES),
    false("T20", "two losses exchange places by 0.02", replace(THREE_SIZES, effect=_swapped(0.02))),
    edge("T20", "two losses exchange places by 0.005", replace(THREE_SIZES, effect=_swapped(0.005)), CONFIRMED),
    edge("T20", "+0.004 with each size, all losses equal", ALL_EQUAL, REFUTED),
    undecidable("T20", "+0.004 with each size, in noise", replace(THREE_SIZES, training=0.05)),
    true("T22", "SGD +0.02, one order", sgd(0.02)),
    false("T22", "SGD -0.02, one order", sgd(-0.02)),
    undecidable("T22", "SGD -0.02, the best rate ends the grid", sgd(-0.02, "r3")),
]


def remedied(by_gain: float, by_start: float) -> World:
    """Distribution bounding of nDCG loses 0.04; a smaller gain and another start leave so much of it."""
    names = {"distribution(gain=drawn)": -0.04, "distribution(gain=sd)": -0.04 * by_gain}
    some = [
        *settings(["nDCG"], ["none", "distribution"], (2,)),
        *settings(["nDCG"], list(names), (2,), "gains-other"),
        *settings(["nDCG"], ["none", "distribution"], (2,), "starts-s100"),
    ]

    def effect(one: Setting) -> float:
        if one.bounding == "distribution":
            return -0.04 * (by_start if one.variant else 1.0)
        return names.get(one.bounding, 0.0)

    vanished = ("distribution", ""), ("distribution(gain=drawn)", "gains-other")
    return World(effect, some, own=0.01, gradient=lambda one: 0.1 if (one.bounding, one.variant) in vanished else 1.0)


BY_GAIN = remedied(0.0, 1.0)
SPOILT = replace(BY_GAIN, effect=lambda one: BY_GAIN.effect(one) - 0.2 * one.variant.startswith("starts"))
"""Both losses score 0.2 lower from the other start."""

REMEDIES = [
    true("T27", "both remedies remove the drop", remedied(0.0, 0.0)),
    false("T27", "the start removes nothing", BY_GAIN),
    edge("T27", "half of the drop remains", remedied(0.0, 0.5), CONFIRMED, REFUTED),
    undecidable("T27", "no remedy lifts the gradient", replace(remedied(0.0, 0.0), gradient=lambda one: 1.0)),
    true("T27", "the gain removes the drop, from the other start nothing trains", SPOILT),
]

RANKERS = ("RankNet", "DirectRanker", "Rank-LR", "LambdaMART")
PAIRS = 1200


def _faces(shares: Mapping[str, float], number: int) -> Held:
    """Pair accuracy of rankers on pairs of 1,200 faces, with luck that is half their own."""
    random = np.random.default_rng([number, len(shares)])
    pairs = np.stack([random.permutation(PAIRS), random.permutation(PAIRS)], 1)
    topics = [f"{one} {PAIRS + other}" for one, other in pairs.tolist()]
    shared = random.random(PAIRS)
    parts = []
    for name, share in shares.items():
        luck = np.where(random.random(PAIRS) < 0.5, random.random(PAIRS), shared)
        facts = {"study": "neural", "protocol": "honest", "dataset": "aaf", "model": name, "loss": "RankNet"}
        facts |= {"bounding": "none", "selection": "validation", "options": '{"family": "rank", "model": "mlp"}'}
        of_lists = dict.fromkeys(("fold", "p", "epoch"), 1) | {"seed": 0, "n": 2}
        row = {key: pl.lit(value) for key, value in {**facts, **of_lists}.items()}
        scores = pl.DataFrame({"topic": topics, "PairAccuracy": (luck < share).astype(float)})
        parts.append(scores.with_columns(**row, nsr_test=pl.lit(None, dtype=pl.Int8)))
    return Held(STUDY, RUNS, frames={RUNS: pl.concat(parts)}, with_untrained=True)


def _of_faces(lead: float, over_last: float) -> Callable[[int], Counter[str]]:
    shares = dict.fromkeys(RANKERS, 0.65) | {"RankCNN": 0.65 + lead}
    shares["LambdaMART"] = 0.65 + lead - over_last
    return lambda repetitions: Counter(
        verdict_on("N09", _faces(shares, number)).verdict for number in range(repetitions)
    )


NAMES = ("mq2008-label1", "rank", "RankNet", "Rank-LR")


def _leads(*true_leads: float, error: float = 0.006) -> Callable[[int], Counter[str]]:
    """Gaps of the best network at 5, 20 and 46 features; the trend is their slope on the logarithm of the number."""
    counts = np.array([5, 20, 46])
    slope = np.log10(counts) - np.log10(counts).mean()
    slope /= (slope**2).sum()

    def count(repetitions: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for number in range(repetitions):
            drawn = np.array(true_leads) + np.random.default_rng(number).normal(0, error, len(counts))
            values = [*drawn, float(slope @ drawn)]
            errors = [error] * len(counts) + [error * float(np.sqrt((slope**2).sum()))]
            p_values = 2 * stats.norm.sf(np.abs(np.array(values) / errors))
            gaps = [
                [*NAMES[:2], features, *NAMES[2:], value, value - 1.96 * one, value + 1.96 * one, p_value, 2]
                for features, value, one, p_value in zip((5, 20, 46, None), values, errors, p_values, strict=True)
            ]
            table = pl.DataFrame(gaps, schema=GAP_COLUMNS, orient="row")
            (trend,) = trends(FeatureResults(pl.DataFrame(schema=SCORE_COLUMNS), table))
            found[trend.verdict] += 1
        return found

    return count


METHODS = [
    true("N09", "+0.1 over all others", _of_faces(0.1, 0.1)),
    false("N09", "worse than one, +0.1 over the others", _of_faces(0.1, -0.1)),
    edge("N09", "like one, +0.1 over the others", _of_faces(0.1, 0.0), CONFIRMED),
    undecidable("N09", "like all others", _of_faces(0.0, 0.0)),
    true("N15", "leads of -0.03, 0.01 and 0.05", _leads(-0.03, 0.01, 0.05)),
    false("N15", "leads of 0.05, 0.01 and -0.03", _leads(0.05, 0.01, -0.03)),
    edge("N15", "leads of 0.01, 0.03 and 0.06", _leads(0.01, 0.03, 0.06), CONFIRMED),
    edge("N15", "no leads", _leads(0.0, 0.0, 0.0), CONFIRMED, REFUTED),
    undecidable("N15", "leads of 0, 0.01 and 0.02, in noise", _leads(0.0, 0.01, 0.02, error=0.05)),
]

CASES = [*MEANS, *LISTS, *CHOICES, *REMEDIES, *METHODS]

FEW, MANY = 8, 50
SURPRISE = 1e-4  # a share is beyond its limit if chance would give such a count less often


def check(case: Case, repetitions: int) -> None:
    found = case.draw(repetitions)
    for limits, alternative in ((case.at_most, "greater"), (case.at_least, "less")):
        for verdict, share in limits.items():
            p_value = stats.binomtest(found[verdict], repetitions, share, alternative=alternative).pvalue
            assert p_value > SURPRISE, f"{verdict} in {found[verdict]} of {repetitions} studies, limit {share}: {case}"


@pytest.mark.slow
@pytest.mark.parametrize("case", list({case.claim: case for case in reversed(CASES)}.values())[::3], ids=str)
def test_a_few_studies(case: Case) -> None:
    """Of the first world of every third claim."""
    check(case, FEW)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_many_studies(case: Case) -> None:
    check(case, MANY)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--claims", nargs="*", default=[])
    given = parser.parse_args()
    print("| claim | in truth | confirmed | refuted | inconclusive |", "|---|---|---|---|---|", sep="\n")
    for case in CASES:
        if not given.claims or case.claim in given.claims:
            found = case.draw(given.repetitions)
            shares = [f"{found[of] / given.repetitions:.0%}" for of in (CONFIRMED, REFUTED, INCONCLUSIVE)]
            print(f"| {case.claim} | {case.truth} | {' | '.join(shares)} |", flush=True)
