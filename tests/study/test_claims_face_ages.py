"""Claims about ages and weights: planted predictions and coefficients decide them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from planted_methods import Planted
from synthetic_comparisons import SIDE

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.faces import Trend, energy_inside, face_mask
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.results.neural_pairs import read_pairs, with_readings


def explaining(ages: np.ndarray, share: float, noise: float = 0.0) -> np.ndarray:
    """Predictions that explain about this share of the variance of the ages."""
    random = np.random.default_rng(0)
    errors = random.standard_normal(len(ages))
    errors = errors / errors.std() * np.sqrt(1 - share) * ages.std()
    return ages + errors * (1 + noise * (random.random(len(ages)) > 0.9))


@pytest.mark.parametrize(
    ("shares", "noise", "verdict"),
    [((0.9, 0.1), 0.0, "refuted"), ((0.28, 0.1), 5.0, "refuted"), ((0.28, 0.1), 0.0, "inconclusive")],
)
def test_variance_explained(tmp_path: Path, shares: tuple[float, float], noise: float, verdict: str) -> None:
    """The best by validation counts; the share of so few faces is not significantly another than 28 percent."""
    planted = Planted(tmp_path).pairs({"Reg-l2": 0.6, "Reg-NN": 0.7, "RankNet": 0.8})
    ages = planted.true_ages().astype(float)
    scores = [explaining(ages, share, noise) for share in shares]
    planted.ages(dict(zip(("Reg-NN", "Reg-l2"), scores, strict=True)) | {"RankNet": ages})
    found = verdict_on("N13", planted.evidence())
    assert found.verdict == verdict
    assert found.n == 60
    assert found.low < found.value < found.high
    assert "Reg-NN, the best regression by validation, explains " in found.reason
    assert "RankNet" not in found.reason


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [
        (0.24, 0.27, 0.31, "confirmed"),
        (0.281, 0.283, 0.285, "confirmed"),
        (0.275, 0.37, 0.465, "inconclusive"),
        (0.2, 0.21, 0.22, "refuted"),
        (0.34, 0.35, 0.36, "refuted"),
    ],
)
def test_28_percent_are_a_margin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: float, value: float, high: float, verdict: str
) -> None:
    planted = Planted(tmp_path).pairs({"Reg-l2": 0.7}).ages({})
    planted.ages({"Reg-l2": explaining(planted.true_ages().astype(float), 0.28)})
    monkeypatch.setattr("rankbound_study.claims.faces.explained", lambda pairs: {"Reg-l2": (value, low, high, 2000)})
    found = verdict_on("N13", planted.evidence())
    assert (found.verdict, found.n) == (verdict, 2000)


def scored(tmp_path: Path, scores: np.ndarray) -> Evidence:
    planted = Planted(tmp_path).pairs({"Reg-l2": 0.7, "RankNet": 0.6})
    planted.true_ages()
    return planted.ages({"Reg-l2": scores, "RankNet": -scores}).evidence()


def test_close_pairs_are_the_wrong_ones(tmp_path: Path) -> None:
    ages = Planted(tmp_path).true_ages().astype(float)
    noisy = ages + np.random.default_rng(0).normal(0, 15, len(ages))
    found = verdict_on("N14", scored(tmp_path / "rising", noisy))
    assert found.verdict == "confirmed"
    assert found.low > 0
    assert found.value == pytest.approx(0.1, abs=0.08)
    assert "31 or more years" in found.reason


def test_far_pairs_are_the_wrong_ones(tmp_path: Path) -> None:
    """Scores in the reverse order."""
    ages = Planted(tmp_path).true_ages().astype(float)
    noisy = ages + np.random.default_rng(0).normal(0, 15, len(ages))
    found = verdict_on("N14", scored(tmp_path / "falling", -noisy))
    assert found.verdict == "refuted"
    assert found.high < 0


def test_random_scores_say_nothing_of_gaps(tmp_path: Path) -> None:
    random = np.random.default_rng(3).random(60)
    assert verdict_on("N14", scored(tmp_path, random)).verdict == "inconclusive"


def test_the_slope_is_that_of_least_squares_and_knows_shared_faces(tmp_path: Path) -> None:
    ages = Planted(tmp_path / "ages").true_ages().astype(float)
    evidence = scored(tmp_path, ages + np.random.default_rng(0).normal(0, 15, len(ages)))
    assert evidence.images is not None
    pairs = with_readings(read_pairs(evidence.predictions[:1], evidence.images))
    trend = Trend.of(pairs)
    years, right = pairs["years"].to_numpy(), pairs["PairAccuracy"].to_numpy()
    group = np.digitize(years, [11, 21, 31])
    assert trend.slope.mean == pytest.approx(np.polyfit(group, right, 1)[0])
    assert sum(trend.counts) == len(pairs)
    np.testing.assert_allclose(trend.accuracy, [right[group == place].mean() for place in range(4)])
    residuals = right - np.polyval(np.polyfit(group, right, 1), group)
    independent = residuals.std() / np.sqrt(len(group)) / group.std()
    assert trend.slope.standard_error > 1.1 * independent, "60 faces, over a thousand pairs"


def test_one_gap_has_no_trend(tmp_path: Path) -> None:
    ages = Planted(tmp_path / "ages").true_ages().astype(float)
    evidence = scored(tmp_path, ages)
    assert evidence.images is not None
    pairs = with_readings(read_pairs(evidence.predictions[:1], evidence.images))
    with pytest.raises(MissingEvidence, match="several groups of age differences"):
        Trend.of(pairs.filter(pairs["years"] > 30))


@pytest.mark.parametrize("without", ["images", "predictions"])
def test_what_is_missing_is_named(tmp_path: Path, without: str) -> None:
    evidence = scored(tmp_path, np.arange(60.0))
    less = dataclasses.replace(evidence, **{without: None if without == "images" else ()})
    for decide in ("N13", "N14"):
        with pytest.raises(MissingEvidence, match=without):
            verdict_on(decide, less)


# Weights


def coefficients(inside: float) -> np.ndarray:
    """Weights of which this share of the squares lies in the ellipse."""
    mask = face_mask(SIDE, SIDE)
    weights = np.where(mask, np.sqrt(inside / mask.sum()), np.sqrt((1 - inside) / (~mask).sum()))
    return np.broadcast_to(weights / np.sqrt(3), (3, SIDE, SIDE)).copy()


def test_the_mask_is_a_centred_ellipse() -> None:
    mask = face_mask(100, 100)
    assert mask.mean() == pytest.approx(np.pi * 0.35 * 0.45, abs=0.005)
    assert np.array_equal(mask, mask[::-1])
    assert np.array_equal(mask, mask[:, ::-1])
    assert mask[6, 50]
    assert not mask[50, 6]


def test_energy_is_a_share_of_squares() -> None:
    mask = face_mask(SIDE, SIDE)
    for share in (0.2, 0.9):
        assert energy_inside(coefficients(share), mask) == pytest.approx(share)
    assert energy_inside(np.zeros((3, SIDE, SIDE)), mask) is None


@pytest.mark.parametrize(
    ("shares", "inside", "verdict"),
    [
        ((0.8, 0.6), (0.9, 0.5), "confirmed"),
        ((0.8, 0.6), (0.5, 0.9), "inconclusive"),
        ((0.57, 0.6), (0.9, 0.5), "refuted"),
        ((0.6, 0.8), (0.9, 0.5), "refuted"),
        ((0.66, 0.6), (0.9, 0.5), "inconclusive"),
    ],
)
def test_pairs_against_labels(
    tmp_path: Path, shares: tuple[float, float], inside: tuple[float, float], verdict: str
) -> None:
    """A gain that is not large refutes; one that may be, or weights that are no clearer, leave it open."""
    names = ("Rank-LR", "Class-LR")
    planted = Planted(tmp_path).pairs(dict(zip(names, shares, strict=True)))
    planted.true_ages()
    for name, share in zip(names, inside, strict=True):
        planted.linear(name, coefficients(share))
    found = verdict_on("N11", planted.evidence())
    assert found.verdict == verdict
    assert f"{inside[0]:.1%} of the squares" in found.reason
    assert "49.5% of the pixels" in found.reason


def test_without_weights_a_gain_is_not_enough(tmp_path: Path) -> None:
    planted = Planted(tmp_path).pairs({"Rank-LR": 0.8, "Class-LR": 0.6})
    found = verdict_on("N11", planted.evidence())
    assert found.verdict == "inconclusive"
    assert "no weights" in found.reason
