"""Claims about networks and faces: planted means, shares of pairs, ages and weights decide them."""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neural_studies import PAIRS, SIDE, Planted

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import WEB10K, Methods, energy_inside, face_mask, trend_over_ages
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_TESTABLE, REFUTED, MissingEvidence
from rankbound_study.results.neural import read_pairs

Plant = Callable[[Planted], object]


def named(names: str, values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names.split(), values, strict=True))


def queries(names: str, *means: float, dataset: str = WEB10K, noise: float = 0.01) -> Plant:
    return lambda planted: planted.queries(named(names, means), dataset, noise)


def pairs(names: str, *shares: float, dataset: str = "aaf", **options: Any) -> Plant:
    return lambda planted: planted.pairs(named(names, shares), dataset, **options)


def all_of(*plants: Plant) -> Plant:
    return lambda planted: [plant(planted) for plant in plants]


BOTH_WAYS = "Class-NN RankNet Class-LR Rank-LR"
OTHERS = "RankNet DirectRanker Rank-LR LambdaMART Class-NN Class-LR Class-RF"
FAMILIES = "RankNet Rank-LR Reg-NN Reg-l2 Class-NN Class-LR"
OPTIMISERS = "random RankNet Class-NN RankNet-as-printed Class-NN-as-printed"
HIGH, LOW = 0.7, 0.6
DIRECT = "DirectRanker RankNet"
VGG16 = "synthetic-aaf-vgg16"


def both_ways(*means: float) -> Plant:
    return queries(f"{BOTH_WAYS} random", *means, 0.4)


def alike(of_queries: tuple[float, float], noise: float, of_faces: tuple[float, float], own: float) -> Plant:
    return all_of(queries(DIRECT, *of_queries, dataset="mq2008-label1", noise=noise), pairs(DIRECT, *of_faces, own=own))


def by_features(*leads: float, noise: float = 0.01) -> Plant:
    """RankNet lies above Rank-LR by these leads, with 5, 10 and 46 features."""

    def plant(planted: Planted) -> None:
        for count, lead in zip((5, 10, 46), leads, strict=True):
            means = {f"RankNet-of-{count}": 0.5 + lead, f"Rank-LR-of-{count}": 0.5}
            planted.queries(means, noise=noise, features=count)

    return plant


def moved(moved: tuple[float, float], centred: tuple[float, float]) -> Plant:
    of_moved = pairs("RankCNN-shifted RankNet-shifted", *moved, shift=0.2)
    return all_of(pairs("RankCNN RankNet", *centred), of_moved)


def gains(first: float, second: float, own: float) -> Plant:
    """Of two methods with features of VGG16; a third has none on pixels."""
    on_features = pairs("RankNet Reg-l2 Class-NN", 0.6 + first, 0.6 + second, 0.9, dataset=VGG16, own=own)
    return all_of(pairs("RankNet Reg-l2", 0.6, 0.6, own=own), on_features)


def explaining(ages: np.ndarray, share: float, noise: float = 0.0) -> np.ndarray:
    """Predictions that explain about this share of the variance of the ages."""
    random = np.random.default_rng(0)
    errors = random.standard_normal(len(ages))
    errors = errors / errors.std() * np.sqrt(1 - share) * ages.std()
    return ages + errors * (1 + noise * (random.random(len(ages)) > 0.9))


def explained(best: float, other: float, noise: float = 0.0) -> Plant:
    """The best regression by validation explains such a share, another one another; a ranker knows all ages."""

    def plant(planted: Planted) -> None:
        planted.pairs({"Reg-l2": 0.6, "Reg-NN": 0.7, "RankNet": 0.8})
        ages = planted.true_ages().astype(float)
        of_regressions = [explaining(ages, share, noise) for share in (best, other)]
        planted.ages({**named("Reg-NN Reg-l2", of_regressions), "RankNet": ages})

    return plant


def scored(scores: Callable[[np.ndarray], np.ndarray]) -> Plant:
    """The best method by validation scores faces so, by their ages; another one in the opposite order."""

    def plant(planted: Planted) -> None:
        planted.pairs({"Reg-l2": 0.7, "RankNet": 0.6})
        of_faces = scores(planted.true_ages().astype(float))
        planted.ages({"Reg-l2": of_faces, "RankNet": -of_faces})

    return plant


