"""Claims about faces in pairs: planted shares of rightly ordered pairs decide them."""

from pathlib import Path

import pytest
from planted_methods import PAIRS, Planted

from rankbound_study.claims.methods import read_methods
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import MissingEvidence


@pytest.mark.parametrize(
    ("shares", "own", "verdict"),
    [
        ((0.8, 0.7, 0.6), 1.0, "confirmed"),
        ((0.7, 0.8, 0.6), 1.0, "refuted"),
        ((0.8, 0.6, 0.7), 1.0, "refuted"),
        ((0.7, 0.7, 0.6), 0.01, "refuted"),
        ((0.71, 0.70, 0.6), 1.0, "inconclusive"),
    ],
)
def test_families(tmp_path: Path, shares: tuple[float, ...], own: float, verdict: str) -> None:
    """Neighbours that are alike refute the order; a difference within chance leaves it open."""
    planted = Planted(tmp_path).pairs(dict(zip(("Rank-LR", "Reg-l2", "Class-RF"), shares, strict=True)), own=own)
    found = verdict_on("N07", planted.evidence())
    assert found.verdict == verdict
    assert found.n == PAIRS
    assert found.low < found.value < found.high


def test_the_validation_part_picks_the_best_of_a_family(tmp_path: Path) -> None:
    shares = {"Rank-LR": 0.75, "RankNet": 0.6, "Reg-l2": 0.65, "Class-RF": 0.55}
    validation = {**shares, "RankNet": 0.9}
    by_luck = Planted(tmp_path / "a").pairs(shares).evidence()
    assert verdict_on("N07", by_luck).verdict == "confirmed"
    found = verdict_on("N07", Planted(tmp_path / "b").pairs(shares, validation=validation).evidence())
    assert found.verdict == "refuted"
    assert "RankNet 0." in found.reason


def test_a_family_that_did_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="no validation scores"):
        verdict_on("N07", Planted(tmp_path).pairs({"Rank-LR": 0.7}).evidence())


@pytest.mark.parametrize(
    ("shares", "verdict"), [((0.7, 0.6), "confirmed"), ((0.6, 0.7), "refuted"), ((0.66, 0.65), "inconclusive")]
)
def test_convolution(tmp_path: Path, shares: tuple[float, float], verdict: str) -> None:
    planted = Planted(tmp_path).pairs(dict(zip(("RankCNN", "RankNet"), shares, strict=True)))
    assert verdict_on("N09", planted.evidence()).verdict == verdict


@pytest.mark.parametrize(
    ("moved", "centred", "verdict"),
    [
        ((0.75, 0.5), (0.75, 0.75), "confirmed"),
        ((0.5, 0.7), (0.75, 0.75), "refuted"),
        ((0.75, 0.65), (0.75, 0.64), "inconclusive"),
        ((0.75, 0.65), (0.95, 0.55), "refuted"),
    ],
)
def test_moved_faces(tmp_path: Path, moved: tuple[float, float], centred: tuple[float, float], verdict: str) -> None:
    """A lead that was as large on centred faces does not come from moving them."""
    planted = Planted(tmp_path).pairs(dict(zip(("RankCNN", "RankNet"), centred, strict=True)))
    planted.pairs(dict(zip(("RankCNN-shifted", "RankNet-shifted"), moved, strict=True)), shift=0.2)
    found = verdict_on("N12", planted.evidence())
    assert (found.verdict, found.n) == (verdict, PAIRS)


def test_moved_faces_take_both_comparisons(tmp_path: Path) -> None:
    plain = {"RankCNN": 0.7, "RankNet": 0.6}
    with pytest.raises(MissingEvidence, match="no methods on moved pictures"):
        verdict_on("N12", Planted(tmp_path / "a").pairs(plain).evidence())
    moved = {f"{name}-shifted": share for name, share in plain.items()}
    with pytest.raises(MissingEvidence, match="faces as they are"):
        verdict_on("N12", Planted(tmp_path / "b").pairs(moved, shift=0.2).evidence())


def test_methods_that_see_something_else_stand_apart(tmp_path: Path) -> None:
    planted = Planted(tmp_path).pairs({"RankNet": 0.6, "Rank-LR": 0.6})
    planted.pairs({"RankNet-shifted": 0.9}, shift=0.2)
    planted.pairs({"RankNet-of-30": 0.9}, features=30)
    planted.pairs({"LambdaMART-of-900": 0.9, "RankNet-of-900": 0.9}, features=900)
    evidence = planted.evidence()
    assert set(read_methods(evidence, "aaf").families) == {"RankNet", "Rank-LR"}
    assert set(read_methods(evidence, "aaf", shifted=True).families) == {"RankNet-shifted"}
    every = read_methods(evidence, "aaf", width=900)
    assert set(every.families) == {"RankNet", "Rank-LR", "LambdaMART"}
    assert every.mean("RankNet") < 0.7, "the plain one"
    assert every.best(every.of("rank")) == "LambdaMART", "whose epochs stand under its longer name"


FAMILIES = ("RankNet", "Rank-LR", "Reg-NN", "Reg-l2", "Class-NN", "Class-LR")


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.8, 0.6, 0.8, 0.6, 0.8, 0.6), "confirmed"),
        ((0.8, 0.6, 0.6, 0.8, 0.8, 0.6), "refuted"),
        ((0.8, 0.6, 0.81, 0.8, 0.8, 0.6), "inconclusive"),
    ],
)
def test_networks_lead_on_pixels(tmp_path: Path, shares: tuple[float, ...], verdict: str) -> None:
    planted = Planted(tmp_path).pairs(dict(zip(FAMILIES, shares, strict=True)))
    found = verdict_on("N10", planted.evidence())
    assert found.verdict == verdict
    assert "weights are not available" in found.reason


def test_a_lead_on_features_refutes_hardly(tmp_path: Path) -> None:
    shares = {"RankNet": 0.8, "Rank-LR": 0.6}
    for name, features, verdict in (("a", shares, "refuted"), ("b", dict.fromkeys(shares, 0.7), "confirmed")):
        planted = Planted(tmp_path / name).pairs(shares).pairs(features, "aaf-vgg16")
        assert verdict_on("N10", planted.evidence()).verdict == verdict


@pytest.mark.parametrize(
    ("gains", "own", "verdict"),
    [
        ((0.04, 0.05), 0.01, "confirmed"),
        ((0.04, -0.05), 0.01, "refuted"),
        ((0.04, 0.2), 0.01, "refuted"),
        ((0.2, 0.005), 1.0, "refuted"),
        ((0.09, 0.005), 1.0, "inconclusive"),
    ],
)
def test_features_of_vgg16(tmp_path: Path, gains: tuple[float, float], own: float, verdict: str) -> None:
    """Every method must gain for certain, and none more than a tenth of the pairs."""
    methods = ("RankNet", "Reg-l2")
    planted = Planted(tmp_path).pairs(dict.fromkeys(methods, 0.6), own=own)
    planted.pairs(
        {"RankNet": 0.6 + gains[0], "Reg-l2": 0.6 + gains[1], "Class-NN": 0.9}, "synthetic-aaf-vgg16", own=own
    )
    found = verdict_on("N08", planted.evidence())
    assert found.verdict == verdict
    assert "Of 2 methods" in found.reason


def test_without_vgg16_it_is_said(tmp_path: Path) -> None:
    found = verdict_on("N08", Planted(tmp_path).pairs({"RankNet": 0.6}).evidence())
    assert found.verdict == "not testable here"
    assert "VGG16" in found.reason