def nearly(ages: np.ndarray) -> np.ndarray:
    return ages + np.random.default_rng(0).normal(0, 15, len(ages))


def coefficients(inside: float) -> np.ndarray:
    """Weights of which this share of the squares lies in the ellipse."""
    mask = face_mask(SIDE, SIDE)
    weights = np.where(mask, np.sqrt(inside / mask.sum()), np.sqrt((1 - inside) / (~mask).sum()))
    return np.broadcast_to(weights / np.sqrt(3), (3, SIDE, SIDE)).copy()


def weighted(shares: tuple[float, float], inside: tuple[float, float]) -> Plant:
    def plant(planted: Planted) -> None:
        planted.pairs(named("Rank-LR Class-LR", shares)).true_ages()
        for name, share in zip(("Rank-LR", "Class-LR"), inside, strict=True):
            planted.linear(name, coefficients(share))

    return plant


def on_mq2008(dataset: str) -> Plant:
    return queries(BOTH_WAYS, HIGH, LOW, HIGH, LOW, dataset=dataset, noise=0.03)


def on_both(*of_features: float) -> Plant:
    """The network leads on pixels."""
    on_features = pairs("RankNet Rank-LR", *of_features, dataset="aaf-vgg16")
    return all_of(pairs("RankNet Rank-LR", 0.8, 0.6), on_features)


WOULD_BE = "MQ2008 (relevant: label ≥ 1) the same claim would be confirmed"
SHARES = (0.75, 0.6, 0.65, 0.55)
PREFERRED = {"Rank-LR": 0.75, "RankNet": 0.9, "Reg-l2": 0.65, "Class-RF": 0.55}

CASES: list[tuple[str, Plant, str, tuple[str, ...]]] = [
    # One model that ranks better, or as well, refutes it.
    ("N01", both_ways(HIGH, LOW, HIGH, LOW), CONFIRMED, ("random order scores 0.4", "over 100 queries")),
    ("N01", both_ways(LOW, HIGH, HIGH, LOW), REFUTED, ()),
    ("N01", queries(BOTH_WAYS, HIGH, LOW, LOW, LOW, noise=0.003), REFUTED, ()),
    ("N01", queries(BOTH_WAYS, HIGH, LOW, LOW + 0.02, LOW, noise=0.4), INCONCLUSIVE, ()),
    ("N01", on_mq2008("mq2008-label1"), NOT_TESTABLE, (WOULD_BE, "Class-NN minus RankNet +0.")),
    ("N01", on_mq2008("synthetic-mq2008-label1"), NOT_TESTABLE, (WOULD_BE, "synthetic")),
    *((claim, pairs("RankNet", 0.6), NOT_TESTABLE, ()) for claim in ("N01", "N02", "N06")),
    ("N02", queries(OTHERS, LOW, LOW - 0.1, HIGH, HIGH, LOW, HIGH, HIGH), CONFIRMED, ("of 4 other models",)),
    ("N02", queries(OTHERS, LOW - 0.1, LOW, HIGH, HIGH, LOW, HIGH, HIGH), CONFIRMED, ("of 4 other models",)),
    ("N02", queries(OTHERS, LOW, LOW + 0.2, HIGH, HIGH, LOW, HIGH, HIGH), REFUTED, ()),
    ("N02", queries(OTHERS, LOW, LOW, HIGH, HIGH, LOW, HIGH, LOW - 0.1), REFUTED, ()),
    ("N02", queries(OTHERS, LOW, LOW, HIGH, LOW + 0.02, LOW, HIGH, HIGH, noise=0.2), INCONCLUSIVE, ()),
    # A difference that is not found is no likeness; one beyond the margin on either data set refutes it.
    ("N03", alike((0.6, 0.6), 0.01, (0.7, 0.7), 0.01), CONFIRMED, ("MQ2008", "All-Age-Faces")),
    ("N03", alike((0.6, 0.6), 0.01, (0.7, 0.7), 1.0), INCONCLUSIVE, ()),
    ("N03", alike((0.6, 0.6), 0.3, (0.7, 0.7), 0.01), INCONCLUSIVE, ()),
    ("N03", alike((0.63, 0.6), 0.01, (0.7, 0.7), 0.01), REFUTED, ()),
    ("N03", alike((0.6, 0.6), 0.01, (0.7, 0.8), 0.01), REFUTED, ()),
    ("N03", all_of(queries(DIRECT, 0.6, 0.6, dataset="mq2008-label1"), pairs("RankNet", 0.7)), CONFIRMED, ()),
    ("N06", queries(OPTIMISERS, 0.4, 0.4, 0.4, 0.6, 0.6, noise=0.005), CONFIRMED, ()),
    ("N06", queries(OPTIMISERS, 0.4, 0.6, 0.6, 0.6, 0.6), REFUTED, ()),
    ("N06", queries(OPTIMISERS, 0.4, 0.4, 0.4, 0.4, 0.4, noise=0.005), REFUTED, ()),
    ("N06", queries(OPTIMISERS, 0.4, 0.42, 0.42, 0.6, 0.6, noise=0.3), INCONCLUSIVE, ()),
    # Neighbours that are alike refute the order; a difference within chance leaves it open.
    ("N07", pairs("Rank-LR Reg-l2 Class-RF", 0.8, 0.7, 0.6), CONFIRMED, ()),
    ("N07", pairs("Rank-LR Reg-l2 Class-RF", 0.7, 0.8, 0.6), REFUTED, ()),
    ("N07", pairs("Rank-LR Reg-l2 Class-RF", 0.8, 0.6, 0.7), REFUTED, ()),
    ("N07", pairs("Rank-LR Reg-l2 Class-RF", 0.7, 0.7, 0.6, own=0.01), REFUTED, ()),
    ("N07", pairs("Rank-LR Reg-l2 Class-RF", 0.71, 0.70, 0.6), INCONCLUSIVE, ()),
    # The validation part picks the best of a family.
    ("N07", pairs("Rank-LR RankNet Reg-l2 Class-RF", 0.75, 0.6, 0.65, 0.55), CONFIRMED, ()),
    ("N07", pairs("Rank-LR RankNet Reg-l2 Class-RF", *SHARES, validation=PREFERRED), REFUTED, ("RankNet 0.",)),
    # Every method must gain for certain, and none more than a tenth of the pairs.
    ("N08", gains(0.04, 0.05, own=0.01), CONFIRMED, ("Of 2 methods",)),
    ("N08", gains(0.04, -0.05, own=0.01), REFUTED, ()),
    ("N08", gains(0.04, 0.2, own=0.01), REFUTED, ()),
    ("N08", gains(0.2, 0.005, own=1.0), REFUTED, ()),
    ("N08", gains(0.09, 0.005, own=1.0), INCONCLUSIVE, ()),
    ("N08", pairs("RankNet", 0.6), NOT_TESTABLE, ("VGG16",)),
    ("N09", pairs("RankCNN RankNet", 0.7, 0.6), CONFIRMED, ()),
    ("N09", pairs("RankCNN RankNet", 0.6, 0.7), REFUTED, ()),
    ("N09", pairs("RankCNN RankNet", 0.66, 0.65), INCONCLUSIVE, ()),
    ("N10", pairs(FAMILIES, 0.8, 0.6, 0.8, 0.6, 0.8, 0.6), CONFIRMED, ("weights are not available",)),
    ("N10", pairs(FAMILIES, 0.8, 0.6, 0.6, 0.8, 0.8, 0.6), REFUTED, ()),
    ("N10", pairs(FAMILIES, 0.8, 0.6, 0.81, 0.8, 0.8, 0.6), INCONCLUSIVE, ()),
    # A lead on features refutes "hardly".
    ("N10", on_both(0.8, 0.6), REFUTED, ()),
    ("N10", on_both(0.7, 0.7), CONFIRMED, ()),
    # A gain that is not large refutes; one that may be, or weights that are no clearer, leave it open.
    ("N11", weighted((0.8, 0.6), (0.9, 0.5)), CONFIRMED, ("90.0% of the squares", "49.5% of the pixels")),
    ("N11", weighted((0.8, 0.6), (0.5, 0.9)), INCONCLUSIVE, ("50.0% of the squares",)),
    ("N11", weighted((0.57, 0.6), (0.9, 0.5)), REFUTED, ()),
    ("N11", weighted((0.6, 0.8), (0.9, 0.5)), REFUTED, ()),
    ("N11", weighted((0.66, 0.6), (0.9, 0.5)), INCONCLUSIVE, ()),
    ("N11", pairs("Rank-LR Class-LR", 0.8, 0.6), INCONCLUSIVE, ("no weights",)),
    # A lead that was as large on centred faces does not come from moving them.
    ("N12", moved((0.75, 0.5), (0.75, 0.75)), CONFIRMED, ()),
    ("N12", moved((0.5, 0.7), (0.75, 0.75)), REFUTED, ()),
    ("N12", moved((0.75, 0.65), (0.75, 0.64)), INCONCLUSIVE, ()),
    ("N12", moved((0.75, 0.65), (0.95, 0.55)), REFUTED, ()),
    # The share of so few faces is not significantly another than 28 percent.
    ("N13", explained(0.9, 0.1), REFUTED, ("Reg-NN, the best regression by validation, explains ",)),
    ("N13", explained(0.28, 0.1, noise=5.0), REFUTED, ()),
    ("N13", explained(0.28, 0.1), INCONCLUSIVE, ()),
    ("N14", scored(nearly), CONFIRMED, ("31 or more years",)),
    ("N14", scored(lambda ages: -nearly(ages)), REFUTED, ()),
    ("N14", scored(lambda ages: np.random.default_rng(3).random(60)), INCONCLUSIVE, ()),
    ("N15", by_features(-0.1, 0.0, 0.1), CONFIRMED, ("with 5 to", "with 46")),
    ("N15", by_features(0.1, 0.0, -0.1), REFUTED, ()),
    ("N15", by_features(0.1, 0.1, 0.1), REFUTED, ()),
    ("N15", by_features(0.0, 0.01, 0.02, noise=0.4), INCONCLUSIVE, ()),
]
"""A claim, what is planted, its verdict, and words of the reason."""

UNITS = {"N03": 1600, "N07": PAIRS, "N12": PAIRS, "N13": 60}
"""The number of units: without queries that have no relevant document, and the pairs of both data sets."""


@pytest.mark.parametrize(
    ("claim", "plant", "verdict", "words"),
    [pytest.param(*case, id=f"{case[0]}-{case[2]}-{place}") for place, case in enumerate(CASES)],
)
def test_a_plant_is_found(tmp_path: Path, claim: str, plant: Plant, verdict: str, words: tuple[str, ...]) -> None:
    planted = Planted(tmp_path)
    plant(planted)
    found = verdict_on(claim, planted.evidence())
    assert found.verdict == verdict, found.reason
    assert [one for one in words if one not in found.reason] == []
    assert found.n in (UNITS.get(claim, found.n), 100)
    if claim in UNITS:
        assert found.low < found.value < found.high


MOVED = "RankCNN-shifted RankNet-shifted"
MISSING: list[tuple[str, Plant, str]] = [
    ("N03", queries("RankNet", 0.6, dataset="mq2008-label1"), "no runs of both DirectRanker and RankNet"),
    ("N07", pairs("Rank-LR", 0.7), "no validation scores"),
    ("N12", pairs("RankCNN RankNet", 0.7, 0.6), "no methods on moved pictures"),
    ("N12", pairs(MOVED, 0.7, 0.6, shift=0.2), "faces as they are"),
    ("N15", queries("RankNet", 0.5, dataset="mq2008-label1"), "feature_counts"),
]


@pytest.mark.parametrize(("claim", "plant", "message"), MISSING)
def test_what_is_missing_is_named(tmp_path: Path, claim: str, plant: Plant, message: str) -> None:
    planted = Planted(tmp_path)
    plant(planted)
    with pytest.raises(MissingEvidence, match=message):
        verdict_on(claim, planted.evidence())


def of_faces(folder: Path, scores: Callable[[np.ndarray], np.ndarray]) -> Evidence:
    planted = Planted(folder)
    scored(scores)(planted)
    return planted.evidence()


def test_missing_ages_and_predictions_are_named(tmp_path: Path) -> None:
    evidence = of_faces(tmp_path, lambda ages: ages)
    for claim, (name, nothing) in product(("N13", "N14"), (("images", None), ("predictions", ()))):
        with pytest.raises(MissingEvidence, match=name):
            verdict_on(claim, dataclasses.replace(evidence, **{name: nothing}))


def test_methods_that_see_something_else_stand_apart(tmp_path: Path) -> None:
    planted = Planted(tmp_path).pairs({"RankNet": 0.6, "Rank-LR": 0.6})
    planted.pairs({"RankNet-shifted": 0.9}, shift=0.2)
    planted.pairs({"RankNet-of-30": 0.9}, features=30)
    planted.pairs({"LambdaMART-of-900": 0.9, "RankNet-of-900": 0.9}, features=900)
    evidence = planted.evidence()
    assert set(Methods(evidence, "aaf").families) == {"RankNet", "Rank-LR"}
    assert set(Methods(evidence, "aaf", shifted=True).families) == {"RankNet-shifted"}
    every = Methods(evidence, "aaf", width=900)
    assert set(every.families) == {"RankNet", "Rank-LR", "LambdaMART"}
    assert every.mean("RankNet") < 0.7, "the plain one"
    assert every.best(every.of("rank")) == "LambdaMART", "whose epochs stand under its longer name"


def test_28_percent_are_a_margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = Planted(tmp_path).pairs({"Reg-l2": 0.7})
    evidence = planted.ages({"Reg-l2": explaining(planted.true_ages().astype(float), 0.28)}).evidence()
    for low, high, verdict in (
        (0.24, 0.31, CONFIRMED),
        (0.281, 0.285, CONFIRMED),
        (0.275, 0.465, INCONCLUSIVE),
        (0.2, 0.22, REFUTED),
        (0.34, 0.36, REFUTED),
    ):
        found = {"Reg-l2": ((low + high) / 2, low, high, 2000)}
        monkeypatch.setattr("rankbound_study.results.neural.explained", lambda pairs, found=found: found)
        assert (verdict_on("N13", evidence).verdict, verdict_on("N13", evidence).n) == (verdict, 2000)


def test_the_slope_is_that_of_least_squares_and_knows_shared_faces(tmp_path: Path) -> None:
    evidence = of_faces(tmp_path, nearly)
    assert evidence.images is not None
    pairs = read_pairs(evidence.predictions[:1], evidence.images)
    slope, groups = trend_over_ages(pairs)
    years, right = pairs["years"].to_numpy(), pairs["PairAccuracy"].to_numpy()
    group = np.digitize(years, [11, 21, 31])
    assert slope.mean == pytest.approx(np.polyfit(group, right, 1)[0]) == pytest.approx(0.1, abs=0.08)
    of_groups = [right[group == place] for place in range(4)]
    assert list(groups.values()) == [(len(of), pytest.approx(of.mean())) for of in of_groups]
    residuals = right - np.polyval(np.polyfit(group, right, 1), group)
    independent = residuals.std() / np.sqrt(len(group)) / group.std()
    assert slope.standard_error > 1.1 * independent, "60 faces, over a thousand pairs"
    with pytest.raises(MissingEvidence, match="several groups of age differences"):
        trend_over_ages(pairs.filter(pairs["years"] > 30))


def test_the_mask_is_a_centred_ellipse_and_energy_a_share_of_squares() -> None:
    mask = face_mask(100, 100)
    assert mask.mean() == pytest.approx(np.pi * 0.35 * 0.45, abs=0.005)
    assert np.array_equal(mask, mask[::-1, ::-1]) & np.array_equal(mask, mask[::-1])
    assert (mask[6, 50], mask[50, 6]) == (True, False)
    for share in (0.2, 0.9):
        assert energy_inside(coefficients(share), face_mask(SIDE, SIDE)) == pytest.approx(share)
    assert energy_inside(np.zeros((3, SIDE, SIDE)), face_mask(SIDE, SIDE)) is None
